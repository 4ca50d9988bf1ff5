#include "ranks/sharded_mixture.h"

#include <algorithm>

#include "base/hasher.h"

namespace sab {
namespace {

/// What the rank of a slot told of its samples, numbered from `first` on. Adds their sizes and
/// sources to those of the slots before.
Sorted read_slot(std::size_t slot, std::span<const Bar> bars, std::span<const ToldSample> told,
                 std::size_t sources, std::vector<double>& sizes,
                 std::vector<uint16_t>& source_of) {
    Sorted shard;
    shard.count = told.size();
    shard.first_offsets.push_back(0);
    for (const Bar& bar : bars) {
        shard.distinct_sizes.push_back(bar.size);
        shard.first_offsets.push_back(shard.first_offsets.back() +
                                      static_cast<uint32_t>(bar.count));
    }
    shard.order = make_huge_array<uint32_t>(told.size());
    std::vector<uint32_t> next = shard.first_offsets;
    for (const auto& [size_low, size_high, source] : told) {
        const uint32_t distinct = size_low | uint32_t{size_high} << 16;
        if (distinct >= bars.size() || next[distinct] == shard.first_offsets[distinct + 1] ||
            source >= sources)
            fail(SAB_E_MISMATCH, "all_gather: slot ", slot, " holds a sample of source ", source,
                 " with size number ", distinct, ", which no rank gave");
        shard.order[next[distinct]++] = static_cast<uint32_t>(sizes.size());
        sizes.push_back(bars[distinct].size);
        source_of.push_back(source);
    }
    return shard;
}

/// The samples of a shard that are taken, each as often as it is.
Sorted chosen_of(const Sorted& shard, std::span<const uint32_t> times) {
    Sorted made;
    const std::span<const uint32_t> order(shard.order.get(), shard.count);
    for (const uint32_t sample : order) made.count += times[sample];
    made.order = make_huge_array<uint32_t>(made.count);
    uint32_t at = 0;
    for (std::size_t d = 0; d < shard.distinct_sizes.size(); ++d) {
        const uint32_t first = at;
        for (uint32_t i = shard.first_offsets[d]; i < shard.first_offsets[d + 1]; ++i)
            for (uint32_t turn = 0; turn < times[order[i]]; ++turn) made.order[at++] = order[i];
        if (at == first) continue;
        made.distinct_sizes.push_back(shard.distinct_sizes[d]);
        made.first_offsets.push_back(first);
    }
    made.first_offsets.push_back(at);
    return made;
}

}  // namespace

void write_samples(const Sorted& shard, std::span<const uint16_t> source_of,
                   std::span<ToldSample> told) {
    for (std::size_t d = 0; d < shard.distinct_sizes.size(); ++d)
        for (uint32_t i = shard.first_offsets[d]; i < shard.first_offsets[d + 1]; ++i) {
            const uint32_t sample = shard.order[i];
            told[sample] = {static_cast<uint16_t>(d), static_cast<uint16_t>(d >> 16),
                            source_of[sample]};
        }
}

ShardedMixture::ShardedMixture(const EpochChoice& choice, const Histograms& histograms,
                               std::span<const ToldSample> told, const sab_plan_options& options,
                               const Ranks& ranks)
    : ranks_(ranks) {
    const std::size_t most = told.size() / ranks.world_size;
    std::vector<double> sizes;
    std::vector<uint16_t> source_of;
    const std::vector<uint64_t> counts = count_samples(histograms);
    for (std::size_t r = 0; r < counts.size(); ++r) {
        first_.push_back(sizes.size());
        shards_.push_back(read_slot(r, histograms.of(r), told.subspan(r * most, counts[r]),
                                    choice.sources(), sizes, source_of));
    }
    choice_ = choice.of_others(sizes, std::move(source_of));
    // A later epoch may take samples that are too large: they are refused now.
    const auto plan = make_shared_plan(histograms_of(chosen(choice_->possible_samples())), options);
    options_ = std::make_unique<const KeptPlanOptions>(options, 1);
    Hasher hasher;
    hasher.add_all(histograms.bars);
    hasher.add(plan->fingerprint());
    hasher.add(choice_->fingerprint());
    fingerprint_ = hasher.digest();
}

Histograms ShardedMixture::histograms_of(const Shards& shards) {
    Histograms made;
    std::size_t most = 0;
    for (const auto& shard : shards) {
        made.distinct_counts.push_back(shard->distinct_sizes.size());
        most = std::max(most, shard->distinct_sizes.size());
    }
    made.bars.resize(most * shards.size());
    for (std::size_t r = 0; r < shards.size(); ++r)
        write_bars(*shards[r], std::span(made.bars).subspan(r * most));
    return made;
}

ShardedMixture::Shards ShardedMixture::chosen(std::span<const uint32_t> samples) const {
    std::vector<uint32_t> times(choice_->source_of().size());
    for (const uint32_t sample : samples) ++times[sample];
    Shards made;
    for (const Sorted& shard : shards_)
        made.push_back(std::make_shared<const Sorted>(chosen_of(shard, times)));
    return made;
}

EpochSequence ShardedMixture::make(uint64_t epoch) const {
    Shards shards = chosen(choice_->samples(epoch));
    const Histograms histograms = histograms_of(shards);
    return {nullptr, std::make_unique<ShardedSequence>(std::move(shards), first_[ranks_.rank],
                                                       histograms, options_->get(), ranks_)};
}

}  // namespace sab
