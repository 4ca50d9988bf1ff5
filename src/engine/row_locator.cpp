#include "engine/row_locator.h"

#include <algorithm>
#include <utility>

#include "pack/packed_sequence.h"

namespace sab {
namespace {

const Packing& without_pieces(const HistogramPacking& packing) {
    if (packing.packing()->info.split > 0)
        fail(SAB_E_UNSUPPORTED, "sab_packing_locate: ", packing.packing()->info.split,
             " samples are split: must be none, since a piece has no place of its own");
    return *packing.packing();
}

}  // namespace

RowLocator::RowLocator(const HistogramPacking& packing, const SamplerOptions& options)
    : Locator(std::make_unique<PackedSequence>(packing.packing()),
              bin_order(without_pieces(packing)), options, "packing"),
      packing_(packing),
      ids_(order_.class_ids()) {
    const Packing& bins = *packing.packing();
    std::vector<uint64_t> first_part(bins.lengths.size());
    for (const Part& part : bins.parts) ++first_part[part.length];
    // lengths are longest first, the sorted order is shortest first
    lengths_.reserve(bins.lengths.size());
    begins_.reserve(bins.lengths.size());
    for (std::size_t k = bins.lengths.size(), parts = 0; k-- > 0;) {
        const Length& length = bins.lengths[k];
        begins_.push_back(bins.segments[length.segment_begin].offset);
        lengths_.push_back({begins_.back(), begins_.back() + length.count, parts,
                            parts + first_part[k],
                            sequences_permutation(length, order_.epoch_options())});
        parts += std::exchange(first_part[k], parts);
    }
    add_parts(bins, first_part);
}

/// The parts of a length stand in the packing as they follow in the permutation.
void RowLocator::add_parts(const Packing& bins, std::vector<uint64_t>& next) {
    std::vector<PartOrder> parts(bins.parts.size());
    for (std::size_t pattern = 0; pattern < bins.patterns.size(); ++pattern) {
        std::size_t k = bins.patterns[pattern].part_begin;
        for (uint32_t slot = 0; slot < bins.patterns[pattern].sequences; ++k) {
            parts[k] = {bins.parts[k].first, bins.parts[k].count, slot, pattern};
            slot += parts[k].count;
        }
    }
    parts_.resize(parts.size());
    for (std::size_t k = 0; k < parts.size(); ++k) parts_[next[bins.parts[k].length]++] = parts[k];
}

void RowLocator::find_batches(std::span<const uint64_t> places, Appearances* found) const {
    const LengthOrder* lengths[block];
    const Permutation* permutations[block];
    uint64_t offsets[block];
    for (std::size_t i = 0; i < places.size(); ++i) {
        lengths[i] = &lengths_[last_at_most<uint64_t>(begins_, places[i])];
        permutations[i] = &lengths[i]->permutation;
        // samples that are skipped are longer than those in the bins
        found[i].count = places[i] < lengths[i]->end ? 1 : 0;
        offsets[i] = found[i].count == 1 ? places[i] - lengths[i]->begin : 0;
    }
    Permutation::invert({permutations, places.size()}, {offsets, places.size()});
    for (std::size_t i = 0; i < places.size(); ++i) {
        const auto begin = parts_.begin(),
                   after = std::ranges::upper_bound(
                       begin + static_cast<std::ptrdiff_t>(lengths[i]->part_begin),
                       begin + static_cast<std::ptrdiff_t>(lengths[i]->part_end), offsets[i], {},
                       &PartOrder::first);
        const PartOrder& part = *std::prev(after);
        const uint64_t offset = offsets[i] - part.first, bin = offset / part.count;
        found[i].position[0] = ids_[part.pattern].of(bin);
        found[i].slot[0] = part.slot + (offset - bin * part.count);
    }
}

}  // namespace sab
