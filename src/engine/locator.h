#pragma once
/// Where samples are in an epoch: the inverse of the bucket order.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sab/engine.h"
#include "sampler/cost_order.h"

namespace sab {

class Locator {
public:
    Locator(const std::shared_ptr<const Plan>& plan, const sab_sampler_options& options);

    /// The place of each sample in the sorted order. Refuses samples that the plan does not have.
    std::vector<uint64_t> find(std::span<const double> sizes,
                               std::span<const uint64_t> numbers) const;
    /// Batches that each rank takes in the epoch.
    uint64_t batch_count() const { return batch_count_; }
    /// Fills the arrays that are not null. `which`: may be null. Cannot fail.
    void locate(std::span<const uint64_t> places, const uint64_t* which,
                const sab_places& out) const;

private:
    /// The batches of a bucket.
    struct BucketOrder {
        uint64_t begin, end;  ///< its samples in the sorted order
        uint64_t batch_size;  ///< samples in a full batch
        uint64_t full = 0;    ///< samples in full batches; more than there are where it wraps
        uint64_t all = 0;     ///< samples in all batches
        CostOrder::ClassIds full_ids{};
        uint64_t tail_id = 0;  ///< of the smaller last batch
        Permutation permutation;
        uint64_t samples() const { return end - begin; }
    };

    /// A sample on the way to its places.
    struct Found {
        const BucketOrder* bucket;
        bool is_in_bucket;
        uint64_t offset;  ///< in the permuted bucket
        uint32_t appearances;
        uint64_t position[2];  ///< of its batches
        uint64_t slot[2];
    };
    /// Where a rank takes it.
    struct Taken {
        uint64_t rank, batch, slot;
    };

    static constexpr std::size_t block = 128;
    void find_offsets(std::span<const uint64_t> places, Found* found) const;
    uint32_t find_batches(Found& found, uint64_t* ids) const;
    Taken taken(uint64_t position, uint64_t slot) const;
    void write(Found& found, uint64_t asked, std::size_t i, const sab_places& out) const;

    std::shared_ptr<const Plan> plan_;
    sab_sampler_options options_;
    CostOrder order_;
    uint64_t batch_count_ = 0;
    uint64_t limit_ = 0;  ///< positions that the ranks take, with those that they repeat
    std::vector<uint64_t> pieces_{};         ///< of each batch of the last step, where it is split
    std::vector<uint64_t> pieces_before_{};  ///< of the batches before
    std::vector<uint64_t> begins_{};         ///< of the buckets
    std::vector<BucketOrder> buckets_{};     ///< with samples, in the sorted order
};

}  // namespace sab
