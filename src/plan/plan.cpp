#include "plan/plan.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "plan/boundaries.h"

namespace sab {
namespace {

/// What keeps the arrays of a plan that was made, not opened.
struct Arrays {
    std::unique_ptr<uint32_t[]> order;
    std::vector<double> distinct_sizes;
    std::vector<uint32_t> first_offsets;
    std::vector<Bucket> buckets;
};

template <class Number>
std::vector<Number> read_array(const Number* data, std::size_t count, std::string_view name) {
    if (count > 0) require(data, name);
    return {data, data + count};
}

std::vector<double> read_boundaries(const sab_plan_options& options) {
    std::vector<double> boundaries =
        read_array(options.boundaries, options.boundary_count, "options.boundaries");
    check(boundaries.size() >= 2, "options.boundary_count", boundaries.size(),
          "must be at least 2");
    for (std::size_t i = 0; i < boundaries.size(); ++i)
        if (std::isnan(boundaries[i]))
            fail(SAB_E_ARGUMENT, "options.boundaries[", i, "] = nan: must be a number");
    std::ranges::sort(boundaries);
    if (const auto twin = std::ranges::adjacent_find(boundaries); twin != boundaries.end())
        fail(SAB_E_ARGUMENT, "options.boundaries holds ", *twin,
             " twice: boundaries must differ from each other");
    return boundaries;
}

std::vector<uint64_t> read_batch_sizes(const sab_plan_options& options,
                                       std::size_t boundary_count) {
    std::vector<uint64_t> sizes =
        read_array(options.batch_sizes, options.batch_size_count, "options.batch_sizes");
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] == 0)
            fail(SAB_E_ARGUMENT, "options.batch_sizes[", i, "] = 0: must be at least 1");
        // No plan has more samples. Sums of samples and batch sizes cannot overflow.
        sizes[i] = std::min<uint64_t>(sizes[i], UINT32_MAX);
    }
    if (sizes.size() > 1) {
        check(options.bucket_rule == SAB_BUCKETS_BOUNDARIES, "options.batch_size_count",
              sizes.size(), "must be 0 or 1 unless the boundaries are given");
        check(sizes.size() == boundary_count - 1, "options.batch_size_count", sizes.size(),
              "must be 1 or the number of buckets, ", boundary_count - 1);
    }
    return sizes;
}

void check_scalars(const sab_plan_options& options) {
    check(options.bucket_rule >= SAB_BUCKETS_AUTO && options.bucket_rule <= SAB_BUCKETS_EQUAL,
          "options.bucket_rule", options.bucket_rule,
          "must be one of SAB_BUCKETS_AUTO (0) to SAB_BUCKETS_EQUAL (3)");
    if (options.budget_count == 0 && options.batch_size_count == 0)
        fail(SAB_E_ARGUMENT,
             "options.budget_count = 0 and options.batch_size_count = 0: a budget or a batch size "
             "must be given");
    check(options.padding_target > 0 && options.padding_target < 1, "options.padding_target",
          options.padding_target, "must be between 0 and 1");
    const bool by_boundaries = options.bucket_rule == SAB_BUCKETS_BOUNDARIES;
    check(by_boundaries || options.boundary_count == 0, "options.boundary_count",
          options.boundary_count, "goes with SAB_BUCKETS_BOUNDARIES only");
    const bool is_optimal = options.bucket_rule == SAB_BUCKETS_OPTIMAL;
    check(is_optimal ? options.bucket_count >= 1 : options.bucket_count == 0,
          "options.bucket_count", options.bucket_count,
          is_optimal ? "must be at least 1" : "goes with SAB_BUCKETS_OPTIMAL only");
    const bool is_equal = options.bucket_rule == SAB_BUCKETS_EQUAL;
    check(!is_equal || options.bucket_batches >= 1, "options.bucket_batches",
          options.bucket_batches, "must be at least 1");
    check(is_equal || options.bucket_rule == SAB_BUCKETS_AUTO || options.bucket_batches == 0,
          "options.bucket_batches", options.bucket_batches,
          "goes with SAB_BUCKETS_EQUAL and SAB_BUCKETS_AUTO only");
    check(options.batch_size_multiple >= 1, "options.batch_size_multiple",
          options.batch_size_multiple, "must be at least 1");
    check(options.length_multiple >= 0 && options.length_multiple <= largest_size,
          "options.length_multiple", options.length_multiple, "must be from 0 to 2^53");
    check(options.tail >= SAB_TAIL_KEEP && options.tail <= SAB_TAIL_WRAP, "options.tail",
          options.tail, "must be one of SAB_TAIL_KEEP (0) to SAB_TAIL_WRAP (3)");
    check(options.oversize >= SAB_OVERSIZE_SKIP && options.oversize <= SAB_OVERSIZE_SINGLE,
          "options.oversize", options.oversize,
          "must be one of SAB_OVERSIZE_SKIP (0) to SAB_OVERSIZE_SINGLE (2)");
    check(options.max_shapes == 0 || options.bucket_rule == SAB_BUCKETS_AUTO, "options.max_shapes",
          options.max_shapes, "goes with SAB_BUCKETS_AUTO only");
}

uint64_t batches_of(uint64_t samples, uint64_t batch_size, sab_tail tail) {
    return tail == SAB_TAIL_DROP ? samples / batch_size : (samples + batch_size - 1) / batch_size;
}

/// The samples that do not fill a batch, the longest of a bucket, move up into the next bucket that
/// has samples.
void merge_tails(std::vector<BucketRange>& ranges) {
    std::size_t last = ranges.size();
    while (last > 0 && ranges[last - 1].begin == ranges[last - 1].end) --last;
    for (std::size_t i = 0; i + 1 < last; ++i) {
        const auto tail =
            static_cast<uint32_t>((ranges[i].end - ranges[i].begin) % ranges[i].batch_size);
        std::size_t up = i + 1;
        while (ranges[up].begin == ranges[up].end) ++up;
        if (ranges[i].begin == ranges[i].end) continue;
        ranges[i].end -= tail;
        for (std::size_t j = i + 1; j <= up; ++j) ranges[j].begin -= tail;
        for (std::size_t j = i + 1; j < up; ++j) ranges[j].end -= tail;
    }
}

/// Buckets for SAB_BUCKETS_AUTO. `singles`: batches of one sample, added to those of the buckets.
BoundaryFinder::Automatic automatic_ranges(BoundaryFinder& finder, const sab_plan_options& options,
                                           uint64_t lower_bound, uint64_t singles,
                                           const Progress& progress) {
    // With 16 batches in a bucket two batch mates meet again in about 1 of 16 epochs, with 4 in 1
    // of 4. A small epoch has no room for that.
    const uint64_t room = std::max<uint64_t>(lower_bound / 16, 1);
    // No plan has more batches than samples, of which there are fewer than 2^32.
    const uint64_t given = std::min<uint64_t>(options.bucket_batches, UINT32_MAX);
    const uint64_t most = given > 0 ? given : std::min<uint64_t>(room, 16);
    const uint64_t fewest = given > 0 ? given : std::min<uint64_t>(room, 4);
    const auto overhead_of = [&](std::vector<BucketRange> ranges) {
        if (options.tail == SAB_TAIL_MERGE) merge_tails(ranges);
        const BoundaryFinder::Waste waste = finder.waste(ranges);
        const double padding = waste.padded > 0 ? waste.padding / waste.padded : 0;
        const auto bound = static_cast<double>(lower_bound);
        const double over = options.budget_count > 0
                                ? (static_cast<double>(waste.batches + singles) - bound) / bound
                                : 0;
        return std::max(padding, over);
    };
    return finder.automatic(options.padding_target, fewest, most, overhead_of, progress);
}

/// The number of shapes for samples over the budget that gives the least padding in total. The
/// least padded total is convex in the number of intervals, so it is found by bisection.
std::size_t shapes_of_singles(BoundaryFinder& others, BoundaryFinder& singles, std::size_t shapes,
                              const Progress& progress) {
    const auto padded = [&](std::size_t given) {
        return others.waste(others.optimal(shapes - given, progress)).padded +
               singles.waste(singles.optimal(given, progress)).padded;
    };
    std::size_t low = 1, high = shapes - 1;
    while (low < high) {
        const std::size_t middle = low + (high - low) / 2;
        if (padded(middle + 1) < padded(middle))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/// The steps of making a plan.
class PlanBuilder {
public:
    PlanBuilder(const Sorted& sorted, const sab_plan_options& options)
        : sorted_(sorted),
          options_(options),
          boundaries_(options.bucket_rule == SAB_BUCKETS_BOUNDARIES ? read_boundaries(options)
                                                                    : std::vector<double>()),
          batch_sizes_(read_batch_sizes(options, boundaries_.size())),
          budgets_(read_budgets(options.budgets, options.budget_count, "options.budgets")),
          cost_(budgets_.empty() ? Cost() : budgets_[0].cost),
          progress_(options.progress, options.progress_ctx),
          count_(static_cast<uint32_t>(sorted.count)),
          zero_length_(price_of_zero(sorted.distinct_sizes)) {
        for (std::size_t i = 0; i < budgets_.size(); ++i) check_rises(i);
        find_usable_samples();
    }

    std::span<const Budget> budgets() const { return budgets_; }
    BoundaryFinder finder() const {
        return BoundaryFinder(
            sorted_, begin_, end_, [this](double size) { return padded(size); },
            [this](double size) { return std::max<uint64_t>(largest_batch(size), 1); });
    }
    PlanFacts facts(const BoundaryFinder& finder) const;
    std::vector<BucketRange> ranges(BoundaryFinder& finder, PlanFacts& facts) const;
    Bucket bucket(const BoundaryFinder& finder, const BucketRange& range, std::size_t number) const;

private:
    double padded(double size) const { return round_up(size, options_.length_multiple); }
    double cost_length(double size) const { return padded(size > 0 ? size : zero_length_); }
    bool has_singles() const { return options_.oversize == SAB_OVERSIZE_SINGLE; }
    uint64_t outside() const { return count_ - (end_ - begin_); }
    uint64_t largest_batch(double size, std::span<const Budget> budgets) const;
    uint64_t largest_batch(double size) const { return largest_batch(size, budgets_); }
    bool fits_alone(double size) const;
    std::string limits() const;
    std::string exceeded(double size) const;
    void check_rises(std::size_t budget) const;
    void find_usable_samples();
    [[noreturn]] void refuse_oversize() const;
    double least_batches(std::span<const Budget> budgets) const;
    double least_batches() const;
    std::vector<BucketRange> singles(BoundaryFinder& finder, std::size_t& shapes) const;

    const Sorted& sorted_;
    const sab_plan_options& options_;
    const std::vector<double> boundaries_;
    const std::vector<uint64_t> batch_sizes_;
    const std::vector<Budget> budgets_;
    const Cost cost_;  ///< of the first budget; the padded total where there is none
    const Progress progress_;
    const uint32_t count_;
    const double zero_length_;
    uint32_t begin_ = 0, end_ = 0;  ///< the samples within the boundaries and the budget
};

/// Refuses terms of which two of the shortest samples cost less than one.
void PlanBuilder::check_rises(std::size_t budget) const {
    const Cost& cost = budgets_[budget].cost;
    if (cost.is_callback()) return;
    const double shortest = cost_length(sorted_.distinct_sizes[0]), one = cost(1, shortest),
                 two = cost(2, shortest);
    if (two < one)
        fail(SAB_E_ARGUMENT, "options.budgets[", budget, "].cost: cost(2, ", shortest, ") = ", two,
             " is less than cost(1, ", shortest, ") = ", one,
             ": its terms do not hold for lengths so short");
}

/// How many samples of one size make a batch; 0 when not even one fits the budgets.
uint64_t PlanBuilder::largest_batch(double size, std::span<const Budget> budgets) const {
    uint64_t fits = count_;
    if (options_.max_batch_size > 0) fits = std::min(fits, options_.max_batch_size);
    for (const Budget& budget : budgets)
        fits = budget.cost.largest_count(cost_length(size), budget.limit, fits);
    if (fits >= options_.batch_size_multiple) fits -= fits % options_.batch_size_multiple;
    if (batch_sizes_.size() == 1 && fits > 0)
        fits = budgets.empty() ? batch_sizes_[0] : std::min(fits, batch_sizes_[0]);
    if (options_.max_batch_size > 0) fits = std::min(fits, options_.max_batch_size);
    return fits;
}

bool PlanBuilder::fits_alone(double size) const {
    return std::ranges::all_of(budgets_, [&](const Budget& budget) {
        return budget.cost(1, cost_length(size)) <= budget.limit;
    });
}

/// The limits of the budgets, for messages.
std::string PlanBuilder::limits() const {
    std::string list = budgets_.size() > 1 ? "budgets" : "budget";
    for (const Budget& budget : budgets_) list += text(", ", budget.limit);
    return list;
}

/// The first budget that a sample of this size exceeds alone, for messages.
std::string PlanBuilder::exceeded(double size) const {
    std::size_t i = 0;
    while (i + 1 < budgets_.size() && budgets_[i].cost(1, cost_length(size)) <= budgets_[i].limit)
        ++i;
    return budgets_.size() == 1 ? text("the budget, ", budgets_[i].limit)
                                : text("options.budgets[", i, "].limit = ", budgets_[i].limit);
}

void PlanBuilder::find_usable_samples() {
    end_ = count_;
    if (!boundaries_.empty()) {
        const auto place_of = [&](double boundary) {
            return sorted_.first_offsets[static_cast<std::size_t>(
                std::ranges::lower_bound(sorted_.distinct_sizes, boundary) -
                sorted_.distinct_sizes.begin())];
        };
        begin_ = place_of(boundaries_.front());
        end_ = place_of(boundaries_.back());
    }
    if (!budgets_.empty()) {
        const auto over = std::ranges::partition_point(
            sorted_.distinct_sizes, [&](double size) { return fits_alone(size); });
        end_ = std::min(
            end_,
            sorted_.first_offsets[static_cast<std::size_t>(over - sorted_.distinct_sizes.begin())]);
    }
    end_ = std::max(begin_, end_);
    if (outside() > 0 && options_.oversize == SAB_OVERSIZE_ERROR) refuse_oversize();
    if (begin_ == end_ && !has_singles())
        fail(SAB_E_ARGUMENT, "sizes: no sample is left: all ", count_,
             " are outside the boundaries or over the ", std::string_view(limits()));
}

/// Names the first sample that is outside the boundaries or over the budget, and what helps.
void PlanBuilder::refuse_oversize() const {
    uint32_t first = begin_ > 0 ? first_sample(sorted_, 0, begin_) : count_;
    if (end_ < count_) {
        const uint32_t over = first_sample(sorted_, end_, count_);
        const bool comes_first = first == count_ || (sorted_.order != nullptr &&
                                                     sorted_.order[over] < sorted_.order[first]);
        if (comes_first) first = over;
    }
    const double size = sorted_.distinct_sizes[distinct_of(sorted_.first_offsets, first)];
    const bool is_inside =
        boundaries_.empty() || (size >= boundaries_.front() && size < boundaries_.back());
    const std::string rule =
        is_inside ? text("must cost at most ", std::string_view(exceeded(size)), ", alone")
                  : text("must be at least the first boundary, ", boundaries_.front(),
                         ", and below the last, ", boundaries_.back());
    const std::string_view choices = sorted_.order != nullptr
                                         ? "SAB_OVERSIZE_SKIP (0) or SAB_OVERSIZE_SINGLE (2)"
                                         : "SAB_OVERSIZE_SKIP (0)";
    fail(SAB_E_ARGUMENT, std::string_view(described(sorted_, first)), ": ", std::string_view(rule),
         "; ", outside(), " of ", count_, " samples are ",
         boundaries_.empty() ? "over the budget" : "outside the boundaries or over the budget",
         ". Set options.oversize to ", choices,
         boundaries_.empty() ? ", or use a larger budget"
                             : ", or use other boundaries or a larger budget");
}

PlanFacts PlanBuilder::facts(const BoundaryFinder& finder) const {
    PlanFacts facts{};
    facts.samples = count_;
    facts.skipped = has_singles() ? 0 : outside();
    facts.length_multiple = options_.length_multiple;
    facts.tail = options_.tail;
    facts.pads_to_bucket = options_.max_shapes > 0;
    facts.bucket_rule = options_.bucket_rule;
    facts.total = finder.total(begin_, end_) +
                  (has_singles() ? finder.total(0, begin_) + finder.total(end_, count_) : 0);
    facts.whole_sizes = facts.total <= largest_size &&
                        std::ranges::all_of(sorted_.distinct_sizes,
                                            [](double size) { return size == std::floor(size); });
    return facts;
}

/// No batch holds more samples of a size than a budget pays for, so each sample takes at least its
/// share of one batch: the sum of these, for at most one budget.
double PlanBuilder::least_batches(std::span<const Budget> budgets) const {
    double shares = 0, all = 0;
    const bool is_proportional =
        !budgets.empty() && budgets[0].cost.is_proportional() && batch_sizes_.empty();
    for (std::size_t distinct = 0; distinct < sorted_.distinct_sizes.size(); ++distinct) {
        const uint32_t first = std::clamp(sorted_.first_offsets[distinct], begin_, end_),
                       last = std::clamp(sorted_.first_offsets[distinct + 1], begin_, end_);
        if (last == first) continue;
        const double size = sorted_.distinct_sizes[distinct];
        if (is_proportional)
            all += budgets[0].cost(last - first, size);
        else
            shares += static_cast<double>(last - first) /
                      static_cast<double>(largest_batch(size, budgets));
    }
    return is_proportional ? all / budgets[0].limit : shares;
}

/// The least number of batches by the budget that needs most. Several batch sizes are those of
/// boundaries, whose ranges give their shares.
double PlanBuilder::least_batches() const {
    const auto singles = static_cast<double>(has_singles() ? outside() : 0);
    if (batch_sizes_.size() > 1) return singles;
    if (budgets_.empty()) return singles + least_batches({});
    double most = 0;
    for (const Budget& budget : budgets_) most = std::max(most, least_batches({&budget, 1}));
    return singles + most;
}

/// The samples over the budget that are batches of one. Under `max_shapes` they take their part of
/// `shapes`.
std::vector<BucketRange> PlanBuilder::singles(BoundaryFinder& finder, std::size_t& shapes) const {
    std::vector<BucketRange> alone;
    if (has_singles() && end_ < count_) alone.push_back({end_, count_, 1});
    if (shapes == 0) return alone;
    const bool has_tail =
        begin_ < end_ && (options_.tail == SAB_TAIL_KEEP || options_.tail == SAB_TAIL_MERGE);
    const std::size_t fewest = (begin_ < end_ ? 1u : 0u) + (has_tail ? 1u : 0u) + alone.size();
    check(shapes >= fewest, "options.max_shapes", shapes, "must be at least ", fewest,
          ": one for full batches, one for the tail of the shortest samples where it is kept, ",
          "and one for samples over the budget where each is a batch");
    shapes -= has_tail ? 1 : 0;
    if (!alone.empty()) {
        BoundaryFinder singles_finder(
            sorted_, end_, count_, [this](double size) { return padded(size); },
            [](double) { return uint64_t{1}; });
        alone = singles_finder.optimal(
            begin_ == end_ ? shapes : shapes_of_singles(finder, singles_finder, shapes, progress_),
            progress_);
        shapes -= alone.size();
    }
    return alone;
}

/// Divides the samples into buckets; sets the lower bound and the targets of the facts.
std::vector<BucketRange> PlanBuilder::ranges(BoundaryFinder& finder, PlanFacts& facts) const {
    double all_batches = least_batches();
    std::size_t shapes = options_.max_shapes;
    const std::vector<BucketRange> alone = singles(finder, shapes);
    std::vector<BucketRange> ranges;
    if (!boundaries_.empty()) {
        ranges = finder.by_boundaries(boundaries_);
        for (std::size_t i = 0; i < ranges.size() && batch_sizes_.size() > 1; ++i) {
            const uint64_t given = batch_sizes_[i];
            ranges[i].batch_size = budgets_.empty() ? given : std::min(ranges[i].batch_size, given);
            if (options_.max_batch_size > 0)
                ranges[i].batch_size = std::min(ranges[i].batch_size, options_.max_batch_size);
            all_batches += static_cast<double>(ranges[i].end - ranges[i].begin) /
                           static_cast<double>(ranges[i].batch_size);
        }
    } else if (begin_ == end_) {
        // Only samples that are alone in their batches.
    } else if (options_.bucket_rule == SAB_BUCKETS_OPTIMAL) {
        ranges = finder.optimal(options_.bucket_count, progress_);
    } else if (options_.bucket_rule == SAB_BUCKETS_EQUAL) {
        ranges = finder.equal_buckets(options_.bucket_batches);
    } else if (options_.max_shapes > 0) {
        ranges = finder.by_shapes(shapes, progress_);
    }
    facts.lower_bound = static_cast<uint64_t>(std::ceil(all_batches - 1e-9 * all_batches));
    if (options_.bucket_rule == SAB_BUCKETS_AUTO && options_.max_shapes == 0 && begin_ < end_) {
        BoundaryFinder::Automatic found = automatic_ranges(
            finder, options_, facts.lower_bound, has_singles() ? outside() : 0, progress_);
        ranges = std::move(found.ranges);
        facts.padding_target = options_.padding_target;
        facts.nearest_target = found.nearest;
    }
    if (options_.tail == SAB_TAIL_MERGE) merge_tails(ranges);
    ranges.insert(ranges.end(), alone.begin(), alone.end());
    if (has_singles() && begin_ > 0) ranges.push_back({0, begin_, 1});
    return ranges;
}

/// The bucket of the range number `number`.
Bucket PlanBuilder::bucket(const BoundaryFinder& finder, const BucketRange& range,
                           std::size_t number) const {
    Bucket bucket{};
    bucket.begin = range.begin;
    bucket.end = range.end;
    // Filled up from itself, a bucket of fewer samples than a batch would show them many times
    // over.
    bucket.batch_size = options_.tail == SAB_TAIL_WRAP
                            ? std::clamp<uint64_t>(bucket.samples(), 1, range.batch_size)
                            : range.batch_size;
    bucket.batches = batches_of(bucket.samples(), bucket.batch_size, options_.tail);
    if (range.end > range.begin) {
        bucket.distinct_begin = static_cast<uint32_t>(finder.distinct_at(range.begin));
        bucket.distinct_end = static_cast<uint32_t>(finder.distinct_at(range.end - 1)) + 1;
        bucket.shortest = sorted_.distinct_sizes[bucket.distinct_begin];
        bucket.longest = sorted_.distinct_sizes[bucket.distinct_end - 1];
        bucket.padded_length = padded(bucket.longest);
        bucket.total = finder.total(range.begin, range.end);
        bucket.cost =
            cost_(std::min(bucket.batch_size, bucket.samples()), cost_length(bucket.longest));
    }
    // the ranges after these are of single samples
    const bool has_boundaries = number + 1 < boundaries_.size();
    bucket.lower = has_boundaries ? boundaries_[number] : bucket.shortest;
    bucket.upper = has_boundaries ? boundaries_[number + 1] : bucket.longest;
    return bucket;
}

}  // namespace

double round_up(double length, double multiple) {
    if (multiple <= 0) return length;
    const double rounded = std::ceil(length / multiple) * multiple;
    // A multiple too fine for the length's own precision may round to less.
    return std::max(length, rounded < length ? rounded + multiple : rounded);
}

double price_of_zero(std::span<const double> distinct_sizes) {
    return distinct_sizes[0] > 0       ? distinct_sizes[0]
           : distinct_sizes.size() > 1 ? distinct_sizes[1]
                                       : 1;
}

double Plan::padded(double length) const {
    return round_up(length, facts_.length_multiple);
}

double Plan::priced(double padded_length) const {
    return padded_length > 0 ? padded_length : padded(price_of_zero(distinct_sizes_));
}

std::size_t Plan::skipped(std::span<int64_t> room) const {
    // Buckets cover one range of the sorted order. Samples before and after it are skipped, unless
    // they are in buckets of single samples.
    uint32_t begin = static_cast<uint32_t>(order_.size()), end = 0;
    for (const Bucket& bucket : buckets_) {
        begin = std::min(begin, bucket.begin);
        end = std::max(end, bucket.end);
    }
    std::size_t count = 0;
    const auto add = [&](uint32_t offset) {
        if (count < room.size()) {
            const uint32_t index = order_[offset];
            check_sample(index);
            room[count] = index;
        }
        ++count;
    };
    for (uint32_t offset = 0; offset < begin; ++offset) add(offset);
    for (std::size_t offset = std::max(begin, end); offset < order_.size(); ++offset)
        add(static_cast<uint32_t>(offset));
    return count;
}

std::shared_ptr<const Plan> Plan::make(const Sizes& sizes, const sab_plan_options& options) {
    check_scalars(options);
    check(sizes.count() > 0, "sizes.count", sizes.count(), "must be at least 1");
    return make(sort_by_size(sizes, true, Progress(options.progress, options.progress_ctx)),
                options);
}

std::shared_ptr<const Plan> Plan::make(Sorted sorted, const sab_plan_options& options) {
    check_scalars(options);
    const PlanBuilder builder(sorted, options);
    BoundaryFinder finder = builder.finder();
    PlanFacts facts = builder.facts(finder);
    const std::vector<BucketRange> ranges = builder.ranges(finder, facts);
    const auto count = static_cast<uint32_t>(sorted.count);
    auto arrays = std::make_shared<Arrays>();
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        arrays->buckets.push_back(builder.bucket(finder, ranges[i], i));
        facts.batches += arrays->buckets.back().batches;
    }
    if (facts.skipped > 0)
        log(SAB_LOG_WARNING, "skipped ", facts.skipped, " of ", count,
            " samples: outside the boundaries or over the budget");

    arrays->order = std::move(sorted.order);
    arrays->distinct_sizes = std::move(sorted.distinct_sizes);
    arrays->first_offsets = std::move(sorted.first_offsets);
    std::shared_ptr<Plan> plan(new Plan);
    plan->facts_ = facts;
    if (arrays->order != nullptr) plan->order_ = {arrays->order.get(), count};
    plan->distinct_sizes_ = arrays->distinct_sizes;
    plan->first_offsets_ = arrays->first_offsets;
    plan->buckets_ = arrays->buckets;
    for (const Budget& budget : builder.budgets())
        plan->budgets_.push_back({budget.cost.kept(), budget.limit});
    if (plan->budgets_.empty()) plan->budgets_.push_back({Cost(), 0});
    plan->owner_ = std::move(arrays);
    plan->fingerprint_ = plan->checksum();
    Progress(options.progress, options.progress_ctx).report(3 * sorted.count, 3 * sorted.count);
    return plan;
}

}  // namespace sab
