#pragma once
/// Files read by mapping or piece by piece, and replaced as a whole. On Windows, too, names are
/// UTF-8.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sab {

/// Maps the whole file read-only; throws SAB_E_IO. The bytes live as long as a copy of the pointer
/// does.
std::shared_ptr<const std::span<const std::byte>> map_file(const char* path);

/// Starts to read the pages of `part` of a mapped file, and none around them. The system may ignore
/// this.
void read_ahead(std::span<const std::byte> part) noexcept;

/// Writes the parts, one after the other, to a file that takes the place of `path` in one step;
/// throws SAB_E_IO.
void replace_file(const char* path, std::span<const std::span<const std::byte>> parts);

/// A file that is open for reading. Reads by position: processes that share it do not move each
/// other. Throws SAB_E_IO.
class OpenFile {
public:
    /// Refuses at once what is no regular file, such as a pipe; `advice` ends the message.
    explicit OpenFile(const std::string& name, std::string_view advice = "");
    ~OpenFile();
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;

    /// As much as there is room for, or less; 0 at the end.
    std::size_t read(uint64_t offset, char* to, std::size_t room) const;
    const std::string& name() const { return name_; }
    uint64_t size() const { return size_; }
    /// When it was modified last, in nanoseconds or coarser, as the system has it.
    uint64_t modified() const { return modified_; }

private:
    std::string name_;
    int file_;
    uint64_t size_ = 0, modified_ = 0;
};

/// Reads on from standard input: as much as there is room for, or less; 0 at the end; nothing if
/// none came within a tenth of a second, so that the caller can be asked whether to go on. Throws
/// SAB_E_IO.
std::optional<std::size_t> read_standard_input(char* to, std::size_t room);

/// While it lives, no file that is opened becomes standard input, output or error of a process that
/// has closed those: what is printed later would go into it.
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
