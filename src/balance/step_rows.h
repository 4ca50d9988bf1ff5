#pragma once
/// The samples of a step to the ranks and micro-batches, without padding.

#include <cstdint>
#include <span>
#include <vector>

#include "balance/step_samples.h"
#include "balance/vector_partition.h"

namespace sab {

/// Keeps its scratch memory between steps.
class StepRows {
public:
    /// How long an assignment is searched for.
    enum class Effort {
        usual,
        less,  ///< where samples fill more than 98 % of a budget; otherwise as `more`
        more   ///< few samples are also assigned by search_fitting()
    };

    /// Takes the samples of a step, which must outlive the calls of assign().
    void begin(const StepItems& samples, uint64_t world_size);
    /// A lower bound on the micro-batches that a rank needs.
    uint64_t least() const;
    /// A number for which assign() succeeds: that of first fit. 0: not known.
    uint64_t enough() const;
    /// False when no assignment under the budgets was found. Micro-batch m of rank r is
    /// r * micro_batches + m.
    bool assign(uint64_t micro_batches, Effort effort, std::span<uint32_t> part_of);

private:
    static constexpr std::size_t looks = 64;  ///< in PartitionRules

    const StepItems& samples() const { return *samples_; }
    void find_units();
    double load() const;
    /// What units go to ranks by: their costs, these under capacities, or their weights.
    enum class Aim { costs, capacities, weights };

    bool has_groups() const { return !samples().group_of.empty(); }
    /// Whether samples go to all micro-batches at once before ranks are looked at.
    bool begins_together() const {
        return samples().cost_table().kinds > 1 && !has_groups() && !is_short_;
    }
    std::size_t most_at_once() const;
    bool assign_usual();
    bool assign_each(Effort effort);
    bool is_even_enough();
    bool all_together();
    bool by_each_cost(Effort effort);
    bool by_ranks(Aim aim);
    bool to_ranks(Aim aim);
    void collect_ranks();
    std::span<const uint32_t> items_of(uint32_t rank) const {
        return std::span(by_rank_).subspan(rank_begin_[rank],
                                           rank_begin_[rank + 1] - rank_begin_[rank]);
    }
    bool pack_first(const StepItems& some, uint64_t parts, std::span<uint32_t> part_of);
    bool together(std::span<const uint32_t> ranks);
    bool with_other_groups(std::span<const uint32_t> failed);
    bool exchange_group(uint32_t rank, std::size_t& tries);
    bool may_join(std::size_t ranks) const;
    bool with_others(std::span<const uint32_t> failed);
    std::vector<double> profile() const;
    void even_micro_steps();
    bool longest_first(std::span<const uint32_t> items, uint32_t first_part,
                       std::span<const double> targets = {});
    void exchange(std::span<const uint32_t> items, uint32_t first_part);
    bool exchange(std::span<const uint32_t> items, uint32_t first_part, uint32_t from, uint32_t to,
                  double gap);
    /// Whether a micro-batch of the rank at hand has room for a sample, when another one leaves it.
    bool has_room(uint32_t part, uint32_t sample, const uint32_t* other) const {
        for (std::size_t b = 0; b < samples_->capacities.size(); ++b) {
            const double* const weights = samples_->weights.data() + b * samples_->count;
            const double more = weights[sample] - (other != nullptr ? weights[*other] : 0);
            if (weights_[b * micro_batches_ + part] + more > samples_->capacities[b]) return false;
        }
        return true;
    }
    /// `sign`: -1 to take the sample out.
    void put(uint32_t part, uint32_t sample, double sign) {
        costs_[part] += sign * samples_->costs[sample];
        for (std::size_t b = 0; b < samples_->capacities.size(); ++b)
            weights_[b * micro_batches_ + part] +=
                sign * samples_->weights[b * samples_->count + sample];
    }
    bool partition_rank(std::span<const uint32_t> items, uint32_t first_part);
    bool fill_rank(std::span<const uint32_t> items, uint32_t first_part);
    bool assign_rank(uint32_t rank);

    const StepItems* samples_ = nullptr;
    uint32_t ranks_ = 1;
    uint32_t micro_batches_ = 1;  ///< of a rank
    Effort effort_ = Effort::usual;
    bool is_short_ = false;        ///< the search
    bool is_long_ = false;         ///< the search: search_fitting(), too
    bool is_each_ = false;         ///< of several costs, each alone is tried, too
    std::size_t partitioned_ = 0;  ///< samples of ranks for which longest first did not fit
    std::span<uint32_t> part_of_;
    bool is_mended_ = false;      ///< samples of some ranks did not fit their micro-batches
    std::vector<uint32_t> best_;  ///< part_of_ of the assignment with the most even ranks so far
    double most_of_best_ = 0;     ///< its costliest rank
    VectorPartitioner partitioner_, of_rank_;
    std::vector<uint32_t> by_cost_;  ///< samples, costliest first
    // What goes to a rank together: a sample or a group.
    std::size_t units_ = 0;
    std::vector<double> group_costs_, group_weights_;
    std::span<const double> unit_costs_, unit_weights_;
    std::vector<uint32_t> rank_of_unit_;
    std::vector<uint32_t> rank_begin_, by_rank_;  ///< the samples of each rank, costliest first
    // The micro-batches of the rank at hand:
    std::vector<double> costs_, weights_;
    std::vector<uint32_t> counts_, parts_, given_, taken_;
};

}  // namespace sab
