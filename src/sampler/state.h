#pragma once
/// Bytes of a saved sampler state, format version 6: a header, and a body of the sampler's kind.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string_view>

#include "base/saved_state.h"
#include "base/xxhash.h"
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

/// Writes a header, which has the size of the whole state, and what follows it. The checksum is
/// that of all behind it.
template <class Header>
void write_sealed(Header header, std::initializer_list<std::span<const std::byte>> parts,
                  std::span<std::byte> state) {
    auto to = state.begin() + sizeof header;
    for (const auto part : parts) to = std::ranges::copy(part, to).out;
    std::memcpy(state.data(), &header, sizeof header);
    const auto covered = state.subspan(offsetof(Header, length));
    header.checksum = XXH3_64bits(covered.data(), covered.size());
    std::memcpy(state.data(), &header, sizeof header);
}

/// Reads such a header. Refuses bytes that are no whole state. `letters`: it begins with them.
template <class Header>
Header read_sealed(std::span<const std::byte> state, std::string_view letters, const char* whose,
                   uint32_t version) {
    check_state_begin(state, letters, whose, version);
    Header header{};
    std::memcpy(&header, state.data(), std::min(state.size(), sizeof header));
    check_state_size(state.size(), std::max<std::size_t>(header.length, sizeof header));
    const auto covered = state.subspan(offsetof(Header, length));
    check_state_checksum(header.checksum, XXH3_64bits(covered.data(), covered.size()));
    return header;
}

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
