#pragma once
/// Long loops in several threads.

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/progress.h"

namespace sab {

/// Items that are divided into contiguous parts, one for each thread.
struct Parts {
    std::size_t count = 0;
    std::size_t parts = 1;  ///< at least 1
    std::size_t begin(std::size_t part) const {
        return count / parts * part + (part < count % parts ? part : count % parts);
    }
};

/// The part of a call's progress that a loop reports.
struct ProgressRange {
    uint64_t begin, end, total;
};

/// Runs `block(part, first, last)` over all items, in stretches short enough to follow and cancel.
/// Each part is one thread's work, in order. The caller's thread does the first part, and those for
/// which no thread could be started. Only the caller's thread calls `progress`. Throws what the
/// lowest part threw, when no thread runs any more.
void in_parts(const Parts& parts, const Progress& progress, const ProgressRange& range,
              const std::function<void(std::size_t, std::size_t, std::size_t)>& block);

}  // namespace sab
