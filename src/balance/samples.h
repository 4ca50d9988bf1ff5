#pragma once
/// The samples of a balanced sampler: their order, what they cost, and what they take of budgets.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/pages.h"
#include "base/progress.h"
#include "cost/cost.h"
#include "plan/multiples.h"
#include "sab/balance.h"
#include "sizes/columns.h"

namespace sab {

/// Of sums of as many numbers as there may be samples in a micro-batch.
inline constexpr double rounding_of_sums = 1e-9;

/// One number a budget, or one a balanced cost. Those that there are not are 0.
using PerBudget = std::array<double, SAB_MAX_BUDGETS>;

/// What padded micro-batches keep, and what is evened out.
struct PaddedRules {
    std::vector<Budget> budgets;
    std::vector<Cost> balance;
};

/// Samples of the same sizes are next to each other, and a distinct one together.
struct WeighedSamples {
    std::size_t count = 0;
    std::size_t columns = 1;
    /// sample indices by extent, then by sizes; equal ones by index
    HugeArray<uint32_t> order;
    std::vector<uint32_t> distinct_of;  ///< by offset in the order
    /// by distinct one, as all that follow: its first offset; one more at the end: `count`
    std::vector<uint32_t> first_offsets;
    /// The size. Of several columns the largest of the sizes, each divided by its column's mean:
    /// it depends on nothing but the sizes.
    std::vector<double> extents;
    std::vector<double> sizes;       ///< of several columns, one a column
    std::vector<double> laid_sizes;  ///< one a column, rounded up; empty: the same
    std::vector<double> costs;       ///< one a balanced cost
    std::vector<double> weights;     ///< one a capacity
    std::vector<bool> is_left_out;

    std::size_t balances = 1;        ///< balanced costs
    std::vector<double> capacities;  ///< of a micro-batch; none without a budget
    uint64_t kept = 0;               ///< samples that are not left out
    /// The epoch has the samples before this offset, but for those that are left out. Of one column
    /// the samples that are left out are behind it.
    uint64_t end = 0;
    PerBudget mean_cost{}, mean_weight{};  ///< of those that are kept
    double mean_share = 0;                 ///< share_of() of these
    bool has_whole_sizes = false;
    Multiples multiples;
    /// Of padded micro-batches: costs and weights above are then those of samples alone. Null:
    /// rows.
    std::shared_ptr<const PaddedRules> padded;

    std::span<const double> sizes_of(std::size_t offset) const {
        const std::size_t distinct = distinct_of[offset];
        return {(columns == 1 ? extents.data() : sizes.data()) + distinct * columns, columns};
    }
    /// As they lie in a row or are padded.
    std::span<const double> laid_sizes_of(std::size_t offset) const {
        if (laid_sizes.empty()) return sizes_of(offset);
        return {laid_sizes.data() + distinct_of[offset] * columns, columns};
    }
    const double* costs_of(std::size_t offset) const {
        return costs.data() + distinct_of[offset] * balances;
    }
    const double* weights_of(std::size_t offset) const {
        return weights.data() + distinct_of[offset] * capacities.size();
    }
    /// The largest share of a capacity that a sample takes; with one capacity its weight.
    double share_of(std::size_t offset) const;
    std::size_t left_out(std::span<int64_t> room) const;
    uint64_t fingerprint() const;
};

/// The samples of the epochs of a balanced sampler.
class EpochSamples {
public:
    /// Costs are called once for each distinct sample. Throws for what sab/balance.h says is
    /// refused, in any epoch.
    EpochSamples(const Columns& sizes, const sab_balanced_options& balanced,
                 const Progress& progress);

    /// Of a mixture.
    const EpochChoice* choice() const { return choice_.get(); }
    uint64_t fingerprint() const { return fingerprint_; }
    bool are_alike(uint64_t epoch, uint64_t other) const {
        return choice_ == nullptr || choice_->are_alike(epoch, other);
    }
    std::shared_ptr<const WeighedSamples> of(uint64_t epoch, const Progress& progress) const;
    /// How far epochs differ in what their samples take of the budgets: the standard deviation of
    /// the sum, to its mean. 0 without a mixture.
    double deviation() const { return deviation_; }

private:
    /// Weighs samples by the budgets and costs of some options, as often as it is called.
    using Weigh =
        std::function<std::shared_ptr<WeighedSamples>(const Columns& sizes, const Progress&)>;
    static Weigh weigh_by(const sab_balanced_options& balanced, ColumnNames columns);

    uint64_t fingerprint_ = 0;
    std::shared_ptr<const WeighedSamples> all_;  ///< of no mixture
    // Of a mixture, which is weighed anew for each epoch:
    std::shared_ptr<const EpochChoice> choice_;
    std::optional<Columns> sizes_;
    Weigh weigh_;
    double deviation_ = 0;
};

}  // namespace sab
