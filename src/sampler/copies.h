#pragma once
/// The copies of a sample that an epoch of a mixture has several times, kept apart.
///
/// `firsts` says of each sample the number of its first copy, which is its own where it is that.

#include <cstdint>
#include <span>

namespace sab {

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
/// `order`: a permutation of the samples.
void spread_copies(std::span<uint32_t> order, std::span<const uint32_t> firsts);

}  // namespace sab
