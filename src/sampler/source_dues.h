#pragma once
/// How far the sources of a mixture are from their dues.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

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

/// How far the sources are from their dues after some batches, and which batch comes best next.
class SourceDues {
public:
    static constexpr double none = std::numeric_limits<double>::infinity();
    /// Of so many batches that are drawn, or queued, the best one is taken. With more of them the
    /// sources are nearer to their dues, and an epoch begins later.
    static constexpr std::size_t compared = 16;
    /// The sources are near their dues if the sum of the squares of the distances is at most this,
    /// in sizes of a batch: half a batch, as the next one may lead as far away again.
    static constexpr double near = 0.5 * 0.5;
    struct Candidate {
        double score = none;
        uint32_t batch = 0;
    };

    /// `costs`: of each batch. Both must outlive this.
    SourceDues(const SourceAmounts& amounts, std::span<const double> costs);

    std::size_t sources() const { return share_.size(); }
    /// Of all sizes.
    double share(std::size_t source) const { return share_[source]; }
    /// Sizes of the largest and of a mean batch.
    double largest() const { return largest_; }
    double mean() const { return mean_; }
    double size(uint32_t batch) const { return facts_[batch].size; }
    /// The source that a batch has most of, compared with the source's share.
    std::size_t richest(uint32_t batch) const;

    void give(uint32_t batch);
    bool is_given(uint32_t batch) const { return is_given_[batch]; }
    double ahead(std::size_t source) const { return given_of(source) - share_[source] * total_; }
    /// The largest distance of a source from its due.
    double farthest() const;
    /// The total at which a source will be so far behind if no more of it comes.
    double total_when(std::size_t source, double behind) const {
        return settled_ + (given_of(source) + behind) / share_[source];
    }
    /// The sum of the squares of the distances from the dues.
    double squares() const { return squares_; }

    /// Makes a batch the best one if it changes this sum by less. A cost unlike `cost`, if that is
    /// not 0, counts against it, with a quarter of the square of `unit` at most.
    void compare(uint32_t batch, double cost, double unit, Candidate& best) const;
    /// Compares some batches of a queue from `next` on. They move up behind those given, each of
    /// which is passed only once.
    void compare_queued(std::span<uint32_t> queue, std::size_t& next, double cost, double unit,
                        Candidate& best) const;
    /// Asks for what compare() will read, but for the amounts.
    void read_ahead(uint32_t batch) const { __builtin_prefetch(&facts_[batch]); }

private:
    static constexpr std::size_t width = SourceBlock::sources;
    struct Facts {
        double size = 0;
        double shared = 0;   ///< the product of its amounts and the shares
        double squares = 0;  ///< sum of those of how far it leads away from the dues
    };

    Facts facts_of(const SourceAmounts::Blocks& batch) const;
    double change(uint32_t batch) const;
    void settle();
    double given_of(std::size_t s) const { return given_[s / width].get(s % width); }

    const SourceAmounts& amounts_;
    std::span<const double> costs_;
    std::vector<double> share_;
    std::vector<SourceBlock> shares_, others_;  ///< the same, and 1 / (share of the others)
    double shares_squared_ = 0;                 ///< sum of the squares of share_
    std::vector<Facts> facts_;
    double largest_ = 0, mean_ = 0;
    // of the batches given; but for squares_ and settled_, since settle():
    std::vector<uint8_t> is_given_;
    std::size_t count_ = 0;
    std::vector<SourceBlock> given_;  ///< of each source, and before that how far it was ahead
    double total_ = 0;                ///< of all sources
    double given_shared_ = 0;         ///< the product of given_ and share_
    double squares_ = 0;
    double settled_ = 0;  ///< total until settle()
};

}  // namespace sab
