#include <algorithm>
#include <cmath>

#include "base/hasher.h"
#include "pack/packed_rows.h"
#include "pack/packing.h"

namespace sab {
namespace {

constexpr uint64_t block = 256;  // samples, of which a row's beginning is sought in one
constexpr std::size_t sizes_at_once = 4096;

}  // namespace

ConcatenatedRows::ConcatenatedRows(const Sizes& sizes, const sab_packed_options& options)
    : capacity_(options.capacities[0]),
      multiples_(multiples_of(options)),
      multiple_(static_cast<uint64_t>(multiples_.lengths[0])) {
    check(sizes.count() > 0, "sizes.count", sizes.count(), "must be at least 1");
    check(options.max_sequences == 0, "pack.max_sequences", options.max_sequences,
          "must be 0 with SAB_PACK_CONCAT, which cuts at the capacity only");
    check(options.balance_count == 0, "pack.balance_count", options.balance_count,
          "must be 0 with SAB_PACK_CONCAT, whose rows are all full");
    check(options.split == 0, "pack.split", options.split,
          "must be 0 with SAB_PACK_CONCAT, which cuts all samples");
    check(options.oversize == SAB_OVERSIZE_ERROR, "pack.oversize", "SAB_OVERSIZE_SKIP",
          "must not be given with SAB_PACK_CONCAT, which cuts all samples");
    const Progress progress(options.progress, options.progress_ctx);
    auto read = std::make_shared<std::vector<uint32_t>>(sizes.count());
    std::vector<uint32_t>& all = *read;
    sizes_ = read;
    std::vector<double> values(sizes_at_once);
    uint64_t true_total = 0;
    for (std::size_t begin = 0; begin < all.size(); begin += sizes_at_once) {
        progress.report(begin, all.size());
        const std::span<double> part(values.data(), std::min(sizes_at_once, all.size() - begin));
        sizes.read(begin, part);
        for (std::size_t i = 0; i < part.size(); ++i) {
            if (part[i] != std::floor(part[i]) || part[i] > 0xFFFFFFFFu)
                refuse_argument(named("sizes[", begin + i, "]"), part[i],
                                "must be a whole number up to 2^32 - 1");
            all[begin + i] = static_cast<uint32_t>(part[i]);
            total_ += size(static_cast<uint32_t>(begin + i));
            true_total += all[begin + i];
        }
    }
    info_.samples = all.size();
    info_.bins = info_.lower_bound =
        std::max<uint64_t>(1, total_ / capacity_ + (total_ % capacity_ != 0));
    info_.total = static_cast<double>(true_total);
    info_.fill = info_.total / (static_cast<double>(info_.bins) * static_cast<double>(capacity_));
    const uint64_t rules[] = {static_cast<uint64_t>(options.method), capacity_};
    Hasher hash;
    hash.add(rules);
    hash.add_all(all);
    multiples_.add_to(hash);
    info_.fingerprint = hash.digest();
    progress.report(all.size(), all.size());
}

sab_packed_info ConcatenatedRows::info() const {
    sab_packed_info info = info_;
    info.split = layout().cut;
    info.sequences = layout().sequences;
    info.most_sequences = layout().most_sequences;
    return info;
}

Concatenation ConcatenatedRows::lay_out(const EpochOptions& epoch_options) const {
    const uint64_t key =
        permutation_key(epoch_options.seed, epoch_options.epoch, Purpose::samples, 0);
    Concatenation rows{Permutation(count(), key), {}, 0, 0, 0};
    std::vector<uint32_t> samples(block);
    uint64_t at = 0, row_end = capacity_, in_row = 0;
    for (uint64_t first = 0; first < count(); first += block) {
        rows.before.push_back(at);
        const uint64_t here = std::min<uint64_t>(block, count() - first);
        rows.samples.fill(first, std::span(samples).first(here));
        for (uint64_t i = 0; i < here; ++i) {
            if (at == row_end && size(samples[i]) > 0) {  // an empty one goes into the full row
                row_end += capacity_;
                in_row = 0;
            }
            at += size(samples[i]);
            rows.cut += at > row_end;
            ++rows.sequences;
            rows.most_sequences = std::max(rows.most_sequences, ++in_row);
            if (at <= row_end) continue;
            const uint64_t more = (at - row_end - 1) / capacity_ + 1;  // rows that go on with it
            rows.sequences += more;
            row_end += more * capacity_;
            in_row = 1;
        }
    }
    return rows;
}

/// The full rows, and what is left.
std::vector<BatchClass> ConcatenatedRows::classes(const Concatenation&) const {
    const uint64_t full = total_ / capacity_;
    std::vector<BatchClass> classes;
    if (full > 0) classes.push_back({2, full, static_cast<double>(capacity_)});
    if (info_.bins > full) classes.push_back({1, 1, static_cast<double>(total_ % capacity_)});
    return classes;
}

uint64_t ConcatenatedRows::row(uint64_t position) const {
    const CostOrder::Found found = order_.find(position);
    return found.batch_class == 0 ? found.batch : info_.bins - 1;
}

PerColumn ConcatenatedRows::total(uint64_t position) const {
    if (multiple_ <= 1) return {order_.batch_class(order_.find(position).batch_class).cost};
    Batch batch;  // the end of a sample may be rounded
    fill(position, 0, samples(position), batch);
    return batch.total;
}

/// The samples of the epoch from the `first` on.
std::span<const uint32_t> ConcatenatedRows::permuted(uint64_t first, uint64_t count) const {
    if (scratch_.size() < count) scratch_.resize(count);
    const std::span<uint32_t> samples(scratch_.data(), count);
    layout().samples.fill(first, samples);
    return samples;
}

/// The first sample that ends after the end of the row before, and where the row begins in it.
ConcatenatedRows::Place ConcatenatedRows::begin_of(uint64_t row) const {
    if (row == 0) return {0, 0};
    if (row == info_.bins) return {count(), 0};
    const uint64_t begin = row * capacity_;
    const std::vector<uint64_t>& before = layout().before;
    const auto found =
        static_cast<uint64_t>(std::ranges::upper_bound(before, begin) - before.begin()) - 1;
    uint64_t at = before[found], sample = found * block;
    for (const uint32_t index : permuted(sample, std::min(block, count() - sample))) {
        if (at + size(index) > begin) break;
        at += size(index);
        ++sample;
    }
    return {sample, begin - at};
}

uint64_t ConcatenatedRows::samples(uint64_t position) const {
    const uint64_t which = row(position);
    const Place begin = begin_of(which), end = begin_of(which + 1);
    return end.sample - begin.sample + (end.start > 0);
}

void ConcatenatedRows::fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const {
    int64_t* const indices = batch.room(count).data();
    RowColumn filled(0, count, multiples_, batch);
    if (batch.starts.size() <= count) batch.starts.resize(count + 1);
    batch.bucket = -1;
    batch.is_row = true;
    if (count > 0) {
        const Place begin = begin_of(row(position));
        uint64_t room = capacity_, start = begin.start;
        const std::span<const uint32_t> samples = permuted(begin.sample, first + count);
        for (uint64_t i = 0; i < samples.size(); ++i, start = 0) {
            const uint64_t piece = std::min(room, size(samples[i]) - start);
            room -= piece;
            if (i < first) continue;
            const uint64_t at = i - first;
            indices[at] = samples[i];
            batch.starts[at] = static_cast<int64_t>(start);
            const uint64_t left = (*sizes_)[samples[i]] - start;
            filled.add(static_cast<uint32_t>(piece), static_cast<uint32_t>(std::min(piece, left)));
        }
    }
    filled.end(static_cast<double>(capacity_));
}

}  // namespace sab
