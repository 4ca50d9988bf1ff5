#include "stream/file.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/contents.h"
#include "base/files.h"
#include "base/hasher.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/xxhash.h"

namespace sab {

/// A file whose bytes are summed as they are read, in order and each once.
class KnownFile : public Readable {
public:
    static constexpr std::size_t block = 1 << 16;

    explicit KnownFile(const std::string& name) : disk_(name) { sample(); }
    /// One that may have been read before: throws SAB_E_MISMATCH when it has changed since.
    KnownFile(const std::string& name, const Known* before) : KnownFile(name) {
        if (before != nullptr) compare(*before);
    }

    const std::string& name() const override { return disk_.name(); }
    std::size_t read(uint64_t offset, char* to, std::size_t room) override {
        if (offset > summed_) sum_until(offset);
        const std::size_t count = disk_.read(offset, to, room);
        if (offset <= summed_ && offset + count > summed_)
            sum({to + (summed_ - offset), static_cast<std::size_t>(offset + count - summed_)});
        return count;
    }
    Known known() const {
        if (is_whole_ || summed_ != disk_.size())
            return {samples_, disk_.modified(), summed_ - (is_whole_ ? 0 : summed_ % block),
                    checksum_};
        return {samples_, disk_.modified(), summed_,
                summed_ % block == 0 ? checksum_ : joined_checksum()};
    }

private:
    /// Sixteen blocks of 4 KiB spread over the file; of a small one all.
    void sample() {
        constexpr uint64_t samples = 16, length = block / samples;
        std::vector<char> bytes(block);
        std::size_t count = 0;
        if (disk_.size() <= block) {
            count = disk_.read(0, bytes.data(), block);
        } else {
            for (uint64_t i = 0; i < samples; ++i)
                count += disk_.read((disk_.size() - length) / (samples - 1) * i,
                                    bytes.data() + count, length);
        }
        samples_ = XXH3_64bits_withSeed(bytes.data(), count, disk_.size());
    }

    void compare(const Known& before) {
        const bool is_same = samples_ == before.samples;
        if (is_same && disk_.modified() != before.modified) {
            sum_until(before.read);
            if (known().read != before.read || known().checksum != before.checksum) refuse();
            log(SAB_LOG_WARNING,
                text("file \"", name(),
                     "\" was modified since it was read before; its size, samples of it and the ",
                     before.read, " bytes read then are the same"));
        }
        if (!is_same || before.read > disk_.size()) refuse();
        summed_ = before.read;
        checksum_ = before.checksum;
        is_whole_ = before.read == disk_.size();
        hash_.reset();
    }
    [[noreturn]] void refuse() const {
        fail(SAB_E_MISMATCH, "file \"", name(), "\" has changed since it was read before");
    }

    void sum_until(uint64_t offset) {
        std::vector<char> bytes(block);
        while (summed_ < offset) {
            report_progress(summed_, offset);
            const std::size_t count =
                disk_.read(summed_, bytes.data(), std::min<uint64_t>(block, offset - summed_));
            if (count == 0) return;
            sum({bytes.data(), count});
        }
    }
    void sum(std::string_view bytes) {
        while (!bytes.empty()) {
            const std::size_t count =
                std::min(bytes.size(), block - static_cast<std::size_t>(summed_ % block));
            hash_.add_bytes(bytes.data(), count);
            bytes.remove_prefix(count);
            summed_ += count;
            if (summed_ % block != 0) continue;
            checksum_ = joined_checksum();
            hash_.reset();
        }
    }
    /// Of the blocks before and the one that is being summed.
    uint64_t joined_checksum() const {
        const uint64_t last = hash_.digest();
        return XXH3_64bits_withSeed(&last, sizeof last, checksum_);
    }

    OpenFile disk_;
    uint64_t samples_ = 0;
    /// bytes summed, and the checksum of the whole blocks of them
    uint64_t summed_ = 0, checksum_ = 0;
    bool is_whole_ = false;  ///< the checksum is of all, the last block too
    Hasher hash_;            ///< of a block
};

/// How many bytes come before the first one that is not ASCII.
static std::size_t ascii_prefix(std::string_view text) {
    constexpr uint64_t highest = 0x8080808080808080;
    std::size_t at = 0;
    for (std::array<uint64_t, 4> words{}; text.size() - at >= sizeof words; at += sizeof words) {
        std::memcpy(words.data(), text.data() + at, sizeof words);
        if (((words[0] | words[1] | words[2] | words[3]) & highest) != 0) break;
    }
    while (at < text.size() && (text[at] & 0x80) == 0) ++at;
    return at;
}

File::File(const std::string& name, const Known* before, const sab_files_stream_options& options,
           sab_text_unit unit)
    : disk_(std::make_unique<KnownFile>(name, before)),
      contents_(open_contents(*disk_)),
      framing_(options.framing),
      most_(options.max_record),
      unit_(unit) {}
File::~File() = default;

Known File::known() const {
    return disk_->known();
}

bool File::next(FileChunk& chunk) {
    constexpr std::size_t usual = 1 << 18;
    try {
        if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
        if (is_lost_) find();
        std::size_t used = 0;
        for (std::size_t room = usual; used == 0; room = 2 * room) {
            fill(chunk, std::max({room, 2 * rest_.size(), wanted_}));
            used = framing_ == SAB_FRAMING_LINES ? split_lines(chunk, rest_)
                                                 : split_lengths(chunk, rest_);
            if (used > 0) break;
            if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
            if (is_at_end_ && rest_.empty()) return false;
            if (is_at_end_) refuse_end();
        }
        chunk.begin = offset_;
        chunk.end = offset_ += used;
        rest_.remove_prefix(used);
        usual_texts_ = chunk.texts.size();
    } catch (...) {
        is_lost_ = true;
        throw;
    }
    chunk.known = known();
    return true;
}

/// Another block: what is left of the one before, and what comes out of the file behind it.
void File::fill(FileChunk& chunk, std::size_t room) {
    chunk.shares.take(new Block(room));
    char* const to = chunk.shares.block()->data();
    std::size_t end = rest_.size();
    if (end > 0) std::memcpy(to, rest_.data(), end);
    try {
        for (std::size_t count = 1; count > 0 && end < room; end += count)
            is_at_end_ = (count = contents_->read(to + end, room - end)) == 0;
    } catch (const Error&) {
        failure_ = std::current_exception();
    }
    rest_owner_ = chunk.shares.share();
    rest_ = {to, end};
    ascii_ = 0;
}

/// The bytes of the whole lines, and of the last one at the end of the file.
std::size_t File::split_lines(FileChunk& chunk, std::string_view bytes) {
    chunk.texts.reserve(usual_texts_ + usual_texts_ / 8);
    std::size_t begin = 0;
    while (begin < bytes.size()) {
        const auto* const newline =
            static_cast<const char*>(std::memchr(bytes.data() + begin, '\n', bytes.size() - begin));
        const bool is_whole = newline != nullptr || (is_at_end_ && !failure_);
        const std::size_t end =
            newline != nullptr ? static_cast<std::size_t>(newline - bytes.data()) : bytes.size();
        std::string_view line = bytes.substr(begin, end - begin);
        if (newline != nullptr && line.ends_with('\r')) line.remove_suffix(1);
        // one that goes on may end with \r
        if (line.size() - (is_whole || line.empty() ? 0 : 1) > most_) {
            if (begin == 0) refuse_length(line.size());
            break;
        }
        if (!is_whole) break;
        add(chunk, line);
        begin = end + (newline != nullptr ? 1 : 0);
    }
    return begin;
}

/// The bytes of the whole records.
std::size_t File::split_lengths(FileChunk& chunk, std::string_view bytes) {
    chunk.texts.reserve(usual_texts_ + usual_texts_ / 8);
    std::size_t begin = 0;
    wanted_ = 0;
    while (bytes.size() - begin >= 4) {
        std::array<unsigned char, 4> prefix{};
        std::memcpy(prefix.data(), bytes.data() + begin, 4);
        const uint64_t length =
            prefix[0] | prefix[1] << 8 | prefix[2] << 16 | uint64_t{prefix[3]} << 24;
        if (length > most_) {
            if (begin == 0) refuse_length(length);
            break;
        }
        if (bytes.size() - begin - 4 < length) {
            wanted_ = 4 + length;
            break;
        }
        add(chunk, bytes.substr(begin + 4, length));
        begin += 4 + length;
    }
    return begin;
}

void File::add(FileChunk& chunk, std::string_view text) {
    const bool is_by_bytes = unit_ == SAB_TEXT_CHARACTERS && is_ascii(text);
    chunk.texts.push_back(
        {text.data(), text.size(), size_of(text, is_by_bytes ? SAB_TEXT_BYTES : unit_)});
}

/// Whether a text of the block is ASCII, where characters are bytes. Texts are asked for in their
/// order, so that each byte is read once.
bool File::is_ascii(std::string_view text) {
    const auto begin = static_cast<std::size_t>(text.data() - rest_.data());
    if (begin > ascii_) ascii_ = begin + ascii_prefix(rest_.substr(begin));
    return begin + text.size() <= ascii_;
}

void File::find() {
    rest_ = {};
    wanted_ = 0;
    std::vector<char> bytes(1 << 16);
    for (uint64_t at = contents_->seek(offset_); at < offset_;) {
        const std::size_t count =
            contents_->read(bytes.data(), std::min<uint64_t>(bytes.size(), offset_ - at));
        if (count == 0)
            fail(SAB_E_MISMATCH, "file \"", disk_->name(), "\" ends at byte ", at, ", before byte ",
                 offset_, ", where the stream stood: it has changed");
        at += count;
        report_progress(0, 0);
    }
    is_lost_ = false;
}

void File::refuse_length(uint64_t length) const {
    fail_format(text("file \"", disk_->name(), "\""), "the record at byte ", offset_,
                " is longer than options.max_record, ", most_, ": ", length, " bytes or more");
}
void File::refuse_end() const {
    fail_named(SAB_E_FORMAT, text("file \"", disk_->name(), "\""), " ",
               "is truncated in the record at byte ", offset_, " of its decompressed contents");
}

}  // namespace sab
