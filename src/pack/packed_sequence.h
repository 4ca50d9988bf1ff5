#pragma once
/// The bins of a packing as the batches of an epoch.

#include "pack/packing.h"
#include "sampler/cost_order.h"
#include "sampler/sampler.h"

namespace sab {

/// Bins stand in CostOrder's order. The sequences of each length are permuted anew each epoch, and
/// a bin takes its stretch of them.
class PackedSequence : public CostOrderedSequence {
public:
    explicit PackedSequence(Packing packing);
    const Packing& packing() const { return packing_; }

    SamplerKind kind() const override { return kind_of("sab_packed_sampler_new"); }
    uint64_t fingerprint() const override { return packing_.info.fingerprint; }
    std::size_t skipped(std::span<int64_t> room) const override {
        return copy_indices(packing_.skipped, room);
    }
    uint64_t samples(uint64_t position) const override { return found(position).sequences; }
    double cost(uint64_t position) const override { return found(position).cost; }
    double total(uint64_t position) const override { return found(position).total; }
    void fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const override;

private:
    const BinPattern& found(uint64_t position) const {
        return packing_.patterns[order_.find(position).batch_class];
    }
    std::span<const uint32_t> sequences(const Length& length, uint64_t first, uint64_t count) const;

    Packing packing_;
    mutable std::vector<uint32_t> sequences_;
};

/// What sab_packed_sampler_new() packed; refuses another sampler.
const Packing& packing_of(const Sampler& sampler);

}  // namespace sab
