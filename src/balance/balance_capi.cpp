#include <algorithm>
#include <cmath>

#include "balance/balanced.h"
#include "balance/partition.h"
#include "base/guard.h"
#include "sab/balance.h"
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

}  // namespace

extern "C" {

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

sab_status sab_balanced_sampler_new(const sab_sizes* sizes, const sab_balanced_options* balanced,
                                    const sab_sampler_options* options,
                                    sab_sampler** sampler) noexcept {
    return sab::guard_new(sampler, "sampler", [&] {
        sab::require(sizes, "sizes");
        sab::require(balanced, "balanced");
        const auto rules =
            sab::read_options(balanced, sab_balanced_options SAB_BALANCED_OPTIONS_INIT);
        const auto given = sab::read_options(options, sab_sampler_options SAB_SAMPLER_OPTIONS_INIT);
        return sab::new_handle(std::make_unique<sab::BalancedSampler>(sizes->impl, rules, given));
    });
}

sab_status sab_sampler_balance_report(sab_sampler* sampler, sab_progress_fn progress,
                                      void* progress_ctx, sab_balance_report* report) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sab::check_result(report, "report");
        sab::write_result(
            sab::BalancedSampler::of(*sampler->impl).report(sab::Progress(progress, progress_ctx)),
            report);
    });
}

}  // extern "C"
