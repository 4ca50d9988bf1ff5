#pragma once
/// A caller's progress callback, asked now and then by long loops.

#include <cstdint>

#include "base/callback.h"

namespace sab {

class Progress {
public:
    Progress() = default;
    Progress(sab_progress_fn callback, void* ctx) : callback_(callback), ctx_(ctx) {}

    /// Throws SAB_E_CANCELLED when the callback asks to stop.
    void report(uint64_t done, uint64_t total) const {
        if (callback_ == nullptr) return;
        if (const int32_t code =
                called_back("the progress callback", [&] { return callback_(ctx_, done, total); });
            code != 0)
            throw Error(SAB_E_CANCELLED,
                        text("cancelled by the progress callback with code ", code, " at ", done,
                             " of ", total),
                        code);
    }

    /// Runs `block(first, last)` over [0, count) in stretches short enough to follow and cancel.
    template <class Block>
    void blocks(uint64_t count, uint64_t base, uint64_t total, Block&& block) const {
        constexpr uint64_t stretch = uint64_t{1} << 20;
        for (uint64_t first = 0; first < count; first += stretch) {
            report(base + first, total);
            block(first, first + stretch < count ? first + stretch : count);
        }
    }

private:
    sab_progress_fn callback_ = nullptr;
    void* ctx_ = nullptr;
};

/// Tells the thread's current progress, if there is one.
inline void report_progress(uint64_t done, uint64_t total) {
    if (const Progress* const progress = current_progress()) progress->report(done, total);
}

}  // namespace sab
