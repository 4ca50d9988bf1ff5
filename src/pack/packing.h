#pragma once
/// Which lengths share a bin. Samples of one length are alike, so what is packed is lengths, each
/// so many times.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/pages.h"
#include "cost/cost.h"
#include "plan/multiples.h"
#include "plan/sorted.h"
#include "sab/pack.h"
#include "sizes/columns.h"

namespace sab {

/// Sequences of one length: whole samples, and pieces of longer ones.
struct Length {
    uint64_t count;  ///< its sequences are numbered from 0
    uint32_t length;
    uint32_t segment_begin;  ///< of Packing::segments
    uint32_t segment_end;
};

/// A stretch of a length's sequences that are samples of one size, or the same piece or pieces of
/// them.
struct Segment {
    uint64_t end;     ///< its last sequence's number, plus one
    uint64_t offset;  ///< offset of its first sample in the sorted order
    uint64_t pieces;  ///< that each sample gives
    uint64_t start;   ///< in the sample, of the first of them
    uint32_t length;  ///< of each, before it is rounded up
};

/// `count` sequences of one length in each bin of a pattern: the bin number j has those from
/// `first` + j * `count` on.
struct Part {
    uint32_t length;  ///< of Packing::lengths
    uint32_t count;
    uint64_t first;
};

/// Bins that hold the same lengths.
struct BinPattern {
    std::size_t part_begin;  ///< of Packing::parts, longest first
    uint64_t bins;
    uint32_t sequences;  ///< in each
    uint32_t total;      ///< tokens in each
    double cost;         ///< of each, without the constant of the cost
};

struct Packing {
    uint32_t capacity = 0;
    Multiples multiples;
    bool splits = false;
    double laid_total = 0;              ///< tokens in the bins, with rounding
    HugeArray<uint32_t> order;          ///< sample indices by size; null where they are not known
    std::span<const uint32_t> skipped;  ///< of `order`
    std::vector<Length> lengths;        ///< longest first
    std::vector<Segment> segments;
    std::vector<BinPattern> patterns;  ///< costliest first
    std::vector<Part> parts;
    sab_packed_info info{};
};

inline constexpr uint64_t largest_capacity = 0x7FFFFFFFu;  // cumulative lengths are int32

/// The largest number of sequences that a bin may have.
inline uint32_t most_sequences(const sab_packed_options& options) {
    constexpr uint32_t unlimited = 0xFFFFFFFFu;
    return options.max_sequences > 0
               ? static_cast<uint32_t>(std::min<uint64_t>(options.max_sequences, unlimited))
               : unlimited;
}

/// Refuses options that break the rules.
void check_pack_options(const sab_packed_options& options, std::span<const std::string> names);
/// Of options that are checked.
Multiples multiples_of(const sab_packed_options& options);

/// What there is to pack in one column, and the lower bound: no bins.
Packing lengths_of(const SizeCounts& counts, const sab_packed_options& options);
/// What a sequence of each length adds to the cost of its bin.
std::vector<double> costs_of_lengths(const Packing& packing, const std::optional<Cost>& balance);
/// `costs`: of lengths, if the caller has given them.
uint64_t fingerprint_of(const Packing& packing, const SizeCounts& counts,
                        const sab_packed_options& options, std::span<const double> costs);
/// The bins of lengths by SAB_PACK_BEST_FIT, with at most `most` sequences each.
Packing best_fit(const std::vector<Length>& lengths, uint32_t capacity, uint32_t most);

/// Sizes of one column, by a method that packs lengths.
Packing pack(const Columns& columns, const sab_packed_options& options);
/// The same of samples without indices.
Packing pack(const SizeCounts& counts, std::span<const std::string> names,
             const sab_packed_options& options);

}  // namespace sab
