#include "sampler/sampler.h"

#include <algorithm>

#include "sampler/state.h"

namespace sab {

sab_sampler* new_handle(std::unique_ptr<Sampler> sampler) {
    auto* const handle = new sab_sampler{std::move(sampler), {}};
    handle->impl->own();
    return handle;
}

static void need_shown(const sab_sampler& sampler) {
    if (sampler.shown.changes != sampler.impl->changes())
        fail(SAB_E_ARGUMENT,
             "sampler: shows no batch: the last call must be a successful sab_next_batch() or "
             "sab_sampler_at()");
}

sab_rows shown_rows(sab_sampler& sampler) {
    need_shown(sampler);
    const Batch& batch = sampler.shown.batch;
    if (!batch.is_row) fail(SAB_E_UNSUPPORTED, "sab_batch_rows: the batch is padded");
    sampler.cu_seqlens = batch.cu_seqlens.data();
    return {sizeof(sab_rows), 1, batch.cu_seqlens.empty() ? nullptr : &sampler.cu_seqlens,
            batch.starts.empty() ? nullptr : batch.starts.data(), &batch.capacity};
}

sab_step shown_step(sab_sampler& sampler) {
    need_shown(sampler);
    const StepTotals totals = sampler.impl->step_of(sampler.shown);
    sampler.step_total = totals.total;
    return {sizeof(sab_step), totals.micro_batches, totals.samples, 1, &sampler.step_total};
}

void Sampler::begin() {
    if (pass_ == Pass::ended)
        set_epoch(epoch() + 1);
    else if (pass_ == Pass::running)
        set_epoch(epoch());
}

bool Sampler::next(EpochBatch& batch) {
    if (!take(batch)) {
        pass_ = Pass::ended;
        return false;
    }
    pass_ = Pass::running;
    batch.changes = changes_;
    return true;
}

void Sampler::set_epoch(uint64_t epoch) {
    go_to_epoch(epoch);
    pass_ = Pass::ready;
    ++changes_;
}

bool RandomAccess::take(EpochBatch& batch) {
    const uint64_t next = position();
    if (next >= batch_count()) return false;
    fill(next, batch);
    move_to(next + 1);
    return true;
}

void RandomAccess::at(uint64_t position, EpochBatch& batch) {
    check_reachable(position);
    check(position < batch_count(), "position", position,
          "must be below the number of batches of the rank, ", batch_count());
    fill(position, batch);
    batch.changes = changes_;
}

void RandomAccess::seek(uint64_t position) {
    check_reachable(position);
    check(position <= batch_count(), "position", position,
          "must be at most the number of batches of the rank, ", batch_count());
    move_to(position);
    pass_ = Pass::ready;
}

void RandomAccess::check_reachable(uint64_t position) const {
    check(position >= first_position(), "position", position, "must not be before position ",
          first_position(), ", where a state of other ranks or another budget took over");
}

BatchBlock RandomAccess::next_block(EpochBatch& scratch, std::size_t most,
                                    std::span<int64_t> indices, uint64_t* offsets) {
    const uint64_t end = batch_count();
    uint64_t next = position();  // the sampler moves when all of them are there
    scratch.changes = EpochBatch::nothing_shown;
    if (next >= end) {
        pass_ = Pass::ended;
        return {0, true};
    }
    BatchBlock block;
    offsets[0] = 0;
    for (; block.count < most && next < end; ++next) {
        const uint64_t used = offsets[block.count], room = indices.size() - used;
        const uint64_t count = read(next, room, scratch);
        if (count > room) {
            if (block.count == 0) offsets[1] = count;
            break;
        }
        std::copy_n(scratch.batch.buffer.begin(), count,
                    indices.begin() + static_cast<std::ptrdiff_t>(used));
        offsets[++block.count] = used + count;
    }
    move_to(next);
    if (block.count > 0) pass_ = Pass::running;
    return block;
}

OrderState RandomAccess::order_state() const {
    const sab_sampler_options& own = options();
    return {order_version,
            own.last_step,
            own.seed,
            epoch(),
            position(),
            own.world_size,
            static_cast<uint32_t>(own.micro_batches),
            pass_ == Pass::ended};
}

void RandomAccess::restore(std::span<const std::byte> state) {
    const bool has_ended = go_to_state(state);
    // Under SAB_LAST_STEP_DROP other options could make a step of what was left out.
    if (has_ended) move_to(batch_count());
    pass_ = has_ended ? Pass::ended : Pass::ready;
    ++changes_;
}

}  // namespace sab
