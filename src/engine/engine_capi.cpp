#include <algorithm>

#include "base/guard.h"
#include "engine/bucket_locator.h"
#include "engine/histogram.h"
#include "engine/histogram_packing.h"
#include "engine/histogram_plan.h"
#include "engine/mixture_locator.h"
#include "engine/row_locator.h"
#include "plan/counted_turns.h"

namespace {

/// `make` makes the locator of checked options. `has_buckets`: as of SamplerOptions.
template <class Make>
void locate(const sab_sampler_options* options, const uint32_t* sources, const double* sizes,
            const uint64_t* numbers, const uint64_t* which, size_t count, const sab_places* places,
            bool has_buckets, Make&& make) {
    sab::check_result(places, "places");
    if (count > 0) {
        sab::require(sizes, "sizes");
        sab::require(numbers, "numbers");
    }
    const sab::SamplerOptions given(sab::read_options(options), has_buckets);
    sab::refuse_steps_per_epoch(given, "places are those of an epoch of the data");
    const auto out = sab::read_options(places, "places");
    const std::unique_ptr<const sab::Locator> locator = make(given);
    locator->locate(sources, {sizes, count * locator->columns()}, {numbers, count}, which, out);
    if (out.batch_count != nullptr) *out.batch_count = locator->batch_count();
}

}  // namespace

extern "C" {

sab_status sab_histogram_new(sab_histogram** histogram) noexcept {
    return sab::guard_new(histogram, "histogram", [] { return new sab_histogram; });
}

sab_status sab_histogram_add(sab_histogram* histogram, const sab_sizes* sizes,
                             uint64_t* numbers) noexcept {
    return sab::guard([&] {
        sab::require(histogram, "histogram");
        sab::require(sizes, "sizes");
        histogram->impl.add(sizes->impl, {numbers, numbers != nullptr ? sizes->impl.count() : 0});
        histogram->names = sab::NamePointers(histogram->impl.names());
    });
}

sab_status sab_histogram_merge(sab_histogram* histogram, const sab_histogram* other) noexcept {
    return sab::guard([&] {
        sab::require(histogram, "histogram");
        sab::require(other, "other");
        histogram->impl.merge(other->impl);
        histogram->names = sab::NamePointers(histogram->impl.names());
    });
}

sab_status sab_histogram_subtract(sab_histogram* histogram, const sab_histogram* other) noexcept {
    return sab::guard([&] {
        sab::require(histogram, "histogram");
        sab::require(other, "other");
        histogram->impl.subtract(other->impl);
        histogram->names = sab::NamePointers(histogram->impl.names());
    });
}

sab_status sab_histogram_get_info(const sab_histogram* histogram,
                                  sab_histogram_info* info) noexcept {
    return sab::guard([&] {
        sab::require(histogram, "histogram");
        sab::check_result(info, "info");
        const sab::Histogram& own = histogram->impl;
        sab::write_result(
            sab_histogram_info{0, own.samples(), own.entries(), own.total(), own.columns(),
                               histogram->names.get(), own.sources(), own.fingerprint(),
                               own.sizes().data(), own.counts().data(),
                               own.sources() > 0 ? own.sources_of().data() : nullptr},
            info);
    });
}

sab_status sab_histogram_write(const sab_histogram* histogram, void* buffer, size_t capacity,
                               size_t* size) noexcept {
    return sab::guard([&] {
        sab::require(histogram, "histogram");
        sab::write_bytes(buffer, "buffer", capacity, size,
                         [&](auto room) { return histogram->impl.write(room); });
    });
}

sab_status sab_histogram_bytes_new(const void* data, size_t size,
                                   sab_histogram** histogram) noexcept {
    return sab::guard_new(histogram, "histogram", [&] {
        if (size > 0) sab::require(data, "data");
        return new sab_histogram{{},
                                 sab::Histogram::read({static_cast<const std::byte*>(data), size})};
    });
}

void sab_histogram_free(sab_histogram* histogram) noexcept {
    sab::free_handle(histogram);
}

sab_status sab_histogram_epoch_new(const sab_histogram* histogram, const double* repeats,
                                   size_t repeat_count, uint64_t epoch, uint64_t seed,
                                   sab_histogram** of_epoch) noexcept {
    return sab::guard_new(of_epoch, "of_epoch", [&] {
        sab::require(histogram, "histogram");
        if (repeat_count > 0) sab::require(repeats, "repeats");
        return new sab_histogram{{},
                                 histogram->impl.in_epoch({repeats, repeat_count}, epoch, seed)};
    });
}

sab_status sab_histogram_plan_new(const sab_histogram* histogram, const sab_plan_options* options,
                                  sab_plan** plan) noexcept {
    return sab::guard_new(plan, "plan", [&] {
        sab::require(histogram, "histogram");
        sab::require(options, "options");
        const auto given = sab::read_options(options);
        sab::check(histogram->impl.samples() > 0, "histogram.samples", 0, "must be at least 1");
        sab::check(given.threads <= 1, "options.threads", given.threads,
                   "must be 0 or 1: the sizes of a histogram are sorted already");
        const sab::PlanOptions checked(given, histogram->impl.names());
        auto made = sab::make_plan(histogram->impl, checked);
        return new sab_plan(std::move(made), nullptr, histogram->impl.turns());
    });
}

sab_status sab_histogram_plan_locate(const sab_plan* plan, const sab_sampler_options* options,
                                     const uint32_t* sources, const double* sizes,
                                     const uint64_t* numbers, const uint64_t* which, size_t count,
                                     const sab_places* places) noexcept {
    return sab::guard([&] {
        using Made = std::unique_ptr<const sab::Locator>;
        sab::require(plan, "plan");
        const auto& turns = plan->turns;
        const auto make = [&](const sab::SamplerOptions& given) {
            const auto& all = plan->of_all_epochs("sab_histogram_plan_locate");
            sab::check_sources(turns != nullptr, sources, count);
            if (turns != nullptr) return Made(new sab::MixtureLocator(all, turns, given));
            const bool is_second = all->second() && sab::has_second_buckets(given.epoch);
            return Made(new sab::BucketLocator(is_second ? all->second() : all, given));
        };
        // the steps of a mixture are near the dues, whatever they cost
        locate(options, sources, sizes, numbers, which, count, places, turns == nullptr, make);
    });
}

sab_status sab_histogram_packing_new(const sab_histogram* histogram, const sab_packed_options* pack,
                                     sab_packing** packing) noexcept {
    return sab::guard_new(packing, "packing", [&] {
        sab::require(histogram, "histogram");
        sab::require(pack, "pack");
        const auto given = sab::read_options(pack, "pack");
        return new sab_packing{{}, sab::HistogramPacking(histogram->impl, given)};
    });
}

sab_status sab_packing_get_info(const sab_packing* packing, sab_packed_info* info) noexcept {
    return sab::guard([&] {
        sab::require(packing, "packing");
        sab::check_result(info, "info");
        sab::write_result(packing->impl.packing()->info, info);
    });
}

sab_status sab_packing_get_patterns(const sab_packing* packing, size_t* count,
                                    const uint64_t** bins, const uint64_t** begins,
                                    const uint32_t** lengths, const uint32_t** sequences) noexcept {
    return sab::guard([&] {
        sab::require(packing, "packing");
        const sab::HistogramPacking& own = packing->impl;
        if (count != nullptr) *count = own.bins().size();
        if (bins != nullptr) *bins = own.bins().data();
        if (begins != nullptr) *begins = own.begins().data();
        if (lengths != nullptr) *lengths = own.lengths().data();
        if (sequences != nullptr) *sequences = own.counts().data();
    });
}

sab_status sab_packing_locate(const sab_packing* packing, const sab_sampler_options* options,
                              const double* sizes, const uint64_t* numbers, const uint64_t* which,
                              size_t count, const sab_places* places) noexcept {
    return sab::guard([&] {
        sab::require(packing, "packing");
        locate(options, nullptr, sizes, numbers, which, count, places, false,
               [&](const auto& given) {
                   return std::make_unique<const sab::RowLocator>(packing->impl, given);
               });
    });
}

void sab_packing_free(sab_packing* packing) noexcept {
    sab::free_handle(packing);
}

}  // extern "C"
