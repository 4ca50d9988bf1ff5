#include "sampler/even_order.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sab {
namespace {

// A batch may bring a source as far above its due, in sizes of the largest batch. Less than 1
// leaves room for the sources that the batch has less of.
constexpr double most_ahead = 0.85;
constexpr std::size_t choices = 4;        // batches of a queue that are compared
constexpr std::size_t last_choices = 64;  // where none of those stays below most_ahead

/// Puts batches in order, one after the other.
class Orderer {
public:
    Orderer(const SourceAmounts& amounts, std::size_t sources, std::span<const double> costs,
            double largest)
        : amounts_(amounts), costs_(costs), share_(sources), given_(sources), queues_(sources) {
        double all = 0;
        size_.resize(amounts.batches());
        for (std::size_t b = 0; b < size_.size(); ++b) {
            for (std::size_t i = amounts.begin(b); i < amounts.ends[b]; ++i) {
                share_[amounts.source[i]] += amounts.amount[i];
                size_[b] += amounts.amount[i];
            }
            all += size_[b];
            unit_ = std::max(unit_, size_[b]);
        }
        for (double& share : share_) share = all > 0 ? share / all : 0;
        if (largest > 0) unit_ = largest;
        if (unit_ == 0) unit_ = 1;
        deadline_.resize(sources);
        for (std::size_t s = 0; s < sources; ++s) set_deadline(s);
        made_.deviation.resize(sources);
        made_.batches.reserve(size_.size());
    }

    /// Queues the batch under the source that it has most of, compared with the source's share.
    void enqueue(uint32_t batch) {
        std::size_t richest = 0;
        double most = -std::numeric_limits<double>::infinity();
        for (std::size_t i = amounts_.begin(batch); i < amounts_.ends[batch]; ++i) {
            const std::size_t source = amounts_.source[i];
            const double share = share_[source],
                         ahead = share < 1 && size_[batch] > 0
                                     ? (amounts_.amount[i] / size_[batch] - share) / (1 - share)
                                     : 0;
            if (ahead <= most) continue;
            most = ahead;
            richest = source;
        }
        queues_[richest].batches.push_back(batch);
        set_deadline(richest);
    }

    void put(uint32_t batch) {
        made_.batches.push_back(batch);
        const double total = total_ + size_[batch];
        for (std::size_t i = amounts_.begin(batch); i < amounts_.ends[batch]; ++i) {
            // A source falls behind until a batch has some of it.
            const std::size_t s = amounts_.source[i];
            const double before = share_[s] * total_ - given_[s];
            given_[s] += amounts_.amount[i];
            const double off = std::max(before, std::abs(given_[s] - share_[s] * total));
            made_.deviation[s] = std::max(made_.deviation[s], off / unit_);
            set_deadline(s);
        }
        total_ = total;
    }

    /// Puts the next batch of the source that must be served first. `cost`: of the step; 0: none.
    void put_next(double cost) {
        for (const std::size_t most : {choices, last_choices}) {
            untried_ = deadline_;
            for (std::size_t s = most_urgent(), tries = most_tries();
                 untried_[s] < none && tries > 0; s = most_urgent(), --tries) {
                untried_[s] = none;
                const Choice choice = best_of(queues_[s], most, cost);
                if (choice.ahead <= most_ahead) return take(queues_[s], choice.place);
            }
        }
        // Every batch brings a source too far: the one that brings it least.
        Choice least{std::numeric_limits<double>::infinity(), 0, 0};
        Queue* from = nullptr;
        untried_ = deadline_;
        for (std::size_t s = most_urgent(), tries = most_tries(); untried_[s] < none && tries > 0;
             s = most_urgent(), --tries) {
            untried_[s] = none;
            const Choice choice = best_of(queues_[s], choices, cost);
            if (from != nullptr && choice.ahead >= least.ahead) continue;
            least = choice;
            from = &queues_[s];
        }
        take(*from, least.place);
    }

    double cost_of_last() const { return costs_[made_.batches.back()]; }
    EvenOrder made() && { return std::move(made_); }

private:
    static constexpr double none = std::numeric_limits<double>::infinity();

    struct Queue {
        std::vector<uint32_t> batches;
        std::size_t next = 0;
        bool is_empty() const { return next == batches.size(); }
    };
    struct Choice {
        double ahead;  ///< of the source that is farthest above its due, in units
        double score;
        std::size_t place;  ///< in the queue
    };

    /// How many sources are tried: all, unless there are so many that it would take long.
    std::size_t most_tries() const { return queues_.size() <= 64 ? queues_.size() : 16; }

    /// The source with the earliest deadline among those that are not tried.
    std::size_t most_urgent() const {
        return static_cast<std::size_t>(std::ranges::min_element(untried_) - untried_.begin());
    }

    /// The total at which the due would leave the source behind; none without batches.
    void set_deadline(std::size_t s) {
        deadline_[s] = queues_[s].is_empty() ? none
                       : share_[s] > 0       ? (given_[s] + most_ahead * unit_) / share_[s]
                                             : 0;
    }

    /// Of the next batches of a queue that bring no source too far the one after which the sources
    /// are nearest to their dues and the costs of the step most alike; else the one that brings a
    /// source least far.
    Choice best_of(const Queue& queue, std::size_t most, double cost) const {
        Choice best{std::numeric_limits<double>::infinity(),
                    std::numeric_limits<double>::infinity(), queue.next};
        const std::size_t end = std::min(queue.next + most, queue.batches.size());
        for (std::size_t place = queue.next; place < end; ++place) {
            const Choice choice = rated(queue.batches[place], place, cost);
            const bool fits = choice.ahead <= most_ahead, best_fits = best.ahead <= most_ahead;
            if (fits != best_fits ? fits
                                  : (fits ? choice.score < best.score : choice.ahead < best.ahead))
                best = choice;
        }
        return best;
    }

    /// Sources that the batch has nothing of only fall back, by less than their share of it.
    Choice rated(uint32_t batch, std::size_t place, double cost) const {
        Choice choice{0, 0, place};
        const double total = total_ + size_[batch];
        for (std::size_t i = amounts_.begin(batch); i < amounts_.ends[batch]; ++i) {
            const std::size_t s = amounts_.source[i];
            const double due = share_[s] * total, before = (given_[s] - due) / unit_,
                         after = before + amounts_.amount[i] / unit_;
            choice.ahead = std::max(choice.ahead, after);
            choice.score += after * after - before * before;
        }
        if (cost > 0) {
            const double unlike = costs_[batch] / cost - 1;
            choice.score += unlike * unlike;
        }
        return choice;
    }

    void take(Queue& queue, std::size_t place) {
        std::swap(queue.batches[queue.next], queue.batches[place]);
        put(queue.batches[queue.next++]);
        if (queue.is_empty()) set_deadline(static_cast<std::size_t>(&queue - queues_.data()));
    }

    const SourceAmounts& amounts_;
    std::span<const double> costs_;
    std::vector<double> size_;      ///< of each batch
    std::vector<double> share_;     ///< of each source, of all sizes
    std::vector<double> given_;     ///< of each source, in the batches so far
    std::vector<double> deadline_;  ///< of each source
    double total_ = 0;              ///< of the batches so far
    double unit_ = 0;               ///< size of the largest batch
    std::vector<Queue> queues_;     ///< by source
    std::vector<double> untried_;   ///< the deadlines of sources that are not tried yet
    EvenOrder made_;
};

}  // namespace

EvenOrder even_order(const SourceAmounts& amounts, std::size_t sources,
                     std::span<const double> costs, uint64_t step_batches, uint64_t fixed,
                     double largest) {
    Orderer orderer(amounts, sources, costs, largest);
    const auto count = static_cast<uint32_t>(amounts.batches());
    fixed = std::min<uint64_t>(fixed, count);
    for (uint32_t batch = 0; batch < fixed; ++batch) orderer.put(batch);
    for (auto batch = static_cast<uint32_t>(fixed); batch < count; ++batch) orderer.enqueue(batch);
    double cost = 0;
    for (uint64_t position = fixed; position < count; ++position) {
        orderer.put_next(position % step_batches == 0 ? 0 : cost);
        if (position % step_batches == 0) cost = orderer.cost_of_last();
    }
    return std::move(orderer).made();
}

EvenOrder even_epoch(const SourceAmounts& amounts, std::size_t sources,
                     std::span<const double> costs, std::span<const uint64_t> samples,
                     const EpochOptions& epoch_options, double largest) {
    const uint64_t count = amounts.batches(), world = epoch_options.step_batches,
                   first = std::min(epoch_options.costliest_first, count),
                   fixed = std::min(count, (first + world - 1) / world * world);
    EvenOrder order = even_order(amounts, sources, costs, world, fixed, largest);
    const auto last = order.batches.end() - static_cast<std::ptrdiff_t>(count % world);
    uint64_t left = 0;
    bool is_changed = false;
    for (auto each = last; each != order.batches.end(); ++each) left += samples[*each];
    for (auto each = last; each != order.batches.end() && left < world; ++each) {
        // The last of the batches with most samples: those before it stay where they are.
        auto most = last;
        for (auto batch = order.batches.begin() +
                          static_cast<std::ptrdiff_t>(std::min(fixed, count - count % world));
             batch != last; ++batch)
            if (most == last || samples[*batch] >= samples[*most]) most = batch;
        if (most == last || samples[*most] <= samples[*each]) break;
        left += samples[*most] - samples[*each];
        std::swap(*most, *each);
        is_changed = true;
    }
    if (!is_changed) return order;
    Orderer again(amounts, sources, costs, largest);
    for (const uint32_t batch : order.batches) again.put(batch);
    return std::move(again).made();
}

}  // namespace sab
