#include <algorithm>

#include "sampler/sequence.h"

namespace sab {
namespace {

/// Batches that are stretches of a bucket's sorted places.
class StretchSequence : public Sequence {
public:
    struct Stretch {
        std::size_t bucket;
        uint64_t first;  ///< place inside the bucket; places past its end begin again at its start
        uint64_t count;
    };
    StretchSequence(std::shared_ptr<const Plan> plan, SamplerKind kind,
                    std::vector<Stretch> stretches)
        : reader_(std::move(plan)), kind_(kind), stretches_(std::move(stretches)) {}

    SamplerKind kind() const override { return kind_; }
    uint64_t fingerprint() const override { return reader_.plan().fingerprint(); }
    uint64_t skipped() const override { return reader_.plan().facts().skipped; }
    uint64_t batches() const override { return stretches_.size(); }
    const Plan* plan() const override { return &reader_.plan(); }
    std::size_t bucket(uint64_t position) const override { return stretches_[position].bucket; }
    uint64_t samples(uint64_t position) const override { return stretches_[position].count; }
    double cost(uint64_t position) const override {
        const Stretch& stretch = stretches_[position];
        const Bucket& bucket = reader_.plan().buckets()[stretch.bucket];
        return bucket.cost * static_cast<double>(stretch.count) /
               static_cast<double>(bucket.batch_size);
    }
    double total(uint64_t position) const override {
        const Stretch& stretch = stretches_[position];
        return reader_.total(reader_.plan().buckets()[stretch.bucket],
                             places(stretch, 0, stretch.count));
    }
    void fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const override {
        const Stretch& stretch = stretches_[position];
        reader_.read(stretch.bucket, places(stretch, first, count), batch);
    }

private:
    std::span<const uint32_t> places(const Stretch& stretch, uint64_t first, uint64_t count) const {
        const uint64_t samples = reader_.plan().buckets()[stretch.bucket].samples();
        places_.resize(count);
        for (uint64_t i = 0; i < count; ++i)
            places_[i] = static_cast<uint32_t>((stretch.first + first + i) % samples);
        return places_;
    }

    PlanReader reader_;
    SamplerKind kind_;
    std::vector<Stretch> stretches_;
    mutable std::vector<uint32_t> places_;
};

}  // namespace

std::unique_ptr<Sequence> make_sequential_sequence(std::shared_ptr<const Plan> plan) {
    std::vector<StretchSequence::Stretch> stretches;
    for (std::size_t b = 0; b < plan->buckets().size(); ++b) {
        const Bucket& bucket = plan->buckets()[b];
        for (uint64_t i = 0; i < bucket.batches; ++i) {
            const uint64_t first = i * bucket.batch_size;
            const bool is_short =
                plan->facts().tail != SAB_TAIL_WRAP && bucket.samples() - first < bucket.batch_size;
            stretches.push_back(
                {b, first, is_short ? bucket.samples() - first : bucket.batch_size});
        }
    }
    return std::make_unique<StretchSequence>(std::move(plan), SamplerKind::sequential,
                                             std::move(stretches));
}

std::unique_ptr<Sequence> make_worst_sequence(std::shared_ptr<const Plan> plan, uint64_t count) {
    std::vector<std::size_t> by_cost;
    for (std::size_t b = 0; b < plan->buckets().size(); ++b)
        if (plan->buckets()[b].batches > 0) by_cost.push_back(b);
    std::ranges::stable_sort(by_cost, [&](std::size_t a, std::size_t b) {
        return plan->buckets()[a].cost > plan->buckets()[b].cost;
    });
    std::vector<StretchSequence::Stretch> stretches;
    count = std::min(count, plan->facts().batches);
    for (uint64_t round = 0; stretches.size() < count; ++round)
        for (const std::size_t b : by_cost) {
            const Bucket& bucket = plan->buckets()[b];
            if (round >= bucket.batches || stretches.size() == count) continue;
            const uint64_t end = bucket.samples() - round * bucket.batch_size;
            const uint64_t size = plan->facts().tail == SAB_TAIL_WRAP
                                      ? bucket.batch_size
                                      : std::min(bucket.batch_size, end);
            stretches.push_back({b, end < size ? 0 : end - size, size});
        }
    return std::make_unique<StretchSequence>(std::move(plan), SamplerKind::worst,
                                             std::move(stretches));
}

}  // namespace sab
