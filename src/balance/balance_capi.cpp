#include <cmath>
#include <tuple>

#include "balance/balanced.h"
#include "balance/load_balancing.h"
#include "balance/partition.h"
#include "balance/ranks.h"
#include "base/guard.h"
#include "sab/balance.h"
#include "sampler/cursor.h"
#include "sizes/sizes.h"

namespace {

double checked_sum(const double* numbers, std::size_t count, std::string_view name) {
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (!(numbers[i] >= 0 && std::isfinite(numbers[i])))
            sab::fail(SAB_E_ARGUMENT, name, "[", i, "] = ", numbers[i],
                      ": must be finite and at least 0");
        sum += numbers[i];
    }
    if (!std::isfinite(sum)) sab::fail(SAB_E_ARGUMENT, name, ": must have a finite sum");
    return sum;
}

[[noreturn]] void fail_capacity(const sab_partition_options& options, std::size_t count,
                                uint64_t parts, double sum) {
    for (std::size_t i = 0; i < count; ++i)
        sab::check(options.weights[i] <= options.capacity, "options.capacity", options.capacity,
                   "options.weights[", i, "] = ", options.weights[i], " alone is more");
    sab::check(sum <= static_cast<double>(parts) * options.capacity, "options.capacity",
               options.capacity, "the weights sum to ", sum, ", which is more than ", parts,
               " parts hold");
    sab::fail(SAB_E_ARGUMENT, "options.capacity = ", options.capacity, ": no assignment of ", count,
              " items to ", parts, " parts that keeps it was found");
}

sab_sampler* new_load_balancing(sab::Order order, const sab_sizes* complexity,
                                const sab_load_balancing_options* balancing,
                                const sab_sampler_options* options) {
    sab::require(complexity, "complexity");
    auto given = sab::read_options(
        balancing, sab_load_balancing_options SAB_LOAD_BALANCING_OPTIONS_INIT, "balancing");
    const auto walk = sab::read_options(options, sab_sampler_options SAB_SAMPLER_OPTIONS_INIT);
    sab::check_sampler_options(walk);
    sab::check(complexity->impl.count() <= sab::largest_sample_count, "complexity.count",
               complexity->impl.count(), "must be at most 4294967295");
    sab::check(given.shuffle == 0 || given.shuffle == 1, "balancing.shuffle", given.shuffle,
               "must be 0 or 1");
    sab::check(given.drop_last == 0 || given.drop_last == 1, "balancing.drop_last", given.drop_last,
               "must be 0 or 1");
    sab::check(given.random_level >= 0 && given.random_level <= 1, "balancing.random_level",
               given.random_level, "must be from 0 to 1");
    if (order == sab::Order::load_balancing) {
        sab::check(given.batch_size >= 1, "balancing.batch_size", given.batch_size,
                   "must be at least 1");
        given.max_total = 0;  // not this sampler's
    } else {
        const auto check_total = [&](bool kept, const char* rule) {
            sab::check(kept, "balancing.max_total", given.max_total, rule);
        };
        check_total(given.max_total >= 0 && std::isfinite(given.max_total),
                    "must be finite and above 0 (0: not set)");
        check_total(given.make_batches != nullptr || given.max_total > 0,
                    "must be set where balancing.make_batches is not");
        check_total(given.make_batches == nullptr || given.max_total == 0,
                    "must not be set beside balancing.make_batches");
        given.batch_size = 0;
    }
    auto sequence = std::make_unique<sab::LoadBalancing>(order, complexity->impl, given);
    sab::LoadBalancing* const made = sequence.get();
    auto* const handle =
        new sab_sampler{std::make_unique<sab::Cursor>(std::move(sequence), walk), {}};
    if (order == sab::Order::load_balancing_batches) made->own();
    return handle;
}

sab::Ranks ranks_of(uint64_t rank, uint64_t world_size, sab_all_gather_fn all_gather, void* ctx) {
    sab::check(world_size >= 1 && world_size <= sab::most_parts, "world_size", world_size,
               "must be from 1 to 2^20");
    sab::check(rank < world_size, "rank", rank, "must be below the world size, ", world_size);
    sab::require(reinterpret_cast<const void*>(all_gather), "all_gather");
    return {rank, world_size, all_gather, ctx};
}

}  // namespace

extern "C" {

void sab_load_balancing_options_init(sab_load_balancing_options* options,
                                     size_t struct_size) noexcept {
    static constexpr sab_load_balancing_options defaults = SAB_LOAD_BALANCING_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}

sab_status sab_load_balancing_sampler_new(const sab_sizes* complexity,
                                          const sab_load_balancing_options* balancing,
                                          const sab_sampler_options* options,
                                          sab_sampler** sampler) noexcept {
    return sab::guard_new(sampler, "sampler", [&] {
        return new_load_balancing(sab::Order::load_balancing, complexity, balancing, options);
    });
}

sab_status sab_load_balancing_batch_sampler_new(const sab_sizes* complexity,
                                                const sab_load_balancing_options* balancing,
                                                const sab_sampler_options* options,
                                                sab_sampler** sampler) noexcept {
    return sab::guard_new(sampler, "sampler", [&] {
        return new_load_balancing(sab::Order::load_balancing_batches, complexity, balancing,
                                  options);
    });
}

sab_status sab_batches_add(sab_batches* batches, const int64_t* indices, size_t count) noexcept {
    return sab::guard([&] {
        sab::require(batches, "batches");
        batches->impl.add(indices, count);
    });
}

void sab_partition_options_init(sab_partition_options* options, size_t struct_size) noexcept {
    static constexpr sab_partition_options defaults = SAB_PARTITION_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}

sab_status sab_partition(const double* costs, size_t count, uint64_t parts,
                         const sab_partition_options* options, uint32_t* part_of) noexcept {
    return sab::guard([&] {
        const auto given =
            sab::read_options(options, sab_partition_options SAB_PARTITION_OPTIONS_INIT);
        sab::check(count <= sab::largest_sample_count, "count", count,
                   "must be at most 4294967295");
        sab::check(parts >= 1 && parts <= sab::most_parts, "parts", parts, "must be from 1 to ",
                   sab::most_parts);
        sab::check(given.method >= SAB_PARTITION_KARMARKAR_KARP &&
                       given.method <= SAB_PARTITION_LONGEST_FIRST,
                   "options.method", given.method,
                   "must be SAB_PARTITION_KARMARKAR_KARP (0) or SAB_PARTITION_LONGEST_FIRST (1)");
        sab::check(given.equal_counts == 0 || given.equal_counts == 1, "options.equal_counts",
                   given.equal_counts, "must be 0 or 1");
        if (given.weights == nullptr)
            sab::check(given.capacity == 0, "options.capacity", given.capacity,
                       "needs options.weights");
        else
            sab::check(given.capacity > 0 && std::isfinite(given.capacity), "options.capacity",
                       given.capacity, "must be finite and above 0");
        sab::check(given.equal_counts == 0 || count % parts == 0, "count", count,
                   "must be a multiple of parts = ", parts, " for equal counts");
        if (count == 0) return;
        sab::require(costs, "costs");
        sab::require(part_of, "part_of");
        checked_sum(costs, count, "costs");
        const double weight =
            given.weights == nullptr ? 0 : checked_sum(given.weights, count, "options.weights");
        const sab::Progress progress(given.progress, given.progress_ctx);
        const sab::CurrentProgress current(&progress);
        std::vector<uint32_t> found(count);  // a failed call changes nothing
        if (!sab::Partitioner().partition(
                {costs, count}, {given.weights, given.weights == nullptr ? 0 : count},
                {given.method, parts, given.equal_counts != 0, given.capacity}, found))
            fail_capacity(given, count, parts, weight);
        std::ranges::copy(found, part_of);
    });
}

void sab_balanced_options_init(sab_balanced_options* options, size_t struct_size) noexcept {
    static constexpr sab_balanced_options defaults = SAB_BALANCED_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}

sab_status sab_balanced_sampler_new(const sab_sizes* sizes, const sab_balanced_options* balanced,
                                    const sab_sampler_options* options,
                                    sab_sampler** sampler) noexcept {
    return sab::guard_new(sampler, "sampler", [&] {
        sab::require(sizes, "sizes");
        sab::require(balanced, "balanced");
        const auto rules =
            sab::read_options(balanced, sab_balanced_options SAB_BALANCED_OPTIONS_INIT);
        const auto given = sab::read_options(options, sab_sampler_options SAB_SAMPLER_OPTIONS_INIT);
        return new sab_sampler{std::make_unique<sab::BalancedSampler>(sizes->impl, rules, given),
                               {}};
    });
}

sab_status sab_sampler_balance_report(sab_sampler* sampler, sab_progress_fn progress,
                                      void* progress_ctx, sab_balance_report* report) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sab::check_result(report, "report");
        auto* const balanced = dynamic_cast<sab::BalancedSampler*>(sampler->impl.get());
        if (balanced == nullptr)
            sab::fail(SAB_E_ARGUMENT, "sampler: must be one of sab_balanced_sampler_new");
        sab_balance_report own SAB_BALANCE_REPORT_INIT;
        balanced->report(sab::Progress(progress, progress_ctx), own);
        sab::write_result(own, report);
    });
}

sab_status sab_ranks_from_environment(uint64_t* rank, uint64_t* world_size) noexcept {
    return sab::guard([&] {
        sab::require(rank, "rank");
        sab::require(world_size, "world_size");
        std::tie(*rank, *world_size) = sab::ranks_from_environment();
    });
}

sab_status sab_data_rank(const uint64_t* shape, const int32_t* is_data, size_t axes, uint64_t rank,
                         uint64_t* data_rank, uint64_t* data_world_size) noexcept {
    return sab::guard([&] {
        sab::require(shape, "shape");
        sab::require(is_data, "is_data");
        sab::require(data_rank, "data_rank");
        sab::require(data_world_size, "data_world_size");
        std::tie(*data_rank, *data_world_size) = sab::data_rank(shape, is_data, axes, rank);
    });
}

sab_status sab_sampler_check_ranks(const sab_sampler* sampler, uint64_t rank, uint64_t world_size,
                                   sab_all_gather_fn all_gather, void* ctx) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sab::check_ranks(*sampler->impl, ranks_of(rank, world_size, all_gather, ctx));
    });
}

sab_status sab_sharded_sampler_new(const sab_sizes* sizes, const sab_plan_options* plan,
                                   const sab_sampler_options* options, sab_all_gather_fn all_gather,
                                   void* ctx, sab_sampler** sampler) noexcept {
    return sab::guard_new(sampler, "sampler", [&] {
        sab::require(sizes, "sizes");
        sab::require(plan, "plan");
        const auto rules = sab::read_options(plan, sab_plan_options SAB_PLAN_OPTIONS_INIT);
        const auto given = sab::read_options(options, sab_sampler_options SAB_SAMPLER_OPTIONS_INIT);
        return sab::make_sharded_sampler(sizes->impl, rules, given,
                                         ranks_of(given.rank, given.world_size, all_gather, ctx))
            .release();
    });
}

}  // extern "C"
