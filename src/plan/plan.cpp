#include "plan/plan.h"

#include <algorithm>
#include <cmath>

#include "base/guard.h"
#include "plan/edges.h"

namespace sab {
namespace {

/// What keeps the arrays of a plan that was made, not opened.
struct Arrays {
    std::unique_ptr<uint32_t[]> order;
    std::vector<double> level_size;
    std::vector<uint32_t> level_first;
    std::vector<Bucket> buckets;
    std::vector<double> coefficients;
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
    for (std::size_t i = 0; i < sizes.size(); ++i)
        if (sizes[i] == 0)
            fail(SAB_E_ARGUMENT, "options.batch_sizes[", i, "] = 0: must be at least 1");
    if (sizes.size() > 1) {
        check(options.buckets == SAB_BUCKETS_BOUNDARIES, "options.batch_size_count", sizes.size(),
              "must be 0 or 1 unless the boundaries are given");
        check(sizes.size() == boundary_count - 1, "options.batch_size_count", sizes.size(),
              "must be 1 or the number of buckets, ", boundary_count - 1);
    }
    return sizes;
}

void check_scalars(const sab_plan_options& options) {
    check(options.buckets >= SAB_BUCKETS_AUTO && options.buckets <= SAB_BUCKETS_EQUAL,
          "options.buckets", options.buckets,
          "must be one of SAB_BUCKETS_AUTO (0) to SAB_BUCKETS_EQUAL (3)");
    check(options.budget >= 0 && std::isfinite(options.budget), "options.budget", options.budget,
          "must be finite and above 0 (0: none)");
    if (options.budget == 0 && options.batch_size_count == 0)
        fail(SAB_E_ARGUMENT,
             "options.budget = 0 and options.batch_size_count = 0: a budget or a batch size must "
             "be given");
    check(options.padding_target > 0 && options.padding_target < 1, "options.padding_target",
          options.padding_target, "must be between 0 and 1");
    const bool by_boundaries = options.buckets == SAB_BUCKETS_BOUNDARIES;
    check(by_boundaries || options.boundary_count == 0, "options.boundary_count",
          options.boundary_count, "goes with SAB_BUCKETS_BOUNDARIES only");
    const bool is_optimal = options.buckets == SAB_BUCKETS_OPTIMAL;
    check(is_optimal ? options.bucket_count >= 1 : options.bucket_count == 0,
          "options.bucket_count", options.bucket_count,
          is_optimal ? "must be at least 1" : "goes with SAB_BUCKETS_OPTIMAL only");
    const bool by_rank = options.buckets == SAB_BUCKETS_EQUAL;
    check(!by_rank || options.bucket_batches >= 1, "options.bucket_batches", options.bucket_batches,
          "must be at least 1");
    check(by_rank || options.buckets == SAB_BUCKETS_AUTO || options.bucket_batches == 0,
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
    check(options.max_shapes == 0 || options.buckets == SAB_BUCKETS_AUTO, "options.max_shapes",
          options.max_shapes, "goes with SAB_BUCKETS_AUTO only");
}

uint64_t batches_of(uint64_t samples, uint64_t batch_size, sab_tail tail) {
    return tail == SAB_TAIL_DROP ? samples / batch_size : (samples + batch_size - 1) / batch_size;
}

/// The samples that do not fill a batch, the longest of a bucket, move up into the next bucket that
/// has samples.
void merge_tails(std::vector<Cut>& cuts) {
    std::size_t last = cuts.size();
    while (last > 0 && cuts[last - 1].begin == cuts[last - 1].end) --last;
    for (std::size_t i = 0; i + 1 < last; ++i) {
        const auto tail = static_cast<uint32_t>((cuts[i].end - cuts[i].begin) % cuts[i].batch_size);
        std::size_t up = i + 1;
        while (cuts[up].begin == cuts[up].end) ++up;
        if (cuts[i].begin == cuts[i].end) continue;
        cuts[i].end -= tail;
        for (std::size_t j = i + 1; j <= up; ++j) cuts[j].begin -= tail;
        for (std::size_t j = i + 1; j < up; ++j) cuts[j].end -= tail;
    }
}

/// Buckets for SAB_BUCKETS_AUTO. `singles`: batches of one sample, added to those of the cuts.
Cutter::Automatic automatic_cuts(Cutter& cutter, const sab_plan_options& options,
                                 uint64_t lower_bound, uint64_t singles, const Progress& progress) {
    // With 16 batches in a bucket two batch mates meet again in about 1 of 16 epochs, with 4 in 1
    // of 4. A small epoch has no room for that.
    const uint64_t room = std::max<uint64_t>(lower_bound / 16, 1);
    const uint64_t most =
        options.bucket_batches > 0 ? options.bucket_batches : std::min<uint64_t>(room, 16);
    const uint64_t fewest =
        options.bucket_batches > 0 ? options.bucket_batches : std::min<uint64_t>(room, 4);
    const auto share_of = [&](std::vector<Cut> cuts) {
        if (options.tail == SAB_TAIL_MERGE) merge_tails(cuts);
        const Cutter::Waste waste = cutter.waste(cuts);
        const double padding = waste.padded > 0 ? waste.padding / waste.padded : 0;
        const auto bound = static_cast<double>(lower_bound);
        const double over =
            options.budget > 0 ? (static_cast<double>(waste.batches + singles) - bound) / bound : 0;
        return std::max(padding, over);
    };
    return cutter.automatic(options.padding_target, fewest, most, share_of, progress);
}

/// How many of `shapes` the samples over the budget get, so that both kinds together pad least. The
/// least padded total is convex in the number of intervals, so the best share is where one more no
/// longer pays.
std::size_t shapes_of_singles(Cutter& others, Cutter& singles, std::size_t shapes,
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
class Maker {
public:
    Maker(const Sorted& sorted, const sab_plan_options& options)
        : sorted_(sorted),
          options_(options),
          boundaries_(options.buckets == SAB_BUCKETS_BOUNDARIES ? read_boundaries(options)
                                                                : std::vector<double>()),
          batch_sizes_(read_batch_sizes(options, boundaries_.size())),
          cost_(Cost::of(options, "options")),
          progress_(options.progress, options.progress_ctx),
          count_(static_cast<uint32_t>(sorted.count)),
          zero_length_(price_of_zero(sorted.level_size)) {
        check(options.budget == 0 || options.budget > cost_.constant(), "options.budget",
              options.budget, "must be more than the cost's constant term, ", cost_.constant(),
              ", which a batch of nothing costs");
        if (options.cost == SAB_COST_TERMS) {
            const double shortest = cost_length(sorted.level_size[0]), one = cost_(1, shortest),
                         two = cost_(2, shortest);
            if (two < one)
                fail(SAB_E_ARGUMENT, "options.cost_terms: cost(2, ", shortest, ") = ", two,
                     " is less than cost(1, ", shortest, ") = ", one,
                     ": they do not hold for lengths so short");
        }
        find_places();
    }

    const Cost& cost() const { return cost_; }
    Cutter cutter() const {
        return Cutter(
            sorted_, begin_, end_, [this](double size) { return padded(size); },
            [this](double size) { return std::max<uint64_t>(capacity(size), 1); });
    }
    PlanFacts facts(const Cutter& cutter) const;
    std::vector<Cut> cut(Cutter& cutter, PlanFacts& facts) const;
    Bucket bucket(const Cutter& cutter, const Cut& cut, std::size_t number) const;

private:
    double padded(double size) const { return round_up(size, options_.length_multiple); }
    double cost_length(double size) const { return padded(size > 0 ? size : zero_length_); }
    bool has_singles() const { return options_.oversize == SAB_OVERSIZE_SINGLE; }
    uint64_t outside() const { return count_ - (end_ - begin_); }
    uint64_t capacity(double size) const;
    void find_places();
    double shares() const;
    std::vector<Cut> singles(Cutter& cutter, std::size_t& shapes) const;

    const Sorted& sorted_;
    const sab_plan_options& options_;
    const std::vector<double> boundaries_;
    const std::vector<uint64_t> batch_sizes_;
    const Cost cost_;
    const Progress progress_;
    const uint32_t count_;
    const double zero_length_;
    uint32_t begin_ = 0, end_ = 0;  ///< the places inside the boundaries and the budget
};

/// How many samples of one size make a batch; 0 when not even one fits the budget.
uint64_t Maker::capacity(double size) const {
    uint64_t fits = count_;
    if (options_.max_batch_size > 0) fits = std::min(fits, options_.max_batch_size);
    if (options_.budget > 0) fits = cost_.largest_count(cost_length(size), options_.budget, fits);
    if (fits >= options_.batch_size_multiple) fits -= fits % options_.batch_size_multiple;
    if (batch_sizes_.size() == 1 && fits > 0)
        fits = options_.budget > 0 ? std::min(fits, batch_sizes_[0]) : batch_sizes_[0];
    if (options_.max_batch_size > 0) fits = std::min(fits, options_.max_batch_size);
    return fits;
}

void Maker::find_places() {
    end_ = count_;
    if (!boundaries_.empty()) {
        const auto place_of = [&](double boundary) {
            return sorted_.level_first[static_cast<std::size_t>(
                std::ranges::lower_bound(sorted_.level_size, boundary) -
                sorted_.level_size.begin())];
        };
        begin_ = place_of(boundaries_.front());
        end_ = place_of(boundaries_.back());
    }
    if (options_.budget > 0) {
        const auto over = std::ranges::partition_point(sorted_.level_size, [&](double size) {
            return cost_(1, cost_length(size)) <= options_.budget;
        });
        end_ = std::min(
            end_, sorted_.level_first[static_cast<std::size_t>(over - sorted_.level_size.begin())]);
    }
    end_ = std::max(begin_, end_);
    if (outside() > 0 && options_.oversize == SAB_OVERSIZE_ERROR) {
        const bool is_long = end_ < count_;
        const std::string name =
            sorted_.order == nullptr
                ? "a size"
                : text("sizes[", is_long ? sorted_.order[count_ - 1] : sorted_.order[0], "]");
        fail(SAB_E_ARGUMENT, std::string_view(name), " = ",
             is_long ? sorted_.level_size.back() : sorted_.level_size.front(),
             ": must be inside the boundaries and cost at most the budget, ", options_.budget,
             ", alone (", outside(), " of ", count_, " samples do not)");
    }
    if (begin_ == end_ && !has_singles())
        fail(SAB_E_ARGUMENT, "sizes: no sample is left: all ", count_,
             " are outside the boundaries or over the budget, ", options_.budget);
}

PlanFacts Maker::facts(const Cutter& cutter) const {
    PlanFacts facts{};
    facts.samples = count_;
    facts.skipped = has_singles() ? 0 : outside();
    facts.budget = options_.budget;
    facts.length_multiple = options_.length_multiple;
    facts.cost = options_.cost;
    facts.tail = options_.tail;
    facts.pads_to_bucket = options_.max_shapes > 0;
    facts.edges = options_.buckets;
    facts.total = cutter.total(begin_, end_) +
                  (has_singles() ? cutter.total(0, begin_) + cutter.total(end_, count_) : 0);
    facts.whole_sizes = facts.total <= largest_size &&
                        std::ranges::all_of(sorted_.level_size,
                                            [](double size) { return size == std::floor(size); });
    return facts;
}

/// No batch holds more samples of a size than the budget pays for, so each sample takes at least
/// its share of one batch: the sum of these. Several batch sizes are those of boundaries, whose
/// cuts say them.
double Maker::shares() const {
    double shares = static_cast<double>(has_singles() ? outside() : 0), all = 0;
    const bool is_proportional =
        options_.budget > 0 && cost_.is_proportional() && batch_sizes_.empty();
    if (batch_sizes_.size() > 1) return shares;
    for (std::size_t level = 0; level < sorted_.level_size.size(); ++level) {
        const uint32_t first = std::clamp(sorted_.level_first[level], begin_, end_),
                       last = std::clamp(sorted_.level_first[level + 1], begin_, end_);
        if (last == first) continue;
        if (is_proportional)
            all += cost_(last - first, sorted_.level_size[level]);
        else
            shares += static_cast<double>(last - first) /
                      static_cast<double>(capacity(sorted_.level_size[level]));
    }
    return is_proportional ? shares + all / options_.budget : shares;
}

/// The samples over the budget that are batches of one. Under `max_shapes` they take their part of
/// `shapes`.
std::vector<Cut> Maker::singles(Cutter& cutter, std::size_t& shapes) const {
    std::vector<Cut> alone;
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
        Cutter singles_cutter(
            sorted_, end_, count_, [this](double size) { return padded(size); },
            [](double) { return uint64_t{1}; });
        alone = singles_cutter.optimal(
            begin_ == end_ ? shapes : shapes_of_singles(cutter, singles_cutter, shapes, progress_),
            progress_);
        shapes -= alone.size();
    }
    return alone;
}

/// Cuts the places into buckets; sets what the facts say of the lower bound and the target.
std::vector<Cut> Maker::cut(Cutter& cutter, PlanFacts& facts) const {
    double all_shares = shares();
    std::size_t shapes = options_.max_shapes;
    const std::vector<Cut> alone = singles(cutter, shapes);
    std::vector<Cut> cuts;
    if (!boundaries_.empty()) {
        cuts = cutter.by_boundaries(boundaries_);
        for (std::size_t i = 0; i < cuts.size() && batch_sizes_.size() > 1; ++i) {
            const uint64_t given = batch_sizes_[i];
            cuts[i].batch_size = options_.budget > 0 ? std::min(cuts[i].batch_size, given) : given;
            if (options_.max_batch_size > 0)
                cuts[i].batch_size = std::min(cuts[i].batch_size, options_.max_batch_size);
            all_shares += static_cast<double>(cuts[i].end - cuts[i].begin) /
                          static_cast<double>(cuts[i].batch_size);
        }
    } else if (begin_ == end_) {
        // Only samples that are alone in their batches.
    } else if (options_.buckets == SAB_BUCKETS_OPTIMAL) {
        cuts = cutter.optimal(options_.bucket_count, progress_);
    } else if (options_.buckets == SAB_BUCKETS_EQUAL) {
        cuts = cutter.by_rank(options_.bucket_batches);
    } else if (options_.max_shapes > 0) {
        cuts = cutter.by_shapes(shapes, progress_);
    }
    facts.lower_bound = static_cast<uint64_t>(std::ceil(all_shares - 1e-9 * all_shares));
    if (options_.buckets == SAB_BUCKETS_AUTO && options_.max_shapes == 0 && begin_ < end_) {
        Cutter::Automatic found = automatic_cuts(cutter, options_, facts.lower_bound,
                                                 has_singles() ? outside() : 0, progress_);
        cuts = std::move(found.cuts);
        facts.padding_target = options_.padding_target;
        facts.nearest_target = found.nearest;
    }
    if (options_.tail == SAB_TAIL_MERGE) merge_tails(cuts);
    cuts.insert(cuts.end(), alone.begin(), alone.end());
    if (has_singles() && begin_ > 0) cuts.push_back({0, begin_, 1});
    return cuts;
}

/// The bucket of a cut; `number` is that of the cut.
Bucket Maker::bucket(const Cutter& cutter, const Cut& cut, std::size_t number) const {
    Bucket bucket{};
    bucket.begin = cut.begin;
    bucket.end = cut.end;
    // Filled up from itself, a bucket of fewer samples than a batch would show them many times
    // over.
    bucket.batch_size = options_.tail == SAB_TAIL_WRAP
                            ? std::clamp<uint64_t>(bucket.samples(), 1, cut.batch_size)
                            : cut.batch_size;
    bucket.batches = batches_of(bucket.samples(), bucket.batch_size, options_.tail);
    if (cut.end > cut.begin) {
        bucket.level_begin = static_cast<uint32_t>(cutter.level_at(cut.begin));
        bucket.level_end = static_cast<uint32_t>(cutter.level_at(cut.end - 1)) + 1;
        bucket.shortest = sorted_.level_size[bucket.level_begin];
        bucket.longest = sorted_.level_size[bucket.level_end - 1];
        bucket.padded_length = padded(bucket.longest);
        bucket.total = cutter.total(cut.begin, cut.end);
        bucket.cost =
            cost_(std::min(bucket.batch_size, bucket.samples()), cost_length(bucket.longest));
    }
    // the cuts after these are of samples alone
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

double price_of_zero(std::span<const double> level_size) {
    return level_size[0] > 0 ? level_size[0] : level_size.size() > 1 ? level_size[1] : 1;
}

double Plan::padded(double length) const {
    return round_up(length, facts_.length_multiple);
}

double Plan::priced(double padded_length) const {
    return padded_length > 0 ? padded_length : padded(price_of_zero(level_size_));
}

std::size_t Plan::skipped(std::span<int64_t> room) const {
    // Buckets cover one stretch of the sorted places, so what is left out lies before and after it,
    // unless it was put into buckets of one.
    uint32_t begin = static_cast<uint32_t>(order_.size()), end = 0;
    for (const Bucket& bucket : buckets_) {
        begin = std::min(begin, bucket.begin);
        end = std::max(end, bucket.end);
    }
    std::size_t count = 0;
    const auto add = [&](uint32_t place) {
        if (count < room.size()) {
            const uint32_t index = order_[place];
            check_sample(index);
            room[count] = index;
        }
        ++count;
    };
    for (uint32_t place = 0; place < begin; ++place) add(place);
    for (std::size_t place = std::max(begin, end); place < order_.size(); ++place)
        add(static_cast<uint32_t>(place));
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
    const Maker maker(sorted, options);
    Cutter cutter = maker.cutter();
    PlanFacts facts = maker.facts(cutter);
    const std::vector<Cut> cuts = maker.cut(cutter, facts);
    const auto count = static_cast<uint32_t>(sorted.count);
    auto arrays = std::make_shared<Arrays>();
    for (std::size_t i = 0; i < cuts.size(); ++i) {
        arrays->buckets.push_back(maker.bucket(cutter, cuts[i], i));
        facts.batches += arrays->buckets.back().batches;
    }
    if (facts.skipped > 0)
        log(SAB_LOG_WARNING, "skipped ", facts.skipped, " of ", count,
            " samples: outside the boundaries or over the budget");

    arrays->order = std::move(sorted.order);
    arrays->level_size = std::move(sorted.level_size);
    arrays->level_first = std::move(sorted.level_first);
    arrays->coefficients = maker.cost().coefficients();
    std::shared_ptr<Plan> plan(new Plan);
    plan->facts_ = facts;
    if (arrays->order != nullptr) plan->order_ = {arrays->order.get(), count};
    plan->level_size_ = arrays->level_size;
    plan->level_first_ = arrays->level_first;
    plan->buckets_ = arrays->buckets;
    plan->coefficients_ = arrays->coefficients;
    plan->owner_ = std::move(arrays);
    plan->fingerprint_ = plan->checksum();
    Progress(options.progress, options.progress_ctx).report(3 * sorted.count, 3 * sorted.count);
    return plan;
}

}  // namespace sab
