#include "plan/plan.h"

#include <algorithm>
#include <optional>

#include "base/log.h"
#include "plan/box_planner.h"
#include "plan/plan_builder.h"

namespace sab {

BucketLengths PlanBuckets::lengths_of(std::size_t bucket, std::size_t columns) const {
    const auto field = [&](std::size_t number) {
        return std::span(lengths).subspan((bucket * BucketLengths::fields + number) * columns,
                                          columns);
    };
    return {field(0), field(1), field(2), field(3), field(4), field(5)};
}

void Plan::need_one_column(std::string_view caller) const {
    if (columns() > 1)
        fail(SAB_E_UNSUPPORTED, caller, ": the plan has ", columns(), " columns: must have one");
    if (facts_.has_ids != 0)
        fail(SAB_E_UNSUPPORTED, caller, ": ids separate the samples of the plan");
}

void Plan::need_order(std::string_view caller) const {
    if (is_counted())
        fail(SAB_E_UNSUPPORTED, caller,
             ": the plan was made from a histogram, which has no sample indices; "
             "sab_histogram_plan_locate() tells the batches of its samples");
}

std::pair<uint64_t, uint64_t> Plan::places() const {
    uint64_t begin = facts_.samples, end = 0;
    for (const Bucket& bucket : buckets()) {
        begin = std::min(begin, bucket.begin);
        end = std::max(end, bucket.end);
    }
    return {begin, std::max(begin, end)};
}

std::size_t Plan::skipped(std::span<int64_t> room) const {
    need_order("sab_plan_get_skipped");
    const auto [begin, end] = places();
    std::size_t count = 0;
    const auto add = [&](uint64_t offset) {
        if (count < room.size()) {
            verify(order_.subspan(offset, 1));
            const uint32_t index = order_[offset];
            check_sample(index);
            room[count] = index;
        }
        ++count;
    };
    for (uint64_t offset = 0; offset < begin; ++offset) add(offset);
    for (uint64_t offset = end; offset < order_.size(); ++offset) add(offset);
    return count;
}

/// Refuses a plan that leaves out all samples.
static void check_any_batch(const PlanArrays& made) {
    if (made.facts.batches > 0) return;
    const Bucket* fullest = made.buckets.data();
    const auto share = [](const Bucket& bucket) {
        return static_cast<double>(bucket.samples()) / static_cast<double>(bucket.batch_size);
    };
    for (const Bucket& bucket : made.buckets)
        if (share(bucket) > share(*fullest)) fullest = &bucket;
    refuse_argument("options.tail", "SAB_TAIL_DROP",
                    "must leave a batch; no bucket fills one, the fullest has ", fullest->samples(),
                    " of the ", fullest->batch_size, " samples of a batch");
}

void Plan::take(PlanBuckets&& made) {
    auto known = std::make_shared<MadeOnce<PlanBuckets>>();
    const PlanBuckets& own =
        known->get([&] { return std::make_unique<const PlanBuckets>(std::move(made)); });
    buckets_ = own.buckets;
    lengths_ = own.lengths;
    shared_runs_ = own.shared_runs;
    known_buckets_ = std::move(known);
}

/// Takes the arrays over; they live as long as the plan.
std::shared_ptr<const Plan> Plan::own(PlanArrays made, const PlanOptions& options) {
    check_any_batch(made);
    PlanBuckets second = std::move(made.second);
    std::shared_ptr<Plan> plan(new Plan);
    plan->take(static_cast<PlanBuckets&&>(made));
    const auto arrays = std::make_shared<const PlanArrays>(std::move(made));
    plan->facts_ = arrays->facts;
    plan->names_ = arrays->names;
    const std::size_t count = arrays->facts.samples;
    if (arrays->order != nullptr) plan->order_ = {arrays->order.get(), count};
    plan->distinct_sizes_ = arrays->distinct_sizes;
    plan->first_distinct_ = arrays->first_distinct;
    plan->first_offsets_ = arrays->first_offsets;
    plan->first_places_ = arrays->first_places;
    plan->run_places_ = arrays->run_places;
    plan->codes_ = arrays->codes;
    plan->shape_paddings_ = arrays->shape_paddings;
    for (const Budget& budget : options.budgets)
        plan->budgets_.push_back({budget.cost.kept(), budget.limit});
    if (plan->budgets_.empty()) plan->budgets_.push_back({Cost(nullptr, plan->columns()), 0});
    plan->owner_ = arrays;
    if (!second.buckets.empty()) {
        plan->second_.reset(new Plan(*plan));
        plan->second_->take(std::move(second));
        plan->second_->first_number_ = plan->bucket_count();
    }
    plan->make_head();
    if (plan->second_) plan->second_->fingerprint_ = plan->fingerprint_;
    if (plan->facts_.skipped > 0)
        log(SAB_LOG_WARNING, "skipped ", plan->facts_.skipped, " of ", count,
            " samples: outside the boundaries or over the budget",
            plan->facts_.min_batch_size > 1 ? ", or too few for min_batch_size" : "");
    return plan;
}

std::shared_ptr<const Plan> Plan::make(const Columns& sizes, const PlanOptions& options,
                                       std::span<const int64_t> ids) {
    const uint64_t count = sizes.count();
    check(count > 0, "sizes.count", count, "must be at least 1");
    const Progress& progress = options.progress;
    const std::size_t threads = options.threads;
    if (sizes.size() == 1 && !options.has_ids)
        return make_sorted(sort_by_size(sizes[0], true, progress, sizes.described(0), threads),
                           options, sizes.names()[0]);
    Points points = sort_points(sizes, ids, progress, threads);
    auto plan = make_coded(std::move(points), options, sizes.names());
    progress.report(3 * count, 3 * count);
    return plan;
}

namespace {

/// Of samples without indices, of which a batch could have more than it may.
void check_batch_sizes(const PlanArrays& made, const PlanOptions& options) {
    for (const Bucket& bucket : made.buckets)
        check(bucket.batch_size <= largest_sample_count, "options.max_batch_size",
              options.max_batch_size, "must be given: a batch would have ", bucket.batch_size,
              " samples, and may have at most 2^32 - 1");
}

}  // namespace

std::shared_ptr<const Plan> Plan::make_sorted(Sorted sorted, const PlanOptions& options,
                                              std::string name) {
    const SizeCounts counts(sorted);
    const uint64_t steps = 3 * sorted.count;
    PlanArrays arrays = PlanBuilder(counts, options).make(std::move(name));
    arrays.order = std::move(sorted.order);
    arrays.distinct_sizes = std::move(sorted.distinct_sizes);
    arrays.first_distinct = {0, arrays.distinct_sizes.size()};
    arrays.first_offsets = std::move(sorted.first_offsets);
    auto plan = own(std::move(arrays), options);
    options.progress.report(steps, steps);
    return plan;
}

std::shared_ptr<const Plan> Plan::make_counted(SizeCounts counts, const PlanOptions& options,
                                               std::string name) {
    PlanArrays arrays = PlanBuilder(counts, options).make(std::move(name));
    arrays.distinct_sizes = {counts.distinct_sizes.begin(), counts.distinct_sizes.end()};
    arrays.first_distinct = {0, arrays.distinct_sizes.size()};
    arrays.first_places = std::move(counts.first_places);
    check_batch_sizes(arrays, options);
    return own(std::move(arrays), options);
}

std::shared_ptr<const Plan> Plan::make_coded(Points points, const PlanOptions& options,
                                             std::vector<std::string> names) {
    const CodedSamples samples(std::move(points), options);
    std::optional<BoxPlanner> boxes;
    if (samples.points().columns > 1) boxes.emplace(samples);
    PlanArrays arrays = sab::make_coded(samples, boxes ? boxes->outside() : std::vector<Stretch>(),
                                        [&](std::size_t id, double target) {
                                            return boxes ? boxes->divide(id, target)
                                                         : divide_by_size(samples, id, target);
                                        });
    arrays.names = std::move(names);
    check_batch_sizes(arrays, options);
    return own(std::move(arrays), options);
}

}  // namespace sab
