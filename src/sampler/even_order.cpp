#include "sampler/even_order.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

#include "base/rounding.h"
#include "sampler/permutation.h"

namespace sab {
namespace {

// Orders that are tried until one keeps all sources within a batch of their dues: nearly random
// ones in turn with such by deadlines. Where each batch has one source, the second one always does.
// In tests with other batches one of the first four did. Each takes as long as the first.
constexpr uint64_t most_attempts = 8;

/// Puts batches in order, one after the other.
class Orderer {
public:
    Orderer(const SourceAmounts& amounts, std::span<const uint32_t> batches,
            std::span<const double> costs, uint64_t step_batches, uint64_t attempt)
        : amounts_(amounts),
          batches_(batches),
          costs_(costs),
          step_batches_(step_batches),
          attempt_(attempt),
          dues_(amounts, costs) {
        made_.reserve(batches.size());
    }

    /// Puts the first `fixed` batches, then the others in random order, as far as the dues allow.
    void put_near_random(std::size_t fixed) {
        put_fixed(fixed);
        rest_.assign(batches_.begin() + static_cast<std::ptrdiff_t>(fixed), batches_.end());
        // Neighbours in the given order may be those of a step, which are alike. As many as are
        // drawn would leave no choice.
        if (2 * step_batches_ > SourceDues::compared || attempt_ > 0) shuffle_rest();
        place_.assign(amounts_.batches(), 0);
        for (uint32_t i = 0; i < rest_.size(); ++i) place_[rest_[i]] = i;
        while (!rest_.empty()) put_best();
    }

    /// The same, the others by earliest deadline. A source waits while it is ahead of its due, and
    /// is due when it would be one batch behind. Where each batch has one source, every source is
    /// then within one batch of its due (src/mixture/README.md).
    void put_by_deadlines(std::size_t fixed) {
        put_fixed(fixed);
        while (made_.size() < batches_.size()) {
            SourceDues::Candidate best;
            compare_queued(earliest(), best);
            put(best.batch);
        }
    }

    std::vector<uint32_t> order() && { return std::move(made_); }
    /// The largest distance of a source from its due after a step.
    double farthest() const { return farthest_; }
    /// Whether this is at most the size of the largest batch, or was as large after the fixed ones.
    bool keeps_to_dues() const {
        double most = of_fixed_;
        for (const uint32_t batch : batches_) most = std::max(most, dues_.size(batch));
        return farthest_ <= most;
    }

private:
    struct Queue {
        std::vector<uint32_t> batches;
        std::size_t next = 0;  ///< those before it are taken
    };

    void shuffle_rest() {
        const std::vector<uint32_t> before = rest_;
        Permutation(rest_.size(), mix(rest_.size() + attempt_)).fill(0, rest_);
        for (uint32_t& batch : rest_) batch = before[batch];
    }

    /// The batches that have most of a source, by source. They are queued when the first one is
    /// needed: often none is.
    std::vector<Queue>& queues() {
        if (!queues_.empty()) return queues_;
        queues_.resize(dues_.sources());
        // Neighbours may be alike, as those of a step that cost the same.
        std::vector<uint32_t> order(batches_.size());
        Permutation(order.size(), mix(order.size() + attempt_)).fill(0, order);
        for (const uint32_t i : order)
            if (const uint32_t batch = batches_[i]; !dues_.is_given(batch))
                queues_[dues_.richest(batch)].batches.push_back(batch);
        return queues_;
    }

    /// Whether it has batches.
    bool has_batches(Queue& queue) const {
        while (queue.next < queue.batches.size() && dues_.is_given(queue.batches[queue.next]))
            ++queue.next;
        return queue.next < queue.batches.size();
    }

    void put(uint32_t batch) {
        if (made_.size() % step_batches_ == 0) first_cost_ = costs_[batch];
        made_.push_back(batch);
        dues_.give(batch);
        if (made_.size() % step_batches_ == 0) farthest_ = std::max(farthest_, dues_.farthest());
    }

    void put_fixed(std::size_t fixed) {
        for (const uint32_t batch : batches_.first(fixed)) put(batch);
        of_fixed_ = farthest_;
    }

    /// That the next batch should have; 0: any.
    double cost_of_step() const { return made_.size() % step_batches_ == 0 ? 0 : first_cost_; }

    void compare_queued(Queue& queue, SourceDues::Candidate& best) {
        dues_.compare_queued(queue.batches, queue.next, cost_of_step(), dues_.mean(), best);
    }

    /// Puts one of the batches that are left: the first of those drawn after which the sources are
    /// near their dues, else the best one of these and of the source that is farthest behind.
    void put_best() {
        const double unit = dues_.mean(), enough = SourceDues::near * unit * unit - dues_.squares();
        SourceDues::Candidate best;
        for (std::size_t tries = SourceDues::compared; tries > 0 && best.score > enough;
             --tries, ++next_) {
            if (next_ >= rest_.size()) next_ = 0;
            read_ahead();
            dues_.compare(rest_[next_], cost_of_step(), unit, best);
        }
        if (best.score > enough) compare_queued(farthest_behind(), best);
        const uint32_t place = place_[best.batch];
        rest_[place] = rest_.back();
        place_[rest_[place]] = place;
        rest_.pop_back();
        put(best.batch);
    }

    /// Batches that are drawn one after the other lie apart: what compare() will read is asked for.
    void read_ahead() const {
        constexpr std::size_t ahead = 6;
        if (next_ + 2 * ahead >= rest_.size()) return;
        dues_.read_ahead(rest_[next_ + 2 * ahead]);
        amounts_.read_ahead(rest_[next_ + ahead]);
    }

    /// The queue with the least score(source) of those that have batches; null where all scores
    /// are infinite.
    template <class Score>
    Queue* least(Score&& score) {
        double least = SourceDues::none;
        Queue* found = nullptr;
        std::vector<Queue>& all = queues();
        for (std::size_t s = 0; s < all.size(); ++s) {
            const double each = score(s);
            if (each >= least || !has_batches(all[s])) continue;
            least = each;
            found = &all[s];
        }
        return found;
    }

    Queue& farthest_behind() {
        return *least([this](std::size_t s) { return dues_.ahead(s); });
    }

    /// The queue of the source that would be one batch behind its due first.
    Queue& earliest() {
        const auto deadline = [this](std::size_t s) {
            constexpr double latest = std::numeric_limits<double>::max();
            if (!(dues_.share(s) > 0)) return 0.0;
            return std::min(latest, dues_.total_when(s, dues_.largest()));
        };
        Queue* const found = least(
            [&](std::size_t s) { return dues_.ahead(s) > 0 ? SourceDues::none : deadline(s); });
        // All wait only after rounding, or where batches have several sources.
        return found != nullptr ? *found : *least(deadline);
    }

    const SourceAmounts& amounts_;
    std::span<const uint32_t> batches_;
    std::span<const double> costs_;
    uint64_t step_batches_, attempt_;
    SourceDues dues_;
    // of the batches that are left:
    std::vector<uint32_t> rest_;   ///< them
    std::vector<uint32_t> place_;  ///< of each in rest_, if it is there
    std::size_t next_ = 0;         ///< place of the one to be tried next
    std::vector<Queue> queues_;    ///< by the source that they have most of
    std::vector<uint32_t> made_;
    double first_cost_ = 0;  ///< of the step
    double farthest_ = 0;    ///< from its due, of any source after any step
    double of_fixed_ = 0;    ///< the same, after the fixed batches
};

/// The batches that stay first.
std::size_t fixed_batches(std::size_t count, const EpochOptions& epoch_options) {
    const std::size_t world = epoch_options.step_batches,
                      costliest = std::min<std::size_t>(epoch_options.costliest_first, count);
    return std::min(count, next_multiple(costliest, world));
}

/// Of an order whose last step has fewer samples than ranks: the pieces of the batches that are to
/// be divided, so that whole steps, or all samples, are there. A last step of batches chosen for
/// their samples would be far from the dues. `samples`: of each batch. A piece has at least
/// `fewest`; if these are more than one, and too many for whole steps, there are no pieces.
std::vector<BatchPiece> divide_for_last_step(std::span<const uint32_t> order,
                                             std::span<const uint64_t> samples,
                                             const EpochOptions& epoch_options, uint64_t fewest) {
    const std::size_t world = epoch_options.step_batches, last = order.size() % world,
                      fixed = fixed_batches(order.size(), epoch_options);
    uint64_t in_last = 0;
    for (const uint32_t batch : order.last(last)) in_last += samples[batch] / fewest;
    if (last == 0 || in_last >= world || fixed + last >= order.size()) return {};
    struct Divided {
        uint32_t batch;
        uint64_t samples, pieces;
        uint64_t largest() const { return (samples + pieces - 1) / pieces; }
        bool can_divide(uint64_t least) const { return samples / (pieces + 1) >= least; }
        bool operator<(const Divided& other) const {  // the largest is divided first
            return largest() != other.largest() ? largest() < other.largest() : batch < other.batch;
        }
    };
    std::priority_queue<Divided> waiting;
    for (const uint32_t batch : order.subspan(fixed))
        if (const Divided whole{batch, samples[batch], 1}; whole.can_divide(fewest))
            waiting.push(whole);
    std::vector<BatchPiece> pieces;
    const auto make = [&](const Divided& of) {
        for (uint64_t i = 0; i < of.pieces && of.pieces > 1; ++i) {
            const uint64_t first = of.samples * i / of.pieces;
            pieces.push_back({of.batch, first, of.samples * (i + 1) / of.pieces - first});
        }
    };
    std::size_t needed = world - last;
    for (; needed > 0 && !waiting.empty(); --needed) {
        Divided next = waiting.top();
        waiting.pop();
        ++next.pieces;
        if (next.can_divide(fewest))
            waiting.push(next);
        else
            make(next);
    }
    if (fewest > 1 && needed > 0) return {};
    for (; !waiting.empty(); waiting.pop()) make(waiting.top());
    return pieces;
}

/// The batches that even_epoch() was given, with the pieces in random places instead of those that
/// are divided. The ids of the pieces are `first_id` and so on.
std::vector<uint32_t> with_pieces(std::span<const uint32_t> batches,
                                  std::span<const BatchPiece> pieces, uint32_t first_id,
                                  const EpochOptions& epoch_options) {
    const std::size_t fixed = fixed_batches(batches.size(), epoch_options);
    std::vector<bool> is_divided(first_id);
    for (const BatchPiece& piece : pieces) is_divided[piece.batch] = true;
    std::vector<uint32_t> made;
    for (const uint32_t batch : batches)
        if (!is_divided[batch]) made.push_back(batch);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        made.push_back(first_id + static_cast<uint32_t>(i));
        std::swap(made.back(), made[fixed + multiply_high(mix(i), made.size() - fixed)]);
    }
    return made;
}

}  // namespace

std::vector<uint32_t> even_epoch(const SourceAmounts& amounts, std::span<const uint32_t> batches,
                                 std::span<const double> costs, const EpochOptions& epoch_options) {
    const std::size_t fixed = fixed_batches(batches.size(), epoch_options);
    double least = SourceDues::none;
    std::vector<uint32_t> best;
    for (uint64_t attempt = 0; attempt < most_attempts; ++attempt) {
        Orderer orderer(amounts, batches, costs, epoch_options.step_batches, attempt);
        if (attempt % 2 == 0)
            orderer.put_near_random(fixed);
        else
            orderer.put_by_deadlines(fixed);
        const bool is_enough = orderer.keeps_to_dues();
        if (orderer.farthest() < least) {
            least = orderer.farthest();
            best = std::move(orderer).order();
        }
        if (is_enough) break;
    }
    return best;
}

std::vector<uint32_t> even_merge(const SourceAmounts& amounts, std::span<const uint32_t> buckets,
                                 std::span<const double> costs, uint64_t fixed,
                                 uint64_t step_batches) {
    constexpr std::size_t tries = 64;
    SourceDues dues(amounts, costs);
    // of each batch the next one of its bucket; the first of all buckets, earliest first
    std::vector<uint32_t> next(buckets.size()), open;
    std::vector<uint32_t> later(buckets.empty() ? 0 : std::ranges::max(buckets) + 1);
    const auto none = static_cast<uint32_t>(buckets.size());
    std::ranges::fill(later, none);
    for (uint32_t i = none; i-- > 0;) next[i] = std::exchange(later[buckets[i]], i);
    for (const uint32_t first : later)
        if (first != none) open.push_back(first);
    std::ranges::sort(open);
    std::vector<uint32_t> made;
    double cost = 0;
    while (!open.empty()) {
        const bool begins = made.size() % step_batches == 0;
        SourceDues::Candidate best{.batch = open.front()};
        const double unit = dues.mean(), enough = std::max(0.0, unit * unit - dues.squares());
        if (made.size() >= fixed)
            for (std::size_t i = 0; i < std::min(tries, open.size()) && best.score > enough; ++i)
                dues.compare(open[i], begins ? 0 : cost, unit, best);
        if (begins) cost = costs[best.batch];
        dues.give(best.batch);
        made.push_back(best.batch);
        open.erase(std::ranges::find(open, best.batch));
        if (const uint32_t after = next[best.batch]; after != none)
            open.insert(std::ranges::lower_bound(open, after), after);
    }
    return made;
}

std::vector<uint32_t> even_epoch_in_pieces(const SourceAmounts& amounts,
                                           std::span<const uint32_t> batches,
                                           std::vector<double>& costs,
                                           std::span<const uint64_t> samples,
                                           const EpochOptions& epoch_options, const Plan* plan,
                                           const std::function<double(const BatchPiece&)>& add) {
    std::vector<uint32_t> order = even_epoch(amounts, batches, costs, epoch_options);
    if (plan != nullptr && plan->has_few_shapes()) return order;
    const std::vector<BatchPiece> pieces =
        divide_for_last_step(order, samples, epoch_options, plan == nullptr ? 1 : plan->fewest());
    if (pieces.empty()) return order;
    const auto first_id = static_cast<uint32_t>(costs.size());
    for (const BatchPiece& piece : pieces) costs.push_back(add(piece));
    return even_epoch(amounts, with_pieces(batches, pieces, first_id, epoch_options), costs,
                      epoch_options);
}

}  // namespace sab
