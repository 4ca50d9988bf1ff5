/// Epochs whose budgets are lowered and raised on the way, of any plan and on any ranks: the rest
/// of each bucket comes in as few batches as the budgets allow, and nothing is lost or repeated.
#include <gtest/gtest.h>
#include <sab.h>
#include "../c/one.h"
#include "handles.h"

#include <algorithm>
#include <random>
#include <vector>

#include "sizes/columns.h"

namespace rest_of_epochs {  // files are compiled together in unity builds
namespace {

using handles::Plan;
using handles::Sampler;
using handles::Sizes;
using Bytes = std::vector<unsigned char>;

class Random {
public:
    explicit Random(uint64_t seed) : engine_(seed) {}
    uint64_t below(uint64_t n) { return engine_() % n; }
    bool one_in(uint64_t n) { return below(n) == 0; }
    double share() { return static_cast<double>(below(1000)) / 1000; }

private:
    std::mt19937_64 engine_;
};

/// Any plan, and how it is walked.
struct Job {
    std::size_t columns = 1;
    std::vector<std::vector<int32_t>> lengths{};  ///< by column
    std::vector<std::vector<int32_t>> sources{};  ///< of a mixture
    std::vector<int64_t> ids{};
    Sizes sizes{};
    Plan plan{};
    std::vector<double> limits{};  ///< of the padded total, then of the padded total of squares
    bool is_sequential = false;
    bool has_few_shapes = false;
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    // of the epoch:
    uint64_t batches = 0;
    std::vector<uint64_t> times{};              ///< that each sample comes
    std::vector<uint64_t> samples{};            ///< by bucket
    std::vector<uint64_t> batch_sizes{};        ///< by bucket
    std::vector<std::vector<double>> padded{};  ///< by bucket and column

    double cost(std::size_t budget, uint64_t count, const double* padded_lengths) const {
        double sum = 0;
        for (std::size_t c = 0; c < columns; ++c)
            sum += budget == 0 ? padded_lengths[c] : padded_lengths[c] * padded_lengths[c];
        return static_cast<double>(count) * sum;
    }
    Sampler sampler(uint64_t rank, uint64_t world_size, uint64_t micro_batches) const {
        sab_sampler_options own = options;
        if (is_sequential) own.seed = own.costliest_first = 0;
        own.rank = rank;
        own.world_size = world_size;
        own.micro_batches = micro_batches;
        sab_sampler* made = nullptr;
        EXPECT_DONE(is_sequential ? sab_sequential_sampler_new(plan.get(), &own, &made)
                                  : sab_bucket_sampler_new(plan.get(), &own, &made));
        return Sampler(made);
    }
};

Sizes sizes_of(const std::vector<int32_t>& lengths) {
    sab_sizes* made = nullptr;
    EXPECT_DONE(sab_sizes_new(lengths.data(), lengths.size(), SAB_INT32, nullptr, &made));
    return Sizes(made);
}

/// One data set of one or two columns, or a mixture of two.
void make_sizes(Random& random, Job& job) {
    const std::size_t count = 1 + random.below(200);
    const uint64_t longest = 1 + random.below(90);
    job.columns = random.one_in(4) ? 2 : 1;
    for (std::size_t c = 0; c < job.columns; ++c) {
        job.lengths.emplace_back();
        for (std::size_t i = 0; i < count; ++i)
            job.lengths[c].push_back(
                static_cast<int32_t>(1 + random.below(1 + random.below(longest))));
    }
    const Sizes first = sizes_of(job.lengths[0]);
    sab_sizes* made = nullptr;
    if (job.columns == 2) {
        const Sizes second = sizes_of(job.lengths[1]);
        const sab_sizes* const both[] = {first.get(), second.get()};
        EXPECT_DONE(sab_sizes_columns_new(both, nullptr, 2, &made));
    } else if (count >= 2 && random.one_in(3)) {
        const std::size_t half = 1 + random.below(count - 1);
        const auto middle = job.lengths[0].begin() + static_cast<std::ptrdiff_t>(half);
        job.sources = {{job.lengths[0].begin(), middle}, {middle, job.lengths[0].end()}};
        const Sizes one = sizes_of(job.sources[0]), other = sizes_of(job.sources[1]);
        const sab_sizes* const both[] = {one.get(), other.get()};
        sab_mixture_options options = SAB_MIXTURE_OPTIONS_INIT;
        const double repeats[] = {1 + random.share(), 0.5 + random.share()};
        options.repeats = repeats;
        options.repeat_count = 2;
        EXPECT_DONE(sab_mixture_new(both, 2, &options, &made));
    } else {
        job.sizes = sizes_of(job.lengths[0]);
        return;
    }
    job.sizes = Sizes(made);
}

void make_plan(Random& random, Job& job) {
    double longest[2] = {0, 0};
    for (std::size_t c = 0; c < job.columns; ++c)
        longest[c] = 4 + *std::ranges::max_element(job.lengths[c]);
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    const sab_cost_term terms[] = {term_of(1, 1, {2}), term_of(1, 1, {0, 2})};
    sab_cost* squares = nullptr;
    ASSERT_DONE(sab_cost_terms_new(terms, job.columns, &squares));
    const uint64_t most = 1 + random.below(14);
    sab_budget budgets[2] = {};
    for (std::size_t i = 0; i < 1 + random.below(2); ++i) {
        job.limits.push_back(job.cost(i, most, longest) * (1 + random.share()));
        budgets[i] = {i == 0 ? nullptr : squares, job.limits[i]};
    }
    options.budgets = budgets;
    options.budget_count = job.limits.size();
    options.tail = static_cast<sab_tail>(random.below(3));
    options.length_multiples = one_number(random.one_in(3) ? 4 : 0),
    options.length_multiple_count = 1;
    options.bucket_batches = random.below(3);
    if (random.one_in(4)) options.max_batch_size = 1 + random.below(8);
    if (random.one_in(4) && options.tail >= SAB_TAIL_DROP) {
        options.max_shapes = one_count(1 + random.below(6)), options.max_shape_count = 1;
        options.bucket_batches = 0;
    }
    job.has_few_shapes = options.max_shape_count > 0;
    if (random.one_in(4) && job.sizes.get()->impl.choice() == nullptr) {
        for (std::size_t i = 0; i < job.lengths[0].size(); ++i)
            job.ids.push_back(static_cast<int64_t>(random.below(3)));
        options.separate_by = job.ids.data();
        options.separate_by_count = job.ids.size();
    }
    sab_plan* made = nullptr;
    const sab_status status = sab_plan_new(job.sizes.get(), &options, &made);
    sab_cost_free(squares);
    job.plan.reset(status == SAB_OK ? made : nullptr);
}

/// What the epoch has, from a walk of one rank.
void walk_whole(Job& job) {
    job.times.assign(job.lengths[0].size(), 0);
    sab_sampler_options plain = SAB_SAMPLER_OPTIONS_INIT;
    plain.seed = job.options.seed;
    std::swap(plain, job.options);
    const Sampler sampler = job.sampler(0, 1, 1);
    std::swap(plain, job.options);
    sab_batch batch = SAB_BATCH_INIT;
    while (sab_next_batch(sampler.get(), &batch) == SAB_OK) {
        const auto bucket = static_cast<std::size_t>(batch.bucket);
        ++job.batches;
        job.samples.resize(std::max(job.samples.size(), bucket + 1));
        job.samples[bucket] += batch.count;
        for (std::size_t i = 0; i < batch.count; ++i) ++job.times[batch.indices[i]];
    }
    for (std::size_t b = 0; b < job.samples.size(); ++b) {
        sab_bucket bucket = SAB_BUCKET_INIT;
        ASSERT_DONE(sab_plan_get_bucket(job.plan.get(), b, &bucket));
        job.padded.emplace_back(bucket.padded_length, bucket.padded_length + job.columns);
        job.batch_sizes.push_back(bucket.batch_size);
    }
}

/// All ranks of a run through an epoch.
class AllRanks {
public:
    AllRanks(Random& random, const Job& job)
        : random_(random), job_(job), seen_(job.times.size()), left_(job.samples) {
        ranks_ = any_ranks();
        note_change();
    }

    void go() {
        const uint64_t rarity = 1 + random_.below(12);
        do {
            if (random_.one_in(rarity)) set_budget();
            if (random_.one_in(2 * rarity)) hand_over();
            if (testing::Test::HasFailure()) return;
        } while (take_position());
        for (std::size_t i = 0; i < seen_.size(); ++i) {
            if (job_.options.last_step != SAB_LAST_STEP_WRAP) EXPECT_LE(seen_[i], job_.times[i]);
            if (job_.options.last_step != SAB_LAST_STEP_DROP) EXPECT_GE(seen_[i], job_.times[i]);
        }
        if (is_lowered() && ranks_.size() == 1 && job_.options.last_step == SAB_LAST_STEP_SPLIT)
            EXPECT_EQ(batches_, most_batches_);
    }

private:
    std::vector<Sampler> ranks_of(uint64_t world_size, uint64_t micro_batches) {
        micro_batches_ = micro_batches;
        std::vector<Sampler> made;
        for (uint64_t rank = 0; rank < world_size; ++rank)
            made.push_back(job_.sampler(rank, world_size, micro_batches));
        return made;
    }

    /// SAB_LAST_STEP_DROP must leave a step.
    std::vector<Sampler> any_ranks() {
        const bool drops = job_.options.last_step == SAB_LAST_STEP_DROP;
        const uint64_t ranks = 1 + random_.below(drops ? std::min<uint64_t>(8, job_.batches) : 8);
        const uint64_t most = drops ? std::min<uint64_t>(4, job_.batches / ranks) : 4;
        return ranks_of(ranks, 1 + random_.below(most));
    }

    uint64_t position() const {
        uint64_t epoch = 0, at = 0;
        EXPECT_DONE(sab_sampler_tell(ranks_[0].get(), &epoch, &at));
        return at;
    }
    double limit(std::size_t budget) const {
        double found = 0;
        EXPECT_DONE(sab_sampler_get_budget(ranks_[0].get(), budget, &found));
        return found;
    }
    bool is_lowered() const {
        for (std::size_t i = 0; i < job_.limits.size(); ++i)
            if (limit(i) < job_.limits[i]) return true;
        return false;
    }

    /// The fewest batches that the rest of the epoch can have.
    void note_change() {
        batches_ = most_batches_ = 0;
        for (std::size_t b = 0; b < left_.size(); ++b) {
            uint64_t most = job_.batch_sizes[b];
            for (std::size_t i = 0; i < job_.limits.size(); ++i)
                while (most > 1 && job_.cost(i, most, job_.padded[b].data()) > limit(i)) --most;
            most_batches_ += (left_[b] + most - 1) / most;
        }
    }

    void set_budget() {
        const std::size_t which = random_.below(job_.limits.size());
        const double limit =
            random_.one_in(4) ? 0 : job_.limits[which] * (0.02 + 1.05 * random_.share());
        for (const Sampler& rank : ranks_)
            EXPECT_DONE(sab_sampler_set_budget(rank.get(), which, limit));
        note_change();
    }

    Bytes state_of(const Sampler& sampler) const {
        std::size_t size = 0;
        EXPECT_DONE(sab_sampler_state_save(sampler.get(), nullptr, 0, &size));
        Bytes state(size);
        EXPECT_DONE(sab_sampler_state_save(sampler.get(), state.data(), size, &size));
        return state;
    }

    /// The same number of ranks goes on the same; another one takes what is left.
    void hand_over() {
        const Bytes state = state_of(ranks_[0]);
        for (const Sampler& rank : ranks_) EXPECT_EQ(state_of(rank), state);
        const uint64_t before = position();
        const bool is_same = random_.one_in(2);
        std::vector<Sampler> old = std::move(ranks_);
        ranks_ = is_same ? ranks_of(old.size(), micro_batches_) : any_ranks();
        for (const Sampler& rank : ranks_) {
            if (random_.one_in(2)) EXPECT_DONE(sab_sampler_set_budget(rank.get(), 0, 1));
            EXPECT_DONE(sab_sampler_state_restore(rank.get(), state.data(), state.size()));
        }
        EXPECT_EQ(position(), before);
        if (is_same)
            expect_same(old);
        else
            note_change();
    }

    void expect_same(const std::vector<Sampler>& old) const {
        uint64_t count = 0, same = 0;
        EXPECT_DONE(sab_sampler_get_batch_count(old[0].get(), &count));
        EXPECT_DONE(sab_sampler_get_batch_count(ranks_[0].get(), &same));
        ASSERT_EQ(count, same);
        for (std::size_t r = 0; r < old.size(); ++r)
            for (uint64_t at = position(); at < count; ++at) {
                sab_batch a = SAB_BATCH_INIT, b = SAB_BATCH_INIT;
                ASSERT_DONE(sab_sampler_at(old[r].get(), at, &a));
                ASSERT_DONE(sab_sampler_at(ranks_[r].get(), at, &b));
                ASSERT_TRUE(
                    a.step == b.step && a.micro_batch == b.micro_batch &&
                    std::equal(a.indices, a.indices + a.count, b.indices, b.indices + b.count));
            }
        EXPECT_EQ(state_of(ranks_[0]), state_of(old[0]));
    }

    /// One micro-batch of each rank. False at the end.
    bool take_position() {
        uint64_t count = 0, samples = 0, empty = 0, step = 0, micro_batch = 0;
        const uint64_t at = position();
        for (std::size_t r = 0; r < ranks_.size(); ++r) {
            sab_batch batch = SAB_BATCH_INIT;
            uint64_t same = 0;
            EXPECT_DONE(sab_sampler_get_batch_count(ranks_[r].get(), &same));
            EXPECT_TRUE(r == 0 || same == count);
            count = same;
            EXPECT_EQ(sab_next_batch(ranks_[r].get(), &batch), at < count ? SAB_OK : SAB_END);
            if (at >= count) continue;
            EXPECT_TRUE(r == 0 || (batch.step == step && batch.micro_batch == micro_batch));
            step = batch.step;
            micro_batch = batch.micro_batch;
            samples += batch.count;
            empty += batch.count == 0;
            check(batch);
            for (std::size_t i = 0; i < batch.count; ++i) ++seen_[batch.indices[i]];
            if (batch.count > 0) {
                uint64_t& left = left_[static_cast<std::size_t>(batch.bucket)];
                left -= std::min<uint64_t>(left, batch.count);
            }
        }
        if (at >= count) return false;
        EXPECT_TRUE(empty == 0 || samples < ranks_.size() || job_.has_few_shapes)
            << samples << " samples";
        EXPECT_GT(samples, 0u);
        batches_ += ranks_.size() - empty;
        if (is_lowered() && job_.options.last_step != SAB_LAST_STEP_WRAP)
            EXPECT_LE(batches_, most_batches_ + ranks_.size() - 1);
        return true;
    }

    void check(const sab_batch& batch) const {
        for (std::size_t i = 0; i < job_.limits.size(); ++i)
            if (batch.count > 1)
                EXPECT_LE(job_.cost(i, batch.count, batch.padded_length), limit(i) * (1 + 1e-9));
        for (std::size_t c = 0; c < job_.columns; ++c) {
            double longest = 0, total = 0;
            for (std::size_t i = 0; i < batch.count; ++i) {
                const double length = job_.lengths[c][batch.indices[i]];
                longest = std::max(longest, length);
                total += length;
            }
            EXPECT_TRUE(batch.longest[c] == longest && batch.total[c] == total &&
                        batch.padded_length[c] >= longest);
            // a piece of few shapes may be padded to the length of another bucket
            if (batch.count > 0 && !job_.has_few_shapes)
                EXPECT_LE(batch.padded_length[c],
                          job_.padded[static_cast<std::size_t>(batch.bucket)][c]);
        }
    }

    Random& random_;
    const Job& job_;
    std::vector<Sampler> ranks_{};
    std::vector<uint64_t> seen_;  ///< by sample
    std::vector<uint64_t> left_;  ///< by bucket
    uint64_t micro_batches_ = 1;
    uint64_t batches_ = 0, most_batches_ = 0;  ///< since the last change
};

TEST(Rest, OfAnyEpoch_HasEachSampleOnceInTheFewestBatches) {
    int made = 0;
    for (uint64_t seed = 0; seed < 1500 && !testing::Test::HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        Job job;
        make_sizes(random, job);
        make_plan(random, job);
        if (!job.plan) continue;
        ++made;
        job.options.seed = random.below(100);
        job.options.last_step = static_cast<sab_last_step>(random.below(3));
        job.is_sequential = random.one_in(3);
        if (random.one_in(4)) job.options.costliest_first = random.below(6);
        walk_whole(job);
        if (!testing::Test::HasFailure()) AllRanks(random, job).go();
    }
    EXPECT_GT(made, 1000);
}

/// Steps of the rest do not begin where those of the epoch do.
TEST(Rest, OfSeveralRanks_HasStepsOfNearlyEqualCost) {
    Random random(1);
    Job job;
    job.lengths.emplace_back();
    for (int i = 0; i < 20000; ++i)
        job.lengths[0].push_back(static_cast<int32_t>(1 + random.below(1 + random.below(1000))));
    job.sizes = sizes_of(job.lengths[0]);
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    const sab_budget budget{nullptr, 8192};
    options.budgets = &budget;
    options.budget_count = 1;
    options.max_batch_size = 32;  // short samples do not fill the budget
    sab_plan* made = nullptr;
    ASSERT_DONE(sab_plan_new(job.sizes.get(), &options, &made));
    job.plan.reset(made);
    constexpr uint64_t ranks = 4;
    std::vector<Sampler> samplers;
    for (uint64_t rank = 0; rank < ranks; ++rank) samplers.push_back(job.sampler(rank, ranks, 1));
    for (const double limit : {0.0, 7400.0, 4000.0}) {
        double all = 0, largest = 0;
        uint64_t count = 0;
        for (const Sampler& sampler : samplers) {
            EXPECT_DONE(sab_sampler_set_epoch(sampler.get(), 1));
            EXPECT_DONE(sab_sampler_set_budget(sampler.get(), 0, limit));
            EXPECT_DONE(sab_sampler_get_batch_count(sampler.get(), &count));
        }
        for (uint64_t step = 0; step + 1 < count; ++step) {
            double most = 0;
            for (const Sampler& sampler : samplers) {
                sab_batch batch = SAB_BATCH_INIT;
                ASSERT_DONE(sab_next_batch(sampler.get(), &batch));
                const double cost = static_cast<double>(batch.count) * batch.padded_length[0];
                most = std::max(most, cost);
                all += cost / ranks;
            }
            largest += most;
        }
        EXPECT_LT(largest / all, 1.06) << "limit " << limit;
    }
}

}  // namespace
}  // namespace rest_of_epochs
