#pragma once
/// Which samples of several sources an epoch has.

#include <string>
#include <vector>

#include "sab/mixture.h"
#include "sizes/columns.h"

namespace sab {

class Mixture : public EpochChoice {
public:
    /// `source_of`: the source of each sample.
    Mixture(const Columns& sizes, std::vector<uint16_t> source_of, std::span<const int64_t> ids,
            const sab_mixture_options& options);
    /// The mixture of sizes; refuses others.
    static const Mixture& of(const Columns& sizes);

    bool is_shard() const override { return is_shard_; }
    std::size_t sources() const override { return sources_.size(); }
    int64_t id(std::size_t source) const override { return sources_[source].id; }
    std::span<const uint16_t> source_of() const override { return source_of_; }
    double size_of(std::size_t sample) const override {
        return exact_sizes_.empty() ? static_cast<double>(sizes_[sample]) : exact_sizes_[sample];
    }
    EpochTurns turns(uint64_t epoch) const override;
    std::vector<SourceTurns> source_turns(uint64_t epoch) const override;
    std::vector<uint32_t> places() const override;
    bool are_alike(uint64_t epoch, uint64_t other) const override;
    bool is_possible(std::size_t source) const override { return sources_[source].is_possible; }
    std::pair<double, double> extremes() const override;
    uint64_t fingerprint() const override { return fingerprint_; }
    uint64_t options_fingerprint() const override;
    std::vector<uint64_t> proportions(uint64_t epoch) const override;
    void match_proportions(uint64_t epoch, std::span<const uint64_t> saved) const override;
    std::shared_ptr<const EpochChoice> of_others(std::span<const double> sizes,
                                                 std::vector<uint16_t> source_of) const override;

    sab_mixture_source describe(std::size_t source, uint64_t epoch) const;
    std::vector<uint32_t> counts(uint64_t epoch) const;
    /// Which of the samples of its source a sample is.
    std::size_t row_of(std::size_t sample) const override;

private:
    struct Source {
        std::string name;
        int64_t id;
        uint64_t count = 0;                     ///< of its samples
        uint32_t first = 0;                     ///< of them
        std::vector<uint32_t> samples{};        ///< ascending; empty: one after the other
        bool is_possible = false;               ///< any epoch has some of them
        double least = largest_size, most = 0;  ///< of their sizes

        uint32_t sample(uint32_t row) const { return samples.empty() ? first + row : samples[row]; }
    };
    /// What the caller gave, but for names.
    struct Given {
        std::vector<double> repeats, proportions, schedule_repeats;
        std::vector<uint64_t> schedule_epochs;
        double temperature;
        sab_mixture_unit unit;
    };
    /// From an epoch on.
    struct Change {
        uint64_t epoch;
        std::vector<double> repeats;  ///< by source
    };

    void keep(const sab_mixture_options& options);
    void check_samples();
    void read_sizes(const Columns& sizes);
    void read_names(const sab_mixture_options& options);
    std::vector<double> first_repeats(const sab_mixture_options& options) const;
    std::vector<double> by_shares(std::vector<double> shares,
                                  std::span<const double> amounts) const;
    void read_schedule(const sab_mixture_options& options);
    void check_repeats(std::string_view name, std::size_t first,
                       std::span<const double> repeats) const;
    const Change& change_at(uint64_t epoch) const;
    uint64_t taken(std::size_t source, double repeat) const;
    uint64_t start(std::size_t source, uint64_t epoch) const;
    /// Calls visit(sample, place) for `count` samples of the order of a source from a place on.
    template <class Visit>
    void walk_source(std::size_t source, uint64_t place, uint64_t count, Visit&& visit) const;
    uint64_t hash() const;

    bool is_shard_;
    std::vector<Source> sources_;
    std::vector<uint16_t> source_of_;
    std::vector<float> sizes_;         ///< of each sample, over all columns
    std::vector<double> exact_sizes_;  ///< in their place where a float does not hold them
    std::vector<Change> changes_;      ///< the first of epoch 0
    uint64_t seed_;
    Given given_;
    uint64_t fingerprint_ = 0;
};

/// The samples of several data sets, one after the other.
Columns mix_sources(std::span<const sab_sizes* const> sources, const sab_mixture_options& options);

}  // namespace sab
