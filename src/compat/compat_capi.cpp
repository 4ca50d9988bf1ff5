#include "base/guard.h"
#include "compat/bagua.h"
#include "compat/bionemo_create_buckets.h"
#include "compat/bionemo_sampler.h"
#include "compat/bionemo_size_aware_stream.h"
#include "sampler/cursor.h"
#include "sizes/columns.h"

extern "C" {

sab_status sab_bionemo_create_buckets(const sab_sizes* sizes, int64_t max_width,
                                      int64_t min_bucket_count, int64_t* boundaries,
                                      int64_t* bucket_sizes, size_t capacity,
                                      size_t* bucket_count) noexcept {
    return sab::guard([&] {
        sab::require(sizes, "sizes");
        sab::require(bucket_count, "bucket_count");
        if (capacity > 0) {
            sab::require(boundaries, "boundaries");
            sab::require(bucket_sizes, "bucket_sizes");
        }
        *bucket_count = sab::create_buckets(sizes->impl.only(), max_width, min_bucket_count,
                                            {boundaries, capacity > 0 ? capacity + 1 : 0},
                                            {bucket_sizes, capacity});
        sab::check_room(capacity, *bucket_count);
    });
}

sab_status sab_bionemo_size_aware_stream_sampler_new(sab_index_fn source, void* ctx,
                                                     void (*release)(void* ctx), double limit,
                                                     sab_sampler** sampler) noexcept {
    return sab::guard_new(sampler, "sampler", [&] {
        return sab::new_handle(
            std::make_unique<sab::BionemoSizeAwareStream>(source, ctx, release, limit));
    });
}

sab_status sab_bionemo_sampler_new(const sab_plan* plan, const sab_bionemo_options* options,
                                   sab_sampler** sampler) noexcept {
    return sab::guard_new(sampler, "sampler", [&] {
        sab::require(plan, "plan");
        const auto given = sab::read_options(options);
        const auto& all = plan->of_all_epochs("sab_bionemo_sampler_new");
        all->need_one_column("sab_bionemo_sampler_new");
        all->need_order("sab_bionemo_sampler_new");
        return sab::new_handle(std::make_unique<sab::BionemoSampler>(all, given));
    });
}

sab_status sab_bionemo_sampler_get_generator(const sab_sampler* sampler, uint32_t* words) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        const sab::BionemoSampler& torch = sab::BionemoSampler::of(*sampler->impl);
        sab::require(words, "words");
        torch.generator().save(
            std::span<uint32_t, SAB_BIONEMO_GENERATOR_WORDS>(words, SAB_BIONEMO_GENERATOR_WORDS));
    });
}

sab_status sab_bionemo_sampler_set_generator(sab_sampler* sampler, const uint32_t* words) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sab::BionemoSampler& torch = sab::BionemoSampler::of(*sampler->impl);
        sab::require(words, "words");
        torch.generator().load(std::span<const uint32_t, SAB_BIONEMO_GENERATOR_WORDS>(
            words, SAB_BIONEMO_GENERATOR_WORDS));
    });
}

sab_status sab_bagua_sampler_new(const sab_sizes* complexity, const sab_bagua_options* balancing,
                                 const sab_sampler_options* options,
                                 sab_sampler** sampler) noexcept {
    return sab::guard_new(sampler, "sampler", [&] {
        sab::require(complexity, "complexity");
        const auto given = sab::read_options(balancing, "balancing");
        const sab::SamplerOptions walk(sab::read_options(options));
        sab::refuse_costliest_first(walk, "this sampler has the order of Bagua");
        return sab::new_cursor(
            std::make_unique<sab::BaguaSequence>(complexity->impl.only("complexity"), given), walk);
    });
}

sab_status sab_bagua_batches_add(sab_batches* batches, const int64_t* indices,
                                 size_t count) noexcept {
    return sab::guard([&] {
        sab::require(batches, "batches");
        batches->impl.add(indices, count);
    });
}

}  // extern "C"
