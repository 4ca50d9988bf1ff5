#include <algorithm>

#include "base/guard.h"
#include "base/sorting.h"
#include "sampler/bucket_classes.h"
#include "sampler/cursor.h"
#include "sampler/mixed_sequence.h"
#include "sampler/ordered.h"

namespace sab {
namespace {

/// Batches that are slices of a bucket's sorted offsets.
class SortedSequence : public Sequence {
public:
    struct Slice {
        std::size_t bucket;
        uint64_t first;  ///< offset in the bucket; past its end it begins again
        uint64_t count;
        std::size_t padded_to = bucket;  ///< the bucket that has the padded lengths
    };
    using Slices = std::shared_ptr<const std::vector<Slice>>;
    SortedSequence(std::shared_ptr<const Plan> plan, SamplerKind kind, std::vector<Slice> slices)
        : reader_(std::move(plan)),
          kind_(kind),
          slices_(std::make_shared<const std::vector<Slice>>(std::move(slices))) {}

    /// All batches by size. Those of few shapes are divided to fill steps of `step_batches`.
    static std::vector<Slice> all_slices(const Plan& plan, uint64_t step_batches) {
        std::vector<Slice> slices;
        for (const BucketClass& each : filling_steps(plan, bucket_classes(plan), step_batches))
            for (uint64_t i = 0; i < each.batches.batches; ++i)
                slices.push_back({each.bucket, each.first + i * each.batches.samples,
                                  each.batches.samples, each.padded_to});
        std::ranges::sort(slices, {}, [](const Slice& s) { return std::pair(s.bucket, s.first); });
        return slices;
    }

    std::unique_ptr<EpochOrder> make_epoch_order(const EpochOptions& epoch_options) const override {
        if (!reader_.plan().has_few_shapes() || !is_sequential()) return nullptr;
        return std::make_unique<EpochOrderOf<Slices>>(std::make_shared<const std::vector<Slice>>(
            all_slices(reader_.plan(), epoch_options.filled())));
    }
    void exchange(EpochOrder& epoch_order) noexcept override {
        std::swap(slices_, static_cast<EpochOrderOf<Slices>&>(epoch_order).value);
    }

    std::unique_ptr<Sequence> copy() const override {
        return std::make_unique<SortedSequence>(*this);
    }
    SamplerKind kind() const override { return kind_; }
    uint64_t fingerprint() const override { return reader_.plan().fingerprint(); }
    std::size_t skipped(std::span<int64_t> room) const override {
        return reader_.plan().skipped(room);
    }
    uint64_t batches() const override { return slices_->size(); }
    const Plan* plan() const override { return &reader_.plan(); }
    std::size_t bucket(uint64_t position) const override { return (*slices_)[position].bucket; }
    uint64_t samples(uint64_t position) const override { return (*slices_)[position].count; }
    double cost(uint64_t position) const override {
        const Slice& slice = (*slices_)[position];
        const Bucket& bucket = reader_.plan().buckets()[slice.padded_to];
        return bucket.cost * static_cast<double>(slice.count) /
               static_cast<double>(bucket.batch_size);
    }
    BatchSums sums() const override {
        return is_sequential() ? sums_of(reader_.plan()) : Sequence::sums();
    }
    PerColumn total(uint64_t position) const override {
        const Slice& slice = (*slices_)[position];
        return reader_.total(slice.bucket, places(slice, 0, slice.count));
    }
    void fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const override {
        const Slice& slice = (*slices_)[position];
        reader_.read(slice.bucket, places(slice, first, count), batch);
        if (slice.padded_to != slice.bucket && count > 0)
            pad_to(reader_.plan(), slice.padded_to, batch);
    }

private:
    bool is_sequential() const { return kind_ == kind_of("sab_sequential_sampler_new"); }
    std::span<const uint32_t> places(const Slice& slice, uint64_t first, uint64_t count) const {
        const Bucket& bucket = reader_.plan().buckets()[slice.bucket];
        if (places_.size() != count) places_.resize(count);  // out of line, whatever it changes
        uint64_t at = slice.first + first;
        if (at >= bucket.samples()) at %= bucket.samples();
        for (uint32_t& place : places_) {
            place = static_cast<uint32_t>(bucket.begin + at);
            if (++at == bucket.samples()) at = 0;
        }
        return places_;
    }

    PlanReader reader_;
    SamplerKind kind_;
    Slices slices_;
    mutable std::vector<uint32_t> places_;
};

std::unique_ptr<Sequence> make_sequential_sequence(std::shared_ptr<const Plan> plan) {
    std::vector<SortedSequence::Slice> slices = SortedSequence::all_slices(*plan, 1);
    return std::make_unique<SortedSequence>(std::move(plan), kind_of("sab_sequential_sampler_new"),
                                            std::move(slices));
}

/// The cost of the costliest batch.
double most_cost(const Plan& plan) {
    double most = 0;
    for (const Bucket& bucket : plan.buckets()) most = std::max(most, bucket.cost);
    return most;
}

std::unique_ptr<Sequence> make_costliest(std::shared_ptr<const Plan> plan, uint64_t count) {
    if (plan->second() && most_cost(*plan->second()) > most_cost(*plan)) plan = plan->second();
    const std::vector<uint32_t> by_cost = by_descending(keys_of(plan->buckets(), &Bucket::cost));
    std::vector<SortedSequence::Slice> slices;
    count = std::min(count, plan->facts().batches);
    for (uint64_t row = 0; slices.size() < count; ++row)
        for (const uint32_t b : by_cost) {
            const Bucket& bucket = plan->buckets()[b];
            if (row >= bucket.batches || slices.size() == count) continue;
            const uint64_t end = bucket.samples() - row * bucket.batch_size;
            const uint64_t size = plan->facts().tail == SAB_TAIL_WRAP
                                      ? bucket.batch_size
                                      : std::min(bucket.batch_size, end);
            slices.push_back({b, end < size ? 0 : end - size, size});
        }
    return std::make_unique<SortedSequence>(std::move(plan), kind_of("sab_costliest_sampler_new"),
                                            std::move(slices));
}

}  // namespace

std::unique_ptr<Sequence> make_costliest_sequence(const sab_plan& plan, uint64_t count) {
    return sequence_of(
        plan, kind_of("sab_costliest_sampler_new"),
        [count](std::shared_ptr<const Plan> of, auto) {
            return make_costliest(std::move(of), count);
        },
        true);
}

}  // namespace sab

extern "C" {

sab_status sab_sequential_sampler_new(const sab_plan* plan, const sab_sampler_options* options,
                                      sab_sampler** sampler) noexcept {
    return sab::guard_new(sampler, "sampler", [&] {
        sab::require(plan, "plan");
        const sab::SamplerOptions given(sab::read_options(options));
        sab::refuse_shuffling(given);
        const auto make = [](std::shared_ptr<const sab::Plan> of, auto) {
            return sab::make_sequential_sequence(std::move(of));
        };
        return sab::new_cursor(
            sab::sequence_of(*plan, sab::kind_of("sab_sequential_sampler_new"), make, true), given);
    });
}

sab_status sab_costliest_sampler_new(const sab_plan* plan, uint64_t count,
                                     sab_sampler** sampler) noexcept {
    return sab::guard_new(sampler, "sampler", [&] {
        sab::require(plan, "plan");
        sab::check(count >= 1, "count", count, "must be at least 1");
        return sab::new_cursor(sab::make_costliest_sequence(*plan, count), {});
    });
}

sab_status sab_ordered_sampler_new(const int64_t* indices, size_t count, const sab_sizes* sizes,
                                   double limit, const sab_sampler_options* options,
                                   sab_sampler** sampler) noexcept {
    return sab::guard_new(sampler, "sampler", [&] {
        sab::require(sizes, "sizes");
        const sab::SamplerOptions given(sab::read_options(options));
        sab::refuse_shuffling(given);
        return sab::new_cursor(
            sab::make_ordered_sequence(indices, count, sizes->impl.only(), limit), given);
    });
}

}  // extern "C"
