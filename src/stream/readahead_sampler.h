#pragma once
/// The batches of a read-ahead stream as a sampler.

#include "sampler/sampler.h"
#include "stream/stream.h"

namespace sab {

/// Keeps a record until it was used: one whose use failed for lack of memory is not lost.
class RetriedRecord;

/// The batches of a read-ahead stream of numbered records.
class ReadAheadSampler : public Sampler {
public:
    /// `source` is taken by own().
    ReadAheadSampler(sab_stream* source, const sab_readahead_stream_options& options);
    ~ReadAheadSampler() override;
    /// The one that sab_readahead_sampler_new() made; refuses another sampler.
    static ReadAheadSampler& of(Sampler& sampler);

    SamplerKind kind() const override { return kind_of("sab_readahead_sampler_new"); }
    void own() noexcept override;
    uint64_t epoch() const override { return epoch_; }
    uint64_t position() const override { return position_; }
    std::size_t skipped(std::span<int64_t> room) const override;
    sab_stream* stream() const { return stream_.get(); }

private:
    bool take(EpochBatch& placed) override;
    void go_to_epoch(uint64_t epoch) override;

    // Until own():
    sab_stream* source_;
    StagePtr numbered_, batches_;

    std::unique_ptr<sab_stream> stream_;
    RetriedRecord* kept_;  ///< the last stage of stream_
    uint64_t epoch_ = 0, position_ = 0;
};

}  // namespace sab
