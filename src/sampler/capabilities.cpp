#include "sampler/capabilities.h"

#include <algorithm>
#include <cmath>

namespace sab {
namespace {

bool can_be_lowered(const Budget& budget) {
    return !budget.cost.is_callback();
}

}  // namespace

uint64_t capabilities(Sampler& sampler) {
    uint64_t found = 0;
    if (sampler.known_batch_count()) found |= SAB_SAMPLER_BATCH_COUNT;
    RandomAccess* const own = sampler.random_access();
    if (own == nullptr) return found;
    const Cursor& cursor = own->cursor();
    found |= SAB_SAMPLER_RANDOM_ACCESS;
    if (cursor.has_adjustable_budget() &&
        std::ranges::any_of(cursor.plan().budgets(), can_be_lowered))
        found |= SAB_SAMPLER_BUDGET;
    if (!cursor.sequence().has_others()) found |= SAB_SAMPLER_SCHEDULE;
    return found;
}

Cursor& need_all_ranks(Sampler& sampler, const char* function) {
    RandomAccess* const found = sampler.random_access();
    if (found == nullptr)
        fail(SAB_E_UNSUPPORTED, function,
             ": this sampler has no random access: read its batches one after the other");
    if (found->cursor().sequence().has_others())
        fail(SAB_E_UNSUPPORTED, function,
             ": this sampler does not know the samples of the other ranks: read the batches of "
             "each rank there");
    return found->cursor();
}

RandomAccess& need_random_access(Sampler& sampler, const char* function) {
    RandomAccess* const found = sampler.random_access();
    if (found == nullptr) fail(SAB_E_UNSUPPORTED, function, ": this sampler has no random access");
    return *found;
}

Cursor& need_budget(Sampler& sampler, std::size_t index, const char* function) {
    RandomAccess* const found = sampler.random_access();
    if (found == nullptr || !found->cursor().has_adjustable_budget())
        fail(SAB_E_UNSUPPORTED, function, ": this sampler's batches are not a plan's: ",
             sampler.kind() == kind_of("sab_balanced_sampler_new")
                 ? "restore its state into a sampler with the new budget"
                 : "make a sampler with the new budget, for the next epoch");
    const std::span<const Budget> budgets = found->cursor().plan().budgets();
    if (std::ranges::none_of(budgets, can_be_lowered))
        fail(SAB_E_UNSUPPORTED, function,
             ": the costs of the plan's budgets are callbacks, which it does not keep: use a cost "
             "of terms");
    check(index < budgets.size(), "index", index, "must be below the number of budgets, ",
          budgets.size());
    return found->cursor();
}

Cursor& need_lowerable(Sampler& sampler, std::size_t index, const char* function) {
    Cursor& found = need_budget(sampler, index, function);
    if (!can_be_lowered(found.plan().budgets()[index]))
        fail(SAB_E_UNSUPPORTED, function, ": the cost of budget ", index,
             " is a callback, which the plan does not keep: use a cost of terms");
    return found;
}

Cursor& need_plan(Sampler& sampler, const char* function) {
    RandomAccess* const found = sampler.random_access();
    if (found == nullptr || found->cursor().sequence().plan() == nullptr)
        fail(SAB_E_UNSUPPORTED, function, ": this sampler's batches are not a plan's");
    return found->cursor();
}

uint64_t need_batch_count(const Sampler& sampler, const char* function) {
    const std::optional<uint64_t> count = sampler.known_batch_count();
    if (!count)
        fail(SAB_E_UNSUPPORTED, function,
             ": this sampler has no random access, and the number of its batches is not known "
             "before they are formed");
    return *count;
}

void need_kind(const Sampler& sampler, const char* constructor) {
    if (sampler.kind() != kind_of(constructor))
        refuse_argument("sampler", no_value, "must be one of ", constructor);
}

void set_limit(Sampler& sampler, std::size_t index, double limit) {
    check(limit >= 0 && std::isfinite(limit), "limit", limit, "must be finite and not negative");
    need_lowerable(sampler, index, "sab_sampler_set_budget").prepare_limit(index, limit).commit();
}

void seek(Sampler& sampler, uint64_t position) {
    if (position == 0 && sampler.random_access() == nullptr)
        sampler.set_epoch(sampler.epoch());
    else
        need_random_access(sampler, "sab_sampler_seek to a position above 0").seek(position);
}

}  // namespace sab
