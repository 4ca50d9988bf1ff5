#pragma once
/// What sees the memory of a device, and calls the caller's work under its eyes.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/handle.h"
#include "sab/memory.h"

namespace sab {

/// What the LibTorch component adds once it is open. Set once, never taken back.
struct TorchHooks {
    /// Fills the functions of a probe for a device of LibTorch's.
    void (*probe)(const char* device, int64_t total_bytes, sab_probe_callbacks& callbacks);
    /// Inside a catch block: whether what was caught is LibTorch's out-of-memory error.
    bool (*caught_out_of_memory)();
};
void set_torch_hooks(const TorchHooks* hooks);

/// The probe of this process's resident memory; throws SAB_E_UNSUPPORTED where it cannot be known.
sab_probe_callbacks host_probe();

/// A failure of a caller's callback, its code unchanged.
[[noreturn]] void fail_callback(const std::string& what, int32_t code);

class Probe {
public:
    explicit Probe(const sab_probe_callbacks& callbacks);
    ~Probe();
    Probe(const Probe&) = delete;
    Probe& operator=(const Probe&) = delete;
    static std::shared_ptr<Probe> open(const char* device, int64_t total_bytes);

    void reset();
    sab_probe_stats read();
    int64_t peak();  ///< alone: the allocators' other numbers can be slow to come by
    void release_cache();
    /// Runs the caller's work on the device: its code, with SAB_OUT_OF_MEMORY for whatever means
    /// that, an exception of LibTorch's too.
    template <class Call>
    int32_t work(const char* what, Call&& call) {
        const int32_t code = run(call, what);
        return code != 0 && is_out_of_memory(code) ? SAB_OUT_OF_MEMORY : code;
    }
    /// Calls what must not fail: any code but 0 is thrown, unchanged. `what` are the parts of its
    /// name, which are put together only where it is told.
    template <class Call, class... What>
    static void hook(Call&& call, const What&... what) {
        if (const int32_t code = run(call, what...); code != 0) fail_callback(text(what...), code);
    }

    /// The most that is held while it lives, whatever else resets the probe meanwhile.
    class Span {
    public:
        explicit Span(Probe& probe);  ///< begins at a reset
        ~Span();
        Span(const Span&) = delete;
        Span& operator=(const Span&) = delete;
        /// of what was seen and the probe's peak now
        int64_t most(int64_t peak) const { return std::max(peak, seen_); }

    private:
        friend Probe;
        Probe& probe_;
        int64_t seen_ = -1;
    };

    /// Keeps the state of the random generators while it lives; an exception that passes brings it
    /// back.
    class Rng {
    public:
        explicit Rng(Probe& probe);
        ~Rng();
        Rng(const Rng&) = delete;
        Rng& operator=(const Rng&) = delete;
        void restore();

    private:
        Probe& probe_;
        uint64_t depth_;
        int exceptions_;
    };

private:
    template <class Call, class... What>
    static int32_t run(Call&& call, const What&... what) {
        try {
            return call();
        } catch (const Error&) {
            throw;
        } catch (...) {
            return code_of_exception({TextPart(what)...});
        }
    }
    bool is_out_of_memory(int32_t code);
    static int32_t code_of_exception(std::initializer_list<TextPart> what);
    template <class Function, class... Arguments>
    void call(const char* what, Function function, Arguments... arguments);
    template <class Function, class... Others>
    int64_t bytes_of(const char* name, Function function, Others... others);

    sab_probe_callbacks callbacks_;
    uint64_t rng_depth_ = 0;
    std::vector<Span*> spans_;
};

/// Whatever happens in a measurement, afterwards the peak begins again and caches are given back.
class Measuring {
public:
    explicit Measuring(Probe& probe) : probe_(probe), span_(probe) {}
    ~Measuring();
    const Probe::Span& span() const { return span_; }

private:
    Probe& probe_;
    Probe::Span span_;
};

}  // namespace sab

struct sab_probe {
    sab::Tag<sab_probe> tag{};
    std::shared_ptr<sab::Probe> impl;
};
