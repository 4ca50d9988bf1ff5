#pragma once
/// The immutable plan: sorted samples, distinct sizes, buckets.

#include <memory>
#include <span>
#include <vector>

#include "base/image.h"
#include "cost/cost.h"
#include "plan/sorted.h"
#include "sab/plan.h"

namespace sab {

/// A bucket as the samplers see it. Plain data: it is written to plan files as it is.
struct Bucket {
    double lower, upper;  ///< the caller's boundaries, or shortest and longest
    double shortest, longest;
    double padded_length;
    double total;                           ///< sum of its sizes
    double cost;                            ///< of its largest batch
    uint64_t batch_size;                    ///< samples in a full batch, at least 1
    uint64_t batches;                       ///< an epoch, by the tail policy
    uint32_t begin, end;                    ///< its samples in the sorted order
    uint32_t distinct_begin, distinct_end;  ///< its distinct sizes; neighbours may share one
    uint64_t samples() const { return end - begin; }
};

/// What a plan is besides its arrays. Plain data: it is written to plan files as it is.
struct PlanFacts {
    uint64_t samples;
    uint64_t skipped;
    uint64_t batches;
    uint64_t lower_bound;
    double total;
    double length_multiple;
    double padding_target;  ///< of SAB_BUCKETS_AUTO without max_shapes, 0 otherwise
    double
        nearest_target;  ///< padding_target where it is met, else the least that was within reach
    int32_t tail;        ///< sab_tail
    int32_t pads_to_bucket;  ///< 1: batches are padded to their bucket's length
    int32_t whole_sizes;     ///< 1: all sizes are whole numbers and so are all sums of them
    int32_t bucket_rule;     ///< sab_bucket_rule
};

class Plan {
public:
    static std::shared_ptr<const Plan> make(const Sizes& sizes, const sab_plan_options& options);
    /// Of samples that are sorted already. Without their order the plan has buckets, but no sample
    /// indices.
    static std::shared_ptr<const Plan> make(Sorted sorted, const sab_plan_options& options);
    static std::shared_ptr<const Plan> open(const char* path);
    static std::shared_ptr<const Plan> read(std::span<const std::byte> image);

    const PlanFacts& facts() const { return facts_; }
    /// Sample indices in ascending order of size. The plan may be a mapped file that was changed
    /// after it was opened: call check_sample() for each index that is read.
    std::span<const uint32_t> order() const { return order_; }
    void check_sample(uint32_t index) const {
        if (index >= facts_.samples) [[unlikely]]
            fail_changed(index);
    }
    std::span<const double> distinct_sizes() const { return distinct_sizes_; }
    std::span<const uint32_t> first_offsets() const { return first_offsets_; }
    std::span<const Bucket> buckets() const { return buckets_; }
    /// What its batches keep; the padded total with a limit of 0, which is none, where no budget
    /// was given. Callbacks are not kept: their costs must not be evaluated.
    std::span<const Budget> budgets() const { return budgets_; }
    std::size_t budget_count() const { return budgets_[0].limit > 0 ? budgets_.size() : 0; }
    uint64_t fingerprint() const { return fingerprint_; }
    /// The cost of the first budget; the padded total where there is none or it was a callback.
    Cost cost() const { return budgets_[0].cost.is_callback() ? Cost() : budgets_[0].cost; }

    /// A length as a batch is padded to it.
    double padded(double length) const;
    /// The padded length whose cost a batch padded to `padded_length` has: a size of zero costs as
    /// much as the smallest above zero.
    double priced(double padded_length) const;

    /// Samples left out, by ascending size: at most `room` of them are written.
    std::size_t skipped(std::span<int64_t> room) const;

    /// Copies the plan's bytes if they fit. Returns how many they are.
    std::size_t write(std::span<std::byte> room) const;
    void save(const char* path) const;

private:
    Plan() = default;
    static std::shared_ptr<const Plan> from_image(std::span<const std::byte> image,
                                                  std::shared_ptr<const void> owner,
                                                  std::string_view name);
    uint64_t checksum() const;
    void check_sound(const ImageRefusal& refuse) const;
    void check_facts(const ImageRefusal& refuse) const;
    void check_distinct_sizes(const ImageRefusal& refuse) const;
    void check_buckets(const ImageRefusal& refuse) const;
    [[noreturn, gnu::cold]] void fail_changed(uint32_t index) const;

    PlanFacts facts_{};
    uint64_t fingerprint_ = 0;
    std::span<const uint32_t> order_;
    std::span<const double> distinct_sizes_;
    std::span<const uint32_t> first_offsets_;
    std::span<const Bucket> buckets_;
    std::vector<Budget> budgets_;
    std::shared_ptr<const void> owner_;  ///< of the arrays
};

double round_up(double length, double multiple);

/// The size that a sample of size zero is priced at: the smallest above zero among the distinct
/// sizes, ascending; 1 when there is none.
double price_of_zero(std::span<const double> distinct_sizes);

}  // namespace sab

struct sab_plan {
    std::shared_ptr<const sab::Plan> impl;
};
