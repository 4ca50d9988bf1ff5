#include <cmath>

#include "base/guard.h"
#include "compat/create_buckets.h"
#include "compat/load_balancing.h"
#include "compat/size_aware.h"
#include "compat/size_aware_stream.h"
#include "compat/torch_order.h"
#include "ranks/ranks.h"
#include "sampler/cursor.h"

namespace {

void check_max_total_size(double max_total_size) {
    sab::check(max_total_size >= 0 && std::isfinite(max_total_size), "max_total_size",
               max_total_size, "must be finite and at least 0");
}

const sab::TorchOrder& torch_order(const sab_sampler* sampler) {
    sab::require(sampler, "sampler");
    const auto* torch = dynamic_cast<const sab::TorchOrder*>(sampler->impl.get());
    if (torch == nullptr)
        sab::fail(SAB_E_ARGUMENT, "sampler: must be one of sab_torch_sampler_new");
    return *torch;
}

sab_sampler* new_load_balancing(sab::Order order, const sab_sizes* complexity,
                                const sab_load_balancing_options* balancing,
                                const sab_sampler_options* options) {
    sab::require(complexity, "complexity");
    auto given = sab::read_options(
        balancing, sab_load_balancing_options SAB_LOAD_BALANCING_OPTIONS_INIT, "balancing");
    const auto walk = sab::read_options(options, sab_sampler_options SAB_SAMPLER_OPTIONS_INIT);
    sab::check_sampler_options(walk);
    sab::check(complexity->impl.count() <= sab::largest_sample_count, "complexity.count",
               complexity->impl.count(), "must be at most 4294967295");
    sab::check(given.shuffle == 0 || given.shuffle == 1, "balancing.shuffle", given.shuffle,
               "must be 0 or 1");
    sab::check(given.drop_last == 0 || given.drop_last == 1, "balancing.drop_last", given.drop_last,
               "must be 0 or 1");
    sab::check(given.random_level >= 0 && given.random_level <= 1, "balancing.random_level",
               given.random_level, "must be from 0 to 1");
    if (order == sab::Order::load_balancing) {
        sab::check(given.batch_size >= 1, "balancing.batch_size", given.batch_size,
                   "must be at least 1");
        given.max_total = 0;  // not this sampler's
    } else {
        const auto check_total = [&](bool kept, const char* rule) {
            sab::check(kept, "balancing.max_total", given.max_total, rule);
        };
        check_total(given.max_total >= 0 && std::isfinite(given.max_total),
                    "must be finite and above 0 (0: not set)");
        check_total(given.make_batches != nullptr || given.max_total > 0,
                    "must be set where balancing.make_batches is not");
        check_total(given.make_batches == nullptr || given.max_total == 0,
                    "must not be set beside balancing.make_batches");
        given.batch_size = 0;
    }
    auto sequence = std::make_unique<sab::LoadBalancing>(order, complexity->impl, given);
    sab::LoadBalancing* const made = sequence.get();
    auto* const handle =
        new sab_sampler{std::make_unique<sab::Cursor>(std::move(sequence), walk), {}};
    if (order == sab::Order::load_balancing_batches) made->own();
    return handle;
}

}  // namespace

extern "C" {

sab_status sab_create_buckets(const sab_sizes* sizes, int64_t max_width, int64_t min_bucket_count,
                              int64_t* boundaries, int64_t* bucket_sizes, size_t capacity,
                              size_t* bucket_count) noexcept {
    return sab::guard([&] {
        sab::require(sizes, "sizes");
        sab::require(bucket_count, "bucket_count");
        if (capacity > 0) {
            sab::require(boundaries, "boundaries");
            sab::require(bucket_sizes, "bucket_sizes");
        }
        *bucket_count = sab::create_buckets(sizes->impl, max_width, min_bucket_count,
                                            {boundaries, capacity > 0 ? capacity + 1 : 0},
                                            {bucket_sizes, capacity});
    });
}

sab_status sab_size_aware_sampler_new(const int64_t* indices, size_t count, const sab_sizes* sizes,
                                      double max_total_size, const sab_sampler_options* options,
                                      sab_sampler** sampler) noexcept {
    return sab::guard_new(sampler, "sampler", [&] {
        sab::require(sizes, "sizes");
        check_max_total_size(max_total_size);
        const auto given = sab::read_options(options, sab_sampler_options SAB_SAMPLER_OPTIONS_INIT);
        sab::check_sampler_options(given);
        return new sab_sampler{
            std::make_unique<sab::Cursor>(
                sab::make_size_aware_sequence(indices, count, sizes->impl, max_total_size), given),
            {}};
    });
}

sab_status sab_size_aware_stream_sampler_new(sab_index_fn source, void* ctx,
                                             void (*release)(void* ctx), double max_total_size,
                                             sab_sampler** sampler) noexcept {
    return sab::guard_new(sampler, "sampler", [&] {
        sab::require(reinterpret_cast<const void*>(source), "source");
        check_max_total_size(max_total_size);
        auto stream = std::make_unique<sab::SizeAwareStream>(source, ctx, max_total_size);
        auto* const impl = stream.get();
        auto* const handle = new sab_sampler{std::move(stream), {}};
        impl->own(release);
        return handle;
    });
}

sab_status sab_torch_sampler_new(const sab_plan* plan, const sab_torch_sampler_options* options,
                                 sab_sampler** sampler) noexcept {
    return sab::guard_new(sampler, "sampler", [&] {
        sab::require(plan, "plan");
        const auto given =
            sab::read_options(options, sab_torch_sampler_options SAB_TORCH_SAMPLER_OPTIONS_INIT);
        auto order = std::make_unique<sab::TorchOrder>(plan->impl, given);
        auto* const impl = order.get();
        auto* const handle = new sab_sampler{std::move(order), {}};
        impl->own();
        return handle;
    });
}

sab_status sab_torch_sampler_get_generator(const sab_sampler* sampler, uint32_t* words) noexcept {
    return sab::guard([&] {
        const sab::TorchOrder& torch = torch_order(sampler);
        sab::require(words, "words");
        torch.generator().save(
            std::span<uint32_t, SAB_TORCH_GENERATOR_WORDS>(words, SAB_TORCH_GENERATOR_WORDS));
    });
}

sab_status sab_torch_sampler_set_generator(sab_sampler* sampler, const uint32_t* words) noexcept {
    return sab::guard([&] {
        torch_order(sampler);
        sab::require(words, "words");
        static_cast<sab::TorchOrder&>(*sampler->impl)
            .generator()
            .load(std::span<const uint32_t, SAB_TORCH_GENERATOR_WORDS>(words,
                                                                       SAB_TORCH_GENERATOR_WORDS));
    });
}

sab_status sab_load_balancing_sampler_new(const sab_sizes* complexity,
                                          const sab_load_balancing_options* balancing,
                                          const sab_sampler_options* options,
                                          sab_sampler** sampler) noexcept {
    return sab::guard_new(sampler, "sampler", [&] {
        return new_load_balancing(sab::Order::load_balancing, complexity, balancing, options);
    });
}

sab_status sab_load_balancing_batch_sampler_new(const sab_sizes* complexity,
                                                const sab_load_balancing_options* balancing,
                                                const sab_sampler_options* options,
                                                sab_sampler** sampler) noexcept {
    return sab::guard_new(sampler, "sampler", [&] {
        return new_load_balancing(sab::Order::load_balancing_batches, complexity, balancing,
                                  options);
    });
}

sab_status sab_batches_add(sab_batches* batches, const int64_t* indices, size_t count) noexcept {
    return sab::guard([&] {
        sab::require(batches, "batches");
        batches->impl.add(indices, count);
    });
}

}  // extern "C"
