#include "pack/packed_sequence.h"

#include <algorithm>

#include "sampler/capabilities.h"
#include "sampler/cursor.h"

namespace sab {

const Packing& packing_of(const Sampler& sampler) {
    need_kind(sampler, "sab_packed_sampler_new");
    const Sequence& sequence = static_cast<const Cursor&>(sampler).sequence();
    return static_cast<const PackedSequence&>(sequence).packing();
}

PackedSequence::PackedSequence(Packing packing) : packing_(std::move(packing)) {
    std::vector<BatchClass> patterns;
    patterns.reserve(packing_.patterns.size());
    for (const BinPattern& pattern : packing_.patterns)
        patterns.push_back({pattern.sequences, pattern.bins, pattern.cost});
    order_ = CostOrder(std::move(patterns));
}

/// Those of a length that stand at offsets `first`, `first` + 1, ... of this epoch.
std::span<const uint32_t> PackedSequence::sequences(const Length& length, uint64_t first,
                                                    uint64_t count) const {
    const EpochOptions& epoch_options = order_.epoch_options();
    const Permutation permutation(
        length.count, permutation_key(epoch_options.seed, epoch_options.epoch, Purpose::sequences,
                                      length.length));
    if (sequences_.size() < count) sequences_.resize(count);
    const std::span<uint32_t> out(sequences_.data(), count);
    permutation.fill(first, out);
    return out;
}

void PackedSequence::fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const {
    const auto [which, bin] = order_.find(position);
    int64_t* indices = batch.room(count).data();
    batch.cu_seqlens.resize(count + 1);
    batch.cu_seqlens[0] = 0;
    if (packing_.splits && batch.starts.size() <= count) batch.starts.resize(count + 1);
    batch.longest = batch.total = 0;
    batch.padded_length = count > 0 ? packing_.capacity : 0;
    batch.bucket = -1;
    batch.is_row = true;
    batch.capacity = static_cast<double>(packing_.capacity);
    uint64_t done = 0;
    for (const Part* part = &packing_.parts[packing_.patterns[which].part_begin]; done < count;
         ++part) {
        if (first >= part->count) {
            first -= part->count;
            continue;
        }
        const Length& length = packing_.lengths[part->length];
        const std::span segments(packing_.segments.data() + length.segment_begin,
                                 length.segment_end - length.segment_begin);
        if (done == 0) batch.longest = length.length;
        const uint64_t here = std::min(part->count - first, count - done);
        for (const uint32_t sequence :
             sequences(length, part->first + bin * part->count + first, here)) {
            const auto segment = std::ranges::upper_bound(segments, sequence, {}, &Segment::end);
            const uint32_t at =
                sequence - (segment == segments.begin() ? 0 : std::prev(segment)->end);
            indices[done] = packing_.order[segment->offset + at / segment->pieces];
            if (packing_.splits)
                batch.starts[done] = static_cast<int64_t>(
                    segment->start + uint64_t{at % segment->pieces} * packing_.capacity);
            batch.cu_seqlens[done + 1] =
                batch.cu_seqlens[done] + static_cast<int32_t>(length.length);
            ++done;
        }
        first = 0;
    }
    batch.total = batch.cu_seqlens[count];
}

}  // namespace sab
