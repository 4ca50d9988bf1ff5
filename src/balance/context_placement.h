#pragma once
/// Samples of a step on groups of ranks: given how many ranks each has, where it goes.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace sab {

/// The samples of a step, and the groups that each may have. Groups are numbered by a *width*: with
/// powers of two a group of width w has 2^w ranks, otherwise w + 1.
struct ContextProblem {
    std::vector<double> costs{};        ///< of each sample on one rank
    std::vector<uint32_t> narrowest{};  ///< the least width whose ranks hold the sample
    /// the width where the sample takes the least time; a wider group is never better
    std::vector<uint32_t> widest{};
    std::vector<uint32_t> order{};  ///< samples, costliest first, then by index
    uint32_t ranks = 1;
    double overhead = 0;
    bool powers_of_two = true;

    uint32_t ranks_of(uint32_t width) const {
        return powers_of_two ? uint32_t{1} << width : width + 1;
    }
    /// The least width with at least so many ranks.
    uint32_t width_of(uint32_t needed) const;
    /// The widest group of all.
    uint32_t most_width() const;
    /// From the narrowest on, the first width that one more would not make faster.
    uint32_t fastest_width(uint32_t sample) const;
    double time(uint32_t sample, uint32_t width) const {
        const double on = ranks_of(width);
        return costs[sample] / on + overhead * (on - 1);
    }
    /// The least width that takes at most `limit`, or the widest.
    uint32_t least_width(uint32_t sample, double limit) const;
    /// No schedule ends earlier.
    double lower_bound() const;

private:
    bool may_end_by(double limit) const;
};

/// A group of ranks that follow each other.
struct ContextGroup {
    uint32_t first;
    uint32_t width;
};

/// A sample with each group. Samples begin in the order of `sequence`, each when all ranks of its
/// group have ended what they had before.
struct ContextSchedule {
    std::vector<ContextGroup> groups{};  ///< of each sample
    std::vector<uint32_t> sequence{};
    double makespan = 0;
};

/// Places samples, of which each has a width, in groups.
class Placement {
public:
    explicit Placement(const ContextProblem& problem) : problem_(problem) {}
    virtual ~Placement() = default;
    Placement(const Placement&) = delete;
    Placement& operator=(const Placement&) = delete;

    /// Widest first, and costliest first among those of one width.
    void place(std::span<const uint32_t> widths);
    /// When each rank ends.
    std::span<const double> loads() const { return loads_; }
    const ContextSchedule& schedule() const { return schedule_; }

protected:
    /// Fills the sequence.
    void sort(std::span<const uint32_t> widths);
    virtual void place_sequence() = 0;
    double time(uint32_t sample) const {
        return problem_.time(sample, schedule_.groups[sample].width);
    }
    std::span<double> loads_of(const ContextGroup& group) {
        return std::span(loads_).subspan(group.first, problem_.ranks_of(group.width));
    }

    const ContextProblem& problem_;
    ContextSchedule schedule_;
    std::vector<double> loads_;

private:
    std::vector<uint32_t> first_of_;  ///< in the sequence, by width
};

/// Groups of 2^w ranks that begin at multiples of 2^w. With the widest first no rank ever waits:
/// the load of a rank is the sum of its samples' times.
class AlignedPlacement : public Placement {
public:
    using Placement::Placement;
    /// Puts samples in groups that a search found.
    void take(const std::vector<ContextGroup>& groups);

protected:
    void place_sequence() override;

private:
    using Load = std::pair<double, uint32_t>;  ///< of a group, and its index in its width

    void split(uint32_t width);

    std::vector<Load> heap_;  ///< the least load first
};

/// Groups of any number of ranks, which begin anywhere.
class WindowPlacement : public Placement {
public:
    using Placement::Placement;

protected:
    void place_sequence() override;

private:
    void put(uint32_t sample);

    std::vector<uint32_t> window_;  ///< ranks of a window, by falling load
};

}  // namespace sab
