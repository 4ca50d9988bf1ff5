#pragma once
/// What every sampler handle can be asked.

#include <cstdint>
#include <span>

#include "base/error.h"
#include "sab/sampler.h"
#include "sampler/sequence.h"

namespace sab {

/// A batch with its place in the epoch and the totals of its step.
struct PlacedBatch {
    Batch batch;
    uint64_t epoch = 0;
    uint64_t step = 0;
    uint64_t step_samples = 0;
    double step_total = -1;
    uint64_t micro_batch = 0;
    uint64_t micro_batches = 1;
};

/// As the C ABI shows it; `indices` live as long as `placed` is not changed.
inline sab_batch shown(const PlacedBatch& placed) {
    const Batch& b = placed.batch;
    const double rows = b.is_row ? 1 : static_cast<double>(b.count);
    return {sizeof(sab_batch),
            b.buffer.data(),
            b.count,
            b.longest,
            b.total,
            b.padded_length,
            rows * b.padded_length,
            b.bucket,
            placed.epoch,
            placed.step,
            placed.step_samples,
            placed.step_total,
            placed.micro_batch,
            placed.micro_batches,
            b.cu_seqlens.empty() ? nullptr : b.cu_seqlens.data(),
            b.starts.empty() ? nullptr : b.starts.data()};
}

/// What next_block() moved over.
struct BatchBlock {
    std::size_t count = 0;
    bool is_end = false;
};

class Sampler {
public:
    virtual ~Sampler() = default;

    /// False when the epoch has no more batches.
    virtual bool next(PlacedBatch& batch) = 0;
    virtual void set_epoch(uint64_t epoch) = 0;
    virtual uint64_t epoch() const = 0;
    virtual uint64_t step() const = 0;
    virtual uint64_t skipped() const = 0;
    virtual uint64_t rank() const { return 0; }

    // Samplers without random access refuse these, each by its name.
    virtual uint64_t batch_count() const { unsupported("sab_sampler_batch_count"); }
    virtual void seek(uint64_t step) {
        if (step != 0) unsupported("sab_sampler_seek to another step than 0");
        set_epoch(epoch());
    }
    /// Several batches into `indices`; see sab_next_batches().
    virtual BatchBlock next_block(PlacedBatch&, std::size_t, std::span<int64_t>, uint64_t*) {
        unsupported("sab_next_batches");
    }
    virtual void at(uint64_t, PlacedBatch&) { unsupported("sab_sampler_at"); }
    /// What is ready to be changed: commit() cannot fail, and without it nothing changes. Goes
    /// before any other call.
    class Change {
    public:
        virtual ~Change() = default;
        virtual void commit() noexcept = 0;
    };
    virtual std::unique_ptr<Change> prepare_budget(double) {
        fail(SAB_E_UNSUPPORTED, "sab_sampler_set_budget: this sampler's batches are not a plan's");
    }
    virtual double budget() const {
        fail(SAB_E_UNSUPPORTED, "sab_sampler_get_budget: this sampler's batches are not a plan's");
    }
    /// What it walks, where it has random access; else null.
    virtual const Sequence* sequence() const { return nullptr; }
    /// What its batches are of, where their budget could be lowered; else null.
    virtual const Plan* plan() const { return nullptr; }
    virtual void save(std::span<std::byte, SAB_STATE_SIZE>) const {
        unsupported("sab_sampler_state_save");
    }
    virtual void restore(std::span<const std::byte>) { unsupported("sab_sampler_state_restore"); }

protected:
    [[noreturn]] static void unsupported(const char* what) {
        fail(SAB_E_UNSUPPORTED, what, ": this sampler has no random access");
    }
};

}  // namespace sab

struct sab_sampler {
    std::unique_ptr<sab::Sampler> impl;
    sab::PlacedBatch shown;
};
