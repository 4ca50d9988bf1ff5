#include <algorithm>

#include "base/guard.h"
#include "base/image.h"
#include "base/options.h"
#include "base/progress.h"
#include "memory/model.h"
#include "memory/peaks.h"

extern "C" {

sab_status sab_probe_new(const char* device, const sab_probe_options* options,
                         sab_probe** probe) noexcept {
    return sab::guard_new(probe, "probe", [&] {
        sab::require(device, "device");
        const auto given = sab::read_options(options);
        return new sab_probe{{}, sab::Probe::open(device, given.total_bytes)};
    });
}

sab_status sab_probe_callbacks_new(const sab_probe_callbacks* callbacks,
                                   sab_probe** probe) noexcept {
    return sab::guard_new(probe, "probe", [&] {
        sab::require(callbacks, "callbacks");
        const auto given = sab::read_options(callbacks);
        return new sab_probe{{}, std::make_shared<sab::Probe>(given)};
    });
}

sab_status sab_probe_reset(sab_probe* probe) noexcept {
    return sab::guard([&] {
        sab::require(probe, "probe");
        std::shared_ptr(probe->impl)->reset();
    });
}

sab_status sab_probe_get_stats(sab_probe* probe, sab_probe_stats* stats) noexcept {
    return sab::guard([&] {
        sab::require(probe, "probe");
        sab::check_result(stats, "stats");
        sab::write_result(std::shared_ptr(probe->impl)->read(), stats);
    });
}

sab_status sab_probe_release_cache(sab_probe* probe) noexcept {
    return sab::guard([&] {
        sab::require(probe, "probe");
        std::shared_ptr(probe->impl)->release_cache();
    });
}

void sab_probe_free(sab_probe* probe) noexcept {
    sab::free_handle(probe);
}

sab_status sab_peaks_new(sab_peaks** peaks) noexcept {
    return sab::guard_new(peaks, "peaks", [] { return new sab_peaks; });
}

sab_status sab_collect_peak(sab_probe* probe, const sab_collect_peak_options* options,
                            sab_peaks* peaks) noexcept {
    return sab::guard([&] {
        sab::require(probe, "probe");
        sab::require(options, "options");
        sab::require(peaks, "peaks");
        const auto given = sab::read_options(options);
        peaks->impl.collect(*std::shared_ptr(probe->impl), given);
    });
}

sab_status sab_peaks_get_view(const sab_peaks* peaks, sab_peaks_view* view) noexcept {
    return sab::guard([&] {
        sab::require(peaks, "peaks");
        sab::check_result(view, "view");
        sab::write_result(peaks->impl.view(), view);
    });
}

void sab_peaks_free(sab_peaks* peaks) noexcept {
    sab::free_handle(peaks);
}

sab_status sab_measurement_points_find(const sab_measurement_options* options, size_t points,
                                       uint64_t* counts, double* lengths) noexcept {
    return sab::guard([&] {
        sab::require(options, "options");
        sab::require(counts, "counts");
        sab::require(lengths, "lengths");
        auto given = sab::read_options(options);
        sab::default_to(given.degree, 2);
        sab::measurement_points(given, {counts, points}, lengths);
    });
}

sab_status sab_memory_model_fit_new(const double* features, size_t count, size_t feature_count,
                                    const double* peaks, const sab_memory_model_options* options,
                                    sab_memory_model** model) noexcept {
    return sab::guard_new(model, "model", [&] {
        if (count > 0) {
            sab::require(features, "features");
            sab::require(peaks, "peaks");
        }
        auto given = sab::read_options(options);
        sab::default_to(given.degree, 2);
        sab::default_to(given.coverage, 0.95);
        return new sab_memory_model{
            {}, sab::MemoryModel::fit(features, count, feature_count, peaks, given)};
    });
}

sab_status sab_memory_model_get_info(const sab_memory_model* model,
                                     sab_memory_model_info* info) noexcept {
    return sab::guard([&] {
        sab::require(model, "model");
        sab::check_result(info, "info");
        sab::write_result(model->impl->info(), info);
    });
}

sab_status sab_memory_model_predict(const sab_memory_model* model, const double* features,
                                    size_t count, double* predicted, double* upper) noexcept {
    return sab::guard([&] {
        sab::require(model, "model");
        if (count > 0) sab::require(features, "features");
        model->impl->predict(features, count, predicted, upper);
    });
}

sab_status sab_memory_model_cost_new(const sab_memory_model* model, sab_cost** cost) noexcept {
    return sab::guard_new(cost, "cost", [&] {
        sab::require(model, "model");
        return new sab_cost{{}, model->impl->cost(), {nullptr, nullptr}, model->impl->columns()};
    });
}

sab_status sab_memory_model_save(const sab_memory_model* model, const char* path) noexcept {
    return sab::guard([&] {
        sab::require(model, "model");
        sab::require(path, "path");
        model->impl->save(path);
    });
}

sab_status sab_memory_model_file_new(const char* path, sab_memory_model** model) noexcept {
    return sab::guard_new(model, "model", [&] {
        sab::require(path, "path");
        return new sab_memory_model{{}, sab::MemoryModel::open(path)};
    });
}

sab_status sab_memory_model_write(const sab_memory_model* model, void* buffer, size_t capacity,
                                  size_t* size) noexcept {
    return sab::guard([&] {
        sab::require(model, "model");
        const auto image = model->impl->image();
        sab::write_bytes(buffer, "buffer", capacity, size,
                         [&](auto room) { return sab::write_image(sab::ImageParts{image}, room); });
    });
}

sab_status sab_memory_model_bytes_new(const void* data, size_t size,
                                      sab_memory_model** model) noexcept {
    return sab::guard_new(model, "model", [&] {
        if (size > 0) sab::require(data, "data");
        return new sab_memory_model{
            {}, sab::MemoryModel::read({static_cast<const std::byte*>(data), size}, "data")};
    });
}

void sab_memory_model_free(sab_memory_model* model) noexcept {
    sab::free_handle(model);
}

}  // extern "C"
