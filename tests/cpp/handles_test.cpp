// sab.hpp: each class, errors, moves, and exceptions that pass through callbacks.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <sab.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../c/expect.h"

namespace {

// Whether a call throws an Error with this status and these words.
template <class Call>
bool fails(sab_status status, const char* words, const Call& call) {
    try {
        call();
    } catch (const sab::Error& error) {
        if (error.status() == status && std::string(error.what()).find(words) != std::string::npos)
            return true;
        std::fprintf(stderr, "%s: %s\n", sab_status_name(error.status()), error.what());
    }
    return false;
}

std::vector<std::int32_t> tokens() {
    std::vector<std::int32_t> made(1000);
    for (std::size_t i = 0; i < made.size(); ++i)
        made[i] = static_cast<std::int32_t>(1 + i * 7919 % 97);
    return made;
}

sab::Plan plan_under(const std::vector<sab_budget>& budgets) {
    sab::PlanOptions options;
    options.budgets = budgets.data();
    options.budget_count = budgets.size();
    options.oversize = SAB_OVERSIZE_SKIP;
    return sab::Plan(sab::Sizes(tokens()), options);
}

sab::Plan small_plan() {
    return plan_under({{nullptr, 1024}});
}

std::vector<std::int64_t> walk(sab::Sampler& sampler) {
    std::vector<std::int64_t> seen;
    for (const sab::Batch& batch : sampler) seen.insert(seen.end(), batch.begin(), batch.end());
    return seen;
}

bool has_each_once(std::vector<std::int64_t> seen, std::size_t count) {
    std::sort(seen.begin(), seen.end());
    std::vector<std::int64_t> all(count);
    std::iota(all.begin(), all.end(), 0);
    return seen == all;
}

void Options_AreTheDefaultsOfC() {
    const sab_plan_options plan = SAB_PLAN_OPTIONS_INIT;
    EXPECT(sab::PlanOptions().struct_size == plan.struct_size);
    EXPECT(sab::PlanOptions().padding_target == plan.padding_target);
    EXPECT(sab::SamplerOptions().world_size == 1);
    EXPECT(sab::CacheOptions().load_wait == 60);
}

void Sizes_ComeFromVectorsPointersAndFunctions() {
    std::vector<float> lengths{3, 1, 2};
    const sab::Sizes copied(lengths), borrowed = sab::Sizes::borrowed(lengths.data(), 3);
    const sab::Sizes asked(3, [](std::int64_t index) { return 10.0 * static_cast<double>(index); });
    lengths[0] = 9;
    EXPECT(copied.size() == 3 && copied[0] == 3 && borrowed[0] == 9 && asked[2] == 20);
    const std::uint8_t bytes[] = {200, 1};
    EXPECT(sab::Sizes(bytes, 2)[0] == 200);
    EXPECT(sab::Sizes(std::vector<std::int64_t>{1LL << 40})[0] == 1099511627776.0);
    EXPECT(fails(SAB_E_ARGUMENT, "index", [&] { copied[3]; }));
    EXPECT(fails(SAB_E_IO, "/nowhere", [] { sab::Sizes::open_npy("/nowhere/sizes.npy"); }));
}

void Plan_IsMadeWrittenReadAndSaved() {
    const sab::Plan plan = small_plan();
    EXPECT(plan.info().samples == 1000 && plan.skipped().empty());
    EXPECT(plan.bucket(0).samples > 0 && plan.report().samples == 1000);
    const std::vector<unsigned char> bytes = plan.write();
    const sab::Plan read = sab::Plan::read(bytes.data(), bytes.size());
    EXPECT(read.info().fingerprint == plan.info().fingerprint);
    plan.save("handles_test.plan");
    EXPECT(sab::Plan::open("handles_test.plan").info().fingerprint == plan.info().fingerprint);
    std::remove("handles_test.plan");
    EXPECT(plan.info().budget_count == 1 && plan.budget(0) == 1024);
    EXPECT(fails(SAB_E_ARGUMENT, "index = 1", [&] { plan.budget(1); }));
}

double squares(std::uint64_t count, double length) {
    return static_cast<double>(count) * length * length;
}

void Cost_IsTermsOrAFunction() {
    EXPECT(sab::Cost::padded()(3, 10) == 30);
    const sab::Cost terms(std::vector<sab_cost_term>{{2, 0, {}}, {1, 1, {2}}});
    EXPECT(terms(3, 10) == 302);
    const auto alive = std::make_shared<int>(0);
    {
        const sab::Cost cost(
            [alive](std::uint64_t count, double length) { return squares(count, length); });
        EXPECT(alive.use_count() == 2 && cost(3, 10) == 300);
        const sab::Plan plan = plan_under({{nullptr, 1024}, {cost.get(), 50}});
        EXPECT(plan.budget(1) == 50 && plan.info().skipped > 0);
        EXPECT(plan.skipped().size() == plan.info().skipped);
    }
    EXPECT(alive.use_count() == 1);
    EXPECT(fails(SAB_E_ARGUMENT, "terms[0].coefficient",
                 [] { sab::Cost(std::vector<sab_cost_term>{{-1, 1, {1}}}); }));
}

void Sampler_IsARangeOfBatches() {
    const sab::Plan plan = small_plan();
    sab::SamplerOptions options;
    options.seed = 7;
    sab::BucketSampler sampler(plan, options);
    const auto first = walk(sampler);
    EXPECT(has_each_once(first, 1000) && sampler.position() == sampler.batch_count());
    sab::Batch after;
    EXPECT(!sampler.next(after));
    const auto second = walk(sampler);  // the next epoch
    EXPECT(sampler.epoch() == 1 && second != first && sampler.skipped().empty());
    for (const sab::Batch& batch : sampler)
        if (batch.step == 1) break;
    EXPECT(sampler.epoch() == 2 && sampler.position() == 2);
    for (const sab::Batch& batch : sampler) {
        EXPECT(batch.epoch == 2 && batch.step == 0);  // after a break from the start
        break;
    }
    sampler.set_epoch(0);
    sampler.seek(2);
    const auto state = sampler.state();
    const auto rest = walk(sampler);
    sab::BucketSampler other(plan, options);
    other.restore(state);
    EXPECT(walk(other) == rest && rest.size() < first.size());
    const sab::Batch shown = other.at(0);
    EXPECT(std::equal(shown.begin(), shown.end(), first.begin()) && shown.size() == shown.count);
    other.set_epoch(0);
    other.set_budget(0, 512);
    EXPECT(other.budget(0) == 512 && has_each_once(walk(other), 1000));
}

void Samplers_OfEachKind() {
    const sab::Sizes sizes(tokens());
    const sab::Plan plan = small_plan();
    sab::SequentialSampler sequential(plan);
    EXPECT(has_each_once(walk(sequential), 1000));
    sab::CostliestSampler costliest(plan, 3);
    EXPECT(std::distance(costliest.begin(), costliest.end()) == 3);
    sab::BionemoSizeAwareSampler greedy(sizes, 500);
    EXPECT(has_each_once(walk(greedy), 1000));
    sab::PackedOptions pack;
    pack.capacity = 128;
    sab::PackedSampler packed(sizes, pack);
    EXPECT(has_each_once(walk(packed), 1000) && packed.info().samples == 1000);
    EXPECT(packed.skipped().empty());
    sab::BalancedOptions balance;
    const sab_budget budget = {nullptr, 1024};
    balance.budgets = &budget;
    balance.budget_count = 1;
    sab::BalancedSampler balanced(sizes, balance);
    EXPECT(has_each_once(walk(balanced), 1000) && balanced.report().samples == 1000);
    sab_sampler* raw = nullptr;
    EXPECT_OK(sab_bucket_sampler_new(plan.get(), nullptr, &raw));
    sab::Sampler adopted(raw);
    EXPECT(has_each_once(walk(adopted), 1000));
}

void SizeAwareStream_OwnsItsFunction() {
    const auto alive = std::make_shared<int>(0);
    {
        sab::BionemoSizeAwareStream stream(
            [alive](std::uint64_t, std::uint64_t position, std::int64_t& index, double& size) {
                index = static_cast<std::int64_t>(position);
                size = 4;
                return position < 5;
            },
            9);
        EXPECT(alive.use_count() == 2 && has_each_once(walk(stream), 5));
    }
    EXPECT(alive.use_count() == 1);
    EXPECT(fails(SAB_E_ARGUMENT, "budget = -1", [&] {
        sab::BionemoSizeAwareStream(
            [alive](std::uint64_t, std::uint64_t, std::int64_t&, double&) { return false; }, -1);
    }));
    EXPECT(alive.use_count() == 1);
}

void Errors_HaveStatusAndMessage() {
    EXPECT(fails(SAB_E_ARGUMENT, "budgets[0].limit = -1", [] { plan_under({{nullptr, -1}}); }));
    EXPECT(fails(SAB_E_IO, "/nowhere/plan", [] { sab::Plan::open("/nowhere/plan"); }));
    EXPECT(fails(SAB_E_FORMAT, "", [] { sab::Plan::read("abc", 3); }));
    const sab::Plan plan = small_plan();
    sab::BucketSampler sampler(plan);
    EXPECT(fails(SAB_E_FORMAT, "", [&] { sampler.restore({1, 2, 3}); }));
    static_assert(std::is_base_of_v<std::runtime_error, sab::Error>);
}

void Handles_MoveAndAreRefusedAfterwards() {
    static_assert(!std::is_copy_constructible_v<sab::Plan>);
    static_assert(std::is_nothrow_move_constructible_v<sab::BucketSampler>);
    sab::Plan plan = small_plan();
    sab::Plan moved = std::move(plan);
    EXPECT(moved.info().samples == 1000);
    EXPECT(fails(SAB_E_ARGUMENT, "plan", [&] { plan.info(); }));  // NOLINT: used after a move
    plan = std::move(moved);
    sab::BucketSampler sampler(plan);
    plan = small_plan();  // frees the first; what was made from it lives on
    sab::Sampler kept = std::move(sampler);
    EXPECT(has_each_once(walk(kept), 1000));
    EXPECT(fails(SAB_E_ARGUMENT, "sampler", [&] { walk(sampler); }));  // NOLINT: after a move
    sab_plan* const released = plan.release();
    EXPECT(released != nullptr && plan.get() == nullptr);
    sab_plan_free(released);
}

// Not derived from std::exception.
struct Mine {
    int number;
};

template <class Call>
int thrown_by(const Call& call) {
    try {
        call();
    } catch (const Mine& mine) {
        return mine.number;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
    }
    return 0;
}

void OrdersOfOtherPackages_GiveEachSampleOnce() {
    const sab::Sizes sizes(tokens());
    sab::PlanOptions by_boundaries;
    const std::vector<double> boundaries{0, 30, 60, 100};
    const sab_budget budget = {nullptr, 1024};
    by_boundaries.budgets = &budget;
    by_boundaries.budget_count = 1;
    by_boundaries.bucket_rule = SAB_BUCKETS_BOUNDARIES;
    by_boundaries.boundaries = boundaries.data();
    by_boundaries.boundary_count = boundaries.size();
    const sab::Plan plan(sizes, by_boundaries);
    sab::BionemoSampler bionemo(plan);
    EXPECT(has_each_once(walk(bionemo), 1000));
    sab::BaguaOptions balancing;
    balancing.batch_size = 7;
    sab::BaguaSampler bagua(sizes, balancing);
    EXPECT(has_each_once(walk(bagua), 1000) && bagua.batch_count() == 143);
    balancing.budget = 500;
    sab::BaguaBatchSampler batches(sizes, balancing);
    EXPECT(has_each_once(walk(batches), 1000));
    EXPECT(fails(SAB_E_ARGUMENT, "budget",
                 [&] { sab::BaguaBatchSampler(sizes, sab::BaguaOptions()); }));
}

void ShardedSampler_GathersByAFunction() {
    const sab::Sizes sizes(tokens());
    const sab_budget budget = {nullptr, 1024};
    sab::PlanOptions options;
    options.budgets = &budget;
    options.budget_count = 1;
    int calls = 0;
    sab::ShardedSampler sampler(sizes, options, sab::SamplerOptions(),
                                [&](const void* mine, std::size_t size, void* all) {
                                    ++calls;
                                    std::memcpy(all, mine, size);
                                });
    EXPECT(calls == 4 && has_each_once(walk(sampler), 1000));
    EXPECT(thrown_by([&] {
               sab::ShardedSampler(sizes, options, sab::SamplerOptions(),
                                   [](const void*, std::size_t, void*) { throw Mine{5}; });
           }) == 5);
}

void ReadaheadSampler_TakesTheStream() {
    const std::vector<std::int32_t> items{1, 2, 3, 4, 5, 6, 7, 8};
    sab::Stream stream = sab::Stream::source(sab_array_stream_new, items.data(), sizeof(items[0]),
                                             items.size(), nullptr);
    EXPECT(fails(SAB_E_ARGUMENT, "batch_size",
                 [&] { sab::ReadaheadSampler(std::move(stream), sab::ReadaheadOptions()); }));
    EXPECT(stream.get() != nullptr);  // a failed call takes nothing
    sab::ReadaheadOptions options;
    options.read_ahead = 4;
    options.batch_size = 3;
    sab::ReadaheadSampler sampler(std::move(stream), options);
    EXPECT(has_each_once(walk(sampler), 8));
    EXPECT(stream.get() == nullptr);  // NOLINT: after a move
}

void Steps_HaveTheSamplesOfAllRanksAndMicroBatches() {
    const sab::Plan plan = small_plan();
    std::vector<std::int64_t> seen;
    for (std::uint64_t rank = 0; rank < 2; ++rank) {
        sab::SamplerOptions options;
        options.rank = rank;
        options.world_size = 2;
        options.micro_batches = 3;
        sab::BucketSampler sampler(plan, options);
        EXPECT(sampler.capabilities() ==
               (SAB_SAMPLER_BATCH_COUNT | SAB_SAMPLER_RANDOM_ACCESS | SAB_SAMPLER_BUDGET));
        for (const sab::Batch& batch : sampler) {
            const sab_step step = sampler.step();
            EXPECT(step.samples > batch.size() && *step.totals > *batch.total);
            EXPECT(step.micro_batches == 3 || batch.step == (sampler.batch_count() - 1) / 3);
            EXPECT(batch.padded_total() <= 1024);
            seen.insert(seen.end(), batch.begin(), batch.end());
        }
        EXPECT(fails(SAB_E_ARGUMENT, "shows no batch", [&] { sampler.step(); }));
    }
    EXPECT(has_each_once(seen, 1000));
}

void Exceptions_PassThroughCallbacks() {
    EXPECT(thrown_by([] {
               sab::Sizes(9, [](std::int64_t index) -> double {
                   if (index == 3) throw Mine{1};
                   return 1;
               });
           }) == 1);
    const sab::Cost cost([](std::uint64_t, double) -> double { throw Mine{2}; });
    EXPECT(thrown_by([&] { plan_under({{cost.get(), 100}}); }) == 2);
    EXPECT(thrown_by([&] { cost(1, 1); }) == 2);
    bool failing = true;
    sab::BionemoSizeAwareStream stream(
        [&](std::uint64_t, std::uint64_t position, std::int64_t& index, double& size) {
            if (position == 3 && failing) throw Mine{3};
            index = static_cast<std::int64_t>(position);
            size = 4;
            return position < 5;
        },
        8);
    sab::Batch batch;
    EXPECT(stream.next(batch) && thrown_by([&] { stream.next(batch); }) == 3);
    failing = false;
    std::vector<std::int64_t> rest;
    while (stream.next(batch)) rest.insert(rest.end(), batch.begin(), batch.end());
    EXPECT(rest == (std::vector<std::int64_t>{2, 3, 4}));  // continues where it failed
    sab::Cache cache("memory:");
    EXPECT(thrown_by([&] { cache.get_or_load("key", []() -> std::string { throw Mine{4}; }); }) ==
           4);
    // The next failure is the library's own again.
    EXPECT(fails(SAB_E_ARGUMENT, "nan", [&] {
        sab::Plan(sab::Sizes(1, [](std::int64_t) { return std::nan(""); }), sab::PlanOptions());
    }));
}

void Cache_KeepsValues() {
    sab::Cache cache("memory:");
    EXPECT(!cache.find("a"));
    cache.put("a", "one");
    EXPECT(cache.find("a").bytes() == "one");
    int loads = 0;
    const auto load = [&] { return std::to_string(++loads); };
    EXPECT(cache.get_or_load("b", load).bytes() == "1");
    EXPECT(cache.get_or_load("b", load).bytes() == "1" && loads == 1);
    cache.flush();
    EXPECT(cache.key_count() == 2 && cache.stats().loads == 1);
    EXPECT(std::string(cache.url()) == "memory:");
    cache.clear();
    EXPECT(cache.key_count() == 0 && !cache.find("a"));
}

void MemoryModel_IsTheCostOfAPlan() {
    std::vector<double> features, peaks;
    for (const double count : {1.0, 2.0, 4.0, 7.0, 9.0})
        for (const double length : {1.0, 3.0, 9.0, 20.0}) {
            features.insert(features.end(), {count, length});
            peaks.push_back(1000 + 100 * count * length);
        }
    const sab::MemoryModel model(features, peaks);
    const double predicted = model.predict({5, 10});
    EXPECT(predicted > 5999 && predicted < 6001 && model.info().measurements == 20);
    const auto bytes = model.write();
    EXPECT(sab::MemoryModel::read(bytes.data(), bytes.size()).predict({5, 10}) == predicted);
    model.save("handles_test.model");
    EXPECT(sab::MemoryModel::open("handles_test.model").predict({5, 10}) == predicted);
    std::remove("handles_test.model");
    const sab::Cost cost = model.cost();
    EXPECT(cost(5, 10) >= predicted);
    EXPECT(plan_under({{cost.get(), 20000}}).info().samples == 1000);
    EXPECT(fails(SAB_E_ARGUMENT, "", [] { sab::MemoryModel({}, {}); }));
}

void MemoryGuard_WatchesSteps() {
    const sab::Plan plan = small_plan();
    sab::BucketSampler sampler(plan);
    sab::Probe probe("host");
    probe.reset();
    probe.release_cache();
    EXPECT(probe.stats().current > 0);
    sab::GuardOptions options;
    options.budget = INT64_MAX / 2;
    sab::MemoryGuard guard(probe, sampler, options);
    for (const sab::Batch& batch : sampler) {
        guard.begin();
        guard.end(batch);
    }
    EXPECT(guard.info().steps == sampler.batch_count() && guard.info().out_of_memory == 0);
    EXPECT(fails(SAB_E_UNSUPPORTED, "cpu", [] { sab::Probe("cpu"); }));
}

std::vector<std::int32_t> read(sab::Stream& stream) {
    std::vector<std::int32_t> items;
    sab_record record = SAB_RECORD_INIT;
    while (stream.next(record)) items.push_back(*static_cast<const std::int32_t*>(record.data));
    return items;
}

void Stream_IsBuiltInStages() {
    const std::vector<std::int32_t> items{1, 2, 3, 4, 5, 6, 7, 8};
    const auto make = [&] {
        return sab::Stream::source(sab_array_stream_new, items.data(), sizeof(items[0]),
                                   items.size(), nullptr)
            .into(sab_block_shuffle_stream_new, 4, 1);
    };
    sab::Stream stream = make();
    const auto all = read(stream);
    EXPECT(std::is_permutation(all.begin(), all.end(), items.begin(), items.end()));
    stream.rewind();
    sab_record record = SAB_RECORD_INIT;
    EXPECT(stream.next(record));
    sab::Stream other = make();
    other.restore(stream.state());
    EXPECT(read(other) == std::vector<std::int32_t>(all.begin() + 1, all.end()));
    sab::Stream source = sab::Stream::source(sab_random_stream_new, 1);
    EXPECT(fails(SAB_E_ARGUMENT, "batch_size = 0",
                 [&] { std::move(source).into(sab_batch_stream_new, 0); }));
    EXPECT(source.next(record));  // a stage that fails leaves its source
}

}  // namespace

int main() {
    RUN(Options_AreTheDefaultsOfC);
    RUN(Sizes_ComeFromVectorsPointersAndFunctions);
    RUN(Plan_IsMadeWrittenReadAndSaved);
    RUN(Cost_IsTermsOrAFunction);
    RUN(Sampler_IsARangeOfBatches);
    RUN(Samplers_OfEachKind);
    RUN(SizeAwareStream_OwnsItsFunction);
    RUN(Errors_HaveStatusAndMessage);
    RUN(Handles_MoveAndAreRefusedAfterwards);
    RUN(OrdersOfOtherPackages_GiveEachSampleOnce);
    RUN(ShardedSampler_GathersByAFunction);
    RUN(ReadaheadSampler_TakesTheStream);
    RUN(Steps_HaveTheSamplesOfAllRanksAndMicroBatches);
    RUN(Exceptions_PassThroughCallbacks);
    RUN(Cache_KeepsValues);
    RUN(MemoryModel_IsTheCostOfAPlan);
    RUN(MemoryGuard_WatchesSteps);
    RUN(Stream_IsBuiltInStages);
    return finish();
}
