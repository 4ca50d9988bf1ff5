#include "sampler/even_order.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "sampler/permutation.h"

namespace sab {
namespace {

// Of the batches that are left, so many are tried in turn for each place of the order ...
constexpr std::size_t draws = 16;
// ... until there is one after which the squares of the distances from the dues, in sizes of a mean
// batch, add up to no more than this or than before. Else the best of them is taken ...
constexpr double near = 0.25;
// With many sources, each of which is near its due then, the sum may be larger: by what a batch
// adds to it by itself, of which this much counts, times the effective number of sources.
constexpr double usual = 0.02;
// ... if they add up to no more than this or than before. Else it is compared with batches of the
// source that is farthest behind. Where they are above this, the best of all that are tried counts.
constexpr double far = 1;
// Before a source falls so many sizes of the largest batch behind its due, a batch is taken that
// has most of it. Small sources of equal shares take turns until the last of them is nearly one
// batch behind: by this over the number of sources less.
constexpr double most_behind = 0.85;
constexpr double last_turn = 0.5;
// Small sources may fall behind together, or be ahead together, each of them only a little. Before
// all sources but those with at least this share are so far behind, or ahead, the one that is
// farthest behind is served: of them, or of the large ones.
constexpr double large_share = 1.0 / 8;
constexpr std::size_t few_small = 8;  // whose own dues are enough
constexpr double most_behind_together = 0.75;
constexpr double most_ahead_together = 1.1;
// Amounts and dues are equal that differ by so much, of a batch.
constexpr double rounding = 1e-5;
// Orders that are tried until one keeps all sources within a batch of their dues: nearly random
// ones in turn with such by deadlines.
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
          dues_(amounts, costs),
          unit_(dues_.largest()),
          mean_(dues_.mean()) {
        near_ = most_near();
        std::size_t sources = 0;
        for (std::size_t s = 0; s < dues_.sources(); ++s) {
            sources += dues_.share(s) > 0;
            if (dues_.share(s) >= large_share) large_.push_back(s);
        }
        if (sources < large_.size() + few_small) large_.clear();
        for (const std::size_t s : large_) large_shares_ += dues_.share(s);
        if (sources > 0)
            behind_ = std::max(most_behind, 1 - last_turn / static_cast<double>(sources));
        made_.reserve(batches.size());
    }

    /// Puts the first `fixed` batches, then the others in random order, as far as the dues allow.
    void put_near_random(std::size_t fixed) {
        put_fixed(fixed);
        enqueue(fixed);
        // Neighbours in the given order may be those of a step, which are alike. As many as are
        // drawn would leave no choice.
        if (2 * step_batches_ > draws || attempt_ > 0) shuffle_rest();
        while (!rest_.empty()) put_best(cost_of_step());
    }

    /// The same, the others by earliest deadline. A batch is due when the share of its source would
    /// have ended it, and waits until this share would have begun it. Where each batch has one
    /// source, every source is then within one batch of its due (src/mixture/README.md).
    void put_by_deadlines(std::size_t fixed) {
        put_fixed(fixed);
        bool have_one_source = true;
        for (uint32_t b = 0; b < amounts_.batches(); ++b) {
            own_.push_back(dues_.amount(b, dues_.richest(b)));
            have_one_source = have_one_source && own_[b] >= dues_.size(b) * (1 - rounding);
        }
        while (made_.size() < batches_.size()) {
            Queue& next = earliest();
            SourceDues::Choice best{0, next.batches[next.next]};
            if (!have_one_source) {
                best = {};
                compare_queued(next, cost_of_step(), best);
            }
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
    static constexpr double none = SourceDues::none;

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

    double most_near() const {
        double added = 0;
        for (uint32_t b = 0; b < amounts_.batches(); ++b) added += dues_.added(b);
        if (!(added > 0)) return near;
        added /= static_cast<double>(amounts_.batches()) * mean_ * mean_;
        return std::clamp(std::min(added, usual) / dues_.shares_squared(), near, far);
    }

    /// Makes the batches from `first` on those that put_best() chooses from.
    void enqueue(std::size_t first) {
        place_.assign(amounts_.batches(), 0);
        for (const uint32_t batch : batches_.subspan(first)) {
            place_[batch] = static_cast<uint32_t>(rest_.size());
            rest_.push_back(batch);
        }
        for (std::size_t s = 0; s < dues_.sources(); ++s)
            if (dues_.share(s) > 0) waiting_.push({deadline(s), s});
    }

    void shuffle_rest() {
        const std::vector<uint32_t> before = rest_;
        Permutation(rest_.size(), mix(rest_.size() + attempt_)).fill(0, rest_);
        for (uint32_t i = 0; i < rest_.size(); ++i) {
            rest_[i] = before[rest_[i]];
            place_[rest_[i]] = i;
        }
    }

    /// The queue of a source. They are made when the first one is needed: often none is.
    Queue& queue(std::size_t source) {
        if (queues_.empty()) {
            queues_.resize(dues_.sources());
            // Neighbours may be alike, as those of a step that cost the same.
            std::vector<uint32_t> order(batches_.size());
            Permutation(order.size(), mix(order.size() + attempt_)).fill(0, order);
            for (const uint32_t i : order)
                if (const uint32_t batch = batches_[i]; !dues_.is_given(batch))
                    queues_[dues_.richest(batch)].batches.push_back(batch);
        }
        return queues_[source];
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

    void compare_queued(Queue& queue, double cost, SourceDues::Choice& best) {
        dues_.compare_queued(queue.batches, queue.next, cost, mean_, best);
    }

    /// Puts one of the batches that are left. `cost`: of the step; 0: none.
    void put_best(double cost) {
        SourceDues::Choice best;
        if (Queue* const urgent = most_urgent()) {
            compare_queued(*urgent, cost, best);
        } else {
            const double enough = dues_.squares() > far * mean_ * mean_ ? -none : left_until(near_);
            for (std::size_t tries = draws; tries > 0 && best.score > enough; --tries, ++next_) {
                if (next_ >= rest_.size()) next_ = 0;
                read_ahead();
                dues_.compare(rest_[next_], cost, mean_, best);
            }
            if (best.score > left_until(far))
                if (Queue* const queue = farthest_behind(0, none))
                    compare_queued(*queue, cost, best);
        }
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

    /// By how much the sum of the squares may change until it is this, in sizes of a mean batch.
    double left_until(double most) const {
        return std::max(0.0, most * mean_ * mean_ - dues_.squares());
    }

    /// The total at which the source will be too far behind if no more of it comes.
    double deadline(std::size_t s) const { return dues_.total_when(s, behind_ * unit_); }

    /// Whether it has batches.
    bool has_batches(Queue& queue) const {
        while (queue.next < queue.batches.size() && dues_.is_given(queue.batches[queue.next]))
            ++queue.next;
        return queue.next < queue.batches.size();
    }

    /// The queue of the source to be served before the small sources are too far from their dues
    /// together, if any.
    Queue* most_urgent_together() {
        if (large_.empty()) return nullptr;
        double ahead = 0;  // the large sources
        for (const std::size_t s : large_) ahead += dues_.ahead(s);
        if (ahead + (1 - large_shares_) * unit_ > most_behind_together * unit_)
            return farthest_behind(0, large_share);
        if (large_.size() > 1 && ahead - large_shares_ * unit_ < -most_ahead_together * unit_)
            return farthest_behind(large_share, none);
        return nullptr;
    }

    /// The queue of the source that would be too far behind first after another batch, if any.
    Queue* most_urgent() {
        if (Queue* const urgent = most_urgent_together()) return urgent;
        while (!waiting_.empty() && waiting_.top().deadline <= dues_.total() + unit_) {
            const auto [known, s] = waiting_.top();
            const double now = deadline(s);
            if (now <= known && has_batches(queue(s))) return &queue(s);
            waiting_.pop();
            if (now > known) waiting_.push({now, s});  // a deadline only moves on
        }
        return nullptr;
    }

    /// The queue of the source that is farthest behind its due, of those that have batches and a
    /// share from `from` on and below `end`.
    Queue* farthest_behind(double from, double end) {
        double least = none;
        Queue* farthest = nullptr;
        for (std::size_t s = 0; s < dues_.sources(); ++s) {
            const double ahead = dues_.ahead(s), share = dues_.share(s);
            if (ahead >= least || share < from || share >= end || !has_batches(queue(s))) continue;
            least = ahead;
            farthest = &queue(s);
        }
        return farthest;
    }

    /// The queue of the source whose next batch has the earliest deadline.
    Queue& earliest() {
        Queue* found = nullptr;
        double least = none;
        // None of them waits only after rounding, or where batches have several sources.
        for (const double latest : {rounding * unit_, none}) {
            for (std::size_t s = 0; s < dues_.sources(); ++s) {
                Queue& of = queue(s);
                const double ahead = dues_.ahead(s), share = dues_.share(s);
                if (!has_batches(of) || ahead > latest) continue;
                const double deadline = share > 0 ? (ahead + own_[of.batches[of.next]]) / share : 0;
                if (found != nullptr && deadline >= least) continue;
                least = deadline;
                found = &of;
            }
            if (found != nullptr) break;
        }
        return *found;
    }

    const SourceAmounts& amounts_;
    std::span<const uint32_t> batches_;
    std::span<const double> costs_;
    uint64_t step_batches_, attempt_;
    SourceDues dues_;
    double unit_;                     ///< size of the largest batch
    double mean_;                     ///< size of a mean batch
    std::vector<std::size_t> large_;  ///< sources of large shares, if several are small
    double large_shares_ = 0;         ///< of these
    double near_ = near;
    double behind_ = most_behind;
    // of the batches that are left:
    std::vector<uint32_t> rest_;         ///< them
    std::vector<uint32_t> place_;        ///< of each in rest_, if it is there
    std::size_t next_ = 0;               ///< place of the one to be tried next
    std::vector<Queue> queues_;          ///< by the source that they have most of
    std::priority_queue<Turn> waiting_;  ///< of sources, some with a deadline that has moved on
    std::vector<double> own_;            ///< of each batch, of the source that it has most of
    std::vector<uint32_t> made_;
    double first_cost_ = 0;  ///< of the step
    double farthest_ = 0;    ///< from its due, of any source after any step
    double of_fixed_ = 0;    ///< the same, after the fixed batches
};

}  // namespace

namespace {

/// The batches that stay first.
std::size_t fixed_batches(std::size_t count, const EpochOptions& epoch_options) {
    const std::size_t world = epoch_options.step_batches,
                      costliest = std::min<std::size_t>(epoch_options.costliest_first, count);
    return std::min(count, (costliest + world - 1) / world * world);
}

}  // namespace

std::vector<uint32_t> even_epoch(const SourceAmounts& amounts, std::span<const uint32_t> batches,
                                 std::span<const double> costs, const EpochOptions& epoch_options) {
    const std::size_t fixed = fixed_batches(batches.size(), epoch_options);
    double least = std::numeric_limits<double>::infinity();
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
        SourceDues::Choice best{.batch = open.front()};
        const double unit = dues.mean(), enough = std::max(0.0, far * unit * unit - dues.squares());
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

std::vector<BatchPiece> divide_for_last_step(std::span<const uint32_t> order,
                                             std::span<const uint64_t> samples,
                                             const EpochOptions& epoch_options) {
    const std::size_t world = epoch_options.step_batches, last = order.size() % world,
                      fixed = fixed_batches(order.size(), epoch_options);
    uint64_t in_last = 0;
    for (const uint32_t batch : order.last(last)) in_last += samples[batch];
    if (last == 0 || in_last >= world || fixed + last >= order.size()) return {};
    struct Divided {
        uint32_t batch;
        uint64_t samples, pieces;
        uint64_t largest() const { return (samples + pieces - 1) / pieces; }
        bool operator<(const Divided& other) const {  // the largest is divided first
            return largest() != other.largest() ? largest() < other.largest() : batch < other.batch;
        }
    };
    std::priority_queue<Divided> waiting;
    for (const uint32_t batch : order.subspan(fixed))
        if (samples[batch] > 1) waiting.push({batch, samples[batch], 1});
    std::vector<BatchPiece> pieces;
    const auto make = [&](const Divided& of) {
        for (uint64_t i = 0; i < of.pieces && of.pieces > 1; ++i) {
            const uint64_t first = of.samples * i / of.pieces;
            pieces.push_back({of.batch, first, of.samples * (i + 1) / of.pieces - first});
        }
    };
    for (std::size_t needed = world - last; needed > 0 && !waiting.empty(); --needed) {
        Divided next = waiting.top();
        waiting.pop();
        ++next.pieces;
        if (next.largest() > 1)
            waiting.push(next);
        else
            make(next);
    }
    for (; !waiting.empty(); waiting.pop()) make(waiting.top());
    return pieces;
}

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

}  // namespace sab
