/// The records of files: plain, of gzip, of Zstandard.
#include <algorithm>
#include <new>
#include <unordered_map>

#include "base/callback.h"
#include "base/log.h"
#include "base/xxhash.h"
#include "stream/readers.h"
#include "stream/stream.h"

namespace sab {
namespace {

constexpr uint64_t most_readers = 256;
/// Files without records that may be read again in sequence, beside ten for each file: a random
/// source may name them more often than those with records.
constexpr uint64_t most_empty = 10000;

/// Files are read in this thread, one after the other, or ahead by others. Records are given in the
/// order of the names either way.
class Files : public SourceStage {
public:
    Files(const sab_files_stream_options& options, sab_text_unit unit)
        : options_(options), unit_(unit) {
        if (options_.readers > 0) readers_ = std::make_unique<Readers>(options_, unit_);
    }
    ~Files() override { forget(); }

    bool next(Record& record) override {
        if (!find_text()) return false;
        give(record);
        return true;
    }
    std::size_t append(std::vector<Record>& into, std::size_t most) override {
        if (!find_text()) return 0;
        const std::size_t count = std::min(most, chunk_.front().texts.size() - given_);
        into.resize(into.size() + count);
        for (Record& record : std::span(into).last(count)) give(record);
        return count;
    }

    bool measure(sab_text_unit unit) override {
        if (is_used_) return false;
        auto readers = options_.readers > 0 ? std::make_unique<Readers>(options_, unit) : nullptr;
        readers_ = std::move(readers);
        unit_ = unit;
        return true;
    }

    void rewind() override {
        check_fork();
        source_->rewind();
        forget();
    }

    void save(StateWriter& state) const override {
        const Reading* const first = !files_.empty()  ? files_.front().get()
                                     : !next_.empty() ? next_.front().get()
                                                      : nullptr;
        if (first != nullptr)
            first->mark.save(state, 0);
        else
            before_.save(state, *source_, true);
        state.number(seen_.size());
        for (const auto& [name, known] : seen_)
            for (const uint64_t number :
                 {name, known.samples, known.modified, known.read, known.checksum})
                state.number(number);
        const bool is_begun = first != nullptr && first->is_begun;
        state.number(is_begun);
        if (is_begun) state.number(offset());
    }

    void restore(StateReader& state) override {
        check_fork();
        forget();
        is_used_ = true;
        before_.restore(state, *source_);
        for (uint64_t count = state.number(); count > 0; --count) {
            Known& known = seen_[state.number()];
            for (uint64_t* const number :
                 {&known.samples, &known.modified, &known.read, &known.checksum})
                *number = state.number();
        }
        if (state.number(1) == 0) return;
        const uint64_t offset = state.number();
        if (!take_name()) StateReader::refuse();
        Reading& reading = *next_.front();
        know(reading);
        reading.start = offset;
        reading.is_begun = true;
        reading.open(options_, unit_);
    }

    void describe(Description& description) const override {
        const Description::Replayed replayed(description);
        source_->describe(description);
        description.add("files");
        description.add(static_cast<uint64_t>(options_.framing));
        description.add(options_.max_record);
        description.add(static_cast<uint64_t>(unit_));
    }

    StreamPtr fresh() const override {
        return make_stage<Files>(source_->fresh(), options_, unit_);
    }
    uint64_t skipped() const override { return skipped_ + source_->skipped(); }
    void add_objects(ObjectKinds&) const override {}

private:
    /// Takes chunks until there is a text that was not given. False at the end.
    bool find_text() {
        while (chunk_.empty() || given_ == chunk_.front().texts.size())
            if (!take_chunk()) return false;
        return true;
    }
    void give(Record& record) {
        FileChunk& chunk = chunk_.front();
        const FileChunk::Text& text = chunk.texts[given_++];
        record.view = {SAB_RECORD_BYTES, text.size, text.data, text.length};
        record.owner = chunk.shares.share();
    }

    void forget() noexcept override {
        if (readers_ != nullptr && !readers_->are_gone()) readers_->drop(files_);
        files_.clear();
        next_.clear();
        chunk_.clear();
        given_ = 0;
        failure_ = nullptr;
        is_last_ = false;
        empty_ = 0;
        before_.forget();
        seen_.clear();
    }

    /// Where the next record of the first file begins.
    uint64_t offset() const {
        if (chunk_.empty()) return files_.empty() ? next_.front()->start : files_.front()->start;
        return chunk_.front().offset(given_);
    }

    /// In the child of a fork: the files again, for other threads. The records at hand are here;
    /// the threads go on behind them.
    void check_fork() {
        if (readers_ == nullptr || !readers_->are_gone()) return;
        auto readers = std::make_unique<Readers>(options_, unit_);
        Readings again;
        for (const auto& file : files_) {
            auto reading = std::make_shared<Reading>();
            reading->mark = file->mark;
            reading->name = file->name;
            reading->key = file->key;
            reading->start = file->start;
            reading->is_begun = file->is_begun;
            again.push_back(std::move(reading));
        }
        if (!chunk_.empty()) again.front()->start = chunk_.front().end;
        next_.splice(next_.begin(), again);
        files_.clear();
        readers_ = std::move(readers);
    }

    /// The next chunk, of this file or another one; false at the end.
    bool take_chunk() {
        check_fork();
        for (;;) {
            look_ahead();
            if (files_.empty()) return false;
            try {
                if (take_chunk_of(*files_.front())) {
                    empty_ = 0;
                    return true;
                }
            } catch (const Error& error) {
                const bool is_of_the_file = error.status() == SAB_E_IO ||
                                            error.status() == SAB_E_FORMAT ||
                                            error.status() == SAB_E_MISMATCH;
                if (options_.on_error != SAB_ON_ERROR_SKIP || !is_of_the_file) throw;
                log(SAB_LOG_WARNING,
                    text("left out the rest of a file: ", std::string_view(error.what())));
                ++skipped_;
            }
            // Only names without an end are read again and again.
            const bool is_empty_again = files_.front()->before.has_value();
            files_.pop_front();
            chunk_.clear();
            given_ = 0;
            if (is_empty_again && ++empty_ >= most_empty + 10 * seen_.size())
                fail(SAB_E_FORMAT, "the last ", std::exchange(empty_, 0),
                     " files have no records, and all of them were read before; a source without "
                     "an end needs a file with records on each rank");
            report_progress(0, 0);  // files without an end may all be skipped
        }
    }

    bool take_chunk_of(Reading& reading) {
        const bool is_apart = readers_ == nullptr || reading.is_apart;
        if (is_apart && reading.chunks.empty() && !reading.is_over) {
            std::list<FileChunk> made(1);
            reading.is_over = !reading.read(made.front(), options_, unit_);
            if (!reading.is_over) reading.chunks.splice(reading.chunks.end(), made);
        }
        const FileChunk* const next = !is_apart                ? readers_->wait_for(reading)
                                      : reading.chunks.empty() ? nullptr
                                                               : &reading.chunks.front();
        seen_[reading.key] = next != nullptr ? next->known : reading.known;
        if (next == nullptr) return false;
        chunk_.clear();  // nothing can fail from here on
        given_ = 0;
        reading.is_begun = true;
        if (is_apart)
            chunk_.splice(chunk_.end(), reading.chunks, reading.chunks.begin());
        else
            readers_->take(reading, chunk_);
        return true;
    }

    /// Begins to read the next files.
    void look_ahead() {
        const std::size_t most = readers_ == nullptr ? 1 : files_for_each * options_.readers;
        while (files_.size() < most) {
            if (next_.empty() && !take_name_ahead()) return;
            if (!know(*next_.front())) return;
            if (readers_ != nullptr) readers_->start(files_.size() + 1);
            files_.splice(files_.end(), next_, next_.begin());
            if (readers_ != nullptr) readers_->add(files_.back());
        }
    }

    /// A failure is that of the place behind the files that are read. Without memory the name is
    /// taken by a later call.
    bool take_name_ahead() {
        if (files_.empty() && failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
        if (is_last_ || failure_) return false;
        try {
            is_last_ = !take_name();
        } catch (const ThreadEnd&) {
            throw;
        } catch (const std::bad_alloc&) {
            if (files_.empty()) throw;
            return false;
        } catch (...) {
            if (files_.empty()) throw;
            failure_ = std::current_exception();
        }
        return !next_.empty();
    }

    /// Takes the name of the next file; false when there is none.
    bool take_name() {
        is_used_ = true;
        Readings one(1, std::make_shared<Reading>());  // first, so that no name is lost
        Reading& reading = *one.front();
        if (!before_.next(*source_, reading.name)) return false;
        reading.mark = before_.mark();
        if (reading.name.view.kind == SAB_RECORD_BYTES)
            reading.key = XXH3_64bits(reading.name.view.data, reading.name.view.length);
        next_.splice(next_.end(), one);
        return true;
    }

    /// Sets what is known of a file from before. False while it is being read from before.
    bool know(Reading& reading) {
        const auto same =
            std::ranges::find_if(files_.rbegin(), files_.rend(),
                                 [&](const auto& other) { return other->key == reading.key; });
        if (same != files_.rend()) {
            if (!readers_->is_over(**same)) return false;
            reading.before = (*same)->known;
        } else if (const auto known = seen_.find(reading.key); known != seen_.end()) {
            reading.before = known->second;
        }
        return true;
    }

    static constexpr std::size_t files_for_each = 16;  ///< begun, for each reader

    const sab_files_stream_options options_;
    sab_text_unit unit_;
    std::unique_ptr<Readers> readers_;  ///< NULL: files are read in this thread
    RetryMark before_;                  ///< the name that was taken last
    Readings files_;                    ///< that are read, in their order
    Readings next_;                     ///< those behind them whose names were taken
    std::exception_ptr failure_;        ///< of the source, behind them
    bool is_last_ = false;              ///< the source ends behind them
    bool is_used_ = false;              ///< the source was
    std::list<FileChunk> chunk_;        ///< at most one, of the first file
    std::size_t given_ = 0;             ///< of its records
    uint64_t empty_ = 0;                ///< files without records that were read again since then
    /// the files that were read, by the hashes of their names
    std::unordered_map<uint64_t, Known> seen_;
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
    check(options.readers <= most_readers, "options.readers", options.readers, "must be at most ",
          most_readers);
    sab_files_stream_options given = options;
    if (given.max_record == 0) given.max_record = 64u << 20;
    return std::make_unique<Files>(given, SAB_TEXT_BYTES);
}

}  // namespace sab
