#pragma once
/// Files read by mapping, and replaced as a whole.

#include <cstddef>
#include <memory>
#include <span>

namespace sab {

/// Maps the whole file read-only; throws SAB_E_IO. The bytes live as long as a copy of the pointer does.
std::shared_ptr<const std::span<const std::byte>> map_file(const char* path);

/// Writes the parts, one after the other, to a file that takes the place of `path` in one step; throws SAB_E_IO.
void replace_file(const char* path, std::span<const std::span<const std::byte>> parts);

/// While it lives, no file that is opened becomes standard input, output or error of a process that has closed those: what is printed later would go into it.
class StandardStreams {
public:
    StandardStreams() noexcept;
    ~StandardStreams();
    StandardStreams(const StandardStreams&) = delete;
    StandardStreams& operator=(const StandardStreams&) = delete;

private:
    bool is_taken_[3] = {};
};

}  // namespace sab
