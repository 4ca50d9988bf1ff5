#include "sampler/steady_order.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "sab/cost.h"

namespace sab {
namespace {

// Of the things that wait, so many are compared for each place of a step.
constexpr std::size_t candidates = 32;
// At the end of a step things are exchanged for others that wait, at most so often ...
constexpr std::size_t exchanges = 64;
// ... the best of so many pairs each ...
constexpr std::size_t exchange_pairs = std::size_t{1} << 13;
// ... of at most so many pairs for each thing of the step in all ...
constexpr std::size_t most_pairs = std::size_t{1} << 12;
// ... until the sums are this near to their means, in shares of a mean step.
constexpr double near_means = 0.0002;

using Amounts = std::array<double, std::size_t{2} * SAB_MAX_BUDGETS>;

/// Makes the steps one after the other. The things of the next steps wait; a step takes those that
/// bring its sums along the straight lines to their means.
class SteadySteps {
public:
    SteadySteps(const SteadyAmounts& given, uint64_t of_step, uint64_t most_moved)
        : kinds_(given.kinds),
          amounts_(given.amounts.begin(), given.amounts.end()),
          of_step_(of_step),
          most_moved_(most_moved),
          steps_(given.things() / of_step),
          is_placed_(given.things()) {
        for (std::size_t i = 0; i < amounts_.size(); ++i) left_[i % kinds_] += amounts_[i];
        const Amounts all = left_;
        left_.fill(0);
        for (std::size_t i = 0; i < amounts_.size(); ++i) {  // in shares of a mean step
            const std::size_t k = i % kinds_;
            amounts_[i] = all[k] > 0 ? amounts_[i] / all[k] * static_cast<double>(steps_) : 0;
            left_[k] += amounts_[i];
        }
    }

    std::vector<uint32_t> make() {
        std::vector<uint32_t> made;
        made.reserve(is_placed_.size());
        // Half of the distance: others wait longer than the mean.
        const uint64_t waiting = most_moved_ * of_step_ / 2 + of_step_;
        for (uint64_t step = 0; step < steps_; ++step) {
            while (next_ < is_placed_.size() && waiting_.size() < waiting)
                waiting_.push_back(next_++);
            begin(step);
            fill();
            exchange();
            made.insert(made.end(), taken_.begin(), taken_.end());
            for (std::size_t k = 0; k < kinds_; ++k) left_[k] -= sum_[k];
        }
        return made;
    }

private:
    const double* of(uint32_t thing) const { return amounts_.data() + thing * kinds_; }

    /// How far the sums are from a share of their targets after a thing is taken for another one:
    /// the sum of squares, which one exchange after the other lowers also where amounts of several
    /// kinds depend on each other.
    double distance(double share, const double* taken, const double* given) const {
        double sum = 0;
        for (std::size_t k = 0; k < kinds_; ++k) {
            const double from_target = sum_[k] + taken[k] - given[k] - target_[k] * share;
            sum += from_target * from_target;
        }
        return sum;
    }

    void take(uint32_t thing) {
        taken_.push_back(thing);
        is_placed_[thing] = true;
        for (std::size_t k = 0; k < kinds_; ++k) sum_[k] += of(thing)[k];
    }

    /// A step begins with the things that may not wait any longer.
    void begin(uint64_t step) {
        taken_.clear();
        sum_.fill(0);
        for (std::size_t k = 0; k < kinds_; ++k)
            target_[k] = left_[k] / static_cast<double>(steps_ - step);
        while (oldest_ < next_ && is_placed_[oldest_]) ++oldest_;
        if (step >= most_moved_)
            for (; oldest_ < (step - most_moved_ + 1) * of_step_; ++oldest_)
                if (!is_placed_[oldest_]) take(oldest_);
        due_ = taken_.size();
        // Half of it are those that wait longest, so that few become due. They may be exchanged.
        const std::size_t early = std::min(of_step_, due_ + of_step_ / 2);
        for (uint32_t thing = oldest_; thing < next_ && taken_.size() < early; ++thing)
            if (!is_placed_[thing]) take(thing);
        if (!taken_.empty())
            std::erase_if(waiting_, [&](uint32_t thing) { return is_placed_[thing]; });
    }

    /// The waiting thing to be compared next: all take turns.
    std::size_t turn() {
        if (turn_ >= waiting_.size()) turn_ = 0;
        return turn_++;
    }

    void fill() {
        while (taken_.size() < of_step_) {
            const double share =
                static_cast<double>(taken_.size() + 1) / static_cast<double>(of_step_);
            double best = std::numeric_limits<double>::infinity();
            std::size_t found = 0;
            for (std::size_t tries = std::min(candidates, waiting_.size()); tries > 0; --tries) {
                const std::size_t at = turn();
                const double now = distance(share, of(waiting_[at]), nothing_.data());
                if (now >= best) continue;
                best = now;
                found = at;
            }
            take(waiting_[found]);
            waiting_[found] = waiting_.back();
            waiting_.pop_back();
        }
    }

    void exchange() {
        const std::size_t count = taken_.size() - due_;
        if (count == 0 || waiting_.empty()) return;
        const std::size_t others = std::min(waiting_.size(),
                                            std::max(exchange_pairs / count, exchange_pairs / 64)),
                          own = std::min(count, std::max<std::size_t>(1, exchange_pairs / others));
        const std::size_t rounds = std::min(exchanges, of_step_ * most_pairs / (own * others));
        std::size_t failed = 0;  // pairs since the last exchange
        for (std::size_t round = 0; round < rounds; ++round) {
            double best = distance(1, nothing_.data(), nothing_.data());
            if (best <= near_means * near_means * static_cast<double>(kinds_)) return;
            std::size_t given = taken_.size(), taken = 0;
            for (std::size_t i = 0; i < own; ++i) {
                const std::size_t mine = due_ + (i * count / own + round) % count;
                for (std::size_t tries = others; tries > 0; --tries) {
                    const std::size_t at = turn();
                    const double now = distance(1, of(waiting_[at]), of(taken_[mine]));
                    if (now >= best) continue;
                    best = now;
                    given = mine;
                    taken = at;
                }
            }
            if (given == taken_.size()) {
                failed += own * others;
                if (failed >= count * waiting_.size()) return;  // these were all pairs
                continue;
            }
            failed = 0;
            for (std::size_t k = 0; k < kinds_; ++k)
                sum_[k] += of(waiting_[taken])[k] - of(taken_[given])[k];
            is_placed_[waiting_[taken]] = true;
            is_placed_[taken_[given]] = false;
            std::swap(waiting_[taken], taken_[given]);
        }
    }

    std::size_t kinds_;
    std::vector<double> amounts_;
    uint64_t of_step_, most_moved_, steps_;
    std::vector<bool> is_placed_;
    uint32_t next_ = 0,
             oldest_ = 0;  ///< things from next_ on wait not yet, those before oldest_ are placed
    std::vector<uint32_t> waiting_;
    std::size_t turn_ = 0;
    Amounts left_{};  ///< of the steps to come
    // The step at hand:
    std::vector<uint32_t> taken_;
    std::size_t due_ = 0;  ///< of these, those that may not be exchanged
    Amounts sum_{}, target_{};
    static constexpr Amounts nothing_{};
};

/// The batches of a step to ranks, the same number to each.
class RankSums {
public:
    RankSums(std::span<uint32_t> step, std::span<const double> costs, uint64_t ranks)
        : step_(step),
          costs_(costs),
          ranks_(ranks),
          of_rank_(step.size() / ranks),
          batches_(step.size()),
          room_(ranks) {}

    void even_out() {
        sort_by(costs_, step_);
        std::vector<uint32_t> by_room(ranks_);
        std::iota(by_room.begin(), by_room.end(), 0u);
        for (std::size_t m = 0; m < of_rank_; ++m) {
            // The costliest batch goes to the rank that has least.
            sort_by(room_, by_room);
            for (std::size_t i = 0; i < ranks_; ++i) {
                const uint32_t batch = step_[m * ranks_ + i];
                batches_[by_room[i] * of_rank_ + m] = batch;
                room_[by_room[i]] -= costs_[batch];
            }
        }
        const std::size_t work = step_.size() * of_rank_;
        for (std::size_t left = most_looks; left >= work && lower_largest(); left -= work) {
        }
        for (std::size_t rank = 0; rank < ranks_; ++rank) {
            sort_by(costs_, of_rank(rank));
            for (std::size_t m = 0; m < of_rank_; ++m) step_[m * ranks_ + rank] = of_rank(rank)[m];
        }
    }

private:
    static constexpr std::size_t most_looks = std::size_t{1} << 17;  // at pairs of batches

    /// The largest value first.
    static void sort_by(std::span<const double> values, std::span<uint32_t> items) {
        std::sort(items.data(), items.data() + items.size(), [values](uint32_t a, uint32_t b) {
            return values[a] != values[b] ? values[a] > values[b] : a < b;
        });
    }

    std::span<uint32_t> of_rank(std::size_t rank) {
        return std::span(batches_).subspan(rank * of_rank_, of_rank_);
    }

    /// The rank that has most exchanges a batch with another one. False if no exchange helps.
    bool lower_largest() {
        std::size_t from = 0, to = 0;
        for (std::size_t rank = 0; rank < ranks_; ++rank)
            if (room_[rank] < room_[from]) from = rank;
        double best = room_[from];
        uint32_t *given = nullptr, *taken = nullptr;
        for (std::size_t rank = 0; rank < ranks_; ++rank)
            for (uint32_t& mine : of_rank(from))
                for (uint32_t& theirs : of_rank(rank)) {
                    const double more = costs_[mine] - costs_[theirs],
                                 least = std::min(room_[from] + more, room_[rank] - more);
                    if (more <= 0 || least <= best) continue;
                    best = least;
                    given = &mine;
                    taken = &theirs;
                    to = rank;
                }
        if (given == nullptr) return false;
        const double more = costs_[*given] - costs_[*taken];
        room_[from] += more;
        room_[to] -= more;
        std::swap(*given, *taken);
        return true;
    }

    std::span<uint32_t> step_;
    std::span<const double> costs_;
    std::size_t ranks_, of_rank_;
    std::vector<uint32_t> batches_;  ///< of rank 0, then of rank 1, ...
    std::vector<double> room_;       ///< of each rank: less its costs
};

}  // namespace

std::vector<uint32_t> steady_order(const SteadyAmounts& amounts, uint64_t of_step,
                                   uint64_t most_moved) {
    return SteadySteps(amounts, of_step, most_moved).make();
}

void even_out_ranks(std::span<uint32_t> step, std::span<const double> costs, uint64_t ranks) {
    RankSums(step, costs, ranks).even_out();
}

}  // namespace sab
