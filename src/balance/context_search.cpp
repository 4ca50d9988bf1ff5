#include "balance/context_search.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "balance/late_acceptance.h"
#include "base/progress.h"

namespace sab {
namespace {

constexpr double close_enough = 1.0001;  // of the lower bound
/// Samples get the fewest ranks on which they take at most this share of the lower bound.
constexpr std::array<double, 20> shares{2.2, 1.7, 1.4, 1.2,  1.1, 1.05, 1.02, 1.0,  0.8,  0.65,
                                        0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1,  0.06, 0.03, 0.0};
// What the searches may do, in ranks and samples looked at. All of them are searches of windows, of
// aligned groups, and of moves between those; the first is left out for powers of two.
constexpr uint64_t start_work = 200'000'000, width_work = 800'000, group_work = 600'000,
                   all_work = 2 * width_work + group_work;
constexpr std::size_t width_memory = 50, group_memory = 500;

/// Uneven loads are worse than even ones of the same sum.
double unevenness(double load) {
    load *= load;
    load *= load;
    return load * load;
}

/// SearchWork of placing all samples once.
uint64_t placing_work(const ContextProblem& problem) {
    const uint64_t samples = problem.costs.size(), ranks = problem.ranks;
    return problem.powers_of_two ? 12 * samples + ranks : samples * ranks + 2 * ranks;
}

/// Searches schedules. Keeps the best.
class ContextSearch {
public:
    ContextSearch(const ContextProblem& problem, double bound) : problem_(problem), bound_(bound) {}

    void start(Placement& placement) {
        placement.place(problem_.narrowest);  // longest first
        keep(placement.schedule());
        std::vector<uint32_t> widths(problem_.costs.size());
        uint64_t work = 0;
        for (const double share : shares) {
            if (is_close() || work > start_work) return;
            work += placing_work(problem_);
            report_progress(work_before(), all_work);
            for (uint32_t sample = 0; sample < widths.size(); ++sample)
                widths[sample] = problem_.least_width(sample, share * bound_);
            placement.place(widths);
            keep(placement.schedule());
        }
    }

    /// Changes the widths of one or two samples, and places all again.
    void change_widths(Placement& placement) {
        const std::size_t count = problem_.costs.size();
        std::vector<uint32_t> widths(count);
        std::ranges::transform(best_.groups, widths.begin(), &ContextGroup::width);
        placement.place(widths);
        LateAcceptance search(width_memory, value(placement.loads()));
        for (SearchWork work(width_work, work_before(), all_work); work.is_left() && !is_close();) {
            const uint32_t one = draws_.below(count), other = draws_.below(count);
            const uint32_t width = widths[one], other_width = widths[other];
            widths[one] = near(one, width);
            if (draws_.below(2) == 0 && other != one) widths[other] = near(other, other_width);
            work.add(8);
            if (widths[one] == width && widths[other] == other_width) continue;
            placement.place(widths);
            work.add(placing_work(problem_));
            if (search.accepts(value(placement.loads()))) {
                keep(placement.schedule());
            } else {
                widths[one] = width;
                widths[other] = other_width;
            }
        }
    }

    void keep(const ContextSchedule& schedule) {
        if (best_.groups.empty() || schedule.makespan < best_.makespan) best_ = schedule;
    }
    bool is_close() const { return best_.makespan <= close_enough * bound_; }
    ContextSchedule& best() { return best_; }

private:
    double value(std::span<const double> loads) const {
        double sum = 0;
        for (const double load : loads) sum += unevenness(load / bound_);
        return sum;
    }
    uint64_t work_before() const { return problem_.powers_of_two ? width_work : 0; }
    uint32_t near(uint32_t sample, uint32_t width) {
        const uint32_t step = problem_.powers_of_two ? 1 : 1 + draws_.below(1 + width / 4);
        if (draws_.below(2) == 0) return std::min(width + step, problem_.widest[sample]);
        return std::max(width, problem_.narrowest[sample] + step) - step;
    }

    const ContextProblem& problem_;
    double bound_;
    SearchDraws draws_;
    ContextSchedule best_;
};

/// Moves samples of aligned groups, mostly those of the fullest rank: to another group, to a wider
/// or narrower one, or in exchange for another sample.
class GroupSearch {
public:
    GroupSearch(const ContextProblem& problem, double bound, const ContextSchedule& start)
        : problem_(problem),
          scale_(1 / bound),
          groups_(start.groups),
          loads_(problem.ranks, 0),
          best_(start.groups) {
        for (uint32_t sample = 0; sample < groups_.size(); ++sample)
            add(sample, groups_[sample], 1);
        value_ = 0;
        for (const double load : loads_) value_ += unevenness(load * scale_);
        find_fullest();
        least_ = loads_[fullest_];
    }

    const std::vector<ContextGroup>& run(double enough) {
        LateAcceptance search(group_memory, value_);
        for (SearchWork work(group_work, 2 * width_work, all_work);
             work.is_left() && least_ > enough;) {
            touched_ = 32;
            if (const Move move = draw(); move.is_made) {
                before_ = loads_;
                const double value = value_;
                apply(move);
                if (search.accepts(value_)) {
                    find_fullest();
                    if (loads_[fullest_] < least_) {
                        least_ = loads_[fullest_];
                        best_ = groups_;
                        touched_ += groups_.size();
                    }
                } else {
                    groups_[move.sample] = move.before;
                    groups_[move.other] = move.other_before;
                    loads_.swap(before_);
                    value_ = value;
                }
            }
            work.add(touched_);
        }
        return best_;
    }

private:
    struct Move {
        uint32_t sample = 0, other = 0;  ///< the same for a move of one
        ContextGroup before{}, other_before{};
        ContextGroup to{}, other_to{};
        bool is_made = false;
    };

    bool is_in(const ContextGroup& group, uint32_t rank) const {
        return rank >> group.width == group.first >> group.width;
    }
    bool fits(const ContextGroup& group) const {
        return group.first + (1U << group.width) <= problem_.ranks;
    }
    ContextGroup random_group(uint32_t width) {
        return {draws_.below(problem_.ranks >> width) << width, width};
    }

    Move draw() {
        const std::size_t count = groups_.size();
        Move move;
        move.sample = draws_.below(count);
        if (draws_.below(4) != 0)
            for (std::size_t tries = 0; tries < count && !is_in(groups_[move.sample], fullest_);
                 ++tries, ++touched_)
                move.sample = move.sample + 1 == count ? 0 : move.sample + 1;
        move.other = move.sample;
        move.before = move.other_before = groups_[move.sample];
        const uint32_t kind = draws_.below(4);
        if (kind < 2) {
            exchange(move, draws_.below(count));
        } else if (kind == 2) {
            move.to = random_group(move.before.width);
            move.is_made = move.to.first != move.before.first;
        } else {
            resize(move);
        }
        return move;
    }

    /// Each goes where the other is. The narrower one goes to any part of the wider one's group.
    void exchange(Move& move, uint32_t other) {
        move.other = other;
        move.other_before = groups_[other];
        const ContextGroup a = move.before, b = move.other_before;
        const bool a_is_wider = a.width >= b.width;
        const ContextGroup wide = a_is_wider ? a : b, narrow = a_is_wider ? b : a;
        const ContextGroup wide_to{narrow.first >> wide.width << wide.width, wide.width};
        const uint32_t parts = 1U << (wide.width - narrow.width);
        const ContextGroup narrow_to{wide.first + (draws_.below(parts) << narrow.width),
                                     narrow.width};
        move.to = a_is_wider ? wide_to : narrow_to;
        move.other_to = a_is_wider ? narrow_to : wide_to;
        move.is_made = other != move.sample && wide_to.first != wide.first && fits(wide_to);
    }

    void resize(Move& move) {
        const bool is_wider = draws_.below(2) == 0;
        const uint32_t width = move.before.width;
        if (width == (is_wider ? problem_.widest : problem_.narrowest)[move.sample]) return;
        const uint32_t wanted = is_wider ? width + 1 : width - 1;
        if (draws_.below(2) == 0) {
            move.to = random_group(wanted);
        } else if (is_wider) {
            move.to = {move.before.first >> wanted << wanted, wanted};
        } else {
            move.to = {move.before.first + (draws_.below(2) << wanted), wanted};
        }
        move.is_made = fits(move.to);
    }

    void apply(const Move& move) {
        change(move.sample, move.before, move.to);
        if (move.other != move.sample) change(move.other, move.other_before, move.other_to);
    }
    void change(uint32_t sample, const ContextGroup& from, const ContextGroup& to) {
        value_ -= value_of(from);
        add(sample, from, -1);
        value_ += value_of(from);
        value_ -= value_of(to);
        add(sample, to, 1);
        value_ += value_of(to);
        groups_[sample] = to;
    }
    double value_of(const ContextGroup& group) const {
        double sum = 0;
        for (const double load : std::span(loads_).subspan(group.first, 1U << group.width))
            sum += unevenness(load * scale_);
        return sum;
    }
    void add(uint32_t sample, const ContextGroup& group, double sign) {
        const double added = sign * problem_.time(sample, group.width);
        for (double& load : std::span(loads_).subspan(group.first, 1U << group.width))
            load += added;
        touched_ += uint64_t{1} << group.width;
    }
    void find_fullest() {
        fullest_ = static_cast<uint32_t>(std::ranges::max_element(loads_) - loads_.begin());
        touched_ += loads_.size() / 4;
    }

    const ContextProblem& problem_;
    double scale_;
    std::vector<ContextGroup> groups_;
    std::vector<double> loads_, before_;
    std::vector<ContextGroup> best_;
    double value_ = 0, least_ = 0;
    uint32_t fullest_ = 0;
    uint64_t touched_ = 0;
    SearchDraws draws_;
};

}  // namespace

ContextSchedule find_context_schedule(const ContextProblem& problem, double lower_bound) {
    ContextSearch search(problem, lower_bound);
    if (!problem.powers_of_two) {
        WindowPlacement windows(problem);
        search.start(windows);
        search.change_widths(windows);
        return std::move(search.best());
    }
    AlignedPlacement aligned(problem);
    search.start(aligned);
    search.change_widths(aligned);
    if (!search.is_close()) {
        aligned.take(
            GroupSearch(problem, lower_bound, search.best()).run(close_enough * lower_bound));
        search.keep(aligned.schedule());
    }
    return std::move(search.best());
}

}  // namespace sab
