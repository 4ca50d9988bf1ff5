#include "memory/probe.h"

#include <atomic>
#include <string_view>

#include "base/callback.h"

namespace sab {
namespace {

std::atomic<const TorchHooks*> torch_hooks{nullptr};

}  // namespace

void set_torch_hooks(const TorchHooks* hooks) {
    torch_hooks.store(hooks, std::memory_order_release);
}

void fail_callback(const std::string& what, int32_t code) {
    throw Error(SAB_E_CALLBACK, text(what, " failed with code ", code), code);
}

Probe::Probe(const sab_probe_callbacks& callbacks) : callbacks_(callbacks) {
    require(reinterpret_cast<const void*>(callbacks.reset), "callbacks.reset");
    require(reinterpret_cast<const void*>(callbacks.current), "callbacks.current");
    require(reinterpret_cast<const void*>(callbacks.peak), "callbacks.peak");
    if ((callbacks.rng_save == nullptr) != (callbacks.rng_restore == nullptr))
        refuse_argument(
            named("callbacks.", callbacks.rng_save == nullptr ? "rng_save" : "rng_restore"), "NULL",
            "rng_save and rng_restore must be given together");
}

Probe::~Probe() {
    if (callbacks_.release != nullptr) callbacks_.release(callbacks_.ctx);
}

std::shared_ptr<Probe> Probe::open(const char* device, int64_t total_bytes) {
    check(total_bytes >= 0, "options.total_bytes", total_bytes, "must be at least 0");
    sab_probe_callbacks callbacks = SAB_PROBE_CALLBACKS_INIT;
    const std::string_view name = device;
    if (name == "host") {
        if (total_bytes > 0)
            fail_about(SAB_E_UNSUPPORTED, "options.total_bytes", total_bytes,
                       "the memory of the host cannot be limited by a probe");
        callbacks = host_probe();
    } else {
        const TorchHooks* const hooks = torch_hooks.load(std::memory_order_acquire);
        if (hooks == nullptr)
            fail_about(SAB_E_UNSUPPORTED, "device", Quoted(name),
                       "only \"host\" is known without LibTorch; call sab_torch_open() first");
        hooks->probe(device, total_bytes, callbacks);
    }
    try {
        return std::make_shared<Probe>(callbacks);
    } catch (...) {
        if (callbacks.release != nullptr) callbacks.release(callbacks.ctx);
        throw;
    }
}

template <class Function, class... Arguments>
void Probe::call(const char* what, Function function, Arguments... arguments) {
    hook([&] { return function(callbacks_.ctx, arguments...); }, "the probe's ", what);
}

void Probe::reset() {
    std::exception_ptr failure;
    if (!spans_.empty()) {
        try {
            const int64_t before = peak();
            for (Span* const span : spans_) span->seen_ = std::max(span->seen_, before);
        } catch (...) {
            failure = std::current_exception();
        }
    }
    call("reset", callbacks_.reset);
    if (failure) std::rethrow_exception(failure);
}

Probe::Span::Span(Probe& probe) : probe_(probe) {
    probe.reset();
    probe.spans_.push_back(this);
}

Probe::Span::~Span() {
    std::erase(probe_.spans_, this);
}

template <class Function, class... Others>
int64_t Probe::bytes_of(const char* name, Function function, Others... others) {
    int64_t bytes = unset_bytes;
    call(name, function, &bytes, others...);
    if (bytes == unset_bytes) fail_unset(text("the probe's ", name), "the bytes");
    return bytes;
}

int64_t Probe::peak() {
    return bytes_of("peak", callbacks_.peak);
}

sab_probe_stats Probe::read() {
    sab_probe_stats stats{
        sizeof(sab_probe_stats), bytes_of("current", callbacks_.current), peak(), -1, -1, -1};
    if (callbacks_.reserved != nullptr)
        stats.reserved_peak = bytes_of("reserved", callbacks_.reserved, &stats.largest_free);
    if (callbacks_.total != nullptr) stats.total = bytes_of("total", callbacks_.total);
    return stats;
}

void Probe::release_cache() {
    if (callbacks_.release_cache != nullptr) call("release_cache", callbacks_.release_cache);
}

bool Probe::is_out_of_memory(int32_t code) {
    if (code == SAB_OUT_OF_MEMORY || callbacks_.is_out_of_memory == nullptr)
        return code == SAB_OUT_OF_MEMORY;
    return called_back("the probe's is_out_of_memory",
                       [&] { return callbacks_.is_out_of_memory(callbacks_.ctx, code); }) != 0;
}

int32_t Probe::code_of_exception(std::initializer_list<TextPart> what) {
    const TorchHooks* const hooks = torch_hooks.load(std::memory_order_acquire);
    if (hooks != nullptr && hooks->caught_out_of_memory()) return SAB_OUT_OF_MEMORY;
    return called_back(joined(what), []() -> int32_t { throw; });
}

Probe::Rng::Rng(Probe& probe)
    : probe_(probe), depth_(probe.rng_depth_), exceptions_(std::uncaught_exceptions()) {
    if (probe.callbacks_.rng_save != nullptr)
        probe.call("rng_save", probe.callbacks_.rng_save, depth_);
    ++probe.rng_depth_;
}

Probe::Rng::~Rng() {
    if (std::uncaught_exceptions() > exceptions_) {
        try {
            restore();
        } catch (...) {  // ignored: an earlier failure is reported
        }
    }
    --probe_.rng_depth_;
}

void Probe::Rng::restore() {
    if (probe_.callbacks_.rng_restore != nullptr)
        probe_.call("rng_restore", probe_.callbacks_.rng_restore, depth_);
}

Measuring::~Measuring() {
    try {
        probe_.release_cache();
        probe_.reset();
    } catch (...) {  // ignored: an earlier failure is reported
    }
}

}  // namespace sab
