#include "cost/cost.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/callback.h"
#include "base/options.h"

namespace sab {

std::string lengths_text(std::span<const double> lengths) {
    std::string list;
    for (const double length : lengths) list += text(list.empty() ? "" : ", ", length);
    return list;
}

std::string cost_text(uint64_t count, std::span<const double> lengths) {
    return text("cost(", count, ", ", lengths_text(lengths), ")");
}

namespace {

constexpr uint32_t highest_power = 8;

double power(double base, uint32_t exponent) {
    double product = 1;
    for (uint32_t i = 0; i < exponent; ++i) product *= base;
    return product;
}

bool has_lengths(const CostTerm& term) {
    return std::ranges::any_of(term.length_powers, [](uint32_t each) { return each > 0; });
}

void check_term(const CostTerm& term, std::size_t i) {
    // A negative term of the count corrects what the terms of the length count too much.
    const bool may_be_negative = term.count_power == 1 && !has_lengths(term);
    if (!(std::isfinite(term.coefficient) && (term.coefficient >= 0 || may_be_negative)))
        refuse_argument(named("terms[", i, "].coefficient"), term.coefficient,
                        "must be finite and not negative (only that of count alone may be)");
    if (term.count_power > highest_power)
        refuse_argument(named("terms[", i, "].count_power"), term.count_power, "must be at most ",
                        highest_power);
    for (std::size_t j = 0; j < term.length_powers.size(); ++j)
        if (term.length_powers[j] > highest_power)
            refuse_argument(named("terms[", i, "].length_powers[", j, "]"), term.length_powers[j],
                            "must be at most ", highest_power);
}

void check_term_count(std::size_t count) {
    check(count >= 1 && count <= SAB_MAX_COST_TERMS, "count", count, "must be from 1 to ",
          SAB_MAX_COST_TERMS);
}

void check_number(double value, std::string_view name, std::size_t i) {
    if (!(value >= 0 && std::isfinite(value)))
        refuse_argument(named(name, "[", i, "]"), value, "must be finite and not negative");
}

double checked_cost(double cost, uint64_t count, std::span<const double> lengths) {
    if (!(cost >= 0 && std::isfinite(cost)))
        refuse_argument(cost_text(count, lengths), cost, "must be finite and not negative");
    return cost;
}

}  // namespace

Cost::Cost(const double* weights, std::size_t columns) : columns_(columns) {
    check(columns >= 1 && columns <= SAB_MAX_COLUMNS, "columns", columns, "must be from 1 to ",
          SAB_MAX_COLUMNS);
    double largest = 0;
    for (std::size_t i = 0; i < columns; ++i) {
        const double weight = weights != nullptr ? weights[i] : 1;
        check_number(weight, "weights", i);
        largest = std::max(largest, weight);
        terms_.push_back({weight, 1, {}, 0});
        terms_.back().length_powers[i] = 1;
    }
    check(largest > 0, "weights[0]", largest, "at least one weight must be above 0");
}

Cost::Cost(std::vector<CostTerm> terms, bool in_bytes)
    : terms_(std::move(terms)), columns_(0), in_bytes_(in_bytes) {
    check_term_count(terms_.size());
    for (std::size_t i = 0; i < terms_.size(); ++i) {
        check_term(terms_[i], i);
        for (std::size_t j = 0; j < SAB_MAX_COLUMNS; ++j)
            if (terms_[i].length_powers[j] > 0) columns_ = std::max(columns_, j + 1);
    }
}

Cost::Cost(sab_cost_fn callback, void* ctx) : columns_(0), callback_(callback), ctx_(ctx) {
    require(reinterpret_cast<const void*>(callback), "fn");
}

Cost Cost::unknown() {
    return Cost(std::size_t{0});
}

double Cost::call(uint64_t count, std::span<const double> lengths, const double* totals) const {
    double cost = unset_number;
    if (const int32_t code = called_back(
            "the cost callback",
            [&] { return callback_(ctx_, count, lengths.data(), totals, lengths.size(), &cost); });
        code != 0)
        throw Error(SAB_E_CALLBACK,
                    text("the cost callback failed with code ", code, " at count ", count,
                         ", length ", lengths_text(lengths)),
                    code);
    return checked_cost(cost, count, lengths);
}

/// c * n^p * L0^q0 * L1^q1 * ..., of as many columns as there are lengths.
static double value_of(const CostTerm& term, double n, std::span<const double> lengths) {
    double product = term.coefficient * power(n, term.count_power);
    for (std::size_t j = 0; j < lengths.size(); ++j)
        product *= power(lengths[j], term.length_powers[j]);
    return product;
}

double Cost::operator()(uint64_t count, std::span<const double> lengths) const {
    const auto n = static_cast<double>(count);
    if (is_callback()) {
        PerColumn totals{};
        std::ranges::transform(lengths, totals.begin(), [&](double length) { return n * length; });
        return call(count, lengths, totals.data());
    }
    double sum = 0;
    for (const CostTerm& term : terms_) sum += value_of(term, n, lengths);
    return sum;
}

double Cost::evaluate(uint64_t count, std::span<const double> lengths, const double* totals) const {
    check(count >= 1, "count", count, "must be at least 1");
    check(lengths.size() >= std::max<std::size_t>(columns_, 1) && lengths.size() <= SAB_MAX_COLUMNS,
          "columns", lengths.size(), "must be from ", std::max<std::size_t>(columns_, 1),
          ", the columns of the cost, to ", SAB_MAX_COLUMNS);
    for (std::size_t j = 0; j < lengths.size(); ++j) {
        check_number(lengths[j], "lengths", j);
        if (totals != nullptr) check_number(totals[j], "totals", j);
    }
    if (is_callback() && totals != nullptr) return call(count, lengths, totals);
    return checked_cost((*this)(count, lengths), count, lengths);
}

double Cost::by_count(uint32_t power_of_count, std::span<const double> lengths) const {
    double sum = 0;
    for (const CostTerm& term : terms_)
        if (term.count_power == power_of_count) sum += value_of(term, 1, lengths);
    return sum;
}

std::optional<PerColumn> Cost::weights() const {
    PerColumn weights{};
    for (const CostTerm& term : terms_) {
        const auto& powers = term.length_powers;
        if (term.count_power != 1 || std::accumulate(powers.begin(), powers.end(), 0u) != 1)
            return std::nullopt;
        for (std::size_t j = 0; j < powers.size(); ++j) weights[j] += term.coefficient * powers[j];
    }
    if (is_callback()) return std::nullopt;
    return weights;
}

bool Cost::is_proportional() const {
    return terms_.size() == 1 ? terms_[0].count_power == 1 : weights().has_value();
}

uint32_t Cost::count_degree() const {
    uint32_t degree = 1;
    for (const CostTerm& term : terms_) degree = std::max(degree, term.count_power);
    return degree;
}

uint64_t Cost::largest_count(std::span<const double> lengths, double limit, uint64_t most) const {
    // Invariant of the search: `fits` samples fit (or it is 0), `too_many` do not (or it is over
    // the most).
    uint64_t fits = 0, too_many = most + 1;
    double cost_of_fits = 0;
    const auto try_count = [&](uint64_t count) {
        const double cost = (*this)(count, lengths);
        if (cost < cost_of_fits)
            refuse_argument(cost_text(count, lengths), cost, "must not be less than ",
                            std::string_view(cost_text(fits, lengths)), " = ", cost_of_fits);
        if (cost <= limit) {
            fits = count;
            cost_of_fits = cost;
        } else {
            too_many = count;
        }
    };
    if (is_proportional()) {  // start next to the answer
        const double guess = limit / (*this)(1, lengths);
        const uint64_t near =
            guess < static_cast<double>(most) ? static_cast<uint64_t>(guess) : most;
        if (near >= 1) try_count(near);
        if (fits > 0 && fits < most) try_count(fits + 1);
    }
    for (uint64_t step = std::max<uint64_t>(fits, 1); too_many > most && fits < most; step *= 2)
        try_count(std::min(most, fits + step));
    while (too_many - fits > 1) try_count(fits + (too_many - fits) / 2);
    return fits;
}

double Cost::in_row(std::span<const double> lengths, std::string_view name) const {
    const double cost = is_callback() ? (*this)(1, lengths) : by_count(1, lengths);
    if (!(cost >= 0 && std::isfinite(cost)))
        refuse_argument(name, no_value, "a sample of length ", lengths_text(lengths), " costs ",
                        cost, ": must be finite and not negative");
    return cost;
}

bool Cost::is_total() const {
    return terms_.size() == 1 && terms_[0].count_power == 1 && terms_[0].coefficient == 1 &&
           columns_ == 1 && terms_[0].length_powers[0] == 1;
}

void Cost::check_row(std::string_view name) const {
    for (std::size_t i = 0; i < terms_.size(); ++i)
        if (terms_[i].count_power > 1 || (terms_[i].count_power == 0 && has_lengths(terms_[i])))
            refuse_argument(
                name, no_value, "its term ", i, " has a count_power of ", terms_[i].count_power,
                ": must be 1, or 0 without lengths, since the cost of a row is a sum over its "
                "samples");
}

std::vector<CostTerm> read_terms(std::span<const sab_cost_term> terms) {
    check_term_count(terms.size());  // before any of them is read
    std::vector<CostTerm> read;
    for (std::size_t i = 0; i < terms.size(); ++i) {
        const sab_cost_term& term = terms[i];
        check_reserved(term.reserved, text("terms[", i, "]"));
        check(term.column_count <= SAB_MAX_COLUMNS, text("terms[", i, "].column_count"),
              term.column_count, "must be at most ", SAB_MAX_COLUMNS);
        if (term.column_count > 0)
            require(term.length_powers, text("terms[", i, "].length_powers"));
        read.push_back({term.coefficient, term.count_power, {}, 0});
        std::copy_n(term.length_powers, term.column_count, read.back().length_powers.begin());
    }
    return read;
}

Cost transformer_cost(uint64_t hidden, uint64_t layers) {
    check(hidden >= 1, "hidden", hidden, "must be at least 1");
    check(layers >= 1, "layers", layers, "must be at least 1");
    const auto width = static_cast<double>(hidden), depth = static_cast<double>(layers);
    return {{{24 * depth * width * width, 1, {1}, 0}, {4 * depth * width, 1, {2}, 0}}, false};
}

Cost read_cost(const sab_cost* cost, ColumnNames columns, std::string_view name) {
    if (cost == nullptr) return Cost(nullptr, columns.size());
    require(cost, name);  // of the right kind
    const std::vector<std::string>& own = cost->columns;
    const bool have_names = !own.empty() && !own[0].empty() && !columns[0].empty();
    if (!own.empty() &&
        (own.size() != columns.size() || (have_names && !std::ranges::equal(own, columns))))
        refuse_argument(name, no_value, "is that of a memory model with ", columns_listed(own),
                        ": the sizes have ", std::string_view(columns_listed(columns)));
    if (cost->impl.columns() > columns.size())
        refuse_argument(name, no_value, "uses ",
                        std::string_view(counted(cost->impl.columns(), "column")),
                        ": must use at most ", columns.size(), ", as many as the sizes have");
    return cost->impl;
}

std::vector<Budget> read_budgets(const sab_budget* budgets, std::size_t count, ColumnNames columns,
                                 std::string_view name) {
    if (count > SAB_MAX_BUDGETS)
        refuse_argument(named(name.substr(0, name.size() - 1), "_count"), count, "must be at most ",
                        SAB_MAX_BUDGETS);
    items(budgets, count, name, text(name.substr(0, name.size() - 1), "_count"));
    std::vector<Budget> read;
    for (std::size_t i = 0; i < count; ++i) {
        const double limit = budgets[i].limit;
        check_reserved(budgets[i].reserved, text(name, "[", i, "]"));
        if (!(limit > 0 && std::isfinite(limit)))
            refuse_argument(named(name, "[", i, "].limit"), limit, "must be finite and above 0");
        read.push_back({read_cost(budgets[i].cost, columns, text(name, "[", i, "].cost")), limit});
        if (const double constant = read.back().cost.constant(); limit <= constant)
            refuse_argument(named(name, "[", i, "].limit"), limit,
                            "must be more than the cost's constant term, ", constant,
                            ", which a batch of nothing costs");
    }
    return read;
}

std::vector<Cost> read_balances(const sab_cost* const* balance, std::size_t count,
                                ColumnNames columns, std::string_view name, std::size_t most) {
    if (count > most) refuse_argument(named(name, "_count"), count, "must be at most ", most);
    items(balance, count, name, text(name, "_count"));
    std::vector<Cost> read;
    for (std::size_t i = 0; i < count; ++i) {
        const std::string each = text(name, "[", i, "]");
        require(balance[i], each);
        read.push_back(read_cost(balance[i], columns, each));
    }
    return read;
}

std::optional<Cost> read_balance(const sab_cost* const* balance, std::size_t count,
                                 ColumnNames columns, std::string_view name) {
    std::vector<Cost> read = read_balances(balance, count, columns, name, 1);
    if (!read.empty()) read[0].check_row(text(name, "[0]"));
    return read.empty() ? std::nullopt : std::optional(std::move(read[0]));
}

}  // namespace sab
