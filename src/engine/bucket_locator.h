#pragma once
/// Where samples are in an epoch of the bucket order.

#include <optional>
#include <utility>
#include <vector>

#include "engine/locator.h"
#include "plan/plan.h"
#include "sampler/bucket_classes.h"
#include "sampler/exchange.h"

namespace sab {

class BucketLocator : public Locator {
public:
    BucketLocator(const std::shared_ptr<const Plan>& plan, const SamplerOptions& options);

protected:
    Found find(uint64_t source, const double* sizes, uint64_t number) const override;
    void find_batches(std::span<const uint64_t> places, Appearances* found) const override;

    using First = std::pair<uint64_t, uint64_t>;
    /// The batches of a bucket.
    struct BucketOrder {
        uint64_t begin, end;  ///< its samples in the sorted order
        uint64_t batch_size;  ///< samples in a full batch
        uint64_t full = 0;    ///< samples in full batches; more than there are where it wraps
        uint64_t all = 0;     ///< samples in all batches
        CostOrder::ClassIds full_ids{};
        /// of smaller batches, after those: the first sample and the id of each
        std::vector<First> others{};
        Permutation permutation;
        bool is_of_one_class = false;
        uint64_t samples() const { return end - begin; }
    };
    static void find_batches(const BucketOrder& bucket, uint64_t offset, Appearances& found);
    /// Replaces the places of at most `block` samples by those where the epoch has them.
    void exchange(std::span<uint64_t> places) const;

    BucketLocator(const std::shared_ptr<const Plan>& plan, const SamplerOptions& options,
                  const std::optional<Cost>& balance);
    BucketLocator(std::shared_ptr<const Plan> plan, const SamplerOptions& options,
                  const Cost* balance, const std::vector<BucketClass>& classes);
    std::shared_ptr<const Plan> plan_;
    std::vector<uint64_t> begins_{};         ///< of the buckets
    std::vector<std::size_t> first_runs_{};  ///< of each size of the first column; one more: all
    std::vector<BucketOrder> buckets_{};     ///< with samples, in the sorted order

private:
    /// A SharedRun.
    struct Run {
        uint64_t begin, end;
        uint64_t first;  ///< member
        std::size_t size_class;
    };
    Exchange exchange_;
    std::vector<uint64_t> run_begins_{};
    std::vector<Run> runs_{};
    std::vector<Permutation> classes_{};
};

}  // namespace sab
