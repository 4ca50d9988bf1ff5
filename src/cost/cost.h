#pragma once
/// What a batch costs, and how many samples a budget allows.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/caller_context.h"
#include "base/error.h"
#include "base/handle.h"
#include "sab/cost.h"
#include "sizes/columns.h"

namespace sab {

/// A term of a cost. Plain data: it is written to plan files as it is.
struct CostTerm {
    double coefficient;
    uint32_t count_power;
    std::array<uint32_t, SAB_MAX_COLUMNS> length_powers;
    uint32_t reserved;
};

/// The terms of a cost, or the caller's callback, which the caller keeps alive as long as it is
/// used.
class Cost {
public:
    /// The padded total of one column.
    Cost() : Cost(nullptr, 1) {}
    /// The padded total with one weight a column; 1 each when `weights` is NULL.
    Cost(const double* weights, std::size_t columns);
    /// `in_bytes`: the cost predicts memory.
    Cost(std::vector<CostTerm> terms, bool in_bytes);
    Cost(sab_cost_fn callback, void* ctx);
    /// Stands for a callback that is not kept: it must not be evaluated.
    static Cost unknown();

    /// What may outlive the call.
    Cost kept() const { return is_callback() ? unknown() : *this; }

    bool is_callback() const { return terms_.empty(); }
    bool is_in_bytes() const { return in_bytes_; }
    std::span<const CostTerm> terms() const { return terms_; }
    /// Columns that sizes must have at least.
    std::size_t columns() const { return columns_; }

    /// What a batch of nothing costs.
    double constant() const { return by_count(0, PerColumn{}); }

    /// The cost as a polynomial in the count, but for a callback: the coefficient of count^power at
    /// `lengths`, for powers up to count_degree().
    double by_count(uint32_t power, std::span<const double> lengths) const;
    uint32_t count_degree() const;

    /// Cost of `count` samples padded to `lengths`, one for each column of the sizes; throws
    /// SAB_E_CALLBACK and for a callback's answer that is no cost.
    double operator()(uint64_t count, std::span<const double> lengths) const;
    double operator()(uint64_t count, double length) const {
        return (*this)(count, std::span(&length, 1));
    }

    /// See sab_cost_evaluate().
    double evaluate(uint64_t count, std::span<const double> lengths, const double* totals) const;

    /// The most samples of `lengths` that `limit` pays for, at most `most`; 0 when not even one.
    uint64_t largest_count(std::span<const double> lengths, double limit, uint64_t most) const;

    /// Whether the cost is a padded total or one term, and a batch of n samples costs n times as
    /// much as one.
    bool is_proportional() const;

    /// The weights if the cost is a padded total: n * (w0 * L0 + w1 * L1 + ...).
    std::optional<PerColumn> weights() const;

    /// What a sample adds to the cost of a row, which begins with constant(). `name` is that of
    /// the cost in messages.
    double in_row(std::span<const double> lengths, std::string_view name) const;
    /// Whether the cost of a row is the sum of its lengths in the only column.
    bool is_total() const;
    /// Refuses a cost that a row cannot have.
    void check_row(std::string_view name) const;

private:
    explicit Cost(std::size_t columns) : columns_(columns) {}
    double call(uint64_t count, std::span<const double> lengths, const double* totals) const;

    std::vector<CostTerm> terms_;  ///< none: a callback
    std::size_t columns_ = 1;
    bool in_bytes_ = false;
    sab_cost_fn callback_ = nullptr;
    void* ctx_ = nullptr;
};

/// "17", or "17, 20" of two columns.
std::string lengths_text(std::span<const double> lengths);
/// "cost(3, 17, 20)".
std::string cost_text(uint64_t count, std::span<const double> lengths);

/// See sab_cost_transformer_new().
Cost transformer_cost(uint64_t hidden, uint64_t layers);

std::vector<CostTerm> read_terms(std::span<const sab_cost_term> terms);

/// A limit on a cost.
struct Budget {
    Cost cost;
    double limit;
};

/// The names of the columns of sizes, "" each where they have none.
using ColumnNames = std::span<const std::string>;

/// The budgets of an option struct, checked, for sizes of these columns. `name` is that of the
/// array in messages.
std::vector<Budget> read_budgets(const sab_budget* budgets, std::size_t count, ColumnNames columns,
                                 std::string_view name);

/// The costs that are evened out, checked, at most `most`; none when none are given. `name` is that
/// of the array in messages.
std::vector<Cost> read_balances(const sab_cost* const* balance, std::size_t count,
                                ColumnNames columns, std::string_view name,
                                std::size_t most = SAB_MAX_BUDGETS);

/// The cost of rows that is evened out, checked; none when none is given. `name` is that of the
/// array in messages.
std::optional<Cost> read_balance(const sab_cost* const* balance, std::size_t count,
                                 ColumnNames columns, std::string_view name);

/// A cost of sizes with these columns, checked; the padded total when none is given.
Cost read_cost(const sab_cost* cost, ColumnNames columns, std::string_view name);

}  // namespace sab

struct sab_cost {
    sab::Tag<sab_cost> tag{};
    sab::Cost impl;
    sab::CallerContext ctx{nullptr, nullptr};
    /// Names of the columns that sizes must have, "" each for any names; none: any columns, but at
    /// least those of the cost.
    std::vector<std::string> columns{};
};
