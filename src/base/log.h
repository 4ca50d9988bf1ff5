#pragma once
/// Messages to the log callback of the process.

#include <initializer_list>

#include "base/error.h"

namespace sab {

/// NULL: no callback. Any thread at any time.
void set_log_callback(sab_log_fn callback, void* ctx) noexcept;

/// Sends a message to the log callback, if there is one.
void log_line(sab_log_level level, std::initializer_list<TextPart> parts) noexcept;

/// The same of text and numbers. The message is dropped if memory runs out: a failed warning must
/// not fail the call.
template <class... Parts>
void log(sab_log_level level, const Parts&... parts) noexcept {
    log_line(level, {TextPart(parts)...});
}

}  // namespace sab
