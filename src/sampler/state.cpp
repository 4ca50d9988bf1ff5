#include "sampler/state.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/xxhash.h"

namespace sab {
namespace {

constexpr uint32_t state_version = 2;

uint64_t checksum_of(std::span<const std::byte> state) {
    const auto covered = state.subspan(offsetof(StateHeader, length));
    return XXH3_64bits(covered.data(), covered.size());
}

}  // namespace

void write_state(SamplerKind kind, uint64_t fingerprint, std::span<const std::byte> body,
                 std::span<std::byte, SAB_STATE_SIZE> out) {
    StateHeader header{{'S', 'A', 'B', 'S'},        state_version, 0, SAB_STATE_SIZE,
                       static_cast<uint32_t>(kind), fingerprint};
    std::ranges::fill(out, std::byte{0});
    std::ranges::copy(body, out.begin() + sizeof header);
    std::memcpy(out.data(), &header, sizeof header);
    header.checksum = checksum_of(out);
    std::memcpy(out.data(), &header, sizeof header);
}

void read_state(std::span<const std::byte> state, SamplerKind kind, uint64_t fingerprint,
                std::span<std::byte> body) {
    if (state.size() < 8 || std::memcmp(state.data(), "SABS", 4) != 0)
        fail(SAB_E_FORMAT, "state: does not begin as a state does");
    StateHeader header{};
    std::memcpy(&header, state.data(), std::min(state.size(), sizeof header));
    if (header.version != state_version)
        fail(SAB_E_FORMAT, "state: has version ", header.version, ", this library reads ",
             state_version);
    if (state.size() != SAB_STATE_SIZE || header.length != SAB_STATE_SIZE)
        fail(SAB_E_FORMAT, "state: has ", state.size(), " bytes, must have ", SAB_STATE_SIZE);
    if (header.checksum != checksum_of(state))
        fail(SAB_E_FORMAT, "state: its checksum does not match: it is damaged");
    match_state("kind of order", header.kind, static_cast<uint32_t>(kind));
    match_state("fingerprint", header.fingerprint, fingerprint);
    std::ranges::copy(state.subspan(sizeof header, body.size()), body.begin());
}

void match_state(const char* what, uint64_t saved, uint64_t own) {
    if (saved != own)
        fail(SAB_E_MISMATCH, "state: was saved with ", what, " ", saved, ", this sampler has ",
             own);
}

OrderState order_state(uint64_t epoch, const sab_sampler_options& options) {
    return {order_version, options.last_step, options.seed, epoch};
}

void match_order(const OrderState& saved, const sab_sampler_options& options) {
    match_state("order version", saved.version, order_version);
    match_state("seed", saved.seed, options.seed);
    match_state("last_step", static_cast<uint32_t>(saved.last_step),
                static_cast<uint32_t>(options.last_step));
}

void check_consistent(bool is_sound) {
    if (!is_sound) fail(SAB_E_FORMAT, "state: its place in the epoch cannot be");
}

}  // namespace sab
