#include "engine/histogram_packing.h"

namespace sab {
namespace {

void check_packing(const Histogram& histogram, const sab_packed_options& options) {
    constexpr const char* caller = "sab_histogram_packing_new";
    refuse_mixture(histogram, caller);
    if (histogram.columns() > 1)
        fail(SAB_E_UNSUPPORTED, caller, ": the histogram has ", histogram.columns(),
             " columns: must have one");
    check_pack_options(options, histogram.names());
    if (options.method != SAB_PACK_BEST_FIT && options.method != SAB_PACK_HISTOGRAM)
        fail(SAB_E_UNSUPPORTED, caller, ": pack.method = ", options.method,
             ": must be SAB_PACK_BEST_FIT (1) or SAB_PACK_HISTOGRAM (2): the others pack the "
             "samples in their order, which a histogram does not have");
}

}  // namespace

HistogramPacking::HistogramPacking(const Histogram& histogram, const sab_packed_options& options) {
    check_packing(histogram, options);
    sizes_.assign(histogram.sizes().begin(), histogram.sizes().end());
    first_places_ = histogram.first_places();
    packing_ = std::make_shared<const Packing>(
        pack(SizeCounts(sizes_, first_places_), histogram.names(), options));
    begins_.push_back(0);
    for (const BinPattern& pattern : packing_->patterns) {
        bins_.push_back(pattern.bins);
        const Part* part = &packing_->parts[pattern.part_begin];
        for (uint32_t sequences = 0; sequences < pattern.sequences; ++part) {
            lengths_.push_back(packing_->lengths[part->length].length);
            counts_.push_back(part->count);
            sequences += part->count;
        }
        begins_.push_back(lengths_.size());
    }
}

}  // namespace sab
