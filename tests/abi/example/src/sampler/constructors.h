#pragma once
// Generated from the public headers by tools/abi.py: do not edit.
// clang-format off

namespace sab {

/// Constructors of samplers, by which saved states name the kind.
constexpr const char* sampler_constructors[] = {
};

}  // namespace sab
