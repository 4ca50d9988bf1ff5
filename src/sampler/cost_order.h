#pragma once
/// The order of an epoch's batches, version 2: a keyed permutation in which the batches of one step
/// cost nearly the same.

#include <cstdint>
#include <vector>

#include "sampler/permutation.h"
#include "sampler/sequence.h"

namespace sab {

/// Batches that are alike.
struct BatchKind {
    uint64_t samples;  ///< in each
    uint64_t batches;
    double cost;
};

/// Every batch of an epoch has an id. Ids are sorted by cost, so that `group` neighbours cost
/// nearly the same; inside a band of nearly equal cost the ids are permuted, so that a group mixes
/// kinds; the groups are permuted. The batches that fill no last group are taken from those with
/// the most samples, which can be split between ranks, and stand at the end.
class CostOrder {
public:
    /// Which batch of which kind.
    struct Found {
        std::size_t kind;
        uint64_t batch;
    };

    CostOrder() = default;
    /// Kinds by cost, highest first.
    explicit CostOrder(std::vector<BatchKind> kinds);

    /// The same kinds in the order of an epoch.
    CostOrder arranged(const Arrangement& arrangement) const;
    const Arrangement& arrangement() const { return arrangement_; }
    uint64_t batches() const { return batches_; }
    const BatchKind& kind(std::size_t index) const { return kinds_[index]; }
    Found find(uint64_t position) const;
    /// Which of the `world` batches or pieces of a step a rank takes. Where a band of cost is
    /// narrower than a step, these stand by cost, and a fixed place would give one rank all the
    /// longest batches. So each step begins at a random rank.
    uint64_t turn(uint64_t step, uint64_t rank, uint64_t world) const {
        const uint64_t turned = rank + multiply_high(mix(ranks_key_ ^ step), world);
        return turned < world ? turned : turned - world;
    }
    /// The key of the epoch's permutation of the samples of a bucket.
    uint64_t samples_key(uint64_t bucket) const { return mix(samples_key_ ^ bucket); }

private:
    /// A stretch of ids: batches `first`, `first` + 1, ... of a kind.
    struct Run {
        std::size_t kind;
        uint64_t first;
        uint64_t end_id;
    };

    struct Band {
        uint64_t end_id;
        Permutation batches;
    };

    void arrange(const Arrangement& arrangement);
    void lay_out(const Arrangement& arrangement);

    std::vector<BatchKind> kinds_;
    uint64_t batches_ = 0;
    Arrangement arrangement_;
    uint64_t grouped_ = 0;       ///< batches in whole groups
    uint64_t worst_groups_ = 0;  ///< groups at the beginning that stay in the order of cost
    std::vector<Run> runs_;
    std::vector<Band> bands_;
    Permutation groups_;
    uint64_t ranks_key_ = 0, samples_key_ = 0;  ///< of the epoch
    static constexpr uint64_t nowhere = ~uint64_t{0};
    /// of the last find(): a batch is asked about several times
    mutable uint64_t found_position_ = nowhere;
    mutable Found found_{};
};

}  // namespace sab
