#pragma once
/// What streams write into a saved state, and read back with all suspicion.

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/mersenne_twister.h"

namespace sab {

using Bytes = std::vector<std::byte>;

/// A state under way: numbers, bytes, generators, one after the other.
class StateWriter {
public:
    void number(uint64_t value);
    void real(double value);
    void bytes(std::span<const std::byte> value);  ///< with their length
    void generator(const MersenneTwister& generator);
    Bytes take() { return std::move(bytes_); }

private:
    Bytes bytes_;
};

/// Reads what StateWriter wrote; throws SAB_E_FORMAT where it cannot be.
class StateReader {
public:
    explicit StateReader(std::span<const std::byte> bytes) : left_(bytes) {}
    uint64_t number();
    uint64_t number(uint64_t most);  ///< at most so much
    double real();
    std::span<const std::byte> bytes();
    void generator(MersenneTwister& generator);
    bool is_at_end() const { return left_.empty(); }
    [[noreturn]] static void refuse();

private:
    std::span<const std::byte> left_;
};

/// A state as it is handed out: header, what the streams wrote, checksum.
Bytes seal(uint64_t fingerprint, std::span<const std::byte> body);
/// The body of a sealed state; throws SAB_E_FORMAT, and SAB_E_MISMATCH for that of another
/// pipeline.
std::span<const std::byte> unseal(std::span<const std::byte> state, uint64_t fingerprint);

/// What a pipeline is made of, as a number: kinds of streams and their options, from the source on.
class Description {
public:
    void add(std::string_view text);
    void add(uint64_t number);
    void add(double number);
    uint64_t fingerprint() const;

    /// While one lives, streams are described that are read again by a restore: what they give must
    /// be the same then.
    class Replayed {
    public:
        explicit Replayed(Description& description) : description_(description) {
            ++description_.replayed_;
        }
        ~Replayed() { --description_.replayed_; }
        Replayed(const Replayed&) = delete;
        Replayed& operator=(const Replayed&) = delete;

    private:
        Description& description_;
    };
    bool is_replayed() const { return replayed_ > 0; }

private:
    int replayed_ = 0;
    Bytes bytes_;
};

}  // namespace sab
