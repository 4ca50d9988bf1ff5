#pragma once
/// Which samples an epoch has. Sizes of a mixture have a choice; those of other data sets have all
/// samples once.

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sab/features.h"

namespace sab {

/// A build without mixtures has no code for them.
constexpr bool has_mixtures = SAB_WITH_MIXTURE != 0;

/// How often an epoch has each sample.
struct EpochTurns {
    std::vector<uint32_t> by_source;  ///< of each sample of a source, at least
    std::vector<uint64_t> extra;      ///< a bit for each sample that has one more; empty: none

    uint32_t of(std::size_t sample, std::size_t source) const {
        return by_source[source] +
               (extra.empty() ? 0u : static_cast<uint32_t>(extra[sample / 64] >> sample % 64 & 1));
    }
};

/// The same of one source, by the place of a sample in the fixed order of its source.
struct SourceTurns {
    uint32_t least;  ///< turns of each sample, at least
    uint32_t start;  ///< the `extra` places from here on, modulo `count`, have one more
    uint32_t extra;
    uint32_t count;

    /// Whether it has a sample more than once.
    bool has_copies() const { return least + static_cast<uint32_t>(extra > 0) > 1; }
    uint32_t of(uint32_t place) const {
        const uint32_t after = place - start + (place < start ? count : 0);
        return least + static_cast<uint32_t>(after < extra);
    }
};

class EpochChoice {
public:
    virtual ~EpochChoice() = default;
    /// Whether its samples are one shard of those that epochs take: what it says of
    /// epochs has no meaning then.
    virtual bool is_shard() const = 0;
    /// Number of sources.
    virtual std::size_t sources() const = 0;
    virtual int64_t id(std::size_t source) const = 0;
    /// The source of each sample.
    virtual std::span<const uint16_t> source_of() const = 0;
    /// Which of the samples of its source a sample is.
    virtual std::size_t row_of(std::size_t sample) const = 0;
    /// The size of a sample, over all columns.
    virtual double size_of(std::size_t sample) const = 0;
    virtual EpochTurns turns(uint64_t epoch) const = 0;
    virtual std::vector<SourceTurns> source_turns(uint64_t epoch) const = 0;
    /// The place of each sample in the order of its source.
    virtual std::vector<uint32_t> places() const = 0;
    /// The samples of an epoch, ascending. One that appears several times stands there as often.
    std::vector<uint32_t> samples(uint64_t epoch) const;
    /// Whether two epochs have the same samples.
    virtual bool are_alike(uint64_t epoch, uint64_t other) const = 0;
    /// For each sample itself if any epoch may have it, else one that an epoch may have. What holds
    /// these holds the samples of all epochs.
    std::vector<uint32_t> possible_samples() const;
    /// Whether any epoch has samples of a source.
    virtual bool is_possible(std::size_t source) const = 0;
    /// The smallest and the largest size of the samples that any epoch may have.
    virtual std::pair<double, double> extremes() const = 0;
    /// Equal only for equal mixtures of the same samples.
    virtual uint64_t fingerprint() const = 0;
    /// Of the sources and the options, whatever the samples are.
    virtual uint64_t options_fingerprint() const = 0;
    /// What states tell of the choice, to say how another one differs.
    virtual std::vector<uint64_t> proportions(uint64_t epoch) const = 0;
    /// Refuses those of another choice, as far as they differ.
    virtual void match_proportions(uint64_t epoch, std::span<const uint64_t> saved) const = 0;
    /// One of other samples with the same sources and options. Refuses what breaks a rule.
    virtual std::shared_ptr<const EpochChoice> of_others(std::span<const double> sizes,
                                                         std::vector<uint16_t> source_of) const = 0;
};

}  // namespace sab
