#pragma once
/// The order in which ranks take batches of their own shards of a mixture.

#include <cstdint>
#include <span>
#include <vector>

#include "sampler/sequence.h"

namespace sab {

/// What batches hold of each source, by size. They are added one after the other.
class HeldSizes {
public:
    struct Part {
        uint16_t source;
        double size;
    };

    explicit HeldSizes(std::size_t sources) : sums_(sources) {}
    /// Adds a sample to the batch at hand.
    void add(uint16_t source, double size) {
        if (sums_[source] == 0) found_.push_back(source);
        sums_[source] += size;
    }
    /// Ends the batch at hand.
    void finish(double cost);

    std::size_t sources() const { return sums_.size(); }
    std::size_t batches() const { return ends_.size(); }
    std::span<const Part> batch(std::size_t b) const {
        const std::size_t first = b == 0 ? 0 : ends_[b - 1];
        return std::span(parts_).subspan(first, ends_[b] - first);
    }
    double cost(std::size_t b) const { return costs_[b]; }
    std::span<const Part> all() const { return parts_; }

private:
    std::vector<double> sums_, costs_;
    std::vector<uint16_t> found_;
    std::vector<Part> parts_;
    std::vector<std::size_t> ends_;
};

/// Orders the batches of each of the ranks, which have as many each, so that every source is near
/// its due over all ranks together. `held`: of the batches of the first rank, then of the second,
/// and so on. The result has them in the same order of ranks.
std::vector<uint32_t> even_steps(const HeldSizes& held, std::size_t ranks,
                                 const EpochOptions& epoch_options);

}  // namespace sab
