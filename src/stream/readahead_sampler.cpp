#include "stream/readahead_sampler.h"

#include <algorithm>
#include <cstring>

namespace sab {

class RetriedRecord : public SourceStage {
public:
    bool next(Record& record) override {
        if (!has_record_ && !source_->next(record_)) return false;
        has_record_ = true;
        record = record_;
        return true;
    }
    void done() noexcept { has_record_ = false; }
    void rewind() override {
        source_->rewind();
        has_record_ = false;
    }
    void save(StateWriter& state) const override {
        if (has_record_)
            refuse_argument("stream", no_value,
                            "a batch of its sampler failed: call sab_next_batch() until it "
                            "succeeds, or restore an earlier state");
        source_->save(state);
    }
    void restore(StateReader& state) override {
        has_record_ = false;
        source_->restore(state);
    }
    void describe(Description& description) const override { source_->describe(description); }
    StreamPtr fresh() const override { return make_stage<RetriedRecord>(source_->fresh()); }

private:
    Record record_;
    bool has_record_ = false;
};

ReadAheadSampler::ReadAheadSampler(sab_stream* source, const sab_readahead_stream_options& options)
    : source_(source),
      numbered_(make_numbered()),
      batches_(make_readahead(options)),
      stream_(std::make_unique<sab_stream>()) {
    check(options.columns == 0, "options.columns", options.columns,
          "must be 0 for a sampler, whose records are their numbers");
    auto kept = std::make_unique<RetriedRecord>();
    kept_ = kept.get();
    stream_->impl.stream = std::move(kept);
}

ReadAheadSampler::~ReadAheadSampler() = default;

ReadAheadSampler& ReadAheadSampler::of(Sampler& sampler) {
    if (sampler.kind() != kind_of("sab_readahead_sampler_new"))
        fail(SAB_E_UNSUPPORTED, "sab_sampler_get_stream: this sampler has no stream under it");
    return static_cast<ReadAheadSampler&>(sampler);
}

void ReadAheadSampler::own() noexcept {
    stream_->impl.progress = std::move(source_->impl.progress);
    numbered_->attach(std::move(source_->impl.stream));
    batches_->attach(std::move(numbered_));
    kept_->attach(std::move(batches_));
    delete source_;
    source_ = nullptr;
}

bool ReadAheadSampler::take(EpochBatch& placed) {
    const Progress progress = stream_->impl.progress.all();
    const CurrentProgress current(&progress);
    Record record;
    if (!kept_->next(record)) return false;
    const List& list = list_of(record);
    Batch& batch = placed.batch;
    batch.room(list.items.size());  // from here on nothing can fail
    kept_->done();
    batch.fill(list.items.size(), [&](uint64_t i) {
        Sample sample{0, list.items[i].size};
        std::memcpy(&sample.index, list.items[i].data, sizeof sample.index);
        return sample;
    });
    batch.total[0] = record.view.size;
    batch.bucket = 0;
    placed.epoch = epoch_;
    placed.position = placed.step = position_++;
    return true;
}

/// The stream counts what it skips, and does not know the indices.
std::size_t ReadAheadSampler::skipped(std::span<int64_t> room) const {
    const auto count = static_cast<std::size_t>(stream_->impl.stream->skipped());
    std::ranges::fill(room.first(std::min(count, room.size())), -1);
    return count;
}

void ReadAheadSampler::go_to_epoch(uint64_t epoch) {
    stream_->impl.stream->rewind();
    epoch_ = epoch;
    position_ = 0;
}

}  // namespace sab
