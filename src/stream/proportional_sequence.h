#pragma once
/// Which source is next when several are mixed by proportions.

#include <cstdint>
#include <span>
#include <vector>

#include "stream/state.h"

namespace sab {

/// A sequence of sources in which each has taken, after any number of turns, its proportion of them
/// to less than one: R. Tijdeman, "The chairman assignment problem" (1980). With n sources the
/// difference is at most 1 - 1 / (2n - 2).
///
/// Whole numbers of small parts of a turn, so that nothing is lost over a long stream. A window is
/// a whole number of parts, so that shares that are whole in a window are whole here, too. The sums
/// stay below 2^63: there are at most 2^40 parts and 2^10 sources.
class ProportionalSequence {
public:
    static constexpr std::size_t most_sources = 1024;

    /// The proportions outlive this.
    ProportionalSequence(std::span<const double> proportions, uint64_t window);

    bool is_over() const { return source_count_ == 0; }
    /// The source whose turn it is. Not if it is over.
    std::size_t next() const;
    void take(std::size_t source) noexcept;
    /// Leaves a source out from now on. The others begin again, by their proportions.
    void drop(std::size_t source) noexcept;
    /// With all sources, from the beginning.
    void restart() noexcept;

    void save(StateWriter& state) const;
    void restore(StateReader& state);

private:
    struct Source {
        int64_t share;  ///< of `whole_` parts; 0: has no turns
        int64_t lag;    ///< parts that are due less those taken; the sum of all is 0
    };
    void share_out() noexcept;
    double exact_share(std::size_t source) const {
        return proportions_[source] / sum_ * static_cast<double>(whole_);
    }

    std::span<const double> proportions_;
    int64_t whole_;  ///< parts of a turn
    std::vector<Source> sources_;
    std::size_t source_count_ = 0;  ///< that have turns
    double sum_ = 0;                ///< of their proportions
};

}  // namespace sab
