#include <algorithm>

#include "sampler/sampler.h"

namespace sab {

sab_sampler* new_handle(std::unique_ptr<Sampler> sampler) {
    auto* const handle = new sab_sampler{std::move(sampler), {}};
    handle->impl->own();
    return handle;
}

bool RandomAccess::next(EpochBatch& batch) {
    const uint64_t position = step();
    if (position >= batch_count()) return false;
    fill(position, batch);
    move_to(position + 1);
    return true;
}

void RandomAccess::at(uint64_t position, EpochBatch& batch) {
    check_reachable(position);
    check(position < batch_count(), "position", position,
          "must be below the number of batches of the rank, ", batch_count());
    fill(position, batch);
}

void RandomAccess::seek(uint64_t position) {
    check_reachable(position);
    check(position <= batch_count(), "position", position,
          "must be at most the number of batches of the rank, ", batch_count());
    move_to(position);
}

void RandomAccess::check_reachable(uint64_t position) const {
    check(position >= first_position(), "position", position, "must not be before position ",
          first_position(),
          ", up to which another number of ranks, another budget or other options went");
}

BatchBlock RandomAccess::next_block(EpochBatch& scratch, std::size_t most,
                                    std::span<int64_t> indices, uint64_t* offsets) {
    const uint64_t end = batch_count();
    uint64_t position = step();  // the sampler moves when all of them are there
    if (position >= end) return {0, true};
    BatchBlock block;
    offsets[0] = 0;
    for (; block.count < most && position < end; ++position) {
        const uint64_t used = offsets[block.count], room = indices.size() - used;
        const uint64_t count = read(position, room, scratch);
        if (count > room) {
            if (block.count == 0) offsets[1] = count;
            break;
        }
        std::copy_n(scratch.batch.buffer.begin(), count,
                    indices.begin() + static_cast<std::ptrdiff_t>(used));
        offsets[++block.count] = used + count;
    }
    move_to(position);
    return block;
}

}  // namespace sab
