#include "plan/second_buckets.h"

#include <algorithm>
#include <utility>

#include "plan/plan_rules.h"

namespace sab {
namespace {

/// What an epoch takes.
uint64_t batches_of(const std::vector<BucketRange>& ranges, sab_tail tail) {
    uint64_t batches = 0;
    for (const BucketRange& range : ranges)
        batches +=
            tail == SAB_TAIL_DROP ? (range.end - range.begin) / range.batch_size : range.batches();
    return batches;
}

/// The most batches of a plan that misses its target: those of equal buckets, and without a given
/// number of batches a bucket, also a quarter more than those of the sorted cut.
uint64_t most_that_miss(BoundaryFinder& finder, const PlanOptions& options, uint64_t lower_bound) {
    const uint64_t usual = automatic_range(options, lower_bound, finder.samples()).most,
                   equal = finder.waste(finder.equal_buckets(usual, false)).batches;
    if (options.bucket_batches > 1) return equal;
    const uint64_t cut = finder.sorted_cut();
    return std::min(equal, cut + cut / 4);
}

/// The fewest batches of a bucket, but for those of the longest 1 % of the samples.
uint64_t fewest_batches(const std::vector<BucketRange>& ranges, uint64_t samples) {
    const uint64_t longest = ranges.back().end - samples / 100;
    uint64_t fewest = UINT64_MAX;
    for (const BucketRange& range : ranges)
        if (range.end <= longest) fewest = std::min(fewest, range.batches());
    return fewest;
}

/// How many buckets, from the shortest samples on, have all but a share of the pairs of batch
/// mates.
std::size_t buckets_without(const std::vector<BucketRange>& ranges, double share) {
    const auto pairs = [](const BucketRange& range) {
        return static_cast<double>(range.end - range.begin) *
               static_cast<double>(range.batch_size - 1);
    };
    double left = 0;
    for (const BucketRange& range : ranges) left += share * pairs(range);
    std::size_t count = ranges.size();
    while (count > 0 && pairs(ranges[count - 1]) <= left) left -= pairs(ranges[--count]);
    return count;
}

/// Looks for two sets that are better than one.
class SetFinder {
public:
    SetFinder(BoundaryFinder& finder, const std::vector<BucketRange>& only,
              const PlanOptions& options, uint64_t lower_bound, const Waste& singles)
        : finder_(finder),
          options_(options),
          lower_bound_(lower_bound),
          singles_(singles),
          padding_(padding_of(only)),
          meet_again_(finder.meet_again(only, only, true)),
          is_met_(overhead_of(only) <= options.padding_target),
          most_wasted_(is_met_ ? options.padding_target : 1.25 * overhead_of(only)),
          most_(batches_of(only, SAB_TAIL_KEEP) * 101 / 100) {
        if (!is_met_) most_ = std::min(most_, most_that_miss(finder, options, lower_bound));
    }
    /// Whether two sets were found.
    bool is_good() const { return best_.loss <= most_loss; }
    /// Whether two would win enough, whatever their batches and the target are.
    bool has_gain() const { return has_gain_; }
    PlanRanges take() { return std::move(best_.ranges); }

    /// Tries a second set for this first one.
    void add(const std::vector<BucketRange>& first) {
        const uint64_t fewest = fewest_batches(first, finder_.samples());
        if (first.size() < 2 || fewest < 2 || fewest == UINT64_MAX) return;
        // Few samples fill a batch of long ones: other borders there cost much and change few
        // pairs. So the longest may keep their buckets.
        for (const double share : {0.0, 0.02, 0.05, 0.1, 0.2, 0.3})
            if (const std::size_t count = buckets_without(first, share); count > 0)
                add(first, count, fewest);
    }

private:
    static constexpr double most_loss = 0.9;
    /// `loss`: the mates that meet again times the padding, each to those of one set.
    struct Tried {
        PlanRanges ranges{};
        double loss = 1;
    };
    double overhead_of(const std::vector<BucketRange>& ranges) const {
        return overhead(finder_.waste(ranges) + singles_, lower_bound_, !options_.budgets.empty());
    }
    /// Hardly any counts as none.
    double padding_of(const std::vector<BucketRange>& ranges) const {
        const Waste waste = finder_.waste(ranges);
        return std::max(waste.padding, 1e-4 * waste.padded);
    }
    double loss_of(const PlanRanges& sets) const {
        return finder_.meet_again(sets.first, sets.second, true) / meet_again_ *
               (padding_of(sets.first) + padding_of(sets.second)) / (2 * padding_);
    }
    /// Makes the set with fewer batches anew, between the buckets of the other, until both have as
    /// many. Smaller batches instead would cost less than others, for which ranks wait.
    bool equalize(PlanRanges& sets, uint64_t fewest, uint64_t most) {
        for (int made = 0;; ++made) {
            const uint64_t of_first = batches_of(sets.first, SAB_TAIL_KEEP),
                           of_second = batches_of(sets.second, SAB_TAIL_KEEP);
            if (of_first == of_second || made == 2) return of_first == of_second;
            if (of_first > of_second) std::swap(sets.first, sets.second);
            sets.first = finder_.between(sets.second, fewest, std::max(of_first, of_second), most);
            if (sets.first.empty()) return false;
        }
    }
    void add(const std::vector<BucketRange>& first, std::size_t count, uint64_t fewest) {
        const auto kept = first.begin() + static_cast<std::ptrdiff_t>(count);
        const uint64_t of_kept = batches_of({kept, first.end()}, SAB_TAIL_KEEP);
        if (of_kept >= most_) return;
        const uint64_t most = most_ - of_kept;
        const auto with_kept = [&](PlanRanges sets) {
            for (std::vector<BucketRange>* set : {&sets.first, &sets.second})
                set->insert(set->end(), kept, first.end());
            return sets;
        };
        PlanRanges sets{{first.begin(), kept}, {}};
        sets.second = finder_.between(sets.first, fewest, 0, most);
        if (sets.second.empty() || loss_of(with_kept(sets)) > most_loss) return;
        has_gain_ = true;
        if (!equalize(sets, fewest, most)) return;
        sets = with_kept(std::move(sets));
        const double loss = loss_of(sets);
        if (loss < best_.loss && overhead_of(sets.first) <= most_wasted_ &&
            overhead_of(sets.second) <= most_wasted_ &&
            batches_of(sets.first, options_.tail) == batches_of(sets.second, options_.tail))
            best_ = {std::move(sets), loss};
    }

    BoundaryFinder& finder_;
    const PlanOptions& options_;
    const uint64_t lower_bound_;
    const Waste singles_;
    // of one set:
    const double padding_, meet_again_;
    const bool is_met_;  ///< the target
    // of each of two:
    const double most_wasted_;
    uint64_t most_;  ///< batches
    bool has_gain_ = false;
    Tried best_;
};

}  // namespace

PlanRanges with_second_buckets(BoundaryFinder& finder, std::vector<BucketRange> only,
                               const PlanOptions& options, uint64_t lower_bound,
                               const Waste& singles) {
    // Small buckets have no room for other borders. The fewest samples of a batch decide whether
    // there is a last step, which must not differ between epochs.
    if (options.has_one_set || options.has_ids || options.min_batch_size > 1 ||
        options.bucket_batches == 1)
        return {std::move(only), {}};
    const uint64_t fewest = fewest_batches(only, finder.samples());
    if (only.size() < 2 || fewest < 2 || fewest == UINT64_MAX) return {std::move(only), {}};
    SetFinder sets(finder, only, options, lower_bound, singles);
    sets.add(only);
    // Somewhat smaller buckets leave room below the target. The numbers of batches of somewhat
    // other ones may agree.
    const uint64_t least = std::max<uint64_t>(
                       2, automatic_range(options, lower_bound, finder.samples()).fewest),
                   step = (fewest + 15) / 16;
    for (uint64_t change = step; 4 * change <= fewest; change += step)
        for (const uint64_t tried : {fewest - change, fewest + change})
            if (sets.has_gain() && !sets.is_good() && tried >= least)
                sets.add(finder.by_fewest_batches(tried, finder.equal_buckets(tried)));
    return sets.is_good() ? sets.take() : PlanRanges{std::move(only), {}};
}

}  // namespace sab
