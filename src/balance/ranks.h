#pragma once
/// What ranks tell each other, once, at the start.

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/callback.h"
#include "base/guard.h"
#include "plan/plan.h"
#include "sab/balance.h"
#include "sampler/sampler.h"

namespace sab {

/// The caller's way to all ranks.
struct Ranks {
    uint64_t rank;
    uint64_t world_size;
    sab_all_gather_fn all_gather;
    void* ctx;

    /// `mine` of every rank, in their order; each of `count` items.
    template <class Item>
    std::vector<Item> gather(const Item* mine, std::size_t count) const {
        std::vector<Item> all(count * world_size);
        set_last_error(SAB_OK, "", 0);
        const int32_t code = called_back("all_gather", [&] { return all_gather(ctx, mine, count * sizeof(Item), all.data()); });
        // Where it failed by a call of this library, that said why.
        const std::string_view why = sab_last_error_message();
        if (code != 0) throw Error(SAB_E_CALLBACK, text("all_gather failed with code ", code, why.empty() ? "" : ": ", why), code);
        if (std::memcmp(all.data() + rank * count, mine, count * sizeof(Item)) != 0)
            fail(SAB_E_MISMATCH, "all_gather: place ", rank, " of ", world_size, " does not hold the bytes that rank ", rank, " gave: all must be filled in the order of the ranks");
        return all;
    }
};

std::pair<uint64_t, uint64_t> ranks_from_environment();
std::pair<uint64_t, uint64_t> data_rank(const uint64_t* shape, const int32_t* is_data, std::size_t axes, uint64_t rank);
void check_ranks(const Sampler& sampler, const Ranks& ranks);

/// Steps of the samples of this rank's shard, as many as the others take of theirs.
std::unique_ptr<Sequence> make_sharded_sequence(const Sizes& sizes, const sab_plan_options& plan, const Arrangement& arrangement, const Ranks& ranks);

}  // namespace sab
