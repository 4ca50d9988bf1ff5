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
    std::vector<double> boundaries = read_array(options.boundaries, options.boundary_count, "options.boundaries");
    check(boundaries.size() >= 2, "options.boundary_count", boundaries.size(), "must be at least 2");
    for (std::size_t i = 0; i < boundaries.size(); ++i)
        if (std::isnan(boundaries[i])) fail(SAB_E_ARGUMENT, "options.boundaries[", i, "] = nan: must be a number");
    std::ranges::sort(boundaries);
    if (const auto twin = std::ranges::adjacent_find(boundaries); twin != boundaries.end())
        fail(SAB_E_ARGUMENT, "options.boundaries holds ", *twin, " twice: boundaries must differ from each other");
    return boundaries;
}

std::vector<uint64_t> read_batch_sizes(const sab_plan_options& options, std::size_t boundary_count) {
    std::vector<uint64_t> sizes = read_array(options.batch_sizes, options.batch_size_count, "options.batch_sizes");
    for (std::size_t i = 0; i < sizes.size(); ++i)
        if (sizes[i] == 0) fail(SAB_E_ARGUMENT, "options.batch_sizes[", i, "] = 0: must be at least 1");
    if (sizes.size() > 1) {
        check(options.buckets == SAB_BUCKETS_BOUNDARIES, "options.batch_size_count", sizes.size(), "must be 0 or 1 unless the boundaries are given");
        check(sizes.size() == boundary_count - 1, "options.batch_size_count", sizes.size(), "must be 1 or the number of buckets, ", boundary_count - 1);
    }
    return sizes;
}

void check_scalars(const sab_plan_options& options) {
    check(options.buckets >= SAB_BUCKETS_AUTO && options.buckets <= SAB_BUCKETS_RANK, "options.buckets", options.buckets,
          "must be one of SAB_BUCKETS_AUTO (0) to SAB_BUCKETS_RANK (3)");
    check(options.budget >= 0 && std::isfinite(options.budget), "options.budget", options.budget, "must be finite and above 0 (0: none)");
    if (options.budget == 0 && options.batch_size_count == 0)
        fail(SAB_E_ARGUMENT, "options.budget = 0 and options.batch_size_count = 0: a budget or a batch size must be given");
    check(options.padding_target > 0 && options.padding_target < 1, "options.padding_target", options.padding_target, "must be between 0 and 1");
    const bool by_boundaries = options.buckets == SAB_BUCKETS_BOUNDARIES;
    check(by_boundaries || options.boundary_count == 0, "options.boundary_count", options.boundary_count, "goes with SAB_BUCKETS_BOUNDARIES only");
    const bool is_optimal = options.buckets == SAB_BUCKETS_OPTIMAL;
    check(is_optimal ? options.bucket_count >= 1 : options.bucket_count == 0, "options.bucket_count", options.bucket_count,
          is_optimal ? "must be at least 1" : "goes with SAB_BUCKETS_OPTIMAL only");
    const bool by_rank = options.buckets == SAB_BUCKETS_RANK;
    check(!by_rank || options.bucket_batches >= 1, "options.bucket_batches", options.bucket_batches, "must be at least 1");
    check(by_rank || options.buckets == SAB_BUCKETS_AUTO || options.bucket_batches == 0, "options.bucket_batches", options.bucket_batches,
          "goes with SAB_BUCKETS_RANK and SAB_BUCKETS_AUTO only");
    check(options.batch_size_multiple >= 1, "options.batch_size_multiple", options.batch_size_multiple, "must be at least 1");
    check(options.length_multiple >= 0 && options.length_multiple <= largest_size, "options.length_multiple", options.length_multiple,
          "must be from 0 to 2^53");
    check(options.tail >= SAB_TAIL_KEEP && options.tail <= SAB_TAIL_WRAP, "options.tail", options.tail,
          "must be one of SAB_TAIL_KEEP (0) to SAB_TAIL_WRAP (3)");
    check(options.oversize >= SAB_OVERSIZE_SKIP && options.oversize <= SAB_OVERSIZE_SINGLE, "options.oversize", options.oversize,
          "must be one of SAB_OVERSIZE_SKIP (0) to SAB_OVERSIZE_SINGLE (2)");
    check(options.max_shapes == 0 || options.buckets == SAB_BUCKETS_AUTO, "options.max_shapes", options.max_shapes, "goes with SAB_BUCKETS_AUTO only");
}

uint64_t batches_of(uint64_t samples, uint64_t batch_size, sab_tail tail) {
    return tail == SAB_TAIL_DROP ? samples / batch_size : (samples + batch_size - 1) / batch_size;
}

/// The samples that do not fill a batch, the longest of a bucket, move up into the next bucket that has samples.
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

/// Buckets for SAB_BUCKETS_AUTO. `singles` batches come to those of the cuts.
Cutter::Automatic automatic_cuts(Cutter& cutter, const sab_plan_options& options, uint64_t lower_bound, uint64_t singles, const Progress& progress) {
    // With 16 batches in a bucket two batch mates meet again in about 1 of 16 epochs, with 4 in 1 of 4. A small epoch has no room for that.
    const uint64_t room = std::max<uint64_t>(lower_bound / 16, 1);
    const uint64_t most = options.bucket_batches > 0 ? options.bucket_batches : std::min<uint64_t>(room, 16);
    const uint64_t fewest = options.bucket_batches > 0 ? options.bucket_batches : std::min<uint64_t>(room, 4);
    const auto share_of = [&](std::vector<Cut> cuts) {
        if (options.tail == SAB_TAIL_MERGE) merge_tails(cuts);
        const Cutter::Waste waste = cutter.waste(cuts);
        const double padding = waste.padded > 0 ? waste.padding / waste.padded : 0;
        const double over = options.budget > 0 ? static_cast<double>(waste.batches + singles) / static_cast<double>(lower_bound) - 1 : 0;
        return std::max(padding, over);
    };
    return cutter.automatic(options.padding_target, fewest, most, share_of, progress);
}

/// How many of `shapes` the samples over the budget get, so that both kinds together pad least. The least padded total is convex in the number of intervals, so the best share
/// is where one more no longer pays.
std::size_t shapes_of_singles(Cutter& others, Cutter& singles, std::size_t shapes, const Progress& progress) {
    const auto padded = [&](std::size_t given) {
        return others.waste(others.optimal(shapes - given, progress)).padded + singles.waste(singles.optimal(given, progress)).padded;
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

double round_up(double length, double multiple) {
    if (multiple <= 0) return length;
    const double rounded = std::ceil(length / multiple) * multiple;
    // A multiple too fine for the length's own precision may round to less.
    return std::max(length, rounded < length ? rounded + multiple : rounded);
}

double price_of_zero(std::span<const double> level_size) { return level_size[0] > 0 ? level_size[0] : level_size.size() > 1 ? level_size[1] : 1; }

double Plan::padded(double length) const { return round_up(length, facts_.length_multiple); }

double Plan::priced(double padded_length) const { return padded_length > 0 ? padded_length : padded(price_of_zero(level_size_)); }

std::size_t Plan::skipped(std::span<int64_t> room) const {
    // Buckets cover one stretch of the sorted places, so what is left out lies before and after it, unless it was put into buckets of one.
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
    for (std::size_t place = std::max(begin, end); place < order_.size(); ++place) add(static_cast<uint32_t>(place));
    return count;
}

std::shared_ptr<const Plan> Plan::make(const Sizes& sizes, const sab_plan_options& options) {
    check_scalars(options);
    check(sizes.count() > 0, "sizes.count", sizes.count(), "must be at least 1");
    return make(sort_by_size(sizes, true, Progress(options.progress, options.progress_ctx)), options);
}

std::shared_ptr<const Plan> Plan::make(Sorted sorted, const sab_plan_options& options) {
    check_scalars(options);
    std::vector<double> boundaries;
    if (options.buckets == SAB_BUCKETS_BOUNDARIES) boundaries = read_boundaries(options);
    const std::vector<uint64_t> batch_sizes = read_batch_sizes(options, boundaries.size());
    const Cost cost = Cost::of(options, "options");
    check(options.budget == 0 || options.budget > cost.constant(), "options.budget", options.budget, "must be more than the cost's constant term, ",
          cost.constant(), ", which a batch of nothing costs");

    const Progress progress(options.progress, options.progress_ctx);
    const auto count = static_cast<uint32_t>(sorted.count);
    const std::size_t levels = sorted.level_size.size();

    // How many samples of one size make a batch; 0 when not even one fits the budget.
    const double zero_length = price_of_zero(sorted.level_size);
    const auto cost_length = [&](double size) { return round_up(size > 0 ? size : zero_length, options.length_multiple); };
    if (options.cost == SAB_COST_TERMS) {
        const double shortest = cost_length(sorted.level_size[0]), one = cost(1, shortest), two = cost(2, shortest);
        if (two < one)
            fail(SAB_E_ARGUMENT, "options.cost_terms: cost(2, ", shortest, ") = ", two, " is less than cost(1, ", shortest, ") = ", one,
                 ": they do not hold for lengths so short");
    }
    const auto capacity = [&](double size) {
        uint64_t fits = count;
        if (options.max_batch_size > 0) fits = std::min(fits, options.max_batch_size);
        if (options.budget > 0) fits = cost.largest_count(cost_length(size), options.budget, fits);
        if (fits >= options.batch_size_multiple) fits -= fits % options.batch_size_multiple;
        if (batch_sizes.size() == 1 && fits > 0) fits = options.budget > 0 ? std::min(fits, batch_sizes[0]) : batch_sizes[0];
        if (options.max_batch_size > 0) fits = std::min(fits, options.max_batch_size);
        return fits;
    };

    // The places [begin, end) are inside the boundaries and the budget.
    uint32_t begin = 0, end = count;
    if (!boundaries.empty()) {
        const auto place_of = [&](double boundary) {
            return sorted.level_first[static_cast<std::size_t>(std::ranges::lower_bound(sorted.level_size, boundary) - sorted.level_size.begin())];
        };
        begin = place_of(boundaries.front());
        end = place_of(boundaries.back());
    }
    if (options.budget > 0) {
        const auto over = std::ranges::partition_point(sorted.level_size, [&](double size) { return cost(1, cost_length(size)) <= options.budget; });
        end = std::min(end, sorted.level_first[static_cast<std::size_t>(over - sorted.level_size.begin())]);
    }
    end = std::max(begin, end);
    const uint64_t outside = count - (end - begin);
    if (outside > 0 && options.oversize == SAB_OVERSIZE_ERROR) {
        const std::string name = sorted.order == nullptr ? "a size" : text("sizes[", end < count ? sorted.order[count - 1] : sorted.order[0], "]");
        fail(SAB_E_ARGUMENT, std::string_view(name), " = ", end < count ? sorted.level_size.back() : sorted.level_size.front(), ": must be inside the boundaries and cost at most the budget, ", options.budget,
             ", alone (", outside, " of ", count, " samples do not)");
    }
    const bool singles = options.oversize == SAB_OVERSIZE_SINGLE;
    if (begin == end && !singles)
        fail(SAB_E_ARGUMENT, "sizes: no sample is left: all ", count, " are outside the boundaries or over the budget, ", options.budget);

    const auto padded = [&](double size) { return round_up(size, options.length_multiple); };
    Cutter cutter(sorted, begin, end, padded, [&](double size) { return std::max<uint64_t>(capacity(size), 1); });
    PlanFacts facts{};
    facts.samples = count;
    facts.skipped = singles ? 0 : outside;
    facts.budget = options.budget;
    facts.length_multiple = options.length_multiple;
    facts.cost = options.cost;
    facts.tail = options.tail;
    facts.pads_to_bucket = options.max_shapes > 0;
    facts.edges = options.buckets;
    facts.total = cutter.total(begin, end) + (singles ? cutter.total(0, begin) + cutter.total(end, count) : 0);
    facts.whole_sizes = facts.total <= largest_size && std::ranges::all_of(sorted.level_size, [](double size) { return size == std::floor(size); });

    // No batch holds more samples of a size than the budget pays for, so each sample takes at least its share of one batch.
    double shares = static_cast<double>(singles ? outside : 0);
    if (options.budget > 0 && cost.is_proportional() && batch_sizes.empty()) {
        double all = 0;
        for (std::size_t level = 0; level < levels; ++level) {
            const uint32_t first = std::clamp(sorted.level_first[level], begin, end), last = std::clamp(sorted.level_first[level + 1], begin, end);
            if (last > first) all += cost(last - first, sorted.level_size[level]);
        }
        shares += all / options.budget;
    } else if (batch_sizes.size() <= 1) {
        for (std::size_t level = 0; level < levels; ++level) {
            const uint32_t first = std::clamp(sorted.level_first[level], begin, end), last = std::clamp(sorted.level_first[level + 1], begin, end);
            if (last > first) shares += static_cast<double>(last - first) / static_cast<double>(capacity(sorted.level_size[level]));
        }
    }

    std::vector<Cut> alone;  // longer than all others, one in a batch
    if (singles && end < count) alone.push_back({end, count, 1});
    std::size_t shapes = options.max_shapes;
    if (shapes > 0) {
        const bool has_tail = begin < end && (options.tail == SAB_TAIL_KEEP || options.tail == SAB_TAIL_MERGE);
        const std::size_t fewest = (begin < end ? 1u : 0u) + (has_tail ? 1u : 0u) + alone.size();
        check(shapes >= fewest, "options.max_shapes", shapes, "must be at least ", fewest, ": one for full batches, one for the tail of the shortest samples where it is kept, ",
              "and one for samples over the budget where each is a batch");
        shapes -= has_tail ? 1 : 0;
        if (!alone.empty()) {
            Cutter singles_cutter(sorted, end, count, padded, [](double) { return uint64_t{1}; });
            alone = singles_cutter.optimal(begin == end ? shapes : shapes_of_singles(cutter, singles_cutter, shapes, progress), progress);
            shapes -= alone.size();
        }
    }
    std::vector<Cut> cuts;
    if (!boundaries.empty()) {
        cuts = cutter.by_boundaries(boundaries);
        for (std::size_t i = 0; i < cuts.size() && batch_sizes.size() > 1; ++i) {
            const uint64_t given = batch_sizes[i];
            cuts[i].batch_size = options.budget > 0 ? std::min(cuts[i].batch_size, given) : given;
            if (options.max_batch_size > 0) cuts[i].batch_size = std::min(cuts[i].batch_size, options.max_batch_size);
            shares += static_cast<double>(cuts[i].end - cuts[i].begin) / static_cast<double>(cuts[i].batch_size);
        }
    } else if (begin == end) {
        // Only samples that are alone in their batches.
    } else if (options.buckets == SAB_BUCKETS_OPTIMAL) {
        cuts = cutter.optimal(options.bucket_count, progress);
    } else if (options.buckets == SAB_BUCKETS_RANK) {
        cuts = cutter.by_rank(options.bucket_batches);
    } else if (options.max_shapes > 0) {
        cuts = cutter.by_shapes(shapes, progress);
    }
    facts.lower_bound = static_cast<uint64_t>(std::ceil(shares - 1e-9 * shares));
    if (options.buckets == SAB_BUCKETS_AUTO && options.max_shapes == 0 && begin < end) {
        Cutter::Automatic found = automatic_cuts(cutter, options, facts.lower_bound, singles ? outside : 0, progress);
        cuts = std::move(found.cuts);
        facts.padding_target = options.padding_target;
        facts.nearest_target = found.nearest;
    }
    if (options.tail == SAB_TAIL_MERGE) merge_tails(cuts);
    const std::size_t proper = cuts.size();
    cuts.insert(cuts.end(), alone.begin(), alone.end());
    if (singles && begin > 0) cuts.push_back({0, begin, 1});

    auto arrays = std::make_shared<Arrays>();
    for (std::size_t i = 0; i < cuts.size(); ++i) {
        const Cut& cut = cuts[i];
        Bucket bucket{};
        bucket.begin = cut.begin;
        bucket.end = cut.end;
        // Filled up from itself, a bucket of fewer samples than a batch would show them many times over.
        bucket.batch_size = options.tail == SAB_TAIL_WRAP ? std::clamp<uint64_t>(bucket.samples(), 1, cut.batch_size) : cut.batch_size;
        bucket.batches = batches_of(bucket.samples(), bucket.batch_size, options.tail);
        if (cut.end > cut.begin) {
            bucket.level_begin = static_cast<uint32_t>(cutter.level_at(cut.begin));
            bucket.level_end = static_cast<uint32_t>(cutter.level_at(cut.end - 1)) + 1;
            bucket.shortest = sorted.level_size[bucket.level_begin];
            bucket.longest = sorted.level_size[bucket.level_end - 1];
            bucket.padded_length = round_up(bucket.longest, options.length_multiple);
            bucket.total = cutter.total(cut.begin, cut.end);
            bucket.cost = cost(std::min(bucket.batch_size, bucket.samples()), cost_length(bucket.longest));
        }
        const bool has_boundaries = !boundaries.empty() && i < proper;
        bucket.lower = has_boundaries ? boundaries[i] : bucket.shortest;
        bucket.upper = has_boundaries ? boundaries[i + 1] : bucket.longest;
        facts.batches += bucket.batches;
        arrays->buckets.push_back(bucket);
    }
    if (facts.skipped > 0)
        log(SAB_LOG_WARNING, "skipped ", facts.skipped, " of ", count, " samples: outside the boundaries or over the budget");

    arrays->order = std::move(sorted.order);
    arrays->level_size = std::move(sorted.level_size);
    arrays->level_first = std::move(sorted.level_first);
    arrays->coefficients = cost.coefficients();
    std::shared_ptr<Plan> plan(new Plan);
    plan->facts_ = facts;
    if (arrays->order != nullptr) plan->order_ = {arrays->order.get(), count};
    plan->level_size_ = arrays->level_size;
    plan->level_first_ = arrays->level_first;
    plan->buckets_ = arrays->buckets;
    plan->coefficients_ = arrays->coefficients;
    plan->owner_ = std::move(arrays);
    plan->fingerprint_ = plan->checksum();
    progress.report(3 * sorted.count, 3 * sorted.count);
    return plan;
}

}  // namespace sab
