#pragma once
/// The copies of a sample that an epoch of a mixture has several times, kept apart.
///
/// `firsts` says of each sample the number of its first copy, which is its own where it is that.

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace sab {

/// `firsts` of numbers below `count`, whose samples `sample_of` tells; empty where no sample has
/// copies. Copies are looked for from `begin` on, where those of a sample have numbers in a row.
template <class SampleOf>
std::vector<uint32_t> first_copies(std::size_t count, SampleOf&& sample_of, uint32_t begin = 0) {
    std::vector<uint32_t> firsts(count);
    std::iota(firsts.begin(), firsts.end(), uint32_t{0});
    bool has_copies = false;
    for (uint32_t i = begin + 1; i < count; ++i) {
        if (sample_of(i) != sample_of(i - 1)) continue;
        firsts[i] = firsts[i - 1];
        has_copies = true;
    }
    if (!has_copies) firsts = {};
    return firsts;
}

/// Exchanges places of samples of a bucket, until no batch has two copies of a sample or no
/// exchange that was tried helps.
///
/// `places`: where in the bucket each sample stands; a batch is `batch_size` places. Every exchange
/// is with a sample drawn by `key`. In a bucket with at least twice as many batches as a sample has
/// copies, its copies are in different batches.
void separate_copies(std::span<uint32_t> places, std::span<const uint32_t> firsts,
                     uint64_t batch_size, uint64_t key);

/// Makes a random order one in which the copies of a sample lie evenly apart: one of `k` copies has
/// one in each k-th of the order, at the same distance from its begin.
///
/// `order`: a permutation of the samples. Empty `firsts` leave it as it is.
void spread_copies(std::span<uint32_t> order, std::span<const uint32_t> firsts);

}  // namespace sab
