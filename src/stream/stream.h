#pragma once
/// Streams of records: each pulls from the one under it, which it owns.

#include <memory>
#include <vector>

#include "base/progress.h"
#include "stream/record.h"
#include "stream/state.h"

namespace sab {

class Stream;
using StreamPtr = std::unique_ptr<Stream>;

class Stream {
public:
    virtual ~Stream() = default;
    /// False at the end, and from then on. After a failure it can be called again.
    virtual bool next(Record& record) = 0;
    virtual void rewind() = 0;
    /// All from here to the source.
    virtual void save(StateWriter& state) const = 0;
    virtual void restore(StateReader& state) = 0;
    virtual void describe(Description& description) const = 0;
    /// The same pipeline at its beginning. Reads only what never changes, so that it may be called when a thread that ran this one is gone.
    virtual StreamPtr fresh() const = 0;
    virtual uint64_t skipped() const = 0;
    /// The functions of the handles that may come out, in the order of the stages.
    virtual void add_objects(ObjectKinds& kinds) const = 0;
};

/// A stream over another.
class Over : public Stream {
public:
    explicit Over(StreamPtr&& source) : source_(std::move(source)) {}
    uint64_t skipped() const override { return source_->skipped(); }
    void add_objects(ObjectKinds& kinds) const override { source_->add_objects(kinds); }

protected:
    StreamPtr source_;
};

/// A stream over another that may make objects of its own, whose functions are these.
class Making : public Over {
public:
    Making(StreamPtr&& source, ObjectsPtr objects) : Over(std::move(source)), objects_(std::move(objects)) {}
    void add_objects(ObjectKinds& kinds) const override {
        if (objects_ != nullptr) kinds.push_back(objects_);
        Over::add_objects(kinds);
    }

protected:
    ObjectsPtr objects_;
};

/// A caller's context, released with the last stream that has it.
using Context = std::shared_ptr<void>;
inline Context context_of(void* ctx, void (*release)(void*)) {
    return {ctx, [release](void* pointer) {
                if (release != nullptr) release(pointer);
            }};
}

/// The constructors below move their source only when nothing can fail any more.
StreamPtr make_list(std::vector<Record> records, const sab_list_stream_options& options);
StreamPtr make_callback(const sab_source_functions& functions);
StreamPtr make_random(uint64_t seed);
StreamPtr make_files(StreamPtr&& source, const sab_files_stream_options& options);
StreamPtr make_map(StreamPtr&& source, const sab_map_stream_options& options);
StreamPtr make_parallel_map(StreamPtr&& source, const sab_map_stream_options& options);
StreamPtr make_select(StreamPtr&& source, sab_select_fn select, void* ctx, void (*release)(void*), const sab_object_functions* objects);
StreamPtr make_flatten(StreamPtr&& source);
StreamPtr make_recurrent(StreamPtr&& source, sab_recur_fn recur, void* ctx, void (*release)(void*), const sab_record* initial, const sab_object_functions* objects);
StreamPtr make_random_map(StreamPtr&& source, sab_random_map_fn map, void* ctx, void (*release)(void*), uint64_t seed, const sab_object_functions* objects);
StreamPtr make_zip(std::vector<StreamPtr>&& sources);
StreamPtr make_multiplex(std::vector<StreamPtr>&& control_and_sources);
StreamPtr make_rank(StreamPtr&& source, uint64_t rank, uint64_t world_size);
StreamPtr make_batches(StreamPtr&& source, uint64_t batch_size);
StreamPtr make_window(StreamPtr&& source, uint64_t width);
StreamPtr make_block_shuffle(StreamPtr&& source, uint64_t block_size, uint64_t seed);
StreamPtr make_buffered_shuffle(StreamPtr&& source, uint64_t buffer_size, uint64_t seed);
StreamPtr make_readahead(StreamPtr&& source, const sab_readahead_stream_options& options);
void check_readahead(const sab_readahead_stream_options& options);
StreamPtr make_pack(StreamPtr&& source, const sab_pack_stream_options& options);
StreamPtr make_prefetch(StreamPtr&& source, uint64_t buffer_size);
/// Records of the same sizes whose bytes are their number, 8 bytes.
StreamPtr make_numbered(StreamPtr&& source);

Bytes state_of(const Stream& stream);
void restore_from(Stream& stream, std::span<const std::byte> state);

/// Where a source stands, without asking it for every record: a state of it, and how many records were taken since. A state is made anew only when as many records
/// were taken as make up for its size.
struct Mark {
    Bytes state;
    uint64_t taken = 0;

    bool is_worth_moving(uint64_t usual) const { return state.empty() || taken >= std::max<uint64_t>(usual, state.size() / 64); }
    /// Moves to where the source stands, unless it failed in the middle of a record: then the mark goes on to hold.
    void move_to(const Stream& source, uint64_t usual = 1);
    void save(StateWriter& out, uint64_t more) const;
    /// Saves where the source stands now.
    static void save_of(const Stream& source, StateWriter& out);
    /// Puts the source there.
    void restore(StateReader& in, Stream& source);
    void go(Stream& source) const;
};

/// The place of a source before the record that was taken last, or that is being taken: a try that failed is gone on with from the same place.
class Before {
public:
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
    /// Before that record where it is not done with, else behind it.
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

/// Whole records in a state.
void write_record(StateWriter& state, const Record& record, const ObjectKinds& kinds);
Record read_record(StateReader& state, const ObjectKinds& kinds, Copier& copier);
ObjectKinds objects_in(const Stream& stream);

inline constexpr uint64_t most_records = uint64_t{1} << 32;  ///< in a buffer

}  // namespace sab

struct sab_stream {
    sab::StreamPtr impl;
    sab::Progress progress{};
    sab::Record shown{};  ///< what next() gave last
};
