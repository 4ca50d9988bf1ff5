/// Samples that are spread over the ranks: one plan from their histograms, and as many steps for
/// every shard.
#include <algorithm>
#include <exception>

#include "base/guard.h"
#include "base/hasher.h"
#include "base/xxhash.h"
#include "ranks/ranks.h"
#include "ranks/sharded_mixture.h"
#include "ranks/sharded_sequence.h"
#include "sampler/cursor.h"
#include "sampler/state.h"

namespace sab {
namespace {

/// What each rank tells of its shard before all else.
struct Shard {
    int64_t status;
    uint64_t distinct_count;
    uint64_t options;  ///< hash
};

/// Of all that says what the plan is, but for callbacks.
uint64_t hash_of(const EpochChoice* mixture, const PlanOptions& options,
                 const sab_sampler_options& given, const Ranks& ranks) {
    Hasher hash;
    const auto add = [&](const auto& value) { hash.add(value); };
    const auto add_all = [&](const auto& values) {
        add(uint64_t{values.size()});
        hash.add_all(values);
    };
    add(uint64_t{order_version});
    add(ranks.world_size);
    add(given.seed);
    add(given.epoch);
    add(given.micro_batches);
    add(given.steps_per_epoch);
    for (const int32_t value : {options.bucket_rule, options.tail, options.oversize,
                                static_cast<int32_t>(options.chooses_shapes)})
        add(value);
    for (const double value : {options.padding_target, options.length_multiples[0]}) add(value);
    for (const uint64_t value :
         {uint64_t{options.bucket_count}, options.bucket_batches, options.max_batch_size,
          options.min_batch_size, options.batch_size_multiple, uint64_t{options.max_shapes}})
        add(value);
    add_all(options.boundaries);
    add_all(options.batch_sizes);
    add_all(options.id_shapes);
    add(uint64_t{options.has_ids});
    add(uint64_t{options.budgets.size()});
    for (const Budget& budget : options.budgets) {
        add(budget.limit);
        hash.add_all(budget.cost.terms());
    }
    if (mixture != nullptr) add(mixture->options_fingerprint());
    return hash.digest();
}

[[noreturn]] void fail_as(std::size_t rank, int64_t status, sab_status with) {
    const char* const name = sab_status_name(static_cast<sab_status>(status));
    fail(with, "sizes: rank ", rank, " failed with ", name, "; see the error on that rank");
}

/// Checks what the ranks tell of their shards; gives the most distinct sizes of one.
uint64_t check_shards(std::span<const Shard> shards, const Ranks& ranks) {
    const Shard& mine = shards[ranks.rank];
    uint64_t most_distinct = 0;
    for (std::size_t r = 0; r < shards.size(); ++r) {
        if (shards[r].status != SAB_OK)
            fail_as(r, shards[r].status,
                    shards[r].status == SAB_E_ARGUMENT ? SAB_E_ARGUMENT : SAB_E_MISMATCH);
        if (shards[r].options != mine.options)
            fail_about(
                SAB_E_MISMATCH, "plan", no_value,
                "its options, the seed, the epoch, the world size, the micro-batches or the "
                "mixture (its sources, repeats, schedule and seed) are not the same on ranks ",
                ranks.rank, " and ", r);
        if (shards[r].distinct_count > largest_sample_count)
            fail_about(SAB_E_MISMATCH, "all_gather", no_value, "slot ", r, " holds ",
                       shards[r].distinct_count, " distinct sizes, which no rank gave");
        most_distinct = std::max(most_distinct, shards[r].distinct_count);
    }
    check(most_distinct > 0, "sizes.count", 0, "must be at least 1 on some rank");
    return most_distinct;
}

/// Other ranks know the sources of samples, and no other ids of them.
void check_ids(const Columns& sizes, const sab_plan_options& options) {
    if (options.separate_by == nullptr) return;
    const EpochChoice* const choice = sizes.choice().get();
    if (choice == nullptr)
        refuse_argument(
            "plan.separate_by_count", options.separate_by_count,
            "must be 0 for samples that are spread over ranks, unless they are a mixture");
    check(options.separate_by_count == sizes.count(), "plan.separate_by_count",
          options.separate_by_count, "must be the number of samples, ", sizes.count());
    for (std::size_t i = 0; i < sizes.count(); ++i)
        if (const int64_t id = choice->id(choice->source_of()[i]); options.separate_by[i] != id)
            refuse_argument(named("plan.separate_by[", i, "]"), options.separate_by[i],
                            "must be the id of the sample's source, ", id,
                            ", for samples that are spread over ranks");
}

/// Checks what this rank has before any other hears of it.
Sorted read_shard(const Columns& sizes, const PlanOptions& options) {
    check(options.tail == SAB_TAIL_KEEP, "plan.tail", options.tail,
          "must be SAB_TAIL_KEEP (0) for samples that are spread over ranks");
    check(options.oversize != SAB_OVERSIZE_SINGLE, "plan.oversize", options.oversize,
          "must not be SAB_OVERSIZE_SINGLE (2) for samples that are spread over ranks");
    if (sizes.choice() != nullptr) options.check_kept_costs();
    if (sizes.count() == 0) return {};
    return sort_by_size(sizes[0], true, options.progress);
}

/// Tells the other ranks whether this one failed. A failure of one is one of all.
void share_failure(const std::exception_ptr& failure, int64_t status, std::span<int64_t> statuses,
                   const Ranks& ranks) {
    ranks.gather<int64_t>({&status, 1}, statuses);
    if (failure) std::rethrow_exception(failure);
    for (std::size_t r = 0; r < statuses.size(); ++r)
        if (statuses[r] != SAB_OK) fail_as(r, statuses[r], SAB_E_MISMATCH);
}

/// What all ranks tell of their samples.
std::vector<ToldSample> gather_samples(const Sorted& own, const EpochChoice& choice,
                                       const Histograms& histograms, std::span<int64_t> statuses,
                                       const Ranks& ranks) {
    std::vector<ToldSample> mine, all;
    int64_t status = SAB_OK;
    const std::exception_ptr failure = caught(
        [&] {
            mine.resize(std::ranges::max(count_samples(histograms)));
            all.resize(mine.size() * ranks.world_size);
        },
        status);
    share_failure(failure, status, statuses, ranks);
    write_samples(own, choice.source_of(), mine);
    ranks.gather<ToldSample>(mine, all);
    return all;
}

/// The sampler of one rank: no other takes samples of its shard.
std::unique_ptr<sab_sampler> make_cursor(std::unique_ptr<Sequence> sequence,
                                         const sab_sampler_options& given) {
    sab_sampler_options alone SAB_SAMPLER_OPTIONS_INIT;
    alone.seed = given.seed;
    alone.epoch = given.epoch;
    alone.micro_batches = given.micro_batches;
    alone.steps_per_epoch = given.steps_per_epoch;
    return std::unique_ptr<sab_sampler>(new_cursor(std::move(sequence), SamplerOptions(alone)));
}

std::unique_ptr<sab_sampler> make_mixed(const EpochChoice& choice, const Histograms& histograms,
                                        std::span<const ToldSample> told,
                                        const PlanOptions& options,
                                        const sab_sampler_options& given, const Ranks& ranks,
                                        Made& made) {
    const auto mixture =
        std::make_shared<const ShardedMixture>(choice, histograms, told, options, ranks);
    auto sampler = make_cursor(
        std::make_unique<MixedSequence>(
            mixture->choice(), kind_of("sab_sharded_sampler_new"), mixture->fingerprint(),
            [mixture](uint64_t epoch) { return mixture->make(epoch); }, true),
        given);
    made = {mixture->fingerprint() | 1, 0};
    return sampler;
}

PlanOptions checked(const sab_sampler_options& given, const sab_plan_options& plan_options,
                    const Columns& sizes) {
    check(given.last_step == SAB_LAST_STEP_SPLIT, "options.last_step", given.last_step,
          "must be SAB_LAST_STEP_SPLIT (0): every step of this sampler is full");
    check(given.costliest_first == 0, "options.costliest_first", given.costliest_first,
          "must be 0: the ranks take batches of one bucket together");
    static_cast<void>(SamplerOptions(given));  // refuses those of the bucket order
    if (plan_options.separate_by_count > 0) require(plan_options.separate_by, "plan.separate_by");
    PlanOptions options;
    with_name("options", "plan", [&] { options = PlanOptions(plan_options, sizes.names()); });
    return options;
}

}  // namespace

std::unique_ptr<sab_sampler> make_sharded_sampler(const Columns& sizes,
                                                  const sab_plan_options& plan_options,
                                                  const sab_sampler_options& given,
                                                  const Ranks& ranks) {
    // A rank that fails, also by its options, reports its status in the next gathering, so that the
    // others do not wait for it. The memory for their answers is there before.
    const EpochChoice* const choice = sizes.choice().get();
    Shard mine{SAB_OK, 0, 0};
    PlanOptions options;
    Sorted own;
    std::vector<Shard> shards;
    std::vector<Made> plans;
    std::vector<int64_t> statuses;
    std::exception_ptr failure = caught(
        [&] {
            shards.resize(ranks.world_size);
            statuses.resize(ranks.world_size);
            plans.resize(ranks.world_size);
            options = checked(given, plan_options, sizes);
            mine.options = hash_of(choice, options, given, ranks);
            check_ids(sizes, plan_options);
            own = read_shard(sizes, options);
            mine.distinct_count = own.distinct_sizes.size();
        },
        mine.status);
    if (failure) {
        ranks.tell(mine, shards);
        std::rethrow_exception(failure);
    }
    ranks.gather<Shard>({&mine, 1}, shards);
    const uint64_t most_distinct = check_shards(shards, ranks);

    std::vector<Bar> bars;
    Histograms all;
    int64_t status = SAB_OK;
    failure = caught(
        [&] {
            bars.resize(most_distinct);
            all.bars.resize(most_distinct * ranks.world_size);
            for (const Shard& shard : shards) all.distinct_counts.push_back(shard.distinct_count);
        },
        status);
    share_failure(failure, status, statuses, ranks);
    write_bars(own, bars);
    ranks.gather<Bar>(bars, all.bars);
    std::vector<ToldSample> told;
    if (choice != nullptr) told = gather_samples(own, *choice, all, statuses, ranks);

    // All that the sampler needs is made before the last gathering: after it no rank can fail
    // alone.
    std::unique_ptr<sab_sampler> sampler;
    ShardedSequence* sequence = nullptr;
    Made made{0, 0};
    const auto make = [&] {
        if (has_mixtures && choice != nullptr) {
            sampler = make_mixed(*choice, all, told, options, given, ranks, made);
            return;
        }
        auto owned = std::make_unique<ShardedSequence>(std::move(own), all, options, ranks);
        sequence = owned.get();
        sampler = make_cursor(std::move(owned), given);
        made = sequence->made(all.bars);
    };
    failure = caught([&] { with_name("options", "plan", make); }, status);
    ranks.gather<Made>({&made, 1}, plans);
    if (failure) std::rethrow_exception(failure);
    for (std::size_t r = 0; r < plans.size(); ++r)
        if (plans[r].plan != made.plan)
            fail_about(SAB_E_MISMATCH, "plan", no_value, "rank ", r,
                       plans[r].plan == 0
                           ? " could not make it"
                           : " made another one; options match; check that the cost is "
                             "the same on all ranks");
    if (sequence != nullptr)
        sequence->set_fingerprint(XXH3_64bits(plans.data(), plans.size() * sizeof(Made)));
    return sampler;
}

}  // namespace sab
