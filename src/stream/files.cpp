/// The records of files: plain, of gzip, of Zstandard.
#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>

#include "base/contents.h"
#include "base/files.h"
#include "base/hasher.h"
#include "base/log.h"
#include "base/xxhash.h"
#include "stream/stream.h"

namespace sab {
namespace {

/// What is known of a file that was read, to notice when it has changed.
struct Known {
    uint64_t samples = 0;   ///< a hash of its size and of blocks of it
    uint64_t modified = 0;  ///< its time
    uint64_t read = 0;      ///< bytes read: whole blocks, or all
    uint64_t checksum = 0;  ///< of those
};

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

/// A file that is open, record by record. Its place counts what comes out.
class File {
public:
    File(const std::string& name, const Known* before, sab_framing framing, uint64_t most)
        : disk_(name, before), contents_(open_contents(disk_)), framing_(framing), most_(most) {}

    /// The next record begins there.
    void seek(uint64_t offset) {
        offset_ = offset;
        is_lost_ = true;
    }
    uint64_t offset() const { return offset_; }
    Known known() const { return disk_.known(); }

    /// False at the end of the file. After a failure the same record is read again.
    bool next(Record& record) {
        try {
            if (is_lost_) find();
            return framing_ == SAB_FRAMING_LINES ? line(record) : after_length(record);
        } catch (...) {
            is_lost_ = true;
            throw;
        }
    }

private:
    bool line(Record& record) {
        std::size_t looked = 0;
        for (;;) {
            const char* const from = data() + begin_;
            const auto* const newline = end_ > begin_ + looked
                                            ? static_cast<const char*>(std::memchr(
                                                  from + looked, '\n', end_ - begin_ - looked))
                                            : nullptr;
            if (newline == nullptr) {
                looked = end_ - begin_;
                if (looked > 0 && looked - 1 > most_) refuse_length(looked);
                if (more()) continue;
                if (looked == 0) return false;
            }
            std::size_t length =
                newline != nullptr ? static_cast<std::size_t>(newline - from) : looked;
            const std::size_t used = length + (newline != nullptr ? 1 : 0);
            if (newline != nullptr && length > 0 && from[length - 1] == '\r') --length;
            if (length > most_) refuse_length(length);
            give(record, data() + begin_, length);
            begin_ += used;
            offset_ += used;
            return true;
        }
    }

    bool after_length(Record& record) {
        while (end_ - begin_ < 4)
            if (!more()) {
                if (begin_ == end_) return false;
                refuse_end();
            }
        std::array<unsigned char, 4> bytes{};
        std::memcpy(bytes.data(), data() + begin_, 4);
        const uint64_t length =
            bytes[0] | bytes[1] << 8 | bytes[2] << 16 | uint64_t{bytes[3]} << 24;
        if (length > most_) refuse_length(length);
        while (end_ - begin_ < 4 + length)
            if (!more(4 + length)) refuse_end();
        give(record, data() + begin_ + 4, length);
        begin_ += 4 + length;
        offset_ += 4 + length;
        return true;
    }

    void give(Record& record, const char* from, std::size_t length) {
        record.view = {SAB_RECORD_BYTES, static_cast<double>(length), from, length};
        record.owner = shares_.share();
    }

    char* data() { return shares_.block() != nullptr ? shares_.block()->data() : nullptr; }

    /// Reads on behind what is there, in another block where this one is full; false at the end of
    /// the file.
    bool more(std::size_t wanted = 0) {
        constexpr std::size_t usual = 1 << 18;
        const std::size_t kept = end_ - begin_;
        const std::size_t capacity = shares_.block() != nullptr ? shares_.block()->capacity() : 0;
        if (capacity - end_ < usual / 8 || begin_ + wanted > capacity) {
            auto block = std::make_unique<Block>(std::max({usual, 2 * kept, wanted}));
            if (kept > 0) std::memcpy(block->data(), data() + begin_, kept);
            shares_.take(block.release());
            begin_ = 0;
            end_ = kept;
        }
        const std::size_t count =
            contents_->read(data() + end_, shares_.block()->capacity() - end_);
        end_ += count;
        return count > 0;
    }

    void find() {
        begin_ = end_ = 0;
        shares_.drop();
        uint64_t at = contents_->seek(offset_);
        for (; at < offset_; at += end_) {
            begin_ = end_ = 0;
            if (!more())
                fail(SAB_E_MISMATCH, "file \"", disk_.name(), "\" ends at byte ", at,
                     ", before byte ", offset_, ", where the stream stood: it has changed");
            report_progress(0, 0);
            if (at + end_ > offset_) {
                begin_ = static_cast<std::size_t>(offset_ - at);
                break;
            }
        }
        if (at == offset_) begin_ = end_ = 0;
        is_lost_ = false;
    }

    [[noreturn]] void refuse_length(uint64_t length) const {
        fail(SAB_E_FORMAT, "file \"", disk_.name(), "\": the record at byte ", offset_,
             " is longer than options.max_record, ", most_, ": ", length, " bytes or more");
    }
    [[noreturn]] void refuse_end() const {
        fail(SAB_E_FORMAT, "file \"", disk_.name(), "\" is truncated in the record at byte ",
             offset_, " of its decompressed contents");
    }

    KnownFile disk_;
    std::unique_ptr<Contents> contents_;
    sab_framing framing_;
    uint64_t most_;
    uint64_t offset_ = 0;  ///< where the next record begins
    Shares shares_;        ///< of the block that is read into
    std::size_t begin_ = 0, end_ = 0;
    bool is_lost_ = false;
};

class Files : public SourceStage {
public:
    explicit Files(const sab_files_stream_options& options) : options_(options) {}

    bool next(Record& record) override {
        for (;;) {
            try {
                if (file_ == nullptr && !open()) return false;
                if (file_->next(record)) return true;
            } catch (const Error& error) {
                const bool is_of_the_file = error.status() == SAB_E_IO ||
                                            error.status() == SAB_E_FORMAT ||
                                            error.status() == SAB_E_MISMATCH;
                if (options_.on_error != SAB_ON_ERROR_SKIP || !is_of_the_file ||
                    (file_ == nullptr && !has_waiting_))
                    throw;
                log(SAB_LOG_WARNING,
                    text("left out the rest of a file: ", std::string_view(error.what())));
                ++skipped_;
                has_waiting_ = false;
            }
            if (file_ != nullptr) *current_ = file_->known();
            file_ = nullptr;
            report_progress(0, 0);  // files without an end may all be skipped
        }
    }

    void rewind() override {
        source_->rewind();
        forget();
    }

    void save(StateWriter& state) const override {
        before_.save(state, *source_, file_ == nullptr && !has_waiting_);
        state.number(seen_.size());
        for (const auto& [name, known] : seen_) {
            const Known now = file_ != nullptr && &known == current_ ? file_->known() : known;
            for (const uint64_t number : {name, now.samples, now.modified, now.read, now.checksum})
                state.number(number);
        }
        state.number(file_ != nullptr);
        if (file_ != nullptr) state.number(file_->offset());
    }

    void restore(StateReader& state) override {
        forget();
        before_.restore(state, *source_);
        for (uint64_t count = state.number(); count > 0; --count) {
            Known& known = seen_[state.number()];
            for (uint64_t* const number :
                 {&known.samples, &known.modified, &known.read, &known.checksum})
                *number = state.number();
        }
        if (state.number(1) == 0) return;
        const uint64_t offset = state.number();
        if (!open()) StateReader::refuse();
        file_->seek(offset);
    }

    void describe(Description& description) const override {
        const Description::Replayed replayed(description);
        source_->describe(description);
        description.add("files");
        description.add(static_cast<uint64_t>(options_.framing));
        description.add(options_.max_record);
    }

    StreamPtr fresh() const override { return make_stage<Files>(source_->fresh(), options_); }
    uint64_t skipped() const override { return skipped_ + source_->skipped(); }
    void add_objects(ObjectKinds&) const override {}

private:
    void forget() {
        file_ = nullptr;
        has_waiting_ = false;
        before_.forget();
        seen_.clear();
    }

    /// The next file; its name waits for another try when it fails. False when there is none.
    bool open() {
        if (!has_waiting_) {
            if (!before_.next(*source_, waiting_)) return false;
            has_waiting_ = true;
        }
        if (waiting_.view.kind != SAB_RECORD_BYTES)
            fail(SAB_E_ARGUMENT, "source: gave a record of kind ", waiting_.view.kind,
                 " where the name of a file must be");
        const std::string name(waiting_.bytes());
        const uint64_t key = XXH3_64bits(name.data(), name.size());
        const auto before = seen_.find(key);
        auto file = std::make_unique<File>(name, before != seen_.end() ? &before->second : nullptr,
                                           options_.framing, options_.max_record);
        current_ = before != seen_.end() ? &before->second : &seen_[key];
        file_ = std::move(file);
        has_waiting_ = false;
        return true;
    }

    sab_files_stream_options options_;
    RetryMark before_;  ///< the name of the file that is read
    Record waiting_;    ///< name of a file that could not be opened yet
    bool has_waiting_ = false;
    std::unique_ptr<File> file_;
    /// the files that were read, by the hashes of their names
    std::unordered_map<uint64_t, Known> seen_;
    Known* current_ = nullptr;  ///< of the file that is read, as it was before
    uint64_t skipped_ = 0;
};

}  // namespace

StagePtr make_files(const sab_files_stream_options& options) {
    check(options.framing == SAB_FRAMING_LINES || options.framing == SAB_FRAMING_LENGTH,
          "options.framing", options.framing,
          "must be SAB_FRAMING_LINES (0) or SAB_FRAMING_LENGTH (1)");
    check(options.on_error == SAB_ON_ERROR_STOP || options.on_error == SAB_ON_ERROR_SKIP,
          "options.on_error", options.on_error,
          "must be SAB_ON_ERROR_STOP (0) or SAB_ON_ERROR_SKIP (1)");
    sab_files_stream_options given = options;
    if (given.max_record == 0) given.max_record = 64u << 20;
    return std::make_unique<Files>(given);
}

}  // namespace sab
