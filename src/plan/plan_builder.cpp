#include "plan/plan_builder.h"

#include <algorithm>
#include <utility>

#include "plan/plan_rules.h"
#include "plan/shared_runs.h"

namespace sab {
namespace {

/// `found`, or equal runs of `given` batches if these have fewer batches and less padding: where
/// the shortest samples are too few for a bucket, `found` adds them to longer ones.
BoundaryFinder::Tried with_fewer_at_end(BoundaryFinder& finder, BoundaryFinder::Tried found,
                                        uint64_t given, double target,
                                        const BoundaryFinder::OverheadOf& overhead_of) {
    if (found.overhead <= target) return found;  // by larger buckets
    std::vector<BucketRange> runs = finder.equal_buckets(given, false);
    const Waste own = finder.waste(found.buckets), other = finder.waste(runs);
    if (own.batches <= other.batches || own.padding <= other.padding) return found;
    found.buckets = std::move(runs);
    found.overhead = overhead_of(found.buckets);
    found.nearest = std::max(target, std::min(found.nearest, found.overhead));
    return found;
}

/// Makes the batches of the shortest samples, of which the last one may be small, large enough.
/// Returns how many of these samples are left out. `least`: what BoundaryFinder::left_out() says.
uint64_t hold_fewest(BoundaryFinder& finder, std::vector<BucketRange>& ranges,
                     const PlanOptions& options, std::span<const uint32_t> least) {
    if (options.min_batch_size <= 1 || ranges.empty()) return 0;
    const BucketRange shortest = ranges.front();
    std::vector<BucketRange> held;
    uint64_t begin = shortest.begin, left_out = 0;
    for (const HeldPart& part :
         parts_for_fewest(shortest.end - shortest.begin, shortest.batch_size, options)) {
        if (part.batch_size == 0)
            left_out += part.samples;
        else if (part.samples > 0)
            held.push_back({begin, begin + part.samples, part.batch_size});
        begin += part.samples;
    }
    if (left_out > 0 && !least.empty()) {
        std::vector<BucketRange> others = finder.with_least_left_out(ranges, least);
        if (!others.empty() && others.front().begin < shortest.begin + left_out) {
            ranges = std::move(others);
            return ranges.front().begin - shortest.begin;
        }
    }
    ranges.erase(ranges.begin());
    ranges.insert(ranges.begin(), held.begin(), held.end());
    return left_out;
}

/// `found`, or buckets of fewer batches that waste less, if samples that are exchanged make up for
/// it: batch mates meet again no more often than in `found` without exchange.
BoundaryFinder::Tried with_exchange(BoundaryFinder& finder, BoundaryFinder::Tried found,
                                    uint64_t fewest, double target,
                                    const BoundaryFinder::OverheadOf& overhead_of) {
    const double most = finder.meet_again(found.buckets, found.buckets, false);
    if (finder.meet_again(found.buckets, found.buckets, true) > 0.9 * most) return found;
    for (uint64_t batches = found.fewest;;) {
        batches -= std::max<uint64_t>(1, batches / 4);
        if (batches < std::max<uint64_t>(fewest, 4)) return found;
        BoundaryFinder::Tried tried = finder.best_with(batches, target, overhead_of);
        if (finder.meet_again(tried.buckets, tried.buckets, true) > most) return found;
        if (tried.overhead >= found.overhead) continue;
        tried.nearest = std::max(target, std::min(found.nearest, tried.overhead));
        found = std::move(tried);
    }
}

/// Buckets for SAB_BUCKETS_AUTO. `singles`: batches of one sample, added to those of the buckets.
BoundaryFinder::Tried automatic_ranges(BoundaryFinder& finder, const PlanOptions& options,
                                       uint64_t lower_bound, const Waste& singles,
                                       std::span<const uint32_t> least_left_out) {
    const Progress& progress = options.progress;
    const AutomaticRange range = automatic_range(options, lower_bound, finder.samples());
    const double target = options.padding_target;
    const auto overhead_of = [&](std::vector<BucketRange> ranges) {
        hold_fewest(finder, ranges, options, least_left_out);
        return overhead(finder.waste(ranges) + singles, lower_bound, !options.budgets.empty());
    };
    BoundaryFinder::Tried found =
        finder.automatic(target, range.fewest, range.most, overhead_of, progress);
    // A bucket may be a tail only, unless its samples would then be left out of all epochs, or be
    // too few.
    const uint64_t least_tail =
        options.tail == SAB_TAIL_DROP ? UINT64_MAX : std::max<uint64_t>(options.min_batch_size, 1);
    const uint64_t given = options.bucket_batches;
    if (given > 1)
        return least_tail == 1
                   ? with_fewer_at_end(finder, std::move(found), given, target, overhead_of)
                   : found;
    if (given == 0)
        found = with_exchange(finder, std::move(found), range.fewest, target, overhead_of);
    const bool is_met = found.overhead <= target;
    if (given == 0 && is_met) return found;
    // Smaller buckets are for those that save more than a quarter of the batches or of the padded
    // total. Padding of up to a quarter leaves no more to save.
    const Waste waste = finder.waste(found.buckets);
    const uint64_t cut = finder.sorted_cut(),
                   limit = given == 1 ? cut : cut + (cut + singles.batches) / 4;
    const bool is_good = waste.batches <= limit && waste.padding <= 0.25 * waste.padded;
    if (is_good && (given == 0 || is_met)) return found;
    BoundaryFinder::Tried small = finder.with_small_buckets(
        target, {given == 1 ? 1 : range.most, 0, cut, least_tail}, limit,
        given == 1 || options.has_ids ? limit : std::max(limit, cut + 1), overhead_of, progress);
    const double nearest = std::max(target, std::min(found.nearest, small.nearest));
    if (is_good && small.overhead > target) small = std::move(found);
    small.nearest = nearest;
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

std::vector<double> ends_of(const PlanOptions& options) {
    std::vector<double> ends(options.boundaries.size());
    std::ranges::transform(options.boundaries, ends.begin(),
                           [](const PerColumn& boundary) { return boundary[0]; });
    return ends;
}

}  // namespace

PlanBuilder::PlanBuilder(const SizeCounts& counts, PlanOptions options)
    : counts_(counts),
      distinct_(counts.distinct_sizes),
      batch_sizes_(std::move(options), {&distinct_, 1}, counts.count),
      boundaries_(ends_of(this->options())),
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
    if (outside() > 0 && options().oversize == SAB_OVERSIZE_ERROR) refuse_oversize();
    if (options().min_batch_size > 1)
        end_ = std::min(
            end_, first_that_fails([&](auto length) { return batch_sizes_.fits_fewest(length); }));
    if (options().min_batch_size > 1 && options().keeps_tail()) leave_out_fewest();
}

/// Leaves out some of the longest samples where fewer are then left out in all.
void PlanBuilder::leave_out_fewest() {
    least_left_out_ = finder().left_out(options().min_batch_size);
    const uint64_t samples = end_ - begin_;
    if (least_left_out_.size() <= samples) return;  // there are more batches than these
    uint64_t least = least_left_out_[samples];
    for (uint64_t longest = 1; longest < least; ++longest)
        if (const uint64_t left = least_left_out_[samples - longest] + longest; left < least) {
            least = left;
            end_ = begin_ + samples - longest;
        }
    least_left_out_.resize(end_ - begin_ + 1);
}

void PlanBuilder::check_any_left() const {
    if (begin_ < end_ || has_singles()) return;
    if (boundaries_.empty() &&
        batch_sizes_.fits_alone(first_of(batch_sizes_.padded({&distinct_[0], 1}), 1)))
        refuse_fewest(count_, options());
    refuse_all(count_, batch_sizes_, boundaries_.empty() ? named_size(counts_, 0).in_words() : "");
}

void PlanBuilder::refuse_oversize() const {
    uint64_t first = begin_ > 0 ? first_sample(counts_, 0, begin_) : count_;
    if (end_ < count_) {
        const uint64_t over = first_sample(counts_, end_, count_);
        const bool comes_first = first == count_ || (counts_.order != nullptr &&
                                                     counts_.order[over] < counts_.order[first]);
        if (comes_first) first = over;
    }
    const double size = counts_.distinct_sizes[counts_.distinct_at(first)];
    const bool is_inside =
        boundaries_.empty() || (size >= boundaries_.front() && size < boundaries_.back());
    sab::refuse_oversize({outside(),
                          count_,
                          named_size(counts_, first),
                          {batch_sizes_.padded(size, 0)},
                          is_inside,
                          counts_.order != nullptr},
                         batch_sizes_);
}

PlanFacts PlanBuilder::facts(const BoundaryFinder& finder) const {
    PlanFacts facts = facts_of(batch_sizes_, count_);
    facts.skipped = has_singles() ? 0 : outside();
    facts.total = finder.total(begin_, end_) +
                  (has_singles() ? finder.total(0, begin_) + finder.total(end_, count_) : 0);
    facts.whole_sizes = are_whole(counts_.distinct_sizes, facts.total);
    return facts;
}

/// The least number of batches. Several batch sizes are those of boundaries, whose ranges give
/// their shares.
double PlanBuilder::least_batches() const {
    const auto singles = static_cast<double>(has_singles() ? outside() : 0);
    if (options().batch_sizes.size() > 1) return singles;
    return singles + batch_sizes_.least_batches([&](auto&& add) {
        for (std::size_t distinct = 0; distinct < counts_.distinct_sizes.size(); ++distinct) {
            const uint64_t first = std::clamp(counts_.first_places[distinct], begin_, end_),
                           last = std::clamp(counts_.first_places[distinct + 1], begin_, end_);
            if (last > first) add({&counts_.distinct_sizes[distinct], 1}, last - first);
        }
    });
}

/// The samples over the budget that are batches of one. They take their part of `shapes`.
std::vector<BucketRange> PlanBuilder::singles(BoundaryFinder& finder, std::size_t& shapes) const {
    std::vector<BucketRange> alone;
    if (has_singles() && end_ < count_) alone.push_back({end_, count_, 1});
    const bool has_inside = begin_ < end_;
    check_shapes(shapes, fewest_shapes(options(), has_inside, !alone.empty()));
    shapes -= has_inside && options().keeps_tail() ? 1 : 0;
    if (!alone.empty()) {
        BoundaryFinder singles_finder(
            counts_, end_, count_, [this](double size) { return batch_sizes_.padded(size, 0); },
            [](double) { return uint64_t{1}; });
        alone = singles_finder.optimal(
            has_inside ? shapes_of_singles(finder, singles_finder, shapes, options().progress)
                       : shapes,
            options().progress);
        shapes -= alone.size();
    }
    return alone;
}

/// At most `shapes` buckets with one tail. Or, where that saves more than a quarter of the batches
/// or of the padded total, other buckets with as many shapes: the shortest samples may be a tail
/// only.
std::vector<BucketRange> PlanBuilder::shaped_ranges(BoundaryFinder& finder,
                                                    std::size_t shapes) const {
    std::vector<BucketRange> ranges = finder.by_shapes(shapes, options().progress);
    const Waste own = finder.waste(ranges);
    std::vector<BucketRange> others = finder.by_few_shapes(
        options().keeps_tail() ? shapes + 1 : shapes, options().tail, own.batches);
    const Waste other = finder.waste(others);
    const bool saves_much =
        static_cast<double>(own.batches) > 1.25 * static_cast<double>(other.batches) ||
        0.75 * own.padded > other.padded;
    return !others.empty() && saves_much ? others : ranges;
}

/// The buckets of at most so many shapes, and what they waste.
std::pair<std::vector<BucketRange>, Waste> PlanBuilder::ranges_of_shapes(BoundaryFinder& finder,
                                                                         std::size_t shapes) const {
    const std::vector<BucketRange> alone = singles(finder, shapes);
    std::vector<BucketRange> ranges;
    if (begin_ < end_) ranges = shaped_ranges(finder, shapes);
    ranges.insert(ranges.end(), alone.begin(), alone.end());
    const Waste waste = finder.waste(ranges);
    return {std::move(ranges), waste};
}

/// The same of as few shapes as the target allows.
std::vector<BucketRange> PlanBuilder::ranges_of_chosen_shapes(
    BoundaryFinder& finder, PlanFacts& facts, std::vector<ShapePadding>& tried) const {
    const std::size_t fewest =
        fewest_shapes(options(), begin_ < end_, has_singles() && end_ < count_);
    auto [ranges, padding] = by_fewest_shapes(
        options().padding_target, fewest,
        most_shapes(options().max_shapes, fewest, counts_.distinct_sizes.size()),
        [&](std::size_t shapes) {
            auto [made, waste] = ranges_of_shapes(finder, shapes);
            return std::pair(std::move(made), waste.share());
        },
        tried);
    facts.padding_target = options().padding_target;
    facts.nearest_target = std::max(padding, facts.padding_target);
    return std::move(ranges);
}

PlanRanges PlanBuilder::ranges(BoundaryFinder& finder, PlanFacts& facts, Waste& waste) const {
    double all_batches = least_batches();
    std::vector<BucketRange> ranges, second, alone;
    std::vector<ShapePadding> tried;
    if (has_singles() && end_ < count_ && !options().has_few_shapes())
        alone.push_back({end_, count_, 1});
    if (options().chooses_shapes) {
        ranges = ranges_of_chosen_shapes(finder, facts, tried);
    } else if (options().max_shapes > 0) {
        ranges = ranges_of_shapes(finder, options().max_shapes).first;
    } else if (!boundaries_.empty()) {
        ranges = finder.by_boundaries(boundaries_);
        for (std::size_t i = 0; i < ranges.size() && options().batch_sizes.size() > 1; ++i) {
            ranges[i].batch_size = batch_sizes_.of_bucket(i, ranges[i].batch_size);
            all_batches += static_cast<double>(ranges[i].end - ranges[i].begin) /
                           static_cast<double>(ranges[i].batch_size);
        }
    } else if (begin_ == end_) {
        // Only samples that are alone in their batches.
    } else if (options().bucket_rule == SAB_BUCKETS_OPTIMAL) {
        ranges = finder.optimal(options().bucket_count, options().progress);
    }
    facts.lower_bound = std::max<uint64_t>(bound_of(all_batches), 1);
    const bool is_auto = options().bucket_rule == SAB_BUCKETS_AUTO && !options().has_few_shapes();
    if (is_auto && begin_ < end_) {
        if (has_singles()) waste = finder.waste_of_singles(end_, count_);
        BoundaryFinder::Tried found =
            automatic_ranges(finder, options(), facts.lower_bound, waste, least_left_out_);
        PlanRanges sets = with_second_buckets(finder, std::move(found.buckets), options(),
                                              facts.lower_bound, waste);
        ranges = std::move(sets.first);
        second = std::move(sets.second);
        const uint64_t left_out = hold_fewest(finder, ranges, options(), least_left_out_);
        facts.skipped += left_out;
        facts.total -= finder.total(begin_, begin_ + left_out);
        waste += finder.waste(ranges);
        facts.padding_target = options().padding_target;
        // The first of two sets may reach less than one alone.
        facts.nearest_target = std::max(
            facts.padding_target, std::min(found.nearest, overhead(waste, facts.lower_bound,
                                                                   !options().budgets.empty())));
    }
    const auto add_singles = [&](std::vector<BucketRange>& to) {
        to.insert(to.end(), alone.begin(), alone.end());
        if (has_singles() && begin_ > 0) to.push_back({0, begin_, 1});
    };
    add_singles(ranges);
    if (!second.empty()) add_singles(second);
    return {std::move(ranges), std::move(second), std::move(tried)};
}

/// Adds the bucket of the range number `number`, and its BucketLengths.
void PlanBuilder::add_bucket(const BoundaryFinder& finder, const BucketRange& range,
                             std::size_t number, PlanBuckets& made) const {
    Bucket bucket{};
    double shortest = 0, longest = 0, total = 0;
    bucket.begin = range.begin;
    bucket.end = range.end;
    set_batches(bucket, range.batch_size, options().tail);
    if (range.end > range.begin) {
        bucket.distinct_begin = static_cast<uint32_t>(finder.distinct_at(range.begin));
        bucket.distinct_end = static_cast<uint32_t>(finder.distinct_at(range.end - 1)) + 1;
        shortest = counts_.distinct_sizes[bucket.distinct_begin];
        longest = counts_.distinct_sizes[bucket.distinct_end - 1];
        total = finder.total(range.begin, range.end);
        const double padded = batch_sizes_.padded(longest, 0);
        bucket.cost =
            batch_sizes_.cost()(std::min(bucket.batch_size, bucket.samples()), {&padded, 1});
    }
    // the ranges after these are of single samples
    const bool has_boundaries = number + 1 < boundaries_.size();
    made.buckets.push_back(bucket);
    made.lengths.insert(made.lengths.end(),
                        {has_boundaries ? boundaries_[number] : shortest,
                         has_boundaries ? boundaries_[number + 1] : longest, shortest, longest,
                         batch_sizes_.padded(longest, 0), total});
}

PlanBuckets PlanBuilder::buckets(const BoundaryFinder& finder,
                                 const std::vector<BucketRange>& ranges,
                                 const PlanFacts& facts) const {
    PlanBuckets made;
    for (std::size_t i = 0; i < ranges.size(); ++i) add_bucket(finder, ranges[i], i, made);
    share_runs(counts_, batch_sizes_, facts, made);
    return made;
}

PlanArrays PlanBuilder::make(std::string name) const {
    check_any_left();
    BoundaryFinder own_finder = finder();
    PlanArrays arrays;
    arrays.facts = facts(own_finder);
    arrays.names = {std::move(name)};
    Waste waste;
    PlanRanges found = ranges(own_finder, arrays.facts, waste);
    arrays.shape_paddings = std::move(found.shape_paddings);
    if (found.first.empty()) refuse_fewest(count_, options());
    static_cast<PlanBuckets&>(arrays) = buckets(own_finder, found.first, arrays.facts);
    for (const Bucket& bucket : arrays.buckets) arrays.facts.batches += bucket.batches;
    if (!found.second.empty()) arrays.second = buckets(own_finder, found.second, arrays.facts);
    return arrays;
}

}  // namespace sab
