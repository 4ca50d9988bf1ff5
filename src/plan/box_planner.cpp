#include "plan/box_planner.h"

#include <algorithm>
#include <numeric>

#include "plan/automatic_boxes.h"

namespace sab {
namespace {

/// Boxes are planned of at most so many cells. Of more points, neighbours are put together first.
constexpr std::size_t most_cells = std::size_t{1} << 17;

}  // namespace

BoxPlanner::BoxPlanner(const CodedSamples& samples)
    : samples_(samples),
      points_(samples.points()),
      options_(samples.options()),
      batch_sizes_(samples.batch_sizes()),
      is_outside_(points_.size()) {
    batch_sizes_.check_rises(samples.distinct());
    find_usable_points();
}

/// The first boundary that is above a point in all columns; 0 when there is none.
std::size_t BoxPlanner::boundary_of(std::size_t point) const {
    const PerColumn sizes = samples_.sizes_of(point);
    const auto is_below = [&](const PerColumn& corner) {
        for (std::size_t j = 0; j < points_.columns; ++j)
            if (!(sizes[j] < corner[j])) return false;
        return true;
    };
    for (std::size_t j = 0; j < points_.columns; ++j)
        if (sizes[j] < options_.boundaries[0][j]) return 0;
    const auto found =
        std::find_if(options_.boundaries.begin() + 1, options_.boundaries.end(), is_below);
    return found == options_.boundaries.end()
               ? 0
               : static_cast<std::size_t>(found - options_.boundaries.begin());
}

void BoxPlanner::find_usable_points() {
    uint64_t outside = 0;
    for (std::size_t point = 0; point < points_.size(); ++point) {
        const PerColumn padded = samples_.padded_of(point);
        is_outside_[point] = (!options_.boundaries.empty() && boundary_of(point) == 0) ||
                             !batch_sizes_.fits_alone(samples_.cut(padded));
        outside += is_outside_[point] ? samples_.samples_of(point) : 0;
        if (!batch_sizes_.fits_fewest(samples_.cut(padded))) is_outside_[point] = true;
        if (is_outside_[point] && !options_.has_singles())
            outside_.push_back({points_.first_offsets[point], samples_.samples_of(point)});
    }
    if (outside > 0 && options_.oversize == SAB_OVERSIZE_ERROR) refuse_oversize(outside);
    if (outside == points_.count && !options_.has_singles())
        refuse_all(points_.count, batch_sizes_);
}

void BoxPlanner::refuse_oversize(uint64_t outside) const {
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
    const bool have_indices = points_.order != nullptr,
               is_inside = options_.boundaries.empty() || boundary_of(of_point) != 0;
    const NamedValue sample{
        have_indices ? text("sizes[", first, "]") : "size",
        text("(", lengths_text(samples_.cut(samples_.sizes_of(of_point))), ")")};
    sab::refuse_oversize(
        {outside, points_.count, sample, samples_.padded_of(of_point), is_inside, have_indices},
        batch_sizes_);
}

/// The points as cells: each alone, or where there are too many, those whose sizes have nearly the
/// same numbers among the distinct ones.
BoxPlanner::Grouped BoxPlanner::grouped(std::span<const uint32_t> points) const {
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
        if (grouped.first.size() <= most_cells || !options_.boundaries.empty()) break;
    }
    grouped.first.push_back(static_cast<uint32_t>(sorted.size()));
    for (std::size_t cell = 0; cell + 1 < grouped.first.size(); ++cell) {
        PerColumn longest{};
        uint64_t samples = 0;
        for (uint32_t i = grouped.first[cell]; i < grouped.first[cell + 1]; ++i) {
            const PerColumn sizes = samples_.sizes_of(sorted[i]),
                            lengths = samples_.padded_of(sorted[i]);
            for (std::size_t j = 0; j < columns; ++j) longest[j] = std::max(longest[j], lengths[j]);
            samples += samples_.samples_of(sorted[i]);
            grouped.cells.total += std::accumulate(sizes.begin(), sizes.end(), 0.0) *
                                   static_cast<double>(samples_.samples_of(sorted[i]));
        }
        grouped.cells.lengths.insert(grouped.cells.lengths.end(), longest.begin(),
                                     longest.begin() + static_cast<std::ptrdiff_t>(columns));
        grouped.cells.counts.push_back(samples);
    }
    return grouped;
}

std::vector<Box> BoxPlanner::boxes_of_boundaries(const BoxFinder& finder,
                                                 const Grouped& grouped) const {
    const std::size_t count = options_.boundaries.size() - 1;
    std::vector<Box> boxes = finder.by_number(count, [&](std::size_t cell) {
        return boundary_of(grouped.points[grouped.first[cell]]) - 1;
    });
    for (std::size_t i = 0; i < boxes.size(); ++i)
        boxes[i].batch_size = batch_sizes_.of_bucket(i, boxes[i].batch_size);
    return boxes;
}

/// What samples that are batches of one waste, each padded to its own length.
Waste BoxPlanner::waste_of(std::span<const Stretch> singles) const {
    Waste waste;
    for (const Stretch& stretch : singles) {
        const PerColumn sizes = samples_.sizes_of(samples_.point_at(stretch.first)),
                        lengths = samples_.padded_of(samples_.point_at(stretch.first));
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
std::vector<Box> BoxPlanner::boxes_of_shapes(const BoxFinder& finder, const Grouped& grouped,
                                             std::size_t count) const {
    std::vector<Box> boxes = finder.by_shapes(count, options_.progress);
    const BoxFinder finer(
        grouped.cells, [this](auto lengths) { return batch_sizes_.largest(lengths); },
        [this](auto lengths) { return batch_sizes_.smooth(lengths); }, true);
    std::vector<Box> others = finer.by_shapes(count, options_.progress);
    const Waste own = finder.waste(boxes), other = finder.waste(others);
    const bool saves_batches =
                   own.batches > other.batches + 1 && !is_near(own.batches, other.batches),
               saves_padding = own.batches >= other.batches && own.padded > 1.3 * other.padded;
    return (saves_batches || saves_padding) && are_within(others) ? others : boxes;
}

/// Whether a batch of one sample of each box is within the budgets.
bool BoxPlanner::are_within(const std::vector<Box>& boxes) const {
    return std::ranges::all_of(
        boxes, [&](const Box& box) { return batch_sizes_.largest(samples_.cut(box.padded)) > 0; });
}

void BoxPlanner::check_within(const std::vector<Box>& boxes, std::size_t shapes) const {
    for (const Box& box : boxes)
        check(batch_sizes_.largest(samples_.cut(box.padded)) > 0, "options.max_shapes", shapes,
              "must be larger: samples of one shape, (", lengths_text(samples_.cut(box.padded)),
              "), would be over the ", batch_sizes_.limits(), ", in a batch of one");
}

/// Boxes for an id's points. The waste of the division, that of batches of one sample, is added to.
std::vector<Box> BoxPlanner::boxes_of(const Grouped& grouped, std::size_t shapes, double target,
                                      Division& division) const {
    const BoxFinder finder(
        grouped.cells, [this](auto lengths) { return batch_sizes_.largest(lengths); },
        [this](auto lengths) { return static_cast<double>(batch_sizes_.estimate(lengths)); });
    if (!options_.boundaries.empty()) return boxes_of_boundaries(finder, grouped);
    const std::size_t fewest = fewest_shapes(options_, true, division.waste.batches > 0);
    if (options_.chooses_shapes) {
        // Boxes that are too large for a budget pad all there is.
        auto [boxes, padding] = by_fewest_shapes(
            target, fewest, most_shapes(shapes, fewest, grouped.first.size() - 1),
            [&](std::size_t number) {
                std::vector<Box> made = boxes_of_shapes(finder, grouped, number - (fewest - 1));
                const double share = are_within(made) ? finder.waste(made).share() : 1;
                return std::pair(std::move(made), share);
            },
            division.shape_paddings);
        division.padding_target = target;
        division.nearest_target = std::max(target, padding);
        check_within(boxes, division.shape_paddings.back().shapes);
        return std::move(boxes);
    }
    if (shapes > 0) {
        check_shapes(shapes, fewest);
        std::vector<Box> boxes = boxes_of_shapes(finder, grouped, shapes - (fewest - 1));
        check_within(boxes, shapes);
        return boxes;
    }
    AutomaticBoxes::Tried found =
        AutomaticBoxes(grouped.cells, batch_sizes_, target, division.lower_bound, division.waste,
                       points_.ids.size())
            .find(options_.progress);
    division.padding_target = target;
    division.nearest_target = found.nearest;
    division.waste += finder.waste(found.buckets);
    return std::move(found.buckets);
}

Division BoxPlanner::divide(std::size_t id_number, double target) const {
    const std::size_t shapes = samples_.shapes_of(id_number);
    Division division;
    std::vector<uint32_t> inside;
    Draft alone;
    const uint32_t end = points_.first_points[id_number + 1];
    for (uint32_t point = points_.first_points[id_number]; point < end; ++point)
        if (!is_outside_[point])
            inside.push_back(point);
        else if (options_.has_singles())
            alone.stretches.push_back({points_.first_offsets[point], samples_.samples_of(point)});
    alone.id = points_.ids[id_number];
    const uint64_t singles = alone.samples();
    // Several batch sizes are those of boundaries, whose boxes give no bound.
    const double least =
        options_.batch_sizes.size() > 1 ? 0 : batch_sizes_.least_batches([&](auto&& add) {
            for (const uint32_t point : inside) {
                const PerColumn sizes = samples_.sizes_of(point);
                add(samples_.cut(sizes), samples_.samples_of(point));
            }
        });
    division.lower_bound = std::max<uint64_t>(bound_of(least), !inside.empty()) + singles;
    if (!inside.empty()) {
        const Grouped cells = grouped(inside);
        division.waste = waste_of(alone.stretches);
        const std::vector<Box> boxes = boxes_of(cells, shapes, target, division);
        add_boxes(cells, boxes, alone.id, division);
        for (std::size_t i = 0; i < boxes.size() && options_.min_batch_size > 1; ++i)
            hold_fewest(i, division);
        std::erase_if(division.drafts, [](const Draft& draft) { return draft.stretches.empty(); });
    }
    if (singles > 0) {
        samples_.sort(alone);
        division.drafts.push_back(std::move(alone));
    }
    return division;
}

void BoxPlanner::add_boxes(const Grouped& grouped, const std::vector<Box>& boxes, int64_t id,
                           Division& division) const {
    for (std::size_t i = 0; i < boxes.size(); ++i) {
        Draft draft;
        draft.batch_size = boxes[i].batch_size;
        draft.id = id;
        draft.boundary = options_.boundaries.empty() ? 0 : i + 1;
        for (const CellRun& run : boxes[i].runs) {
            uint64_t skip = run.first, left = run.count;
            for (uint32_t k = grouped.first[run.cell]; left > 0; ++k) {
                const uint32_t point = grouped.points[k];
                const uint64_t here = samples_.samples_of(point),
                               taken = skip < here ? std::min(left, here - skip) : 0;
                if (taken > 0)
                    draft.stretches.push_back({points_.first_offsets[point] + skip, taken});
                skip -= std::min(skip, here);
                left -= taken;
            }
        }
        samples_.sort(draft);
        division.drafts.push_back(std::move(draft));
    }
}

/// Makes the batches of a bucket large enough, by taking its cheapest samples.
void BoxPlanner::hold_fewest(std::size_t number, Division& division) const {
    Draft draft = std::move(division.drafts[number]);
    division.drafts[number].stretches.clear();
    for (const HeldPart& part : parts_for_fewest(draft.samples(), draft.batch_size, options_)) {
        Draft own{{}, part.batch_size, draft.id, 0};
        for (uint64_t left = part.samples; left > 0;) {
            Stretch& first = draft.stretches.front();
            const uint64_t count = std::min(first.count, left);
            own.stretches.push_back({first.first, count});
            first.first += count;
            first.count -= count;
            left -= count;
            if (first.count == 0) draft.stretches.erase(draft.stretches.begin());
        }
        if (part.batch_size > 0)
            division.drafts.push_back(std::move(own));
        else
            division.skipped.insert(division.skipped.end(), own.stretches.begin(),
                                    own.stretches.end());
    }
}

}  // namespace sab
