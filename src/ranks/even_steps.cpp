#include "ranks/even_steps.h"

#include <algorithm>

#include "base/sorting.h"
#include "sampler/permutation.h"

namespace sab {
namespace {

// As in `even_order` (src/sampler), but a rank has only batches of its own, which may all lead away
// from the dues. Only if a source is farther behind than this, in sizes of the largest batch, some
// batches that have most of it are compared, too: half of what it may be.
constexpr double behind = 0.5;

class StepOrderer {
public:
    StepOrderer(const SourceAmounts& amounts, std::span<const double> costs, std::size_t ranks,
                const EpochOptions& epoch_options)
        : costs_(costs),
          steps_(amounts.batches() / ranks),
          dues_(amounts, costs),
          place_(amounts.batches()),
          ranks_(ranks) {
        for (std::size_t r = 0; r < ranks; ++r) begin(r, epoch_options);
    }

    std::vector<uint32_t> put_all() && {
        std::vector<uint32_t> made(place_.size());
        for (std::size_t step = 0; step < steps_; ++step) {
            double cost = 0;
            for (std::size_t r = 0; r < ranks_.size(); ++r) {
                const uint32_t batch = take(ranks_[r], cost);
                cost = std::max(cost, r == 0 ? costs_[batch] : 0);
                made[r * steps_ + step] = batch;
            }
        }
        return made;
    }

private:
    /// The batches of a rank that have most of one source.
    struct Queue {
        std::size_t source;
        std::vector<uint32_t> batches{};
        std::size_t next = 0;  ///< those before it are taken
    };
    struct OfRank {
        std::vector<uint32_t> rest{};  ///< batches that are left
        std::size_t next = 0;          ///< place of the one to be tried next
        std::vector<Queue> queues{};   ///< by source
    };

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
            return static_cast<double>(dues_.richest(batch));
        });
        for (const uint32_t i : by_ascending(sources)) {
            const auto source = static_cast<std::size_t>(sources[i]);
            if (rank.queues.empty() || rank.queues.back().source != source)
                rank.queues.push_back({source});
            rank.queues.back().batches.push_back(rank.rest[i]);
        }
    }

    /// Takes one of the batches that a rank has left. `cost`: of the step; 0: none.
    uint32_t take(OfRank& rank, double cost) {
        const double unit = dues_.largest(),
                     enough = std::max(0.0, SourceDues::near * unit * unit - dues_.squares());
        SourceDues::Candidate best;
        for (std::size_t tries = SourceDues::compared; tries > 0 && best.score > enough;
             --tries, ++rank.next) {
            if (rank.next >= rank.rest.size()) rank.next = 0;
            dues_.compare(rank.rest[rank.next], cost, unit, best);
        }
        if (best.score > enough) {
            const std::size_t source = farthest_behind();
            const auto queue = std::ranges::lower_bound(rank.queues, source, {}, &Queue::source);
            if (queue != rank.queues.end() && queue->source == source)
                dues_.compare_queued(queue->batches, queue->next, cost, unit, best);
        }
        const uint32_t place = place_[best.batch];
        rank.rest[place] = rank.rest.back();
        place_[rank.rest[place]] = place;
        rank.rest.pop_back();
        dues_.give(best.batch);
        return best.batch;
    }

    /// The source that is farthest behind its due, if that is far; else none.
    std::size_t farthest_behind() const {
        double least = -behind * dues_.largest();
        std::size_t farthest = dues_.sources();
        for (std::size_t s = 0; s < dues_.sources(); ++s) {
            if (dues_.ahead(s) >= least) continue;
            least = dues_.ahead(s);
            farthest = s;
        }
        return farthest;
    }

    std::span<const double> costs_;
    const std::size_t steps_;
    SourceDues dues_;
    std::vector<uint32_t> place_;  ///< of each batch in OfRank::rest, if it is there
    std::vector<OfRank> ranks_;
};

}  // namespace

std::vector<uint32_t> even_steps(const SourceAmounts& amounts, std::span<const double> costs,
                                 std::size_t ranks, const EpochOptions& epoch_options) {
    return StepOrderer(amounts, costs, ranks, epoch_options).put_all();
}

}  // namespace sab
