#pragma once
/// What a batch costs, and how many samples the budget allows.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "sab/cost.h"

namespace sab {

class Cost {
public:
    Cost() = default;  ///< padded total
    Cost(sab_cost kind, std::vector<double> coefficients, sab_cost_fn callback, void* ctx);

    /// The one that an option struct asks for: all that have a cost name its fields alike. `name`
    /// is the struct's in messages.
    template <class Options>
    static Cost of(const Options& options, std::string_view name) {
        if (options.coefficient_count > 0)
            require(options.coefficients, text(name, ".coefficients"));
        if (options.cost_term_count > 0) require(options.cost_terms, text(name, ".cost_terms"));
        const std::span<const double> coefficients(options.coefficients, options.coefficient_count);
        return {options.cost,
                options.cost == SAB_COST_TERMS
                    ? coefficients_of({options.cost_terms, options.cost_term_count})
                    : std::vector<double>(coefficients.begin(), coefficients.end()),
                options.cost_fn, options.cost_ctx};
    }

    sab_cost kind() const { return kind_; }
    /// Of SAB_COST_POLYNOMIAL; of SAB_COST_TERMS three numbers a term: coefficient, power of the
    /// count, power of the length.
    const std::vector<double>& coefficients() const { return coefficients_; }
    static std::vector<double> coefficients_of(std::span<const sab_cost_term> terms);

    /// What a batch of nothing costs.
    double constant() const { return by_count(0, 0); }

    /// The cost as a polynomial in the count, but for a callback: the coefficient of count^power at
    /// `length`, for powers up to count_degree().
    double by_count(int power, double length) const;
    int count_degree() const;

    /// Cost of `count` samples padded to `length`; throws SAB_E_CALLBACK and for a callback's
    /// answer that is no cost.
    double operator()(uint64_t count, double length) const;

    /// The most samples of `length` that `budget` pays for, at most `limit`; 0 when not even one.
    uint64_t largest_count(double length, double budget, uint64_t limit) const;

    /// Whether a batch of n samples costs n times as much as one.
    bool is_proportional() const { return kind_ == SAB_COST_PADDED || kind_ == SAB_COST_QUADRATIC; }

private:
    sab_cost kind_ = SAB_COST_PADDED;
    std::vector<double> coefficients_;
    sab_cost_fn callback_ = nullptr;
    void* ctx_ = nullptr;
};

}  // namespace sab
