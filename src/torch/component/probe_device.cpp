/// Devices with a caching allocator, by the interface that knows no vendor (LibTorch 2.9 and
/// later).
#include <torch/csrc/api/include/torch/version.h>

#include "torch/component/internal.h"

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 9)
#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>

namespace sab_torch {
namespace {

struct DeviceProbe {
    explicit DeviceProbe(c10::Device which)
        : device(which), allocator(c10::getDeviceAllocator(which.type())), generators(which) {}
    c10::Device device;
    c10::DeviceAllocator* allocator;
    Generators generators;
};

DeviceProbe& device_probe_of(void* ctx) {
    return *static_cast<DeviceProbe*>(ctx);
}

c10::CachingDeviceAllocator::DeviceStats stats_of(void* ctx) {
    return device_probe_of(ctx).allocator->getDeviceStats(device_probe_of(ctx).device.index());
}

}  // namespace

void make_device_probe(c10::Device device, int64_t total_bytes, sab_probe_callbacks& callbacks) {
    check_device(device);
    if (total_bytes > 0)
        sab::fail_about(SAB_E_UNSUPPORTED, "options.total_bytes", total_bytes,
                        "LibTorch has no way to limit a device that holds for all of them: set the "
                        "limit of ",
                        device.str(), " itself");
    at::globalContext().lazyInitDevice(device.type());  // the allocator has no statistics before
    auto probe = std::make_unique<DeviceProbe>(device);
    callbacks.reset = [](void* ctx) {
        return answered([&] {
            device_probe_of(ctx).allocator->resetPeakStats(device_probe_of(ctx).device.index());
        });
    };
    callbacks.current = [](void* ctx, int64_t* bytes) {
        return answered([&] { *bytes = stats_of(ctx).allocated_bytes[0].current; });
    };
    callbacks.peak = [](void* ctx, int64_t* bytes) {
        return answered([&] { *bytes = stats_of(ctx).allocated_bytes[0].peak; });
    };
    callbacks.reserved = [](void* ctx, int64_t* peak, int64_t* largest_free) {
        return answered([&] {
            *peak = stats_of(ctx).reserved_bytes[0].peak;
            *largest_free = -1;
        });
    };
    callbacks.total = [](void* ctx, int64_t* bytes) {
        return answered([&] {
            *bytes = static_cast<int64_t>(
                device_probe_of(ctx)
                    .allocator->getMemoryInfo(device_probe_of(ctx).device.index())
                    .second);
        });
    };
    callbacks.release_cache = [](void* ctx) {
        return answered([&] { device_probe_of(ctx).allocator->emptyCache(); });
    };
    callbacks.rng_save = [](void* ctx, uint64_t depth) {
        return answered([&] { device_probe_of(ctx).generators.save(depth); });
    };
    callbacks.rng_restore = [](void* ctx, uint64_t depth) {
        return answered([&] { device_probe_of(ctx).generators.restore(depth); });
    };
    callbacks.release = [](void* ctx) { delete static_cast<DeviceProbe*>(ctx); };
    callbacks.ctx = probe.release();
}

}  // namespace sab_torch

#else

namespace sab_torch {

void make_device_probe(c10::Device device, int64_t, sab_probe_callbacks&) {
    check_device(device);
    const std::string name = device.str();
    sab::fail_about(SAB_E_UNSUPPORTED, "device", sab::Quoted{name},
                    "LibTorch " TORCH_VERSION
                    " has no device-neutral memory statistics, 2.9 and later have");
}

}  // namespace sab_torch

#endif
