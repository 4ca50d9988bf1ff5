#pragma once
/// Greedy batches over an index source that is read as the batches are.

#include <optional>

#include "base/caller_context.h"
#include "sab/compat.h"
#include "sampler/sampler.h"

namespace sab {

class BionemoSizeAwareStream : public Sampler {
public:
    BionemoSizeAwareStream(sab_index_fn source, void* ctx, void (*release)(void*), double limit);

    SamplerKind kind() const override {
        return kind_of("sab_bionemo_size_aware_stream_sampler_new");
    }
    void own() noexcept override { ctx_.own(); }
    uint64_t epoch() const override { return epoch_; }
    uint64_t position() const override { return position_; }
    std::size_t skipped(std::span<int64_t> room) const override {
        return copy_indices<int64_t>(skipped_, room);
    }

private:
    bool take(EpochBatch& batch) override;
    void go_to_epoch(uint64_t epoch) override;
    bool read();

    sab_index_fn source_;
    CallerContext ctx_;
    double limit_;
    uint64_t epoch_ = 0;
    uint64_t position_ = 0;
    MeanSoFar so_far_;
    uint64_t taken_ = 0;  ///< samples from the source
    bool ended_ = false;
    std::vector<int64_t> skipped_;  ///< of this epoch
    // The sample that the source gave last, until it is in a batch, and the batch under way: kept
    // when the source fails or memory runs out.
    std::optional<Sample> ahead_;
    std::vector<int64_t> open_;
    double open_total_ = 0;
    double open_longest_ = 0;
};

}  // namespace sab
