#include "plan/plan_builder.h"

#include <algorithm>
#include <cmath>

namespace sab {
namespace {

/// `found`, or equal runs of as many batches if these have fewer batches and less padding: where
/// the shortest samples are too few for a bucket, `found` adds them to longer ones.
BoundaryFinder::Tried with_fewer_at_end(BoundaryFinder& finder, BoundaryFinder::Tried found,
                                        double target,
                                        const BoundaryFinder::OverheadOf& overhead_of) {
    std::vector<BucketRange> runs = finder.equal_buckets(found.fewest, false);
    const BoundaryFinder::Waste own = finder.waste(found.buckets), other = finder.waste(runs);
    if (own.batches <= other.batches || own.padding <= other.padding) return found;
    found.buckets = std::move(runs);
    found.overhead = overhead_of(found.buckets);
    found.nearest = std::max(target, std::min(found.nearest, found.overhead));
    return found;
}

/// Buckets for SAB_BUCKETS_AUTO. `singles`: batches of one sample, added to those of the buckets.
BoundaryFinder::Tried automatic_ranges(BoundaryFinder& finder, const sab_plan_options& options,
                                       uint64_t lower_bound, const BoundaryFinder::Waste& singles,
                                       const Progress& progress) {
    const AutomaticRange range = automatic_range(options, lower_bound, finder.samples());
    const double target = options.padding_target;
    const auto overhead_of = [&](const std::vector<BucketRange>& ranges) {
        const BoundaryFinder::Waste waste = finder.waste(ranges);
        return overhead(waste.padding + singles.padding, waste.padded + singles.padded,
                        waste.batches + singles.batches, lower_bound, options.budget_count > 0);
    };
    BoundaryFinder::Tried found =
        finder.automatic(target, range.fewest, range.most, overhead_of, progress);
    // A bucket may be a tail only, unless its samples would then be left out of all epochs, or be
    // too few.
    const bool keeps_tails = (options.tail == SAB_TAIL_KEEP || options.tail == SAB_TAIL_WRAP) &&
                             options.min_batch_size <= 1;
    const uint64_t given = options.bucket_batches;
    if (given > 1)
        return keeps_tails ? with_fewer_at_end(finder, std::move(found), target, overhead_of)
                           : found;
    if (given == 0 && found.overhead <= target) return found;
    // Smaller buckets are for those that save more than a quarter of the batches or of the padded
    // total. Padding of up to a quarter leaves no more to save.
    const BoundaryFinder::Waste waste = finder.waste(found.buckets);
    const uint64_t cut = finder.sorted_cut(),
                   limit = given == 1 ? cut : cut + (cut + singles.batches) / 4;
    if (waste.batches <= limit && (given == 1 || waste.padding <= 0.25 * waste.padded))
        return found;
    BoundaryFinder::Tried small = finder.with_small_buckets(
        target, {given == 1 ? 1 : range.most, 0, cut, keeps_tails}, limit,
        given == 1 || options.separate_by != nullptr ? limit : std::max(limit, cut + 1),
        overhead_of, progress);
    small.nearest = std::max(target, std::min(found.nearest, small.nearest));
    return small;
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

}  // namespace

namespace {

void check_fewest(const sab_plan_options& options) {
    const uint64_t fewest = options.min_batch_size;
    if (fewest <= 1) return;
    const auto refuse = [&](bool holds, std::string_view rule) {
        check(holds, "options.min_batch_size", fewest, rule);
    };
    refuse(options.bucket_rule == SAB_BUCKETS_AUTO && options.max_shapes == 0 &&
               options.id_shape_count == 0,
           "goes with SAB_BUCKETS_AUTO (0) without max_shapes only");
    refuse(options.oversize != SAB_OVERSIZE_SINGLE,
           "does not go with SAB_OVERSIZE_SINGLE (2), whose batches have one sample");
    refuse(options.max_batch_size == 0 || fewest <= options.max_batch_size,
           "must be at most options.max_batch_size");
    refuse(options.batch_size_count != 1 || options.batch_sizes == nullptr ||
               fewest <= options.batch_sizes[0],
           "must be at most options.batch_sizes[0]");
}

}  // namespace

void refuse_fewest(const sab_plan_options& options, uint64_t samples) {
    fail(SAB_E_ARGUMENT, "options.min_batch_size = ", options.min_batch_size,
         ": no batch has so many of the ", samples,
         " samples; use a smaller one or a larger budget");
}

void check_plan_options(const sab_plan_options& options) {
    check(options.bucket_rule >= SAB_BUCKETS_AUTO && options.bucket_rule <= SAB_BUCKETS_OPTIMAL,
          "options.bucket_rule", options.bucket_rule,
          "must be one of SAB_BUCKETS_AUTO (0) to SAB_BUCKETS_OPTIMAL (2)");
    if (options.budget_count == 0 && options.batch_size_count == 0)
        fail(SAB_E_ARGUMENT,
             "options.budget_count = 0 and options.batch_size_count = 0: a budget or a batch size "
             "must be given");
    check(options.padding_target > 0 && options.padding_target < 1, "options.padding_target",
          options.padding_target, "must be above 0 and below 1");
    const bool by_boundaries = options.bucket_rule == SAB_BUCKETS_BOUNDARIES;
    check(by_boundaries || options.boundary_count == 0, "options.boundary_count",
          options.boundary_count, "goes with SAB_BUCKETS_BOUNDARIES only");
    const bool is_optimal = options.bucket_rule == SAB_BUCKETS_OPTIMAL;
    check(is_optimal ? options.bucket_count >= 1 : options.bucket_count == 0,
          "options.bucket_count", options.bucket_count,
          is_optimal ? "must be at least 1" : "goes with SAB_BUCKETS_OPTIMAL only");
    check(options.bucket_rule == SAB_BUCKETS_AUTO || options.bucket_batches == 0,
          "options.bucket_batches", options.bucket_batches, "goes with SAB_BUCKETS_AUTO only");
    check(options.batch_size_multiple >= 1, "options.batch_size_multiple",
          options.batch_size_multiple, "must be at least 1");
    check(options.tail >= SAB_TAIL_KEEP && options.tail <= SAB_TAIL_WRAP, "options.tail",
          options.tail, "must be one of SAB_TAIL_KEEP (0) to SAB_TAIL_WRAP (2)");
    check(options.oversize >= SAB_OVERSIZE_SKIP && options.oversize <= SAB_OVERSIZE_SINGLE,
          "options.oversize", options.oversize,
          "must be one of SAB_OVERSIZE_SKIP (0) to SAB_OVERSIZE_SINGLE (2)");
    check(options.max_shapes == 0 || options.bucket_rule == SAB_BUCKETS_AUTO, "options.max_shapes",
          options.max_shapes, "goes with SAB_BUCKETS_AUTO only");
    check_fewest(options);
    check(options.threads <= SAB_MAX_PLAN_THREADS, "options.threads", options.threads,
          "must be at most ", SAB_MAX_PLAN_THREADS);
    if (options.separate_by_count > 0) require(options.separate_by, "options.separate_by");
    if (options.id_shape_count == 0) return;
    require(options.id_shapes, "options.id_shapes");
    check(options.separate_by != nullptr, "options.id_shape_count", options.id_shape_count,
          "goes with options.separate_by only");
    check(options.bucket_rule == SAB_BUCKETS_AUTO, "options.id_shape_count", options.id_shape_count,
          "goes with SAB_BUCKETS_AUTO only");
}

std::vector<double> read_boundaries(const sab_plan_options& options) {
    if (options.boundary_count > 0) require(options.boundaries, "options.boundaries");
    std::vector<double> boundaries(options.boundaries, options.boundaries + options.boundary_count);
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

AutomaticRange automatic_range(const sab_plan_options& options, uint64_t lower_bound,
                               uint64_t samples) {
    // With 16 batches in a bucket two batch mates meet again in about 1 of 16 epochs, with 4 in 1
    // of 4. A small epoch has no room for that.
    const uint64_t room = std::max<uint64_t>(lower_bound / 16, 1);
    // Buckets are never kept small where there would be millions of them. All of them are in memory
    // and are read before the first batch of a saved plan.
    const uint64_t least = lower_bound >> 16;
    // No plan has more batches than samples.
    const uint64_t given = std::min(options.bucket_batches, samples);
    return given > 0 ? AutomaticRange{given, given}
                     : AutomaticRange{std::max(least, std::min<uint64_t>(room, 4)),
                                      std::max(least, std::min<uint64_t>(room, 16))};
}

double overhead(double padding, double padded, uint64_t batches, uint64_t lower_bound,
                bool has_budget) {
    const double share = padded > 0 ? padding / padded : 0;
    const auto bound = static_cast<double>(lower_bound);
    return std::max(share, has_budget ? (static_cast<double>(batches) - bound) / bound : 0);
}

uint64_t batches_of(uint64_t samples, uint64_t batch_size, sab_tail tail) {
    return tail == SAB_TAIL_DROP ? samples / batch_size : (samples + batch_size - 1) / batch_size;
}

Taken taken_for_fewest(uint64_t samples, uint64_t batch_size, const sab_plan_options& options) {
    const uint64_t fewest = options.min_batch_size, full = samples / batch_size,
                   tail = samples % batch_size;
    if (batch_size < fewest) return {samples, 0};  // samples of a box, each long in another column
    const bool is_kept = options.tail == SAB_TAIL_KEEP || full == 0;
    if (tail == 0 || tail >= fewest || !is_kept) return {0, 0};
    // As many batches as before, the last ones of which share their samples evenly.
    for (uint64_t others = 1; others <= full; ++others) {
        const uint64_t shared = others * batch_size + tail, even = (shared + others) / (others + 1);
        if (shared - others * even >= fewest) return {shared, even};
    }
    return {tail, 0};
}

PlanBuilder::PlanBuilder(const SizeCounts& counts, const sab_plan_options& options,
                         const std::string& name)
    : counts_(counts),
      options_(options),
      boundaries_(options.bucket_rule == SAB_BUCKETS_BOUNDARIES ? read_boundaries(options)
                                                                : std::vector<double>()),
      distinct_(counts.distinct_sizes),
      batch_sizes_(options, {&name, 1}, {&distinct_, 1}, counts.count,
                   boundaries_.empty() ? 0 : boundaries_.size() - 1),
      progress_(options.progress, options.progress_ctx),
      count_(counts.count) {
    batch_sizes_.check_rises({&distinct_, 1});
    find_usable_samples();
}

void PlanBuilder::find_usable_samples() {
    end_ = count_;
    if (!boundaries_.empty()) {
        const auto place_of = [&](double boundary) {
            return counts_.first_places[static_cast<std::size_t>(
                std::ranges::lower_bound(counts_.distinct_sizes, boundary) -
                counts_.distinct_sizes.begin())];
        };
        begin_ = place_of(boundaries_.front());
        end_ = place_of(boundaries_.back());
    }
    // Where the samples begin that do not fit.
    const auto first_that_fails = [&](auto&& fits) {
        const auto over = std::ranges::partition_point(counts_.distinct_sizes, [&](double size) {
            const double length = batch_sizes_.padded(size, 0);
            return fits(std::span<const double>(&length, 1));
        });
        return counts_
            .first_places[static_cast<std::size_t>(over - counts_.distinct_sizes.begin())];
    };
    if (!batch_sizes_.budgets().empty())
        end_ = std::min(
            end_, first_that_fails([&](auto length) { return batch_sizes_.fits_alone(length); }));
    end_ = std::max(begin_, end_);
    if (outside() > 0 && options_.oversize == SAB_OVERSIZE_ERROR) refuse_oversize();
    if (options_.min_batch_size > 1)
        end_ = std::min(
            end_, first_that_fails([&](auto length) { return batch_sizes_.fits_fewest(length); }));
}

void PlanBuilder::check_any_left() const {
    if (!is_empty()) return;
    if (!boundaries_.empty())
        fail(SAB_E_ARGUMENT, "sizes: no sample is left: all ", count_,
             " are outside the boundaries or over the ", batch_sizes_.limits(),
             "; use other boundaries or a larger budget");
    if (end_ > 0 || batch_sizes_.fits_alone(first_of(batch_sizes_.padded({&distinct_[0], 1}), 1)))
        refuse_fewest();
    fail(SAB_E_ARGUMENT, "sizes: no sample is left: all ", count_, " are over the ",
         batch_sizes_.limits(), ", also the smallest, ", described(counts_, 0),
         "; use a larger budget");
}

/// Names the first sample that is outside the boundaries or over the budget, and what helps.
void PlanBuilder::refuse_oversize() const {
    uint64_t first = begin_ > 0 ? first_sample(counts_, 0, begin_) : count_;
    if (end_ < count_) {
        const uint64_t over = first_sample(counts_, end_, count_);
        const bool comes_first = first == count_ || (counts_.order != nullptr &&
                                                     counts_.order[over] < counts_.order[first]);
        if (comes_first) first = over;
    }
    const double size = counts_.distinct_sizes[counts_.distinct_at(first)];
    const double length = batch_sizes_.padded(size, 0);
    const bool is_inside =
        boundaries_.empty() || (size >= boundaries_.front() && size < boundaries_.back());
    const std::string rule =
        is_inside
            ? text("must cost at most ", batch_sizes_.exceeded({&length, 1}), ", in a batch of one")
            : text("must be at least the first boundary, ", boundaries_.front(),
                   ", and below the last, ", boundaries_.back());
    const std::string_view choices = counts_.order != nullptr
                                         ? "SAB_OVERSIZE_SKIP (0) or SAB_OVERSIZE_SINGLE (2)"
                                         : "SAB_OVERSIZE_SKIP (0)";
    fail(SAB_E_ARGUMENT, std::string_view(described(counts_, first)), ": ", std::string_view(rule),
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
    facts.length_multiples = batch_sizes_.multiples();
    facts.columns = 1;
    facts.tail = options_.tail;
    facts.pads_to_bucket = options_.max_shapes > 0;
    facts.bucket_rule = options_.bucket_rule;
    facts.min_batch_size = options_.min_batch_size;
    facts.total = finder.total(begin_, end_) +
                  (has_singles() ? finder.total(0, begin_) + finder.total(end_, count_) : 0);
    facts.whole_sizes = facts.total <= largest_size &&
                        std::ranges::all_of(counts_.distinct_sizes,
                                            [](double size) { return size == std::floor(size); });
    return facts;
}

/// The least number of batches. Several batch sizes are those of boundaries, whose ranges give
/// their shares.
double PlanBuilder::least_batches() const {
    const auto singles = static_cast<double>(has_singles() ? outside() : 0);
    if (batch_sizes_.given().size() > 1) return singles;
    return singles + batch_sizes_.least_batches([&](auto&& add) {
        for (std::size_t distinct = 0; distinct < counts_.distinct_sizes.size(); ++distinct) {
            const uint64_t first = std::clamp(counts_.first_places[distinct], begin_, end_),
                           last = std::clamp(counts_.first_places[distinct + 1], begin_, end_);
            if (last > first) add({&counts_.distinct_sizes[distinct], 1}, last - first);
        }
    });
}

/// The samples over the budget that are batches of one. Under `max_shapes` they take their part of
/// `shapes`.
std::vector<BucketRange> PlanBuilder::singles(BoundaryFinder& finder, std::size_t& shapes) const {
    std::vector<BucketRange> alone;
    if (has_singles() && end_ < count_) alone.push_back({end_, count_, 1});
    if (shapes == 0) return alone;
    const bool has_tail = begin_ < end_ && options_.tail == SAB_TAIL_KEEP;
    const std::size_t fewest = (begin_ < end_ ? 1u : 0u) + (has_tail ? 1u : 0u) + alone.size();
    check(shapes >= fewest, "options.max_shapes", shapes, "must be at least ", fewest,
          ": one for full batches, one for the tail of the shortest samples where it is kept, ",
          "and one for samples over the budget where each is a batch");
    shapes -= has_tail ? 1 : 0;
    if (!alone.empty()) {
        BoundaryFinder singles_finder(
            counts_, end_, count_, [this](double size) { return batch_sizes_.padded(size, 0); },
            [](double) { return uint64_t{1}; });
        alone = singles_finder.optimal(
            begin_ == end_ ? shapes : shapes_of_singles(finder, singles_finder, shapes, progress_),
            progress_);
        shapes -= alone.size();
    }
    return alone;
}

/// Makes the last batch of the shortest samples, the only one that may be small, large enough.
void PlanBuilder::hold_fewest(const BoundaryFinder& finder, std::vector<BucketRange>& ranges,
                              PlanFacts& facts) const {
    if (ranges.empty()) return;
    BucketRange& shortest = ranges.front();
    const Taken taken =
        taken_for_fewest(shortest.end - shortest.begin, shortest.batch_size, options_);
    const BucketRange own{shortest.begin, shortest.begin + taken.samples, taken.batch_size};
    shortest.begin = own.end;
    if (shortest.begin == shortest.end) ranges.erase(ranges.begin());
    if (taken.batch_size > 0) {
        ranges.insert(ranges.begin(), own);
    } else {
        facts.skipped += taken.samples;
        facts.total -= finder.total(own.begin, own.end);
    }
}

/// At most `shapes` buckets with one tail. Or, where that saves more than a quarter of the batches
/// or of the padded total, other buckets with as many shapes: the shortest samples may be a tail
/// only.
std::vector<BucketRange> PlanBuilder::shaped_ranges(BoundaryFinder& finder,
                                                    std::size_t shapes) const {
    std::vector<BucketRange> ranges = finder.by_shapes(shapes, progress_);
    const BoundaryFinder::Waste own = finder.waste(ranges);
    std::vector<BucketRange> others = finder.by_few_shapes(
        options_.tail == SAB_TAIL_KEEP ? shapes + 1 : shapes, options_.tail, own.batches);
    const BoundaryFinder::Waste other = finder.waste(others);
    const bool saves_much =
        static_cast<double>(own.batches) > 1.25 * static_cast<double>(other.batches) ||
        0.75 * own.padded > other.padded;
    return !others.empty() && saves_much ? others : ranges;
}

std::vector<BucketRange> PlanBuilder::ranges(BoundaryFinder& finder, PlanFacts& facts) const {
    double all_batches = least_batches();
    std::size_t shapes = options_.max_shapes;
    const std::vector<BucketRange> alone = singles(finder, shapes);
    std::vector<BucketRange> ranges;
    if (!boundaries_.empty()) {
        ranges = finder.by_boundaries(boundaries_);
        for (std::size_t i = 0; i < ranges.size() && batch_sizes_.given().size() > 1; ++i) {
            const uint64_t given = batch_sizes_.given()[i];
            ranges[i].batch_size =
                batch_sizes_.budgets().empty() ? given : std::min(ranges[i].batch_size, given);
            if (options_.max_batch_size > 0)
                ranges[i].batch_size = std::min(ranges[i].batch_size, options_.max_batch_size);
            all_batches += static_cast<double>(ranges[i].end - ranges[i].begin) /
                           static_cast<double>(ranges[i].batch_size);
        }
    } else if (begin_ == end_) {
        // Only samples that are alone in their batches.
    } else if (options_.bucket_rule == SAB_BUCKETS_OPTIMAL) {
        ranges = finder.optimal(options_.bucket_count, progress_);
    } else if (options_.max_shapes > 0) {
        ranges = shaped_ranges(finder, shapes);
    }
    facts.lower_bound = static_cast<uint64_t>(std::ceil(all_batches - 1e-9 * all_batches));
    if (options_.bucket_rule == SAB_BUCKETS_AUTO && options_.max_shapes == 0 && begin_ < end_) {
        BoundaryFinder::Waste alone_waste;
        if (has_singles()) alone_waste = finder.waste_of_singles(end_, count_);
        BoundaryFinder::Tried found =
            automatic_ranges(finder, options_, facts.lower_bound, alone_waste, progress_);
        ranges = std::move(found.buckets);
        facts.padding_target = options_.padding_target;
        facts.nearest_target = found.nearest;
    }
    if (options_.min_batch_size > 1) hold_fewest(finder, ranges, facts);
    ranges.insert(ranges.end(), alone.begin(), alone.end());
    if (has_singles() && begin_ > 0) ranges.push_back({0, begin_, 1});
    return ranges;
}

void PlanBuilder::add_bucket(const BoundaryFinder& finder, const BucketRange& range,
                             std::size_t number, std::vector<Bucket>& buckets,
                             std::vector<double>& lengths) const {
    Bucket bucket{};
    double shortest = 0, longest = 0, total = 0;
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
        shortest = counts_.distinct_sizes[bucket.distinct_begin];
        longest = counts_.distinct_sizes[bucket.distinct_end - 1];
        total = finder.total(range.begin, range.end);
        const double padded = batch_sizes_.padded(longest, 0);
        bucket.cost = batch_sizes_.cost_of(
            batch_sizes_.cost(), std::min(bucket.batch_size, bucket.samples()), {&padded, 1});
    }
    // the ranges after these are of single samples
    const bool has_boundaries = number + 1 < boundaries_.size();
    buckets.push_back(bucket);
    lengths.insert(lengths.end(), {has_boundaries ? boundaries_[number] : shortest,
                                   has_boundaries ? boundaries_[number + 1] : longest, shortest,
                                   longest, batch_sizes_.padded(longest, 0), total});
}

}  // namespace sab
