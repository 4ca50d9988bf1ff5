#include "stream/state.h"

#include <algorithm>
#include <array>

#include "base/saved_state.h"
#include "base/xxhash.h"

namespace sab {
namespace {

constexpr uint32_t state_version = 1;

/// A saved state, format version 1, little-endian: this header, the body, and XXH3 (64 bits) of all
/// before it.
struct Header {
    char magic[4];
    uint32_t version;
    uint64_t length;       ///< of the whole state
    uint64_t fingerprint;  ///< of the pipeline
};
static_assert(sizeof(Header) == 24);

void append(Bytes& bytes, const void* data, std::size_t size) {
    if (size == 0) return;
    const std::size_t before = bytes.size();
    bytes.resize(before + size);
    std::memcpy(bytes.data() + before, data, size);
}

}  // namespace

void StateWriter::number(uint64_t value) {
    append(bytes_, &value, sizeof value);
}
void StateWriter::real(double value) {
    append(bytes_, &value, sizeof value);
}

void StateWriter::bytes(std::span<const std::byte> value) {
    number(value.size());
    append(bytes_, value.data(), value.size());
}

void StateWriter::generator(const MersenneTwister& generator) {
    std::array<uint32_t, MersenneTwister::state_words> words;
    generator.save(words);
    append(bytes_, words.data(), sizeof words);
}

void StateReader::refuse() {
    refuse_state("its position in the stream is invalid; the state is damaged");
}

uint64_t StateReader::number() {
    uint64_t value = 0;
    if (left_.size() < sizeof value) refuse();
    std::memcpy(&value, left_.data(), sizeof value);
    left_ = left_.subspan(sizeof value);
    return value;
}

uint64_t StateReader::number(uint64_t most) {
    const uint64_t value = number();
    if (value > most) refuse();
    return value;
}

double StateReader::real() {
    const uint64_t bits = number();
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

std::span<const std::byte> StateReader::bytes() {
    const uint64_t size = number(left_.size());
    if (size > left_.size()) refuse();
    const auto value = left_.first(size);
    left_ = left_.subspan(size);
    return value;
}

void StateReader::generator(MersenneTwister& generator) {
    std::array<uint32_t, MersenneTwister::state_words> words;
    if (left_.size() < sizeof words) refuse();
    std::memcpy(words.data(), left_.data(), sizeof words);
    if (words.back() >= words.size()) refuse();
    left_ = left_.subspan(sizeof words);
    generator.load(words);
}

Bytes seal(uint64_t fingerprint, std::span<const std::byte> body) {
    const Header header{{'S', 'A', 'B', 'T'},
                        state_version,
                        sizeof(Header) + body.size() + sizeof(uint64_t),
                        fingerprint};
    Bytes state;
    state.reserve(header.length);
    append(state, &header, sizeof header);
    append(state, body.data(), body.size());
    const uint64_t checksum = XXH3_64bits(state.data(), state.size());
    append(state, &checksum, sizeof checksum);
    return state;
}

std::span<const std::byte> unseal(std::span<const std::byte> state, uint64_t fingerprint) {
    check_state_begin(state, "SABT", "a stream", state_version);
    Header header{};
    uint64_t checksum = 0;
    std::memcpy(&header, state.data(), std::min(state.size(), sizeof header));
    check_state_size(state.size(),
                     std::max<uint64_t>(header.length, sizeof header + sizeof checksum));
    const auto covered = state.first(state.size() - sizeof checksum);
    std::memcpy(&checksum, state.data() + covered.size(), sizeof checksum);
    check_state_checksum(checksum, XXH3_64bits(covered.data(), covered.size()));
    if (header.fingerprint != fingerprint)
        mismatch_state("belongs to another pipeline: its streams or their options differ");
    return covered.subspan(sizeof header);
}

void Description::add(std::string_view text) {
    add(static_cast<uint64_t>(text.size()));
    append(bytes_, text.data(), text.size());
}
void Description::add(uint64_t number) {
    append(bytes_, &number, sizeof number);
}
void Description::add(double number) {
    append(bytes_, &number, sizeof number);
}
uint64_t Description::fingerprint() const {
    return XXH3_64bits(bytes_.data(), bytes_.size());
}

}  // namespace sab
