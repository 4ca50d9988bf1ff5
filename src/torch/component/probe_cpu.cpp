/// Sees every block of CPU tensors that LibTorch's allocator gives out under a thread's debug info,
/// which LibTorch hands on to the threads it runs for that thread. Can refuse blocks, as a full
/// device does.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/api/include/torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "torch/component/internal.h"

namespace sab_torch {
namespace {

thread_local int uncounted = 0;
thread_local const void* refused = nullptr;  ///< a block that is being taken back

/// The reporter's type of totals, which changed with the version.
#if TORCH_VERSION_MAJOR >= 2
using Total = std::size_t;
#else
using Total = int64_t;
#endif

class AllocationRecorder : public c10::MemoryReportingInfoBase {
public:
    AllocationRecorder(c10::DebugInfoBase* outer, int64_t limit)
        : outer_(dynamic_cast<c10::MemoryReportingInfoBase*>(outer)), limit_(limit) {}

    void reportMemoryUsage(void* block, int64_t size, Total allocated, Total reserved,
                           c10::Device device) override {
        if (block == refused) return;
        const bool counts = device.type() == c10::DeviceType::CPU && uncounted == 0;
        if (counts && size > 0) take(block, size);
        try {
            if (outer_ != nullptr && outer_->memoryProfilingEnabled())
                outer_->reportMemoryUsage(block, size, allocated, reserved, device);
        } catch (...) {  // an outer one is full
            if (counts && size > 0) give_back(block, -size);
            throw;
        }
        if (counts && size <= 0) give_back(block, size);
    }
    bool memoryProfilingEnabled() const override { return true; }

    void reset() {
        const std::scoped_lock lock(mutex_);
        peak_ = current_;
    }
    int64_t current() {
        const std::scoped_lock lock(mutex_);
        return current_;
    }
    int64_t peak() {
        const std::scoped_lock lock(mutex_);
        return peak_;
    }
    void close() {
        const std::scoped_lock lock(mutex_);
        open_ = false;
    }
    int64_t limit() const { return limit_; }

private:
    void take(void* block, int64_t size) {
        int64_t held = 0;
        {
            const std::scoped_lock lock(mutex_);
            if (!open_) return;
            // An address given out again was freed where the recorder does not see: in a thread
            // that LibTorch does not run for this one.
            if (const auto stale = blocks_.find(block); stale != blocks_.end()) {
                current_ -= stale->second;
                blocks_.erase(stale);
            }
            held = current_;
            if (limit_ == 0 || held + size <= limit_) {
                blocks_.emplace(block, size);
                current_ += size;
                peak_ = std::max(peak_, current_);
                return;
            }
        }
        // The block is allocated already, so it is freed. No recorder counts either.
        refused = block;
        c10::profiledCPUMemoryReporter().Delete(block);
        refused = nullptr;
        c10::free_cpu(block);
        TORCH_CHECK_WITH(OutOfMemoryError, false,
                         "out of memory on a device emulated by libsab: tried to allocate ", size,
                         " bytes, ", held, " of ", limit_, " are in use");
    }
    void give_back(void* block, int64_t size) {
        const std::scoped_lock lock(mutex_);
        // other blocks were allocated before the recorder
        if (open_ && blocks_.erase(block) > 0) current_ += size;
    }

    c10::MemoryReportingInfoBase* outer_;  ///< kept alive by the debug info under this one
    const int64_t limit_;
    std::mutex mutex_;
    bool open_ = true;
    /// allocated since the recorder exists and not freed, with their bytes
    std::unordered_map<void*, int64_t> blocks_;
    int64_t current_ = 0;
    int64_t peak_ = 0;
};

struct CpuProbe {
    std::shared_ptr<AllocationRecorder> recorder;
    std::thread::id thread = std::this_thread::get_id();
    Generators generators{c10::Device(c10::DeviceType::CPU)};
};

CpuProbe& cpu_probe_of(void* ctx) {
    return *static_cast<CpuProbe*>(ctx);
}

void release(void* ctx) {
    const std::unique_ptr<CpuProbe> probe(static_cast<CpuProbe*>(ctx));
    probe->recorder->close();
    // Elsewhere than on top of its own thread's debug info the recorder stays in place and only
    // passes reports on.
    const auto kind = c10::DebugInfoKind::PROFILER_STATE;
    if (std::this_thread::get_id() != probe->thread ||
        c10::ThreadLocalDebugInfo::get(kind) != probe->recorder.get())
        return;
    answered([] { c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::PROFILER_STATE); });
}

}  // namespace

Uncounted::Uncounted() {
    ++uncounted;
}
Uncounted::~Uncounted() {
    --uncounted;
}

void make_cpu_probe(int64_t total_bytes, sab_probe_callbacks& callbacks) {
    auto probe = std::make_unique<CpuProbe>();
    const auto kind = c10::DebugInfoKind::PROFILER_STATE;
    probe->recorder =
        std::make_shared<AllocationRecorder>(c10::ThreadLocalDebugInfo::get(kind), total_bytes);
    c10::ThreadLocalDebugInfo::_push(kind, probe->recorder);
    callbacks.reset = [](void* ctx) {
        cpu_probe_of(ctx).recorder->reset();
        return int32_t{0};
    };
    callbacks.current = [](void* ctx, int64_t* bytes) {
        *bytes = cpu_probe_of(ctx).recorder->current();
        return int32_t{0};
    };
    callbacks.peak = [](void* ctx, int64_t* bytes) {
        *bytes = cpu_probe_of(ctx).recorder->peak();
        return int32_t{0};
    };
    callbacks.total = [](void* ctx, int64_t* bytes) {
        const int64_t limit = cpu_probe_of(ctx).recorder->limit();
        *bytes = limit > 0 ? limit : int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
        return int32_t{0};
    };
    callbacks.rng_save = [](void* ctx, uint64_t depth) {
        return answered([&] { cpu_probe_of(ctx).generators.save(depth); });
    };
    callbacks.rng_restore = [](void* ctx, uint64_t depth) {
        return answered([&] { cpu_probe_of(ctx).generators.restore(depth); });
    };
    callbacks.release = &release;
    callbacks.ctx = probe.release();
}

}  // namespace sab_torch
