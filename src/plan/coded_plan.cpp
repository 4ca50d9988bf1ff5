#include "plan/coded_plan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "base/sorting.h"
#include "plan/plan_builder.h"
#include "plan/plan_rules.h"
#include "plan/shared_runs.h"

namespace sab {

uint64_t Draft::samples() const {
    uint64_t sum = 0;
    for (const Stretch& stretch : stretches) sum += stretch.count;
    return sum;
}

CodedSamples::CodedSamples(Points points, PlanOptions options)
    : points_(std::move(points)),
      distinct_(points_.distinct.begin(), points_.distinct.end()),
      batch_sizes_(std::move(options), distinct_, points_.count) {
    const std::size_t shapes = this->options().id_shapes.size();
    check(shapes == 0 || shapes == points_.ids.size(), "options.max_shape_count", shapes,
          "must be 1 or the number of ids, ", points_.ids.size());
}

PerColumn CodedSamples::sizes_of(std::size_t point) const {
    PerColumn sizes{};
    for (std::size_t j = 0; j < points_.columns; ++j) sizes[j] = points_.value(point, j);
    return sizes;
}

PerColumn CodedSamples::padded_of(std::size_t point) const {
    return batch_sizes_.padded(cut(sizes_of(point)));
}

std::size_t CodedSamples::shapes_of(std::size_t id_number) const {
    const std::size_t ids = points_.ids.size(), most = options().max_shapes;
    if (!options().id_shapes.empty()) return options().id_shapes[id_number];
    if (most == 0 || ids == 1) return most;
    const std::size_t fewest = fewest_shapes(options(), true, options().has_singles());
    check(most >= fewest * ids, "options.max_shapes", most, "must be at least ", fewest * ids, ": ",
          fewest, " for each of the ", ids, " ids");
    double own = 0, all = 0;
    for (std::size_t id = 0; id < ids; ++id)
        for (std::size_t point = points_.first_points[id]; point < points_.first_points[id + 1];
             ++point) {
            const PerColumn sizes = sizes_of(point);
            const double sum = std::accumulate(sizes.begin(), sizes.end(), 0.0) *
                               static_cast<double>(samples_of(point));
            all += sum;
            own += id == id_number ? sum : 0;
        }
    const auto spare = static_cast<double>(most - fewest * ids);
    return fewest + static_cast<std::size_t>(all > 0 ? spare * own / all : 0);
}

void CodedSamples::sort(Draft& draft) const {
    std::vector<double> costs;
    for (const Stretch& stretch : draft.stretches) {
        const PerColumn lengths = padded_of(point_at(stretch.first));
        costs.push_back(batch_sizes_.cost()(1, cut(lengths)));
    }
    const std::vector<Stretch> stretches = draft.stretches;
    for (std::size_t k = 0; const uint32_t i : by_ascending(costs))
        draft.stretches[k++] = stretches[i];
}

namespace {

/// Samples that are longest in a column come last, so that the last batch in this order is the
/// costliest that there can be. Batches of one stay in ascending order of cost.
void put_longest_last(const CodedSamples& samples, Draft& draft) {
    if (draft.batch_size == 1) return;
    const std::size_t columns = samples.points().columns;
    std::vector<Stretch>& stretches = draft.stretches;
    PerColumn longest{};
    std::array<uint64_t, SAB_MAX_COLUMNS> longest_at{};  // places in the bucket
    uint64_t count = 0;
    for (const Stretch& stretch : stretches) {
        const PerColumn sizes = samples.sizes_of(samples.point_at(stretch.first));
        for (std::size_t j = 0; j < columns; ++j) {
            if (sizes[j] >= longest[j]) longest_at[j] = count;
            longest[j] = std::max(longest[j], sizes[j]);
        }
        count += stretch.count;
    }
    // the sample at a place becomes a stretch of its own, whose number is returned
    const auto cut_out = [&](uint64_t place) {
        std::size_t number = 0;
        while (place >= stretches[number].count) place -= stretches[number++].count;
        const auto cut_at = [&](uint64_t here) {
            const Stretch whole = stretches[number];
            if (here == 0 || here == whole.count) return false;
            stretches[number].count = here;
            stretches.insert(stretches.begin() + static_cast<std::ptrdiff_t>(number) + 1,
                             {whole.first + here, whole.count - here});
            return true;
        };
        if (cut_at(place)) ++number;
        cut_at(1);
        return number;
    };
    uint64_t last = count;
    for (std::size_t j = 0; j < columns && last > 0; ++j) {
        if (longest_at[j] >= last) continue;  // it was moved there
        --last;
        const std::size_t from = cut_out(longest_at[j]), to = cut_out(last);
        std::swap(stretches[from], stretches[to]);
        for (std::size_t k = j + 1; k < columns; ++k)
            if (longest_at[k] == last) longest_at[k] = longest_at[j];
    }
}

/// The cost of a batch of the last `count` samples.
double cost_of_last(const CodedSamples& samples, const Draft& draft, uint64_t count) {
    PerColumn longest{};
    auto stretch = draft.stretches.end();
    for (uint64_t left = count; left > 0; left -= std::min(left, stretch->count)) {
        const PerColumn sizes = samples.sizes_of(samples.point_at((--stretch)->first));
        for (std::size_t j = 0; j < samples.points().columns; ++j)
            longest[j] = std::max(longest[j], sizes[j]);
    }
    const BatchSizes& batch_sizes = samples.batch_sizes();
    const PerColumn padded = batch_sizes.padded(samples.cut(longest));
    return batch_sizes.cost()(count, samples.cut(padded));
}

/// Adds the bucket of the samples from a place on.
void add_bucket(const CodedSamples& samples, const Draft& draft, uint64_t place,
                PlanArrays& arrays) {
    const std::size_t columns = samples.points().columns;
    const BatchSizes& batch_sizes = samples.batch_sizes();
    Bucket bucket{};
    bucket.begin = place;
    bucket.end = place + draft.samples();
    bucket.id = draft.id;
    PerColumn shortest{}, longest{}, total{};
    const bool is_empty = bucket.begin == bucket.end;
    if (!is_empty) shortest.fill(std::numeric_limits<double>::infinity());
    for (const Stretch& stretch : draft.stretches) {
        const PerColumn sizes = samples.sizes_of(samples.point_at(stretch.first));
        for (std::size_t j = 0; j < columns; ++j) {
            shortest[j] = std::min(shortest[j], sizes[j]);
            longest[j] = std::max(longest[j], sizes[j]);
            total[j] += sizes[j] * static_cast<double>(stretch.count);
        }
    }
    set_batches(bucket, draft.batch_size, samples.options().tail);
    const PerColumn padded = batch_sizes.padded(samples.cut(longest));
    if (!is_empty) {
        const uint64_t count = std::min(bucket.batch_size, bucket.samples());
        batch_sizes.check_rises(count, batch_sizes.padded(samples.cut(shortest)), padded);
        bucket.cost = arrays.facts.pads_to_bucket ? batch_sizes.cost()(count, samples.cut(padded))
                                                  : cost_of_last(samples, draft, count);
    }
    PerColumn lower = shortest, upper = longest;
    if (draft.boundary > 0) {  // of one column, intervals follow each other
        const std::vector<PerColumn>& boundaries = samples.options().boundaries;
        lower = boundaries[columns > 1 ? 0 : draft.boundary - 1];
        upper = boundaries[draft.boundary];
    }
    arrays.buckets.push_back(bucket);
    arrays.facts.batches += bucket.batches;
    for (const PerColumn* const field : std::initializer_list<const PerColumn*>{
             &lower, &upper, &shortest, &longest, &padded, &total})
        arrays.lengths.insert(arrays.lengths.end(), field->begin(),
                              field->begin() + static_cast<std::ptrdiff_t>(columns));
    arrays.facts.total = std::accumulate(total.begin(), total.end(), arrays.facts.total);
}

/// The order of samples with indices, and their sizes.
void write_order(const CodedSamples& samples, std::span<const Stretch> stretches,
                 PlanArrays& arrays) {
    const Points& points = samples.points();
    const std::size_t columns = points.columns;
    arrays.order = make_huge_array<uint32_t>(points.count);
    arrays.codes.resize(points.count * columns);
    std::size_t place = 0;
    for (const Stretch& stretch : stretches) {
        const uint32_t* const codes =
            points.codes.data() + samples.point_at(stretch.first) * columns;
        for (uint64_t i = 0; i < stretch.count; ++i, ++place) {
            arrays.order[place] = points.order[stretch.first + i];
            std::copy_n(codes, columns, arrays.codes.data() + place * columns);
        }
    }
}

/// Where samples without indices are in the order, and their sizes.
void write_runs(const CodedSamples& samples, std::span<const Stretch> stretches,
                PlanArrays& arrays) {
    const Points& points = samples.points();
    const std::size_t columns = points.columns;
    std::vector<std::pair<uint64_t, uint64_t>> runs;  // places by size and in the order
    runs.reserve(stretches.size());
    uint64_t place = 0;
    for (const Stretch& stretch : stretches) {
        if (stretch.count > 0) runs.emplace_back(stretch.first, place);
        place += stretch.count;
    }
    std::ranges::sort(runs);
    for (const auto& [first, in_order] : runs) {
        const uint32_t* const codes = points.codes.data() + samples.point_at(first) * columns;
        arrays.first_places.push_back(first);
        arrays.run_places.push_back(in_order);
        arrays.codes.insert(arrays.codes.end(), codes, codes + columns);
    }
    arrays.first_places.push_back(points.count);
}

void copy_distinct_sizes(const Points& points, PlanArrays& arrays) {
    arrays.first_distinct = {0};
    for (const std::vector<double>& distinct : points.distinct) {
        arrays.distinct_sizes.insert(arrays.distinct_sizes.end(), distinct.begin(), distinct.end());
        arrays.first_distinct.push_back(arrays.distinct_sizes.size());
    }
}

/// The samples of all ids.
struct Divided {
    std::vector<Division> divisions{};
    uint64_t lower_bound = 0;
    double target = 0, nearest = 0;  ///< all that of an id; 0: none
    bool is_any_met = false;         ///< by one of the ids
    Waste waste{};
};

Divided divided(std::size_t ids, double target,
                const std::function<Division(std::size_t, double)>& divide) {
    Divided all;
    for (std::size_t id = 0; id < ids; ++id) {
        const Division& own = all.divisions.emplace_back(divide(id, target));
        all.lower_bound += own.lower_bound;
        all.target = std::max(all.target, own.padding_target);
        all.nearest = std::max(all.nearest, own.nearest_target);
        all.is_any_met = all.is_any_met || own.nearest_target <= own.padding_target;
        all.waste += own.waste;
    }
    return all;
}

/// Each id is planned for the target by itself. All of them together may meet it though one does
/// not, perhaps only if the others do better than they have to.
Divided best_divided(const CodedSamples& samples,
                     const std::function<Division(std::size_t, double)>& divide) {
    const std::size_t ids = samples.points().ids.size();
    const auto overhead_of = [&](const Divided& all) {
        return overhead(all.waste, all.lower_bound, !samples.options().budgets.empty());
    };
    Divided all = divided(ids, samples.options().padding_target, divide);
    const double target = all.target;
    if (ids == 1 || all.nearest <= target || samples.options().chooses_shapes) return all;
    double nearest = std::min(all.nearest, overhead_of(all));
    if (nearest > target && all.is_any_met) {
        Divided tight = divided(ids, std::numeric_limits<double>::min(), divide);
        const double own = overhead_of(tight);
        if (own <= target) all = std::move(tight);
        nearest = std::min(nearest, own);
    }
    all.target = target;
    all.nearest = std::max(target, nearest);
    return all;
}

}  // namespace

PlanArrays make_coded(const CodedSamples& samples, std::vector<Stretch> skipped,
                      const std::function<Division(std::size_t, double)>& divide) {
    const Points& points = samples.points();
    PlanArrays arrays;
    PlanFacts& facts = arrays.facts;
    facts = facts_of(samples.batch_sizes(), points.count);
    std::vector<Stretch> order;
    std::vector<Draft> drafts;
    uint64_t place = 0;
    Divided divided = best_divided(samples, divide);
    facts.lower_bound = divided.lower_bound;
    facts.padding_target = divided.target;
    facts.nearest_target = divided.nearest;
    if (divided.divisions.size() == 1)
        arrays.shape_paddings = std::move(divided.divisions[0].shape_paddings);
    for (Division& division : divided.divisions) {
        skipped.insert(skipped.end(), division.skipped.begin(), division.skipped.end());
        for (Draft& draft : division.drafts) {
            put_longest_last(samples, draft);
            add_bucket(samples, draft, place, arrays);
            place += draft.samples();
            order.insert(order.end(), draft.stretches.begin(), draft.stretches.end());
            drafts.push_back(std::move(draft));
        }
    }
    if (place == 0 && samples.options().min_batch_size > 1)
        refuse_fewest(points.count, samples.options());
    if (place == 0) refuse_all(points.count, samples.batch_sizes());
    facts.skipped = points.count - place;
    share_runs(samples, drafts, arrays);
    order.insert(order.end(), skipped.begin(), skipped.end());
    if (points.order != nullptr)
        write_order(samples, order, arrays);
    else
        write_runs(samples, order, arrays);
    copy_distinct_sizes(points, arrays);
    facts.whole_sizes = are_whole(arrays.distinct_sizes, facts.total);
    return arrays;
}

Division divide_by_size(const CodedSamples& samples, std::size_t id_number, double target) {
    const Points& points = samples.points();
    const uint32_t first = points.first_points[id_number],
                   last = points.first_points[id_number + 1];
    const uint64_t begin = points.first_offsets[first], end = points.first_offsets[last];
    std::vector<double> sizes;
    std::vector<uint64_t> places;
    for (uint32_t point = first; point < last; ++point) {
        sizes.push_back(points.value(point, 0));
        places.push_back(points.first_offsets[point] - begin);
    }
    places.push_back(end - begin);
    SizeCounts counts(sizes, std::move(places));
    counts.order = points.order.get() + begin;
    PlanOptions options = samples.options();
    options.max_shapes = samples.shapes_of(id_number);
    options.padding_target = target;
    const PlanBuilder builder(counts, std::move(options));
    BoundaryFinder finder = builder.finder();
    PlanFacts own{};
    Division division;
    PlanRanges found = builder.ranges(finder, own, division.waste);
    const std::vector<BucketRange> ranges = std::move(found.first);
    division.shape_paddings = std::move(found.shape_paddings);
    division.lower_bound = own.lower_bound;
    division.padding_target = own.padding_target;
    division.nearest_target = own.nearest_target;
    uint64_t covered_begin = end - begin, covered_end = 0;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        const BucketRange& range = ranges[i];
        covered_begin = std::min(covered_begin, range.begin);
        covered_end = std::max(covered_end, range.end);
        Draft& draft = division.drafts.emplace_back();
        uint64_t at = begin + range.begin;
        for (std::size_t point = samples.point_at(at); at < begin + range.end; ++point) {
            const uint64_t next = std::min(begin + range.end, points.first_offsets[point + 1]);
            draft.stretches.push_back({at, next - at});
            at = next;
        }
        draft.batch_size = range.batch_size;
        draft.id = points.ids[id_number];
        if (i + 1 < samples.options().boundaries.size()) draft.boundary = i + 1;
    }
    covered_end = std::max(covered_begin, covered_end);
    if (covered_begin > 0) division.skipped.push_back({begin, covered_begin});
    if (begin + covered_end < end)
        division.skipped.push_back({begin + covered_end, end - begin - covered_end});
    return division;
}

}  // namespace sab
