#pragma once
/// The order of an epoch's batches: a keyed permutation in which the batches of one step cost
/// nearly the same and have nearly the same length.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sampler/permutation.h"
#include "sampler/sequence.h"

namespace sab {

/// Batches of the same number of samples and the same cost.
struct BatchClass {
    static constexpr uint64_t no_chain = ~uint64_t{0};
    uint64_t samples;  ///< in each
    uint64_t batches;
    double cost;        ///< that is evened out over the batches of a step
    double length = 0;  ///< by which batches of nearly equal cost are sorted; 0: they are not
    /// Classes of the same chain, a small number, follow each other: the samples of a batch follow
    /// those of the one before. All classes have one, or none.
    uint64_t chain = no_chain;
};

/// Every batch of an epoch has an id. Ids are sorted by cost, and those of nearly equal cost by
/// length, so that the `step_batches` neighbours of a step are alike. Inside a band of nearly equal
/// cost and length the ids are permuted. The steps are permuted, too, so that the micro-steps of an
/// optimizer step lie far apart in the sorted order. The batches of the last step come from the
/// classes with the most samples, which can be divided among ranks, and from those that are
/// cheaper than others.
class CostOrder {
public:
    /// A batch of a class.
    struct Found {
        std::size_t batch_class;
        uint64_t batch;
    };

    /// Costs of at least this share of the highest count as nearly equal.
    static constexpr double equal_cost = 0.9;
    /// The same where they are sorted by length. A larger share would part long samples, few of
    /// which fill a budget less well, from others of their length.
    static constexpr double equal_cost_by_length = 0.75;

    CostOrder() = default;
    /// Classes in the order in which EpochOptions::costliest_first takes them. `fewest`: samples of
    /// a piece of a batch, at least.
    explicit CostOrder(std::vector<BatchClass> classes, uint64_t fewest = 1,
                       const EpochOptions& epoch_options = {});

    /// The same classes with the order of another epoch.
    CostOrder with_options(const EpochOptions& epoch_options) const;
    const EpochOptions& epoch_options() const { return epoch_options_; }
    uint64_t batches() const { return batches_; }
    const BatchClass& batch_class(std::size_t index) const { return classes_[index]; }
    Found find(uint64_t position) const;
    /// The same for all positions, of which there are at most 2^32 - 1, many at a time.
    std::vector<Found> find_all() const;
    /// The ids of the batches of a class: those before `head` from `costliest` on, those before
    /// `split` from `first` on, the others from `last` on.
    struct ClassIds {
        uint64_t costliest = 0, head = 0, first = 0, split = 0, last = 0;
        uint64_t of(uint64_t batch) const {
            if (batch < head) return costliest + batch;
            return batch < split ? first + (batch - head) : last + (batch - split);
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

    bool is_by_length() const { return has_lengths_ && !epoch_options_.mix_lengths; }
    void set_options(const EpochOptions& epoch_options);
    void lay_out_steps();
    void lay_out_bands();
    void permute_steps();
    std::vector<uint32_t> sorted_classes() const;
    std::vector<uint64_t> last_step() const;
    /// A choice of batches for the last step.
    struct LastStep {
        uint64_t count;                     ///< batches
        std::span<const uint32_t> tails{};  ///< classes that are taken first
        std::size_t first = 0;              ///< the class that follows,
        uint64_t of_first = 0;              ///< and how many of its batches
    };
    std::vector<uint64_t> last_step_of(const LastStep& choice,
                                       std::span<const uint32_t> by_samples) const;
    double waste_of(std::span<const uint64_t> last, std::span<const uint32_t> tails) const;
    uint64_t step_at(uint64_t place) const;
    uint64_t place_of(uint64_t part, uint64_t number) const;
    uint64_t first_of_part(uint64_t part) const;
    uint64_t steps() const {
        return full_step_batches_ / epoch_options_.step_batches - costliest_steps_;
    }

    std::vector<BatchClass> classes_;
    uint64_t fewest_ = 1;
    bool has_lengths_ = false;
    uint64_t chains_ = 0;
    uint64_t batches_ = 0;
    EpochOptions epoch_options_;
    uint64_t full_step_batches_ = 0;  ///< batches of the full steps
    uint64_t costliest_steps_ = 0;    ///< steps at the beginning that are not permuted
    std::vector<IdRange> ranges_;
    std::vector<Band> bands_;
    /// of the parts of the sorted steps, from each of which an optimizer step takes one
    std::vector<Permutation> parts_;
    uint64_t ranks_key_ = 0, samples_key_ = 0, micro_steps_key_ = 0;  ///< of the epoch
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
