#pragma once
/// What the states of samplers and of streams are refused for, in the same words.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.h"

namespace sab {

/// A state that is damaged, or of another format.
template <class... Rule>
[[noreturn]] void refuse_state(const Rule&... rule) {
    fail_about(SAB_E_FORMAT, "state", no_value, rule...);
}

/// A valid state that is of something else. The message has both values.
template <class... Rule>
[[noreturn]] void mismatch_state(const Rule&... rule) {
    fail_about(SAB_E_MISMATCH, "state", no_value, rule...);
}

/// The first 8 bytes: 4 letters, which say what it is the state of, and the version.
void check_state_begin(std::span<const std::byte> state, std::string_view letters,
                       const char* whose, uint32_t version);
void check_state_size(std::size_t size, uint64_t expected);
void check_state_checksum(uint64_t saved, uint64_t computed);

}  // namespace sab
