#include "base/guard.h"
#include "plan/plan_handle.h"
#include "sab/features.h"

extern "C" {

sab_status sab_plan_new(const sab_sizes* sizes, const sab_plan_options* options,
                        sab_plan** plan) noexcept {
    return sab::guard_new(plan, "plan", [&] {
        sab::require(sizes, "sizes");
        sab::require(options, "options");
        const auto given = sab::read_options(options);
        const sab::PlanOptions checked(given, sizes->impl.names());
        return sab::make_plan(sizes->impl, checked, sab::ids_of(given, sizes->impl.count()))
            .release();
    });
}

sab_status sab_plan_get_info(const sab_plan* plan, sab_plan_info* info) noexcept {
    return sab::guard([&] {
        sab::require(plan, "plan");
        sab::check_result(info, "info");
        const sab::PlanFacts& facts = plan->impl->facts();
        sab::write_result(
            sab_plan_info{0, facts.samples, facts.skipped, plan->impl->bucket_count(),
                          facts.batches, facts.lower_bound, plan->fingerprint(), facts.total,
                          plan->limits.data(), plan->impl->budget_count(), plan->impl->columns(),
                          plan->names.get(),
                          plan->impl->second() ? plan->impl->second()->bucket_count() : 0},
            info);
    });
}

sab_status sab_plan_get_bucket(const sab_plan* plan, size_t index, sab_bucket* bucket) noexcept {
    return sab::guard([&] {
        sab::require(plan, "plan");
        sab::check_result(bucket, "bucket");
        const auto second = plan->impl->second();
        const std::size_t first = plan->impl->bucket_count(),
                          all = first + (second ? second->bucket_count() : 0);
        sab::check(index < all, "index", index, "must be below the number of buckets, ", all);
        const sab::Plan& own = index < first ? *plan->impl : *second;
        const sab::Bucket& b = own.buckets()[index - own.first_number()];
        const sab::BucketLengths of = own.lengths(index - own.first_number());
        sab::write_result(
            sab_bucket{0, of.lower.size(), of.lower.data(), of.upper.data(), of.shortest.data(),
                       of.longest.data(), of.padded_length.data(), of.total.data(), b.cost,
                       b.samples(), b.batch_size, b.batches, b.id},
            bucket);
    });
}

sab_status sab_plan_get_shape(const sab_plan* plan, size_t index, sab_shape* shape) noexcept {
    return sab::guard([&]() -> sab_status {
        sab::require(plan, "plan");
        sab::check_result(shape, "shape");
        if (index >= plan->shapes().size()) return SAB_END;
        sab::write_result(sab::shown(plan->shapes()[index]), shape);
        return SAB_OK;
    });
}

sab_status sab_plan_get_shape_padding(const sab_plan* plan, size_t index, uint64_t* shapes,
                                      double* padding) noexcept {
    return sab::guard([&]() -> sab_status {
        sab::require(plan, "plan");
        sab::require(shapes, "shapes");
        sab::require(padding, "padding");
        const std::span<const sab::ShapePadding> tried = plan->impl->shape_paddings();
        if (index >= tried.size()) return SAB_END;
        *shapes = tried[index].shapes;
        *padding = tried[index].padding;
        return SAB_OK;
    });
}

sab_status sab_plan_get_skipped(const sab_plan* plan, int64_t* indices, size_t capacity,
                                size_t* count) noexcept {
    return sab::guard([&] {
        sab::require(plan, "plan");
        sab::require(count, "count");
        if (capacity > 0) sab::require(indices, "indices");
        *count = plan->skipped({});
        sab::check_room(capacity, *count);
        if (capacity > 0) plan->skipped({indices, *count});
    });
}

sab_status sab_plan_save(const sab_plan* plan, const char* path) noexcept {
    return sab::guard([&] {
        sab::require(plan, "plan");
        sab::require(path, "path");
        plan->save(path);
    });
}

sab_status sab_plan_file_new(const char* path, sab_plan** plan) noexcept {
    return sab::guard_new(plan, "plan", [&] {
        sab::require(path, "path");
        return sab::open_plan(path).release();
    });
}

sab_status sab_plan_check(const sab_plan* plan) noexcept {
    return sab::guard([&] {
        sab::require(plan, "plan");
        plan->of_all_epochs("sab_plan_check")->check_all();
    });
}

sab_status sab_plan_copy_new(const sab_plan* plan, sab_plan** copy) noexcept {
    return sab::guard_new(copy, "copy", [&] {
        sab::require(plan, "plan");
        return plan->copy().release();
    });
}

sab_status sab_plan_write(const sab_plan* plan, void* buffer, size_t capacity,
                          size_t* size) noexcept {
    return sab::guard([&] {
        sab::require(plan, "plan");
        sab::write_bytes(buffer, "buffer", capacity, size,
                         [&](auto room) { return plan->write(room); });
    });
}

sab_status sab_plan_bytes_new(const void* data, size_t size, sab_plan** plan) noexcept {
    return sab::guard_new(plan, "plan", [&] {
        if (size > 0) sab::require(data, "data");
        return sab::read_plan({static_cast<const std::byte*>(data), size}).release();
    });
}

void sab_plan_free(sab_plan* plan) noexcept {
    sab::free_handle(plan);
}

#if !SAB_WITH_STEPS
sab_status sab_plan_verify(const sab_plan*, sab_probe*, sab_batch_fn, void*,
                           const sab_verification_options*, sab_verification*) noexcept {
    return sab::guard([]() -> sab_status {
        sab::fail(SAB_E_UNSUPPORTED, "sab_plan_verify(): this build has no memory of devices");
    });
}
#endif

}  // extern "C"
