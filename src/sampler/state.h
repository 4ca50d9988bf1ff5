#pragma once
/// Bytes of a saved sampler state, format version 1.

#include <cstddef>
#include <cstdint>
#include <span>

#include "sab/sampler.h"
#include "sampler/sequence.h"

namespace sab {

inline constexpr uint32_t order_version = 2;
inline constexpr uint64_t largest_world_size = 0xFFFFFFFFu;

/// 136 bytes, little-endian. What a kind of sampler does not need stays 0.
struct State {
    char magic[4];
    uint32_t version;
    uint32_t length;
    uint32_t order;        ///< sab::Order
    uint64_t fingerprint;  ///< of the plan, or of what else the batches are made from
    uint64_t seed;
    uint64_t epoch;
    uint64_t step;        ///< the next one
    uint64_t start_step;  ///< where this number of ranks took over
    uint64_t start_position;
    uint64_t world_size;
    uint64_t group;  ///< world size that began the epoch
    uint32_t last_step;
    uint32_t order_version;
    uint64_t worst_first;
    double budget;           ///< of the batches to come; 0: the plan's
    uint64_t lead_position;  ///< a round that others began; see Cursor::Round
    uint64_t lead_first;
    uint64_t lead_batches;
    uint64_t checksum;  ///< XXH3 (64 bits) of all before it
};
static_assert(sizeof(State) == SAB_STATE_SIZE);

/// Fills what every state has, the checksum last, and writes it.
void write_state(State state, std::span<std::byte, SAB_STATE_SIZE> out);

/// Refuses what is no whole state of this version.
State read_state(std::span<const std::byte> bytes);

/// Refuses a state that has something else than this sampler.
void match_state(const char* what, uint64_t saved, uint64_t own);

/// Refuses a state of another sampler: of another kind, of other samples, with another seed or last
/// step.
void match_sampler(const State& state, Order order, uint64_t fingerprint,
                   const sab_sampler_options& options);

/// Refuses a state whose fields cannot be.
void check_place(bool is_sound);

}  // namespace sab
