#pragma once
/// What ranks tell each other, once, at the start.

#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/callback.h"
#include "base/guard.h"
#include "plan/plan.h"
#include "sab/ranks.h"
#include "sampler/sampler.h"

namespace sab {

/// Where all ranks take part in one call.
inline constexpr uint64_t most_ranks = uint64_t{1} << 20;

/// The caller's way to all ranks.
struct Ranks {
    uint64_t rank;
    uint64_t world_size;
    sab_all_gather_fn all_gather;
    void* ctx;

    /// Fills `all` with what every rank gives, in their order. Each gives as many items as `mine`
    /// has.
    template <class Item>
    void gather(std::span<const Item> mine, std::span<Item> all) const {
        set_last_error(SAB_OK, "");
        const int32_t code = called_back("all_gather", [&] {
            return all_gather(ctx, mine.data(), mine.size_bytes(), all.data());
        });
        // Where it failed by a call of this library, that said why.
        const std::string_view why = sab_last_error_message();
        if (code != 0)
            throw Error(SAB_E_CALLBACK,
                        text("all_gather failed with code ", code, why.empty() ? "" : ": ", why),
                        code);
        if (std::memcmp(all.data() + rank * mine.size(), mine.data(), mine.size_bytes()) != 0)
            fail_about(SAB_E_MISMATCH, "all_gather", no_value, "slot ", rank, " of ", world_size,
                       " does not hold the bytes that rank ", rank,
                       " gave: all must be filled in the order of the ranks");
    }

    /// Reports a failure to the other ranks. Without memory for their answers it uses the stack,
    /// which holds up to 64 KiB.
    template <class Item>
    void tell(const Item& mine, std::vector<Item>& answers) const noexcept {
        constexpr std::size_t most = (std::size_t{1} << 16) / sizeof(Item);
        Item few[most];
        if (answers.size() < world_size && world_size > most) return;
        try {
            all_gather(ctx, &mine, sizeof mine, answers.size() < world_size ? few : answers.data());
        } catch (...) {  // ignored: the caller gets the first failure
        }
    }
};

/// What `work` failed with, and its status; null when it did not.
template <class Work, class Status>
std::exception_ptr caught(Work&& work, Status& status) {
    try {
        work();
        return nullptr;
    } catch (const Error& error) {
        status = error.status();
        return std::current_exception();
    } catch (...) {
        status = SAB_E_NO_MEMORY;
        return std::current_exception();
    }
}

std::pair<uint64_t, uint64_t> ranks_from_environment();
std::pair<uint64_t, uint64_t> data_rank(const uint64_t* shape, const int32_t* is_data,
                                        std::size_t axes, uint64_t rank);
void check_ranks(Sampler& sampler, const Ranks& ranks);

/// Steps of the samples of this rank's shard, as many as the others take of theirs.
std::unique_ptr<sab_sampler> make_sharded_sampler(const Columns& sizes,
                                                  const sab_plan_options& options,
                                                  const sab_sampler_options& given,
                                                  const Ranks& ranks);

}  // namespace sab
