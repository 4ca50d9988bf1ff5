#pragma once
/// A caller's progress callback, asked now and then by long loops.

#include <algorithm>
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
        if (length_ > 0) {
            const double share =
                static_cast<double>(done) / static_cast<double>(std::max<uint64_t>(total, 1));
            most_ = std::max(most_, begin_ + share * length_);
            done = static_cast<uint64_t>(most_ * whole);
            total = whole;
        }
        if (const int32_t code =
                called_back("the progress callback", [&] { return callback_(ctx_, done, total); });
            code != 0)
            throw Error(SAB_E_CANCELLED,
                        text("cancelled by the progress callback with code ", code, " at ", done,
                             " of ", total),
                        code);
    }

    /// One of some equal parts of the work. What is done of it is never less than before.
    Progress part(uint64_t part, uint64_t parts) const {
        Progress own(callback_, ctx_);
        own.length_ = (length_ > 0 ? length_ : 1) / static_cast<double>(parts);
        own.begin_ = begin_ + own.length_ * static_cast<double>(part);
        return own;
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
    static constexpr uint64_t whole = 1'000'000;

    sab_progress_fn callback_ = nullptr;
    void* ctx_ = nullptr;
    double begin_ = 0, length_ = 0;  ///< of a part, in all work; 0: no part
    mutable double most_ = 0;
};

/// While it lives, the work of the thread is one of some equal parts.
class ProgressPart {
public:
    ProgressPart(uint64_t part, uint64_t parts)
        : own_(current_progress() != nullptr ? current_progress()->part(part, parts) : Progress()),
          current_(&own_) {}

private:
    Progress own_;
    CurrentProgress current_;
};

/// Tells the thread's current progress, if there is one.
inline void report_progress(uint64_t done, uint64_t total) {
    if (const Progress* const progress = current_progress()) progress->report(done, total);
}

}  // namespace sab
