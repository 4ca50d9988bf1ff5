#pragma once
/// An order of batches in which every source stays near its due.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "sampler/sequence.h"

namespace sab {

/// A number for each of eight sources in a row.
struct SourceBlock {
    typedef float Half __attribute__((vector_size(16)));
    static constexpr std::size_t sources = 8;
    Half low{}, high{};

    float get(std::size_t i) const { return i < 4 ? low[i] : high[i - 4]; }
    void set(std::size_t i, double value) {
        Half& half = i < 4 ? low : high;
        half[i % 4] = static_cast<float>(value);
    }
};

/// What each batch holds of each source, by size. Batches are added one after the other.
class SourceAmounts {
public:
    /// A sample, or a piece of one.
    struct Part {
        std::size_t source;
        double size;
    };
    /// The blocks of a batch in which it has something, and the number of each.
    struct Blocks {
        std::span<const SourceBlock> amounts;
        const uint16_t* numbers;
    };

    /// `largest`: size of the largest sample. It is the unit of all amounts.
    SourceAmounts(std::size_t sources, double largest);
    /// The most blocks that a batch of so many samples can have.
    std::size_t blocks_of(std::size_t samples) const { return std::min(samples, blocks()); }
    void reserve(std::size_t batches, std::size_t blocks);
    /// Adds parts to the batch at hand: part(i) for each i below `count`.
    template <class Get>
    void add(std::size_t count, Get&& part) {
        for (std::size_t i = 0; i < count; ++i) {
            const Part each = part(i);
            find(each.source / SourceBlock::sources);
            sums_[each.source] += each.size;
        }
    }
    /// Ends the batch at hand. Returns its size, which is not in units.
    double finish();
    /// Adds a batch that has these sums by source, width() of them, and makes them 0.
    double finish(double* sums) { return finish(sums, every_, true); }
    /// Ends the batch at hand, which is a piece of one that was added: all() has it already.
    double finish_piece();

    /// The number of sources, rounded up to whole blocks.
    std::size_t width() const { return all_.size(); }
    std::size_t batches() const { return ends_.size(); }
    std::size_t blocks() const { return every_.size(); }
    Blocks batch(std::size_t b) const {
        const std::size_t first = b == 0 ? 0 : ends_[b - 1];
        return {{amounts_.data() + first, ends_[b] - first}, numbers_.data() + first};
    }
    /// Asks for what batch() will read.
    void read_ahead(std::size_t b) const;
    /// Of all batches, by source; those of no source are 0.
    std::span<const double> all() const { return all_; }

private:
    void find(std::size_t block) {
        if (last_batch_[block] == batches()) return;
        last_batch_[block] = batches();
        found_.push_back(static_cast<uint16_t>(block));
    }
    double finish(double* sums, std::span<const uint16_t> blocks, bool is_new);

    double units_;                 ///< of a size of 1
    std::vector<uint16_t> every_;  ///< 0, 1, 2, ...: all blocks
    // of the batch at hand:
    std::vector<double> sums_;
    std::vector<uint16_t> found_;          ///< its blocks
    std::vector<std::size_t> last_batch_;  ///< of each block, that it was found in
    // of all:
    std::vector<uint32_t> ends_;  ///< of each batch in the arrays below
    std::vector<SourceBlock> amounts_;
    std::vector<uint16_t> numbers_;
    std::vector<double> all_;
};

/// Orders the batches of an epoch, which are given in random order. `costs`: of each batch. The
/// batches of a step cost as alike as the dues allow. Those that EpochOptions::costliest_first asks
/// for stay first.
std::vector<uint32_t> even_epoch(const SourceAmounts& amounts, std::span<const uint32_t> batches,
                                 std::span<const double> costs, const EpochOptions& epoch_options);

/// Some of the samples of a batch.
struct BatchPiece {
    uint32_t batch;
    uint64_t first, count;
};

/// Of an order whose last step has fewer samples than ranks: the pieces of the batches that are to
/// be divided, so that whole steps, or all samples, are there. A last step of batches chosen for
/// their samples would be far from the dues. `samples`: of each batch.
std::vector<BatchPiece> divide_for_last_step(std::span<const uint32_t> order,
                                             std::span<const uint64_t> samples,
                                             const EpochOptions& epoch_options);
/// The batches that even_epoch() was given, with the pieces in random places instead of those that
/// are divided. The ids of the pieces are `first_id` and so on.
std::vector<uint32_t> with_pieces(std::span<const uint32_t> batches,
                                  std::span<const BatchPiece> pieces, uint32_t first_id,
                                  const EpochOptions& epoch_options);

}  // namespace sab
