#include "balance/unit_order.h"

#include <algorithm>
#include <limits>
#include <queue>

#include "base/sorting.h"
#include "sampler/copies.h"

namespace sab {
namespace {

constexpr double band_width = 0.99;     // sizes in a band, to the largest
constexpr uint64_t ahead_count = 1024;  // units permuted at once
constexpr std::size_t compared = 64;    // cohorts, to take one

/// Puts the units of a mixture in order. A unit may come when its source is not ahead of its due;
/// the one comes whose source would be behind first. If all units are samples, a source is never
/// farther from its due than the size of the largest one: Bennett and Zhang (1996), "WF2Q".
/// Cohorts take turns with the sources as if they were one more source, and the other samples make
/// up for them.
class EvenUnits {
public:
    EvenUnits(const UnitOrder& order, const WeighedSamples& samples, uint64_t kept,
              const EpochChoice& choice)
        : order_(order),
          samples_(samples),
          choice_(choice),
          cohorts_(static_cast<uint32_t>(choice.sources())),
          all_(cohorts_ + 1u),
          has_size_(cohorts_ + 1u),
          given_(cohorts_ + 1u),
          coming_(cohorts_ + 1u) {
        std::vector<uint32_t> counts(cohorts_);
        for (uint32_t offset = 0; offset < kept; ++offset) {
            all_[source(offset)] += size(offset);
            ++counts[source(offset)];
        }
        for (uint32_t s = 0; s < cohorts_; ++s) {
            has_size_[s] = all_[s] > 0;
            all_sizes_ += all_[s];
            if (!has_size_[s]) all_[s] = counts[s];
        }
        all_[cohorts_] = static_cast<double>(order.cohorts());
    }

    /// `units`: in random order.
    std::vector<uint32_t> ordered(std::span<const uint32_t> units) {
        queue(units);
        std::vector<uint32_t> made;
        made.reserve(units.size());
        for (uint32_t s = 0; s <= cohorts_; ++s) wait(s);
        while (!early_.empty() || !due_.empty()) {
            const uint32_t source = next_source();
            if (source == cohorts_) choose_cohort();
            made.push_back(queued_[next_[source]++]);
            given_[source] += coming_[source];
            if (source == cohorts_) {
                add_cohort(made.back(), given_);
                total_ = sum_of_sizes(given_);
            } else if (has_size_[source]) {
                total_ += coming_[source];
            }
            wait(source);
        }
        return made;
    }

private:
    /// A source, and what must be given of all before its next unit may come, or has to: as a
    /// share.
    struct Turn {
        double at;
        uint32_t source;
        bool operator<(const Turn& other) const {  // the largest is served first
            return at != other.at ? at > other.at : source > other.source;
        }
    };
    using TurnQueue = std::priority_queue<Turn>;

    static Turn pop(TurnQueue& turns) {
        const Turn turn = turns.top();
        turns.pop();
        return turn;
    }

    /// Of the sources whose next unit may come the one whose unit has to come first.
    uint32_t next_source() {
        while (true) {
            // If rounding leaves none, the first one may come.
            while (!early_.empty() && (due_.empty() || early_.top().at <= total_ / all_sizes_)) {
                const Turn turn = pop(early_);
                // Cohorts may have given of the source since it began to wait.
                if (const double now = begin(turn.source); now > turn.at)
                    early_.push({now, turn.source});
                else
                    due_.push({end(turn.source), turn.source});
            }
            const Turn turn = pop(due_);
            if (end(turn.source) <= turn.at) return turn.source;
            early_.push({begin(turn.source), turn.source});
        }
    }

    uint16_t source(uint32_t offset) const { return choice_.source_of()[samples_.order[offset]]; }
    double size(uint32_t offset) const { return choice_.size_of(samples_.order[offset]); }
    /// Samples of a source that has no sizes are counted.
    double amount(uint32_t offset) const { return has_size_[source(offset)] ? size(offset) : 1; }

    /// Adds what a cohort has of each source.
    void add_cohort(uint32_t cohort, std::vector<double>& sums) const {
        for (uint64_t i = 0; i < order_.samples_of(cohort); ++i) {
            const uint32_t offset = order_.offset(cohort, i);
            sums[source(offset)] += amount(offset);
        }
    }

    double sum_of_sizes(const std::vector<double>& sums) const {
        double sum = 0;
        for (uint32_t s = 0; s < cohorts_; ++s) sum += has_size_[s] ? sums[s] : 0;
        return sum;
    }

    /// Of the next cohorts the one after which the sources are nearest to their dues comes first.
    void choose_cohort() {
        std::span<uint32_t> waiting = std::span(queued_).subspan(next_[cohorts_]);
        waiting = waiting.first(std::min(waiting.size(), compared));
        double least = std::numeric_limits<double>::infinity();
        for (uint32_t& cohort : waiting) {
            std::vector<double> given = given_;
            add_cohort(cohort, given);
            const double total = sum_of_sizes(given);
            double squares = 0;
            for (uint32_t s = 0; s < cohorts_; ++s) {
                const double ahead = has_size_[s] ? given[s] - all_[s] / all_sizes_ * total : 0;
                squares += ahead * ahead;
            }
            if (squares >= least) continue;
            least = squares;
            std::swap(cohort, waiting.front());
        }
    }

    uint32_t queue_of(uint32_t unit) const {
        return unit < order_.cohorts() ? cohorts_ : source(order_.offset(unit, 0));
    }

    /// Queues units by source, without changing their order.
    void queue(std::span<const uint32_t> units) {
        queued_.resize(units.size());
        group_items(
            units.size(), cohorts_ + 1u, next_, [&](std::size_t i) { return queue_of(units[i]); },
            [&](std::size_t i, std::size_t at) { queued_[at] = units[i]; });
        ends_.assign(next_.begin() + 1, next_.end());
    }

    /// The share of a source that is given when its next unit may come, and when it has to. A
    /// cohort comes when half of it is due, since it leads far away.
    double begin(uint32_t s) const {
        return (given_[s] + (s == cohorts_ ? coming_[s] / 2 : 0)) / all_[s];
    }
    double end(uint32_t s) const {
        return (given_[s] + (s == cohorts_ ? coming_[s] / 2 : coming_[s])) / all_[s];
    }

    void wait(uint32_t s) {
        if (next_[s] == ends_[s]) return;
        coming_[s] = s == cohorts_ ? 1 : amount(order_.offset(queued_[next_[s]], 0));
        early_.push({begin(s), s});
    }

    const UnitOrder& order_;
    const WeighedSamples& samples_;
    const EpochChoice& choice_;
    const uint32_t cohorts_;                ///< stands for a source, in the arrays below
    std::vector<double> all_;               ///< of each source, in the epoch
    double all_sizes_ = 0;                  ///< of all sources that have sizes
    std::vector<uint8_t> has_size_;         ///< of each source, whether any of its samples has
    std::vector<double> given_;             ///< of each source, so far
    double total_ = 0;                      ///< of the sources that have sizes
    std::vector<double> coming_;            ///< of each source, in its next unit
    std::vector<uint32_t> queued_;          ///< units by source
    std::vector<std::size_t> next_, ends_;  ///< of each source, in queued_
    TurnQueue early_;                       ///< of sources whose next unit may not come yet
    TurnQueue due_;                         ///< of the others
};

}  // namespace

UnitOrder::UnitOrder(std::shared_ptr<const WeighedSamples> samples, const UnitCounts& counts,
                     uint64_t seed, uint64_t epoch, const EpochChoice* choice)
    : samples_(std::move(samples)), counts_(counts) {
    const auto key = [&](Purpose purpose, uint64_t which) {
        return permutation_key(seed, epoch, purpose, which);
    };
    for (uint64_t begin = 0; begin < counts.heavy;) {
        // By size, not by cost: whoever goes on with another cost must find the same order.
        const double least =
            band_width * samples_->extents[samples_->distinct_of[counts.kept - 1 - begin]];
        const auto first =
            std::ranges::lower_bound(samples_->extents, least) - samples_->extents.begin();
        const uint64_t end = std::min<uint64_t>(
            counts.heavy, counts.kept - samples_->first_offsets[static_cast<std::size_t>(first)]);
        bands_.push_back({end, Permutation(end - begin, key(Purpose::cohorts, bands_.size()))});
        begin = end;
    }
    const bool is_first = counts.redraws == most_redraws;
    units_ = Permutation(
        cohorts() + (counts.kept - counts.heavy),
        permutation_key(seed, is_first ? 0 : epoch, Purpose::units, is_first ? 0 : counts.redraws));
    if (choice == nullptr) return;
    std::vector<uint32_t> permuted(units());
    units_.fill(0, permuted);
    // Those of a cohort go to micro-batches of their own in any case.
    const auto sample = [&](uint32_t unit) { return samples_->order[offset(unit, 0)]; };
    spread_copies(permuted, first_copies(units(), sample, static_cast<uint32_t>(cohorts())));
    laid_out_ = std::make_shared<const std::vector<uint32_t>>(
        EvenUnits(*this, *samples_, counts.kept, *choice).ordered(permuted));
}

uint32_t UnitOrder::at(uint64_t place) {
    if (laid_out_) return (*laid_out_)[place];
    if (place - ahead_first_ >= ahead_.size()) {
        const uint64_t first = place - place % ahead_count;
        ahead_.resize(std::min(ahead_count, units() - first));
        ahead_first_ = first;
        units_.fill(ahead_first_, ahead_);
    }
    return ahead_[place - ahead_first_];
}

uint32_t UnitOrder::offset(uint32_t unit, uint64_t i) const {
    if (unit >= cohorts()) return static_cast<uint32_t>(unit - cohorts());
    const uint64_t from_longest = unit * counts_.cohort + i;
    const auto band = std::ranges::upper_bound(bands_, from_longest, {}, &Band::end);
    const uint64_t first = band->end - band->offsets.count();
    return static_cast<uint32_t>(counts_.kept - 1 - (first + band->offsets(from_longest - first)));
}

}  // namespace sab
