#pragma once
/// How a plan is made: sab_plan_options in memory of their own, checked.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "cost/cost.h"
#include "sab/plan.h"

namespace sab {

/// One a column, 0 where lengths are not rounded up. `name`: that of the multiples in messages,
/// such as "options.length_multiple".
PerColumn read_multiples(const double* given, std::size_t count, std::size_t columns,
                         std::string_view name);

/// A default one has the defaults, and no budget or batch size.
struct PlanOptions {
    PlanOptions() = default;
    /// Refuses options that break a rule for sizes with these columns, whatever the samples are.
    PlanOptions(const sab_plan_options& given, ColumnNames columns);

    bool has_singles() const { return oversize == SAB_OVERSIZE_SINGLE; }
    /// Whether samples that fill no batch are a smaller one, which needs a shape of its own.
    bool keeps_tail() const { return tail == SAB_TAIL_KEEP; }
    /// Refuses costs that are callbacks, for plans that are made later.
    void check_kept_costs() const;

    sab_bucket_rule bucket_rule = SAB_BUCKETS_AUTO;
    std::vector<Budget> budgets{};
    double padding_target = 0.01;
    /// The first: the lower end of all sizes. Of one column they ascend.
    std::vector<PerColumn> boundaries{};
    std::size_t bucket_count = 0;
    uint64_t bucket_batches = 0;
    /// One, or one for each bucket of the boundaries.
    std::vector<uint64_t> batch_sizes{};
    uint64_t max_batch_size = 0;
    uint64_t min_batch_size = 0;
    uint64_t batch_size_multiple = 1;
    PerColumn length_multiples{};
    sab_tail tail = SAB_TAIL_KEEP;
    sab_oversize oversize = SAB_OVERSIZE_ERROR;
    std::size_t max_shapes = 0;
    bool chooses_shapes = false;  ///< as few as the padding target allows, `max_shapes` at most
    bool has_few_shapes() const { return chooses_shapes || max_shapes > 0 || !id_shapes.empty(); }
    bool has_ids = false;  ///< ids separate the samples; they are given beside the sizes
    std::vector<std::size_t> id_shapes{};
    Progress progress{};
    std::size_t threads = 1;
    /// Of buckets, for all epochs: the plan is made again for each, or its samplers use one.
    bool has_one_set = false;
};

/// The ids of `count` samples in checked options; none if they are not given.
std::span<const int64_t> ids_of(const sab_plan_options& given, std::size_t count);

}  // namespace sab
