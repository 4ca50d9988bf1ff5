#pragma once
/// The order of bionemo-size-aware-batching's BucketBatchSampler, seed for seed, without torch.

#include <optional>

#include "base/caller_context.h"
#include "base/mersenne_twister.h"
#include "sab/compat.h"
#include "sampler/sampler.h"
#include "sizes/sizes.h"

namespace sab {

class BionemoSampler : public Sampler {
public:
    BionemoSampler(std::shared_ptr<const Plan> plan, const sab_bionemo_options& options);
    /// The one that sab_bionemo_sampler_new() made; refuses another sampler.
    static BionemoSampler& of(Sampler& sampler);

    SamplerKind kind() const override { return kind_of("sab_bionemo_sampler_new"); }
    void own() noexcept override { size_ctx_.own(); }
    uint64_t epoch() const override { return epoch_; }
    uint64_t position() const override { return position_; }
    std::size_t skipped(std::span<int64_t> room) const override {
        const std::size_t before = reader_.plan().skipped(room);
        return before +
               copy_indices<int64_t>(too_large_, room.subspan(std::min(before, room.size())));
    }
    std::optional<uint64_t> known_batch_count() const override;

    MersenneTwister& generator() { return generator_; }
    const MersenneTwister& generator() const { return generator_; }

private:
    /// A bucket's samples in their present order, and how far the pass has come.
    struct BucketQueue {
        std::size_t bucket;
        std::vector<uint32_t> places;  ///< in the plan's order
        std::size_t next = 0;
        uint64_t remaining = 0;  ///< samples, as far as the choice of buckets goes
        bool has_size = false;   ///< the size of the sample at `next` was asked for already
        double size = 0;
    };
    /// How far the batch under way has come.
    enum class Stage { choosing, forming, formed };
    bool take(EpochBatch& batch) override;
    void go_to_epoch(uint64_t epoch) override;
    void begin_pass();
    std::size_t choose();
    bool form(BucketQueue& queue);
    bool form_greedily(BucketQueue& queue);
    double size_of(int64_t index) const;

    PlanReader reader_;
    bool is_greedy() const { return options_.sizes != nullptr || options_.size != nullptr; }

    sab_bionemo_options options_;
    std::optional<Sizes> sizes_;
    CallerContext size_ctx_;
    MersenneTwister generator_;
    std::vector<BucketQueue> queues_;
    std::vector<uint32_t> open_;  ///< samples of the present batch, as places of the plan's order
    double open_total_ = 0;
    std::size_t chosen_ = 0;
    Stage stage_ = Stage::choosing;
    bool begun_ = false;
    uint64_t total_remaining_ = 0;
    uint64_t epoch_ = 0;
    uint64_t position_ = 0;
    BatchMean mean_;  ///< of all epochs, where batches are not greedy
    MeanSoFar so_far_;
    std::vector<int64_t> too_large_;  ///< samples of this epoch
};

}  // namespace sab
