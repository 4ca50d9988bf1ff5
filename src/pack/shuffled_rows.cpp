#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/hasher.h"
#include "base/log.h"
#include "base/sorting.h"
#include "pack/packed_sequence.h"
#include "plan/sorted.h"
#include "sampler/copies.h"

namespace sab {
namespace {

constexpr std::size_t read_at_once = 4096;

constexpr uint64_t tries_of_column = 16;
constexpr uint64_t more_tries = 4;  // times as many, where too many rows were made

/// A thousandth more.
uint64_t a_little_more(uint64_t rows) {
    return rows + rows / 1000;
}

}  // namespace

RowPacking::RowPacking(const Columns& sizes, const sab_packed_options& options) {
    constexpr const char* methods[] = {"SAB_PACK_SHUFFLED", "SAB_PACK_BEST_FIT",
                                       "SAB_PACK_HISTOGRAM", "SAB_PACK_CONCAT"};
    check(options.method == SAB_PACK_SHUFFLED, "pack.method", methods[options.method],
          "must be SAB_PACK_SHUFFLED (0) for several columns");
    check(options.split == 0 || sizes.size() == 1, "pack.split", options.split,
          "must be 0 for several columns");
    check(sizes.count() > 0, "sizes.count", sizes.count(), "must be at least 1");
    const std::optional<Cost> balance =
        read_balance(options.balance, options.balance_count, sizes.names(), "pack.balance");
    items.columns = sizes.size();
    items.capacities.assign(options.capacities, options.capacities + sizes.size());
    items.most_samples = most_sequences(options);
    multiples = multiples_of(options);
    if (options.window > 0) search.window = options.window;
    if (items.columns == 1) search.tries = tries_of_column;
    if (options.tries > 0) search.tries = options.tries;
    if (items.columns == 1)
        read_column(sizes, options, balance);
    else
        read_columns(sizes, options, balance);
    items.classify();
    sums.samples = static_cast<double>(items.count());
    const std::vector<uint32_t>& sizes_before = true_sizes.empty() ? items.sizes : true_sizes;
    for (std::size_t i = 0; i < sizes_before.size(); ++i)
        sums.total[i % items.columns] += sizes_before[i];
    const double sum = std::accumulate(costs.begin(), costs.end(), 0.0);
    if (!std::isfinite(sum))
        refuse_argument("pack.balance[0]", no_value, "costs must have a finite sum");
    const Progress progress(options.progress, options.progress_ctx);
    progress.report(sizes.count(), sizes.count());
}

/// Samples and pieces, longest first.
void RowPacking::read_column(const Columns& sizes, const sab_packed_options& options,
                             const std::optional<Cost>& balance) {
    const Sorted sorted =
        sort_by_size(sizes.only(), true, Progress(options.progress, options.progress_ctx));
    const SizeCounts counts(sorted);
    Packing packing = lengths_of(counts, options);
    info = packing.info;
    splits = packing.splits;
    std::vector<double> costs_by_length;
    if (balance) costs_by_length = costs_of_lengths(packing, balance);
    info.fingerprint = fingerprint_of(packing, counts, options, costs_by_length);
    items.sizes.reserve(info.sequences);
    samples.reserve(info.sequences);
    for (std::size_t i = 0; i < packing.lengths.size(); ++i) {
        const Length& length = packing.lengths[i];
        items.sizes.resize(items.sizes.size() + length.count, length.length);
        if (balance) costs.resize(items.sizes.size(), costs_by_length[i]);
        uint64_t begin = 0;
        for (uint32_t s = length.segment_begin; s < length.segment_end; ++s) {
            const Segment& segment = packing.segments[s];
            if (multiples.round_lengths())
                true_sizes.resize(true_sizes.size() + segment.end - begin, segment.length);
            for (uint64_t at = 0; at < segment.end - begin; ++at) {
                samples.push_back(sorted.order[segment.offset + at / segment.pieces]);
                if (info.split > 0)
                    starts.push_back(segment.start + at % segment.pieces * packing.capacity);
            }
            begin = segment.end;
        }
    }
    skipped.assign(sorted.order.get() + sorted.count - info.skipped,
                   sorted.order.get() + sorted.count);
    lengths = std::move(packing.lengths);
    const auto bound = static_cast<double>(info.lower_bound),
               capacity = static_cast<double>(packing.capacity);
    search.spare = std::max(0.0, capacity - packing.laid_total / bound);
    info.fill = info.total / capacity;
}

void RowPacking::read_columns(const Columns& sizes, const sab_packed_options& options,
                              const std::optional<Cost>& balance) {
    const Progress progress(options.progress, options.progress_ctx);
    progress.report(0, sizes.count());
    read_sizes(sizes, options);
    if (multiples.round_lengths()) true_sizes = items.sizes;
    for (std::size_t i = 0; i < true_sizes.size(); ++i)
        items.sizes[i] = static_cast<uint32_t>(multiples.length(true_sizes[i], i % items.columns));
    PerColumn of_item{};
    for (uint32_t item = 0; balance && item < items.count(); ++item) {
        std::copy_n(items.sizes_of(item), items.columns, of_item.begin());
        costs.push_back(
            balance->in_row(std::span(of_item.data(), items.columns), "pack.balance[0]"));
    }
    add_facts(options);
}

/// Reads the sizes, and leaves out samples that no row can hold.
void RowPacking::read_sizes(const Columns& sizes, const sab_packed_options& options) {
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

void RowPacking::add_facts(const sab_packed_options& options) {
    const std::size_t columns = items.columns;
    info.samples = items.count() + skipped.size();
    info.skipped = skipped.size();
    info.sequences = items.count();
    info.lower_bound =
        std::max<uint64_t>(1, (items.count() + items.most_samples - 1) / items.most_samples);
    std::vector<uint64_t> totals(columns), true_totals(columns);
    for (std::size_t i = 0; i < items.sizes.size(); ++i) {
        totals[i % columns] += items.sizes[i];
        true_totals[i % columns] += true_sizes_of(0)[i];
    }
    for (std::size_t j = 0; j < columns; ++j) {
        const uint64_t capacity = items.capacities[j];
        info.lower_bound =
            std::max(info.lower_bound, totals[j] / capacity + (totals[j] % capacity != 0));
        const auto total = static_cast<double>(true_totals[j]);
        const double rows = total / static_cast<double>(capacity);
        if (rows <= info.fill && j > 0) continue;
        info.total = total;
        info.fill = rows;  // in one row
    }
    const uint64_t rules[] = {columns, search.window, search.tries, options.max_sequences};
    Hasher hash;
    hash.add(rules);
    hash.add_all(items.capacities);
    hash.add_all(items.sizes);
    hash.add_all(skipped);
    hash.add_all(costs);
    hash.add_all(true_sizes);
    multiples.add_to(hash);
    info.fingerprint = hash.digest();
}

void RowPacking::find_copies(std::span<const uint32_t> mixed) {
    if (splits) return;
    items.first_copies = first_copies(items.count(), [&](uint32_t item) {
        return mixed[samples.empty() ? item : samples[item]];
    });
}

double RowPacking::cost_of(uint32_t item) const {
    if (!costs.empty()) return costs[item];
    double cost = 0;
    for (std::size_t j = 0; j < items.columns; ++j) {
        const double size = items.sizes_of(item)[j],
                     share = items.columns > 1 ? size / items.capacities[j] : size;
        cost += share * share;
    }
    return cost;
}

sab_packed_info ShuffledRows::info() const {
    sab_packed_info info = packing_->info;
    const std::vector<uint32_t>& ends = layout().rows.ends;
    info.bins = batches();
    info.fill /= static_cast<double>(info.bins);
    info.most_sequences = ends[0];
    for (std::size_t i = 1; i < ends.size(); ++i)
        info.most_sequences = std::max<uint64_t>(info.most_sequences, ends[i] - ends[i - 1]);
    return info;
}

/// The rows of one column: where they are too many they are laid out again with less waste. Where
/// that does not help either, they are those of best fit.
RowLayout ShuffledRows::few_rows(const EpochOptions& epoch_options) const {
    RowSearch search = packing_->search;
    RowLayout rows = lay_out_rows(packing_->items, search, epoch_options);
    uint64_t most = a_little_more(packing_->info.lower_bound);
    if (packing_->items.columns > 1 || rows.ends.size() <= most) return rows;
    if (best_fit_ == nullptr)
        best_fit_ = std::make_shared<const Packing>(best_fit(
            packing_->lengths, packing_->items.capacities[0], packing_->items.most_samples));
    if (best_fit_->info.bins > most) most = a_little_more(best_fit_->info.bins);
    if (rows.ends.size() <= most) return rows;
    search.spare = 0;
    search.tries *= more_tries;
    rows = lay_out_rows(packing_->items, search, epoch_options);
    return rows.ends.size() <= most ? rows : best_fit_rows(epoch_options);
}

RowLayout ShuffledRows::best_fit_rows(const EpochOptions& epoch_options) const {
    std::vector<uint32_t> items(packing_->items.count());
    std::vector<uint64_t> begins;
    uint64_t begin = 0;
    for (const Length& length : best_fit_->lengths) {
        const std::span<uint32_t> here = std::span(items).subspan(begin, length.count);
        sequences_permutation(length, epoch_options).fill(0, here);
        for (uint32_t& item : here) item += static_cast<uint32_t>(begin);
        begins.push_back(begin);
        begin += length.count;
    }
    RowLayout rows;
    rows.items.reserve(items.size());
    for (const BinPattern& pattern : best_fit_->patterns)
        for (uint64_t bin = 0; bin < pattern.bins; ++bin) {
            const std::size_t end = rows.items.size() + pattern.sequences;
            const Part* part = &best_fit_->parts[pattern.part_begin];
            for (; rows.items.size() < end; ++part) {
                const auto first =
                    items.begin() + static_cast<std::ptrdiff_t>(begins[part->length] + part->first +
                                                                bin * part->count);
                rows.items.insert(rows.items.end(), first, first + part->count);
            }
            rows.ends.push_back(static_cast<uint32_t>(end));
        }
    return rows;
}

CostedRows ShuffledRows::lay_out(const EpochOptions& epoch_options) const {
    CostedRows costed;
    costed.rows = few_rows(epoch_options);
    const std::vector<uint32_t>& ends = costed.rows.ends;
    costed.costs = std::move(costed.rows.squares);
    if (costed.costs.size() != ends.size() || !packing_->costs.empty()) {
        costed.costs.assign(ends.size(), 0);
        uint32_t i = 0;
        for (std::size_t row = 0; row < ends.size(); ++row)
            for (; i < ends[row]; ++i) costed.costs[row] += packing_->cost_of(costed.rows.items[i]);
    }
    costed.by_cost = by_descending(costed.costs);
    return costed;
}

/// Each row is a class of its own.
std::vector<BatchClass> ShuffledRows::classes(const CostedRows& layout) const {
    std::vector<BatchClass> classes;
    classes.reserve(layout.by_cost.size());
    for (const uint32_t row : layout.by_cost)
        classes.push_back({layout.rows.row(row).size(), 1, layout.costs[row]});
    return classes;
}

std::span<const uint32_t> ShuffledRows::row(uint64_t position) const {
    return layout().rows.row(layout().by_cost[order_.find(position).batch_class]);
}

PerColumn ShuffledRows::total(uint64_t position) const {
    PerColumn total{};
    for (const uint32_t item : row(position))
        for (std::size_t j = 0; j < packing_->items.columns; ++j)
            total[j] += packing_->true_sizes_of(item)[j];
    return total;
}

void ShuffledRows::fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const {
    const std::size_t columns = packing_->items.columns;
    const std::span<const uint32_t> here =
        count > 0 ? row(position).subspan(first, count) : std::span<const uint32_t>();
    int64_t* const indices = batch.room(count).data();
    for (std::size_t i = 0; i < here.size(); ++i)
        indices[i] = packing_->samples.empty() ? here[i] : packing_->samples[here[i]];
    if (packing_->splits && batch.starts.size() <= count) batch.starts.resize(count + 1);
    for (std::size_t i = 0; packing_->splits && i < here.size(); ++i)
        batch.starts[i] =
            packing_->starts.empty() ? 0 : static_cast<int64_t>(packing_->starts[here[i]]);
    batch.columns = columns;
    batch.bucket = -1;
    batch.is_row = true;
    for (std::size_t j = 0; j < columns; ++j) {
        RowColumn filled(j, count, packing_->multiples, batch);
        for (const uint32_t item : here)
            filled.add(packing_->items.sizes_of(item)[j], packing_->true_sizes_of(item)[j]);
        filled.end(packing_->items.capacities[j]);
    }
}

}  // namespace sab
