#include "sampler/shape_pieces.h"

#include <algorithm>
#include <bit>
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

/// The ways to divide one kind of batches.
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
        constexpr uint64_t never = ~uint64_t{0};
        find_ways(joined, work);
        std::vector<uint64_t> used(is_known.size(), never);  // batches
        more_.assign(is_known.size(), 0);
        for (std::size_t sum = 0; sum < is_known.size(); ++sum) {
            if (is_known[sum]) used[sum] = 0;
            for (std::size_t more = 1; !is_known[sum] && more <= std::min(sum, ways_.size() - 1);
                 ++more) {
                const uint64_t before = used[sum - more];
                if (ways_[more] == 0 || before == never || before + ways_[more] > of_.batches ||
                    before + ways_[more] >= used[sum])
                    continue;
                used[sum] = before + ways_[more];
                more_[sum] = static_cast<uint8_t>(more);
            }
        }
        for (std::size_t sum = 0; sum < is_known.size(); ++sum)
            if (more_[sum] > 0) is_known[sum] = true;
    }
    /// How many pieces its last division adds to reach a sum; 0: none of these.
    std::size_t more_at(std::size_t sum) const { return more_.empty() ? 0 : more_[sum]; }

    /// The division that adds so many pieces. Those with the most samples come first.
    DividedBatches divided(std::size_t which, std::size_t more) const {
        DividedBatches found{which, ways_[more], {}};
        uint64_t left = found.batches * of_.samples;
        const std::vector<uint64_t> counts = summand_counts(samples_, left);
        for (uint64_t pieces = found.batches + more; pieces-- > 0;) {
            std::size_t k = samples_.size() - 1;
            while (samples_[k] > left || (counts[left - samples_[k]] >> pieces & 1) == 0) --k;
            found.shapes.push_back(shapes_[k]);
            left -= samples_[k];
        }
        return found;
    }

private:
    /// The fewest batches that so many pieces more can be made of; 0: of none.
    void find_ways(uint64_t joined, uint64_t& work) {
        ways_.assign(most_pieces + 1, 0);
        joined = std::min({joined, of_.batches, most_samples / std::max<uint64_t>(of_.samples, 1)});
        const uint64_t own = joined * of_.samples * samples_.size();
        if (joined == 0 || samples_.empty() || own > work) return;
        work -= own;
        const std::vector<uint64_t> counts = summand_counts(samples_, joined * of_.samples);
        for (uint64_t batches = joined; batches > 0; --batches)
            for (uint64_t more = 1; batches + more <= most_pieces; ++more)
                if (counts[batches * of_.samples] >> (batches + more) & 1) ways_[more] = batches;
    }

    DivisibleBatch of_;
    std::vector<std::size_t> shapes_;
    std::vector<uint64_t> samples_{};  ///< of the shapes
    std::vector<uint64_t> ways_{};     ///< by pieces that are added
    std::vector<uint8_t> more_{};      ///< by sum
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
            divided.push_back(kinds[k].divided(k, added));
            sum -= added;
        }
    return divided;
}

}  // namespace sab
