#pragma once
/// What files hold: their bytes, or what comes out of gzip and Zstandard.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sab {

/// Bytes with a name that are read by position.
class Readable {
public:
    Readable() = default;
    virtual ~Readable() = default;
    Readable(const Readable&) = delete;
    Readable& operator=(const Readable&) = delete;
    /// As much as there is room for, or less; 0 at the end.
    virtual std::size_t read(uint64_t offset, char* to, std::size_t room) = 0;
    virtual const std::string& name() const = 0;
};

enum class Compression : uint8_t { none, gzip, zstd };
Compression compression_of(Readable& file);  // by its first bytes

/// What comes out of a file.
class Contents {
public:
    explicit Contents(Readable& file) : file_(file) {}
    virtual ~Contents() = default;
    Contents(const Contents&) = delete;
    Contents& operator=(const Contents&) = delete;
    /// As much as there is room for, or less; 0 at the end.
    virtual std::size_t read(char* to, std::size_t room) = 0;
    /// Goes to a byte of what comes out, or to one before; says which.
    virtual uint64_t seek(uint64_t offset) = 0;

protected:
    [[noreturn]] void refuse(std::string_view why) const {
        fail_named(SAB_E_FORMAT, text("file \"", file_.name(), "\""), " ", "is damaged at byte ",
                   offset_, " or before: ", why);
    }
    [[noreturn]] void refuse_end() const {
        fail_named(SAB_E_FORMAT, text("file \"", file_.name(), "\""), " ", "is truncated at byte ",
                   offset_);
    }
    /// More of the file; false at its end.
    bool fill() {
        begin_ = 0;
        end_ = file_.read(offset_, buffer_.data(), buffer_.size());
        offset_ += end_;
        return end_ > 0;
    }
    void go_to(uint64_t offset) {
        offset_ = offset;
        begin_ = end_ = 0;
    }

    Readable& file_;
    uint64_t offset_ = 0;  ///< in the file, after what is in the buffer
    std::vector<char> buffer_ = std::vector<char>(1 << 16);
    std::size_t begin_ = 0, end_ = 0;
};

/// Reads a file as its first bytes say. The file must live as long as the contents.
std::unique_ptr<Contents> open_contents(Readable& file);

}  // namespace sab
