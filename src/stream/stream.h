#pragma once
/// Streams of records. Each stage reads from its source, which it owns.

#include <memory>
#include <span>
#include <vector>

#include "base/callback.h"
#include "base/caller_context.h"
#include "base/handle.h"
#include "base/progress.h"
#include "base/python_random.h"
#include "stream/record.h"
#include "stream/state.h"

namespace sab {

class Stream;
using StreamPtr = std::unique_ptr<Stream>;

class Stream {
public:
    virtual ~Stream() = default;
    /// False at the end and on every later call. After a failure it can be called again.
    virtual bool next(Record& record) = 0;
    /// Appends the next records, at least one and at most `most`; returns how many, 0 at the end. A
    /// failure appends none. Here one is appended; stages that have many at hand append those.
    virtual std::size_t append(std::vector<Record>& into, std::size_t most);
    virtual void rewind() = 0;
    /// Saves this stream and all sources below it.
    virtual void save(StateWriter& state) const = 0;
    virtual void restore(StateReader& state) = 0;
    virtual void describe(Description& description) const = 0;
    /// The same pipeline at its beginning. Reads only members that never change, so that it may be
    /// called in a child process, where the threads of this pipeline no longer exist.
    virtual StreamPtr fresh() const = 0;
    virtual uint64_t skipped() const = 0;
    /// At the end: refuses an epoch of which each record was left out.
    virtual void check_any_left() const {}
    /// The functions of the handles that records may hold, in the order of the stages.
    virtual void add_objects(ObjectKinds& kinds) const = 0;
    /// From now on all records have the sizes of this unit. False where some keep other sizes: they
    /// are no texts of files, or some were read. A stage then measures all.
    virtual bool measure(sab_text_unit) { return false; }
};

/// A stream over others. It is constructed without its sources: everything that can fail comes
/// first, and attach() cannot fail.
class Stage : public Stream {
public:
    /// Takes the source. From now on the stage owns also what the caller's callbacks need.
    virtual void attach(StreamPtr source) noexcept = 0;
};
using StagePtr = std::unique_ptr<Stage>;

/// A stage over one source.
class SourceStage : public Stage {
public:
    SourceStage();
    ~SourceStage() override;
    void attach(StreamPtr source) noexcept override { source_ = std::move(source); }
    void rewind() override {
        source_->rewind();
        forget();
    }
    void save(StateWriter& state) const override { source_->save(state); }
    void restore(StateReader& state) override {
        forget();
        source_->restore(state);
    }
    uint64_t skipped() const override { return source_->skipped(); }
    void check_any_left() const override { source_->check_any_left(); }
    void add_objects(ObjectKinds& kinds) const override { source_->add_objects(kinds); }

protected:
    /// Goes to the state of the beginning, whatever the source is at. Cannot fail.
    virtual void forget() {}

    StreamPtr source_;
};

/// A stage with its source.
template <class Made, class... Given>
StreamPtr make_stage(StreamPtr source, Given&&... given) {
    auto stage = std::make_unique<Made>(std::forward<Given>(given)...);
    stage->attach(std::move(source));
    return stage;
}

/// Released with the last stream or thread that shares it.
using Context = std::shared_ptr<CallerContext>;
Context context_of(void* pointer, void (*release)(void*));

/// A stage whose callbacks may return objects of the caller.
class ObjectStage : public SourceStage {
public:
    ObjectStage(Context context, ObjectsPtr objects);
    ~ObjectStage() override;
    void attach(StreamPtr source) noexcept override {
        SourceStage::attach(std::move(source));
        context_->own();
    }
    void add_objects(ObjectKinds& kinds) const override {
        if (objects_ != nullptr) kinds.push_back(objects_);
        SourceStage::add_objects(kinds);
    }

protected:
    Context context_;
    ObjectsPtr objects_;
};

/// Appends the next record of the source. Its slot is allocated first, so that no record is lost
/// when memory runs out. False at the end.
template <class Records>
bool pull(Stream& source, Records& into) {
    into.emplace_back();
    bool has_next = false;
    try {
        has_next = source.next(into.back());
    } catch (...) {
        into.pop_back();
        throw;
    }
    if (!has_next) into.pop_back();
    return has_next;
}
inline std::size_t Stream::append(std::vector<Record>& into, std::size_t) {
    return pull(*this, into) ? 1 : 0;
}

/// While one exists, streams that this thread frees do not wait for their threads. Such a thread
/// finishes its callback and then frees what it owns.
class LeavingThreads {
public:
    LeavingThreads() noexcept;
    ~LeavingThreads();
    LeavingThreads(const LeavingThreads&) = delete;
    LeavingThreads& operator=(const LeavingThreads&) = delete;

private:
    bool before_;
};

StreamPtr make_list(std::span<const sab_record> records, const sab_list_stream_options& options);
StreamPtr make_callback(const sab_source_functions& functions);
StreamPtr make_random(uint64_t seed);
StagePtr make_files(const sab_files_stream_options& options);
StagePtr make_map(const sab_map_stream_options& options);
StagePtr make_parallel_map(const sab_map_stream_options& options);
StagePtr make_select(sab_select_fn select, void* ctx, void (*release)(void*),
                     const sab_object_functions* objects);
StagePtr make_flatten();
StagePtr make_recurrent(sab_recur_fn recur, void* ctx, void (*release)(void*),
                        const sab_record* initial, const sab_object_functions* objects);
StagePtr make_random_map(sab_random_map_fn map, void* ctx, void (*release)(void*), uint64_t seed,
                         const sab_object_functions* objects);
StagePtr make_text_size(sab_text_unit unit);
StagePtr make_shard(uint64_t rank, uint64_t world_size);
StagePtr make_batches(uint64_t batch_size);
StagePtr make_window(uint64_t width);
StagePtr make_shuffle(sab_stream_shuffle shuffle, uint64_t size, uint64_t seed);
StagePtr make_readahead(const sab_readahead_stream_options& options);
StagePtr make_pack(const sab_pack_stream_options& options);
StagePtr make_prefetch(uint64_t buffer_size);
/// Records of the same sizes whose bytes are their number, 8 bytes.
StagePtr make_numbered();

Bytes state_of(const Stream& stream);
void restore_from(Stream& stream, std::span<const std::byte> state);

/// The position of a source: a saved state of it, and the number of records taken since. A new
/// state is saved only after so many records that its size does not matter.
struct Mark {
    std::shared_ptr<const Bytes> state;  ///< shared, so that copying a mark cannot fail
    uint64_t taken = 0;

    bool is_worth_moving(uint64_t usual) const {
        return state == nullptr || taken >= std::max<uint64_t>(usual, state->size() / 64);
    }
    /// Moves to the position of the source. The mark stays valid if the source cannot be saved
    /// because it failed in the middle of a record.
    void move_to(const Stream& source, uint64_t usual = 1);
    void save(StateWriter& out, uint64_t more) const;
    /// Saves the current position of the source.
    static void save_of(const Stream& source, StateWriter& out);
    /// Restores the source to the saved position.
    void restore(StateReader& in, Stream& source);
    void go(Stream& source) const;
};

/// The position of a source before the record that was taken last, or that is being taken. After a
/// failure the record is taken again from there.
class RetryMark {
public:
    const Mark& mark() const { return mark_; }
    bool next(Stream& source, Record& record) {
        if (!is_trying_) {
            mark_.taken += has_record_;
            has_record_ = false;
            mark_.move_to(source, 64);
            is_trying_ = true;
        }
        const bool has_next = source.next(record);
        is_trying_ = false;
        has_record_ = has_next;
        return has_next;
    }
    /// Saves the position after the record if it `is_done`, otherwise the one before it.
    void save(StateWriter& out, const Stream& source, bool is_done) const {
        if (!is_done || is_trying_) return mark_.save(out, 0);
        Mark::save_of(source, out);
    }
    void restore(StateReader& in, Stream& source) {
        forget();
        mark_.restore(in, source);
    }
    void forget() {
        mark_ = {};
        has_record_ = is_trying_ = false;
    }

private:
    Mark mark_;
    bool has_record_ = false, is_trying_ = false;
};

/// What a callback of this name writes: write(bytes, room, &size) tells the size, and is called
/// again if there was too little room.
template <class Write>
Bytes written_by(std::string_view name, Write&& write) {
    Bytes bytes;
    for (std::size_t size = unset_size;;) {
        call_back(name, [&] { return write(bytes.data(), bytes.size(), &size); });
        if (size == unset_size) fail_unset(name, "the size");
        const bool is_written = size <= bytes.size();
        bytes.resize(size);
        if (is_written) return bytes;
    }
}

/// Whole records in a state.
void write_record(StateWriter& state, const Record& record, const ObjectKinds& kinds);
Record read_record(StateReader& state, const ObjectKinds& kinds, Copier& copier);
ObjectKinds objects_in(const Stream& stream);

inline constexpr uint64_t most_records = uint64_t{1} << 32;  ///< in a buffer

/// The progress callbacks of a stream: its own, or those of its sources.
class StreamProgress {
public:
    StreamProgress() = default;
    StreamProgress(sab_progress_fn callback, void* ctx) {
        if (callback != nullptr) callbacks_.push_back({callback, ctx});
    }
    /// Those of `other`, too.
    void add(const StreamProgress& other) {
        for (const auto& callback : other.callbacks_) callbacks_.push_back(callback);
    }
    /// Calls each; alive as long as this is. The first code that is not 0 counts.
    Progress all() const {
        if (callbacks_.empty()) return {};
        return {[](void* self, uint64_t done, uint64_t total) {
                    const auto& callbacks = static_cast<const StreamProgress*>(self)->callbacks_;
                    for (std::size_t i = 0; i < callbacks.size(); ++i) {
                        // a copy: the callback may set others
                        const auto [callback, ctx] = callbacks[i];
                        if (const int32_t code = callback(ctx, done, total); code != 0) return code;
                    }
                    return int32_t{0};
                },
                const_cast<StreamProgress*>(this)};
    }

private:
    std::vector<std::pair<sab_progress_fn, void*>> callbacks_;
};

/// What a handle holds: a stream, its progress callbacks, and the record that it gave last.
struct Pipeline {
    StreamPtr stream{};
    StreamProgress progress{};
    Record shown{};

    /// False at the end. Otherwise the record is `shown`; after a failure that is the one before.
    bool next();
    void rewind();
    /// Copies the sealed state if it fits. Returns its size.
    std::size_t save(std::span<std::byte> room) const;
    /// After a failure the stream is at its beginning.
    void restore(std::span<const std::byte> state);
};

/// A handle of `stage` over the stream of `source`, whose handle is freed. A failure leaves
/// `source` as it was.
sab_stream* stack(StagePtr stage, sab_stream* source);
/// A handle of the same records with other sizes, made where the records are read, or by a stage.
sab_stream* measured(sab_stream* source, sab_text_unit unit);
/// The same over several sources. Each may be given only once.
sab_stream* zip(std::span<sab_stream* const> sources);
sab_stream* multiplex(sab_stream* control, std::span<sab_stream* const> sources);
sab_stream* mix(std::span<sab_stream* const> sources, const sab_mix_stream_options& options);

}  // namespace sab

struct sab_stream {
    sab::Tag<sab_stream> tag{};
    sab::Pipeline impl{};
};

struct sab_random {
    sab::Tag<sab_random> tag{};
    sab::PythonRandom generator;
};
