#pragma once
/// The order of an epoch's batches, version 3: a keyed permutation in which the batches of one step
/// cost nearly the same.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sampler/permutation.h"
#include "sampler/sequence.h"

namespace sab {

/// Batches of the same number of samples and the same cost.
struct BatchClass {
    uint64_t samples;  ///< in each
    uint64_t batches;
    double cost;
};

/// Every batch of an epoch has an id. Ids are sorted by cost, so that the `step_batches` neighbours
/// of a step cost nearly the same. Inside a band of nearly equal cost the ids are permuted, so that
/// a step mixes classes. The steps are permuted. If the batches do not fill the last step, its
/// batches are those with the most samples, which can be split between ranks.
class CostOrder {
public:
    /// A batch of a class.
    struct Found {
        std::size_t batch_class;
        uint64_t batch;
    };

    CostOrder() = default;
    /// Classes by cost, highest first.
    explicit CostOrder(std::vector<BatchClass> classes, const EpochOptions& epoch_options = {});

    /// The same classes with the order of another epoch.
    CostOrder with_options(const EpochOptions& epoch_options) const;
    const EpochOptions& epoch_options() const { return epoch_options_; }
    uint64_t batches() const { return batches_; }
    const BatchClass& batch_class(std::size_t index) const { return classes_[index]; }
    Found find(uint64_t position) const;
    /// The same for all positions, of which there are at most 2^32 - 1, many at a time.
    std::vector<Found> find_all() const;
    /// The ids of the batches of a class: those before `split` from `first` on, the others from
    /// `last` on.
    struct ClassIds {
        uint64_t first = 0, split = 0, last = 0;
        uint64_t of(uint64_t batch) const {
            return batch < split ? first + batch : last + (batch - split);
        }
    };
    std::vector<ClassIds> class_ids() const;
    /// Replaces the ids of batches by their positions: the inverse of find().
    void positions_of(std::span<uint64_t> ids) const;
    /// The same in another order, of batches of a mixture: any range of ids is spread evenly over
    /// the epoch. Neighbours are not permuted first.
    void even_positions_of(std::span<uint64_t> ids) const;
    /// Which of the `world` batches or pieces of a step a rank takes. If a band of cost is narrower
    /// than a step, they are sorted by cost, and a fixed rule would give one rank all the longest
    /// batches. So each step begins at a random rank.
    uint64_t rotated_rank(uint64_t step, uint64_t rank, uint64_t world) const {
        const uint64_t rotated = rank + multiply_high(mix(ranks_key_ ^ step), world);
        return rotated < world ? rotated : rotated - world;
    }
    /// The key of the epoch's permutation of the samples of a bucket.
    uint64_t samples_key(uint64_t bucket) const { return mix(samples_key_ ^ bucket); }

private:
    /// A range of ids: batches `first`, `first` + 1, ... of a class.
    struct IdRange {
        std::size_t batch_class;
        uint64_t first;
        uint64_t end_id;
    };

    struct Band {
        uint64_t end_id;
        Permutation batches;
    };

    void set_options(const EpochOptions& epoch_options);
    void lay_out_steps(const EpochOptions& epoch_options);

    std::vector<BatchClass> classes_;
    uint64_t batches_ = 0;
    EpochOptions epoch_options_;
    uint64_t full_step_batches_ = 0;  ///< batches of the full steps
    uint64_t costliest_steps_ = 0;    ///< steps at the beginning that are not permuted
    std::vector<IdRange> ranges_;
    std::vector<Band> bands_;
    Permutation steps_;
    uint64_t ranks_key_ = 0, samples_key_ = 0;  ///< of the epoch
    static constexpr uint64_t nowhere = ~uint64_t{0};
    /// of the last find(): a batch is asked about several times
    mutable uint64_t found_position_ = nowhere;
    mutable Found found_{};
};

/// A sequence in CostOrder's order.
class CostOrderedSequence : public Sequence {
public:
    Rule rule() const override { return Rule::equal_cost; }
    uint64_t batches() const override { return order_.batches(); }
    uint64_t rotated_rank(uint64_t step, uint64_t rank, uint64_t world) const override {
        return order_.rotated_rank(step, rank, world);
    }
    std::unique_ptr<EpochOrder> make_epoch_order(const EpochOptions& epoch_options) const override {
        return std::make_unique<EpochOrderOf<CostOrder>>(order_.with_options(epoch_options));
    }
    void exchange(EpochOrder& epoch_order) noexcept override {
        std::swap(order_, static_cast<EpochOrderOf<CostOrder>&>(epoch_order).value);
    }

protected:
    CostOrder order_;
};

}  // namespace sab
