#pragma once
/// The immutable plan: sorted samples, distinct sizes, buckets.

#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/handle.h"
#include "base/image.h"
#include "base/made_once.h"
#include "base/pages.h"
#include "cost/cost.h"
#include "plan/batch_sizes.h"
#include "plan/pages.h"
#include "plan/shapes.h"
#include "plan/sorted.h"
#include "sab/plan.h"
#include "sizes/columns.h"

namespace sab {

/// A bucket as the samplers see it.
struct Bucket {
    double cost;          ///< of its largest batch
    uint64_t batch_size;  ///< samples in a full batch, at least 1
    uint64_t batches;     ///< an epoch, by the tail policy
    int64_t id;           ///< of its samples, where ids separate them; else 0
    uint64_t begin, end;  ///< its samples in the sorted order
    /// of one column: the distinct sizes that its samples may have; neighbours may share some
    uint32_t distinct_begin, distinct_end;
    uint64_t samples() const { return end - begin; }
};

/// The most samples that a plan of a histogram may have: what a permutation may have.
inline constexpr uint64_t largest_counted_samples = uint64_t{1} << 48;

/// The lengths of a bucket, one a column.
struct BucketLengths {
    std::span<const double> lower, upper;  ///< the caller's boundaries, or shortest and longest
    std::span<const double> shortest, longest;  ///< that its samples may have in some epoch
    std::span<const double> padded_length;
    std::span<const double> total;  ///< sum of the sizes of its places in the order
    static constexpr std::size_t fields = 6;
};

/// Samples at successive places of the order whose sizes are padded to the same lengths. Those of a
/// class lie in several buckets, and each epoch exchanges them.
struct SharedRun {
    uint64_t begin, end;
    uint64_t size_class;  ///< numbered in the order of their first runs
};

/// The sizes that samples of a bucket may have.
struct SizeRange {
    double least, most;
    bool has(double size) const { return size >= least && size <= most; }
};

/// The size with this number. Not a number, which is in no range, if the number is wrong.
inline double decoded(uint32_t code, std::span<const double> distinct_sizes) {
    return code < distinct_sizes.size() ? distinct_sizes[code]
                                        : std::numeric_limits<double>::quiet_NaN();
}

/// What a plan is besides its arrays. Plain data: it is written to plan files as it is.
struct PlanFacts {
    uint64_t samples;
    uint64_t skipped;
    uint64_t batches;
    uint64_t lower_bound;
    double total;  ///< over all columns
    PerColumn length_multiples;
    PerColumn unused;       ///< 0
    double padding_target;  ///< of SAB_BUCKETS_AUTO without max_shapes, 0 otherwise
    double
        nearest_target;  ///< padding_target where it is met, else the least that was within reach
    int32_t tail;        ///< sab_tail
    int32_t pads_to_bucket;  ///< 1: batches are padded to their bucket's length
    int32_t whole_sizes;     ///< 1: all sizes are whole numbers and so are all sums of them
    int32_t bucket_rule;     ///< sab_bucket_rule
    uint32_t columns;
    int32_t has_ids;          ///< 1: ids separate the samples
    uint64_t min_batch_size;  ///< 0: none
};

/// All buckets, their lengths, BucketLengths one after the other, and what they share, by place.
struct PlanBuckets {
    std::vector<Bucket> buckets{};
    std::vector<double> lengths{};
    std::vector<SharedRun> shared_runs{};
    BucketLengths lengths_of(std::size_t bucket, std::size_t columns) const;
};

/// What keeps the arrays of a plan that was made, not opened. See Plan.
struct PlanArrays : PlanBuckets {
    PlanBuckets second{};  ///< of epochs with odd numbers; without buckets: all have the same
    PlanFacts facts{};
    std::vector<std::string> names{};
    std::vector<ShapePadding> shape_paddings{};
    HugeArray<uint32_t> order{};
    std::vector<double> distinct_sizes{};
    std::vector<std::size_t> first_distinct{};
    std::vector<uint32_t> first_offsets{}, codes{};
    std::vector<uint64_t> first_places{}, run_places{};
};

/// Whether an epoch has Plan::second(), if there is one.
inline bool has_second_buckets(uint64_t epoch) {
    return epoch % 2 == 1;
}

struct ColumnRecord;
struct Points;

class Plan {
public:
    /// `ids`: one a sample where the options say that ids separate them.
    static std::shared_ptr<const Plan> make(const Columns& sizes, const PlanOptions& options,
                                            std::span<const int64_t> ids = {});
    /// Of samples of one column that are sorted already. Without their order the plan has buckets,
    /// but no sample indices.
    static std::shared_ptr<const Plan> make_sorted(Sorted sorted, const PlanOptions& options,
                                                   std::string name = "");
    /// Of numbers of samples of one column: is_counted().
    static std::shared_ptr<const Plan> make_counted(SizeCounts counts, const PlanOptions& options,
                                                    std::string name);
    /// Of several columns, or of ids. Where the points have no order: is_counted().
    static std::shared_ptr<const Plan> make_coded(Points points, const PlanOptions& options,
                                                  std::vector<std::string> names);
    /// Of a mapped file, of which it reads and verifies the header and the small sections.
    static std::shared_ptr<const Plan> open(std::shared_ptr<const std::span<const std::byte>> file,
                                            std::string name);
    /// Copies an image, and verifies its checksums.
    static std::shared_ptr<const Plan> read(std::span<const std::byte> image,
                                            std::string_view name = "data");
    /// The same plan in memory of its own.
    std::shared_ptr<const Plan> copy() const;
    /// Reads all of it. Refuses wrong checksums and content that breaks a rule.
    void check_all() const;

    /// The same samples and as many batches, in the buckets of epochs with odd numbers; null: all
    /// epochs have the same. It is a part of this plan: it has no bytes of its own.
    std::shared_ptr<const Plan> second() const { return second_; }

    const PlanFacts& facts() const { return facts_; }
    std::size_t columns() const { return facts_.columns; }
    /// The numbers of shapes that were tried, if it chose one. Not in its bytes.
    std::span<const ShapePadding> shape_paddings() const { return shape_paddings_; }
    /// Whether its batches have the shapes of buckets, which are as few as its options say.
    bool has_few_shapes() const { return facts_.pads_to_bucket != 0; }
    /// Samples that a batch has at least.
    uint64_t fewest() const { return std::max<uint64_t>(facts_.min_batch_size, 1); }
    /// Of the columns; "" where they have none.
    const std::vector<std::string>& names() const { return names_; }
    /// Whether the sizes are codes(). Otherwise the order is by size, and distinct_sizes() and
    /// first_offsets() tell them.
    bool is_coded() const { return facts_.columns > 1 || facts_.has_ids != 0; }
    // These arrays may be in a mapped file, where any element may be wrong: verify() before the
    // first read. The file may change later, so what is read is checked by check_sample() and
    // check_size(), too.
    /// Sample indices by bucket, and of one column in ascending order of size.
    std::span<const uint32_t> order() const { return order_; }
    /// The sizes at a place of the order: for each column the number of its distinct size. If it
    /// is_counted(), of each run.
    std::span<const uint32_t> codes() const { return codes_; }
    std::span<const double> distinct_sizes() const { return distinct_sizes_; }
    std::span<const double> distinct_sizes(std::size_t column) const {
        return distinct_sizes_.subspan(first_distinct_[column],
                                       first_distinct_[column + 1] - first_distinct_[column]);
    }
    std::span<const uint32_t> first_offsets() const { return first_offsets_; }
    /// Whether the arrays are in a mapped file.
    bool is_mapped() const { return pages_ != nullptr; }
    /// Throws if the pages that a mapped file has of these items, which are in an array above, are
    /// damaged. Each page is read once.
    template <class Item>
    void verify(std::span<const Item> items) const {
        if (pages_) pages_->need(std::as_bytes(items));
    }
    /// Whether it was made of numbers of samples, of which there may be more than an order has.
    /// Then order() and first_offsets() are empty, and first_places() has the offsets.
    bool is_counted() const { return !first_places_.empty(); }
    /// If it is_counted(): the place by size of the first sample of each distinct size; of several
    /// columns, of each run. One more at the end: all samples.
    std::span<const uint64_t> first_places() const { return first_places_; }
    /// A run has samples of equal sizes at successive places of the order. The place there of the
    /// first sample of each run. Only if the plan is_counted() and is_coded(); else the order is by
    /// size.
    std::span<const uint64_t> run_places() const { return run_places_; }
    /// Where the samples of a distinct size begin in the sorted order.
    uint64_t first_place(std::size_t distinct) const {
        return is_counted() ? first_places_[distinct] : first_offsets_[distinct];
    }
    /// Refuses a plan of a histogram, which has no sample indices.
    void need_order(std::string_view caller) const;
    void check_sample(uint32_t index) const {
        if (index >= facts_.samples) [[unlikely]]
            fail_index(index);
    }
    void check_size(bool is_sound) const {
        if (!is_sound) [[unlikely]]
            fail_size();
    }
    std::size_t bucket_count() const { return buckets_.size(); }
    /// The number by which its callers know the first of its buckets: second() counts on.
    std::size_t first_number() const { return first_number_; }
    /// All buckets. These, their lengths and what they share are read from a mapped file, and
    /// verified, by the first call of any of these functions. It throws if they are damaged.
    std::span<const Bucket> buckets() const { return known_buckets().buckets; }
    SizeRange size_range(std::size_t bucket, std::size_t column = 0) const {
        const std::size_t first = bucket * BucketLengths::fields * columns() + column;
        const double* const of = known_buckets().lengths.data() + first;
        return {of[2 * columns()], of[3 * columns()]};
    }
    BucketLengths lengths(std::size_t bucket) const {
        return known_buckets().lengths_of(bucket, columns());
    }
    /// Those of all buckets.
    std::span<const double> lengths() const { return known_buckets().lengths; }
    /// By place.
    std::span<const SharedRun> shared_runs() const { return known_buckets().shared_runs; }
    /// What its batches keep; the padded total with a limit of 0, which is none, where no budget
    /// was given. Callbacks are not kept: their costs must not be evaluated.
    std::span<const Budget> budgets() const { return budgets_; }
    std::array<double, SAB_MAX_BUDGETS> limits() const {
        std::array<double, SAB_MAX_BUDGETS> limits{};
        std::ranges::transform(budgets_, limits.begin(), &Budget::limit);
        return limits;
    }
    std::size_t budget_count() const { return budgets_[0].limit > 0 ? budgets_.size() : 0; }
    uint64_t fingerprint() const { return fingerprint_; }
    /// The cost of the first budget; the padded total where there is none or it was a callback.
    Cost cost() const {
        return budgets_[0].cost.is_callback() ? Cost(nullptr, columns()) : budgets_[0].cost;
    }

    /// A length as a batch is padded to it.
    double padded(double length, std::size_t column = 0) const {
        return round_up(length, facts_.length_multiples[column]);
    }
    /// Refuses a plan of several columns, or of ids that separate samples, where `caller` supports
    /// neither.
    void need_one_column(std::string_view caller) const;

    /// The places of the order that buckets have: from the first to below the second. Samples
    /// before and after them are skipped.
    std::pair<uint64_t, uint64_t> places() const;
    /// Samples left out, by ascending size: at most `room` of them are written.
    std::size_t skipped(std::span<int64_t> room) const;

    /// Copies the plan's bytes if they fit. Returns how many they are.
    std::size_t write(std::span<std::byte> room) const;
    void save(const char* path) const;

private:
    Plan() = default;
    Plan(const Plan&) = default;
    static std::shared_ptr<const Plan> own(PlanArrays made, const PlanOptions& options);
    static std::shared_ptr<Plan> from_image(std::span<const std::byte> image,
                                            std::shared_ptr<const void> owner, std::string name);
    static std::shared_ptr<const Plan> from_memory(HugeArray<std::byte> memory, std::size_t size,
                                                   std::string_view name);
    void make_head();
    void take(PlanBuckets&& made);
    ImageParts image_parts() const;
    std::size_t pages_begin() const;
    std::vector<uint64_t> checksums_of_pages() const;
    void read_columns(std::span<const ColumnRecord> columns, uint64_t distinct_count,
                      const ImageRefusal& refuse);
    /// Each batch calls this several times.
    [[gnu::always_inline]] const PlanBuckets& known_buckets() const {
        if (const PlanBuckets* known = known_buckets_->known()) return *known;
        return read_buckets();
    }
    [[gnu::cold]] const PlanBuckets& read_buckets() const;
    void check_buckets(const PlanBuckets& read, const ImageRefusal& refuse) const;
    void check_shared_runs(const PlanBuckets& read, const ImageRefusal& refuse) const;
    void verify_sections(std::span<const std::span<const std::byte>> sections, std::size_t first,
                         const ImageRefusal& refuse) const;
    void verify_large_sections(const ImageRefusal& refuse) const;
    void check_distinct_sizes(const ImageRefusal& refuse) const;
    void check_order(const ImageRefusal& refuse) const;
    void check_sizes(const ImageRefusal& refuse) const;
    void check_runs(const ImageRefusal& refuse) const;
    template <class Visit>
    void each_stretch(const ImageRefusal& refuse, Visit&& visit) const;
    [[noreturn, gnu::cold]] void fail_index(uint32_t index) const;
    [[noreturn, gnu::cold]] void fail_size() const;

    PlanFacts facts_{};
    uint64_t fingerprint_ = 0;
    std::span<const uint32_t> order_;
    std::span<const double> distinct_sizes_;   ///< those of the columns one after the other
    std::vector<std::size_t> first_distinct_;  ///< of each column; one more: how many there are
    std::span<const uint32_t> first_offsets_;
    std::span<const uint64_t> first_places_, run_places_;
    std::span<const uint32_t> codes_;
    // Of the image or of the arrays; not verified. Only known_buckets() reads them.
    std::span<const Bucket> buckets_;
    std::span<const double> lengths_;
    std::span<const SharedRun> shared_runs_;
    std::size_t buckets_section_ = 0;  ///< of the image, where they begin
    std::shared_ptr<const MadeOnce<PlanBuckets>> known_buckets_;
    std::shared_ptr<Plan> second_;
    std::size_t first_number_ = 0;
    std::vector<uint64_t> made_checksums_;  ///< of a plan that was made
    std::span<const std::byte> page_checksums_;
    std::vector<std::string> names_;
    std::vector<Budget> budgets_;
    std::vector<ShapePadding> shape_paddings_;
    std::vector<std::byte> head_;  ///< the header and the small sections, as a file has them
    std::string name_ = "plan";    ///< in messages
    std::shared_ptr<const VerifiedPages> pages_;  ///< of a mapped file
    std::shared_ptr<const void> owner_;           ///< of the arrays
};

class MixedPlans;
struct CountedTurns;

}  // namespace sab

/// A plan as its callers have it: an order with buckets, and its bytes.
struct sab_plan {
    sab::Tag<sab_plan> tag{};
    explicit sab_plan(std::shared_ptr<const sab::Plan> made,
                      std::shared_ptr<const sab::MixedPlans> of_epochs = nullptr,
                      std::shared_ptr<const sab::CountedTurns> of_histogram = nullptr)
        : impl(std::move(made)), epochs(std::move(of_epochs)), turns(std::move(of_histogram)) {}

    /// Where each epoch has a plan of its own, that of epoch 0.
    const std::shared_ptr<const sab::Plan> impl;
    /// Of a mixture: makes the plan of each epoch, for samplers. Null: all epochs have this one.
    const std::shared_ptr<const sab::MixedPlans> epochs;
    /// Of one epoch of a mixture whose samples have no indices: what it has of them. Else null.
    const std::shared_ptr<const sab::CountedTurns> turns;
    const sab::NamePointers names{impl->names()};
    /// Of the budgets.
    const std::array<double, SAB_MAX_BUDGETS> limits = impl->limits();

    /// The plan of all epochs. Refuses a mixture.
    const std::shared_ptr<const sab::Plan>& of_all_epochs(std::string_view caller) const;
    uint64_t fingerprint() const;
    /// Of the full batches and the tails of all its buckets.
    const std::vector<sab::Shape>& shapes() const;
    /// As Plan::skipped(), of epoch 0.
    std::size_t skipped(std::span<int64_t> room) const;
    /// Copies its bytes if they fit. Returns how many they are.
    std::size_t write(std::span<std::byte> room) const;
    void save(const char* path) const;
    std::unique_ptr<sab_plan> copy() const;

private:
    sab::MadeOnce<std::vector<sab::Shape>> shapes_{};
};
