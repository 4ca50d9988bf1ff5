/// Where records come from: lists, and the lines of files.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "stream/python_random.h"
#include "stream/stream.h"

namespace sab {
namespace {

class List : public Stream {
public:
    List(std::vector<RecordPtr> records, const sab_list_stream_options& options) : records_(std::move(records)), options_(options) {
        if (options.infinite == 0) {
            const uint64_t each = records_.size() / options.world_size, more = records_.size() % options.world_size;
            const auto edge = [&](uint64_t rank) { return rank * each + std::min(rank, more); };
            begin_ = edge(options.rank);
            end_ = edge(options.rank + 1);
        }
        rewind();
    }

    RecordPtr next() override {
        if (options_.infinite == 0) return index_ < end_ ? records_[index_++] : nullptr;
        const RecordPtr record = records_[order_[index_]];
        index_ += options_.world_size;
        wrap();
        return record;
    }

    void rewind() override {
        random_ = PythonRandom(options_.seed);
        index_ = options_.infinite == 0 ? begin_ : options_.rank;
        if (options_.infinite != 0) {
            arrange();
            wrap();
        }
    }

    void save(StateWriter& state) const override {
        state.number(index_);
        if (options_.shuffle != 0) state.generator(before_.generator());
    }

    void restore(StateReader& state) override {
        const uint64_t index = state.number(options_.infinite == 0 ? end_ : records_.size() - 1);
        if (options_.infinite == 0 && index < begin_) StateReader::refuse();
        if (options_.shuffle != 0) state.generator(random_.generator());
        if (options_.infinite != 0) arrange();
        index_ = index;
    }

    void describe(Description& description) const override {
        description.add("list");
        for (const uint64_t number : {static_cast<uint64_t>(options_.infinite), static_cast<uint64_t>(options_.shuffle), options_.seed, options_.rank,
                                      options_.world_size, static_cast<uint64_t>(records_.size())})
            description.add(number);
        for (const RecordPtr& record : records_) description.add(record->bytes);
    }

private:
    /// The next time through; the generator before it is what a state needs.
    void arrange() {
        before_ = random_;
        order_.resize(records_.size());
        for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = i;
        if (options_.shuffle != 0) random_.shuffle(order_);
    }
    /// Permutations that this rank has no part in are drawn too: all ranks draw the same.
    void wrap() {
        while (index_ >= records_.size()) {
            arrange();
            index_ -= records_.size();
        }
    }

    std::vector<RecordPtr> records_;
    sab_list_stream_options options_;
    uint64_t begin_ = 0, end_ = 0, index_ = 0;
    std::vector<std::size_t> order_;
    PythonRandom random_{0}, before_{0};
};

/// A file that is open, plain or of gzip. Its place counts what comes out.
class File {
public:
    explicit File(std::string name) : name_(std::move(name)), identity_(identify()), file_(gzopen(name_.c_str(), "rbe")) {
        if (file_ == nullptr) fail_io("cannot open");
        gzbuffer(file_, 1 << 17);
    }
    ~File() {
        if (file_ != nullptr) gzclose_r(file_);
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    /// The next line begins there. Plain files are sought, others read up to there.
    void seek(uint64_t place) {
        place_ = place;
        is_lost_ = true;
    }
    uint64_t place() const { return place_; }
    /// Tells the file from another of its name.
    uint64_t identity() const { return identity_; }
    const std::string& name() const { return name_; }

    /// Without its end; false at the end of the file. After a failure the same line is read again.
    bool line(std::string& line, uint64_t most) {
        line.clear();
        if (is_lost_) find();
        for (;;) {
            if (begin_ == end_ && !fill()) {
                if (line.empty()) return false;
                break;
            }
            const char* const from = buffer_.data() + begin_;
            const auto* const newline = static_cast<const char*>(std::memchr(from, '\n', end_ - begin_));
            const std::size_t count = newline != nullptr ? static_cast<std::size_t>(newline - from) : end_ - begin_;
            if (line.size() + count > most) {
                is_lost_ = true;
                fail(SAB_E_FORMAT, "file \"", name_, "\": the line at byte ", place_, " is longer than options.max_line, ", most);
            }
            line.append(from, count);
            begin_ += count;
            if (newline == nullptr) continue;
            ++begin_;
            place_ += 1;
            break;
        }
        place_ += line.size();
        if (!line.empty() && line.back() == '\r') line.pop_back();
        return true;
    }

private:
    uint64_t identify() {
        std::FILE* const file = std::fopen(name_.c_str(), "re");
        if (file == nullptr) fail_io("cannot open");
        std::string begin(1 << 16, '\0');
        begin.resize(std::fread(begin.data(), 1, begin.size(), file));
        const bool is_read = std::ferror(file) == 0 && std::fseek(file, 0, SEEK_END) == 0;
        const int number = errno;
        const auto size = static_cast<uint64_t>(std::ftell(file));
        std::fclose(file);
        errno = number;
        if (!is_read) fail_io("cannot read");
        return XXH3_64bits_withSeed(begin.data(), begin.size(), size);
    }

    /// False at the end.
    bool fill() {
        begin_ = end_ = 0;
        errno = 0;
        const int count = gzread(file_, buffer_.data(), static_cast<unsigned>(buffer_.size()));
        int status = Z_OK;
        const char* const why = gzerror(file_, &status);
        if (count > 0) {
            end_ = static_cast<std::size_t>(count);
            return true;
        }
        if (count == 0 && status != Z_BUF_ERROR) return false;
        is_lost_ = true;
        if (status == Z_ERRNO) fail_io("cannot read");
        fail(SAB_E_FORMAT, "file \"", name_, "\": is damaged or cut off after the line at byte ", place_, " of what comes out: ", std::string_view(why));
    }

    void find() {
        gzclearerr(file_);
        if (gzseek(file_, 0, SEEK_SET) != 0 || gzseek(file_, static_cast<z_off_t>(place_), SEEK_SET) != static_cast<z_off_t>(place_)) fail_io("cannot seek in");
        begin_ = end_ = 0;
        is_lost_ = false;
    }

    [[noreturn]] void fail_io(const char* what) {
        const int number = errno;
        fail(SAB_E_IO, what, " file \"", name_, "\" at byte ", place_, ": ", std::string_view(std::strerror(number)));
    }

    std::string name_;
    uint64_t place_ = 0;  ///< where the next line begins
    uint64_t identity_;
    gzFile file_;
    std::vector<char> buffer_ = std::vector<char>(1 << 16);
    std::size_t begin_ = 0, end_ = 0;
    bool is_lost_ = false;
};

class Lines : public Stream {
public:
    Lines(StreamPtr&& source, const sab_lines_stream_options& options) : source_(std::move(source)), most_(options.max_line > 0 ? options.max_line : 64u << 20) {}

    RecordPtr next() override {
        for (;;) {
            if (file_ == nullptr) {
                if (waiting_ == nullptr) {
                    before_ = state_of(*source_);
                    waiting_ = source_->next();
                }
                if (waiting_ == nullptr) return nullptr;
                if (waiting_->is_list) fail(SAB_E_ARGUMENT, "source: gave a list where the name of a file must be");
                file_ = std::make_unique<File>(waiting_->bytes);  // waits for the next call when it fails
                waiting_ = nullptr;
            }
            auto record = std::make_shared<Record>();
            if (file_->line(record->bytes, most_)) {
                record->size = static_cast<double>(record->bytes.size());
                return record;
            }
            file_ = nullptr;
        }
    }

    void rewind() override {
        file_ = nullptr;
        waiting_ = nullptr;
        source_->rewind();
    }

    void save(StateWriter& state) const override {
        state.bytes(file_ != nullptr || waiting_ != nullptr ? before_ : state_of(*source_));
        state.number(file_ != nullptr);
        if (file_ == nullptr) return;
        state.number(file_->identity());
        state.number(file_->place());
    }

    void restore(StateReader& state) override {
        file_ = nullptr;
        waiting_ = nullptr;
        const auto before = state.bytes();
        before_.assign(before.begin(), before.end());
        StateReader source(before);
        source_->restore(source);
        if (state.number(1) == 0) return;
        const uint64_t identity = state.number(), place = state.number();
        const RecordPtr name = source_->next();
        if (name == nullptr || name->is_list) StateReader::refuse();
        auto file = std::make_unique<File>(name->bytes);
        if (file->identity() != identity) fail(SAB_E_MISMATCH, "state: file \"", name->bytes, "\" has changed since");
        file->seek(place);
        file_ = std::move(file);
    }

    void describe(Description& description) const override {
        source_->describe(description);
        description.add("lines");
        description.add(most_);
    }

private:
    StreamPtr source_;
    uint64_t most_;
    Bytes before_;      ///< the source before the name of the file that is read
    RecordPtr waiting_; ///< name of a file that could not be opened yet
    std::unique_ptr<File> file_;
};

}  // namespace

StreamPtr make_list(std::vector<RecordPtr> records, const sab_list_stream_options& options) {
    for (const auto& [name, flag] : {std::pair{"options.infinite", options.infinite}, {"options.shuffle", options.shuffle}})
        check(flag == 0 || flag == 1, name, flag, "must be 0 or 1");
    check(options.world_size >= 1, "options.world_size", options.world_size, "must be at least 1");
    check(options.rank < options.world_size, "options.rank", options.rank, "must be below the world size, ", options.world_size);
    check(options.shuffle == 0 || options.infinite == 1, "options.shuffle", options.shuffle, "only an infinite list is shuffled");
    check(options.infinite == 0 || !records.empty(), "count", records.size(), "must be at least 1 for an infinite list");
    return std::make_unique<List>(std::move(records), options);
}

StreamPtr make_lines(StreamPtr&& source, const sab_lines_stream_options& options) { return std::make_unique<Lines>(std::move(source), options); }

}  // namespace sab
