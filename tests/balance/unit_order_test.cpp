// The order in which the steps of a balanced sampler take samples.
#include "balance/unit_order.h"

#include <gtest/gtest.h>

#include <cmath>

#include "mixture/mixture.h"

namespace sab {
namespace {

constexpr std::size_t samples = 3000, sources = 5;

/// Sources of different sizes; the last one has none.
Columns mixture() {
    std::vector<uint32_t> sizes(samples);
    std::vector<int64_t> ids(samples);
    for (std::size_t i = 0; i < samples; ++i) {
        ids[i] = static_cast<int64_t>(mix(i) % sources);
        sizes[i] = ids[i] + 1 == sources ? 0 : 1 + static_cast<uint32_t>(mix(~i) % 100);
    }
    const double repeats[sources] = {1, 0.1, 2.5, 0.7, 1};
    sab_mixture_options options = SAB_MIXTURE_OPTIONS_INIT;
    options.repeats = repeats;
    options.repeat_count = sources;
    options.ids = ids.data();
    options.id_count = samples;
    const sab_sizes plain{{}, Sizes(DenseSizes(sizes.data(), samples, SAB_UINT32, nullptr), "")};
    const sab_sizes* const only = &plain;
    return mix_sources({&only, 1}, options);
}

std::shared_ptr<const WeighedSamples> weighed(const Columns& sizes) {
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    balanced.samples = 10;
    return EpochSamples(sizes, balanced, {}).of(1, {});
}

/// Walks an order: each sample comes once. Gives the largest distance of a source from its due.
double walk(UnitOrder& order, const WeighedSamples& all, const EpochChoice& choice) {
    const auto source = [&](uint32_t offset) { return choice.source_of()[all.order[offset]]; };
    std::vector<double> share(sources), given(sources);
    double sum = 0, total = 0, most = 0;
    for (uint32_t offset = 0; offset < all.count; ++offset) {
        share[source(offset)] += all.sizes_of(offset)[0];
        sum += all.sizes_of(offset)[0];
    }
    std::vector<int> times(all.count);
    for (uint64_t place = 0; place < order.units(); ++place) {
        const uint32_t unit = order.at(place);
        for (uint64_t i = 0; i < order.samples_of(unit); ++i) {
            const uint32_t offset = order.offset(unit, i);
            ++times[offset];
            given[source(offset)] += all.sizes_of(offset)[0];
            total += all.sizes_of(offset)[0];
        }
        for (std::size_t s = 0; s < sources; ++s)
            most = std::max(most, std::abs(given[s] - share[s] / sum * total));
    }
    EXPECT_EQ(times, std::vector<int>(all.count, 1));
    return most;
}

TEST(UnitOrder, OfSingleSamples_KeepsSourcesWithinASample) {
    const Columns sizes = mixture();
    const auto all = weighed(sizes);
    UnitOrder laid_out(all, {1, 0, all->end}, 5, 1, sizes.choice().get()),
        permuted(all, {1, 0, all->end}, 5, 1, nullptr);
    EXPECT_LE(walk(laid_out, *all, *sizes.choice()), 100);
    EXPECT_GT(walk(permuted, *all, *sizes.choice()), 500);
}

TEST(UnitOrder, OfCohorts_KeepsSourcesWithinACohort) {
    const Columns sizes = mixture();
    const auto all = weighed(sizes);
    UnitOrder order(all, {8, 800, all->end}, 5, 1, sizes.choice().get());
    EXPECT_EQ(order.cohorts(), 100u);
    EXPECT_LE(walk(order, *all, *sizes.choice()), 8 * 100);
}

TEST(UnitOrder, WithoutSizes_SpreadsTheSourceOverTheEpoch) {
    const Columns sizes = mixture();
    const auto all = weighed(sizes);
    UnitOrder order(all, {1, 0, all->end}, 5, 1, sizes.choice().get());
    uint64_t halves[2] = {0, 0};
    for (uint64_t place = 0; place < order.units(); ++place) {
        const uint32_t offset = order.offset(order.at(place), 0);
        if (all->sizes_of(offset)[0] == 0) ++halves[2 * place / order.units()];
    }
    EXPECT_NEAR(static_cast<double>(halves[0]), static_cast<double>(halves[1]), 10);
}

}  // namespace
}  // namespace sab
