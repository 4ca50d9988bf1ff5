#pragma once
/// A file mapped for reading.

#include <cstddef>
#include <memory>
#include <span>

namespace sab {

/// Maps the whole file read-only; throws SAB_E_IO. The bytes live as long as a copy of the pointer does.
std::shared_ptr<const std::span<const std::byte>> map_file(const char* path);

}  // namespace sab
