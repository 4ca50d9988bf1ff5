#pragma once
/// The batches of an epoch in one global order, before they are assigned to ranks.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace sab {

struct Sample {
    int64_t index;
    double size;  ///< of the only column
};

/// A batch, or a rank's part of one.
struct Batch {
    std::vector<int64_t> buffer;  ///< grows, never shrinks: the first `count` are the batch
    uint64_t count = 0;
    std::size_t columns = 1;
    PerColumn longest{};
    PerColumn total{};
    PerColumn padded_length{};
    int64_t bucket = -1;
    int64_t id = 0;          ///< of its samples, where ids separate them
    bool is_row = false;     ///< its samples are end to end
    PerColumn capacity{-1};  ///< of a row; -1: not fixed
    /// of a row of whole-number sizes, one a column; else none
    std::vector<std::vector<int32_t>> cu_seqlens{};
    /// the same of the true lengths, where `cu_seqlens` are those of rounded ones; else none
    std::vector<std::vector<int32_t>> cu_seqlens_unpadded{};
    /// of packed batches that may hold pieces: grows as `buffer` does; else empty
    std::vector<int64_t> starts;

    /// Of a row of whole-number sizes, by column.
    const std::vector<int32_t>& true_cu_seqlens(std::size_t column) const {
        return (cu_seqlens_unpadded.empty() ? cu_seqlens : cu_seqlens_unpadded)[column];
    }

    /// Room for `n` indices, which become the batch's.
    std::span<int64_t> room(uint64_t n) {
        if (buffer.size() < n) buffer.resize(n);
        count = n;
        return {buffer.data(), n};
    }

    /// Takes `n` samples of one column, given by `sample(i)`, which are padded to the longest and
    /// of no bucket.
    template <class Get>
    void fill(uint64_t n, Get&& sample) {
        int64_t* const indices = room(n).data();
        double most = 0, sum = 0;
        for (uint64_t i = 0; i < n; ++i) {
            const Sample each = sample(i);
            indices[i] = each.index;
            most = std::max(most, each.size);
            sum += each.size;
        }
        longest[0] = padded_length[0] = most;
        total[0] = sum;
        bucket = -1;
    }
};

/// What batches hold together.
struct BatchSums {
    double samples = 0;
    PerColumn total{};
    void add(const BatchSums& other, double times = 1) {
        samples += times * other.samples;
        sab::add(other.total, times, total);
    }
};

/// All that the batches of a plan hold. Where the tail policy drops or repeats samples of a bucket,
/// they count as the mean of the bucket.
BatchSums sums_of(const Plan& plan);

/// What the order of an epoch depends on, besides the batches.
struct EpochOptions {
    uint64_t seed = 0;
    uint64_t epoch = 0;
    /// batches of a step: the world size that began the epoch
    uint64_t step_batches = 1;
    uint64_t costliest_first = 0;
    uint64_t micro_batches = 1;  ///< of an optimizer step, of each rank
    bool mix_lengths = false;    ///< in the batches of a step
    /// batches of few shapes are divided so that they fill all steps
    bool fills_steps = false;
    /// Batches of such a step; 1: batches stay whole.
    uint64_t filled() const { return fills_steps ? step_batches : 1; }
    bool operator==(const EpochOptions&) const = default;
};

/// Kinds of samplers, as states name them: the FNV-1a (32 bits) of the constructor's name.
enum class SamplerKind : uint32_t {};

constexpr SamplerKind kind_of(std::string_view constructor) {
    uint32_t hash = 2166136261u;
    for (const char letter : constructor)
        hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619u;
    return SamplerKind{hash};
}

struct OrderState;

/// Copies as many of the indices as there is room for. Returns their number.
template <class Index>
std::size_t copy_indices(std::span<const Index> indices, std::span<int64_t> room) {
    std::ranges::copy(indices.first(std::min(indices.size(), room.size())), room.begin());
    return indices.size();
}

/// Batches in one order.
class BatchOrder {
public:
    virtual ~BatchOrder() = default;
    virtual uint64_t batches() const = 0;
    /// Which of a step's `world` batches or pieces a rank takes.
    virtual uint64_t rotated_rank(uint64_t /*step*/, uint64_t rank, uint64_t /*world*/) const {
        return rank;
    }

    // Of the batch at a position below batches():
    virtual uint64_t samples(uint64_t position) const = 0;
    virtual double cost(uint64_t position) const = 0;  ///< in any one unit
    virtual PerColumn total(uint64_t position) const = 0;
    virtual std::size_t bucket(uint64_t) const { return 0; }  ///< of the plan
    /// Whether the samples of the next batch follow those of this one in the same bucket, so that a
    /// part may begin in one and end in the other.
    virtual bool is_continued(uint64_t) const { return false; }
    /// Samples and total; of a sequence of which each rank has its own, the mean of the ranks.
    virtual BatchSums sums_at(uint64_t position) const {
        return {static_cast<double>(samples(position)), total(position)};
    }
    /// The same of all batches.
    virtual BatchSums sums() const;
    /// What batches of nearly equal cost are sorted by; 0: nothing.
    virtual double length(uint64_t) const { return 0; }
    /// The part of `count` samples from `first` on, which may reach into batches that continue this
    /// one; 0 for a rank of a last step with fewer samples than ranks.
    virtual void fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const = 0;
};

/// The batches of epochs.
class Sequence : public BatchOrder {
public:
    /// What its order is for.
    enum class Rule {
        sorted,      ///< by size
        equal_cost,  ///< of the batches of a step
        dues,        ///< of the sources of a mixture
    };
    virtual Rule rule() const { return Rule::sorted; }
    /// One with the present epoch order, for another thread: it shares what never changes. It makes
    /// no other epoch order.
    virtual std::unique_ptr<Sequence> copy() const = 0;
    virtual SamplerKind kind() const = 0;
    virtual uint64_t fingerprint() const = 0;  ///< of what the sequence is made from
    /// Writes the samples that are left out, as many as there is room for. Returns their number.
    virtual std::size_t skipped(std::span<int64_t> room) const = 0;
    /// The order of an epoch, kept apart from the sequence until all that belongs to it is ready.
    class EpochOrder {
    public:
        virtual ~EpochOrder() = default;
    };
    /// Makes the order of an epoch; null if all epochs are the same.
    virtual std::unique_ptr<EpochOrder> make_epoch_order(const EpochOptions&) const {
        return nullptr;
    }
    /// Swaps the present epoch order with another one. Not called with null.
    virtual void exchange(EpochOrder&) noexcept {}
    /// An epoch order of which positions and steps before the first ones cannot be reached.
    struct Restored {
        std::unique_ptr<EpochOrder> epoch_order;
        uint64_t first_position = 0;
        uint64_t first_step = 0;
    };
    /// Of a sequence that cuts its batches for the ranks at hand: the body of a state that stands
    /// in a step, counted from the first that can be reached. Else none: the cursor has its own.
    virtual std::vector<uint64_t> state_body(uint64_t /*step*/) const { return {}; }
    /// The epoch order from such a state. Refuses one that cannot be.
    virtual Restored restored(const OrderState&, std::span<const uint64_t> /*body*/) const {
        return {};
    }
    /// Whether all epochs have the same number of batches.
    virtual bool has_equal_epochs() const { return choice() == nullptr; }
    /// As Sampler::own().
    virtual void own() noexcept {}
    /// Which samples an epoch has, if the sizes are a mixture.
    virtual const EpochChoice* choice() const { return nullptr; }
    /// The sequence of the present epoch, if one is made for each.
    virtual const Sequence& of_epoch() const { return *this; }
    /// The plan whose batches they are, if they are a plan's.
    virtual const Plan* plan() const { return nullptr; }

    /// Of the sizes.
    virtual std::size_t columns() const { return plan() != nullptr ? plan()->columns() : 1; }

    /// Samples of all ranks in that micro-batch, where other ranks take batches of sequences of
    /// their own.
    virtual uint64_t samples_of_ranks(uint64_t position) const { return samples(position); }
    virtual bool has_others() const { return false; }
    /// Ranks whose batches it can give, where each takes batches of samples of its own; else 1.
    virtual uint64_t shards() const { return 1; }
    /// The batch that one of them takes. Its samples are numbered over all shards.
    virtual void fill_shard(uint64_t position, uint64_t /*shard*/, Batch& batch) const {
        fill(position, 0, samples(position), batch);
    }
};

/// An epoch order that holds a value.
template <class Value>
class EpochOrderOf : public Sequence::EpochOrder {
public:
    explicit EpochOrderOf(Value made) : value(std::move(made)) {}
    Value value;
};

/// Gives a batch the padded lengths of a bucket.
void pad_to(const Plan& plan, std::size_t bucket, Batch& batch);

/// Reads batches of a plan from places of its order.
class PlanReader {
public:
    explicit PlanReader(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}
    const Plan& plan() const { return *plan_; }
    /// Goes on with other buckets of the same plan.
    void change(std::shared_ptr<const Plan> plan) noexcept { plan_ = std::move(plan); }
    PerColumn total(std::size_t bucket, std::span<const uint32_t> places) const;
    void read(std::size_t bucket, std::span<const uint32_t> places, Batch& batch) const;

private:
    double size_at(const Bucket& bucket, uint32_t place) const;
    double total_of_one(const Bucket& bucket, const SizeRange& range,
                        std::span<const uint32_t> places) const;
    void measure(std::size_t bucket, std::span<const uint32_t> places, PerColumn& longest,
                 PerColumn& total) const;
    void expect(const Bucket& bucket, std::span<const uint32_t> places) const;
    void verify_order(const Bucket& bucket, std::span<const uint32_t> places) const;
    void verify_codes(std::span<const uint32_t> places) const;
    std::shared_ptr<const Plan> plan_;
    mutable bool is_first_ = true;  ///< whether nothing was read yet
};

/// The bucket order: shuffled. `balance`: the cost that steps even out; null: that of the first
/// budget.
std::unique_ptr<Sequence> make_bucket_sequence(const std::shared_ptr<const Plan>& plan,
                                               const Cost* balance = nullptr);
/// That of a plan which may be of a mixture.
std::unique_ptr<Sequence> make_bucket_sequence(const sab_plan& plan, const Cost* balance);
/// The costliest batches that there can be.
std::unique_ptr<Sequence> make_costliest_sequence(const sab_plan& plan, uint64_t count);

}  // namespace sab
