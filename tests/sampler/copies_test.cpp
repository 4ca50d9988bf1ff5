/// Epochs of mixtures that have a sample several times.
#include "sampler/copies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "sab.hpp"

namespace {

/// Numbers of copies, one sample after the other, and the first of each.
std::vector<uint32_t> firsts_of(const std::vector<std::size_t>& copies) {
    std::vector<uint32_t> firsts;
    for (const std::size_t count : copies)
        firsts.resize(firsts.size() + count, static_cast<uint32_t>(firsts.size()));
    return firsts;
}

std::vector<uint32_t> shuffled(std::size_t count, std::mt19937& random) {
    std::vector<uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    return order;
}

TEST(Copies, SeparatedWhereThereAreTwiceAsManyBatches) {
    std::mt19937 random(1);
    const auto below = [&](std::size_t end) { return std::size_t{random()} % end; };
    for (int n = 0; n < 2000; ++n) {
        std::vector<std::size_t> copies(1 + below(100));
        for (std::size_t& count : copies) count = below(50) == 0 ? 60 : 1 + below(6);
        const std::vector<uint32_t> firsts = firsts_of(copies);
        const std::size_t size = 1 + below(20), count = firsts.size(),
                          batches = (count + size - 1) / size;
        std::vector<uint32_t> places = shuffled(count, random);
        sab::separate_copies(places, firsts, size, random());
        EXPECT_EQ(std::set(places.begin(), places.end()).size(), count);
        std::size_t begin = 0;
        for (const std::size_t each : copies) {
            std::set<std::size_t> found;
            for (std::size_t i = begin; i < begin + each; ++i) found.insert(places[i] / size);
            EXPECT_TRUE(2 * each > batches || found.size() == each) << n;
            begin += each;
        }
    }
}

TEST(Copies, SpreadEvenlyOverAnOrder) {
    std::mt19937 random(1);
    const std::vector<uint32_t> firsts = firsts_of(std::vector<std::size_t>(1000, 4));
    std::vector<uint32_t> order = shuffled(firsts.size(), random);
    sab::spread_copies(order, firsts);
    EXPECT_EQ(std::set(order.begin(), order.end()).size(), firsts.size());
    std::map<uint32_t, std::size_t> last;
    for (std::size_t place = 0; place < order.size(); ++place) {
        const uint32_t first = firsts[order[place]];
        EXPECT_TRUE(!last.contains(first) || place - last[first] == 1000);
        last[first] = place;
    }
}

/// Whether in some epochs no batch has a sample twice, wherever the batches of its bucket, or those
/// of the epoch where there are no buckets, are at least twice as many as its copies.
bool are_apart(sab::Sampler& sampler) {
    using Counts = std::map<int64_t, std::size_t>;
    for (uint64_t epoch = 0; epoch < 4; ++epoch) {
        std::map<int64_t, std::vector<Counts>> batches;  // by bucket, of each sample
        sampler.set_epoch(epoch);
        for (const sab_batch& batch : sampler) {
            Counts& counts = batches[batch.bucket].emplace_back();
            for (std::size_t i = 0; i < batch.count; ++i) ++counts[batch.indices[i]];
        }
        for (const auto& [bucket, all] : batches) {
            Counts copies;
            for (const Counts& counts : all)
                for (const auto& [sample, count] : counts) copies[sample] += count;
            for (const Counts& counts : all)
                for (const auto& [sample, count] : counts)
                    if (count > 1 && 2 * copies[sample] <= all.size()) return false;
        }
    }
    return true;
}

/// Copies in the present epoch whose batch has the same sample again.
uint64_t together(sab::Sampler& sampler) {
    uint64_t found = 0;
    for (const sab_batch& batch : sampler) {
        std::map<int64_t, uint64_t> counts;
        for (std::size_t i = 0; i < batch.count; ++i) ++counts[batch.indices[i]];
        for (const auto& [sample, count] : counts) found += count > 1 ? count : 0;
    }
    return found;
}

struct Mixed {
    std::vector<int32_t> web, books;
    sab::Sizes first, second, sizes;
    static std::vector<int32_t> lengths(std::size_t count, int seed) {
        std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
        std::vector<int32_t> made(count);
        for (int32_t& length : made) length = 1 + static_cast<int32_t>(random() % 200);
        return made;
    }
    static sab_mixture_options repeats(const double* each) {
        sab::MixtureOptions options;
        options.repeats = each;
        options.repeat_count = 2;
        return options;
    }
    explicit Mixed(const double* each)
        : web(lengths(3000, 1)),
          books(lengths(500, 2)),
          first(web),
          second(books),
          sizes(sab::Sizes::mixture({{"web", &first}, {"books", &second}}, repeats(each))) {}
};

constexpr double repeats[] = {1, 2.5};

const sab_budget budget{nullptr, 2048, {}};

template <class Options>
Options with_budget(Options options) {
    options.budgets = &budget;
    options.budget_count = 1;
    return options;
}

TEST(Copies, OfBuckets) {
    const Mixed mixed(repeats);
    sab::BucketSampler sampler(sab::Plan(mixed.sizes, with_budget(sab::PlanOptions())));
    EXPECT_TRUE(are_apart(sampler));
}

TEST(Copies, OfBucketsOfSeveralColumns) {
    const std::vector<int32_t> source = Mixed::lengths(3500, 3), target = Mixed::lengths(3500, 4);
    std::vector<int64_t> ids(3500);
    std::fill(ids.begin() + 3000, ids.end(), 1);
    const sab::Sizes of_source(source), of_target(target);
    const sab::Sizes pairs = sab::Sizes::columns({{"source", &of_source}, {"target", &of_target}});
    const sab::Sizes sizes = sab::Sizes::mixture(pairs, ids, Mixed::repeats(repeats));
    sab::BucketSampler sampler(sab::Plan(sizes, with_budget(sab::PlanOptions())));
    EXPECT_TRUE(are_apart(sampler));
}

TEST(Copies, AreCountedWhereTheyCannotBeApart) {
    constexpr double many[] = {1, 40};
    const Mixed mixed(many);
    sab::BucketSampler sampler(sab::Plan(mixed.sizes, with_budget(sab::PlanOptions())));
    const std::vector<sab_mixture_report> reports = sampler.report_sources(2);
    const uint64_t counted = together(sampler);
    EXPECT_GT(counted, 0u);
    EXPECT_EQ(reports[0].together + reports[1].together, counted);
    EXPECT_EQ(reports[0].together, 0u);
}

TEST(Copies, OfBalancedSteps) {
    const Mixed mixed(repeats);
    sab::BalancedSampler sampler(mixed.sizes, with_budget(sab::BalancedOptions()));
    EXPECT_TRUE(are_apart(sampler));
}

}  // namespace
