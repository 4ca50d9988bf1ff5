#include "sampler/shape_pieces.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace sab {
namespace {

constexpr std::size_t most_pieces = 63;  // of batches that are divided together: a bit each
constexpr uint64_t most_samples = uint64_t{1} << 22, most_work = uint64_t{1} << 27;

/// Whether batches of a shape keep the budgets. Those of single samples over a budget do not.
bool fits(const Plan& plan, const BucketShape& shape) {
    const std::span<const double> lengths = plan.lengths(shape.bucket).padded_length;
    return std::ranges::all_of(plan.budgets(), [&](const Budget& budget) {
        // The plan keeps no callbacks. Without one, a batch size of 1 may be that of such samples.
        if (budget.cost.is_callback()) return plan.buckets()[shape.bucket].batch_size > 1;
        return budget.limit == 0 || budget.cost(shape.samples, lengths) <= budget.limit;
    });
}

/// The shapes that pieces of a bucket's batches may have: for each number of samples the one that
/// is padded least, by number of samples.
std::vector<std::size_t> shapes_for(const Plan& plan, std::span<const BucketShape> shapes,
                                    const std::vector<bool>& are_within, std::size_t bucket) {
    const std::span<const double> own = plan.lengths(bucket).padded_length;
    const auto padded = [&](std::size_t k) {
        const std::span<const double> lengths = plan.lengths(shapes[k].bucket).padded_length;
        return std::accumulate(lengths.begin(), lengths.end(), 0.0);
    };
    std::vector<std::size_t> found;
    for (std::size_t k = 0; k < shapes.size(); ++k)
        if (are_within[k] && plan.buckets()[shapes[k].bucket].id == plan.buckets()[bucket].id &&
            std::ranges::equal(own, plan.lengths(shapes[k].bucket).padded_length,
                               std::less_equal<>{}))
            found.push_back(k);
    std::ranges::sort(found, [&](std::size_t a, std::size_t b) {
        if (shapes[a].samples != shapes[b].samples) return shapes[a].samples < shapes[b].samples;
        return padded(a) != padded(b) ? padded(a) < padded(b) : a < b;
    });
    const auto rest = std::ranges::unique(found, std::equal_to<>{},
                                          [&](std::size_t k) { return shapes[k].samples; });
    found.erase(rest.begin(), rest.end());
    return found;
}

/// Of some numbers, in how many summands each sum can be divided: bit p of [n] is set where n is a
/// sum of p of them.
std::vector<uint64_t> summand_counts(std::span<const uint64_t> numbers, uint64_t most) {
    std::vector<uint64_t> counts(most + 1);
    counts[0] = 1;
    for (const uint64_t number : numbers)
        for (uint64_t sum = number; sum <= most; ++sum) counts[sum] |= counts[sum - number] << 1;
    return counts;
}

/// The ways to divide batches of one bucket, with its tail or without.
class Kind {
public:
    Kind(const Plan& plan, std::span<const BucketShape> shapes, const std::vector<bool>& are_within,
         const DivisibleBatch& of)
        : of_(of), shapes_(shapes_for(plan, shapes, are_within, of.bucket)) {
        for (const std::size_t k : shapes_) samples_.push_back(shapes[k].samples);
    }

    /// Up to so many batches are divided together, as far as `work` allows. From the numbers of
    /// pieces that are added by other kinds: marks those that these add.
    void reach(uint64_t joined, uint64_t& work, std::vector<bool>& is_known) {
        find_ways(joined, work);
        used_.assign(is_known.size(), never);
        last_.assign(is_known.size(), {});
        for (std::size_t sum = 0; sum < is_known.size(); ++sum) {
            if (is_known[sum]) used_[sum] = 0;
            if (!is_known[sum]) used_[sum] = add_last(sum, false);
        }
        // The tail is divided once, and first: it follows the last of the other batches.
        for (std::size_t sum = 0; sum < is_known.size(); ++sum)
            if (used_[sum] != never || add_last(sum, true) != never) is_known[sum] = true;
    }
    /// How many pieces its last division adds to reach a sum; 0: none of these.
    std::size_t more_at(std::size_t sum) const { return last_[sum].more; }

    /// The division that reaches a sum. The pieces with the most samples come first.
    DividedBatches divided(std::size_t which, std::size_t sum) const {
        const Last& last = last_[sum];
        DividedBatches found{which, ways_[last.has_tail][last.more], last.has_tail, {}};
        uint64_t left = samples_of(found.batches, found.has_tail);
        const std::vector<uint64_t> counts = summand_counts(samples_, left);
        for (uint64_t pieces = found.batches + last.has_tail + last.more; pieces-- > 0;) {
            std::size_t k = samples_.size() - 1;
            while (samples_[k] > left || (counts[left - samples_[k]] >> pieces & 1) == 0) --k;
            found.shapes.push_back(shapes_[k]);
            left -= samples_[k];
        }
        return found;
    }

private:
    static constexpr uint64_t never = ~uint64_t{0};

    /// The division that reaches a sum last.
    struct Last {
        uint8_t more = 0;  ///< pieces that are added
        bool has_tail = false;
    };

    uint64_t samples_of(uint64_t batches, bool has_tail) const {
        return batches * of_.samples + (has_tail ? of_.tail : 0);
    }

    /// The fewest batches that so many pieces more can be made of.
    void find_ways(uint64_t joined, uint64_t& work) {
        for (auto& ways : ways_) ways.assign(most_pieces + 1, never);
        joined = std::min(joined, most_samples / std::max<uint64_t>(of_.samples, 1));
        const uint64_t most = samples_of(std::min(joined, of_.batches), of_.tail > 0),
                       own = most * samples_.size();
        if (joined == 0 || samples_.empty() || own > work) return;
        work -= own;
        const std::vector<uint64_t> counts = summand_counts(samples_, most);
        for (const bool has_tail : {false, true}) {
            if (has_tail && of_.tail == 0) continue;
            for (uint64_t whole = joined; whole > 0; --whole) {
                const uint64_t batches = whole - has_tail;
                if (batches > of_.batches) continue;
                for (uint64_t more = 1; whole + more <= most_pieces; ++more)
                    if (counts[samples_of(batches, has_tail)] >> (whole + more) & 1)
                        ways_[has_tail][more] = batches;
            }
        }
    }
    /// Reaches a sum by a division of as few batches as possible. Returns all that are used then.
    uint64_t add_last(std::size_t sum, bool has_tail) {
        uint64_t fewest = never;
        for (std::size_t more = 1; more <= std::min(sum, most_pieces); ++more) {
            const uint64_t before = used_[sum - more], batches = ways_[has_tail][more];
            if (before == never || batches == never || before + batches > of_.batches ||
                before + batches >= fewest)
                continue;
            fewest = before + batches;
            last_[sum] = {static_cast<uint8_t>(more), has_tail};
        }
        return fewest;
    }

    DivisibleBatch of_;
    std::vector<std::size_t> shapes_;
    std::vector<uint64_t> samples_{};              ///< of the shapes
    std::array<std::vector<uint64_t>, 2> ways_{};  ///< without and with the tail, by added pieces
    std::vector<uint64_t> used_{};                 ///< batches, without the tail, by sum
    std::vector<Last> last_{};                     ///< by sum
};

}  // namespace

std::vector<DividedBatches> divide_by_shapes(const Plan& plan, std::span<const BucketShape> shapes,
                                             std::span<const DivisibleBatch> batches, uint64_t more,
                                             uint64_t joined) {
    static_assert(most_pieces < 64);
    if (more == 0) return {};
    std::vector<bool> are_within;
    for (const BucketShape& shape : shapes) are_within.push_back(fits(plan, shape));
    std::vector<Kind> kinds;
    for (const DivisibleBatch& of : batches) kinds.emplace_back(plan, shapes, are_within, of);
    // Those that join more batches take longer, and are seldom needed.
    std::vector<bool> is_known;
    for (uint64_t together = 1;; together = std::min(joined, 4 * together)) {
        uint64_t work = most_work;
        is_known.assign(more + 1, false);
        is_known[0] = true;
        for (Kind& kind : kinds) kind.reach(is_known[more] ? 0 : together, work, is_known);
        if (is_known[more] || together == joined) break;
    }
    std::size_t sum = more;
    while (!is_known[sum]) --sum;
    std::vector<DividedBatches> divided;
    for (std::size_t k = kinds.size(); k-- > 0;)
        for (std::size_t added = kinds[k].more_at(sum); added > 0; added = kinds[k].more_at(sum)) {
            divided.push_back(kinds[k].divided(k, sum));
            sum -= added;
        }
    return divided;
}

}  // namespace sab
