#pragma once
/// Bytes of a saved sampler state, format version 6: a header, and a body of the sampler's kind.

#include <cstddef>
#include <cstdint>
#include <span>

#include "sampler/sampler_options.h"
#include "sampler/sequence.h"

namespace sab {

inline constexpr uint32_t order_version = 3;

/// What a state of any kind begins with. Little-endian.
struct StateHeader {
    char magic[4];
    uint32_t version;
    uint64_t checksum;  ///< XXH3 (64 bits) of all that follows it
    uint32_t length;    ///< of the whole state
    uint32_t kind;      ///< SamplerKind
    /// of the plan, or of what else the batches are made from
    uint64_t fingerprint;
    uint64_t numbers;  ///< that follow the body
};
static_assert(sizeof(StateHeader) == 40);

/// What is between the header and the body: the order of the epoch, and how far the ranks are in
/// it.
struct OrderState {
    uint32_t version;  ///< order_version
    sab_last_step last_step;
    uint64_t seed;
    uint64_t epoch;
    uint64_t position;  ///< of the next batch
    uint64_t world_size;
    uint32_t micro_batches;  ///< of a step, of each rank
    uint32_t has_ended;      ///< 1: the end of the epoch was reported
};
static_assert(sizeof(OrderState) == 48);

/// Writes a state if there is room for it. Returns its size. The numbers follow the body, and then
/// what the choice, if there is one, says of the epoch.
std::size_t write_state(SamplerKind kind, uint64_t fingerprint, const EpochChoice* choice,
                        const OrderState& order, std::span<const std::byte> body,
                        std::span<const uint64_t> numbers, std::span<std::byte> out);

/// Reads the order and the body of a state. Returns the numbers after it. Refuses what is no whole
/// state of this version, and that of another kind of sampler, of other samples or of another
/// choice of them.
std::vector<uint64_t> read_state(std::span<const std::byte> state, SamplerKind kind,
                                 uint64_t fingerprint, const EpochChoice* choice, OrderState& order,
                                 std::span<std::byte> body);

/// Refuses a state that has something else than this sampler.
void match_state(const char* what, uint64_t saved, uint64_t own);

/// Refuses an order with another version, seed or last step than this sampler's, and fields that no
/// sampler writes.
void match_order(const OrderState& saved, const SamplerOptions& options);

/// Refuses a state whose fields cannot be.
void check_consistent(bool is_sound);

}  // namespace sab
