#pragma once
/// Streams of records: each pulls from the one under it, which it owns.

#include <memory>
#include <string>
#include <vector>

#include "sab/stream.h"
#include "stream/state.h"

namespace sab {

/// Bytes, or a list of records.
struct Record {
    std::string bytes;
    double size = 0;
    bool is_list = false;
    std::vector<std::shared_ptr<const Record>> items;
};
using RecordPtr = std::shared_ptr<const Record>;

class Stream {
public:
    virtual ~Stream() = default;
    /// Null at the end, and from then on.
    virtual RecordPtr next() = 0;
    virtual void rewind() = 0;
    /// All from here to the source.
    virtual void save(StateWriter& state) const = 0;
    virtual void restore(StateReader& state) = 0;
    virtual void describe(Description& description) const = 0;
};
using StreamPtr = std::unique_ptr<Stream>;

/// The constructors below move their source only when nothing can fail any more.
StreamPtr make_list(std::vector<RecordPtr> records, const sab_list_stream_options& options);
StreamPtr make_lines(StreamPtr&& source, const sab_lines_stream_options& options);
StreamPtr make_map(StreamPtr&& source, sab_map_fn map, void* ctx, void (*release)(void*));
StreamPtr make_batches(StreamPtr&& source, uint64_t batch_size);
StreamPtr make_flatten(StreamPtr&& source);
StreamPtr make_window(StreamPtr&& source, uint64_t width);
StreamPtr make_zip(std::vector<StreamPtr>&& sources);
StreamPtr make_block_shuffle(StreamPtr&& source, uint64_t block_size, uint64_t seed);
StreamPtr make_buffered_shuffle(StreamPtr&& source, uint64_t buffer_size, uint64_t seed);
StreamPtr make_readahead(StreamPtr&& source, const sab_readahead_stream_options& options);

Bytes state_of(const Stream& stream);

/// A record as C sees it; `room` holds the records of lists.
void show(const Record& record, sab_record& shown, std::vector<std::vector<sab_record>>& room);

}  // namespace sab

struct sab_stream {
    sab::StreamPtr impl;
    sab::RecordPtr shown;                           ///< what next() gave last
    std::vector<std::vector<sab_record>> lists;     ///< the records of its lists
};
