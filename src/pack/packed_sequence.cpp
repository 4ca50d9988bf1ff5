#include "pack/packed_sequence.h"

#include <algorithm>

#include "base/hasher.h"
#include "sampler/capabilities.h"
#include "sampler/cursor.h"
#include "sampler/mixed_sequence.h"

namespace sab {

const PackedRows& packed_rows_of(Sampler& sampler) {
    need_kind(sampler, "sab_packed_sampler_new");
    const Sequence& sequence = sampler.random_access()->cursor().sequence();
    return static_cast<const PackedRows&>(sequence.of_epoch());
}

namespace {

/// Rows of one data set. `mixed`: of a mixture, the sample of each index; else empty.
std::unique_ptr<PackedRows> make_rows(const Columns& sizes, const sab_packed_options& options,
                                      std::span<const uint32_t> mixed = {}) {
    if (sizes.size() > 1 || options.method == SAB_PACK_SHUFFLED) {
        const auto packing = std::make_shared<RowPacking>(sizes, options);
        if (!mixed.empty()) packing->find_copies(mixed);
        return std::make_unique<ShuffledRows>(packing);
    }
    if (options.method == SAB_PACK_CONCAT)
        return std::make_unique<ConcatenatedRows>(sizes.only(), options);
    return std::make_unique<PackedSequence>(std::make_shared<const Packing>(pack(sizes, options)));
}

/// Options that may be used after the call that they were given to.
struct KeptOptions {
    explicit KeptOptions(const sab_packed_options& given)
        : options(given), capacities(given.capacities, given.capacities + given.capacity_count) {
        options.progress = nullptr;
        options.progress_ctx = nullptr;
        if (given.capacities != nullptr) options.capacities = capacities.data();
        keep(lengths, options.length_multiples, given.length_multiple_count);
        keep(rows, options.row_multiples, given.row_multiple_count);
        if (given.balance_count == 0 || given.balance == nullptr) return;
        const sab_cost* const cost = given.balance[0];
        require(cost, "pack.balance[0]");
        if (cost->impl.is_callback())
            refuse_argument("pack.balance[0]", no_value,
                            "is a callback: the rows of a mixture are made again in each epoch, "
                            "and must have a cost of terms");
        kept_cost.reset(new sab_cost{{}, cost->impl, {nullptr, nullptr}, cost->columns});
        balance = kept_cost.get();
        options.balance = &balance;
    }
    KeptOptions(const KeptOptions&) = delete;
    KeptOptions& operator=(const KeptOptions&) = delete;

    static void keep(std::vector<double>& kept, const double*& numbers, std::size_t count) {
        kept.assign(numbers, numbers + count);
        if (count > 0) numbers = kept.data();
    }

    sab_packed_options options;
    std::vector<uint64_t> capacities;
    std::vector<double> lengths, rows;  ///< that they are multiples of
    std::unique_ptr<sab_cost> kept_cost;
    const sab_cost* balance = nullptr;
};

}  // namespace

std::unique_ptr<Sequence> make_packed_sequence(const Columns& sizes,
                                               const sab_packed_options& options) {
    check_pack_options(options, sizes.names());
    if (sizes.choice() == nullptr) return make_rows(sizes, options);
    sizes.refuse_shard();
    // A later epoch may take samples that are too long: they are refused now, and so are options
    // that break a rule, before they are copied.
    const auto possible = make_rows(sizes.of_samples(sizes.choice()->possible_samples()), options);
    const auto kept = std::make_shared<const KeptOptions>(options);
    const auto make = [sizes, kept](uint64_t epoch) {
        auto samples =
            std::make_shared<const std::vector<uint32_t>>(sizes.choice()->samples(epoch));
        return EpochSequence{samples,
                             make_rows(sizes.of_samples(*samples), kept->options, *samples)};
    };
    Hasher hasher;
    hasher.add(possible->fingerprint());
    hasher.add(sizes.choice()->fingerprint());
    return std::make_unique<MixedSequence>(sizes.choice(), possible->kind(), hasher.digest(), make);
}

CostOrder bin_order(const Packing& packing) {
    std::vector<BatchClass> patterns;
    patterns.reserve(packing.patterns.size());
    for (const BinPattern& pattern : packing.patterns)
        patterns.push_back({pattern.sequences, pattern.bins, pattern.cost});
    return CostOrder(std::move(patterns));
}

Permutation sequences_permutation(const Length& length, const EpochOptions& epoch_options) {
    return {length.count, permutation_key(epoch_options.seed, epoch_options.epoch,
                                          Purpose::sequences, length.length)};
}

PackedSequence::PackedSequence(std::shared_ptr<const Packing> packing)
    : packing_(std::move(packing)) {
    order_ = bin_order(*packing_);
}

/// Those of a length that stand at offsets `first`, `first` + 1, ... of this epoch.
std::span<const uint32_t> PackedSequence::sequences(const Length& length, uint64_t first,
                                                    uint64_t count) const {
    if (sequences_.size() < count) sequences_.resize(count);
    const std::span<uint32_t> out(sequences_.data(), count);
    sequences_permutation(length, order_.epoch_options()).fill(first, out);
    return out;
}

BatchSums PackedSequence::sums() const {
    if (packing_->multiples.round_lengths())
        return {static_cast<double>(packing_->info.sequences), {packing_->info.total}};
    BatchSums sums;
    for (const BinPattern& of : packing_->patterns)
        sums.add({static_cast<double>(of.sequences), {static_cast<double>(of.total)}},
                 static_cast<double>(of.bins));
    return sums;
}

PerColumn PackedSequence::total(uint64_t position) const {
    if (!packing_->multiples.round_lengths()) return {static_cast<double>(found(position).total)};
    Batch batch;  // rows of a pattern may have other lengths before these are rounded
    fill(position, 0, samples(position), batch);
    return batch.total;
}

void PackedSequence::fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const {
    const auto [which, bin] = order_.find(position);
    int64_t* indices = batch.room(count).data();
    RowColumn row(0, count, packing_->multiples, batch);
    if (packing_->splits && batch.starts.size() <= count) batch.starts.resize(count + 1);
    batch.bucket = -1;
    batch.is_row = true;
    uint64_t done = 0;
    for (const Part* part = &packing_->parts[packing_->patterns[which].part_begin]; done < count;
         ++part) {
        if (first >= part->count) {
            first -= part->count;
            continue;
        }
        const Length& length = packing_->lengths[part->length];
        const std::span segments(packing_->segments.data() + length.segment_begin,
                                 length.segment_end - length.segment_begin);
        const uint64_t here = std::min(part->count - first, count - done);
        for (const uint32_t sequence :
             sequences(length, part->first + bin * part->count + first, here)) {
            const auto segment = std::ranges::upper_bound(segments, sequence, {}, &Segment::end);
            // indices and pieces have 32 bits, whose division is faster
            const uint64_t begin = segment == segments.begin() ? 0 : std::prev(segment)->end;
            const auto at = static_cast<uint32_t>(sequence - begin),
                       pieces = static_cast<uint32_t>(segment->pieces);
            indices[done] = packing_->order[segment->offset + at / pieces];
            if (packing_->splits)
                batch.starts[done] = static_cast<int64_t>(segment->start + uint64_t{at % pieces} *
                                                                               packing_->capacity);
            row.add(length.length, segment->length);
            ++done;
        }
        first = 0;
    }
    row.end(packing_->capacity);
}

}  // namespace sab
