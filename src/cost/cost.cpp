#include "cost/cost.h"

#include <algorithm>
#include <cmath>

#include "base/callback.h"

namespace sab {
namespace {

constexpr std::size_t term_width = 3;
constexpr std::size_t most_terms = 64;
constexpr double highest_power = 8;

double power(double base, double exponent) {
    double product = 1;
    for (int i = 0; i < static_cast<int>(exponent); ++i) product *= base;
    return product;
}

}  // namespace

std::vector<double> Cost::coefficients_of(std::span<const sab_cost_term> terms) {
    std::vector<double> coefficients;
    for (const sab_cost_term& term : terms)
        coefficients.insert(coefficients.end(),
                            {term.coefficient, static_cast<double>(term.count_power),
                             static_cast<double>(term.length_power)});
    return coefficients;
}

Cost::Cost(sab_cost kind, std::vector<double> coefficients, sab_cost_fn callback, void* ctx)
    : kind_(kind), coefficients_(std::move(coefficients)), callback_(callback), ctx_(ctx) {
    check(kind >= SAB_COST_PADDED && kind <= SAB_COST_TERMS, "options.cost", kind,
          "must be one of SAB_COST_PADDED (0) to SAB_COST_TERMS (4)");
    if (kind == SAB_COST_POLYNOMIAL) {
        check(coefficients_.size() >= 2, "options.coefficient_count", coefficients_.size(),
              "must be at least 2 for SAB_COST_POLYNOMIAL");
        for (std::size_t i = 0; i < coefficients_.size(); ++i)
            if (!(coefficients_[i] >= 0 && std::isfinite(coefficients_[i])))
                fail(SAB_E_ARGUMENT, "options.coefficients[", i, "] = ", coefficients_[i],
                     ": must be finite and not negative");
    }
    if (kind == SAB_COST_TERMS) {
        const std::size_t terms = coefficients_.size() / term_width;
        check(terms >= 1 && terms <= most_terms, "options.cost_term_count", terms,
              "must be from 1 to ", most_terms, " for SAB_COST_TERMS");
        for (std::size_t i = 0; i < terms; ++i) {
            const double* term = &coefficients_[i * term_width];
            // may take back what the terms of the length say too much
            const bool is_per_sample = term[1] == 1 && term[2] == 0;
            if (!(std::isfinite(term[0]) && (term[0] >= 0 || is_per_sample)))
                fail(SAB_E_ARGUMENT, "options.cost_terms[", i, "].coefficient = ", term[0],
                     ": must be finite and not negative (only that of count alone may be)");
            if (!(term[1] >= 0 && term[1] <= highest_power && term[2] >= 0 &&
                  term[2] <= highest_power))
                fail(SAB_E_ARGUMENT, "options.cost_terms[", i, "]: powers ", term[1], " and ",
                     term[2], " must be at most ", highest_power);
        }
    }
    if (kind == SAB_COST_CALLBACK)
        require(reinterpret_cast<const void*>(callback), "options.cost_fn");
}

double Cost::operator()(uint64_t count, double length) const {
    const auto n = static_cast<double>(count);
    switch (kind_) {
        case SAB_COST_PADDED: return n * length;
        case SAB_COST_QUADRATIC: return n * (length * length);
        case SAB_COST_POLYNOMIAL: return coefficients_[0] + n * by_count(1, length);
        case SAB_COST_TERMS: {
            double sum = 0;
            for (std::size_t i = 0; i < coefficients_.size(); i += term_width)
                sum += coefficients_[i] * power(n, coefficients_[i + 1]) *
                       power(length, coefficients_[i + 2]);
            return sum;
        }
        default: break;
    }
    double cost = 0;
    if (const int32_t code =
            called_back("the cost callback", [&] { return callback_(ctx_, count, length, &cost); });
        code != 0)
        throw Error(SAB_E_CALLBACK,
                    text("the cost callback failed with code ", code, " at count ", count,
                         ", length ", length),
                    code);
    if (!(cost >= 0 && std::isfinite(cost)))
        fail(SAB_E_ARGUMENT, "cost(", count, ", ", length, ") = ", cost,
             ": must be finite and not negative");
    return cost;
}

double Cost::by_count(int power_of_count, double length) const {
    if (kind_ == SAB_COST_TERMS) {
        double sum = 0;
        for (std::size_t i = 0; i < coefficients_.size(); i += term_width)
            if (coefficients_[i + 1] == power_of_count)
                sum += coefficients_[i] * power(length, coefficients_[i + 2]);
        return sum;
    }
    if (kind_ != SAB_COST_POLYNOMIAL)
        return power_of_count == 1 && is_proportional() ? (*this)(1, length) : 0;
    if (power_of_count == 0) return coefficients_[0];
    double one = 0;  // Horner's rule
    for (std::size_t i = coefficients_.size(); i-- > 1;) one = one * length + coefficients_[i];
    return one;
}

int Cost::count_degree() const {
    double degree = 1;
    if (kind_ == SAB_COST_TERMS)
        for (std::size_t i = 0; i < coefficients_.size(); i += term_width)
            degree = std::max(degree, coefficients_[i + 1]);
    return static_cast<int>(degree);
}

uint64_t Cost::largest_count(double length, double budget, uint64_t limit) const {
    // Invariant of the search: `fits` samples fit (or it is 0), `too_many` do not (or it is over
    // the limit).
    uint64_t fits = 0, too_many = limit + 1;
    double cost_of_fits = 0;
    const auto try_count = [&](uint64_t count) {
        const double cost = (*this)(count, length);
        if (cost < cost_of_fits)
            fail(SAB_E_ARGUMENT, "cost(", count, ", ", length, ") = ", cost,
                 ": must not be less than cost(", fits, ", ", length, ") = ", cost_of_fits);
        if (cost <= budget) {
            fits = count;
            cost_of_fits = cost;
        } else {
            too_many = count;
        }
    };
    if (is_proportional()) {  // start next to the answer
        const double guess = budget / (*this)(1, length);
        const uint64_t near =
            guess < static_cast<double>(limit) ? static_cast<uint64_t>(guess) : limit;
        if (near >= 1) try_count(near);
        if (fits > 0 && fits < limit) try_count(fits + 1);
    }
    for (uint64_t step = std::max<uint64_t>(fits, 1); too_many > limit && fits < limit; step *= 2)
        try_count(std::min(limit, fits + step));
    while (too_many - fits > 1) try_count(fits + (too_many - fits) / 2);
    return fits;
}

}  // namespace sab
