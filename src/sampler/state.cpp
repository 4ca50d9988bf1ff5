#include "sampler/state.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/xxhash.h"

namespace sab {
namespace {

constexpr uint32_t state_version = 3;

uint64_t checksum_of(std::span<const std::byte> state) {
    const auto covered = state.subspan(offsetof(StateHeader, length));
    return XXH3_64bits(covered.data(), covered.size());
}

}  // namespace

std::size_t write_state(SamplerKind kind, uint64_t fingerprint, std::span<const std::byte> body,
                        std::span<std::byte> out) {
    const std::size_t size = sizeof(StateHeader) + body.size();
    if (out.size() < size) return size;
    const std::span<std::byte> state = out.first(size);
    StateHeader header{{'S', 'A', 'B', 'S'},        state_version, 0, static_cast<uint32_t>(size),
                       static_cast<uint32_t>(kind), fingerprint};
    std::ranges::copy(body, state.begin() + sizeof header);
    std::memcpy(state.data(), &header, sizeof header);
    header.checksum = checksum_of(state);
    std::memcpy(state.data(), &header, sizeof header);
    return size;
}

void read_state(std::span<const std::byte> state, SamplerKind kind, uint64_t fingerprint,
                std::span<std::byte> body) {
    if (state.size() < 8 || std::memcmp(state.data(), "SABS", 4) != 0)
        fail(SAB_E_FORMAT, "state: is not the state of a sampler: must begin with \"SABS\"");
    StateHeader header{};
    std::memcpy(&header, state.data(), std::min(state.size(), sizeof header));
    if (header.version != state_version)
        fail(SAB_E_FORMAT, "state: has version ", header.version, ", this library reads ",
             state_version);
    const auto check_size = [&](std::size_t size) {
        if (state.size() != size)
            fail(SAB_E_FORMAT, "state: has ", state.size(), " bytes, must have ", size);
    };
    check_size(std::max<std::size_t>(header.length, sizeof header));
    if (header.checksum != checksum_of(state))
        fail(SAB_E_FORMAT, "state: its checksum does not match: it is damaged");
    if (header.kind != static_cast<uint32_t>(kind))
        fail(SAB_E_MISMATCH, "state: was saved by another kind of sampler");
    match_state("other sizes or options: fingerprint", header.fingerprint, fingerprint);
    check_size(sizeof header + body.size());
    std::ranges::copy(state.subspan(sizeof header), body.begin());
}

void match_state(const char* what, uint64_t saved, uint64_t own) {
    if (saved != own)
        fail(SAB_E_MISMATCH, "state: was saved with ", what, " ", saved, ", this sampler has ",
             own);
}

void match_order(const OrderState& saved, const sab_sampler_options& options) {
    match_state("order version", saved.version, order_version);
    match_state("seed", saved.seed, options.seed);
    match_state("last_step", static_cast<uint32_t>(saved.last_step),
                static_cast<uint32_t>(options.last_step));
    check_consistent(saved.world_size >= 1 && saved.world_size <= largest_world_size &&
                     saved.micro_batches >= 1 && saved.micro_batches <= most_micro_batches);
    check_consistent(saved.position <= uint64_t{1} << 62 && saved.has_ended <= 1);
}

void check_consistent(bool is_sound) {
    if (!is_sound)
        fail(SAB_E_FORMAT, "state: its position is not one of this epoch; the state is damaged");
}

}  // namespace sab
