#pragma once
/// A file of records: what comes out of it, divided into records, in chunks.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "stream/record.h"

namespace sab {

class Contents;
class KnownFile;

/// What is known of a file that was read, to notice when it has changed.
struct Known {
    uint64_t samples = 0;   ///< a hash of its size and of blocks of it
    uint64_t modified = 0;  ///< its time
    uint64_t read = 0;      ///< bytes read: whole blocks, or all
    uint64_t checksum = 0;  ///< of those
};

/// Consecutive records of a file, and the block that they lie in.
struct FileChunk {
    struct Text {
        const char* data;
        std::size_t length;
        double size;
    };
    std::vector<Text> texts;  ///< at least one
    Shares shares;            ///< of the block
    uint64_t begin = 0;       ///< where the first record begins in what comes out of the file
    uint64_t end = 0;         ///< where the record behind the last one begins
    Known known{};            ///< of the file when this was read

    /// Where the record of this number begins, or the one behind the last.
    uint64_t offset(std::size_t number) const {
        return number == texts.size()
                   ? end
                   : begin + static_cast<uint64_t>(texts[number].data - texts.front().data);
    }
    std::size_t bytes() const {
        return shares.block()->capacity() + texts.capacity() * sizeof(Text);
    }
};

/// A file that is open. Its places count what comes out.
class File {
public:
    File(const std::string& name, const Known* before, const sab_files_stream_options& options,
         sab_text_unit unit);
    ~File();
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    /// The next record begins there.
    void seek(uint64_t offset) {
        offset_ = offset;
        is_lost_ = true;
    }
    Known known() const;
    /// Fills a new chunk; false at the end of the file. After a failure the same records are read
    /// again. Those before a failure come first, in a chunk of their own.
    bool next(FileChunk& chunk);

private:
    void find();
    void fill(FileChunk& chunk, std::size_t room);
    std::size_t split_lines(FileChunk& chunk, std::string_view bytes);
    std::size_t split_lengths(FileChunk& chunk, std::string_view bytes);
    void add(FileChunk& chunk, std::string_view text);
    bool is_ascii(std::string_view text);
    [[noreturn]] void refuse_length(uint64_t length) const;
    [[noreturn]] void refuse_end() const;

    const std::unique_ptr<KnownFile> disk_;
    const std::unique_ptr<Contents> contents_;
    const sab_framing framing_;
    const uint64_t most_;
    const sab_text_unit unit_;
    uint64_t offset_ = 0;     ///< where the next record begins
    std::string_view rest_;   ///< of the last block: the bytes from there on
    std::size_t ascii_ = 0;   ///< those from the last text on that are ASCII end there
    Kept rest_owner_;         ///< of that block
    std::size_t wanted_ = 0;  ///< bytes of the next record, where they are known
    std::size_t usual_texts_ = 0;
    std::exception_ptr failure_;  ///< behind the last chunk
    bool is_at_end_ = false, is_lost_ = false;
};

}  // namespace sab
