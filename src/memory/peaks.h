#pragma once
/// Peaks of items, collected.

#include <span>
#include <vector>

#include "base/handle.h"
#include "memory/probe.h"

namespace sab {

class Peaks {
public:
    /// Adds the items of `options`; what was added stays when it throws.
    void collect(Probe& probe, const sab_collect_peak_options& options);
    sab_peaks_view view() const;

private:
    bool run(Probe& probe, const sab_collect_peak_options& options, uint64_t item);
    void add(uint64_t item, std::span<const double> features, const sab_probe_stats& before,
             const sab_probe_stats& after);

    bool has_any_ = false;
    std::size_t feature_count_ = 0;
    std::vector<uint64_t> items_;
    std::vector<double> features_;
    std::vector<int64_t> before_, peaks_, reserved_peaks_, largest_free_;
    std::vector<uint64_t> out_of_memory_;
    std::vector<double> room_;
};

}  // namespace sab

struct sab_peaks {
    sab::Tag<sab_peaks> tag{};
    sab::Peaks impl;
};
