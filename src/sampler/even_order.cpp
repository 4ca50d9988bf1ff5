#include "sampler/even_order.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <queue>

#include "sampler/permutation.h"

namespace sab {
namespace {

// Of the batches that are left, so many are tried in turn for each place of the order ...
constexpr std::size_t draws = 16;
// ... until there is one after which the squares of the distances from the dues, in sizes of the
// largest batch, add up to no more than this or than before. Else the best of them is taken ...
constexpr double near = 0.25;
// ... if they add up to no more than this or than before. Else it is compared with batches of the
// source that is farthest behind.
constexpr double far = 1;
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

    /// Keeps `count` of the batches from `first` on for the end, with at least `needed` samples, if
    /// there are as many. They are near the dues by themselves, so that those before them are, too.
    void reserve(uint32_t first, std::size_t count, std::span<const uint64_t> samples,
                 uint64_t needed) {
        std::vector<uint32_t> by_samples(facts_.size() - first), open;
        std::iota(by_samples.begin(), by_samples.end(), first);
        std::ranges::stable_sort(by_samples, std::ranges::greater{},
                                 [&](uint32_t batch) { return samples[batch]; });
        std::size_t next = 0;
        uint64_t drawn = 0;
        for (; count > 0; --count) {
            // If the most samples come to `needed`, so many of each batch are enough.
            uint64_t least = (needed + count - 1) / count;
            if (open.empty()) least = std::min(least, samples[by_samples[next]]);
            for (; next < by_samples.size() && samples[by_samples[next]] >= least; ++next)
                open.push_back(by_samples[next]);
            Choice best{none, 0};
            std::size_t place = 0;
            for (std::size_t tries = draws; tries > 0; --tries) {
                const std::size_t at = multiply_high(mix(drawn++), open.size());
                const double before = best.score;
                compare(open[at], 0, best);
                if (best.score < before) place = at;
            }
            open[place] = open.back();
            open.pop_back();
            needed -= std::min(needed, samples[best.batch]);
            put(best.batch);
        }
        reserved_.assign(made_.rbegin(), made_.rend());
        made_.clear();
        std::ranges::fill(given_, 0.0);
        total_ = given_shared_ = squares_ = 0;
    }

    /// Puts the first `fixed` batches, then the others in steps of `step_batches`, and those
    /// reserved behind them.
    std::vector<uint32_t> put_all(uint32_t fixed, uint64_t step_batches) && {
        for (uint32_t batch = 0; batch < fixed; ++batch) put(batch);
        enqueue(fixed);
        double cost = 0;
        while (!rest_.empty()) {
            const bool begins = made_.size() % step_batches == 0;
            put_best(begins ? 0 : cost);
            if (begins) cost = costs_[made_.back()];
        }
        made_.insert(made_.end(), reserved_.begin(), reserved_.end());
        return std::move(made_);
    }

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

    /// Makes the batches from `first` on, but for those reserved, those that put_best() chooses
    /// from.
    void enqueue(uint32_t first) {
        const auto count = static_cast<uint32_t>(facts_.size());
        place_.assign(count, 0);
        for (const uint32_t batch : reserved_) place_[batch] = taken;
        queues_.resize(share_.size());
        for (uint32_t batch = first; batch < count; ++batch) {
            if (place_[batch] == taken) continue;
            place_[batch] = static_cast<uint32_t>(rest_.size());
            rest_.push_back(batch);
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
            const double enough = left_until(near);
            for (std::size_t tries = draws; tries > 0 && best.score > enough; --tries, ++next_) {
                if (next_ >= rest_.size()) next_ = 0;
                read_ahead();
                compare(rest_[next_], cost, best);
            }
            if (best.score > left_until(far))
                if (Queue* const queue = farthest_behind()) compare_queued(*queue, cost, best);
        }
        const uint32_t place = place_[best.batch];
        rest_[place] = rest_.back();
        place_[rest_[place]] = place;
        rest_.pop_back();
        place_[best.batch] = taken;
        put(best.batch);
    }

    /// Batches that are drawn one after the other lie apart: what compare() will read is asked for.
    void read_ahead() const {
        constexpr std::size_t ahead = 6;
        if (next_ + 2 * ahead >= rest_.size()) return;
        const uint32_t later = rest_[next_ + 2 * ahead];
        __builtin_prefetch(&amounts_.ends[later]);
        __builtin_prefetch(&facts_[later]);
        const std::size_t begin = amounts_.begin(rest_[next_ + ahead]);
        __builtin_prefetch(amounts_.source.data() + begin);
        __builtin_prefetch(amounts_.amount.data() + begin);
        __builtin_prefetch(amounts_.amount.data() + begin + 8);
    }

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

    /// By how much the sum of the squares may change until it is this, in sizes of the largest
    /// batch.
    double left_until(double most) const { return std::max(0.0, most * unit_ * unit_ - squares_); }

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

    /// Those compared move up behind those taken, each of which is passed only once.
    void compare_queued(Queue& queue, double cost, Choice& best) const {
        std::array<uint32_t, queued> open;
        std::size_t count = 0, i = queue.next;
        for (; i < queue.batches.size() && count < queued; ++i) {
            const uint32_t batch = queue.batches[i];
            if (place_[batch] == taken) continue;
            compare(batch, cost, best);
            open[count++] = batch;
        }
        queue.next = i - count;
        std::copy_n(open.begin(), count,
                    queue.batches.begin() + static_cast<std::ptrdiff_t>(queue.next));
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
    std::vector<uint32_t> reserved_, made_;
};

}  // namespace

std::vector<uint32_t> even_order(const SourceAmounts& amounts, std::size_t sources,
                                 std::span<const double> costs, uint64_t step_batches,
                                 uint64_t fixed) {
    fixed = std::min<uint64_t>(fixed, amounts.batches());
    return Orderer(amounts, sources, costs).put_all(static_cast<uint32_t>(fixed), step_batches);
}

std::vector<uint32_t> even_epoch(const SourceAmounts& amounts, std::size_t sources,
                                 std::span<const double> costs, std::span<const uint64_t> samples,
                                 const EpochOptions& epoch_options) {
    const std::size_t count = amounts.batches(), world = epoch_options.step_batches,
                      costliest = std::min<std::size_t>(epoch_options.costliest_first, count),
                      fixed = std::min(count, (costliest + world - 1) / world * world),
                      last = count % world;
    Orderer orderer(amounts, sources, costs);
    if (last > 0 && fixed + last <= count) {
        const auto [least, most] = std::ranges::minmax(samples.subspan(fixed));
        if (least < most && least * last < world)
            orderer.reserve(static_cast<uint32_t>(fixed), last, samples, world);
    }
    return std::move(orderer).put_all(static_cast<uint32_t>(fixed), world);
}

}  // namespace sab
