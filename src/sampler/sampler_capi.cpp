#include "base/guard.h"
#include "sampler/capabilities.h"
#include "sampler/cursor.h"
#include "sampler/report.h"

extern "C" {

sab_status sab_sampler_begin(sab_sampler* sampler) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sampler->impl->begin();
    });
}

sab_status sab_next_batch(sab_sampler* sampler, sab_batch* batch) noexcept {
    return sab::guard([&]() -> sab_status {
        sab::require(sampler, "sampler");
        sampler->shown.changes = sab::EpochBatch::nothing_shown;
        sab::check_result(batch, "batch");
        if (!sampler->impl->next(sampler->shown)) return SAB_END;
        sab::write_result(sab::shown(sampler->shown), batch);
        return SAB_OK;
    });
}

sab_status sab_sampler_get_rows(sab_sampler* sampler, sab_rows* rows) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sab::check_result(rows, "rows");
        sab::write_result(sab::shown_rows(*sampler), rows);
    });
}

sab_status sab_sampler_get_step(sab_sampler* sampler, sab_step* step) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sab::check_result(step, "step");
        sab::write_result(sab::shown_step(*sampler), step);
    });
}

sab_status sab_next_block(sab_sampler* sampler, size_t max_batches, sab_block* block) noexcept {
    return sab::guard([&]() -> sab_status {
        sab::require(sampler, "sampler");
        sab::check_result(block, "block");
        sab::check(max_batches >= 1, "max_batches", max_batches, "must be at least 1");
        const auto shown = sab::next_block(*sampler, max_batches);
        if (!shown) return SAB_END;
        sab::write_result(*shown, block);
        return SAB_OK;
    });
}

sab_status sab_sampler_at(sab_sampler* sampler, uint64_t position, sab_batch* batch) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sampler->shown.changes = sab::EpochBatch::nothing_shown;
        sab::check_result(batch, "batch");
        sab::need_random_access(*sampler->impl, "sab_sampler_at").at(position, sampler->shown);
        sab::write_result(sab::shown(sampler->shown), batch);
    });
}

sab_status sab_sampler_get_capabilities(const sab_sampler* sampler,
                                        uint64_t* capabilities) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sab::require(capabilities, "capabilities");
        *capabilities = sab::capabilities(*sampler->impl);
    });
}

sab_status sab_sampler_get_batch_count(const sab_sampler* sampler, uint64_t* count) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sab::require(count, "count");
        *count = sab::need_batch_count(*sampler->impl, "sab_sampler_get_batch_count");
    });
}

sab_status sab_sampler_get_skipped(const sab_sampler* sampler, int64_t* indices, size_t capacity,
                                   size_t* count) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sab::require(count, "count");
        if (capacity > 0) sab::require(indices, "indices");
        *count = sampler->impl->skipped({});
        sab::check_room(capacity, *count);
        if (capacity > 0) sampler->impl->skipped({indices, *count});
    });
}

sab_status sab_sampler_get_shape(sab_sampler* sampler, size_t index, sab_shape* shape) noexcept {
    return sab::guard([&]() -> sab_status {
        sab::require(sampler, "sampler");
        sab::check_result(shape, "shape");
        const std::vector<sab::Shape>& shapes = sab::shown_shapes(*sampler);
        if (index >= shapes.size()) return SAB_END;
        sab::write_result(sab::shown(shapes[index]), shape);
        return SAB_OK;
    });
}

sab_status sab_sampler_set_epoch(sab_sampler* sampler, uint64_t epoch) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sampler->impl->set_epoch(epoch);
    });
}

sab_status sab_sampler_seek(sab_sampler* sampler, uint64_t position) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sab::seek(*sampler->impl, position);
    });
}

sab_status sab_sampler_tell(const sab_sampler* sampler, uint64_t* epoch,
                            uint64_t* position) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sab::require(epoch, "epoch");
        sab::require(position, "position");
        *epoch = sampler->impl->epoch();
        *position = sampler->impl->position();
    });
}

sab_status sab_sampler_set_budget(sab_sampler* sampler, size_t index, double limit) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sab::set_limit(*sampler->impl, index, limit);
    });
}

sab_status sab_sampler_get_budget(const sab_sampler* sampler, size_t index,
                                  double* limit) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sab::require(limit, "limit");
        *limit = sab::need_budget(*sampler->impl, index, "sab_sampler_get_budget").limit(index);
    });
}

sab_status sab_sampler_state_save(const sab_sampler* sampler, void* state, size_t capacity,
                                  size_t* size) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sab::write_bytes(state, "state", capacity, size, [&](auto room) {
            return sab::need_random_access(*sampler->impl, "sab_sampler_state_save").save(room);
        });
    });
}

sab_status sab_sampler_state_save_at(const sab_sampler* sampler, uint64_t position, void* state,
                                     size_t capacity, size_t* size) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sab::write_bytes(state, "state", capacity, size, [&](auto room) {
            return sab::need_random_access(*sampler->impl, "sab_sampler_state_save_at")
                .save_at(position, room);
        });
    });
}

sab_status sab_sampler_state_restore(sab_sampler* sampler, const void* state,
                                     size_t size) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sab::require(state, "state");
        sab::need_random_access(*sampler->impl, "sab_sampler_state_restore")
            .restore({static_cast<const std::byte*>(state), size});
    });
}

void sab_sampler_free(sab_sampler* sampler) noexcept {
    sab::free_handle(sampler);
}

sab_status sab_plan_get_report(const sab_plan* plan, const sab_sampler_options* sampler,
                               const sab_progress_options* options,
                               sab_plan_report* report) noexcept {
    return sab::guard([&] {
        sab::require(plan, "plan");
        sab::check_result(report, "report");
        const sab::Progress progress = sab::read_progress(options);
        sab::with_name("options", "sampler", [&] {
            const sab::SamplerOptions given(sab::read_options(sampler, "sampler"), true);
            sab::refuse_steps_per_epoch(given, "a report is of epochs of the data");
            sab::make_report(*plan, given, progress, report);
        });
    });
}

}  // extern "C"
