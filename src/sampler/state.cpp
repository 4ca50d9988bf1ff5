#include "sampler/state.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/xxhash.h"

namespace sab {
namespace {

constexpr uint32_t state_version = 1;

uint64_t checksum_of(const State& state) {
    return XXH3_64bits(&state, offsetof(State, checksum));
}

}  // namespace

void write_state(State state, std::span<std::byte, SAB_STATE_SIZE> out) {
    std::memcpy(state.magic, "SABS", 4);
    state.version = state_version;
    state.length = sizeof state;
    state.order_version = order_version;
    state.checksum = checksum_of(state);
    std::memcpy(out.data(), &state, sizeof state);
}

State read_state(std::span<const std::byte> bytes) {
    if (bytes.size() < 8 || std::memcmp(bytes.data(), "SABS", 4) != 0)
        fail(SAB_E_FORMAT, "state: does not begin as a state does");
    State state{};
    std::memcpy(&state, bytes.data(), std::min(bytes.size(), sizeof state));
    if (state.version != state_version)
        fail(SAB_E_FORMAT, "state: has version ", state.version, ", this library reads ",
             state_version);
    if (bytes.size() != sizeof state || state.length != sizeof state)
        fail(SAB_E_FORMAT, "state: has ", bytes.size(), " bytes, must have ", sizeof state);
    if (state.checksum != checksum_of(state))
        fail(SAB_E_FORMAT, "state: its checksum does not match: it is damaged");
    return state;
}

void match_state(const char* what, uint64_t saved, uint64_t own) {
    if (saved != own)
        fail(SAB_E_MISMATCH, "state: was saved with ", what, " ", saved, ", this sampler has ",
             own);
}

void match_sampler(const State& state, Order order, uint64_t fingerprint,
                   const sab_sampler_options& options) {
    match_state("order", state.order, static_cast<uint32_t>(order));
    match_state("order version", state.order_version, order_version);
    match_state("fingerprint", state.fingerprint, fingerprint);
    match_state("seed", state.seed, options.seed);
    match_state("last_step", state.last_step, static_cast<uint32_t>(options.last_step));
}

void check_place(bool is_sound) {
    if (!is_sound) fail(SAB_E_FORMAT, "state: its place in the epoch cannot be");
}

}  // namespace sab
