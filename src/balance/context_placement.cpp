#include "balance/context_placement.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>

#include "base/progress.h"
#include "base/sorting.h"

namespace sab {
namespace {

constexpr uint64_t reported_work = uint64_t{1} << 22;  // ranks of windows looked at

}  // namespace

uint32_t ContextProblem::most_width() const {
    return powers_of_two ? static_cast<uint32_t>(std::bit_width(ranks)) - 1 : ranks - 1;
}

uint32_t ContextProblem::width_of(uint32_t needed) const {
    return powers_of_two ? static_cast<uint32_t>(std::bit_width(needed - 1)) : needed - 1;
}

uint32_t ContextProblem::fastest_width(uint32_t sample) const {
    uint32_t low = narrowest[sample], high = most_width();
    while (low < high) {  // time falls, and from some width on it rises
        const uint32_t middle = low + (high - low) / 2;
        if (time(sample, middle + 1) < time(sample, middle))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t ContextProblem::least_width(uint32_t sample, double limit) const {
    uint32_t low = narrowest[sample], high = widest[sample];
    while (low < high) {  // time falls up to the widest
        const uint32_t middle = low + (high - low) / 2;
        if (time(sample, middle) <= limit)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool ContextProblem::may_end_by(double limit) const {
    double work = 0;
    for (uint32_t sample = 0; sample < costs.size(); ++sample) {
        const uint32_t width = least_width(sample, limit);
        const double each = time(sample, width);
        if (each > limit) return false;
        work += each * ranks_of(width);
    }
    return work <= limit * ranks;
}

double ContextProblem::lower_bound() const {
    double low = 0, work = 0;
    for (uint32_t sample = 0; sample < costs.size(); ++sample) {
        low = std::max(low, time(sample, widest[sample]));
        work += time(sample, narrowest[sample]) * ranks_of(narrowest[sample]);
    }
    low = std::max(low, work / ranks);
    if (may_end_by(low)) return low;
    double high = 2 * low;
    while (!may_end_by(high)) high *= 2;
    for (int halvings = 0; halvings < 32; ++halvings) {
        const double middle = low + (high - low) / 2;
        (may_end_by(middle) ? high : low) = middle;
    }
    return low;
}

void Placement::place(std::span<const uint32_t> widths) {
    sort(widths);
    place_sequence();
}

void Placement::sort(std::span<const uint32_t> widths) {
    first_of_.assign(problem_.most_width() + 1, 0);
    for (const uint32_t width : widths) ++first_of_[width];
    uint32_t first = 0;
    for (std::size_t width = first_of_.size(); width-- > 0;)
        first += std::exchange(first_of_[width], first);
    schedule_.groups.resize(widths.size());
    schedule_.sequence.resize(widths.size());
    for (const uint32_t sample : problem_.order) {
        const uint32_t width = widths[sample];
        schedule_.groups[sample].width = width;
        schedule_.sequence[first_of_[width]++] = sample;
    }
}

void AlignedPlacement::take(const std::vector<ContextGroup>& groups) {
    std::vector<uint32_t> widths(groups.size());
    std::ranges::transform(groups, widths.begin(), &ContextGroup::width);
    sort(widths);
    schedule_.groups = groups;
    loads_.assign(problem_.ranks, 0);
    for (const uint32_t sample : schedule_.sequence) {
        const double added = time(sample);
        for (double& load : loads_of(groups[sample])) load += added;
    }
    schedule_.makespan = std::ranges::max(loads_);
}

/// Each in the group with the least load.
void AlignedPlacement::place_sequence() {
    uint32_t width = problem_.most_width();
    heap_.clear();
    for (uint32_t index = 0; index < problem_.ranks >> width; ++index) heap_.push_back({0, index});
    for (const uint32_t sample : schedule_.sequence) {
        ContextGroup& group = schedule_.groups[sample];
        while (width > group.width) split(width--);
        group.first = heap_[0].second << width;
        replace_first(std::span(heap_), {heap_[0].first + time(sample), heap_[0].second},
                      std::greater<>());
    }
    while (width > 0) split(width--);
    loads_.resize(problem_.ranks);
    for (const Load& load : heap_) loads_[load.second] = load.first;
    schedule_.makespan = std::ranges::max(loads_);
}

/// Halves all groups of a width. The ranks behind them may have one more of half the width.
void AlignedPlacement::split(uint32_t width) {
    const std::size_t count = heap_.size();
    for (std::size_t i = 0; i < count; ++i) {
        heap_[i].second *= 2;
        heap_.push_back({heap_[i].first, heap_[i].second + 1});
    }
    const uint32_t halves = problem_.ranks >> (width - 1);
    if (halves > 2 * count) heap_.push_back({0, halves - 1});
    std::ranges::make_heap(heap_, std::greater{});
}

void WindowPlacement::place_sequence() {
    loads_.assign(problem_.ranks, 0);
    uint64_t unreported = 0;
    for (const uint32_t sample : schedule_.sequence) {
        put(sample);
        unreported += problem_.ranks;
        if (unreported < reported_work) continue;
        unreported = 0;
        report_progress(0, 1);
    }
    schedule_.makespan = std::ranges::max(loads_);
}

/// Takes the first of the windows where the sample can begin earliest.
void WindowPlacement::put(uint32_t sample) {
    ContextGroup& group = schedule_.groups[sample];
    const uint32_t size = problem_.ranks_of(group.width);
    window_.clear();
    std::size_t front = 0;
    double least = 0;
    bool is_found = false;
    for (uint32_t rank = 0; rank < problem_.ranks; ++rank) {
        while (window_.size() > front && loads_[window_.back()] <= loads_[rank]) window_.pop_back();
        window_.push_back(rank);
        if (rank + 1 < size) continue;
        const uint32_t first = rank + 1 - size;
        if (window_[front] < first) ++front;
        const double start = loads_[window_[front]];
        if (is_found && start >= least) continue;
        is_found = true;
        least = start;
        group.first = first;
    }
    std::ranges::fill(loads_of(group), least + time(sample));
}

}  // namespace sab
