#include "plan/cost.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace sab {

Cost::Cost(sab_cost kind, std::vector<double> coefficients, sab_cost_fn callback, void* ctx)
    : kind_(kind), coefficients_(std::move(coefficients)), callback_(callback), ctx_(ctx) {
    check(kind >= SAB_COST_PADDED && kind <= SAB_COST_CALLBACK, "options.cost", kind, "must be one of SAB_COST_PADDED (0) to SAB_COST_CALLBACK (3)");
    if (kind == SAB_COST_POLYNOMIAL) {
        check(coefficients_.size() >= 2, "options.coefficient_count", coefficients_.size(), "must be at least 2 for SAB_COST_POLYNOMIAL");
        for (std::size_t i = 0; i < coefficients_.size(); ++i)
            if (!(coefficients_[i] >= 0 && std::isfinite(coefficients_[i])))
                fail(SAB_E_ARGUMENT, "options.coefficients[", i, "] = ", coefficients_[i], ": must be finite and not negative");
    }
    if (kind == SAB_COST_CALLBACK) require(reinterpret_cast<const void*>(callback), "options.cost_fn");
}

double Cost::operator()(uint64_t count, double length) const {
    const auto n = static_cast<double>(count);
    switch (kind_) {
        case SAB_COST_PADDED: return n * length;
        case SAB_COST_QUADRATIC: return n * (length * length);
        case SAB_COST_POLYNOMIAL: {
            double one = 0;  // Horner's rule
            for (std::size_t i = coefficients_.size(); i-- > 1;) one = one * length + coefficients_[i];
            return coefficients_[0] + n * one;
        }
        default: break;
    }
    double cost = 0;
    if (const int32_t code = callback_(ctx_, count, length, &cost); code != 0)
        throw Error(SAB_E_CALLBACK, text("the cost callback failed with code ", code, " at count ", count, ", length ", length), code);
    if (!(cost >= 0 && std::isfinite(cost)))
        fail(SAB_E_ARGUMENT, "cost(", count, ", ", length, ") = ", cost, ": must be finite and not negative");
    return cost;
}

uint64_t Cost::largest_count(double length, double budget, uint64_t limit) const {
    // Invariant of the search: `fits` samples fit (or it is 0), `too_many` do not (or it is over the limit).
    uint64_t fits = 0, too_many = limit + 1;
    double cost_of_fits = 0;
    const auto try_count = [&](uint64_t count) {
        const double cost = (*this)(count, length);
        if (cost < cost_of_fits)
            fail(SAB_E_ARGUMENT, "cost(", count, ", ", length, ") = ", cost, ": must not be less than cost(", fits, ", ", length, ") = ", cost_of_fits);
        if (cost <= budget) {
            fits = count;
            cost_of_fits = cost;
        } else {
            too_many = count;
        }
    };
    if (is_proportional()) {  // start next to the answer
        const double guess = budget / (*this)(1, length);
        const uint64_t near = guess < static_cast<double>(limit) ? static_cast<uint64_t>(guess) : limit;
        if (near >= 1) try_count(near);
        if (fits > 0 && fits < limit) try_count(fits + 1);
    }
    for (uint64_t step = std::max<uint64_t>(fits, 1); too_many > limit && fits < limit; step *= 2) try_count(std::min(limit, fits + step));
    while (too_many - fits > 1) try_count(fits + (too_many - fits) / 2);
    return fits;
}

}  // namespace sab
