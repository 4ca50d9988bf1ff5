#include "memory/peaks.h"

#include <algorithm>
#include <cmath>

#include "base/progress.h"

namespace sab {

void Peaks::collect(Probe& probe, const sab_collect_peak_options& options) {
    require(reinterpret_cast<const void*>(options.work), "options.work");
    check(options.release_cache == 0 || options.release_cache == 1, "options.release_cache", options.release_cache, "must be 0 or 1");
    const Progress progress(options.progress, options.progress_ctx);
    const uint64_t total = options.item_count == UINT64_MAX ? 0 : options.item_count;
    for (uint64_t item = 0; item < options.item_count; ++item) {
        progress.report(item, total);
        if (!run(probe, options, item)) break;
    }
}

/// False when there are no more items.
bool Peaks::run(Probe& probe, const sab_collect_peak_options& options, uint64_t item) {
    constexpr std::size_t capacity = 64;
    room_.assign(capacity, 0);
    std::size_t count = 0;
    probe.reset();
    const sab_memory_stats before = probe.read();

    // The hooks run whatever became of the item; the item's own failure is the one that is told.
    const auto clean_up = [&] {
        if (options.cleanup != nullptr)
            if (const int32_t code = probe.run("cleanup", [&] { return options.cleanup(options.ctx, item); }); code != 0)
                fail_callback(text("cleanup after item ", item), code);
        if (options.collect_garbage != nullptr)
            if (const int32_t code = probe.run("collect_garbage", [&] { return options.collect_garbage(options.ctx); }); code != 0)
                fail_callback(text("collect_garbage after item ", item), code);
        if (options.release_cache == 1) probe.release_cache();
    };
    int32_t code = 0;
    sab_memory_stats after;
    try {
        code = probe.run("work", [&] { return options.work(options.ctx, item, room_.data(), capacity, &count); });
        after = probe.read();
        if (code != 0 && code != SAB_OUT_OF_MEMORY && code != SAB_END) fail_callback(text("work on item ", item), code);
        if (code == 0) {
            check(count <= capacity, text("features of item ", item), count, "there is room for ", capacity);
            check(!has_any_ || count == feature_count_, text("features of item ", item), count, "must be as many as of the items before, ", feature_count_);
            for (std::size_t i = 0; i < count; ++i)
                if (!std::isfinite(room_[i])) fail(SAB_E_ARGUMENT, "features[", i, "] of item ", item, " = ", room_[i], ": must be finite");
        }
    } catch (...) {
        try {
            clean_up();
            probe.reset();
        } catch (...) {
        }
        throw;
    }
    if (code == SAB_END) {
        probe.reset();
        return false;
    }
    if (item >= options.warm_up) {
        if (code == SAB_OUT_OF_MEMORY)
            out_of_memory_.push_back(item);
        else
            add(item, {room_.data(), count}, before, after);
    }
    clean_up();
    probe.reset();
    return true;
}

void Peaks::add(uint64_t item, std::span<const double> features, const sab_memory_stats& before, const sab_memory_stats& after) {
    // Room first, so that the columns stay of one length when memory runs out.
    const std::size_t n = items_.size() + 1;
    if (items_.capacity() < n) {
        const std::size_t room = 2 * n + 16;
        items_.reserve(room);
        for (auto* column : {&before_, &peaks_, &reserved_peaks_, &largest_free_}) column->reserve(room);
    }
    features_.insert(features_.end(), features.begin(), features.end());
    feature_count_ = features.size();
    has_any_ = true;
    items_.push_back(item);
    before_.push_back(before.current);
    peaks_.push_back(after.peak);
    reserved_peaks_.push_back(after.reserved_peak);
    largest_free_.push_back(after.largest_free);
}

sab_peaks_view Peaks::view() const {
    return {0, items_.size(), feature_count_, items_.data(), features_.data(), before_.data(), peaks_.data(), reserved_peaks_.data(),
            largest_free_.data(), out_of_memory_.size(), out_of_memory_.data()};
}

}  // namespace sab
