#pragma once
/// Bins of numbers of samples.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/handle.h"
#include "engine/histogram.h"
#include "pack/packing.h"

namespace sab {

/// A packing of samples without indices.
class HistogramPacking {
public:
    HistogramPacking(const Histogram& histogram, const sab_packed_options& options);

    const std::shared_ptr<const Packing>& packing() const { return packing_; }
    /// The distinct sizes of all samples.
    const std::vector<double>& sizes() const { return sizes_; }
    /// The place by size of the first sample of each; one more at the end.
    const std::vector<uint64_t>& first_places() const { return first_places_; }

    // The arrays of sab_packing_get_patterns().
    const std::vector<uint64_t>& bins() const { return bins_; }
    const std::vector<uint64_t>& begins() const { return begins_; }
    const std::vector<uint32_t>& lengths() const { return lengths_; }
    const std::vector<uint32_t>& counts() const { return counts_; }

private:
    std::vector<double> sizes_;
    std::vector<uint64_t> first_places_;
    std::shared_ptr<const Packing> packing_;
    std::vector<uint64_t> bins_, begins_;
    std::vector<uint32_t> lengths_, counts_;
};

}  // namespace sab

struct sab_packing {
    sab::Tag<sab_packing> tag{};
    sab::HistogramPacking impl;
};
