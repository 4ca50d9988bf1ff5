#include "base/guard.h"
#include "plan/plan.h"

extern "C" {

sab_status sab_plan_new(const sab_sizes* sizes, const sab_plan_options* options,
                        sab_plan** plan) noexcept {
    return sab::guard_new(plan, "plan", [&] {
        sab::require(sizes, "sizes");
        sab::require(options, "options");
        const auto given = sab::read_options(options, sab_plan_options SAB_PLAN_OPTIONS_INIT);
        return new sab_plan{sab::Plan::make(sizes->impl, given)};
    });
}

sab_status sab_plan_get_info(const sab_plan* plan, sab_plan_info* info) noexcept {
    return sab::guard([&] {
        sab::require(plan, "plan");
        sab::check_result(info, "info");
        const sab::PlanFacts& facts = plan->impl->facts();
        sab::write_result(
            sab_plan_info{0, facts.samples, facts.skipped, plan->impl->buckets().size(),
                          facts.batches, facts.lower_bound, plan->impl->fingerprint(), facts.total,
                          plan->impl->budget_count()},
            info);
    });
}

sab_status sab_plan_get_budget(const sab_plan* plan, size_t index, double* limit) noexcept {
    return sab::guard([&] {
        sab::require(plan, "plan");
        sab::require(limit, "limit");
        const std::size_t count = plan->impl->budget_count();
        sab::check(index < count, "index", index, "must be below the number of budgets, ", count);
        *limit = plan->impl->budgets()[index].limit;
    });
}

sab_status sab_plan_get_bucket(const sab_plan* plan, size_t index, sab_bucket* bucket) noexcept {
    return sab::guard([&] {
        sab::require(plan, "plan");
        sab::check_result(bucket, "bucket");
        const auto buckets = plan->impl->buckets();
        sab::check(index < buckets.size(), "index", index, "must be below the number of buckets, ",
                   buckets.size());
        const sab::Bucket& b = buckets[index];
        sab::write_result(sab_bucket{0, b.lower, b.upper, b.shortest, b.longest, b.padded_length,
                                     b.total, b.cost, b.samples(), b.batch_size, b.batches},
                          bucket);
    });
}

sab_status sab_plan_skipped(const sab_plan* plan, int64_t* indices, size_t capacity,
                            size_t* count) noexcept {
    return sab::guard([&] {
        sab::require(plan, "plan");
        sab::require(count, "count");
        if (capacity > 0) sab::require(indices, "indices");
        *count = plan->impl->skipped({indices, capacity});
    });
}

sab_status sab_plan_save(const sab_plan* plan, const char* path) noexcept {
    return sab::guard([&] {
        sab::require(plan, "plan");
        sab::require(path, "path");
        plan->impl->save(path);
    });
}

sab_status sab_plan_file_new(const char* path, sab_plan** plan) noexcept {
    return sab::guard_new(plan, "plan", [&] {
        sab::require(path, "path");
        return new sab_plan{sab::Plan::open(path)};
    });
}

sab_status sab_plan_write(const sab_plan* plan, void* buffer, size_t capacity,
                          size_t* size) noexcept {
    return sab::guard([&] {
        sab::require(plan, "plan");
        sab::require(size, "size");
        if (capacity > 0) sab::require(buffer, "buffer");
        *size = plan->impl->write({static_cast<std::byte*>(buffer), capacity});
    });
}

sab_status sab_plan_bytes_new(const void* data, size_t size, sab_plan** plan) noexcept {
    return sab::guard_new(plan, "plan", [&] {
        if (size > 0) sab::require(data, "data");
        return new sab_plan{sab::Plan::read({static_cast<const std::byte*>(data), size})};
    });
}

void sab_plan_free(sab_plan* plan) noexcept {
    delete plan;
}

}  // extern "C"
