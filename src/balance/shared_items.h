#pragma once
/// Samples that share their first tokens, in an order in which the sharing is between neighbours.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "balance/forest.h"
#include "balance/step_samples.h"

namespace sab {

struct SharedBounds;

/// The cost and the weights of some samples in one micro-batch.
using Load = std::array<double, SAB_MAX_BUDGETS + 1>;

/// Leaves of a forest in depth-first order, those with most tokens first. Two leaves share the
/// least of what neighbours between them share. So the load of some leaves is what each of them
/// takes alone, less what each shares with the one before.
struct SharedItems {
    std::size_t count = 0;
    std::size_t kinds = 1;         ///< the cost, then weights that are not the cost
    std::size_t first_weight = 1;  ///< 0 where the cost is the only weight
    Load limits{};                 ///< of a micro-batch; infinite of a cost that is no weight
    std::vector<double> alone;     ///< `kinds` numbers a leaf
    std::vector<double> shared;    ///< with the leaf before
    std::vector<uint32_t> levels;  ///< of the node that a leaf shares with the leaf before; 0: none
    std::vector<uint32_t> tree;    ///< of each leaf
    std::vector<uint32_t> sample;  ///< of each leaf

    SharedItems() = default;
    SharedItems(const Forest& forest, const StepSamples& samples, SharedBounds& bounds);
    /// Some of these leaves, in ascending order.
    SharedItems of(std::span<const uint32_t> some) const;

    /// The leaf between two leaves, the latter included, that shares least with the one before it.
    uint32_t least_shared(uint32_t before, uint32_t leaf) const;
    /// What a leaf adds to a load whose last leaf is `before`, of the same tree.
    void add_more(Load& load, uint32_t least_shared, uint32_t leaf) const {
        for (std::size_t k = 0; k < kinds; ++k)
            load[k] += alone[leaf * kinds + k] - shared[least_shared * kinds + k];
    }
    void add_first(Load& load, uint32_t leaf) const {
        for (std::size_t k = 0; k < kinds; ++k) load[k] += alone[leaf * kinds + k];
    }
    /// `before`: of any tree.
    void add(Load& load, uint32_t before, uint32_t leaf) const {
        if (tree[before] != tree[leaf]) return add_first(load, leaf);
        add_more(load, least_shared(before, leaf), leaf);
    }
    /// Of leaves in ascending order.
    Load load_of(std::span<const uint32_t> leaves) const;
    /// Of each part.
    std::vector<Load> loads_of(std::span<const uint32_t> part_of, std::size_t parts) const;
    bool fits(const Load& load) const {
        for (std::size_t k = first_weight; k < kinds; ++k)
            if (load[k] > limits[k]) return false;
        return true;
    }

private:
    std::vector<double> values_of(const Forest& forest, const StepSamples& samples);
    void set_limits(const StepSamples& samples, std::span<const double> values);
    void put_in_order(const Forest& forest, std::span<const double> values);
};

/// Lower bounds for all divisions of the leaves over micro-batches.
struct SharedBounds {
    double cost = 0;       ///< of all micro-batches
    double filled = 0;     ///< micro-batches that the weights fill
    double unit_cost = 0;  ///< of the costliest unit
    double unit_filled = 0;
};

}  // namespace sab
