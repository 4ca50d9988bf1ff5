/// Windows of records of several sizes: planned as boxes, or packed under several capacities.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include "base/guard.h"
#include "cost/cost.h"
#include "pack/packing.h"
#include "pack/row_layout.h"
#include "plan/plan.h"
#include "sizes/columns.h"
#include "stream/ahead.h"

namespace sab {

void RecordSizes::add(const sab_record& record, uint64_t number) {
    PerColumn sizes;
    sizes.fill(unset_number);
    call_back("sizes_fn", [&] { return function_(context_->get(), &record, sizes.data()); });
    for (std::size_t j = 0; j < columns_; ++j) {
        if (!is_size(sizes[j])) checked_size(sizes[j], j, text("record ", number, ": sizes"));
        sizes[j] += 0.0;  // -0.0 becomes 0.0
        if (are_whole_ && sizes[j] != std::floor(sizes[j]))
            refuse_argument(named("record ", number), no_value, "sizes[", j, "] = ", sizes[j],
                            ": must be a whole number");
    }
    values_.insert(values_.end(), sizes.begin(),
                   sizes.begin() + static_cast<std::ptrdiff_t>(columns_));
}

void RecordSizes::keep(std::span<const uint32_t> records) {
    if (columns_ == 0) return;
    for (std::size_t i = 0; i < records.size(); ++i)
        std::copy_n(values_.begin() + static_cast<std::ptrdiff_t>(records[i] * columns_), columns_,
                    values_.begin() + static_cast<std::ptrdiff_t>(i * columns_));
    resize(records.size());
}

namespace {

/// Budgets of a stream, which keeps them.
class KeptBudgets {
public:
    KeptBudgets(const sab_readahead_stream_options& options) {
        const std::vector<std::string> no_names(options.columns);
        for (Budget& budget :
             read_budgets(options.budgets, options.budget_count, no_names, "options.budgets")) {
            if (budget.cost.is_callback())
                refuse_argument(named("options.budgets[", budgets_.size(), "].cost"), no_value,
                                "must not be a callback, since the stream keeps it");
            budgets_.push_back(std::move(budget));
        }
    }

    const std::vector<Budget>& budgets() const { return budgets_; }
    void describe(Description& description) const {
        for (const Budget& budget : budgets_) {
            description.add(budget.limit);
            for (const CostTerm& term : budget.cost.terms()) {
                description.add(term.coefficient);
                description.add(uint64_t{term.count_power});
                for (const uint32_t power : term.length_powers) description.add(uint64_t{power});
            }
        }
    }
    /// The first budget that a record exceeds alone; their number if it exceeds none.
    std::size_t exceeded(std::span<const double> sizes) const {
        return static_cast<std::size_t>(std::ranges::find_if(budgets_,
                                                             [&](const Budget& budget) {
                                                                 return budget.cost(1, sizes) >
                                                                        budget.limit;
                                                             }) -
                                        budgets_.begin());
    }

private:
    std::vector<Budget> budgets_;
};

/// Batches of the boxes that a window is planned as.
class ColumnReadAhead : public AheadOfLists {
public:
    ColumnReadAhead(const sab_readahead_stream_options& options,
                    std::shared_ptr<const KeptBudgets> budgets, const Context& context)
        : AheadOfLists(
              options.read_ahead, options.seed,
              {-1, options.oversize, "", "SAB_OVERSIZE_SKIP (1) or SAB_OVERSIZE_SINGLE (2)"},
              context, {options.sizes_fn, options.columns, context, false}),
          options_(options),
          budgets_(std::move(budgets)) {}

    void describe(Description& description) const override {
        const Description::Replayed replayed(description);
        source_->describe(description);
        description.add("readahead of columns");
        for (const uint64_t number :
             {uint64_t{options_.columns}, options_.read_ahead, options_.batch_size,
              uint64_t{options_.no_shuffle == 0}, static_cast<uint64_t>(options_.carry_over),
              options_.seed, static_cast<uint64_t>(options_.oversize)})
            description.add(number);
        budgets_->describe(description);
    }
    StreamPtr fresh() const override {
        return make_stage<ColumnReadAhead>(source_->fresh(), options_, budgets_, context_);
    }

private:
    struct Batch {
        uint32_t begin, end;  ///< in members_
        double padding;       ///< share of its positions; above 1: it is not full
        uint32_t size() const { return end - begin; }
    };

    bool is_over(std::size_t item) const override {
        return options_.oversize != SAB_OVERSIZE_SINGLE &&
               budgets_->exceeded(sizes_.of(item)) < budgets_->budgets().size();
    }
    Excess excess(std::size_t item) const override {
        const std::span<const double> sizes = sizes_.of(item);
        const std::size_t i = budgets_->exceeded(sizes);
        const Budget& budget = budgets_->budgets()[i];
        return {text("sizes ", lengths_text(sizes), " and cost ", budget.cost(1, sizes)),
                {text("options.budgets[", i, "].limit"), text(budget.limit)}};
    }

    bool arrange(bool must_use_all) override {
        batches_.clear();
        members_.clear();
        if (!items_.empty()) plan();
        const bool uses_all = options_.carry_over == 0 || must_use_all;
        if (!uses_all) carry_over();
        order_parts(batches_.size(), options_.no_shuffle == 0);
        return uses_all || rest_.empty();
    }

    /// Boxes of single batches pad least; the next window has other records anyway.
    void plan() {
        PlanOptions options;
        options.budgets = budgets_->budgets();
        options.bucket_batches = 1;
        if (options.budgets.empty())
            options.batch_sizes = {std::min<uint64_t>(options_.batch_size, UINT32_MAX)};
        else
            options.max_batch_size = options_.batch_size;
        options.oversize = SAB_OVERSIZE_SINGLE;  // others are not in the window
        const std::size_t columns = options_.columns;
        std::vector<sab_sizes> sizes;
        std::vector<const sab_sizes*> handles;
        sizes.reserve(columns);
        for (std::size_t j = 0; j < columns; ++j) {
            sizes.push_back(
                {{},
                 Columns(Sizes(sizes_.values().data() + j, items_.size(), SAB_FLOAT64,
                               static_cast<std::ptrdiff_t>(columns * sizeof(double)), nullptr))});
            handles.push_back(&sizes.back());
        }
        const std::shared_ptr<const Plan> plan =
            Plan::make(Columns::together(handles, nullptr), options);
        members_.assign(plan->order().begin(), plan->order().end());
        batches_.reserve(plan->facts().batches);
        for (std::size_t b = plan->buckets().size(); b-- > 0;) {  // largest first
            const Bucket& bucket = plan->buckets()[b];
            for (auto begin = static_cast<uint32_t>(bucket.begin); begin < bucket.end;) {
                const auto count = static_cast<uint32_t>(
                    std::min<uint64_t>(bucket.batch_size, bucket.end - begin));
                add_batch(begin, begin + count, count == bucket.batch_size);
                begin += count;
            }
        }
    }

    /// Records keep their order in a batch.
    void add_batch(uint32_t begin, uint32_t end, bool is_full) {
        std::sort(members_.begin() + begin, members_.begin() + end);
        PerColumn longest{};
        double total = 0, padded = 0;
        for (uint32_t i = begin; i < end; ++i)
            for (std::size_t j = 0; j < options_.columns; ++j) {
                const double size = sizes_.of(members_[i])[j];
                longest[j] = std::max(longest[j], size);
                total += size;
            }
        for (std::size_t j = 0; j < options_.columns; ++j) padded += longest[j] * (end - begin);
        batches_.push_back({begin, end, (is_full ? 0 : 2) + (padded > 0 ? 1 - total / padded : 0)});
    }

    /// Takes the batches that pad least, until no more than a window is left for the next one.
    void carry_over() {
        std::ranges::stable_sort(batches_, {}, &Batch::padding);
        uint64_t left = items_.size();
        std::size_t taken = 0;
        for (; taken < batches_.size() && left > window_; ++taken) left -= batches_[taken].size();
        for (std::size_t i = taken; i < batches_.size(); ++i)
            rest_.insert(rest_.end(), members_.begin() + batches_[i].begin,
                         members_.begin() + batches_[i].end);
        batches_.resize(taken);
        std::ranges::sort(rest_);  // as they came
    }

    std::span<const uint32_t> items_of(uint32_t part) const override {
        return std::span(members_).subspan(batches_[part].begin, batches_[part].size());
    }

    sab_readahead_stream_options options_;
    std::shared_ptr<const KeptBudgets> budgets_;
    std::vector<uint32_t> members_;
    std::vector<Batch> batches_;
};

/// Windows packed as the epochs of sab_packed_sampler_new().
class ColumnPack : public AheadOfLists {
public:
    ColumnPack(const sab_pack_stream_options& options, std::vector<uint64_t> capacities,
               const Context& context)
        : AheadOfLists(options.read_ahead, options.seed,
                       {-1, options.oversize, "", "SAB_OVERSIZE_SKIP (1)"}, context,
                       {options.sizes_fn, capacities.size(), context, true}),
          options_(options),
          capacities_(std::move(capacities)) {}

    void describe(Description& description) const override {
        const Description::Replayed replayed(description);
        source_->describe(description);
        description.add("pack of columns");
        for (const uint64_t number :
             {options_.read_ahead, options_.max_records, uint64_t{options_.no_shuffle == 0},
              options_.seed, static_cast<uint64_t>(options_.oversize)})
            description.add(number);
        for (const uint64_t capacity : capacities_) description.add(capacity);
    }
    StreamPtr fresh() const override {
        return make_stage<ColumnPack>(source_->fresh(), options_, capacities_, context_);
    }

private:
    bool is_over(std::size_t item) const override {
        return exceeded(sizes_.of(item)) < capacities_.size();
    }
    Excess excess(std::size_t item) const override {
        const std::span<const double> sizes = sizes_.of(item);
        const std::size_t j = exceeded(sizes);
        return {text("sizes ", lengths_text(sizes)),
                {text("options.capacities[", j, "]"), text(capacities_[j])}};
    }
    /// The first capacity that a record exceeds; their number if it exceeds none.
    std::size_t exceeded(std::span<const double> sizes) const {
        std::size_t j = 0;
        while (j < sizes.size() && sizes[j] <= static_cast<double>(capacities_[j])) ++j;
        return j;
    }

    /// The samples that no row was begun for wait for the next window, as many as a row is chosen
    /// from: rows at the end of a window would have little choice.
    bool arrange(bool must_use_all) override {
        RowItems items;
        items.columns = capacities_.size();
        items.capacities.assign(capacities_.begin(), capacities_.end());
        items.most_samples = static_cast<uint32_t>(
            options_.max_records > 0 ? std::min<uint64_t>(options_.max_records, 0xFFFFFFFFu)
                                     : 0xFFFFFFFFu);
        items.sizes.assign(sizes_.values().begin(), sizes_.values().end());
        items.classify();
        const RowSearch search;
        const auto left =
            static_cast<uint32_t>(must_use_all ? 0 : std::min(search.window, window_ / 2));
        rows_ = lay_out_stream(items, search, {seed_, taken()}, left, rest_);
        uint32_t begin = 0;
        for (const uint32_t end : rows_.ends) {
            std::ranges::sort(std::span(rows_.items).subspan(begin, end - begin));
            begin = end;
        }
        std::ranges::sort(rest_);  // as they came
        order_parts(rows_.ends.size(), options_.no_shuffle == 0);
        return must_use_all || rest_.empty();
    }

    std::span<const uint32_t> items_of(uint32_t row) const override {
        const uint32_t begin = row == 0 ? 0 : rows_.ends[row - 1];
        return std::span(rows_.items).subspan(begin, rows_.ends[row] - begin);
    }

    sab_pack_stream_options options_;
    std::vector<uint64_t> capacities_;
    RowLayout rows_;
};

void check_columns(std::string_view name, std::size_t columns, const void* sizes_fn,
                   uint64_t read_ahead) {
    check(columns >= 2 && columns <= SAB_MAX_COLUMNS, name, columns,
          "must be from 2 to 8 with a sizes_fn, and 0 without");
    require(sizes_fn, "options.sizes_fn");
    check(read_ahead <= most_records / 4, "options.read_ahead", read_ahead,
          "must be at most 2^30 for several columns");
}

}  // namespace

StagePtr make_column_readahead(const sab_readahead_stream_options& options) {
    check_columns("options.columns", options.columns,
                  reinterpret_cast<const void*>(options.sizes_fn), options.read_ahead);
    if (options.batch_size_fn != nullptr || options.boundary_key_fn != nullptr)
        refuse_argument(named("options.", options.batch_size_fn != nullptr ? "batch_size_fn"
                                                                           : "boundary_key_fn"),
                        no_value, "must be NULL for several columns");
    auto budgets = std::make_shared<const KeptBudgets>(options);
    sab_readahead_stream_options kept = options;
    kept.budgets = nullptr;  // read during the call
    return std::make_unique<ColumnReadAhead>(kept, std::move(budgets),
                                             context_of(options.ctx, options.release));
}

StagePtr make_column_pack(const sab_pack_stream_options& options) {
    check_columns("options.capacity_count", options.capacity_count,
                  reinterpret_cast<const void*>(options.sizes_fn), options.read_ahead);
    const std::span capacities(options.capacities, options.capacity_count);
    for (std::size_t j = 0; j < capacities.size(); ++j)
        if (!(capacities[j] >= 1 && capacities[j] <= largest_capacity) ||
            capacities[j] != std::floor(capacities[j]))
            refuse_argument(named("options.capacities[", j, "]"), capacities[j],
                            "must be a whole number from 1 to 2^31 - 1");
    sab_pack_stream_options kept = options;
    kept.capacities = nullptr;  // read during the call
    return std::make_unique<ColumnPack>(kept,
                                        std::vector<uint64_t>(capacities.begin(), capacities.end()),
                                        context_of(options.ctx, options.release));
}

}  // namespace sab
