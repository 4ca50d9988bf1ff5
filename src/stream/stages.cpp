/// Streams that turn, join and group the records of others.
#include <algorithm>
#include <cmath>
#include <deque>

#include "base/guard.h"
#include "stream/python_random.h"
#include "stream/stream.h"

struct sab_random {
    sab::PythonRandom generator;
};

namespace sab {

Bytes state_of(const Stream& stream) {
    StateWriter state;
    stream.save(state);
    return state.take();
}

void restore_from(Stream& stream, std::span<const std::byte> bytes) {
    StateReader state(bytes);
    stream.restore(state);
    if (!state.is_at_end()) StateReader::refuse();
}

void Mark::move_to(const Stream& source, uint64_t usual) {
    if (!is_worth_moving(usual)) return;
    try {
        state = state_of(source);
        taken = 0;
    } catch (const Error& error) {
        if (state.empty() || error.status() != SAB_E_ARGUMENT) throw;
    }
}

void Mark::save(StateWriter& out, uint64_t more) const {
    out.bytes(state);
    out.number(taken + more);
}

void Mark::save_of(const Stream& source, StateWriter& out) {
    Mark mark;
    mark.move_to(source);
    mark.save(out, 0);
}

void Mark::restore(StateReader& in, Stream& source) {
    const auto bytes = in.bytes();
    state.assign(bytes.begin(), bytes.end());
    taken = in.number();
    go(source);
}

void Mark::go(Stream& source) const {
    restore_from(source, state);
    Record record;
    for (uint64_t i = 0; i < taken; ++i) {
        if (i % 4096 == 0) report_progress(i, taken);
        if (!source.next(record)) StateReader::refuse();
    }
}

void write_record(StateWriter& state, const Record& record, const ObjectKinds& kinds) {
    state.number(static_cast<uint64_t>(record.view.kind));
    state.real(record.view.size);
    if (record.view.kind == SAB_RECORD_BYTES) return state.bytes(std::as_bytes(std::span(record.bytes())));
    if (record.view.kind == SAB_RECORD_OBJECT) {
        const auto& object = static_cast<const Object&>(*record.owner.get());
        if (object.functions() == nullptr || object.functions()->save == nullptr) fail(SAB_E_UNSUPPORTED, "objects.save = NULL: a state that holds objects needs it");
        const auto is_same = [&](const ObjectsPtr& kind) {
            const sab_object_functions &a = *kind, &b = *object.functions();
            return a.ctx == b.ctx && a.release == b.release && a.save == b.save && a.load == b.load;
        };
        const auto kind = std::ranges::find_if(kinds, is_same);
        if (kind == kinds.end()) fail(SAB_E_UNSUPPORTED, "objects: a state holds an object whose functions no stage was given");
        state.number(static_cast<uint64_t>(kind - kinds.begin()));
        Bytes bytes;
        for (std::size_t size = 0;;) {
            call_back("objects.save", [&] { return object.functions()->save(object.functions()->ctx, object.handle(), bytes.data(), bytes.size(), &size); });
            const bool is_written = size <= bytes.size();
            bytes.resize(size);
            if (is_written) break;
        }
        return state.bytes(bytes);
    }
    const List& list = list_of(record);
    state.number(list.items.size());
    for (std::size_t i = 0; i < list.items.size(); ++i) write_record(state, list.at(i), kinds);
}

static Record read_record(StateReader& state, const ObjectKinds& kinds, Copier& copier, int depth) {
    if (depth > 64) StateReader::refuse();
    const auto kind = static_cast<sab_record_kind>(state.number(SAB_RECORD_OBJECT));
    const double size = state.real();
    if (!(size >= 0 && std::isfinite(size))) StateReader::refuse();
    if (kind == SAB_RECORD_LIST) {
        auto list = std::make_unique<List>();
        for (uint64_t count = state.number(); count > 0; --count) list->add(read_record(state, kinds, copier, depth + 1));
        Record record = list_record(std::move(list));
        record.view.size = size;
        return record;
    }
    const uint64_t number = kind == SAB_RECORD_OBJECT ? state.number() : 0;
    const auto bytes = state.bytes();
    if (kind == SAB_RECORD_BYTES) return copier.copy({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, size);
    if (number >= kinds.size() || kinds[number]->load == nullptr) StateReader::refuse();
    const ObjectsPtr& objects = kinds[number];
    void* handle = nullptr;
    call_back("objects.load", [&] { return objects->load(objects->ctx, bytes.data(), bytes.size(), &handle); });
    return object_record(handle, size, objects);
}

Record read_record(StateReader& state, const ObjectKinds& kinds, Copier& copier) { return read_record(state, kinds, copier, 0); }

ObjectKinds objects_in(const Stream& stream) {
    ObjectKinds kinds;
    stream.add_objects(kinds);
    return kinds;
}

namespace {

[[noreturn]] void refuse_half(std::string_view where) {
    fail(SAB_E_ARGUMENT, "stream: failed ", where, ": call sab_stream_next() until it does not, or restore an earlier state");
}

class Map : public Making {
public:
    Map(StreamPtr&& source, sab_map_fn map, Context context, ObjectsPtr objects)
        : Making(std::move(source), std::move(objects)), map_(map), context_(std::move(context)) {}

    bool next(Record& record) override {
        if (!is_waiting_ && !source_->next(waiting_)) return false;
        is_waiting_ = true;
        sab_record made = waiting_.view;
        call_back("map", [&] { return map_(context_.get(), &waiting_.view, &made); });
        record = taken("map: made", made, std::move(waiting_), objects_, copier_);
        is_waiting_ = false;
        return true;
    }
    void rewind() override {
        is_waiting_ = false;
        source_->rewind();
    }
    void save(StateWriter& state) const override {
        if (is_waiting_) refuse_half("to map a record");
        source_->save(state);
    }
    void restore(StateReader& state) override {
        is_waiting_ = false;
        source_->restore(state);
    }
    void describe(Description& description) const override {
        source_->describe(description);
        description.add("map");
    }
    StreamPtr fresh() const override { return std::make_unique<Map>(source_->fresh(), map_, context_, objects_); }

private:
    sab_map_fn map_;
    Context context_;
    Copier copier_;
    Record waiting_;  ///< map failed on it
    bool is_waiting_ = false;
};

/// A map whose calls know something of their own, which is part of the state.
class Recurrent : public Making {
public:
    Recurrent(StreamPtr&& source, sab_recur_fn recur, Context context, Record initial, ObjectsPtr objects)
        : Making(std::move(source), std::move(objects)), recur_(recur), context_(std::move(context)), initial_(std::move(initial)), state_(initial_) {}

    bool next(Record& record) override {
        if (!is_waiting_ && !source_->next(waiting_)) return false;
        is_waiting_ = true;
        sab_record after = state_.view, made = waiting_.view;
        call_back("recur", [&] { return recur_(context_.get(), &state_.view, &waiting_.view, &after, &made); });
        Record out = taken("recur: made", made, Record(waiting_), objects_, copier_);  // a copy: what follows may fail
        state_ = taken("recur: next", after, Record(state_), objects_, copier_);
        record = std::move(out);
        is_waiting_ = false;
        return true;
    }
    void rewind() override {
        is_waiting_ = false;
        state_ = initial_;
        source_->rewind();
    }
    void save(StateWriter& state) const override {
        if (is_waiting_) refuse_half("in a recurrent step");
        source_->save(state);
        write_record(state, state_, objects_in(*this));
    }
    void restore(StateReader& state) override {
        is_waiting_ = false;
        source_->restore(state);
        state_ = read_record(state, objects_in(*this), copier_);
    }
    void describe(Description& description) const override {
        source_->describe(description);
        description.add("recurrent");
    }
    StreamPtr fresh() const override { return std::make_unique<Recurrent>(source_->fresh(), recur_, context_, initial_, objects_); }

private:
    sab_recur_fn recur_;
    Context context_;
    const Record initial_;
    Record state_;
    Copier copier_;
    Record waiting_;
    bool is_waiting_ = false;
};

class RandomMap : public Making {
public:
    RandomMap(StreamPtr&& source, sab_random_map_fn map, Context context, uint64_t seed, ObjectsPtr objects)
        : Making(std::move(source), std::move(objects)), map_(map), context_(std::move(context)), seed_(seed), random_{PythonRandom(seed)} {}

    bool next(Record& record) override {
        if (!is_waiting_ && !source_->next(waiting_)) return false;
        is_waiting_ = true;
        const PythonRandom before = random_.generator;
        try {
            sab_record made = waiting_.view;
            call_back("map", [&] { return map_(context_.get(), &random_, &waiting_.view, &made); });
            record = taken("map: made", made, std::move(waiting_), objects_, copier_);
        } catch (...) {
            random_.generator = before;
            throw;
        }
        is_waiting_ = false;
        return true;
    }
    void rewind() override {
        is_waiting_ = false;
        random_.generator = PythonRandom(seed_);
        source_->rewind();
    }
    void save(StateWriter& state) const override {
        if (is_waiting_) refuse_half("to map a record");
        source_->save(state);
        state.generator(random_.generator.generator());
    }
    void restore(StateReader& state) override {
        is_waiting_ = false;
        source_->restore(state);
        state.generator(random_.generator.generator());
    }
    void describe(Description& description) const override {
        source_->describe(description);
        description.add("random map");
        description.add(seed_);
    }
    StreamPtr fresh() const override { return std::make_unique<RandomMap>(source_->fresh(), map_, context_, seed_, objects_); }

private:
    sab_random_map_fn map_;
    Context context_;
    uint64_t seed_;
    sab_random random_;
    Copier copier_;
    Record waiting_;
    bool is_waiting_ = false;
};

/// The records of streams that a callback opens. A state is that of the source before the record, and that of the stream that was opened for it.
class Select : public Over {
public:
    Select(StreamPtr&& source, sab_select_fn select, Context context, ObjectsPtr objects)
        : Over(std::move(source)), select_(select), context_(std::move(context)), objects_(std::move(objects)) {}

    bool next(Record& record) override {
        for (;;) {
            if (opened_ == nullptr && !open()) return false;
            if (opened_->impl != nullptr && opened_->impl->next(record)) return true;
            close();
        }
    }
    void rewind() override {
        forget();
        source_->rewind();
    }
    void save(StateWriter& state) const override {
        before_.save(state, *source_, opened_ == nullptr && !is_waiting_);
        const bool is_inside = opened_ != nullptr && opened_->impl != nullptr;
        state.number(is_inside);
        if (is_inside) state.bytes(state_of(*opened_->impl));
    }
    void restore(StateReader& state) override {
        forget();
        before_.restore(state, *source_);
        if (state.number(1) == 0) return;
        const auto inside = state.bytes();
        if (!open() || opened_->impl == nullptr) StateReader::refuse();
        restore_from(*opened_->impl, inside);
    }
    void describe(Description& description) const override {
        const Description::Replayed replayed(description);
        source_->describe(description);
        description.add("select");
    }
    StreamPtr fresh() const override { return std::make_unique<Select>(source_->fresh(), select_, context_, objects_); }
    uint64_t skipped() const override { return source_->skipped() + skipped_ + (opened_ != nullptr && opened_->impl != nullptr ? opened_->impl->skipped() : 0); }
    void add_objects(ObjectKinds& kinds) const override {
        if (objects_ != nullptr) kinds.push_back(objects_);
    }

private:
    void forget() {
        close();
        is_waiting_ = false;
        before_.forget();
    }
    void close() {
        if (opened_ != nullptr && opened_->impl != nullptr) skipped_ += opened_->impl->skipped();
        opened_ = nullptr;
    }
    bool open() {
        if (!is_waiting_) {
            if (!before_.next(*source_, waiting_)) return false;
            is_waiting_ = true;
        }
        sab_stream* made = nullptr;
        call_back("select", [&] { return select_(context_.get(), &waiting_.view, &made); });
        opened_.reset(made != nullptr ? made : new sab_stream{});
        is_waiting_ = false;
        return true;
    }

    sab_select_fn select_;
    Context context_;
    ObjectsPtr objects_;
    Before before_;
    Record waiting_;
    bool is_waiting_ = false;
    std::unique_ptr<sab_stream> opened_;
    uint64_t skipped_ = 0;
};

class Batches : public Over {
public:
    Batches(StreamPtr&& source, uint64_t batch_size) : Over(std::move(source)), batch_size_(batch_size) {}

    bool next(Record& record) override {
        if (list_ == nullptr) list_ = std::make_unique<List>();
        for (Record item; list_->items.size() < batch_size_ && source_->next(item);) list_->add(std::move(item));  // what came before a failure is kept
        if (list_->items.empty()) return false;
        record = list_record(std::move(list_));
        return true;
    }
    void rewind() override {
        list_ = nullptr;
        source_->rewind();
    }
    void save(StateWriter& state) const override {
        if (list_ != nullptr && !list_->items.empty()) refuse_half("in the middle of a batch");
        source_->save(state);
    }
    void restore(StateReader& state) override {
        list_ = nullptr;
        source_->restore(state);
    }
    void describe(Description& description) const override {
        source_->describe(description);
        description.add("batch");
        description.add(batch_size_);
    }
    StreamPtr fresh() const override { return std::make_unique<Batches>(source_->fresh(), batch_size_); }

private:
    uint64_t batch_size_;
    std::unique_ptr<List> list_;
};

/// The records of lists. A state is that of the source before the list, and a place in it.
class Flatten : public Over {
public:
    using Over::Over;

    bool next(Record& record) override {
        while (place_ == count_) {
            place_ = count_ = 0;
            if (!before_.next(*source_, list_)) return false;
            if (!list_.is_list()) {
                record = std::move(list_);
                return true;
            }
            count_ = list_of(list_).items.size();
        }
        record = list_of(list_).at(place_++);
        return true;
    }
    void rewind() override {
        place_ = count_ = 0;
        before_.forget();
        source_->rewind();
    }
    void save(StateWriter& state) const override {
        const bool is_inside = place_ < count_;
        before_.save(state, *source_, !is_inside);
        state.number(is_inside ? place_ : 0);
    }
    void restore(StateReader& state) override {
        place_ = count_ = 0;
        before_.restore(state, *source_);
        const uint64_t place = state.number();
        if (place == 0) return;
        if (!before_.next(*source_, list_) || !list_.is_list() || place >= list_of(list_).items.size()) StateReader::refuse();
        place_ = place;
        count_ = list_of(list_).items.size();
    }
    void describe(Description& description) const override {
        const Description::Replayed replayed(description);
        source_->describe(description);
        description.add("flatten");
    }
    StreamPtr fresh() const override { return std::make_unique<Flatten>(source_->fresh()); }

private:
    Before before_;
    Record list_;
    std::size_t place_ = 0, count_ = 0;
};

/// A state is that of the source at a place at or before the window, and how many records from there on are to be skipped.
class Window : public Over {
public:
    Window(StreamPtr&& source, uint64_t width) : Over(std::move(source)), width_(width) {}

    bool next(Record& record) override {
        if (!is_marked_) mark();
        while (items_.size() < width_) {
            if (taken_ - later_place_ >= width_) {  // two marks, so that the older one is at most two windows back
                if (begin() >= later_place_) {
                    mark_ = std::move(later_);
                    mark_place_ = later_place_;
                }
                later_ = state_of(*source_);
                later_place_ = taken_;
            }
            Record item;
            if (!source_->next(item)) return false;
            items_.push_back(std::move(item));
            ++taken_;
        }
        auto list = std::make_unique<List>();
        list->reserve(width_);
        for (const Record& item : items_) list->add(Record(item));
        record = list_record(std::move(list));
        items_.pop_front();
        return true;
    }
    void rewind() override {
        source_->rewind();
        mark();
    }
    void save(StateWriter& state) const override {
        state.bytes(is_marked_ ? mark_ : state_of(*source_));
        state.number(begin() - mark_place_);
        state.number(items_.size());
    }
    void restore(StateReader& state) override {
        const auto before = state.bytes();
        restore_from(*source_, before);
        mark();
        const uint64_t skip = state.number(4 * width_), kept = state.number(width_);
        for (uint64_t i = 0; i < skip + kept; ++i) {
            Record item;
            if (!source_->next(item)) StateReader::refuse();
            if (i >= skip) items_.push_back(std::move(item));
        }
        taken_ = skip + kept;
    }
    void describe(Description& description) const override {
        const Description::Replayed replayed(description);
        source_->describe(description);
        description.add("window");
        description.add(width_);
    }
    StreamPtr fresh() const override { return std::make_unique<Window>(source_->fresh(), width_); }

private:
    uint64_t begin() const { return taken_ - items_.size(); }
    void mark() {
        items_.clear();
        taken_ = mark_place_ = later_place_ = 0;
        mark_ = later_ = state_of(*source_);
        is_marked_ = true;
    }

    uint64_t width_;
    std::deque<Record> items_;  ///< from begin() on
    uint64_t taken_ = 0;        ///< records taken from the source since the first mark
    Bytes mark_, later_;
    uint64_t mark_place_ = 0, later_place_ = 0;
    bool is_marked_ = false;
};

/// Streams over several others.
class OverMany : public Stream {
public:
    explicit OverMany(std::vector<StreamPtr>&& sources) : sources_(std::move(sources)) {}
    uint64_t skipped() const override {
        uint64_t count = 0;
        for (const StreamPtr& source : sources_) count += source->skipped();
        return count;
    }
    void add_objects(ObjectKinds& kinds) const override {
        for (const StreamPtr& source : sources_) source->add_objects(kinds);
    }
    void rewind() override {
        is_over_ = false;
        forget();
        for (const StreamPtr& source : sources_) source->rewind();
    }
    void save(StateWriter& state) const override {
        if (is_half()) refuse_half("in the middle of a record of several");
        state.number(is_over_);
        for (const StreamPtr& source : sources_) source->save(state);
    }
    void restore(StateReader& state) override {
        forget();
        is_over_ = state.number(1) == 1;
        for (const StreamPtr& source : sources_) source->restore(state);
    }

protected:
    virtual void forget() = 0;
    virtual bool is_half() const = 0;
    void describe_sources(Description& description) const {
        description.add(static_cast<uint64_t>(sources_.size()));
        for (const StreamPtr& source : sources_) source->describe(description);
    }
    std::vector<StreamPtr> fresh_sources() const {
        std::vector<StreamPtr> made;
        for (const StreamPtr& source : sources_) made.push_back(source->fresh());
        return made;
    }

    std::vector<StreamPtr> sources_;
    bool is_over_ = false;
};

class Zip : public OverMany {
public:
    using OverMany::OverMany;

    bool next(Record& record) override {
        if (is_over_) return false;
        if (list_ == nullptr) list_ = std::make_unique<List>();
        while (list_->items.size() < sources_.size()) {
            Record item;
            if (!sources_[list_->items.size()]->next(item)) {
                is_over_ = true;
                list_ = nullptr;
                return false;
            }
            list_->add(std::move(item));
        }
        record = list_record(std::move(list_));
        return true;
    }
    void describe(Description& description) const override {
        description.add("zip");
        describe_sources(description);
    }
    StreamPtr fresh() const override { return std::make_unique<Zip>(fresh_sources()); }

private:
    void forget() override { list_ = nullptr; }
    bool is_half() const override { return list_ != nullptr && !list_->items.empty(); }
    std::unique_ptr<List> list_;
};

/// The first of its sources is the control stream.
class Multiplex : public OverMany {
public:
    using OverMany::OverMany;

    bool next(Record& record) override {
        if (is_over_) return false;
        if (chosen_ == 0) {
            Record control;
            if (!sources_[0]->next(control)) return end();
            const double count = static_cast<double>(sources_.size() - 1);
            check(control.view.size < count, "the control stream's number", control.view.size, "must be below the number of sources, ", count);
            chosen_ = 1 + static_cast<std::size_t>(control.view.size);
        }
        if (!sources_[chosen_]->next(record)) return end();
        chosen_ = 0;
        return true;
    }
    void describe(Description& description) const override {
        description.add("multiplex");
        describe_sources(description);
    }
    StreamPtr fresh() const override { return std::make_unique<Multiplex>(fresh_sources()); }

private:
    bool end() {
        is_over_ = true;
        chosen_ = 0;
        return false;
    }
    void forget() override { chosen_ = 0; }
    bool is_half() const override { return chosen_ != 0; }
    std::size_t chosen_ = 0;  ///< of the sources; 0: the control stream is asked first
};

/// A round is a record for each rank.
class Rank : public Over {
public:
    Rank(StreamPtr&& source, uint64_t rank, uint64_t world_size) : Over(std::move(source)), rank_(rank), world_size_(world_size) {}

    bool next(Record& record) override {
        if (is_over_) return false;
        while (seen_ < world_size_) {  // what came before a failure is kept
            Record item;
            if (!source_->next(item)) {
                is_over_ = true;
                break;
            }
            if (seen_++ == rank_) mine_ = std::move(item);
        }
        const uint64_t seen = std::exchange(seen_, 0);
        if (seen == 0) return false;
        record = seen > rank_ ? std::move(mine_) : list_record(std::make_unique<List>());
        return true;
    }
    void rewind() override {
        forget();
        source_->rewind();
    }
    void save(StateWriter& state) const override {
        if (seen_ > 0) refuse_half("in the middle of a round of ranks");
        state.number(is_over_);
        source_->save(state);
    }
    void restore(StateReader& state) override {
        forget();
        const bool is_over = state.number(1) == 1;
        source_->restore(state);
        is_over_ = is_over;
    }
    void describe(Description& description) const override {
        source_->describe(description);
        description.add("rank");
        if (!description.is_replayed()) return;
        description.add(rank_);
        description.add(world_size_);
    }
    StreamPtr fresh() const override { return std::make_unique<Rank>(source_->fresh(), rank_, world_size_); }

private:
    void forget() {
        seen_ = 0;
        is_over_ = false;
    }
    uint64_t rank_, world_size_;
    uint64_t seen_ = 0;  ///< records of the round that is under way
    Record mine_;
    bool is_over_ = false;
};

class Numbered : public Over {
public:
    using Over::Over;
    bool next(Record& record) override {
        if (!source_->next(record)) return false;
        record = copier_.copy({reinterpret_cast<const char*>(&count_), sizeof count_}, record.view.size);
        ++count_;
        return true;
    }
    void rewind() override {
        count_ = 0;
        source_->rewind();
    }
    void save(StateWriter& state) const override {
        source_->save(state);
        state.number(count_);
    }
    void restore(StateReader& state) override {
        source_->restore(state);
        count_ = state.number();
    }
    void describe(Description& description) const override {
        source_->describe(description);
        description.add("numbered");
    }
    StreamPtr fresh() const override { return std::make_unique<Numbered>(source_->fresh()); }
    void add_objects(ObjectKinds&) const override {}

private:
    uint64_t count_ = 0;
    Copier copier_;
};

}  // namespace

StreamPtr make_map(StreamPtr&& source, const sab_map_stream_options& options) {
    require(reinterpret_cast<const void*>(options.map), "options.map");
    ObjectsPtr objects = objects_of(options.objects);
    check(options.threads <= 1024, "options.threads", options.threads, "must be at most 1024");
    if (options.threads > 0) return make_parallel_map(std::move(source), options);
    return std::make_unique<Map>(std::move(source), options.map, context_of(options.ctx, options.release), std::move(objects));
}

StreamPtr make_select(StreamPtr&& source, sab_select_fn select, void* ctx, void (*release)(void*), const sab_object_functions* objects) {
    require(reinterpret_cast<const void*>(select), "select");
    ObjectsPtr functions = objects_of(objects);
    return std::make_unique<Select>(std::move(source), select, context_of(ctx, release), std::move(functions));
}

StreamPtr make_recurrent(StreamPtr&& source, sab_recur_fn recur, void* ctx, void (*release)(void*), const sab_record* initial, const sab_object_functions* objects) {
    require(reinterpret_cast<const void*>(recur), "recur");
    ObjectsPtr functions = objects_of(objects);
    Copier copier;
    if (initial != nullptr && initial->kind != SAB_RECORD_BYTES) fail(SAB_E_ARGUMENT, "initial.kind = ", initial->kind, ": must be SAB_RECORD_BYTES (0)");
    Record first = initial == nullptr ? copier.copy({}, 0) : taken("initial", *initial, Record{}, nullptr, copier);
    return std::make_unique<Recurrent>(std::move(source), recur, context_of(ctx, release), std::move(first), std::move(functions));
}

StreamPtr make_random_map(StreamPtr&& source, sab_random_map_fn map, void* ctx, void (*release)(void*), uint64_t seed, const sab_object_functions* objects) {
    require(reinterpret_cast<const void*>(map), "map");
    ObjectsPtr functions = objects_of(objects);
    return std::make_unique<RandomMap>(std::move(source), map, context_of(ctx, release), seed, std::move(functions));
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
StreamPtr make_multiplex(std::vector<StreamPtr>&& control_and_sources) { return std::make_unique<Multiplex>(std::move(control_and_sources)); }

StreamPtr make_rank(StreamPtr&& source, uint64_t rank, uint64_t world_size) {
    check(world_size >= 1, "world_size", world_size, "must be at least 1");
    check(rank < world_size, "rank", rank, "must be below the world size, ", world_size);
    return std::make_unique<Rank>(std::move(source), rank, world_size);
}

StreamPtr make_numbered(StreamPtr&& source) { return std::make_unique<Numbered>(std::move(source)); }

}  // namespace sab

extern "C" {

double sab_random_real(sab_random* random) noexcept { return random == nullptr ? 0 : random->generator.real(); }

uint64_t sab_random_bits(sab_random* random, uint32_t bits) noexcept { return random == nullptr || bits < 1 || bits > 64 ? 0 : random->generator.bits(static_cast<int>(bits)); }

uint64_t sab_random_below(sab_random* random, uint64_t limit) noexcept { return random == nullptr || limit == 0 ? 0 : random->generator.below(limit); }

}  // extern "C"
