#pragma once
/// The plans of the epochs of a mixture, which its samplers make.

#include <algorithm>
#include <memory>
#include <vector>

#include "base/made_once.h"
#include "plan/plan.h"

namespace sab {

/// The samples of a mixture of one column by size. An epoch is a walk over them.
class SortedMixture {
    /// SourceTurns in the form that is found most quickly.
    struct Window {
        uint32_t least, start;
        uint32_t length;  ///< places from `start` on, modulo 2^32, that have one more turn

        uint32_t turns(uint32_t place) const {
            return least + static_cast<uint32_t>(place - start < length);
        }
    };
    static std::vector<Window> windows_of(std::span<const SourceTurns> turns);

public:
    explicit SortedMixture(const Columns& sizes);

    /// The distinct sizes of the samples of an epoch, without their order.
    Sorted counted(std::span<const SourceTurns> turns) const;

    struct Entry {
        uint32_t sample;
        uint16_t source;
        double size;
    };

    /// Gives the samples of an epoch one after the other.
    class Walk {
    public:
        Walk(const SortedMixture& mixture, std::span<const SourceTurns> turns)
            : mixture_(mixture),
              windows_(windows_of(turns)),
              is_whole_(std::ranges::none_of(turns, &SourceTurns::extra)) {}

        /// Calls visit(i, entry, counts) for each i below `count`, ascending; so many must be left.
        /// Calls with `counts` 0 have no meaning, and the next one is for the same i: most samples
        /// that are left out are found without a branch.
        template <class Visit>
        void take(std::size_t count, Visit&& visit) {
            const Sorted& sorted = mixture_.sorted_;
            const uint32_t *const order = sorted.order.get(), *const places =
                                                                  mixture_.places_.data();
            const uint16_t* const source_of = mixture_.source_of_.data();
            const Window* const windows = windows_.data();
            std::size_t i = 0, next = next_;
            uint32_t left = left_;
            while (i < count) {
                while (next == sorted.first_offsets[distinct_ + 1]) ++distinct_;
                const std::size_t end = sorted.first_offsets[distinct_ + 1];
                const double size = sorted.distinct_sizes[distinct_];
                for (; next < end && i < count; ++next) {
                    const Entry entry{order[next], source_of[next], size};
                    const Window& window = windows[entry.source];
                    uint32_t times = is_whole_ ? window.least : window.turns(places[next]);
                    if (left > 0) times = left;
                    const auto once = static_cast<uint32_t>(times > 0);
                    uint32_t given = 0;
                    do {  // the only call, so that it is inlined
                        visit(i, entry, once);
                        i += once;
                    } while (++given < times && i < count);
                    left = given < times ? times - given : 0;
                    if (left > 0) break;
                }
            }
            left_ = left;
            next_ = next;
        }

    private:
        const SortedMixture& mixture_;
        const std::vector<Window> windows_;
        const bool is_whole_;       ///< no sample has more turns than others of its source
        std::size_t next_ = 0;      ///< of the sorted samples
        std::size_t distinct_ = 0;  ///< its size
        uint32_t left_ = 0;  ///< turns of this sample that are still to be given, if some are
    };

private:
    Sorted sorted_;
    // of the sorted samples:
    std::vector<uint16_t> source_of_;
    std::vector<uint32_t> places_;  ///< in the order of its source
};

/// Makes the plan of each epoch with the same options.
class MixedPlans {
public:
    /// `ids`: of all samples, where they separate them. Refuses options under which an epoch would
    /// fail.
    MixedPlans(Columns sizes, PlanOptions options, std::vector<int64_t> ids);

    /// The plan of an epoch is of numbers of `samples`.
    struct OfEpoch {
        std::shared_ptr<const std::vector<uint32_t>> samples;
        std::shared_ptr<const Plan> plan;
    };
    OfEpoch make(uint64_t epoch) const;
    /// Whether the samples have one column, and no ids separate them.
    bool can_sort() const { return can_sort_; }
    /// Where they can be sorted: them, which the first call sorts.
    const SortedMixture& sorted() const;
    /// The same plan without the order of its samples, where they can be sorted.
    std::shared_ptr<const Plan> make_unordered(std::span<const SourceTurns> turns) const;
    /// Of epoch 0; without an order where they can be sorted.
    const std::shared_ptr<const Plan>& first() const { return first_; }
    /// As Plan::skipped(): the samples that the plan of an epoch leaves out.
    std::size_t skipped(uint64_t epoch, std::span<int64_t> room) const;
    const std::shared_ptr<const EpochChoice>& choice() const { return sizes_.choice(); }
    /// Of the plans of all epochs.
    uint64_t fingerprint() const;

private:
    OfEpoch made_of(std::vector<uint32_t> samples) const;
    std::shared_ptr<const Plan> make_first() const;
    void refuse_oversize() const;
    bool is_oversize_possible() const;

    Columns sizes_;
    PlanOptions options_;
    std::vector<int64_t> ids_;
    bool can_sort_;
    MadeOnce<SortedMixture> sorted_{};
    std::shared_ptr<const Plan> first_{};
};

}  // namespace sab
