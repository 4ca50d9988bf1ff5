#include <tuple>

#include "base/guard.h"
#include "base/options.h"
#include "ranks/ranks.h"

namespace {

sab::Ranks ranks_of(uint64_t rank, uint64_t world_size, sab_all_gather_fn all_gather, void* ctx) {
    sab::check(world_size >= 1 && world_size <= sab::most_ranks, "world_size", world_size,
               "must be from 1 to 2^20");
    sab::check(rank < world_size, "rank", rank, "must be below the world size, ", world_size);
    sab::require(reinterpret_cast<const void*>(all_gather), "all_gather");
    return {rank, world_size, all_gather, ctx};
}

}  // namespace

extern "C" {

sab_status sab_ranks_get_from_environment(uint64_t* rank, uint64_t* world_size) noexcept {
    return sab::guard([&] {
        sab::require(rank, "rank");
        sab::require(world_size, "world_size");
        std::tie(*rank, *world_size) = sab::ranks_from_environment();
    });
}

sab_status sab_ranks_get_from_mesh(const uint64_t* shape, const int32_t* is_data, size_t axes,
                                   uint64_t rank, uint64_t* data_rank,
                                   uint64_t* data_world_size) noexcept {
    return sab::guard([&] {
        sab::require(shape, "shape");
        sab::require(is_data, "is_data");
        sab::require(data_rank, "data_rank");
        sab::require(data_world_size, "data_world_size");
        std::tie(*data_rank, *data_world_size) = sab::data_rank(shape, is_data, axes, rank);
    });
}

sab_status sab_ranks_check(const sab_sampler* sampler, uint64_t rank, uint64_t world_size,
                           sab_all_gather_fn all_gather, void* ctx) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sab::check_ranks(*sampler->impl, ranks_of(rank, world_size, all_gather, ctx));
    });
}

sab_status sab_sharded_sampler_new(const sab_sizes* sizes, const sab_plan_options* plan,
                                   const sab_sampler_options* options, sab_all_gather_fn all_gather,
                                   void* ctx, sab_sampler** sampler) noexcept {
    return sab::guard_new(sampler, "sampler", [&] {
        sab::require(sizes, "sizes");
        sab::require(plan, "plan");
        const auto rules = sab::read_options(plan, "plan");
        auto given = sab::read_options(options);
        sab::default_to(given.world_size, 1);
        sab::default_to(given.micro_batches, 1);
        sizes->impl.need_one_column("sizes");
        return sab::make_sharded_sampler(sizes->impl, rules, given,
                                         ranks_of(given.rank, given.world_size, all_gather, ctx))
            .release();
    });
}

}  // extern "C"
