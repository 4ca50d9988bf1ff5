#pragma once
/// The interfaces of samplers: walking batches, random access, a budget that can be lowered.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/error.h"
#include "sab/sampler.h"
#include "sampler/sequence.h"

namespace sab {

/// A batch with its place in the epoch and the totals of its step.
struct EpochBatch {
    Batch batch;
    uint64_t epoch = 0;
    uint64_t step = 0;
    uint64_t step_samples = 0;
    double step_total = -1;
    uint64_t micro_batch = 0;
    uint64_t micro_batches = 1;
};

/// As the C ABI shows it; `indices` live as long as `placed` is not changed.
inline sab_batch shown(const EpochBatch& placed) {
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

class RandomAccess;
class AdjustableBudget;

/// What every sampler can do: walk the batches of an epoch in order.
class Sampler {
public:
    virtual ~Sampler() = default;

    virtual SamplerKind kind() const = 0;
    /// False when the epoch has no more batches.
    virtual bool next(EpochBatch& batch) = 0;
    virtual void set_epoch(uint64_t epoch) = 0;
    virtual uint64_t epoch() const = 0;
    virtual uint64_t step() const = 0;
    /// Writes the samples that are left out, as many as there is room for; -1 where the index is
    /// not known. Returns their number.
    virtual std::size_t skipped(std::span<int64_t> room) const = 0;
    /// Batches of the epoch; none where they are not known before they are formed.
    virtual std::optional<uint64_t> known_batch_count() const { return std::nullopt; }

    // What only some samplers can do, else null. capabilities.h refuses for all of them.
    virtual RandomAccess* random_access() { return nullptr; }
    virtual AdjustableBudget* adjustable_budget() { return nullptr; }

    /// Takes over what the caller handed to the constructor: a callback's context or a stream.
    /// Called once, when nothing can fail any more: after a failed call it is still the caller's.
    virtual void own() noexcept {}
};

/// What next_block() moved over.
struct BatchBlock {
    std::size_t count = 0;
    bool is_end = false;
};

/// A sampler whose batches can be read in any order and whose position can be saved.
class RandomAccess : public Sampler {
public:
    bool next(EpochBatch& batch) final;
    std::optional<uint64_t> known_batch_count() const final { return batch_count(); }
    RandomAccess* random_access() final { return this; }

    virtual uint64_t batch_count() const = 0;
    /// Shows the batch at a position from first_position() to below batch_count().
    void at(uint64_t position, EpochBatch& batch);
    void seek(uint64_t position);
    /// Several batches into `indices`; see sab_sampler_next_batches().
    BatchBlock next_block(EpochBatch& scratch, std::size_t most, std::span<int64_t> indices,
                          uint64_t* offsets);

    virtual void save(std::span<std::byte, SAB_STATE_SIZE> state) const = 0;
    virtual void restore(std::span<const std::byte> state) = 0;

    virtual const sab_sampler_options& options() const = 0;
    /// Of the samples and of what else its batches are made from.
    virtual uint64_t fingerprint() const = 0;

protected:
    /// Positions before it were taken by another number of ranks or under other options.
    virtual uint64_t first_position() const = 0;
    /// Shows the batch at a position that can be reached.
    virtual void fill(uint64_t position, EpochBatch& batch) = 0;
    /// Reads the samples of a batch, if they are at most `room`, without the totals of its step.
    /// Returns their number.
    virtual uint64_t read(uint64_t position, uint64_t room, EpochBatch& batch) = 0;
    virtual void move_to(uint64_t position) noexcept = 0;

private:
    void check_reachable(uint64_t position) const;
};

/// The budgets of the batches to come, which can be lowered and raised again.
class AdjustableBudget {
public:
    virtual ~AdjustableBudget() = default;

    /// What the batches are of.
    virtual const Plan& plan() const = 0;
    virtual double limit(std::size_t index) const = 0;
    /// A change that is ready: commit() cannot fail, and without it nothing changes. Goes before
    /// any other call.
    class Change {
    public:
        virtual ~Change() = default;
        virtual void commit() noexcept = 0;
    };
    /// `limit` 0: the plan's own.
    virtual std::unique_ptr<Change> prepare_limit(std::size_t index, double limit) = 0;
};

}  // namespace sab

struct sab_sampler {
    std::unique_ptr<sab::Sampler> impl;
    sab::EpochBatch shown;
};

namespace sab {

/// The handle of a sampler, which now owns what the caller handed to its constructor.
sab_sampler* new_handle(std::unique_ptr<Sampler> sampler);

}  // namespace sab
