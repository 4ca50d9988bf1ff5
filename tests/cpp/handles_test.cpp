// sab.hpp: each class, errors, moves, and exceptions that pass through callbacks.
#include <algorithm>
#include <cerrno>
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
#include "../c/one.h"

namespace {

// Both standards may be tested at once, in one folder.
std::string file_of(const char* kind) {
    return "handles_test_" + std::to_string(__cplusplus) + "." + kind;
}

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
    EXPECT(sab::SamplerOptions().world_size == 0 && sab::CacheOptions().load_wait == 0);
}

void Sizes_ComeFromVectorsPointersAndFunctions() {
    std::vector<float> lengths{3, 1, 2};
    const sab::Sizes copied(lengths), borrowed = sab::Sizes::borrowed(lengths.data(), 3);
    const sab::Sizes asked(3, [](std::int64_t index) { return 10.0 * static_cast<double>(index); });
    lengths[0] = 9;
    EXPECT(copied.size() == 3 && copied[0] == 3 && borrowed[0] == 9 && asked[2] == 20);
    const std::uint8_t bytes[] = {200, 1};
    EXPECT(sab::Sizes(bytes, 2)[0] == 200);
    EXPECT(sab::Sizes(bytes, 2).values() == (std::vector<double>{200, 1}));
    EXPECT(sab::Sizes(bytes, 0).values().empty());
    EXPECT(sab::Sizes(std::vector<std::int64_t>{1LL << 40})[0] == 1099511627776.0);
    EXPECT(fails(SAB_E_ARGUMENT, "first = 3", [&] { copied[3]; }));
    EXPECT(fails(SAB_E_IO, "/nowhere", [] { sab::Sizes::open("/nowhere/sizes.npy"); }));
}

// An array of three int32 in Arrow's C data interface, and how often one was released.
int released = 0;
const std::int32_t three[] = {5, 0, 7};
const void* three_buffers[] = {nullptr, three};
ArrowArray arrow_array() {
    ArrowArray array{};
    array.length = 3;
    array.n_buffers = 2;
    array.buffers = three_buffers;
    array.release = [](ArrowArray* mine) {
        ++released;
        mine->release = nullptr;
    };
    return array;
}
ArrowSchema arrow_schema() {
    ArrowSchema schema{};
    schema.format = "i";
    schema.name = "length";
    schema.release = [](ArrowSchema* mine) { mine->release = nullptr; };
    return schema;
}

void Sizes_OwnArrowArrays() {
    released = 0;
    ArrowArray array = arrow_array();
    ArrowSchema schema = arrow_schema();
    EXPECT(
        fails(SAB_E_ARGUMENT, "column", [&] { sab::Sizes::from_arrow(array, schema, "frames"); }));
    EXPECT(array.release != nullptr && released == 0);  // still the caller's
    {
        const sab::Sizes sizes = sab::Sizes::from_arrow(array, schema);
        EXPECT(array.release == nullptr && released == 0);
        EXPECT(sizes.size() == 3 && sizes[2] == 7);
    }
    EXPECT(released == 1 && schema.release != nullptr);
    schema.release(&schema);
}

// A stream of as many arrays as `private_data` says.
ArrowArrayStream arrow_stream(std::size_t& left) {
    ArrowArrayStream stream{};
    stream.get_schema = [](ArrowArrayStream*, ArrowSchema* out) {
        *out = arrow_schema();
        return 0;
    };
    stream.get_next = [](ArrowArrayStream* mine, ArrowArray* out) {
        std::size_t& arrays = *static_cast<std::size_t*>(mine->private_data);
        *out = arrays > 0 ? arrow_array() : ArrowArray{};
        arrays -= arrays > 0 ? 1 : 0;
        return 0;
    };
    stream.get_last_error = [](ArrowArrayStream*) -> const char* { return nullptr; };
    stream.release = [](ArrowArrayStream* mine) { mine->release = nullptr; };
    stream.private_data = &left;
    return stream;
}

void Sizes_OwnArrowStreams_AndAreJoined() {
    released = 0;
    std::size_t left = 2;
    ArrowArrayStream stream = arrow_stream(left);
    {
        std::vector<sab::Sizes> parts;
        parts.push_back(sab::Sizes::from_arrow(stream));
        EXPECT(stream.release == nullptr && parts[0].size() == 6 && parts[0][5] == 7);
        parts.push_back(sab::Sizes(std::vector<float>{2.5F}));
        const sab::Sizes joined = sab::Sizes::join(parts);
        parts.clear();
        EXPECT(released == 0 && joined.size() == 7 && joined[3] == 5 && joined[6] == 2.5);
        const sab::Sizes::Source source = joined.source(6);
        EXPECT(source.part == 1 && source.row == 0);
        EXPECT(fails(SAB_E_ARGUMENT, "index = 7", [&] { joined.source(7); }));
    }
    EXPECT(released == 2);
    EXPECT(sab::Sizes::join({}).size() == 0);
}

void Sizes_ComeFromFiles() {
    const auto write = [](const char* text) {
        std::FILE* const file = std::fopen(file_of("sizes").c_str(), "wb");
        EXPECT(file != nullptr && std::fputs(text, file) >= 0);
        if (file != nullptr) std::fclose(file);
    };
    write("5\n7\n");
    const sab::Sizes numbers = sab::Sizes::open(file_of("sizes").c_str());
    EXPECT(numbers[1] == 7);
    EXPECT(std::string(numbers.info().description) == "lines of numbers: 2 sizes");
    write("{\"text\": \"two words\"}\n");
    sab::SizesFileOptions options;
    options.column = "text";
    options.text_unit = SAB_TEXT_WORDS;
    EXPECT(sab::Sizes::open(file_of("sizes").c_str(), options)[0] == 2);
    std::remove(file_of("sizes").c_str());
    EXPECT(fails(SAB_E_IO, "/nowhere", [] { sab::Sizes::open("/nowhere/sizes.idx"); }));
}

sab::Sizes pairs() {
    std::vector<std::int32_t> target(1000);
    for (std::size_t i = 0; i < target.size(); ++i)
        target[i] = static_cast<std::int32_t>(1 + i * 104729 % 83);
    const sab::Sizes source(tokens()), other(target);
    return sab::Sizes::columns({{"source", &source}, {"target", &other}});
}

void Sizes_HaveNamedColumns() {
    const sab::Sizes sizes = pairs();
    EXPECT(sizes.size() == 1000 && sizes.info().columns == 2);
    EXPECT(std::string(sizes.info().column_names[1]) == "target");
    EXPECT(sizes.row(999) == (std::vector<double>{sizes.values()[1998], sizes.values()[1999]}));
    EXPECT(sizes.row(0) == (std::vector<double>{1, 1}) && sizes.values()[3] == 1 + 104729 % 83);
    bool is_refused = false;  // it has no room for both
    try {
        (void)sizes[0];
    } catch (const std::invalid_argument& error) {
        is_refused = std::string(error.what()).find("row()") != std::string::npos;
    }
    EXPECT(is_refused);
    EXPECT(fails(SAB_E_ARGUMENT, "first = 1000", [&] { sizes.row(1000); }));
    const sab::Sizes three(std::vector<int>{1, 2, 3}), unnamed(tokens());
    EXPECT(unnamed.info().columns == 1 && unnamed.info().column_names == nullptr);
    EXPECT(fails(SAB_E_ARGUMENT, "3",
                 [&] { sab::Sizes::columns({{"source", &unnamed}, {"target", &three}}); }));
}

void Mixtures_HaveTheirProportions() {
    const sab::Sizes wiki(tokens()), code(std::vector<int>(300, 7));
    const double repeats[] = {0.5, 3};
    sab::MixtureOptions options;
    options.repeats = repeats;
    options.repeat_count = 2;
    const sab::Sizes mixture = sab::Sizes::mixture({{"wiki", &wiki}, {"code", &code}}, options);
    EXPECT(mixture.info().sources == 2 && mixture.size() == wiki.size() + 300);
    EXPECT(wiki.info().sources == 0);
    const sab_mixture_source source = mixture.mixture_source(1, 4);
    EXPECT(std::string(source.name) == "code" && source.epoch_samples == 900);
    const sab::Sizes::Source place = mixture.source(wiki.size() + 2);
    EXPECT(place.part == 1 && place.row == 2);
    const std::vector<std::uint32_t> counts = mixture.mixture_counts(1);
    EXPECT(counts.back() == 3);

    sab::PackedOptions pack;
    pack.capacities = one_count(500), pack.capacity_count = 1;
    sab::SamplerOptions walk;
    walk.epoch = 1;
    sab::PackedSampler sampler(mixture, pack, walk);
    std::vector<std::uint32_t> seen(mixture.size());
    for (sab::Batch batch; sampler.next(batch);)
        for (const std::int64_t index : batch) ++seen[static_cast<std::size_t>(index)];
    EXPECT(seen == counts);
    const std::vector<sab_mixture_report> reports = sampler.report_sources(2);
    EXPECT(reports[1].samples == 900 && reports[1].most == 3 && reports[1].deviation <= 1);
    EXPECT(fails(SAB_E_ARGUMENT, "count = 3", [&] { sampler.report_sources(3); }));

    const sab::Sizes flat = sab::Sizes::mixture(code, std::vector<std::int64_t>(300, 5));
    EXPECT(flat.info().sources == 1 && flat.mixture_source(0).id == 5);
    EXPECT(fails(SAB_E_ARGUMENT, "count = 2", [&] { sab::Sizes::mixture(code, {0, 1}); }));
    EXPECT(fails(SAB_E_ARGUMENT, "sources[0]: is a mixture",
                 [&] { sab::Sizes::mixture({{"flat", &flat}}); }));
    EXPECT(fails(SAB_E_ARGUMENT, "sizes: are no mixture", [&] { wiki.mixture_counts(); }));
}

void Blocks_AreTheBatches() {
    const std::uint64_t batch_size = 2;
    sab::PlanOptions options;
    options.batch_sizes = &batch_size;
    options.batch_size_count = 1;
    const sab::Plan plan(sab::Sizes(std::vector<int>{5, 3, 5, 4, 3, 4, 9, 1, 2}), options);
    for (const std::size_t most : {std::size_t{1}, std::size_t{2}, std::size_t{1024}}) {
        sab::BucketSampler sampler(plan), other(plan);
        sab::Block block;
        sab::Batch batch;
        std::size_t batches = 0;
        while (sampler.next_block(block, most)) {
            EXPECT(block.size() >= 1 && block.size() <= most);
            for (std::size_t i = 0; i < block.size(); ++i, ++batches) {
                EXPECT(other.next(batch));
                EXPECT(std::equal(batch.begin(), batch.end(), block.begin_of(i),
                                  block.begin_of(i + 1)));
                EXPECT(block.total[i] == batch.total[0] && block.step[i] == batch.step);
            }
        }
        EXPECT(batches == sampler.batch_count() && !other.next(batch));
    }
    sab::BucketSampler sampler(plan);
    sab::Block block;
    EXPECT(fails(SAB_E_ARGUMENT, "max_batches = 0", [&] { sampler.next_block(block, 0); }));
    EXPECT(sampler.next_block(block));  // as if the call had not been
}

double squares(std::uint64_t count, double length) {
    return static_cast<double>(count) * length * length;
}

void Plans_OfSeveralColumns() {
    const sab::Cost weighted = sab::Cost::padded({1, 2.5});
    EXPECT(weighted(2, std::vector<double>{3, 4}) == 26);
    const sab::Cost function([](std::uint64_t count, const std::vector<double>& lengths,
                                const std::vector<double>& totals) {
        EXPECT(totals[1] == static_cast<double>(count) * lengths[1]);
        return static_cast<double>(count) * (lengths[0] + 2.5 * lengths[1]);
    });
    EXPECT(function(2, std::vector<double>{3, 4}) == 26);
    const sab_budget budgets[] = {{weighted.get(), 4000}, {function.get(), 4000}};
    const double multiples[] = {8, 4};
    sab::PlanOptions options;
    options.budgets = budgets;
    options.budget_count = 2;
    options.length_multiples = multiples;
    options.length_multiple_count = 2;
    const sab::Plan plan(pairs(), options);
    EXPECT(plan.info().columns == 2 && std::string(plan.info().column_names[0]) == "source");
    EXPECT(plan.bucket(0).columns == 2 && plan.bucket(0).longest[1] <= 83);
    sab::BucketSampler sampler(plan);
    for (const sab::Batch& batch : sampler) {
        const double *const length = batch.padded_length, count = static_cast<double>(batch.count);
        EXPECT(batch.padded_total() == count * (length[0] + length[1]));
        EXPECT(count * (length[0] + 2.5 * length[1]) <= 4000 && std::fmod(length[1], 4) == 0);
    }
    const sab::Cost of_one(squares);
    const sab_budget wrong = {of_one.get(), 4000};
    options.budgets = &wrong;
    options.budget_count = 1;
    bool is_refused = false;
    try {
        const sab::Plan refused(pairs(), options);
    } catch (const std::invalid_argument&) {
        is_refused = true;
    }
    EXPECT(is_refused);
}

void Plan_IsMadeWrittenReadAndSaved() {
    const sab::Plan plan = small_plan();
    EXPECT(plan.info().samples == 1000 && plan.skipped().empty());
    EXPECT(plan.bucket(0).samples > 0 && plan.report().samples == 1000);
    EXPECT(plan.shapes().at(0).count > 0 && plan.shapes()[0].columns == 1);
    const std::vector<unsigned char> bytes = plan.write();
    const sab::Plan read = sab::Plan::read(bytes.data(), bytes.size());
    EXPECT(read.info().fingerprint == plan.info().fingerprint);
    plan.save(file_of("plan").c_str());
    EXPECT(sab::Plan::open(file_of("plan").c_str()).info().fingerprint == plan.info().fingerprint);
    std::remove(file_of("plan").c_str());
    EXPECT(plan.info().budget_count == 1 && plan.info().limits[0] == 1024);
}

void Cost_IsTermsOrAFunction() {
    EXPECT(sab::Cost::padded()(3, 10) == 30);
    const sab::Cost terms(std::vector<sab::CostTerm>{{2, 0, {}}, {1, 1, {2}}});
    EXPECT(terms(3, 10) == 302);
    const auto alive = std::make_shared<int>(0);
    {
        const sab::Cost cost(
            [alive](std::uint64_t count, double length) { return squares(count, length); });
        EXPECT(alive.use_count() == 2 && cost(3, 10) == 300);
        const sab::Plan plan = plan_under({{nullptr, 1024}, {cost.get(), 50}});
        EXPECT(plan.info().limits[1] == 50 && plan.info().skipped > 0);
        EXPECT(plan.skipped().size() == plan.info().skipped);
    }
    EXPECT(alive.use_count() == 1);
    EXPECT(fails(SAB_E_ARGUMENT, "terms[0].coefficient",
                 [] { sab::Cost(std::vector<sab::CostTerm>{{-1, 1, {1}}}); }));
}

void Sampler_IsARangeOfBatches() {
    const sab::Plan plan = small_plan();
    sab::SamplerOptions options;
    options.seed = 7;
    sab::BucketSampler sampler(plan, options);
    EXPECT(sampler.shapes().size() >= plan.shapes().size());
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
    EXPECT(sampler.state_at(2) == state);
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
    sab::SequentialSampler sequential(plan, sab::SamplerOptions());
    EXPECT(has_each_once(walk(sequential), 1000));
    sab::CostliestSampler costliest(plan, 3);
    EXPECT(std::distance(costliest.begin(), costliest.end()) == 3);
    sab::OrderedSampler greedy(sizes, 500);
    EXPECT(has_each_once(walk(greedy), 1000));
    sab::PackedOptions pack;
    pack.capacities = one_count(128), pack.capacity_count = 1;
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

void StepPlan_ShowsTheSamplesOfEachRank() {
    const std::vector<std::int32_t> lengths = {7, 2, 5, 3, 6, 1};
    const sab::Sizes sizes(lengths);
    sab::StepPlanOptions options;
    const sab_budget budget = {nullptr, 8};
    options.world_size = 2;
    options.budgets = &budget;
    options.budget_count = 1;
    const sab::StepPlan plan(sizes, options);
    EXPECT(plan.view().micro_batches == 2 && plan.view().rank_imbalance[0] == 1);
    std::vector<int> seen(6);
    for (std::uint64_t rank = 0; rank < 2; ++rank)
        for (const auto& micro_batch : plan.rank(rank))
            for (const std::int64_t sample : micro_batch) ++seen[static_cast<std::size_t>(sample)];
    EXPECT(seen == std::vector<int>(6, 1));
    EXPECT(plan.loss_weights(SAB_LOSS_BY_TOKEN)[0] == 7.0 / 24);
    EXPECT(plan.loss_weights(SAB_LOSS_BY_TOKEN, {1, 1, 0, 0, 0, 0})[1] == 0.5);
    EXPECT(fails(SAB_E_ARGUMENT, "options.order = 3", [&] {
        options.order = 3;
        sab::StepPlan(sizes, options);
    }));
    bool is_refused = false;
    try {
        plan.rank(2);
    } catch (const std::out_of_range&) {
        is_refused = true;
    }
    EXPECT(is_refused);
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
    EXPECT(fails(SAB_E_ARGUMENT, "limit = -1", [&] {
        sab::BionemoSizeAwareStream(
            [alive](std::uint64_t, std::uint64_t, std::int64_t&, double&) { return false; }, -1);
    }));
    EXPECT(alive.use_count() == 1);
}

void ContextPlans_HaveThePartsOfEachRank() {
    const std::vector<std::int32_t> lengths{40, 8, 8, 8};
    const sab::Sizes sizes(lengths);
    sab::ContextOptions options;
    options.overhead = 0.5;
    const sab::ContextPlan plan(sizes, 4, 16, options);
    EXPECT(plan.view().samples == 4 && plan.view().makespan == 19.5);
    const auto parts = plan.parts(1);
    EXPECT(parts.size() == 2 && parts[0].of == 4 && parts[0].head_begin == 5);
    bool is_refused = false;
    try {
        plan.parts(4);
    } catch (const std::invalid_argument&) {
        is_refused = true;
    }
    EXPECT(is_refused);
    EXPECT(fails(SAB_E_ARGUMENT, "lengths[0] = 40", [&] { sab::ContextPlan(sizes, 2, 16); }));
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
    sab::BionemoSampler bionemo(plan, sab::BionemoOptions());
    EXPECT(has_each_once(walk(bionemo), 1000));
    sab::BaguaOptions balancing;
    balancing.batch_size = 7;
    sab::BaguaSampler bagua(sizes, balancing);
    EXPECT(has_each_once(walk(bagua), 1000) && bagua.batch_count() == 143);
    balancing.batch_size = 0;
    balancing.limit = 500;
    sab::BaguaSampler batches(sizes, balancing);
    EXPECT(has_each_once(walk(batches), 1000));
    balancing.batch_size = 7;
    EXPECT(fails(SAB_E_ARGUMENT, "batch_size", [&] { sab::BaguaSampler(sizes, balancing); }));
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

void Steps_HaveTheSamplesOfAllRanksAndMicroBatches() {
    const sab::Plan plan = small_plan();
    std::vector<std::int64_t> seen;
    for (std::uint64_t rank = 0; rank < 2; ++rank) {
        sab::SamplerOptions options;
        options.rank = rank;
        options.world_size = 2;
        options.micro_batches = 3;
        sab::BucketSampler sampler(plan, options);
        EXPECT(sampler.capabilities() == (SAB_SAMPLER_BATCH_COUNT | SAB_SAMPLER_RANDOM_ACCESS |
                                          SAB_SAMPLER_BUDGET | SAB_SAMPLER_SCHEDULE));
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

void Schedules_HaveTheBatchesOfAllRanks() {
    const sab::Plan plan = small_plan();
    sab::SamplerOptions options;
    options.world_size = 2;
    sab::BucketSampler sampler(plan, options);
    ArrowArrayStream stream = sampler.schedule();
    ArrowArray array;
    EXPECT(stream.get_next(&stream, &array) == 0);
    stream.release(&stream);
    EXPECT(static_cast<std::uint64_t>(array.length) == 2 * sampler.batch_count());
    const auto* const indices =
        static_cast<const std::int64_t*>(array.children[3]->children[0]->buffers[1]);
    EXPECT(has_each_once({indices, indices + array.children[3]->children[0]->length}, 1000));
    array.release(&array);
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

void Histogram_MakesPlansThatLocateSamples() {
    const std::vector<std::int32_t> numbers = tokens();
    const sab::Sizes sizes(numbers);
    sab::Histogram histogram, parts;
    const std::vector<std::uint64_t> within = histogram.number(sizes);
    parts.merge(sab::Histogram(sizes));
    parts.merge(histogram);
    parts.subtract(histogram);
    const std::vector<unsigned char> bytes = parts.write();
    EXPECT(sab::Histogram::read(bytes.data(), bytes.size()).info().fingerprint ==
           histogram.info().fingerprint);
    const sab_histogram_info info = histogram.info();
    EXPECT(std::accumulate(info.entry_counts, info.entry_counts + info.entries, std::uint64_t{0}) ==
           numbers.size());
    EXPECT(std::is_sorted(info.entry_sizes, info.entry_sizes + info.entries));
    EXPECT(info.entry_sources == nullptr);
    const sab_budget budget = {nullptr, 2000};
    sab::PlanOptions options;
    options.budgets = &budget;
    options.budget_count = 1;
    const sab::Plan counted(histogram, options), plan(sizes, options);
    sab::BucketSampler sampler(plan);
    const std::vector<double> each(numbers.begin(), numbers.end());
    const sab::Places places = counted.locate(each, within);
    std::int64_t position = 0;
    for (const sab::Batch& batch : sampler) {
        for (std::size_t k = 0; k < batch.size(); ++k) {
            const auto sample = static_cast<std::size_t>(batch.indices[k]);
            EXPECT(places.batches[sample] == position);
            EXPECT(places.slots[sample] == static_cast<std::int64_t>(k));
        }
        ++position;
    }
    EXPECT(fails(SAB_E_UNSUPPORTED, "histogram", [&] { sab::BucketSampler refused(counted); }));
}

void Packing_LocatesSamplesInRows() {
    const std::vector<std::int32_t> numbers = tokens();
    const sab::Sizes sizes(numbers);
    sab::Histogram histogram;
    const std::vector<std::uint64_t> within = histogram.number(sizes);
    sab::PackedOptions options;
    const std::uint64_t capacity = 2000;
    options.capacities = &capacity;
    options.capacity_count = 1;
    options.oversize = SAB_OVERSIZE_SKIP;
    options.method = SAB_PACK_BEST_FIT;
    const sab::Packing packing(histogram, options);
    sab::PackedSampler sampler(sizes, options);
    EXPECT(packing.info().bins == sampler.info().bins);
    const sab::BinPatterns patterns = packing.patterns();
    EXPECT(std::accumulate(patterns.bins, patterns.bins + patterns.count, std::uint64_t{0}) ==
           packing.info().bins);
    EXPECT(patterns.begins[patterns.count] >= patterns.count);
    const sab::Places places = packing.locate({numbers.begin(), numbers.end()}, within);
    std::int64_t position = 0;
    for (const sab::Batch& batch : sampler) {
        for (std::size_t k = 0; k < batch.size(); ++k) {
            const auto sample = static_cast<std::size_t>(batch.indices[k]);
            EXPECT(places.batches[sample] == position);
            EXPECT(places.slots[sample] == static_cast<std::int64_t>(k));
        }
        ++position;
    }
    EXPECT(places.batch_count == static_cast<std::uint64_t>(position));
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
    model.save(file_of("model").c_str());
    EXPECT(sab::MemoryModel::open(file_of("model").c_str()).predict({5, 10}) == predicted);
    std::remove(file_of("model").c_str());
    const sab::Cost cost = model.cost();
    EXPECT(cost(5, 10) >= predicted);
    EXPECT(plan_under({{cost.get(), 20000}}).info().samples == 1000);
    EXPECT(fails(SAB_E_ARGUMENT, "", [] { sab::MemoryModel({}, {}); }));
    bool is_refused = false;  // the library reads as many as the model has
    try {
        (void)model.predict({5});
    } catch (const std::invalid_argument&) {
        is_refused = true;
    }
    EXPECT(is_refused);
}

// The peak of a step of pairs, with attention from target to source.
double peak_of_pairs(std::uint64_t count, double source, double target) {
    return 1e6 + static_cast<double>(count) * (300 * (source + target) + 2 * source * target);
}

void MemoryModel_OfPairs_KeepsTheBudgetOfTheirPlan() {
    sab::MeasurementOptions range;
    const double shortest[] = {0, 0}, longest[] = {100, 100};
    range.shortest = shortest;
    range.longest = longest;
    range.column_count = 2;
    range.max_count = 1000;
    std::vector<double> features, peaks;
    for (const sab::MeasurementPoint& point : sab::measurement_points(range, 24)) {
        const double source = point.lengths[0], target = point.lengths[1];
        EXPECT(point.lengths.size() == 2);
        features.insert(features.end(), {static_cast<double>(point.count), source, target});
        peaks.push_back(peak_of_pairs(point.count, source, target));
    }
    const char* const names[] = {"source", "target"};
    sab::ModelOptions named;
    named.column_names = names;
    const sab::MemoryModel model(features, peaks, named);
    EXPECT(std::string(model.info().column_names[1]) == "target");
    EXPECT(std::fabs(model.predict({7, 30, 50}) - peak_of_pairs(7, 30, 50)) < 10);
    const sab::Cost cost = model.cost();
    const sab_budget budget = {cost.get(), 2e6, {}};
    sab::PlanOptions options;
    options.budgets = &budget;
    options.budget_count = 1;
    const sab::Plan plan(pairs(), options);
    sab::BucketSampler sampler(plan);
    double largest = 0;
    for (const sab::Batch& batch : sampler) {
        const double* const length = batch.padded_length;
        largest = std::max(largest, peak_of_pairs(batch.count, length[0], length[1]));
    }
    EXPECT(largest > 1.7e6 && largest <= 2e6 * (1 + 1e-6));
    const sab_budget large = {cost.get(), 4e6, {}};
    range.budget = &large;
    for (const sab::MeasurementPoint& point : sab::measurement_points(range, 24))
        EXPECT(cost(point.count, point.lengths) <= 0.9 * 4e6 * (1 + 1e-9));
    EXPECT(fails(SAB_E_ARGUMENT, "columns = 1", [&] { cost(1, 10); }));
    EXPECT(fails(SAB_E_ARGUMENT, "2 columns, source and target",
                 [&] { plan_under({{cost.get(), 2e6}}); }));
    EXPECT(fails(SAB_E_ARGUMENT, "points = 0", [&] { sab::measurement_points(range, 0); }));
    range.column_count = 9;
    EXPECT(fails(SAB_E_ARGUMENT, "column_count = 9", [&] { sab::measurement_points(range, 24); }));
    bool is_refused = false;
    try {
        (void)sab::measurement_points(range, SIZE_MAX);
    } catch (const std::invalid_argument&) {
        is_refused = true;
    }
    EXPECT(is_refused);
}

void Errors_HaveTheirParts() {
    try {
        plan_under({{nullptr, 1024}, {nullptr, -1}});
        EXPECT(false);
    } catch (const sab::Error& error) {
        EXPECT(error.argument() == "options.budgets[1].limit" && error.value() == "-1");
        EXPECT(error.rule() == "must be finite and above 0" && error.code() == 0);
    }
    try {
        sab::Plan::open("/no/such/plan");
        EXPECT(false);
    } catch (const sab::Error& error) {
        EXPECT(error.status() == SAB_E_IO && error.code() == ENOENT);
        EXPECT(error.argument().empty() && error.value() == "/no/such/plan");
        EXPECT(std::string(error.what()).find(error.rule()) != std::string::npos);
    }
}

void MemoryGuard_WatchesSteps() {
    const sab::Plan plan = small_plan();
    sab::BucketSampler sampler(plan);
    sab::Probe probe("host");
    probe.reset();
    probe.release_cache();
    EXPECT(probe.stats().current > 0);
    sab::GuardOptions options;
    options.limit = INT64_MAX / 2;
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
    sab_record record = {};
    while (stream.next(record)) items.push_back(*static_cast<const std::int32_t*>(record.data));
    return items;
}

sab::Stream list_of(const std::vector<std::int32_t>& items) {
    std::vector<sab_record> records;
    for (const std::int32_t& item : items)
        records.push_back({SAB_RECORD_BYTES, sizeof item, &item, sizeof item});
    return sab::Stream::source(sab_list_stream_new, records.data(), records.size(), nullptr);
}

void Stream_IsBuiltInStages() {
    const std::vector<std::int32_t> items{1, 2, 3, 4, 5, 6, 7, 8};
    const auto make = [&] {
        return list_of(items).into(sab_shuffle_stream_new, SAB_SHUFFLE_BLOCKS, 4, 1);
    };
    sab::Stream stream = make();
    const auto all = read(stream);
    EXPECT(std::is_permutation(all.begin(), all.end(), items.begin(), items.end()));
    stream.rewind();
    sab_record record = {};
    EXPECT(stream.next(record));
    sab::Stream other = make();
    other.restore(stream.state());
    EXPECT(read(other) == std::vector<std::int32_t>(all.begin() + 1, all.end()));
    sab::Stream source = sab::Stream::source(sab_random_stream_new, 1);
    EXPECT(fails(SAB_E_ARGUMENT, "batch_size = 0",
                 [&] { std::move(source).into(sab_batch_stream_new, 0); }));
    EXPECT(source.next(record));  // a stage that fails leaves its source
}

// A record has two sizes: itself, and 10 minus itself.
std::int32_t two_sizes(void*, const sab_record* record, double* sizes) {
    sizes[0] = *static_cast<const std::int32_t*>(record->data);
    sizes[1] = 10 - sizes[0];
    return 0;
}

void Stream_HasRecordsOfSeveralSizes() {
    const std::vector<std::int32_t> items{1, 2, 3, 4, 5, 6, 7, 8};
    const auto make = [&] { return list_of(items); };
    const auto count = [&](sab::Stream stream) {
        std::size_t records = 0;
        sab_record list = {};
        while (stream.next(list)) {
            EXPECT(list.length <= 2);
            records += list.length;
        }
        return records;
    };
    sab::ReadaheadOptions batches;
    batches.sizes_fn = two_sizes;
    batches.columns = 2;
    const sab_budget positions = {nullptr, 29, {}};
    batches.budgets = &positions;
    batches.budget_count = 1;  // three records have at least 3 * 10
    EXPECT(count(make().into(sab_readahead_stream_new, &batches)) == items.size());
    const std::vector<double> capacities{14, 14};  // three records have 30 together
    sab::PackStreamOptions rows;
    rows.sizes_fn = two_sizes;
    rows.capacities = capacities.data();
    rows.capacity_count = capacities.size();
    EXPECT(count(make().into(sab_pack_stream_new, &rows)) == items.size());
}

}  // namespace

int main() {
    RUN(Options_AreTheDefaultsOfC);
    RUN(Sizes_ComeFromVectorsPointersAndFunctions);
    RUN(Sizes_OwnArrowArrays);
    RUN(Sizes_OwnArrowStreams_AndAreJoined);
    RUN(Sizes_ComeFromFiles);
    RUN(Sizes_HaveNamedColumns);
    RUN(Mixtures_HaveTheirProportions);
    RUN(Blocks_AreTheBatches);
    RUN(Plans_OfSeveralColumns);
    RUN(Plan_IsMadeWrittenReadAndSaved);
    RUN(Cost_IsTermsOrAFunction);
    RUN(Sampler_IsARangeOfBatches);
    RUN(Samplers_OfEachKind);
    RUN(StepPlan_ShowsTheSamplesOfEachRank);
    RUN(SizeAwareStream_OwnsItsFunction);
    RUN(ContextPlans_HaveThePartsOfEachRank);
    RUN(Errors_HaveStatusAndMessage);
    RUN(Handles_MoveAndAreRefusedAfterwards);
    RUN(OrdersOfOtherPackages_GiveEachSampleOnce);
    RUN(ShardedSampler_GathersByAFunction);
    RUN(Steps_HaveTheSamplesOfAllRanksAndMicroBatches);
    RUN(Schedules_HaveTheBatchesOfAllRanks);
    RUN(Exceptions_PassThroughCallbacks);
    RUN(Cache_KeepsValues);
    RUN(Histogram_MakesPlansThatLocateSamples);
    RUN(Packing_LocatesSamplesInRows);
    RUN(MemoryModel_IsTheCostOfAPlan);
    RUN(MemoryModel_OfPairs_KeepsTheBudgetOfTheirPlan);
    RUN(Errors_HaveTheirParts);
    RUN(MemoryGuard_WatchesSteps);
    RUN(Stream_IsBuiltInStages);
    RUN(Stream_HasRecordsOfSeveralSizes);
    return finish();
}
