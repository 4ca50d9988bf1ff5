#include "ranks/even_steps.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/sorting.h"
#include "sampler/permutation.h"

namespace sab {
namespace {

// As in `even_order` (src/sampler), but a rank has only batches of its own. Of these so many are
// drawn in turn for each place ...
constexpr std::size_t draws = 16;
// ... until the squares of the distances from the dues, in sizes of the largest batch, add up to no
// more than this or than before.
constexpr double near = 0.25;
// If there is none, and a source is farther behind than this, so many batches that have most of it
// are compared, too.
constexpr double behind = 0.5;
constexpr std::size_t queued = 16;
// What a cost unlike that of the step weighs, beside the squares of the distances.
constexpr double cost_weight = 0.25;

class StepOrderer {
public:
    StepOrderer(const HeldSizes& held, std::size_t ranks, const EpochOptions& epoch_options)
        : held_(held),
          steps_(held.batches() / ranks),
          share_(held.sources()),
          given_(held.sources()),
          place_(held.batches()),
          ranks_(ranks) {
        double all = 0;
        for (const auto& [source, size] : held.all()) {
            share_[source] += size;
            all += size;
        }
        for (double& share : share_) {
            share = all > 0 ? share / all : 0;
            shares_squared_ += share * share;
        }
        for (std::size_t b = 0; b < held.batches(); ++b) {
            facts_.push_back(facts_of(b));
            unit_ = std::max(unit_, facts_[b].size);
        }
        for (std::size_t r = 0; r < ranks; ++r) begin(r, epoch_options);
    }

    std::vector<uint32_t> put_all() && {
        std::vector<uint32_t> made(held_.batches());
        for (std::size_t step = 0; step < steps_; ++step) {
            double cost = 0;
            for (std::size_t r = 0; r < ranks_.size(); ++r) {
                const uint32_t batch = take(ranks_[r], cost);
                cost = std::max(cost, r == 0 ? held_.cost(batch) : 0);
                made[r * steps_ + step] = batch;
            }
        }
        return made;
    }

private:
    static constexpr uint32_t taken = std::numeric_limits<uint32_t>::max();
    static constexpr double none = std::numeric_limits<double>::infinity();

    struct Facts {
        double size = 0;
        double shared = 0;        ///< the product of its amounts and the shares
        double squares = 0;       ///< sum of those of how far it leads away from the dues
        std::size_t richest = 0;  ///< source of which it has most, compared with its share
    };
    /// The batches of a rank that have most of one source.
    struct Queue {
        std::size_t source, next, end;  ///< in `by_source`; those before `next` are taken
    };
    struct OfRank {
        std::vector<uint32_t> rest{};  ///< batches that are left
        std::size_t next = 0;          ///< place of the one to be tried next
        std::vector<uint32_t> by_source{};
        std::vector<Queue> queues{};  ///< by source
    };
    struct Choice {
        double score;
        uint32_t batch;
    };

    Facts facts_of(std::size_t b) const {
        Facts of;
        for (const auto& [source, size] : held_.batch(b)) {
            of.size += size;
            of.shared += size * share_[source];
            of.squares += size * size;
        }
        of.squares += of.size * (of.size * shares_squared_ - 2 * of.shared);
        double most = -none;
        for (const auto& [source, size] : held_.batch(b)) {
            const double others = 1 - share_[source],
                         ahead = others > 0 ? (size - share_[source] * of.size) / others : 0;
            if (ahead > most) of.richest = source;
            most = std::max(most, ahead);
        }
        return of;
    }

    /// Shuffles the batches of a rank.
    void begin(std::size_t r, const EpochOptions& of) {
        OfRank& rank = ranks_[r];
        rank.rest.resize(steps_);
        Permutation(steps_, permutation_key(of.seed, of.epoch, Purpose::steps, r))
            .fill(0, rank.rest);
        for (uint32_t i = 0; i < steps_; ++i) {
            rank.rest[i] += static_cast<uint32_t>(r * steps_);
            place_[rank.rest[i]] = i;
        }
        std::vector<double> sources(steps_);
        std::ranges::transform(rank.rest, sources.begin(), [&](uint32_t batch) {
            return static_cast<double>(facts_[batch].richest);
        });
        for (const uint32_t i : by_ascending(sources)) rank.by_source.push_back(rank.rest[i]);
        for (std::size_t i = 0; i < steps_; ++i) {
            const std::size_t source = facts_[rank.by_source[i]].richest;
            if (i == 0 || rank.queues.back().source != source)
                rank.queues.push_back({source, i, i});
            ++rank.queues.back().end;
        }
    }

    /// Takes one of the batches that a rank has left. `cost`: of the step; 0: none.
    uint32_t take(OfRank& rank, double cost) {
        Choice best{none, 0};
        const double enough = std::max(0.0, near * unit_ * unit_ - squares_);
        for (std::size_t tries = draws; tries > 0 && best.score > enough; --tries, ++rank.next) {
            if (rank.next >= rank.rest.size()) rank.next = 0;
            compare(rank.rest[rank.next], cost, best);
        }
        if (best.score > enough) compare_queued(rank, farthest_behind(), cost, best);
        const uint32_t batch = best.batch, place = place_[batch];
        rank.rest[place] = rank.rest.back();
        place_[rank.rest[place]] = place;
        rank.rest.pop_back();
        place_[batch] = taken;
        put(batch);
        return batch;
    }

    void put(uint32_t batch) {
        squares_ += change(batch);
        for (const auto& [source, size] : held_.batch(batch)) given_[source] += size;
        total_ += facts_[batch].size;
        given_shared_ += facts_[batch].shared;
    }

    /// By how much a batch changes the sum of the squares of the distances.
    double change(uint32_t batch) const {
        const Facts& of = facts_[batch];
        double ahead = 0;
        for (const auto& [source, size] : held_.batch(batch)) ahead += size * given_[source];
        ahead -= total_ * of.shared + of.size * (given_shared_ - total_ * shares_squared_);
        return of.squares + 2 * ahead;
    }

    void compare(uint32_t batch, double cost, Choice& best) const {
        double score = change(batch);
        if (const double own = held_.cost(batch); cost > 0) {
            const double unlike = 1 - std::min(cost, own) / std::max(cost, own);
            score += cost_weight * unit_ * unit_ * unlike * unlike;
        }
        if (score < best.score) best = {score, batch};
    }

    /// The source that is farthest behind its due, if that is far; else none.
    std::size_t farthest_behind() const {
        double least = -behind * unit_;
        std::size_t farthest = share_.size();
        for (std::size_t s = 0; s < share_.size(); ++s) {
            const double ahead = given_[s] - share_[s] * total_;
            if (ahead >= least) continue;
            least = ahead;
            farthest = s;
        }
        return farthest;
    }

    /// Compares batches that have most of a source. They move up behind those taken, each of which
    /// is passed only once.
    void compare_queued(OfRank& rank, std::size_t source, double cost, Choice& best) const {
        const auto queue = std::ranges::lower_bound(rank.queues, source, {}, &Queue::source);
        if (queue == rank.queues.end() || queue->source != source) return;
        std::array<uint32_t, queued> open;
        std::size_t count = 0, i = queue->next;
        for (; i < queue->end && count < queued; ++i) {
            const uint32_t batch = rank.by_source[i];
            if (place_[batch] == taken) continue;
            compare(batch, cost, best);
            open[count++] = batch;
        }
        queue->next = i - count;
        std::copy_n(open.begin(), count,
                    rank.by_source.begin() + static_cast<std::ptrdiff_t>(queue->next));
    }

    const HeldSizes& held_;
    const std::size_t steps_;
    std::vector<double> share_;  ///< of each source, of all sizes
    double shares_squared_ = 0;  ///< sum of their squares
    std::vector<Facts> facts_{};
    double unit_ = 0;  ///< size of the largest batch
    // of the batches so far:
    std::vector<double> given_;  ///< of each source
    double total_ = 0;           ///< of all sources
    double given_shared_ = 0;    ///< the product of given_ and share_
    double squares_ = 0;         ///< sum of those of the distances from the dues
    // of the others:
    std::vector<uint32_t> place_;  ///< of each batch in OfRank::rest, or `taken`
    std::vector<OfRank> ranks_;
};

}  // namespace

void HeldSizes::finish(double cost) {
    for (const uint16_t source : found_) {
        if (sums_[source] == 0) continue;  // found twice by samples of size 0
        parts_.push_back({source, sums_[source]});
        sums_[source] = 0;
    }
    found_.clear();
    ends_.push_back(parts_.size());
    costs_.push_back(cost);
}

std::vector<uint32_t> even_steps(const HeldSizes& held, std::size_t ranks,
                                 const EpochOptions& epoch_options) {
    return StepOrderer(held, ranks, epoch_options).put_all();
}

}  // namespace sab
