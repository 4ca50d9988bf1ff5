#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/hasher.h"
#include "base/log.h"
#include "base/sorting.h"
#include "pack/packed_rows.h"
#include "pack/packing.h"

namespace sab {
namespace {

constexpr std::size_t read_at_once = 4096;

void check_column_options(const sab_packed_options& options) {
    check(options.method == SAB_PACK_BEST_FIT, "pack.method", options.method,
          "must be SAB_PACK_BEST_FIT (0) for several columns");
    check(options.split == 0, "pack.split", options.split, "must be 0 for several columns");
}

}  // namespace

ColumnPacking::ColumnPacking(const Columns& sizes, const sab_packed_options& options) {
    check_column_options(options);
    check(sizes.count() > 0, "sizes.count", sizes.count(), "must be at least 1");
    const std::optional<Cost> balance =
        read_balance(options.balance, options.balance_count, sizes.names(), "pack.balance");
    items.columns = sizes.size();
    items.capacities.assign(options.capacities, options.capacities + sizes.size());
    items.most_samples = most_sequences(options);
    if (options.window > 0) search.window = options.window;
    if (options.tries > 0) search.tries = options.tries;
    const Progress progress(options.progress, options.progress_ctx);
    progress.report(0, sizes.count());
    read(sizes, options);
    items.classify();
    if (balance) {
        PerColumn lengths{};
        for (uint32_t item = 0; item < items.count(); ++item) {
            std::copy_n(items.sizes_of(item), items.columns, lengths.begin());
            costs.push_back(
                balance->in_row(std::span(lengths.data(), items.columns), "pack.balance[0]"));
        }
        if (!std::isfinite(std::accumulate(costs.begin(), costs.end(), 0.0)))
            refuse_argument("pack.balance[0]", no_value, "costs must have a finite sum");
    }
    add_facts(options);
    progress.report(sizes.count(), sizes.count());
}

/// Reads the sizes, and leaves out samples that no row can hold.
void ColumnPacking::read(const Columns& sizes, const sab_packed_options& options) {
    const std::size_t columns = sizes.size(), count = sizes.count();
    items.sizes.resize(count * columns);
    std::vector<double> values(read_at_once);
    std::vector<bool> is_over(count);
    NamedValue first_over;
    uint32_t its_capacity = 0;
    std::size_t first_index = count;
    for (std::size_t j = 0; j < columns; ++j) {
        const std::string name = sizes.described(j);
        for (std::size_t begin = 0; begin < count; begin += read_at_once) {
            const std::span<double> part(values.data(), std::min(read_at_once, count - begin));
            sizes[j].read(begin, part, name);
            for (std::size_t i = 0; i < part.size(); ++i) {
                const std::size_t index = begin + i;
                if (part[i] != std::floor(part[i]))
                    refuse_argument(named(name, "[", index, "]"), part[i],
                                    "must be a whole number, since cumulative lengths are");
                if (part[i] <= items.capacities[j]) {
                    items.sizes[index * columns + j] = static_cast<uint32_t>(part[i]);
                    continue;
                }
                is_over[index] = true;
                if (index >= first_index) continue;
                first_index = index;
                first_over = {text(name, "[", index, "]"), text(part[i])};
                its_capacity = items.capacities[j];
            }
        }
    }
    const auto over = static_cast<std::size_t>(std::ranges::count(is_over, true));
    if (over > 0 && options.oversize == SAB_OVERSIZE_ERROR)
        refuse_argument(
            first_over, "must be at most the capacity, ", its_capacity, "; ", over, " of ", count,
            " samples are over a capacity. Set pack.oversize to SAB_OVERSIZE_SKIP (1), or use "
            "larger capacities");
    if (over == count)
        refuse_argument("sizes", no_value, "no sample is left: all ", count,
                        " are over a capacity");
    if (over == 0) return;
    samples.reserve(count - over);
    for (uint32_t i = 0; i < count; ++i) {
        if (!is_over[i])
            std::copy_n(&items.sizes[i * columns], columns, &items.sizes[samples.size() * columns]);
        (is_over[i] ? skipped : samples).push_back(i);
    }
    items.sizes.resize(samples.size() * columns);
    log(SAB_LOG_WARNING, "skipped ", over, " of ", count, " samples: over a capacity");
}

void ColumnPacking::add_facts(const sab_packed_options& options) {
    const std::size_t columns = items.columns;
    info.samples = items.count() + skipped.size();
    info.skipped = skipped.size();
    info.sequences = items.count();
    info.lower_bound =
        std::max<uint64_t>(1, (items.count() + items.most_samples - 1) / items.most_samples);
    std::vector<uint64_t> totals(columns);
    for (std::size_t i = 0; i < items.sizes.size(); ++i) totals[i % columns] += items.sizes[i];
    for (std::size_t j = 0; j < columns; ++j) {
        const uint64_t capacity = items.capacities[j];
        info.lower_bound =
            std::max(info.lower_bound, totals[j] / capacity + (totals[j] % capacity != 0));
        const double rows = static_cast<double>(totals[j]) / static_cast<double>(capacity);
        if (rows <= info.fill && j > 0) continue;
        info.total = static_cast<double>(totals[j]);
        info.fill = rows;  // in one row
    }
    const uint64_t rules[] = {columns, search.window, search.tries, options.max_sequences};
    Hasher hash;
    hash.add(rules);
    hash.add_all(items.capacities);
    hash.add_all(items.sizes);
    hash.add_all(skipped);
    hash.add_all(costs);
    info.fingerprint = hash.digest();
}

double ColumnPacking::cost_of(uint32_t item) const {
    if (!costs.empty()) return costs[item];
    double cost = 0;
    for (std::size_t j = 0; j < items.columns; ++j) {
        const double share = static_cast<double>(items.sizes_of(item)[j]) / items.capacities[j];
        cost += share * share;
    }
    return cost;
}

sab_packed_info ColumnRows::info() const {
    sab_packed_info info = packing_->info;
    info.bins = batches();
    info.fill /= static_cast<double>(info.bins);
    info.most_sequences = layout().ends[0];
    for (std::size_t i = 1; i < layout().ends.size(); ++i)
        info.most_sequences =
            std::max<uint64_t>(info.most_sequences, layout().ends[i] - layout().ends[i - 1]);
    return info;
}

/// The rows, costliest first.
RowLayout ColumnRows::lay_out(const EpochOptions& epoch_options) const {
    const RowLayout found = lay_out_rows(packing_->items, packing_->search, epoch_options);
    const std::size_t rows = found.ends.size();
    const auto begin_of = [&](std::size_t row) { return row == 0 ? 0 : found.ends[row - 1]; };
    std::vector<double> costs(rows);
    for (std::size_t row = 0; row < rows; ++row)
        for (uint32_t i = begin_of(row); i < found.ends[row]; ++i)
            costs[row] += packing_->cost_of(found.items[i]);
    RowLayout sorted;
    sorted.items.reserve(found.items.size());
    sorted.ends.reserve(rows);
    for (const uint32_t row : by_descending(costs)) {
        sorted.items.insert(sorted.items.end(), found.items.begin() + begin_of(row),
                            found.items.begin() + found.ends[row]);
        sorted.ends.push_back(static_cast<uint32_t>(sorted.items.size()));
    }
    return sorted;
}

/// Each row is a class of its own.
std::vector<BatchClass> ColumnRows::classes(const RowLayout& rows) const {
    std::vector<BatchClass> classes;
    classes.reserve(rows.ends.size());
    uint32_t begin = 0;
    for (const uint32_t end : rows.ends) {
        double cost = 0;
        for (uint32_t i = begin; i < end; ++i) cost += packing_->cost_of(rows.items[i]);
        classes.push_back({end - begin, 1, cost});
        begin = end;
    }
    return classes;
}

std::span<const uint32_t> ColumnRows::row(uint64_t position) const {
    const std::size_t row = order_.find(position).batch_class;
    const uint32_t begin = row == 0 ? 0 : layout().ends[row - 1];
    return std::span(layout().items).subspan(begin, layout().ends[row] - begin);
}

PerColumn ColumnRows::total(uint64_t position) const {
    PerColumn total{};
    for (const uint32_t item : row(position))
        for (std::size_t j = 0; j < packing_->items.columns; ++j)
            total[j] += packing_->items.sizes_of(item)[j];
    return total;
}

void ColumnRows::fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const {
    const std::size_t columns = packing_->items.columns;
    const std::span<const uint32_t> here =
        count > 0 ? row(position).subspan(first, count) : std::span<const uint32_t>();
    int64_t* const indices = batch.room(count).data();
    for (std::size_t i = 0; i < here.size(); ++i)
        indices[i] = packing_->samples.empty() ? here[i] : packing_->samples[here[i]];
    batch.columns = columns;
    batch.bucket = -1;
    batch.is_row = true;
    batch.cu_seqlens.resize(columns);
    for (std::size_t j = 0; j < columns; ++j) {
        std::vector<int32_t>& cu_seqlens = batch.cu_seqlens[j];
        cu_seqlens.resize(count + 1);
        cu_seqlens[0] = 0;
        uint32_t longest = 0;
        for (std::size_t i = 0; i < here.size(); ++i) {
            const uint32_t size = packing_->items.sizes_of(here[i])[j];
            cu_seqlens[i + 1] = cu_seqlens[i] + static_cast<int32_t>(size);
            longest = std::max(longest, size);
        }
        batch.longest[j] = longest;
        batch.total[j] = cu_seqlens[count];
        batch.capacity[j] = packing_->items.capacities[j];
        batch.padded_length[j] = count > 0 ? packing_->items.capacities[j] : 0;
    }
}

}  // namespace sab
