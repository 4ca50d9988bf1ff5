#include "plan/several.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/sorting.h"
#include "plan/automatic_boxes.h"
#include "plan/plan_builder.h"

namespace sab {
namespace {

/// Boxes are planned of at most so many cells. Of more points, neighbours are put together first.
constexpr std::size_t most_cells = std::size_t{1} << 17;

std::vector<std::span<const double>> spans_of(const std::vector<std::vector<double>>& distinct) {
    return {distinct.begin(), distinct.end()};
}

std::vector<PerColumn> read_corners(const sab_plan_options& options, std::size_t columns) {
    check(columns == 1 || options.bucket_rule == SAB_BUCKETS_AUTO ||
              options.bucket_rule == SAB_BUCKETS_BOUNDARIES,
          "options.bucket_rule", options.bucket_rule,
          "must be SAB_BUCKETS_AUTO (0) or SAB_BUCKETS_BOUNDARIES (1) for several columns");
    if (options.bucket_rule != SAB_BUCKETS_BOUNDARIES) return {};
    if (columns == 1) {
        const std::vector<double> boundaries = sab::read_boundaries(options);
        std::vector<PerColumn> ends;
        ends.reserve(boundaries.size());
        for (const double boundary : boundaries) ends.push_back({boundary});
        return ends;
    }
    check(options.boundary_count >= 2, "options.boundary_count", options.boundary_count,
          "must be at least 2");
    require(options.boundaries, "options.boundaries");
    std::vector<PerColumn> corners(options.boundary_count);
    for (std::size_t i = 0; i < corners.size(); ++i)
        for (std::size_t j = 0; j < columns; ++j) {
            corners[i][j] = options.boundaries[i * columns + j];
            if (std::isnan(corners[i][j]))
                fail(SAB_E_ARGUMENT, "options.boundaries[", i, "] = nan in column ", j,
                     ": must be a number");
            if (i > 0 && corners[i][j] <= corners[0][j])
                fail(SAB_E_ARGUMENT, "options.boundaries[", i, "] = ", corners[i][j], " in column ",
                     j, ": must be above the first one, ", corners[0][j]);
        }
    return corners;
}

}  // namespace

uint64_t SeveralPlanner::Draft::samples() const {
    uint64_t sum = 0;
    for (const Stretch& stretch : stretches) sum += stretch.count;
    return sum;
}

SeveralPlanner::SeveralPlanner(Points points, std::vector<std::string> names,
                               const sab_plan_options& options)
    : options_(options),
      progress_(options.progress, options.progress_ctx),
      points_(std::move(points)),
      distinct_(spans_of(points_.distinct)),
      boundaries_(read_corners(options, points_.columns)),
      names_(std::move(names)),
      batch_sizes_(options, names_, distinct_, points_.count,
                   boundaries_.empty() ? options.batch_size_count : boundaries_.size() - 1),
      is_outside_(points_.size()) {
    check(options.id_shape_count == 0 || options.id_shape_count == points_.ids.size(),
          "options.id_shape_count", options.id_shape_count, "must be the number of ids, ",
          points_.ids.size());
    if (points_.columns == 1) return;  // PlanBuilder checks the rest
    batch_sizes_.check_rises(distinct_);
    find_usable_points();
}

PerColumn SeveralPlanner::sizes_of(std::size_t point) const {
    PerColumn sizes{};
    for (std::size_t j = 0; j < points_.columns; ++j) sizes[j] = points_.value(point, j);
    return sizes;
}

PerColumn SeveralPlanner::padded_of(std::size_t point) const {
    return batch_sizes_.padded(cut(sizes_of(point)));
}

/// The first boundary that is above a point in all columns; 0 when there is none.
std::size_t SeveralPlanner::boundary_of(std::size_t point) const {
    const PerColumn sizes = sizes_of(point);
    const auto is_below = [&](const PerColumn& corner) {
        for (std::size_t j = 0; j < points_.columns; ++j)
            if (!(sizes[j] < corner[j])) return false;
        return true;
    };
    for (std::size_t j = 0; j < points_.columns; ++j)
        if (sizes[j] < boundaries_[0][j]) return 0;
    const auto found = std::find_if(boundaries_.begin() + 1, boundaries_.end(), is_below);
    return found == boundaries_.end() ? 0 : static_cast<std::size_t>(found - boundaries_.begin());
}

void SeveralPlanner::find_usable_points() {
    uint64_t outside = 0;
    for (std::size_t point = 0; point < points_.size(); ++point) {
        is_outside_[point] = (!boundaries_.empty() && boundary_of(point) == 0) ||
                             !batch_sizes_.fits_alone(cut(padded_of(point)));
        outside += is_outside_[point] ? samples_of(point) : 0;
        if (!batch_sizes_.fits_fewest(cut(padded_of(point)))) is_outside_[point] = true;
        if (!is_outside_[point]) continue;
        if (!has_singles()) skipped_.push_back({points_.first_offsets[point], samples_of(point)});
    }
    if (outside > 0 && options_.oversize == SAB_OVERSIZE_ERROR) refuse_oversize(outside);
    if (outside == points_.count && !has_singles())
        fail(SAB_E_ARGUMENT, "sizes: no sample is left: all ", points_.count,
             " are outside the boundaries or over the ", batch_sizes_.limits());
}

/// Names the first sample that is outside the boundaries or over a budget, and what helps.
void SeveralPlanner::refuse_oversize(uint64_t outside) const {
    const auto first_of_point = [&](std::size_t point) -> uint64_t {
        const uint64_t place = points_.first_offsets[point];
        return points_.order != nullptr ? points_.order[place] : place;
    };
    uint64_t first = points_.count;
    std::size_t of_point = 0;
    for (std::size_t point = 0; point < points_.size(); ++point)
        if (is_outside_[point] && first_of_point(point) < first) {
            first = first_of_point(point);
            of_point = point;
        }
    const bool is_inside = boundaries_.empty() || boundary_of(of_point) != 0;
    const std::string sample = points_.order != nullptr ? text("sizes[", first, "]") : "a sample";
    fail(SAB_E_ARGUMENT, std::string_view(sample), " = (", lengths_text(cut(sizes_of(of_point))),
         "): ",
         is_inside ? text("must cost at most ", batch_sizes_.exceeded(cut(padded_of(of_point))),
                          ", in a batch of one")
                   : "must be below one of the boundaries in each column, and at least the first",
         "; ", outside, " of ", points_.count,
         " samples are outside the boundaries or over the budget. Set options.oversize to "
         "SAB_OVERSIZE_SKIP (0) or SAB_OVERSIZE_SINGLE (2), or use a larger budget");
}

/// The points as cells: each alone, or where there are too many, those whose sizes have nearly the
/// same numbers among the distinct ones.
SeveralPlanner::Grouped SeveralPlanner::grouped(std::span<const uint32_t> points) const {
    const std::size_t columns = points_.columns;
    const auto code = [&](uint32_t point, std::size_t j) {
        return points_.codes[point * columns + j];
    };
    Grouped grouped;
    grouped.cells.columns = columns;
    std::vector<uint32_t>& sorted = grouped.points;
    for (uint32_t shift = 0;; ++shift) {
        const auto compare = [&](uint32_t a, uint32_t b) {
            std::size_t j = 0;
            while (j + 1 < columns && code(a, j) >> shift == code(b, j) >> shift) ++j;
            return code(a, j) >> shift < code(b, j) >> shift;
        };
        sorted.assign(points.begin(), points.end());
        if (shift > 0) std::ranges::stable_sort(sorted, compare);
        grouped.first.clear();
        for (std::size_t i = 0; i < sorted.size(); ++i)
            if (i == 0 || compare(sorted[i - 1], sorted[i]))
                grouped.first.push_back(static_cast<uint32_t>(i));
        if (grouped.first.size() <= most_cells || !boundaries_.empty()) break;
    }
    grouped.first.push_back(static_cast<uint32_t>(sorted.size()));
    for (std::size_t cell = 0; cell + 1 < grouped.first.size(); ++cell) {
        PerColumn longest{};
        uint64_t samples = 0;
        for (uint32_t i = grouped.first[cell]; i < grouped.first[cell + 1]; ++i) {
            const PerColumn sizes = sizes_of(sorted[i]), lengths = padded_of(sorted[i]);
            for (std::size_t j = 0; j < columns; ++j) longest[j] = std::max(longest[j], lengths[j]);
            samples += samples_of(sorted[i]);
            grouped.cells.total += std::accumulate(sizes.begin(), sizes.end(), 0.0) *
                                   static_cast<double>(samples_of(sorted[i]));
        }
        grouped.cells.lengths.insert(grouped.cells.lengths.end(), longest.begin(),
                                     longest.begin() + static_cast<std::ptrdiff_t>(columns));
        grouped.cells.counts.push_back(samples);
    }
    return grouped;
}

/// The shapes of an id's buckets: its share of all sizes, but at least what it needs.
std::size_t SeveralPlanner::shapes_of(std::size_t id_number) const {
    if (options_.id_shape_count > 0) return options_.id_shapes[id_number];
    const std::size_t ids = points_.ids.size();
    if (options_.max_shapes == 0 || ids == 1) return options_.max_shapes;
    const bool keeps_tail = options_.tail == SAB_TAIL_KEEP;
    const std::size_t fewest = 1 + (keeps_tail ? 1 : 0) + (has_singles() ? 1 : 0);
    check(options_.max_shapes >= fewest * ids, "options.max_shapes", options_.max_shapes,
          "must be at least ", fewest * ids, ": ", fewest, " for each of the ", ids, " ids");
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
    const auto spare = static_cast<double>(options_.max_shapes - fewest * ids);
    return fewest + static_cast<std::size_t>(all > 0 ? spare * own / all : 0);
}

std::vector<Box> SeveralPlanner::boxes_of_boundaries(const BoxFinder& finder,
                                                     const Grouped& grouped) const {
    std::vector<Box> boxes = finder.by_number(boundaries_.size() - 1, [&](std::size_t cell) {
        return boundary_of(grouped.points[grouped.first[cell]]) - 1;
    });
    for (std::size_t i = 0; i < boxes.size() && !batch_sizes_.given().empty(); ++i) {
        const uint64_t given = batch_sizes_.given()[batch_sizes_.given().size() == 1 ? 0 : i];
        boxes[i].batch_size =
            batch_sizes_.budgets().empty() ? given : std::min(boxes[i].batch_size, given);
        if (options_.max_batch_size > 0)
            boxes[i].batch_size = std::min(boxes[i].batch_size, options_.max_batch_size);
    }
    return boxes;
}

/// What samples that are batches of one waste, each padded to its own length.
BoxFinder::Waste SeveralPlanner::waste_of(std::span<const Stretch> singles) const {
    BoxFinder::Waste waste;
    for (const Stretch& stretch : singles) {
        const PerColumn sizes = sizes_of(point_at(stretch.first)),
                        lengths = padded_of(point_at(stretch.first));
        const auto count = static_cast<double>(stretch.count);
        const double padded = std::accumulate(lengths.begin(), lengths.end(), 0.0) * count;
        waste.padded += padded;
        waste.padding += padded - std::accumulate(sizes.begin(), sizes.end(), 0.0) * count;
        waste.batches += stretch.count;
    }
    return waste;
}

/// At most so many boxes for `max_shapes`. Others, of numbers of samples that are not whole, where
/// those save more than a quarter of the batches or of the padded total.
std::vector<Box> SeveralPlanner::boxes_of_shapes(const BoxFinder& finder, const Grouped& grouped,
                                                 std::size_t count) const {
    std::vector<Box> boxes = finder.by_shapes(count, progress_);
    const BoxFinder finer(
        grouped.cells, [this](auto lengths) { return batch_sizes_.largest(lengths); },
        [this](auto lengths) { return batch_sizes_.smooth(lengths); }, true);
    std::vector<Box> others = finer.by_shapes(count, progress_);
    const auto fits = [&](const Box& box) { return batch_sizes_.largest(cut(box.padded)) > 0; };
    const BoxFinder::Waste own = finder.waste(boxes), other = finder.waste(others);
    const bool saves_batches =
                   own.batches > other.batches + 1 && !is_near(own.batches, other.batches),
               saves_padding = own.batches >= other.batches && own.padded > 1.3 * other.padded;
    return (saves_batches || saves_padding) && std::ranges::all_of(others, fits) ? others : boxes;
}

/// Boxes for an id's points. `singles`: what batches of one sample add to the waste.
std::vector<Box> SeveralPlanner::boxes_of(const Grouped& grouped, std::size_t shapes,
                                          uint64_t lower_bound, const BoxFinder::Waste& singles,
                                          PlanFacts& facts) const {
    const BoxFinder finder(
        grouped.cells, [this](auto lengths) { return batch_sizes_.largest(lengths); },
        [this](auto lengths) { return static_cast<double>(batch_sizes_.estimate(lengths)); });
    if (!boundaries_.empty()) return boxes_of_boundaries(finder, grouped);
    if (shapes > 0) {
        const bool keeps_tail = options_.tail == SAB_TAIL_KEEP;
        const std::size_t others = (keeps_tail ? 1 : 0) + (singles.batches > 0 ? 1 : 0);
        check(shapes > others, "options.max_shapes", shapes, "must be at least ", others + 1,
              ": one for full batches", keeps_tail ? ", one for the tail, which is kept" : "",
              singles.batches > 0 ? ", one for samples that are alone" : "");
        std::vector<Box> boxes = boxes_of_shapes(finder, grouped, shapes - others);
        for (const Box& box : boxes)
            check(batch_sizes_.largest(cut(box.padded)) > 0, "options.max_shapes", shapes,
                  "must be larger: samples of one shape, (", lengths_text(cut(box.padded)),
                  "), would be over the ", batch_sizes_.limits(), ", in a batch of one");
        return boxes;
    }
    AutomaticBoxes::Tried found = AutomaticBoxes(grouped.cells, batch_sizes_, options_, lower_bound,
                                                 singles, points_.ids.size())
                                      .find(progress_);
    facts.padding_target = options_.padding_target;
    facts.nearest_target = std::max(facts.nearest_target, found.nearest);
    return std::move(found.buckets);
}

/// Divides the samples of an id into buckets.
void SeveralPlanner::divide(std::size_t id_number, PlanFacts& facts) {
    std::vector<uint32_t> inside;
    Draft alone;
    const uint32_t end = points_.first_points[id_number + 1];
    for (uint32_t point = points_.first_points[id_number]; point < end; ++point)
        if (!is_outside_[point])
            inside.push_back(point);
        else if (has_singles())
            alone.stretches.push_back({points_.first_offsets[point], samples_of(point)});
    alone.id = points_.ids[id_number];
    const uint64_t singles = alone.samples();
    const std::size_t several_sizes = batch_sizes_.given().size() > 1 ? 1 : 0;
    const double least = several_sizes > 0 ? 0 : batch_sizes_.least_batches([&](auto&& add) {
        for (const uint32_t point : inside) {
            const PerColumn sizes = sizes_of(point);
            add(cut(sizes), samples_of(point));
        }
    });
    const auto bound = static_cast<uint64_t>(std::ceil(least - 1e-9 * least)) + singles;
    facts.lower_bound += bound;
    if (!inside.empty()) {
        const Grouped cells = grouped(inside);
        std::vector<Box> boxes =
            boxes_of(cells, shapes_of(id_number), bound, waste_of(alone.stretches), facts);
        add_boxes(cells, boxes, alone.id);
        if (options_.min_batch_size > 1)
            for (std::size_t left = boxes.size(), i = drafts_.size() - left; left > 0; --left, ++i)
                hold_fewest(i);
        std::erase_if(drafts_, [](const Draft& draft) { return draft.stretches.empty(); });
    }
    if (singles > 0) {
        sort_stretches(alone);
        drafts_.push_back(std::move(alone));
    }
}

/// The same for one column, whose buckets PlanBuilder finds.
void SeveralPlanner::divide_one_column(std::size_t id_number, PlanFacts& facts) {
    const uint32_t first = points_.first_points[id_number],
                   last = points_.first_points[id_number + 1];
    const uint64_t begin = points_.first_offsets[first], end = points_.first_offsets[last];
    Sorted sorted;
    sorted.count = end - begin;
    sorted.order = make_huge_array<uint32_t>(sorted.count);
    std::copy_n(points_.order.get() + begin, sorted.count, sorted.order.get());
    for (uint32_t point = first; point < last; ++point) {
        sorted.distinct_sizes.push_back(points_.value(point, 0));
        sorted.first_offsets.push_back(static_cast<uint32_t>(points_.first_offsets[point] - begin));
    }
    sorted.first_offsets.push_back(static_cast<uint32_t>(end - begin));
    sab_plan_options options = options_;
    options.max_shapes = shapes_of(id_number);
    const SizeCounts counts(sorted);
    const PlanBuilder builder(counts, options, names_[0]);
    BoundaryFinder finder = builder.finder();
    PlanFacts own = builder.facts(finder);
    uint64_t covered_begin = end - begin, covered_end = 0;
    const std::vector<BucketRange> ranges = builder.ranges(finder, own);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        const BucketRange& range = ranges[i];
        covered_begin = std::min(covered_begin, range.begin);
        covered_end = std::max(covered_end, range.end);
        Draft& draft = drafts_.emplace_back();
        uint64_t at = begin + range.begin;
        for (std::size_t point = point_at(at); at < begin + range.end; ++point) {
            const uint64_t next = std::min(begin + range.end, points_.first_offsets[point + 1]);
            draft.stretches.push_back({at, next - at});
            at = next;
        }
        draft.batch_size = range.batch_size;
        draft.id = points_.ids[id_number];
        if (i + 1 < options_.boundary_count) draft.boundary = i + 1;
    }
    covered_end = std::max(covered_begin, covered_end);
    if (covered_begin > 0) skipped_.push_back({begin, covered_begin});
    if (begin + covered_end < end)
        skipped_.push_back({begin + covered_end, end - begin - covered_end});
    facts.lower_bound += own.lower_bound;
    facts.padding_target = own.padding_target;
    facts.nearest_target = std::max(facts.nearest_target, own.nearest_target);
}

/// Stretches of samples that cost more come later; equal ones keep their order.
void SeveralPlanner::sort_stretches(Draft& draft) const {
    std::vector<double> costs;
    for (const Stretch& stretch : draft.stretches) {
        const PerColumn lengths = padded_of(point_at(stretch.first));
        costs.push_back(batch_sizes_.cost_of(batch_sizes_.cost(), 1, cut(lengths)));
    }
    const std::vector<Stretch> stretches = draft.stretches;
    for (std::size_t k = 0; const uint32_t i : by_ascending(costs))
        draft.stretches[k++] = stretches[i];
}

void SeveralPlanner::add_boxes(const Grouped& grouped, std::vector<Box>& boxes, int64_t id) {
    for (std::size_t i = 0; i < boxes.size(); ++i) {
        Draft draft;
        draft.batch_size = boxes[i].batch_size;
        draft.id = id;
        draft.boundary = boundaries_.empty() ? 0 : i + 1;
        for (const CellRun& run : boxes[i].runs) {
            uint64_t skip = run.first, left = run.count;
            for (uint32_t k = grouped.first[run.cell]; left > 0; ++k) {
                const uint32_t point = grouped.points[k];
                const uint64_t here = samples_of(point),
                               taken = skip < here ? std::min(left, here - skip) : 0;
                if (taken > 0)
                    draft.stretches.push_back({points_.first_offsets[point] + skip, taken});
                skip -= std::min(skip, here);
                left -= taken;
            }
        }
        sort_stretches(draft);
        drafts_.push_back(std::move(draft));
    }
}

/// Makes the last batch of a bucket large enough, by taking the cheapest samples from it.
void SeveralPlanner::hold_fewest(std::size_t number) {
    Draft& draft = drafts_[number];
    const Taken taken = taken_for_fewest(draft.samples(), draft.batch_size, options_);
    Draft own{{}, taken.batch_size, draft.id, 0};
    for (uint64_t left = taken.samples; left > 0;) {
        Stretch& first = draft.stretches.front();
        const uint64_t count = std::min(first.count, left);
        own.stretches.push_back({first.first, count});
        first.first += count;
        first.count -= count;
        left -= count;
        if (first.count == 0) draft.stretches.erase(draft.stretches.begin());
    }
    if (taken.batch_size > 0)
        drafts_.push_back(std::move(own));
    else
        skipped_.insert(skipped_.end(), own.stretches.begin(), own.stretches.end());
}

/// Samples that are longest in a column come last, so that the last batch in this order is the
/// costliest that there can be. Batches of one stay in ascending order of cost.
void SeveralPlanner::put_longest_last(Draft& draft) const {
    if (draft.batch_size == 1) return;
    const std::size_t columns = points_.columns;
    std::vector<Stretch>& stretches = draft.stretches;
    PerColumn longest{};
    std::array<uint64_t, SAB_MAX_COLUMNS> longest_at{};  // places in the bucket
    uint64_t samples = 0;
    for (const Stretch& stretch : stretches) {
        const PerColumn sizes = sizes_of(point_at(stretch.first));
        for (std::size_t j = 0; j < columns; ++j) {
            if (sizes[j] >= longest[j]) longest_at[j] = samples;
            longest[j] = std::max(longest[j], sizes[j]);
        }
        samples += stretch.count;
    }
    // the sample at a place becomes a stretch of its own, whose number is returned
    const auto cut_out = [&](uint64_t place) {
        std::size_t number = 0;
        while (place >= stretches[number].count) place -= stretches[number++].count;
        const auto cut_at = [&](uint64_t count) {
            const Stretch whole = stretches[number];
            if (count == 0 || count == whole.count) return false;
            stretches[number].count = count;
            stretches.insert(stretches.begin() + static_cast<std::ptrdiff_t>(number) + 1,
                             {whole.first + count, whole.count - count});
            return true;
        };
        if (cut_at(place)) ++number;
        cut_at(1);
        return number;
    };
    uint64_t last = samples;
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
double SeveralPlanner::cost_of_last(const Draft& draft, uint64_t count) const {
    PerColumn longest{};
    auto stretch = draft.stretches.end();
    for (uint64_t left = count; left > 0; left -= std::min(left, stretch->count)) {
        const PerColumn sizes = sizes_of(point_at((--stretch)->first));
        for (std::size_t j = 0; j < points_.columns; ++j)
            longest[j] = std::max(longest[j], sizes[j]);
    }
    return batch_sizes_.cost_of(batch_sizes_.cost(), count, cut(batch_sizes_.padded(cut(longest))));
}

/// Makes the bucket of the samples from a place on.
void SeveralPlanner::add_bucket(const Draft& draft, PlanArrays& arrays, uint64_t place) const {
    const std::size_t columns = points_.columns;
    const uint64_t samples = draft.samples();
    Bucket bucket{};
    bucket.begin = place;
    bucket.end = place + samples;
    bucket.id = draft.id;
    PerColumn shortest{}, longest{}, total{}, lower{}, upper{};
    if (samples > 0) shortest.fill(std::numeric_limits<double>::infinity());
    for (const Stretch& stretch : draft.stretches) {
        const PerColumn sizes = sizes_of(point_at(stretch.first));
        for (std::size_t j = 0; j < columns; ++j) {
            shortest[j] = std::min(shortest[j], sizes[j]);
            longest[j] = std::max(longest[j], sizes[j]);
            total[j] += sizes[j] * static_cast<double>(stretch.count);
        }
    }
    bucket.batch_size = options_.tail == SAB_TAIL_WRAP
                            ? std::clamp<uint64_t>(samples, 1, draft.batch_size)
                            : draft.batch_size;
    bucket.batches = batches_of(samples, bucket.batch_size, options_.tail);
    const PerColumn padded = batch_sizes_.padded(cut(longest));
    if (samples > 0) {
        const uint64_t count = std::min(bucket.batch_size, samples);
        batch_sizes_.check_rises(count, batch_sizes_.padded(cut(shortest)), padded);
        bucket.cost = arrays.facts.pads_to_bucket
                          ? batch_sizes_.cost_of(batch_sizes_.cost(), count, cut(padded))
                          : cost_of_last(draft, count);
    }
    lower = shortest;
    upper = longest;
    if (draft.boundary > 0) {  // of one column, intervals follow each other
        lower = boundaries_[columns > 1 ? 0 : draft.boundary - 1];
        upper = boundaries_[draft.boundary];
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
void SeveralPlanner::write_order(std::span<const Stretch> stretches, PlanArrays& arrays) const {
    const std::size_t columns = points_.columns;
    arrays.order = make_huge_array<uint32_t>(points_.count);
    arrays.codes.resize(points_.count * columns);
    std::size_t place = 0;
    for (const Stretch& stretch : stretches) {
        const uint32_t* const codes = points_.codes.data() + point_at(stretch.first) * columns;
        for (uint64_t i = 0; i < stretch.count; ++i, ++place) {
            arrays.order[place] = points_.order[stretch.first + i];
            std::copy_n(codes, columns, arrays.codes.data() + place * columns);
        }
    }
}

/// Where samples without indices are in the order, and their sizes.
void SeveralPlanner::write_runs(std::span<const Stretch> stretches, PlanArrays& arrays) const {
    const std::size_t columns = points_.columns;
    std::vector<std::pair<uint64_t, uint64_t>> runs;  // places by size and in the order
    runs.reserve(stretches.size());
    uint64_t place = 0;
    for (const Stretch& stretch : stretches) {
        if (stretch.count > 0) runs.emplace_back(stretch.first, place);
        place += stretch.count;
    }
    std::ranges::sort(runs);
    for (const auto& [first, in_order] : runs) {
        const uint32_t* const codes = points_.codes.data() + point_at(first) * columns;
        arrays.first_places.push_back(first);
        arrays.run_places.push_back(in_order);
        arrays.codes.insert(arrays.codes.end(), codes, codes + columns);
    }
    arrays.first_places.push_back(points_.count);
}

PlanArrays SeveralPlanner::make() {
    PlanArrays arrays;
    PlanFacts& facts = arrays.facts;
    facts.samples = points_.count;
    facts.length_multiples = batch_sizes_.multiples();
    facts.tail = options_.tail;
    facts.pads_to_bucket = options_.max_shapes > 0 || options_.id_shape_count > 0;
    facts.bucket_rule = options_.bucket_rule;
    facts.columns = static_cast<uint32_t>(points_.columns);
    facts.has_ids = options_.separate_by != nullptr;
    facts.min_batch_size = options_.min_batch_size;
    for (std::size_t id = 0; id < points_.ids.size(); ++id)
        points_.columns == 1 ? divide_one_column(id, facts) : divide(id, facts);

    std::vector<Stretch> order;
    uint64_t place = 0;
    for (Draft& draft : drafts_) {
        put_longest_last(draft);
        add_bucket(draft, arrays, place);
        place += draft.samples();
        const std::vector<Stretch> own = std::move(draft.stretches);
        order.insert(order.end(), own.begin(), own.end());
    }
    if (place == 0 && options_.min_batch_size > 1) refuse_fewest(options_, points_.count);
    if (place == 0)
        fail(SAB_E_ARGUMENT, "sizes: no sample is left: all ", points_.count,
             " are outside the boundaries or over the ", batch_sizes_.limits());
    facts.skipped = points_.count - place;
    order.insert(order.end(), skipped_.begin(), skipped_.end());
    points_.order != nullptr ? write_order(order, arrays) : write_runs(order, arrays);
    arrays.first_distinct = {0};
    bool are_whole = facts.total <= largest_size;
    for (const std::vector<double>& distinct : points_.distinct) {
        arrays.distinct_sizes.insert(arrays.distinct_sizes.end(), distinct.begin(), distinct.end());
        arrays.first_distinct.push_back(arrays.distinct_sizes.size());
        are_whole = are_whole && std::ranges::all_of(distinct, [](double size) {
                        return size == std::floor(size);
                    });
    }
    facts.whole_sizes = are_whole;
    return arrays;
}

}  // namespace sab
