#pragma once
/// Samples that share tokens to the ranks and micro-batches.

#include <cstdint>
#include <span>
#include <vector>

#include "balance/shared_filler.h"
#include "balance/shared_items.h"
#include "balance/vector_partition.h"

namespace sab {

/// Leaves on some ranks, for any number of micro-batches.
class SharedDivider {
public:
    SharedDivider(const SharedItems& items, uint64_t ranks);

    /// A way to fill micro-batches, as many as it needs.
    struct Way {
        Cutting cutting;
        std::size_t parts;
        double cost;
    };
    std::span<const Way> ways() const { return ways_; }
    /// The one that costs least in so many micro-batches; none if they are too few for all.
    const Way* best_way(std::size_t parts) const;

    /// Returns the cost of the costliest rank; infinite when no way was found. Micro-batch m of
    /// rank r is r * micro_batches + m.
    double divide(uint64_t micro_batches, std::span<uint32_t> part_of);

private:
    /// The leaves of a tree in a micro-batch go together.
    struct Pieces {
        StepItems items;
        std::vector<uint32_t> of_leaf;  ///< of each leaf, its piece
        std::vector<uint32_t> part_of;
    };
    Pieces pieces_of(std::span<const uint32_t> part_of, std::size_t parts) const;
    void fill_evenly(std::size_t parts);
    void partition_pieces(std::size_t parts);
    void put_on_ranks();
    double costliest_rank() const;
    void keep_if_better();

    const SharedItems& items_;
    uint32_t ranks_, micro_batches_ = 1;
    SharedFiller filler_;
    std::vector<Way> ways_;
    VectorPartitioner partitioner_;
    std::vector<uint32_t> part_of_, best_, whole_;  ///< of each leaf; `whole_`: of the first way
    double most_ = 0;                               ///< cost of the costliest rank of `best_`
};

/// The samples of a step.
class SharedRows {
public:
    SharedRows(const Forest& forest, const StepSamples& samples,
               const sab_step_plan_options& options);

    /// A lower bound on the micro-batches that a rank needs.
    uint64_t least() const { return least_; }
    /// Fills `part_of` with the micro-batch of each sample and returns the micro-batches of a rank,
    /// a multiple of options.multiple; 0 when no way was found. `given`: 0, or their number.
    uint64_t assign(uint64_t given, std::span<uint32_t> part_of);
    /// The cost of each micro-batch.
    std::vector<double> costs(std::span<const uint32_t> part_of, std::size_t parts) const;

private:
    uint64_t rounded(uint64_t micro_batches) const;
    /// What the micro-batches of a rank count, in the choice of their number.
    double value_of(uint64_t micro_batches) const {
        return part_value_ * static_cast<double>(micro_batches);
    }
    uint64_t assign_few(uint64_t given, std::span<uint32_t> part_of);
    uint64_t assign_many(uint64_t given, std::span<uint32_t> part_of);
    void divide_units();
    uint64_t choose_count(std::span<const SharedDivider> dividers) const;

    const sab_step_plan_options& options_;
    SharedItems items_;
    std::vector<uint32_t> unit_of_;  ///< of each leaf; empty unless units are whole
    uint64_t least_ = 1;
    double least_cost_ = 0, part_value_ = 0;  ///< of a rank; of a micro-batch
    std::vector<std::vector<uint32_t>> leaves_of_rank_;
    std::vector<SharedItems> of_ranks_;
};

}  // namespace sab
