#include "sampler/capabilities.h"

namespace sab {
namespace {

bool is_priced_by_callback(AdjustableBudget& adjustable) {
    return adjustable.plan().facts().cost == SAB_COST_CALLBACK;
}

}  // namespace

uint64_t capabilities(Sampler& sampler) {
    uint64_t found = 0;
    if (sampler.known_batch_count()) found |= SAB_SAMPLER_BATCH_COUNT;
    if (sampler.random_access() != nullptr) found |= SAB_SAMPLER_RANDOM_ACCESS;
    AdjustableBudget* const adjustable = sampler.adjustable_budget();
    if (adjustable != nullptr && !is_priced_by_callback(*adjustable)) found |= SAB_SAMPLER_BUDGET;
    return found;
}

RandomAccess& need_random_access(Sampler& sampler, const char* function) {
    RandomAccess* const found = sampler.random_access();
    if (found == nullptr) fail(SAB_E_UNSUPPORTED, function, ": this sampler has no random access");
    return *found;
}

AdjustableBudget& need_budget(Sampler& sampler, const char* function) {
    AdjustableBudget* const found = sampler.adjustable_budget();
    if (found == nullptr)
        fail(SAB_E_UNSUPPORTED, function, ": this sampler's batches are not a plan's");
    if (is_priced_by_callback(*found))
        fail(SAB_E_UNSUPPORTED, function,
             ": the plan was priced by a callback, which is not kept: price it by terms");
    return *found;
}

uint64_t need_batch_count(const Sampler& sampler, const char* function) {
    const std::optional<uint64_t> count = sampler.known_batch_count();
    if (!count)
        fail(SAB_E_UNSUPPORTED, function,
             ": this sampler has no random access, and the number of its batches is not known "
             "before they are formed");
    return *count;
}

void need_kind(const Sampler& sampler, SamplerKind kind, const char* constructor) {
    if (sampler.kind() != kind) fail(SAB_E_ARGUMENT, "sampler: must be one of ", constructor);
}

void seek(Sampler& sampler, uint64_t position) {
    if (position == 0 && sampler.random_access() == nullptr)
        sampler.set_epoch(sampler.epoch());
    else
        need_random_access(sampler, "sab_sampler_seek to a position above 0").seek(position);
}

}  // namespace sab
