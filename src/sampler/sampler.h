#pragma once
/// What all samplers can do: walk batches.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/handle.h"
#include "sab/sampler.h"
#include "sampler/sequence.h"

namespace sab {

/// What batches are weighed by: the mean of so many batches.
struct BatchMean {
    BatchSums sums;
    double batches = 0;
};

/// A batch with its position in the epoch.
struct EpochBatch {
    static constexpr uint64_t nothing_shown = ~uint64_t{0};

    Batch batch;
    uint64_t epoch = 0;
    uint64_t position = 0;  ///< among the batches of the rank
    uint64_t step = 0;      ///< of the optimizer
    uint64_t micro_batch = 0;
    double sample_weight = 1;
    PerColumn token_weight{};
    /// Sampler::changes() when it was shown
    uint64_t changes = nothing_shown;

    void weigh(const BatchMean& mean);
};

/// Weighs batches of unknown number by the mean of those of the epoch so far.
class MeanSoFar {
public:
    void weigh(EpochBatch& batch);

private:
    BatchSums sums_;
};

/// As the C ABI shows it; the arrays live as long as `placed` is not changed.
inline sab_batch shown(const EpochBatch& placed) {
    const Batch& b = placed.batch;
    return {sizeof(sab_batch),
            b.buffer.data(),
            b.count,
            b.is_row ? SAB_LAYOUT_ROW : SAB_LAYOUT_PADDED,
            b.columns,
            b.longest.data(),
            b.padded_length.data(),
            b.total.data(),
            b.bucket,
            placed.epoch,
            placed.step,
            placed.micro_batch,
            b.id,
            placed.sample_weight,
            placed.token_weight.data()};
}

/// Batches one after the other.
class BatchArrays {
public:
    void clear();
    std::size_t count() const { return offsets_.size() - 1; }
    /// False, without a change, for a batch that has other arrays than the first. A batch that does
    /// not fit into memory is left out.
    bool add(const EpochBatch& placed);
    /// Says which places the batches have in an epoch: the first is number `batch`, counted from
    /// the beginning of `step`.
    void place(uint64_t epoch, uint64_t step, uint64_t batch, uint64_t micro_batches);
    /// The arrays live as long as nothing is changed.
    sab_block shown();

private:
    bool has_arrays_of(const Batch& batch) const;

    std::vector<uint64_t> offsets_{0}, step_, micro_batch_;
    std::vector<int64_t> indices_, bucket_, id_, starts_;
    std::vector<double> longest_, padded_length_, total_, sample_weight_, token_weight_;
    std::array<std::vector<int32_t>, SAB_MAX_COLUMNS> cu_seqlens_;
    std::array<const int32_t*, SAB_MAX_COLUMNS> cu_seqlens_data_{};
    std::array<std::vector<int32_t>, SAB_MAX_COLUMNS> cu_seqlens_unpadded_;
    std::array<const int32_t*, SAB_MAX_COLUMNS> cu_seqlens_unpadded_data_{};
    std::size_t columns_ = 1;
    uint64_t epoch_ = 0;
    bool is_row_ = false, has_cu_seqlens_ = false, has_cu_seqlens_unpadded_ = false,
         has_starts_ = false;  // of the first
};

/// A step of the optimizer, over all ranks.
struct StepTotals {
    uint64_t micro_batches = 1;  ///< of each rank
    uint64_t samples = 0;
    PerColumn total{};  ///< -1: not known
};

class RandomAccess;

/// What every sampler can do: walk the batches of an epoch in order.
class Sampler {
public:
    virtual ~Sampler() = default;

    virtual SamplerKind kind() const = 0;
    /// Begins a pass over an epoch; see sab_sampler_begin().
    void begin();
    /// False when the epoch has no more batches.
    bool next(EpochBatch& batch);
    void set_epoch(uint64_t epoch);
    virtual uint64_t epoch() const = 0;
    /// Of the batch that next() shows.
    virtual uint64_t position() const = 0;
    /// Which samples an epoch has, if the sizes are a mixture.
    virtual const EpochChoice* choice() const { return nullptr; }
    /// Writes the samples that are left out, as many as there is room for; -1 where the index is
    /// not known. Returns their number.
    virtual std::size_t skipped(std::span<int64_t> room) const = 0;
    /// Batches of the epoch; none where they are not known before they are formed.
    virtual std::optional<uint64_t> known_batch_count() const { return std::nullopt; }

    /// The step of a batch that was shown since the last change. By default it is this batch alone.
    virtual StepTotals step_of(const EpochBatch& batch) {
        return {1, batch.batch.count, batch.batch.total};
    }
    /// How often the sampler went to another epoch, state or budget.
    virtual uint64_t changes() const { return changes_; }

    /// Itself, if its batches can be read in any order and its position can be saved; else null.
    /// capabilities.h refuses for those that cannot.
    virtual RandomAccess* random_access() { return nullptr; }

    /// Takes over what the caller handed to the constructor: a callback's context or a stream.
    /// Called once, when nothing can fail any more: after a failed call it is still the caller's.
    virtual void own() noexcept {}

protected:
    /// How far the pass over the epoch is.
    enum class Pass {
        ready,    ///< the cursor is where the pass begins
        running,  ///< a batch was taken
        ended     ///< the end was reported
    };

    virtual bool take(EpochBatch& batch) = 0;
    virtual void go_to_epoch(uint64_t epoch) = 0;

    Pass pass_ = Pass::ready;
    uint64_t changes_ = 0;
};

class Cursor;

/// A sampler whose batches can be read in any order, and whose position can be saved.
class RandomAccess : public Sampler {
public:
    RandomAccess* random_access() override { return this; }
    /// What walks the epochs of the data: itself, unless epochs have a number of steps of their
    /// own.
    virtual Cursor& cursor() = 0;

    // As the functions of the ABI:
    virtual void at(uint64_t position, EpochBatch& batch) = 0;
    virtual bool next_block(EpochBatch& scratch, std::size_t most, BatchArrays& block) = 0;
    virtual void seek(uint64_t position) = 0;
    /// Writes a state where there is room for it. Returns its size.
    virtual std::size_t save(std::span<std::byte> state) const = 0;
    virtual std::size_t save_at(uint64_t position, std::span<std::byte> state) = 0;
    virtual void restore(std::span<const std::byte> state) = 0;
};

}  // namespace sab

struct sab_sampler {
    sab::Tag<sab_sampler> tag{};
    std::unique_ptr<sab::Sampler> impl;
    sab::EpochBatch shown;
    // Arrays of what sab_sampler_get_rows() and sab_sampler_get_step() showed:
    std::array<const int32_t*, SAB_MAX_COLUMNS> cu_seqlens{}, cu_seqlens_unpadded{};
    sab::PerColumn step_totals{};
    // What sab_sampler_get_shape() shows, and the Sampler::changes() and epoch that it is of:
    std::vector<sab::Shape> shapes{};
    std::pair<uint64_t, uint64_t> shapes_of{sab::EpochBatch::nothing_shown, 0};
    // What sab_next_block() showed:
    sab::BatchArrays block{};
    std::array<uint64_t, 2> offsets{};
    // What sab_balanced_sampler_get_report() showed:
    struct BalanceArrays {
        sab::PerColumn totals{}, padded_totals{};
        std::array<double, SAB_MAX_BUDGETS> rank_imbalance{}, largest_rank_imbalance{},
            micro_batch_imbalance{}, time{}, least_time{};
    } balance{};
};

namespace sab {

/// What sab_sampler_get_rows() and sab_sampler_get_step() give for the batch that was shown last.
/// Refuses if there is none.
sab_rows shown_rows(sab_sampler& sampler);
/// The shapes that sab_sampler_get_shape() shows.
const std::vector<Shape>& shown_shapes(sab_sampler& sampler);
sab_step shown_step(sab_sampler& sampler);

/// Several batches; none when the epoch has no more.
std::optional<sab_block> next_block(sab_sampler& sampler, std::size_t most);

/// The handle of a sampler, which now owns what the caller handed to its constructor.
sab_sampler* new_handle(std::unique_ptr<Sampler> sampler);

}  // namespace sab
