#pragma once
/// The bins of a packing as the batches of an epoch.

#include "pack/packed_rows.h"
#include "pack/packing.h"
#include "sampler/sampler.h"

namespace sab {

/// Bins stand in CostOrder's order. The sequences of each length are permuted anew each epoch, and
/// a bin takes its stretch of them.
class PackedSequence : public PackedRows {
public:
    explicit PackedSequence(std::shared_ptr<const Packing> packing);

    sab_packed_info info() const override { return packing_->info; }
    const Multiples& multiples() const override { return packing_->multiples; }
    std::unique_ptr<Sequence> copy() const override {
        return std::make_unique<PackedSequence>(*this);
    }
    uint64_t fingerprint() const override { return packing_->info.fingerprint; }
    std::size_t skipped(std::span<int64_t> room) const override {
        return copy_indices(packing_->skipped, room);
    }
    uint64_t samples(uint64_t position) const override { return found(position).sequences; }
    double cost(uint64_t position) const override { return found(position).cost; }
    PerColumn total(uint64_t position) const override;
    BatchSums sums() const override;
    void fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const override;

private:
    const BinPattern& found(uint64_t position) const {
        return packing_->patterns[order_.find(position).batch_class];
    }
    std::span<const uint32_t> sequences(const Length& length, uint64_t first, uint64_t count) const;

    std::shared_ptr<const Packing> packing_;
    mutable std::vector<uint32_t> sequences_;
};

/// The order of the bins; a class is a pattern.
CostOrder bin_order(const Packing& packing);
/// The epoch's permutation of the sequences of a length.
Permutation sequences_permutation(const Length& length, const EpochOptions& epoch_options);

/// The sequence that the options ask for.
std::unique_ptr<Sequence> make_packed_sequence(const Columns& sizes,
                                               const sab_packed_options& options);

/// The rows of sab_packed_sampler_new(); refuses another sampler.
const PackedRows& packed_rows_of(Sampler& sampler);

}  // namespace sab
