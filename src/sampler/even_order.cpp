#include "sampler/even_order.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>

namespace sab {
namespace {

// Of the batches that are left, so many are tried in turn for each place of the order ...
constexpr std::size_t draws = 16;
// ... until there is one after which the squares of the distances from the dues, in sizes of the
// largest batch, add up to no more than this or than before. Else the best of them is taken.
constexpr double near = 0.25;
// Before a source falls so far behind its due, a batch is taken that has most of it ...
constexpr double most_behind = 0.85;
// ... the best of so many.
constexpr std::size_t queued = 16;
// What a cost unlike that of the step weighs, beside the squares of the distances.
constexpr double cost_weight = 0.25;

/// Puts batches in order, one after the other.
class Orderer {
public:
    Orderer(const SourceAmounts& amounts, std::size_t sources, std::span<const double> costs)
        : amounts_(amounts), costs_(costs), share_(sources), given_(sources) {
        const std::size_t count = amounts.batches();
        facts_.resize(count);
        double all = 0;
        for (std::size_t b = 0; b < count; ++b) {
            Facts& of = facts_[b];
            for (std::size_t i = amounts.begin(b); i < amounts.ends[b]; ++i) {
                const double amount = amounts.amount[i];
                share_[amounts.source[i]] += amount;
                of.size += amount;
                of.squares += amount * amount;
            }
            all += of.size;
            unit_ = std::max(unit_, of.size);
        }
        for (double& share : share_) {
            share = all > 0 ? share / all : 0;
            shares_squared_ += share * share;
            others_.push_back(share < 1 ? 1 / (1 - share) : 0);
        }
        for (std::size_t b = 0; b < count; ++b) {
            Facts& of = facts_[b];
            for (std::size_t i = amounts.begin(b); i < amounts.ends[b]; ++i)
                of.shared += amounts.amount[i] * share_[amounts.source[i]];
            of.squares += of.size * (of.size * shares_squared_ - 2 * of.shared);
        }
        made_.reserve(count);
    }

    /// Makes the batches from `first` on those that put_best() chooses from.
    void enqueue(uint32_t first) {
        const auto count = static_cast<uint32_t>(facts_.size());
        rest_.resize(count - first);
        std::iota(rest_.begin(), rest_.end(), first);
        place_.resize(count);
        queues_.resize(share_.size());
        for (uint32_t batch = first; batch < count; ++batch) {
            place_[batch] = batch - first;
            queues_[richest(batch)].batches.push_back(batch);
        }
        for (std::size_t s = 0; s < queues_.size(); ++s)
            if (!queues_[s].batches.empty() && share_[s] > 0) waiting_.push({deadline(s), s});
    }

    void put(uint32_t batch) {
        made_.push_back(batch);
        squares_ += change(batch);
        for (std::size_t i = amounts_.begin(batch); i < amounts_.ends[batch]; ++i)
            given_[amounts_.source[i]] += amounts_.amount[i];
        total_ += facts_[batch].size;
        given_shared_ += facts_[batch].shared;
    }

    /// Puts one of the batches that are left. `cost`: of the step; 0: none.
    void put_best(double cost) {
        Choice best{none, 0};
        if (Queue* const urgent = most_urgent()) {
            compare_queued(*urgent, cost, best);
        } else {
            const double enough = std::max(0.0, near * unit_ * unit_ - squares_);
            for (std::size_t tries = draws; tries > 0 && best.score > enough; --tries, ++next_) {
                if (next_ >= rest_.size()) next_ = 0;
                compare(rest_[next_], cost, best);
            }
            if (best.score > enough)
                if (Queue* const queue = farthest_behind()) compare_queued(*queue, cost, best);
        }
        const uint32_t place = place_[best.batch];
        rest_[place] = rest_.back();
        place_[rest_[place]] = place;
        rest_.pop_back();
        place_[best.batch] = taken;
        put(best.batch);
    }

    double cost_of_last() const { return costs_[made_.back()]; }
    std::vector<uint32_t> made() && { return std::move(made_); }

private:
    static constexpr double none = std::numeric_limits<double>::infinity();
    static constexpr uint32_t taken = std::numeric_limits<uint32_t>::max();

    struct Facts {
        double size = 0;
        double shared = 0;   ///< the product of its amounts and the shares
        double squares = 0;  ///< sum of those of how far it leads away from the dues
    };
    struct Queue {
        std::vector<uint32_t> batches;
        std::size_t next = 0;  ///< those before it are taken
    };
    struct Turn {
        double deadline;
        std::size_t source;
        bool operator<(const Turn& other) const {  // the largest is served first
            return deadline != other.deadline ? deadline > other.deadline : source > other.source;
        }
    };
    struct Choice {
        double score;
        uint32_t batch;
    };

    /// The source that a batch has most of, compared with the source's share.
    std::size_t richest(uint32_t batch) const {
        std::size_t richest = 0;
        double most = -none;
        for (std::size_t i = amounts_.begin(batch); i < amounts_.ends[batch]; ++i) {
            const std::size_t s = amounts_.source[i];
            const double ahead = (amounts_.amount[i] - share_[s] * facts_[batch].size) * others_[s];
            if (ahead <= most) continue;
            most = ahead;
            richest = s;
        }
        return richest;
    }

    /// By how much a batch changes the sum of the squares of the distances.
    double change(uint32_t batch) const {
        const Facts& of = facts_[batch];
        const std::size_t end = amounts_.ends[batch];
        std::size_t i = amounts_.begin(batch);
        double given = 0, more = 0;  // two sums do not wait for each other
        for (; i + 1 < end; i += 2) {
            given += amounts_.amount[i] * given_[amounts_.source[i]];
            more += amounts_.amount[i + 1] * given_[amounts_.source[i + 1]];
        }
        if (i < end) given += amounts_.amount[i] * given_[amounts_.source[i]];
        const double ahead = given + more - total_ * of.shared -
                             of.size * (given_shared_ - total_ * shares_squared_);
        return of.squares + 2 * ahead;
    }

    void compare(uint32_t batch, double cost, Choice& best) const {
        double score = change(batch);
        if (cost > 0) {
            const double unlike = 1 - std::min(cost, costs_[batch]) / std::max(cost, costs_[batch]);
            score += cost_weight * unit_ * unit_ * unlike * unlike;
        }
        if (score < best.score) best = {score, batch};
    }

    /// The total at which the source will be too far behind if no more of it comes.
    double deadline(std::size_t s) const { return (given_[s] + most_behind * unit_) / share_[s]; }

    /// Whether it has batches.
    bool has_batches(Queue& queue) const {
        while (queue.next < queue.batches.size() && place_[queue.batches[queue.next]] == taken)
            ++queue.next;
        return queue.next < queue.batches.size();
    }

    /// The queue of the source that would be too far behind first after another batch, if any.
    Queue* most_urgent() {
        while (!waiting_.empty() && waiting_.top().deadline <= total_ + unit_) {
            const auto [known, s] = waiting_.top();
            const double now = deadline(s);
            const bool has_more = has_batches(queues_[s]);
            if (has_more && now <= known) return &queues_[s];
            waiting_.pop();  // a deadline only moves on
            if (has_more) waiting_.push({now, s});
        }
        return nullptr;
    }

    /// The queue of the source that is farthest behind its due, of those that have batches.
    Queue* farthest_behind() {
        double least = none;
        Queue* farthest = nullptr;
        for (std::size_t s = 0; s < queues_.size(); ++s) {
            const double ahead = given_[s] - share_[s] * total_;
            if (ahead >= least || !has_batches(queues_[s])) continue;
            least = ahead;
            farthest = &queues_[s];
        }
        return farthest;
    }

    void compare_queued(const Queue& queue, double cost, Choice& best) const {
        std::size_t tries = queued;
        for (std::size_t i = queue.next; i < queue.batches.size() && tries > 0; ++i) {
            if (place_[queue.batches[i]] == taken) continue;
            compare(queue.batches[i], cost, best);
            --tries;
        }
    }

    const SourceAmounts& amounts_;
    std::span<const double> costs_;
    std::vector<Facts> facts_;    ///< of each batch
    std::vector<double> share_;   ///< of each source, of all sizes
    std::vector<double> others_;  ///< of each source, 1 / (share of the others), which may be 0
    double shares_squared_ = 0;   ///< sum of the squares of share_
    double unit_ = 0;             ///< size of the largest batch
    // of the batches so far:
    std::vector<double> given_;  ///< of each source
    double total_ = 0;           ///< of all sources
    double given_shared_ = 0;    ///< the product of given_ and share_
    double squares_ = 0;         ///< sum of those of the distances from the dues
    // of the others:
    std::vector<uint32_t> rest_;         ///< them
    std::vector<uint32_t> place_;        ///< of each in rest_, or `taken`
    std::size_t next_ = 0;               ///< place of the one to be tried next
    std::vector<Queue> queues_;          ///< by the source that they have most of
    std::priority_queue<Turn> waiting_;  ///< of sources, some with a deadline that has moved on
    std::vector<uint32_t> made_;
};

}  // namespace

std::vector<uint32_t> even_order(const SourceAmounts& amounts, std::size_t sources,
                                 std::span<const double> costs, uint64_t step_batches,
                                 uint64_t fixed) {
    Orderer orderer(amounts, sources, costs);
    const uint64_t count = amounts.batches();
    fixed = std::min<uint64_t>(fixed, count);
    for (uint32_t batch = 0; batch < fixed; ++batch) orderer.put(batch);
    orderer.enqueue(static_cast<uint32_t>(fixed));
    double cost = 0;
    for (uint64_t position = fixed; position < count; ++position) {
        orderer.put_best(position % step_batches == 0 ? 0 : cost);
        if (position % step_batches == 0) cost = orderer.cost_of_last();
    }
    return std::move(orderer).made();
}

namespace {

/// Exchanges batches of the last step, from `last` on, with earlier ones, from `first` on, until it
/// has `samples_of_step` samples, if there are as many. Each time the two are exchanged that are
/// most alike, so that the sources stay near their dues.
class LastStep {
public:
    LastStep(const SourceAmounts& amounts, std::size_t sources, std::span<const uint64_t> samples,
             std::span<uint32_t> order, std::size_t first, std::size_t last)
        : amounts_(amounts),
          samples_(samples),
          earlier_(order.subspan(first, last - first)),
          step_(order.subspan(last)),
          amount_(sources) {}

    void fill(uint64_t samples_of_step) {
        uint64_t left = 0;
        for (const uint32_t batch : step_) left += samples_[batch];
        while (left < samples_of_step) {
            // As little at once as will do, since a small batch is like a smaller one.
            const uint64_t share = (samples_of_step - left + step_.size() - 1) / step_.size();
            uint64_t gain = 0;
            for (const uint32_t batch : step_)
                for (const uint32_t other : earlier_)
                    if (samples_[other] > samples_[batch])
                        gain = std::max(gain, std::min(samples_[other] - samples_[batch], share));
            if (gain == 0) return;
            left += exchange(gain);
        }
    }

private:
    /// Returns how many samples it brings, at least `gain`.
    uint64_t exchange(uint64_t gain) {
        double least = std::numeric_limits<double>::infinity();
        uint32_t *of_step = nullptr, *earlier = nullptr;
        for (uint32_t& batch : step_) {
            set_amounts(batch, 1);
            for (uint32_t& other : earlier_) {
                if (samples_[other] < samples_[batch] + gain) continue;
                const double unlike = squares_ + unlike_step(other);
                if (unlike > least) continue;
                least = unlike;
                of_step = &batch;
                earlier = &other;
            }
            set_amounts(batch, 0);
        }
        const uint64_t brought = samples_[*earlier] - samples_[*of_step];
        std::swap(*of_step, *earlier);
        return brought;
    }

    void set_amounts(uint32_t batch, double factor) {
        squares_ = 0;
        for (std::size_t i = amounts_.begin(batch); i < amounts_.ends[batch]; ++i) {
            amount_[amounts_.source[i]] = factor * amounts_.amount[i];
            squares_ += amounts_.amount[i] * amounts_.amount[i];
        }
    }

    /// Sum of the squares of the differences, but for that of the batch of the step.
    double unlike_step(uint32_t other) const {
        double unlike = 0;
        for (std::size_t i = amounts_.begin(other); i < amounts_.ends[other]; ++i) {
            const double amount = amounts_.amount[i], here = amount_[amounts_.source[i]];
            unlike += amount * (amount - 2 * here);
        }
        return unlike;
    }

    const SourceAmounts& amounts_;
    std::span<const uint64_t> samples_;
    std::span<uint32_t> earlier_, step_;
    // of one batch of the step:
    std::vector<double> amount_;  ///< of each source
    double squares_ = 0;          ///< sum of theirs
};

}  // namespace

std::vector<uint32_t> even_epoch(const SourceAmounts& amounts, std::size_t sources,
                                 std::span<const double> costs, std::span<const uint64_t> samples,
                                 const EpochOptions& epoch_options) {
    const std::size_t count = amounts.batches(), world = epoch_options.step_batches,
                      costliest = std::min<std::size_t>(epoch_options.costliest_first, count),
                      fixed = std::min(count, (costliest + world - 1) / world * world),
                      last = count - count % world, first = std::min(fixed, last);
    std::vector<uint32_t> order = even_order(amounts, sources, costs, world, fixed);
    LastStep(amounts, sources, samples, order, first, last).fill(last < count ? world : 0);
    return order;
}

}  // namespace sab
