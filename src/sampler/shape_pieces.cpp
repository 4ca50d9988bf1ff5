#include "sampler/shape_pieces.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace sab {
namespace {

constexpr std::size_t most_pieces = 63;  // of a batch: a bit each
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
    uint64_t work() const { return of_.samples * samples_.size(); }
    bool is_divisible() const {
        return of_.batches > 0 && of_.samples <= most_samples && !samples_.empty() &&
               2 * samples_.front() <= of_.samples;
    }

    /// From the numbers of pieces that are added by other kinds: marks those that these add.
    void reach(std::vector<bool>& is_known) {
        constexpr uint64_t never = ~uint64_t{0};
        // bit k: a batch can be divided into k + 1 pieces, k more
        const uint64_t ways = summand_counts(samples_, of_.samples)[of_.samples] >> 1;
        std::vector<uint64_t> used(is_known.size(), never);  // batches
        more_.assign(is_known.size(), 0);
        for (std::size_t sum = 0; sum < is_known.size(); ++sum) {
            if (is_known[sum]) {
                used[sum] = 0;
                continue;
            }
            for (uint64_t left = ways & ~uint64_t{1}; left != 0; left &= left - 1) {
                const auto more = static_cast<std::size_t>(std::countr_zero(left));
                if (more > sum) break;
                const uint64_t before = used[sum - more];
                if (before >= of_.batches || before + 1 >= used[sum]) continue;
                used[sum] = before + 1;
                more_[sum] = static_cast<uint8_t>(more);
            }
        }
        for (std::size_t sum = 0; sum < is_known.size(); ++sum)
            if (more_[sum] > 0) is_known[sum] = true;
    }
    /// How many pieces its last batch adds to reach a sum; 0: none of these.
    std::size_t more_at(std::size_t sum) const { return more_.empty() ? 0 : more_[sum]; }

    /// The shapes of so many pieces of a batch. The pieces with the most samples come first.
    std::vector<std::size_t> divided(std::size_t pieces) const {
        const std::vector<uint64_t> counts = summand_counts(samples_, of_.samples);
        std::vector<std::size_t> found;
        for (uint64_t left = of_.samples; pieces-- > 0;) {
            std::size_t k = samples_.size() - 1;
            while (samples_[k] > left || (counts[left - samples_[k]] >> pieces & 1) == 0) --k;
            found.push_back(shapes_[k]);
            left -= samples_[k];
        }
        return found;
    }

private:
    DivisibleBatch of_;
    std::vector<std::size_t> shapes_;
    std::vector<uint64_t> samples_{};  ///< of the shapes
    std::vector<uint8_t> more_{};      ///< by sum
};

}  // namespace

std::vector<DividedBatch> divide_by_shapes(const Plan& plan, std::span<const BucketShape> shapes,
                                           std::span<const DivisibleBatch> batches, uint64_t more) {
    static_assert(most_pieces < 64);
    if (more == 0) return {};
    std::vector<bool> are_within, is_known(more + 1);
    for (const BucketShape& shape : shapes) are_within.push_back(fits(plan, shape));
    is_known[0] = true;
    std::vector<Kind> kinds;
    uint64_t work = 0;
    for (const DivisibleBatch& of : batches) {
        if (is_known[more]) break;
        Kind& kind = kinds.emplace_back(plan, shapes, are_within, of);
        if (!kind.is_divisible()) continue;
        work += kind.work();
        if (work <= most_work) kind.reach(is_known);
    }
    std::size_t sum = more;
    while (!is_known[sum]) --sum;
    std::vector<DividedBatch> divided;
    for (std::size_t k = kinds.size(); k-- > 0;)
        for (std::size_t added = kinds[k].more_at(sum); added > 0; added = kinds[k].more_at(sum)) {
            divided.push_back({k, kinds[k].divided(added + 1)});
            sum -= added;
        }
    return divided;
}

}  // namespace sab
