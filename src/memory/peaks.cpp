#include "memory/peaks.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "base/callback.h"
#include "base/progress.h"

namespace sab {

void Peaks::collect(Probe& probe, const sab_collect_peak_options& options) {
    require(reinterpret_cast<const void*>(options.work), "options.work");
    check(options.keep_cache == 0 || options.keep_cache == 1, "options.keep_cache",
          options.keep_cache, "must be 0 or 1");
    const Progress progress(options.progress, options.progress_ctx);
    Probe::Rng rng(probe);
    for (uint64_t item = 0; options.item_count == 0 || item < options.item_count; ++item) {
        progress.report(item, options.item_count);
        if (!run(probe, options, item)) break;
    }
    rng.restore();
}

/// False when there are no more items.
bool Peaks::run(Probe& probe, const sab_collect_peak_options& options, uint64_t item) {
    constexpr std::size_t capacity = 64;
    room_.assign(capacity, unset_number);
    std::size_t count = unset_size;
    const Probe::Span span(probe);
    const sab_probe_stats before = probe.read();

    // Whatever becomes of the item, each hook runs, and the first failure is the one that is told.
    std::exception_ptr failure;
    const auto attempt = [&](auto&& call) {
        try {
            call();
        } catch (...) {
            if (!failure) failure = std::current_exception();
        }
    };
    int32_t code = 0;
    attempt([&] {
        code = probe.work("work", [&] {
            return options.work(options.ctx, item, room_.data(), capacity, &count);
        });
        sab_probe_stats after = probe.read();
        after.peak = span.most(after.peak);
        if (code == SAB_OUT_OF_MEMORY) {
            if (item >= options.warm_up) out_of_memory_.push_back(item);
            return;
        }
        if (code == SAB_END) return;
        if (code != 0) fail_callback(text("work on item ", item), code);
        if (count == unset_size) fail_unset("work", "the number of features");
        check(count <= capacity, text("features[", item, "]"), no_value, "has ", count,
              " numbers: ", "there is room for ", capacity);
        check(!has_any_ || count == feature_count_, text("features[", item, "]"), no_value, "has ",
              count, " numbers: ", "must be as many as of the items before, ", feature_count_);
        for (std::size_t i = 0; i < count; ++i)
            if (!std::isfinite(room_[i]))
                refuse_argument(named("features[", item, "][", i, "]"), room_[i], "must be finite");
        if (item >= options.warm_up) add(item, {room_.data(), count}, before, after);
    });
    const bool is_end = !failure && code == SAB_END;
    if (!is_end) {
        if (options.cleanup != nullptr)
            attempt([&] {
                Probe::hook([&] { return options.cleanup(options.ctx, item); },
                            "cleanup after item ", item);
            });
        if (options.collect_garbage != nullptr)
            attempt([&] {
                Probe::hook([&] { return options.collect_garbage(options.ctx); },
                            "collect_garbage after item ", item);
            });
        if (options.keep_cache == 0) attempt([&] { probe.release_cache(); });
    }
    attempt([&] { probe.reset(); });
    if (failure) std::rethrow_exception(failure);
    return !is_end;
}

void Peaks::add(uint64_t item, std::span<const double> features, const sab_probe_stats& before,
                const sab_probe_stats& after) {
    // Room first, so that the columns stay of one length when memory runs out.
    const std::size_t n = items_.size() + 1;
    if (items_.capacity() < n) {
        const std::size_t room = 2 * n + 16;
        items_.reserve(room);
        for (auto* column : {&before_, &peaks_, &reserved_peaks_, &largest_free_})
            column->reserve(room);
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
    return {0,
            items_.size(),
            feature_count_,
            items_.data(),
            features_.data(),
            before_.data(),
            peaks_.data(),
            reserved_peaks_.data(),
            largest_free_.data(),
            out_of_memory_.size(),
            out_of_memory_.data()};
}

}  // namespace sab
