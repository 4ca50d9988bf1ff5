/// Stages that transform, join and group records.
#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "base/guard.h"
#include "base/python_random.h"
#include "stream/proportional_sequence.h"
#include "stream/stream.h"

namespace sab {

SourceStage::SourceStage() = default;
SourceStage::~SourceStage() = default;
ObjectStage::ObjectStage(Context context, ObjectsPtr objects)
    : context_(std::move(context)), objects_(std::move(objects)) {}
ObjectStage::~ObjectStage() = default;
Context context_of(void* pointer, void (*release)(void*)) {
    return std::make_shared<CallerContext>(pointer, release);
}

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
        state = std::make_shared<const Bytes>(state_of(source));
        taken = 0;
    } catch (const Error& error) {
        if (state == nullptr || error.status() != SAB_E_ARGUMENT) throw;
    }
}

void Mark::save(StateWriter& out, uint64_t more) const {
    out.bytes(state != nullptr ? std::span<const std::byte>(*state) : std::span<const std::byte>());
    out.number(taken + more);
}

void Mark::save_of(const Stream& source, StateWriter& out) {
    Mark mark;
    mark.move_to(source);
    mark.save(out, 0);
}

void Mark::restore(StateReader& in, Stream& source) {
    const auto bytes = in.bytes();
    state = std::make_shared<const Bytes>(bytes.begin(), bytes.end());
    taken = in.number();
    go(source);
}

void Mark::go(Stream& source) const {
    restore_from(source, *state);
    Record record;
    for (uint64_t i = 0; i < taken; ++i) {
        if (i % 4096 == 0) report_progress(i, taken);
        if (!source.next(record)) StateReader::refuse();
    }
}

void write_record(StateWriter& state, const Record& record, const ObjectKinds& kinds) {
    state.number(static_cast<uint64_t>(record.view.kind));
    state.real(record.view.size);
    if (record.view.kind == SAB_RECORD_BYTES)
        return state.bytes(std::as_bytes(std::span(record.bytes())));
    if (record.view.kind == SAB_RECORD_OBJECT) {
        const auto& object = static_cast<const Object&>(*record.owner.get());
        if (object.functions() == nullptr || object.functions()->save == nullptr)
            fail_about(SAB_E_UNSUPPORTED, "objects.save", "NULL",
                       "a state that holds objects needs it");
        const auto is_same = [&](const ObjectsPtr& kind) {
            const sab_object_functions &a = *kind, &b = *object.functions();
            return a.ctx == b.ctx && a.release == b.release && a.save == b.save && a.load == b.load;
        };
        const auto kind = std::ranges::find_if(kinds, is_same);
        if (kind == kinds.end())
            fail_about(SAB_E_UNSUPPORTED, "objects", no_value,
                       "a state holds an object whose functions no stage was given");
        state.number(static_cast<uint64_t>(kind - kinds.begin()));
        const sab_object_functions& own = *object.functions();
        return state.bytes(written_by("objects.save", [&](auto... room) {
            return own.save(own.ctx, object.handle(), room...);
        }));
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
        for (uint64_t count = state.number(); count > 0; --count)
            list->add(read_record(state, kinds, copier, depth + 1));
        Record record = list_record(std::move(list));
        record.view.size = size;
        return record;
    }
    const uint64_t number = kind == SAB_RECORD_OBJECT ? state.number() : 0;
    const auto bytes = state.bytes();
    if (kind == SAB_RECORD_BYTES)
        return copier.copy({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, size);
    if (number >= kinds.size() || kinds[number]->load == nullptr) StateReader::refuse();
    const ObjectsPtr& objects = kinds[number];
    void* handle = &handle;  // no object is there
    copier.reserve_object();
    call_back("objects.load",
              [&] { return objects->load(objects->ctx, bytes.data(), bytes.size(), &handle); });
    if (handle == &handle) fail_unset("objects.load", "the object");
    return copier.object(handle, size, objects);
}

Record read_record(StateReader& state, const ObjectKinds& kinds, Copier& copier) {
    return read_record(state, kinds, copier, 0);
}

ObjectKinds objects_in(const Stream& stream) {
    ObjectKinds kinds;
    stream.add_objects(kinds);
    return kinds;
}

namespace {

[[noreturn]] void refuse_unfinished(std::string_view where) {
    refuse_argument("stream", no_value, "failed ", where,
                    ": call sab_stream_next() until it succeeds, or restore an earlier state");
}

/// A stage whose callback makes a record of each. One on which it failed waits for the next call.
class MapStage : public ObjectStage {
public:
    using ObjectStage::ObjectStage;
    void save(StateWriter& state) const override {
        if (is_waiting_) refuse_unfinished("to map a record");
        source_->save(state);
    }

protected:
    /// Takes the record that is waiting or the next one. False at the end.
    bool take() {
        if (!is_waiting_ && !source_->next(waiting_)) return false;
        is_waiting_ = true;
        copier_.reserve_object();
        return true;
    }
    void forget() override { is_waiting_ = false; }

    Copier copier_;
    Record waiting_;
    bool is_waiting_ = false;
};

class Map : public MapStage {
public:
    Map(sab_map_fn map, Context context, ObjectsPtr objects)
        : MapStage(std::move(context), std::move(objects)), map_(map) {}

    bool next(Record& record) override {
        if (!take()) return false;
        sab_record made = waiting_.view;
        call_back("map", [&] { return map_(context_->get(), &waiting_.view, &made); });
        record = taken("map: made", made, std::move(waiting_), objects_, copier_);
        is_waiting_ = false;
        return true;
    }
    void describe(Description& description) const override {
        source_->describe(description);
        description.add("map");
    }
    StreamPtr fresh() const override {
        return make_stage<Map>(source_->fresh(), map_, context_, objects_);
    }

private:
    sab_map_fn map_;
};

/// Measures texts anew, behind what has read them.
class TextSize : public SourceStage {
public:
    explicit TextSize(sab_text_unit unit) : unit_(unit) {}

    bool next(Record& record) override {
        if (!source_->next(record)) return false;
        sab_record& view = record.view;
        if (view.kind == SAB_RECORD_BYTES)
            view.size = size_of(record.bytes(), unit_);
        else if (view.kind == SAB_RECORD_LIST && unit_ == SAB_TEXT_CHARACTERS)
            view.size = static_cast<double>(view.length);
        return true;
    }
    void describe(Description& description) const override {
        source_->describe(description);
        description.add("text size");
        description.add(static_cast<uint64_t>(unit_));
    }
    StreamPtr fresh() const override { return make_stage<TextSize>(source_->fresh(), unit_); }

private:
    sab_text_unit unit_;
};

/// A map whose calls share a value, which is part of the state.
class Recurrent : public MapStage {
public:
    Recurrent(sab_recur_fn recur, Context context, Record initial, ObjectsPtr objects)
        : MapStage(std::move(context), std::move(objects)),
          recur_(recur),
          initial_(std::move(initial)),
          state_(initial_) {}

    bool next(Record& record) override {
        if (!take()) return false;
        state_copier_.reserve_object();
        sab_record after = state_.view, made = waiting_.view;
        call_back("recur", [&] {
            return recur_(context_->get(), &state_.view, &waiting_.view, &after, &made);
        });
        Record made_object = given_object(made, waiting_, objects_, copier_),
               after_object = given_object(after, state_, objects_, state_copier_);
        // of a copy: the next line may fail
        Record out = taken("recur: made", made, Record(waiting_), std::move(made_object), copier_);
        state_ =
            taken("recur: next", after, Record(state_), std::move(after_object), state_copier_);
        record = std::move(out);
        is_waiting_ = false;
        return true;
    }
    void save(StateWriter& state) const override {
        MapStage::save(state);
        write_record(state, state_, objects_in(*this));
    }
    void restore(StateReader& state) override {
        MapStage::restore(state);
        state_ = read_record(state, objects_in(*this), state_copier_);
    }
    void describe(Description& description) const override {
        source_->describe(description);
        description.add("recurrent");
    }
    StreamPtr fresh() const override {
        return make_stage<Recurrent>(source_->fresh(), recur_, context_, initial_, objects_);
    }

private:
    void forget() override {
        MapStage::forget();
        state_ = initial_;
    }

    sab_recur_fn recur_;
    const Record initial_;
    Record state_;
    Copier state_copier_;
};

class RandomMap : public MapStage {
public:
    RandomMap(sab_random_map_fn map, Context context, uint64_t seed, ObjectsPtr objects)
        : MapStage(std::move(context), std::move(objects)),
          map_(map),
          seed_(seed),
          random_{{}, PythonRandom(seed)} {}

    bool next(Record& record) override {
        if (!take()) return false;
        const PythonRandom before = random_.generator;
        try {
            sab_record made = waiting_.view;
            call_back("map",
                      [&] { return map_(context_->get(), &random_, &waiting_.view, &made); });
            record = taken("map: made", made, std::move(waiting_), objects_, copier_);
        } catch (...) {
            random_.generator = before;
            throw;
        }
        is_waiting_ = false;
        return true;
    }
    void save(StateWriter& state) const override {
        MapStage::save(state);
        state.generator(random_.generator.generator());
    }
    void restore(StateReader& state) override {
        MapStage::restore(state);
        state.generator(random_.generator.generator());
    }
    void describe(Description& description) const override {
        source_->describe(description);
        description.add("random map");
        description.add(seed_);
    }
    StreamPtr fresh() const override {
        return make_stage<RandomMap>(source_->fresh(), map_, context_, seed_, objects_);
    }

private:
    void forget() override {
        MapStage::forget();
        random_.generator = PythonRandom(seed_);
    }

    sab_random_map_fn map_;
    uint64_t seed_;
    sab_random random_;
};

/// The records of streams that a callback opens. A state is that of the source before the record,
/// and that of the stream that was opened for it.
class Select : public ObjectStage {
public:
    Select(sab_select_fn select, Context context, ObjectsPtr objects)
        : ObjectStage(std::move(context), std::move(objects)), select_(select) {}

    bool next(Record& record) override {
        for (uint64_t turns = 1;; ++turns) {
            if (turns % 4096 == 0) report_progress(0, 0);
            if (opened_ == nullptr && !open()) return false;
            if (opened_->impl.stream != nullptr && opened_->impl.stream->next(record)) return true;
            close();
        }
    }
    void save(StateWriter& state) const override {
        before_.save(state, *source_, opened_ == nullptr && !is_waiting_);
        const bool is_inside = opened_ != nullptr && opened_->impl.stream != nullptr;
        state.number(is_inside);
        if (is_inside) state.bytes(state_of(*opened_->impl.stream));
    }
    void restore(StateReader& state) override {
        forget();
        before_.restore(state, *source_);
        if (state.number(1) == 0) return;
        const auto inside = state.bytes();
        if (!open() || opened_->impl.stream == nullptr) StateReader::refuse();
        restore_from(*opened_->impl.stream, inside);
    }
    void describe(Description& description) const override {
        const Description::Replayed replayed(description);
        source_->describe(description);
        description.add("select");
    }
    StreamPtr fresh() const override {
        return make_stage<Select>(source_->fresh(), select_, context_, objects_);
    }
    uint64_t skipped() const override {
        return source_->skipped() + skipped_ +
               (opened_ != nullptr && opened_->impl.stream != nullptr
                    ? opened_->impl.stream->skipped()
                    : 0);
    }
    void add_objects(ObjectKinds& kinds) const override {
        if (objects_ != nullptr) kinds.push_back(objects_);
    }

private:
    void forget() override {
        close();
        is_waiting_ = false;
        before_.forget();
    }
    void close() {
        if (opened_ != nullptr && opened_->impl.stream != nullptr)
            skipped_ += opened_->impl.stream->skipped();
        opened_ = nullptr;
    }
    bool open() {
        if (!is_waiting_) {
            if (!before_.next(*source_, waiting_)) return false;
            is_waiting_ = true;
        }
        // made first: what the callback opens must not be lost
        auto none = std::make_unique<sab_stream>();
        sab_stream* made = nullptr;
        call_back("select", [&] { return select_(context_->get(), &waiting_.view, &made); });
        opened_.reset(made != nullptr ? made : none.release());
        is_waiting_ = false;
        return true;
    }

    sab_select_fn select_;
    RetryMark before_;
    Record waiting_;
    bool is_waiting_ = false;
    std::unique_ptr<sab_stream> opened_;
    uint64_t skipped_ = 0;
};

class Batches : public SourceStage {
public:
    explicit Batches(uint64_t batch_size) : batch_size_(batch_size) {}

    bool next(Record& record) override {
        if (list_ == nullptr) list_ = std::make_unique<List>();
        // what came before a failure is kept
        for (Record item; list_->items.size() < batch_size_;) {
            list_->make_room();
            if (!source_->next(item)) break;
            list_->add(std::move(item));
        }
        if (list_->items.empty()) return false;
        record = list_record(std::move(list_));
        return true;
    }
    void save(StateWriter& state) const override {
        if (list_ != nullptr && !list_->items.empty())
            refuse_unfinished("in the middle of a batch");
        source_->save(state);
    }
    void describe(Description& description) const override {
        source_->describe(description);
        description.add("batch");
        description.add(batch_size_);
    }
    StreamPtr fresh() const override { return make_stage<Batches>(source_->fresh(), batch_size_); }

private:
    void forget() override { list_ = nullptr; }

    uint64_t batch_size_;
    std::unique_ptr<List> list_;
};

/// The records of lists. A state is that of the source before the list, and an index in it.
class Flatten : public SourceStage {
public:
    bool next(Record& record) override {
        while (index_ == count_) {
            index_ = count_ = 0;
            if (!before_.next(*source_, list_)) return false;
            if (!list_.is_list()) {
                record = std::move(list_);
                return true;
            }
            count_ = list_of(list_).items.size();
        }
        record = list_of(list_).at(index_++);
        return true;
    }
    void save(StateWriter& state) const override {
        const bool is_inside = index_ < count_;
        before_.save(state, *source_, !is_inside);
        state.number(is_inside ? index_ : 0);
    }
    void restore(StateReader& state) override {
        forget();
        before_.restore(state, *source_);
        const uint64_t index = state.number();
        if (index == 0) return;
        if (!before_.next(*source_, list_) || !list_.is_list() ||
            index >= list_of(list_).items.size())
            StateReader::refuse();
        index_ = index;
        count_ = list_of(list_).items.size();
    }
    void describe(Description& description) const override {
        const Description::Replayed replayed(description);
        source_->describe(description);
        description.add("flatten");
    }
    StreamPtr fresh() const override { return make_stage<Flatten>(source_->fresh()); }

private:
    void forget() override {
        index_ = count_ = 0;
        before_.forget();
    }

    RetryMark before_;
    Record list_;
    std::size_t index_ = 0, count_ = 0;
};

/// A state has the state of the source at or before the beginning of the window, and the number of
/// records from there to the window.
class Window : public SourceStage {
public:
    explicit Window(uint64_t width) : width_(width) {}

    bool next(Record& record) override {
        if (!is_marked_) mark();
        while (items_.size() < width_) {
            // two marks, so that the older one is at most two windows back
            if (taken_ - later_taken_ >= width_) {
                Bytes here = state_of(*source_);
                if (begin() >= later_taken_) {
                    mark_ = std::move(later_);
                    mark_taken_ = later_taken_;
                }
                later_ = std::move(here);
                later_taken_ = taken_;
            }
            if (!pull(*source_, items_)) return false;
            ++taken_;
        }
        auto list = std::make_unique<List>();
        list->reserve(width_);
        for (const Record& item : items_) list->add(Record(item));
        record = list_record(std::move(list));
        items_.pop_front();
        return true;
    }
    void save(StateWriter& state) const override {
        state.bytes(is_marked_ ? mark_ : state_of(*source_));
        state.number(is_marked_ ? begin() - mark_taken_ : 0);
        state.number(items_.size());
    }
    void restore(StateReader& state) override {
        const auto before = state.bytes();
        restore_from(*source_, before);
        mark();
        const uint64_t skip = state.number(4 * width_), kept = state.number(width_);
        for (uint64_t i = 0; i < skip + kept; ++i) {
            if (!pull(*source_, items_)) StateReader::refuse();
            if (i < skip) items_.pop_back();
        }
        taken_ = skip + kept;
    }
    void describe(Description& description) const override {
        const Description::Replayed replayed(description);
        source_->describe(description);
        description.add("window");
        description.add(width_);
    }
    StreamPtr fresh() const override { return make_stage<Window>(source_->fresh(), width_); }

private:
    void forget() override {
        items_.clear();
        taken_ = 0;
        is_marked_ = false;
    }
    uint64_t begin() const { return taken_ - items_.size(); }
    void mark() {
        Bytes here = state_of(*source_), again = here;
        items_.clear();
        taken_ = mark_taken_ = later_taken_ = 0;
        mark_ = std::move(here);
        later_ = std::move(again);
        is_marked_ = true;
    }

    uint64_t width_;
    std::deque<Record> items_;  ///< from begin() on
    uint64_t taken_ = 0;        ///< records taken from the source since the first mark
    Bytes mark_, later_;
    uint64_t mark_taken_ = 0, later_taken_ = 0;
    bool is_marked_ = false;
};

/// Streams over several others.
class MultiSourceStage : public Stage {
public:
    explicit MultiSourceStage(std::size_t count) { sources_.reserve(count); }
    void attach(StreamPtr source) noexcept override { sources_.push_back(std::move(source)); }
    uint64_t skipped() const override {
        uint64_t count = 0;
        for (const StreamPtr& source : sources_) count += source->skipped();
        return count;
    }
    void add_objects(ObjectKinds& kinds) const override {
        for (const StreamPtr& source : sources_) source->add_objects(kinds);
    }
    void rewind() override {
        for (const StreamPtr& source : sources_) {
            source->rewind();
            is_inconsistent_ = true;
        }
        is_inconsistent_ = is_over_ = false;
        forget();
    }
    void save(StateWriter& state) const override {
        check_consistent();
        if (is_half()) refuse_unfinished("in the middle of a record of several");
        state.number(is_over_);
        for (const StreamPtr& source : sources_) source->save(state);
    }
    void restore(StateReader& state) override {
        forget();
        is_over_ = state.number(1) == 1;
        is_inconsistent_ = true;
        for (const StreamPtr& source : sources_) source->restore(state);
        is_inconsistent_ = false;
    }

protected:
    virtual void forget() = 0;
    virtual bool is_half() const = 0;
    void check_consistent() const {
        if (is_inconsistent_)
            refuse_argument("stream", no_value,
                            "failed to rewind all its sources: call sab_stream_rewind() until it "
                            "succeeds, or restore a state");
    }
    void describe_sources(Description& description) const {
        description.add(static_cast<uint64_t>(sources_.size()));
        for (const StreamPtr& source : sources_) source->describe(description);
    }
    template <class Made, class... Given>
    StreamPtr fresh_over(const Given&... given) const {
        auto made = std::make_unique<Made>(sources_.size(), given...);
        for (const StreamPtr& source : sources_) made->attach(source->fresh());
        return made;
    }

    std::vector<StreamPtr> sources_;
    bool is_over_ = false;

private:
    bool is_inconsistent_ = false;  ///< after a failure not all sources were rewound
};

class Zip : public MultiSourceStage {
public:
    using MultiSourceStage::MultiSourceStage;

    bool next(Record& record) override {
        check_consistent();
        if (is_over_) return false;
        if (list_ == nullptr) list_ = std::make_unique<List>();
        while (list_->items.size() < sources_.size()) {
            Record item;
            list_->make_room();
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
    StreamPtr fresh() const override { return fresh_over<Zip>(); }

private:
    void forget() override { list_ = nullptr; }
    bool is_half() const override { return list_ != nullptr && !list_->items.empty(); }
    std::unique_ptr<List> list_;
};

/// The first of its sources is the control stream.
class Multiplex : public MultiSourceStage {
public:
    using MultiSourceStage::MultiSourceStage;

    bool next(Record& record) override {
        check_consistent();
        if (is_over_) return false;
        if (!has_control_) {
            Record control;
            if (!sources_[0]->next(control)) return end();
            control_ = control.view.size;
            has_control_ = true;
        }
        const double count = static_cast<double>(sources_.size() - 1);
        check(control_ < count, "control", control_, "must be below the number of sources, ",
              count);
        if (!sources_[1 + static_cast<std::size_t>(control_)]->next(record)) return end();
        has_control_ = false;
        return true;
    }
    void describe(Description& description) const override {
        description.add("multiplex");
        describe_sources(description);
    }
    StreamPtr fresh() const override { return fresh_over<Multiplex>(); }

private:
    bool end() {
        is_over_ = true;
        has_control_ = false;
        return false;
    }
    void forget() override { has_control_ = false; }
    bool is_half() const override { return has_control_; }
    double control_ = 0;  ///< the number of the source that is next
    bool has_control_ = false;
};

class Mix : public MultiSourceStage {
public:
    Mix(std::size_t count, std::vector<double> proportions, uint64_t window, sab_mix_until until)
        : MultiSourceStage(count),
          proportions_(std::move(proportions)),
          window_(window),
          until_(until),
          next_source_(proportions_, window) {}

    bool next(Record& record) override {
        check_consistent();
        while (!is_over_) {
            const std::size_t source = next_source_.next();
            if (sources_[source]->next(record)) {
                next_source_.take(source);
                return true;
            }
            if (until_ == SAB_MIX_UNTIL_ALL) next_source_.drop(source);
            is_over_ = until_ == SAB_MIX_UNTIL_FIRST || next_source_.is_over();
        }
        return false;
    }
    void save(StateWriter& state) const override {
        next_source_.save(state);
        MultiSourceStage::save(state);
    }
    void restore(StateReader& state) override {
        ProportionalSequence next_source = next_source_;
        next_source.restore(state);
        MultiSourceStage::restore(state);
        if (next_source.is_over() && !is_over_) StateReader::refuse();
        next_source_ = std::move(next_source);
    }
    bool measure(sab_text_unit unit) override {
        bool are_all = true;
        for (const StreamPtr& source : sources_) are_all &= source->measure(unit);
        return are_all;
    }
    void describe(Description& description) const override {
        description.add("mix");
        for (const double proportion : proportions_) description.add(proportion);
        description.add(window_);
        description.add(static_cast<uint64_t>(until_));
        describe_sources(description);
    }
    StreamPtr fresh() const override { return fresh_over<Mix>(proportions_, window_, until_); }

private:
    void forget() override { next_source_.restart(); }
    bool is_half() const override { return false; }
    const std::vector<double> proportions_;
    const uint64_t window_;
    const sab_mix_until until_;
    ProportionalSequence next_source_;
};

/// Each rank gets one of every `world_size` records.
class Shard : public SourceStage {
public:
    Shard(uint64_t rank, uint64_t world_size) : rank_(rank), world_size_(world_size) {}

    bool next(Record& record) override {
        while (!is_over_ && seen_ < world_size_) {  // what came before a failure is kept
            Record item;
            if (!source_->next(item)) {
                is_over_ = true;
                break;
            }
            if (seen_++ == rank_) mine_ = std::move(item);
        }
        if (seen_ == 0) return false;
        record = seen_ > rank_ ? std::move(mine_) : list_record(std::make_unique<List>());
        seen_ = 0;
        return true;
    }
    bool measure(sab_text_unit unit) override { return source_->measure(unit); }
    void save(StateWriter& state) const override {
        if (seen_ > 0) refuse_unfinished("between the records of the ranks");
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
    StreamPtr fresh() const override {
        return make_stage<Shard>(source_->fresh(), rank_, world_size_);
    }

private:
    void forget() override {
        seen_ = 0;
        is_over_ = false;
    }
    uint64_t rank_, world_size_;
    uint64_t seen_ = 0;  ///< records of the current `world_size`, seen so far
    Record mine_;
    bool is_over_ = false;
};

class Numbered : public SourceStage {
public:
    bool next(Record& record) override {
        copier_.reserve(sizeof count_);
        if (!source_->next(record)) return false;
        record =
            copier_.copy({reinterpret_cast<const char*>(&count_), sizeof count_}, record.view.size);
        ++count_;
        return true;
    }
    void save(StateWriter& state) const override {
        source_->save(state);
        state.number(count_);
    }
    void restore(StateReader& state) override {
        source_->restore(state);
        count_ = state.number(std::numeric_limits<int64_t>::max());
    }
    void describe(Description& description) const override {
        source_->describe(description);
        description.add("numbered");
    }
    StreamPtr fresh() const override { return make_stage<Numbered>(source_->fresh()); }
    void add_objects(ObjectKinds&) const override {}

private:
    void forget() override { count_ = 0; }

    uint64_t count_ = 0;
    Copier copier_;
};

}  // namespace

StagePtr make_map(const sab_map_stream_options& options) {
    require(reinterpret_cast<const void*>(options.map), "options.map");
    check(options.threads <= 1024, "options.threads", options.threads, "must be at most 1024");
    if (options.threads > 0) return make_parallel_map(options);
    return std::make_unique<Map>(options.map, context_of(options.ctx, options.release),
                                 objects_of(options.objects));
}

StagePtr make_select(sab_select_fn select, void* ctx, void (*release)(void*),
                     const sab_object_functions* objects) {
    require(reinterpret_cast<const void*>(select), "select");
    return std::make_unique<Select>(select, context_of(ctx, release), objects_of(objects));
}

StagePtr make_recurrent(sab_recur_fn recur, void* ctx, void (*release)(void*),
                        const sab_record* initial, const sab_object_functions* objects) {
    require(reinterpret_cast<const void*>(recur), "recur");
    Copier copier;
    if (initial != nullptr && initial->kind != SAB_RECORD_BYTES)
        refuse_argument("initial.kind", initial->kind, "must be SAB_RECORD_BYTES (0)");
    Record first = initial == nullptr ? copier.copy({}, 0)
                                      : taken("initial", *initial, Record{}, nullptr, copier);
    return std::make_unique<Recurrent>(recur, context_of(ctx, release), std::move(first),
                                       objects_of(objects));
}

StagePtr make_random_map(sab_random_map_fn map, void* ctx, void (*release)(void*), uint64_t seed,
                         const sab_object_functions* objects) {
    require(reinterpret_cast<const void*>(map), "map");
    return std::make_unique<RandomMap>(map, context_of(ctx, release), seed, objects_of(objects));
}

StagePtr make_batches(uint64_t batch_size) {
    check(batch_size >= 1, "batch_size", batch_size, "must be at least 1");
    return std::make_unique<Batches>(batch_size);
}

StagePtr make_text_size(sab_text_unit unit) {
    return std::make_unique<TextSize>(unit);
}

StagePtr make_flatten() {
    return std::make_unique<Flatten>();
}

StagePtr make_window(uint64_t width) {
    check(width >= 1 && width <= most_records, "width", width, "must be from 1 to 2^32");
    return std::make_unique<Window>(width);
}

sab_stream* stack(StagePtr stage, sab_stream* source) {
    auto made = std::make_unique<sab_stream>();
    stage->attach(std::move(source->impl.stream));  // nothing can fail from here on
    made->impl.stream = std::move(stage);
    made->impl.progress = std::move(source->impl.progress);
    delete source;
    return made.release();
}

sab_stream* measured(sab_stream* source, sab_text_unit unit) {
    check(unit == SAB_TEXT_BYTES || unit == SAB_TEXT_WORDS || unit == SAB_TEXT_CHARACTERS, "unit",
          unit, "must be SAB_TEXT_BYTES (0), SAB_TEXT_WORDS (1) or SAB_TEXT_CHARACTERS (2)");
    if (source->impl.stream->measure(unit)) return source;
    return stack(make_text_size(unit), source);
}

static sab_stream* stack_over_many(StagePtr stage, std::span<sab_stream* const> sources) {
    for (auto source = sources.begin(); source != sources.end(); ++source)
        if (std::find(sources.begin(), source, *source) != source)
            refuse_argument("sources", no_value, "a stream is given twice");
    auto made = std::make_unique<sab_stream>();
    for (const sab_stream* const source : sources) made->impl.progress.add(source->impl.progress);
    for (sab_stream* const source : sources) {  // nothing can fail from here on
        stage->attach(std::move(source->impl.stream));
        delete source;
    }
    made->impl.stream = std::move(stage);
    return made.release();
}

sab_stream* zip(std::span<sab_stream* const> sources) {
    return stack_over_many(std::make_unique<Zip>(sources.size()), sources);
}

sab_stream* multiplex(sab_stream* control, std::span<sab_stream* const> sources) {
    std::vector<sab_stream*> all{control};
    all.insert(all.end(), sources.begin(), sources.end());
    return stack_over_many(std::make_unique<Multiplex>(all.size()), all);
}

sab_stream* mix(std::span<sab_stream* const> sources, const sab_mix_stream_options& options) {
    check(sources.size() <= ProportionalSequence::most_sources, "count", sources.size(),
          "must be at most 1024");
    check(options.proportion_count == sources.size(), "options.proportion_count",
          options.proportion_count, "must be the number of sources, ", sources.size());
    require(options.proportions, "options.proportions");
    check(options.window >= 1 && options.window <= most_records, "options.window", options.window,
          "must be from 1 to 2^32");
    check(options.until == SAB_MIX_UNTIL_FIRST || options.until == SAB_MIX_UNTIL_ALL,
          "options.until", options.until,
          "must be SAB_MIX_UNTIL_FIRST (0) or SAB_MIX_UNTIL_ALL (1)");
    std::vector<double> proportions(options.proportions, options.proportions + sources.size());
    return stack_over_many(std::make_unique<Mix>(sources.size(), std::move(proportions),
                                                 options.window, options.until),
                           sources);
}

StagePtr make_shard(uint64_t rank, uint64_t world_size) {
    check(world_size >= 1, "world_size", world_size, "must be at least 1");
    check(rank < world_size, "rank", rank, "must be below the world size, ", world_size);
    return std::make_unique<Shard>(rank, world_size);
}

StagePtr make_numbered() {
    return std::make_unique<Numbered>();
}

}  // namespace sab
