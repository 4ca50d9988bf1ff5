#pragma once
/// Where samples are in an epoch of packed rows.

#include "engine/histogram_packing.h"
#include "engine/locator.h"

namespace sab {

class RowLocator : public Locator {
public:
    RowLocator(const HistogramPacking& packing, const SamplerOptions& options);

protected:
    Found find(uint64_t, const double* sizes, uint64_t number) const override {
        return find_by_size<uint64_t>(*sizes, number, packing_.sizes(), packing_.first_places());
    }
    void find_batches(std::span<const uint64_t> places, Appearances* found) const override;

private:
    /// The samples of a length.
    struct LengthOrder {
        uint64_t begin, end;  ///< in the sorted order
        std::size_t part_begin, part_end;
        Permutation permutation;
    };
    /// The samples of a length in the bins of a pattern.
    struct PartOrder {
        uint64_t first;  ///< in the permutation of the length
        uint32_t count;  ///< in each bin
        uint32_t slot;   ///< of the first of them
        std::size_t pattern;
    };

    void add_parts(const Packing& bins, std::vector<uint64_t>& next);

    const HistogramPacking& packing_;
    std::vector<CostOrder::ClassIds> ids_;  ///< of the patterns
    std::vector<LengthOrder> lengths_;      ///< in the sorted order
    std::vector<uint64_t> begins_;          ///< of the lengths
    std::vector<PartOrder> parts_;          ///< by length, then as they follow in the permutation
};

}  // namespace sab
