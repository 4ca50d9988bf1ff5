/// Streams that turn, group and shuffle the records of others.
#include <algorithm>
#include <cmath>
#include <deque>

#include "base/error.h"
#include "stream/python_random.h"
#include "stream/stream.h"

namespace sab {

Bytes state_of(const Stream& stream) {
    StateWriter state;
    stream.save(state);
    return state.take();
}

namespace {

void restore_from(Stream& stream, std::span<const std::byte> bytes) {
    StateReader state(bytes);
    stream.restore(state);
}

RecordPtr list_of(std::vector<RecordPtr> items) {
    auto record = std::make_shared<Record>();
    record->is_list = true;
    for (const RecordPtr& item : items) record->size += item->size;
    record->items = std::move(items);
    return record;
}

class Map : public Stream {
public:
    Map(StreamPtr&& source, sab_map_fn map, void* ctx, void (*release)(void*)) : source_(std::move(source)), map_(map), ctx_(ctx), release_(release) {}
    ~Map() override {
        if (release_ != nullptr) release_(ctx_);
    }

    RecordPtr next() override {
        if (waiting_ == nullptr) waiting_ = source_->next();
        if (waiting_ == nullptr) return nullptr;
        std::vector<std::vector<sab_record>> lists;
        sab_record given = SAB_RECORD_INIT, made = SAB_RECORD_INIT;
        show(*waiting_, given, lists);
        made = given;
        if (const int32_t code = called_back("map", [&] { return map_(ctx_, &given, &made); }); code != 0) throw Error(SAB_E_CALLBACK, text("map failed with code ", code), code);
        if (made.items != nullptr && made.items == given.items && made.item_count == given.item_count) {  // a list passed on
            auto same = std::make_shared<Record>(*waiting_);
            same->size = made.size;
            waiting_ = nullptr;
            return same;
        }
        if (made.items != nullptr || made.item_count != 0) fail(SAB_E_ARGUMENT, "map: a list cannot be made");
        if (made.length > 0) require(made.data, "map: made->data");
        check(made.size >= 0 && std::isfinite(made.size), "map: made->size", made.size, "must be finite and not negative");
        auto record = std::make_shared<Record>();
        record->bytes.assign(static_cast<const char*>(made.data), made.length);
        record->size = made.size;
        waiting_ = nullptr;
        return record;
    }
    void rewind() override {
        waiting_ = nullptr;
        source_->rewind();
    }
    void save(StateWriter& state) const override {
        if (waiting_ != nullptr) fail(SAB_E_ARGUMENT, "stream: map failed on the next record: call sab_stream_next() until it does not, or restore an earlier state");
        source_->save(state);
    }
    void restore(StateReader& state) override {
        waiting_ = nullptr;
        source_->restore(state);
    }
    void describe(Description& description) const override {
        source_->describe(description);
        description.add("map");
    }

private:
    StreamPtr source_;
    sab_map_fn map_;
    void* ctx_;
    void (*release_)(void*);
    RecordPtr waiting_;  ///< map failed on it
};

class Batches : public Stream {
public:
    Batches(StreamPtr&& source, uint64_t batch_size) : source_(std::move(source)), batch_size_(batch_size) {}

    RecordPtr next() override {
        while (items_.size() < batch_size_) {  // what came before a failure is kept
            RecordPtr item = source_->next();
            if (item == nullptr) break;
            if (items_.empty()) items_.reserve(std::min<uint64_t>(batch_size_, 4096));
            items_.push_back(std::move(item));
        }
        if (items_.empty()) return nullptr;
        return list_of(std::exchange(items_, {}));
    }
    void rewind() override {
        items_.clear();
        source_->rewind();
    }
    void save(StateWriter& state) const override {
        if (!items_.empty()) fail(SAB_E_ARGUMENT, "stream: failed in the middle of a batch: call sab_stream_next() until it does not, or restore an earlier state");
        source_->save(state);
    }
    void restore(StateReader& state) override {
        items_.clear();
        source_->restore(state);
    }
    void describe(Description& description) const override {
        source_->describe(description);
        description.add("batch");
        description.add(batch_size_);
    }

private:
    StreamPtr source_;
    uint64_t batch_size_;
    std::vector<RecordPtr> items_;
};

/// The records of lists. A state is that of the source before the list, and a place in it.
class Flatten : public Stream {
public:
    explicit Flatten(StreamPtr&& source) : source_(std::move(source)) {}

    RecordPtr next() override {
        for (;;) {
            if (list_ != nullptr && place_ < list_->items.size()) return list_->items[place_++];
            list_ = nullptr;
            before_ = state_of(*source_);
            RecordPtr record = source_->next();
            if (record == nullptr || !record->is_list) return record;
            list_ = std::move(record);
            place_ = 0;
        }
    }
    void rewind() override {
        list_ = nullptr;
        source_->rewind();
    }
    void save(StateWriter& state) const override {
        const bool is_inside = list_ != nullptr && place_ < list_->items.size();
        state.bytes(is_inside ? before_ : state_of(*source_));
        state.number(is_inside ? place_ : 0);
    }
    void restore(StateReader& state) override {
        list_ = nullptr;
        const auto before = state.bytes();
        before_.assign(before.begin(), before.end());
        restore_from(*source_, before);
        const uint64_t place = state.number();
        if (place == 0) return;
        list_ = source_->next();
        if (list_ == nullptr || !list_->is_list || place >= list_->items.size()) {
            list_ = nullptr;
            StateReader::refuse();
        }
        place_ = place;
    }
    void describe(Description& description) const override {
        source_->describe(description);
        description.add("flatten");
    }

private:
    StreamPtr source_;
    Bytes before_;
    RecordPtr list_;
    uint64_t place_ = 0;
};

/// A state is that of the source at a place at or before the window, and how many records from there on are to be skipped.
class Window : public Stream {
public:
    Window(StreamPtr&& source, uint64_t width) : source_(std::move(source)), width_(width) {}

    RecordPtr next() override {
        if (taken_ == 0) mark();
        while (items_.size() < width_) {
            if (taken_ - later_place_ >= width_) {  // two marks, so that the older one is at most two windows back
                if (begin() >= later_place_) {
                    mark_ = std::move(later_);
                    mark_place_ = later_place_;
                }
                later_ = state_of(*source_);
                later_place_ = taken_;
            }
            RecordPtr item = source_->next();
            if (item == nullptr) return nullptr;
            items_.push_back(std::move(item));
            ++taken_;
        }
        RecordPtr record = list_of({items_.begin(), items_.end()});
        items_.pop_front();
        return record;
    }
    void rewind() override {
        source_->rewind();
        mark();
    }
    void save(StateWriter& state) const override {
        state.bytes(taken_ == 0 ? state_of(*source_) : mark_);
        state.number(begin() - mark_place_);
        state.number(items_.size());
    }
    void restore(StateReader& state) override {
        const auto before = state.bytes();
        restore_from(*source_, before);
        mark();
        const uint64_t skip = state.number(4 * width_), kept = state.number(width_);
        for (uint64_t i = 0; i < skip + kept; ++i) {
            RecordPtr item = source_->next();
            if (item == nullptr) StateReader::refuse();
            if (i >= skip) items_.push_back(std::move(item));
        }
        taken_ = skip + kept;
    }
    void describe(Description& description) const override {
        source_->describe(description);
        description.add("window");
        description.add(width_);
    }

private:
    uint64_t begin() const { return taken_ - items_.size(); }
    void mark() {
        items_.clear();
        taken_ = mark_place_ = later_place_ = 0;
        mark_ = later_ = state_of(*source_);
    }

    StreamPtr source_;
    uint64_t width_;
    std::deque<RecordPtr> items_;  ///< from begin() on
    uint64_t taken_ = 0;           ///< records taken from the source since the first mark
    Bytes mark_, later_;
    uint64_t mark_place_ = 0, later_place_ = 0;
};

class Zip : public Stream {
public:
    explicit Zip(std::vector<StreamPtr>&& sources) : sources_(std::move(sources)) {}

    RecordPtr next() override {
        while (items_.size() < sources_.size()) {
            RecordPtr item = sources_[items_.size()]->next();
            if (item == nullptr) {
                is_over_ = true;
                items_.clear();
            }
            if (is_over_) return nullptr;
            items_.push_back(std::move(item));
        }
        return list_of(std::exchange(items_, {}));
    }
    void rewind() override {
        items_.clear();
        is_over_ = false;
        for (const StreamPtr& source : sources_) source->rewind();
    }
    void save(StateWriter& state) const override {
        if (!items_.empty()) fail(SAB_E_ARGUMENT, "stream: failed in the middle of a list: call sab_stream_next() until it does not, or restore an earlier state");
        state.number(is_over_);
        for (const StreamPtr& source : sources_) source->save(state);
    }
    void restore(StateReader& state) override {
        items_.clear();
        is_over_ = state.number(1) == 1;
        for (const StreamPtr& source : sources_) source->restore(state);
    }
    void describe(Description& description) const override {
        description.add("zip");
        description.add(static_cast<uint64_t>(sources_.size()));
        for (const StreamPtr& source : sources_) source->describe(description);
    }

private:
    std::vector<StreamPtr> sources_;
    std::vector<RecordPtr> items_;
    bool is_over_ = false;
};

void write_record(StateWriter& state, const Record& record) {
    state.number(record.is_list);
    state.real(record.size);
    if (!record.is_list) return state.bytes(std::as_bytes(std::span(record.bytes)));
    state.number(record.items.size());
    for (const RecordPtr& item : record.items) write_record(state, *item);
}

RecordPtr read_record(StateReader& state, int depth) {
    if (depth > 64) StateReader::refuse();
    auto record = std::make_shared<Record>();
    record->is_list = state.number(1) == 1;
    record->size = state.real();
    if (!(record->size >= 0 && std::isfinite(record->size))) StateReader::refuse();
    if (!record->is_list) {
        const auto bytes = state.bytes();
        record->bytes.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return record;
    }
    for (uint64_t count = state.number(); count > 0; --count) record->items.push_back(read_record(state, depth + 1));
    return record;
}

class BufferedShuffle : public Stream {
public:
    BufferedShuffle(StreamPtr&& source, uint64_t buffer_size, uint64_t seed) : buffer_(buffer_size), source_(std::move(source)), seed_(seed), random_(seed), places_(buffer_size) {}

    RecordPtr next() override {
        while (!is_flushing_) {
            RecordPtr item = source_->next();
            if (item == nullptr) {
                is_flushing_ = true;
                break;
            }
            RecordPtr& place = buffer_[random_.below(buffer_.size())];
            std::swap(place, item);
            if (item != nullptr) return item;
        }
        while (!buffer_.empty()) {
            RecordPtr item = std::move(buffer_.back());
            buffer_.pop_back();
            if (item != nullptr) return item;
        }
        return nullptr;
    }
    void rewind() override {
        random_ = PythonRandom(seed_);
        is_flushing_ = false;
        buffer_.assign(places_, nullptr);
        source_->rewind();
    }
    void save(StateWriter& state) const override {
        source_->save(state);
        state.generator(random_.generator());
        state.number(is_flushing_);
        state.number(buffer_.size());
        for (const RecordPtr& record : buffer_) {
            state.number(record != nullptr);
            if (record != nullptr) write_record(state, *record);
        }
    }
    void restore(StateReader& state) override {
        source_->restore(state);
        state.generator(random_.generator());
        is_flushing_ = state.number(1) == 1;
        buffer_.assign(state.number(places_), nullptr);
        if (!is_flushing_ && buffer_.size() != places_) StateReader::refuse();
        for (RecordPtr& record : buffer_)
            if (state.number(1) == 1) record = read_record(state, 0);
    }
    void describe(Description& description) const override {
        source_->describe(description);
        description.add("buffered shuffle");
        description.add(places_);
        description.add(seed_);
    }

private:
    std::vector<RecordPtr> buffer_;  ///< made before the source is taken, since that may fail
    StreamPtr source_;
    uint64_t seed_;
    PythonRandom random_;
    uint64_t places_;
    bool is_flushing_ = false;
};

constexpr uint64_t most_records = uint64_t{1} << 32;

}  // namespace

StreamPtr make_map(StreamPtr&& source, sab_map_fn map, void* ctx, void (*release)(void*)) {
    return std::make_unique<Map>(std::move(source), map, ctx, release);
}

StreamPtr make_batches(StreamPtr&& source, uint64_t batch_size) {
    check(batch_size >= 1, "batch_size", batch_size, "must be at least 1");
    return std::make_unique<Batches>(std::move(source), batch_size);
}

StreamPtr make_flatten(StreamPtr&& source) { return std::make_unique<Flatten>(std::move(source)); }

StreamPtr make_window(StreamPtr&& source, uint64_t width) {
    check(width >= 1 && width <= most_records, "width", width, "must be from 1 to 2^32");
    return std::make_unique<Window>(std::move(source), width);
}

StreamPtr make_zip(std::vector<StreamPtr>&& sources) { return std::make_unique<Zip>(std::move(sources)); }

StreamPtr make_buffered_shuffle(StreamPtr&& source, uint64_t buffer_size, uint64_t seed) {
    check(buffer_size >= 1 && buffer_size <= most_records, "buffer_size", buffer_size, "must be from 1 to 2^32");
    return std::make_unique<BufferedShuffle>(std::move(source), buffer_size, seed);
}

void show(const Record& record, sab_record& shown, std::vector<std::vector<sab_record>>& room) {
    shown.size = record.size;
    if (!record.is_list) {
        shown.data = record.bytes.data();
        shown.length = record.bytes.size();
        shown.items = nullptr;
        shown.item_count = 0;
        return;
    }
    shown.data = nullptr;
    shown.length = 0;
    std::vector<sab_record> items(record.items.size(), sab_record SAB_RECORD_INIT);
    for (std::size_t i = 0; i < items.size(); ++i) show(*record.items[i], items[i], room);
    shown.item_count = items.size();
    room.push_back(std::move(items));
    shown.items = room.back().data();
}

}  // namespace sab
