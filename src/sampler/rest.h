#pragma once
/// What is left of an epoch, cut into batches that lowered budgets pay for.

#include <cstdint>
#include <span>
#include <vector>

#include "plan/shapes.h"
#include "sampler/sequence.h"

namespace sab {

/// Where the rest of an epoch begins. The samples of each bucket are taken in the order in which
/// the batches of the epoch have them.
struct RestBegin {
    uint64_t batch = 0;          ///< of the epoch: all before it are done
    std::vector<uint64_t> done;  ///< by bucket: samples done from that batch on; empty: none
    bool operator==(const RestBegin&) const = default;
};

/// The samples that are left of each bucket, cut again. A batch stands where the batch of the epoch
/// stands that has its first sample, or near it where steps are by cost. The batches of the last
/// step, if they do not fill it, are those with the most samples, which can be split between ranks.
/// No batch has fewer samples than the fewest: samples that no such batch has room for are left
/// out. Takes 8 bytes for each batch of its own and 4 for each batch of the epoch.
class Rest : public BatchOrder {
public:
    /// `most`: samples of a batch, by bucket. `fewest`: of any batch. Refuses a beginning that
    /// cannot be.
    Rest(const Sequence& epoch, RestBegin begin, std::span<const uint64_t> most, uint64_t fewest,
         uint64_t world_size, const EpochOptions& epoch_options);
    /// The same over a copy of the epoch.
    Rest(const Rest& other, const Sequence& epoch);

    uint64_t batches() const override { return starts_.size(); }
    uint64_t rotated_rank(uint64_t step, uint64_t rank, uint64_t world) const override {
        return epoch_.rotated_rank(step, rank, world);
    }
    std::size_t bucket(uint64_t position) const override {
        return epoch_.bucket(starts_[position].batch);
    }
    bool is_continued(uint64_t position) const override {
        return epoch_.rule() == Sequence::Rule::equal_cost &&
               bucket(position) == bucket(position + 1);
    }
    uint64_t samples(uint64_t position) const override;
    double cost(uint64_t position) const override;
    PerColumn total(uint64_t position) const override;
    BatchSums sums() const override;
    void fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const override;

    /// Those of its batches, padded to the lengths of their buckets.
    std::vector<BucketShape> shapes() const;
    /// Where what is left after so many of its batches begins.
    RestBegin after(uint64_t batches) const;
    /// The samples that no batch has room for.
    std::vector<int64_t> left_out() const;

private:
    /// The first sample of a batch.
    struct Start {
        uint32_t batch;   ///< of the epoch
        uint32_t sample;  ///< of that batch
    };
    /// A batch of the epoch.
    struct Whole {
        uint32_t bucket, samples;
    };
    /// A batch before its samples are known.
    struct Label {
        uint32_t bucket;
        bool is_short;
    };
    /// How a bucket is cut.
    struct Cut {
        uint64_t left = 0;                       ///< samples
        uint64_t most = 0, batches = 0;          ///< samples of a batch; batches
        uint64_t short_samples = 0, shorts = 0;  ///< the same of those that may have fewer samples
        uint64_t last_step = 0;                  ///< batches in the last step, if that is not full
        double sample_cost = 0;
        double length = 0;  ///< as of BatchOrder
        void divide(uint64_t most_samples, uint64_t fewest);
        uint64_t samples() const { return (batches - shorts) * most + shorts * short_samples; }
        double cost(const Label& label) const {
            return sample_cost * static_cast<double>(label.is_short ? short_samples : most);
        }
    };

    std::vector<Whole> measure();
    void choose_last_step(uint64_t left);
    uint64_t lay_out(std::span<const Whole> wholes, uint64_t world_size,
                     const EpochOptions& epoch_options, bool by_cost);
    void keep_dues(uint64_t fixed, uint64_t count, uint64_t world_size);
    template <class IsShort, class Visit>
    void walk(std::span<const Whole> wholes, const IsShort& is_short, Visit&& visit) const;
    void sort_steps(std::vector<Label>& labels, uint64_t first, uint64_t world_size,
                    bool mix_lengths) const;
    void cut(std::span<const Label> labels, std::span<const Whole> wholes);

    const Sequence& epoch_;
    RestBegin begin_;
    std::vector<Cut> cuts_;       ///< by bucket
    std::vector<Start> starts_;   ///< of the batches
    std::vector<bool> is_short_;  ///< of the batches
    std::vector<uint32_t> next_;  ///< of each batch of the epoch the next one of its bucket
    mutable Batch part_;
};

}  // namespace sab
