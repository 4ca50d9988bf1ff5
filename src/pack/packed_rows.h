#pragma once
/// Rows that sab_packed_sampler_new() lays out anew each epoch.

#include <memory>
#include <optional>
#include <vector>

#include "base/rounding.h"
#include "cost/cost.h"
#include "pack/packing.h"
#include "pack/row_layout.h"
#include "sab/pack.h"
#include "sampler/cost_order.h"
#include "sampler/permutation.h"
#include "sampler/sampler.h"

namespace sab {

/// Fills one column of a row.
class RowColumn {
public:
    RowColumn(std::size_t column, uint64_t count, const Multiples& multiples, Batch& batch)
        : column_(column), multiples_(multiples), batch_(batch) {
        ends_ = begin(batch.cu_seqlens, count);
        if (multiples.round_lengths()) true_ends_ = begin(batch.cu_seqlens_unpadded, count);
    }
    /// The next sequence. `laid`: its length with rounding.
    void add(uint32_t laid, uint32_t length) {
        ends_[1] = ends_[0] + static_cast<int32_t>(laid);
        ++ends_;
        longest_ = std::max(longest_, length);
        total_ += length;
        if (true_ends_ == nullptr) return;
        true_ends_[1] = static_cast<int32_t>(total_);
        ++true_ends_;
    }
    /// After the last sequence.
    void end(double capacity) {
        batch_.longest[column_] = longest_;
        batch_.total[column_] = total_;
        batch_.capacity[column_] = capacity;
        batch_.padded_length[column_] = batch_.count == 0 ? 0
                                        : multiples_.rows[column_] > 0
                                            ? multiples_.row(*ends_, column_)
                                            : capacity;
    }

private:
    int32_t* begin(std::vector<std::vector<int32_t>>& columns, uint64_t count) const {
        if (columns.size() <= column_) columns.resize(column_ + 1);
        columns[column_].resize(count + 1);
        columns[column_][0] = 0;
        return columns[column_].data();
    }

    std::size_t column_;
    const Multiples& multiples_;
    Batch& batch_;
    int32_t* ends_ = nullptr;
    int32_t* true_ends_ = nullptr;  ///< null: the same
    uint32_t longest_ = 0, total_ = 0;
};

/// Any sequence of sab_packed_sampler_new().
class PackedRows : public CostOrderedSequence {
public:
    SamplerKind kind() const override { return kind_of("sab_packed_sampler_new"); }
    bool has_equal_epochs() const override { return false; }
    /// Facts of the present epoch.
    virtual sab_packed_info info() const = 0;
    virtual const Multiples& multiples() const = 0;
};

/// Rows whose contents and order are those of a `Layout`, which is made for each epoch.
template <class Layout>
class LaidOutRows : public PackedRows {
public:
    std::unique_ptr<EpochOrder> make_epoch_order(const EpochOptions& epoch_options) const override {
        const EpochOptions& old = order_.epoch_options();
        Present made;
        if (layout_ && old.seed == epoch_options.seed && old.epoch == epoch_options.epoch) {
            made = {layout_, order_.with_options(epoch_options)};
        } else {
            auto layout = std::make_shared<const Layout>(lay_out(epoch_options));
            made.order = CostOrder(classes(*layout), 1, epoch_options);
            made.layout = std::move(layout);
        }
        return std::make_unique<EpochOrderOf<Present>>(std::move(made));
    }
    void exchange(EpochOrder& epoch_order) noexcept override {
        Present& other = static_cast<EpochOrderOf<Present>&>(epoch_order).value;
        std::swap(layout_, other.layout);
        std::swap(order_, other.order);
    }

protected:
    virtual Layout lay_out(const EpochOptions& epoch_options) const = 0;
    virtual std::vector<BatchClass> classes(const Layout& layout) const = 0;
    const Layout& layout() const { return *layout_; }

private:
    struct Present {
        std::shared_ptr<const Layout> layout;
        CostOrder order;
    };
    std::shared_ptr<const Layout> layout_;
};

/// The rows of an epoch.
struct CostedRows {
    RowLayout rows;
    std::vector<double> costs;
    std::vector<uint32_t> by_cost;  ///< rows, costliest first
};

/// Samples that go into rows of SAB_PACK_SHUFFLED.
class RowPacking {
public:
    RowPacking(const Columns& sizes, const sab_packed_options& options);

    double cost_of(uint32_t item) const;
    const uint32_t* true_sizes_of(uint32_t item) const {
        return true_sizes.empty() ? items.sizes_of(item) : &true_sizes[item * items.columns];
    }
    /// Of a mixture: the sample of each number that it was given as an index. Pieces are not kept
    /// apart: those of one copy may stand in one row.
    void find_copies(std::span<const uint32_t> samples);

    RowItems items;  ///< with rounding
    Multiples multiples;
    std::vector<uint32_t> true_sizes;  ///< as `items.sizes`; empty: the same
    RowSearch search{};
    std::vector<uint32_t> samples;  ///< of items; empty: each item is the sample of its number
    std::vector<uint32_t> skipped;
    std::vector<double> costs;  ///< of items; empty: squares, of shares if there are capacities
    bool splits = false;
    std::vector<uint64_t> starts;  ///< of items in their samples; empty: 0
    std::vector<Length> lengths;   ///< of one column: of the first items, then of the next
    BatchSums sums{};              ///< of all items, of true sizes
    sab_packed_info info{};        ///< `fill` of one row

private:
    void read_column(const Columns& sizes, const sab_packed_options& options,
                     const std::optional<Cost>& balance);
    void read_columns(const Columns& sizes, const sab_packed_options& options,
                      const std::optional<Cost>& balance);
    void read_sizes(const Columns& sizes, const sab_packed_options& options);
    void add_facts(const sab_packed_options& options);
};

/// Rows that are laid out from the samples in a shuffled order, under one capacity or several.
class ShuffledRows : public LaidOutRows<CostedRows> {
public:
    explicit ShuffledRows(std::shared_ptr<const RowPacking> packing)
        : packing_(std::move(packing)) {}

    std::unique_ptr<Sequence> copy() const override {
        return std::make_unique<ShuffledRows>(*this);
    }
    sab_packed_info info() const override;
    const Multiples& multiples() const override { return packing_->multiples; }
    uint64_t fingerprint() const override { return packing_->info.fingerprint; }
    std::size_t skipped(std::span<int64_t> room) const override {
        return copy_indices(std::span<const uint32_t>(packing_->skipped), room);
    }
    std::size_t columns() const override { return packing_->items.columns; }
    uint64_t samples(uint64_t position) const override { return row(position).size(); }
    double cost(uint64_t position) const override {
        return order_.batch_class(order_.find(position).batch_class).cost;
    }
    PerColumn total(uint64_t position) const override;
    BatchSums sums() const override { return packing_->sums; }
    void fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const override;

private:
    CostedRows lay_out(const EpochOptions& epoch_options) const override;
    std::vector<BatchClass> classes(const CostedRows& rows) const override;
    RowLayout few_rows(const EpochOptions& epoch_options) const;
    RowLayout best_fit_rows(const EpochOptions& epoch_options) const;
    std::span<const uint32_t> row(uint64_t position) const;

    std::shared_ptr<const RowPacking> packing_;
    /// made when it is needed; only the sequence that makes epoch orders needs it
    mutable std::shared_ptr<const Packing> best_fit_;
};

/// Where the rows of an epoch begin in the samples, which are laid end to end.
struct Concatenation {
    Permutation samples;
    std::vector<uint64_t> before;  ///< tokens before each block of samples
    uint64_t cut = 0;              ///< samples that lie in several rows
    uint64_t sequences = 0;
    uint64_t most_sequences = 0;
};

/// Samples of one column end to end, cut at the capacity.
class ConcatenatedRows : public LaidOutRows<Concatenation> {
public:
    ConcatenatedRows(const Sizes& sizes, const sab_packed_options& options);

    std::unique_ptr<Sequence> copy() const override {
        return std::make_unique<ConcatenatedRows>(*this);
    }
    sab_packed_info info() const override;
    const Multiples& multiples() const override { return multiples_; }
    uint64_t fingerprint() const override { return info_.fingerprint; }
    std::size_t skipped(std::span<int64_t>) const override { return 0; }
    uint64_t samples(uint64_t position) const override;
    double cost(uint64_t position) const override { return total(position)[0]; }
    PerColumn total(uint64_t position) const override;
    BatchSums sums() const override {
        return {static_cast<double>(layout().sequences), {info_.total}};
    }
    void fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const override;

private:
    /// A place in a sample of the epoch.
    struct Place {
        uint64_t sample;
        uint64_t start;
    };
    Concatenation lay_out(const EpochOptions& epoch_options) const override;
    std::vector<BatchClass> classes(const Concatenation& rows) const override;
    uint64_t row(uint64_t position) const;
    Place begin_of(uint64_t row) const;
    std::span<const uint32_t> permuted(uint64_t first, uint64_t count) const;

    std::size_t count() const { return sizes_->size(); }
    /// With rounding, as `total_` has it.
    uint64_t size(uint32_t sample) const {
        const uint64_t own = (*sizes_)[sample];
        return multiple_ > 1 ? next_multiple(own, multiple_) : own;
    }

    std::shared_ptr<const std::vector<uint32_t>> sizes_;
    uint64_t capacity_;
    Multiples multiples_;
    uint64_t multiple_;  ///< of the only column
    uint64_t total_ = 0;
    sab_packed_info info_{};
    mutable std::vector<uint32_t> scratch_;
};

}  // namespace sab
