/// What the handle of a stream does beyond the stream itself.
#include <algorithm>

#include "stream/stream.h"

namespace sab {
namespace {

uint64_t fingerprint_of(const Stream& stream) {
    Description description;
    stream.describe(description);
    return description.fingerprint();
}

}  // namespace

bool Pipeline::next() {
    const Progress callbacks = progress.all();
    const CurrentProgress current(&callbacks);
    Record record;
    if (!stream->next(record)) {
        stream->check_any_left();
        return false;
    }
    shown = std::move(record);
    return true;
}

void Pipeline::rewind() {
    const Progress callbacks = progress.all();
    const CurrentProgress current(&callbacks);
    stream->rewind();
}

std::size_t Pipeline::save(std::span<std::byte> room) const {
    const Bytes state = seal(fingerprint_of(*stream), state_of(*stream));
    if (room.size() >= state.size()) std::ranges::copy(state, room.begin());
    return state.size();
}

void Pipeline::restore(std::span<const std::byte> state) {
    const Progress callbacks = progress.all();
    const CurrentProgress current(&callbacks);
    try {
        restore_from(*stream, unseal(state, fingerprint_of(*stream)));
    } catch (const ThreadEnd&) {
        throw;
    } catch (...) {
        try {
            stream->rewind();
        } catch (const ThreadEnd&) {
            throw;
        } catch (...) {  // ignored: the failure of the restore is reported
        }
        throw;
    }
}

}  // namespace sab
