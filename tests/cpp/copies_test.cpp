// Epochs of mixtures that have a sample several times: its copies are in different batches.
#include <algorithm>
#include <map>
#include <random>
#include <sab.hpp>
#include <vector>

#include "../c/expect.h"

namespace {

// Whether in some epochs no batch has a sample twice, wherever the batches of its bucket, or those
// of the epoch where there are no buckets, are at least twice as many as its copies.
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

// Copies in the present epoch whose batch has the same sample again.
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

void Copies_OfBuckets() {
    const Mixed mixed(repeats);
    sab::BucketSampler sampler(sab::Plan(mixed.sizes, with_budget(sab::PlanOptions())));
    EXPECT(are_apart(sampler));
}

void Copies_OfBucketsOfSeveralColumns() {
    const std::vector<int32_t> source = Mixed::lengths(3500, 3), target = Mixed::lengths(3500, 4);
    std::vector<int64_t> ids(3500);
    std::fill(ids.begin() + 3000, ids.end(), 1);
    const sab::Sizes of_source(source), of_target(target);
    const sab::Sizes pairs = sab::Sizes::columns({{"source", &of_source}, {"target", &of_target}});
    const sab::Sizes sizes = sab::Sizes::mixture(pairs, ids, Mixed::repeats(repeats));
    sab::BucketSampler sampler(sab::Plan(sizes, with_budget(sab::PlanOptions())));
    EXPECT(are_apart(sampler));
}

void Copies_AreCountedWhereTheyCannotBeApart() {
    constexpr double many[] = {1, 40};
    const Mixed mixed(many);
    sab::BucketSampler sampler(sab::Plan(mixed.sizes, with_budget(sab::PlanOptions())));
    const std::vector<sab_mixture_report> reports = sampler.report_sources(2);
    const uint64_t counted = together(sampler);
    EXPECT(counted > 0);
    EXPECT(reports[0].together + reports[1].together == counted);
    EXPECT(reports[0].together == 0);
}

void Copies_OfBalancedSteps() {
    const Mixed mixed(repeats);
    sab::BalancedSampler sampler(mixed.sizes, with_budget(sab::BalancedOptions()));
    EXPECT(are_apart(sampler));
}

}  // namespace

void Copies_OfRows() {
    for (const double repeat : {2.5, 8.0}) {
        const double each[] = {1, repeat};
        const Mixed mixed(each);
        sab::PackedOptions pack;
        const uint64_t capacity = 1024;
        pack.capacities = &capacity, pack.capacity_count = 1;
        sab::PackedSampler sampler(mixed.sizes, pack);
        EXPECT(are_apart(sampler));
    }
}

int main() {
    RUN(Copies_OfRows);
    RUN(Copies_OfBuckets);
    RUN(Copies_OfBucketsOfSeveralColumns);
    RUN(Copies_AreCountedWhereTheyCannotBeApart);
    RUN(Copies_OfBalancedSteps);
    return finish();
}
