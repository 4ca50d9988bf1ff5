// Step plans of samples that share tokens.
#include <gtest/gtest.h>
#include <sab.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// A forest, or groups with a prefix as sab_step_plan_options has them.
struct Step {
    std::vector<int32_t> sizes;
    std::vector<int64_t> parents, groups, prefix;
    uint64_t world_size = 1, micro_batches = 0, multiple = 1;
    double limit = 0;
    bool is_whole = false, is_quadratic = false;
    sab_progress_fn progress = nullptr;
    void* progress_ctx = nullptr;
};

class Plan {
public:
    explicit Plan(const Step& step) {
        sab_sizes* sizes = nullptr;
        EXPECT_EQ(sab_sizes_new(step.sizes.data(), step.sizes.size(), SAB_INT32, nullptr, &sizes),
                  SAB_OK);
        const uint32_t square = 2;
        const sab_cost_term term{1, 1, 1, &square, {}};
        sab_cost* cost = nullptr;
        EXPECT_EQ(sab_cost_terms_new(&term, 1, &cost), SAB_OK);
        sab_step_plan_options options SAB_STEP_PLAN_OPTIONS_INIT;
        const sab_budget budget{nullptr, step.limit, {}};
        options.budgets = &budget;
        options.budget_count = 1;
        options.balance = step.is_quadratic ? &cost : nullptr;
        options.balance_count = step.is_quadratic ? 1 : 0;
        options.world_size = step.world_size;
        options.micro_batches = step.micro_batches;
        options.multiple = step.multiple;
        options.whole_groups = step.is_whole ? 1 : 0;
        options.progress = step.progress;
        options.progress_ctx = step.progress_ctx;
        if (!step.parents.empty()) options.parents = step.parents.data();
        if (!step.groups.empty()) options.groups = step.groups.data();
        if (!step.prefix.empty()) options.prefix = step.prefix.data();
        is_made_ = sab_step_plan_new(sizes, &options, &plan_) == SAB_OK;
        if (is_made_) {
            EXPECT_EQ(sab_step_plan_get_view(plan_, &view), SAB_OK);
        }
        sab_sizes_free(sizes);
        sab_cost_free(cost);
    }
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;
    ~Plan() { sab_step_plan_free(plan_); }

    bool is_made() const { return is_made_; }
    uint64_t parts() const { return view.world_size * view.micro_batches; }
    double costliest_rank() const {
        double most = 0;
        for (uint64_t rank = 0; rank < view.world_size; ++rank)
            most =
                std::max(most, std::accumulate(view.costs + rank * view.micro_batches,
                                               view.costs + (rank + 1) * view.micro_batches, 0.0));
        return most;
    }

    sab_step_plan_view view SAB_STEP_PLAN_VIEW_INIT;

private:
    sab_step_plan* plan_ = nullptr;
    bool is_made_ = false;
};

/// The nodes of a step, written plainly: those of a prefix come after the samples.
struct Nodes {
    std::vector<int64_t> parents;
    std::vector<double> tokens, begins;
    std::vector<int64_t> samples;

    explicit Nodes(const Step& step) : parents(step.parents) {
        tokens.assign(step.sizes.begin(), step.sizes.end());
        if (parents.empty()) {
            parents.assign(step.sizes.size(), -1);
            for (std::size_t i = 0; i < step.sizes.size(); ++i) {
                if (step.prefix[i] == 0) continue;
                tokens[i] -= static_cast<double>(step.prefix[i]);
                const auto first = static_cast<std::size_t>(
                    std::ranges::find(step.groups, step.groups[i]) - step.groups.begin());
                if (first == i) {
                    parents[i] = static_cast<int64_t>(tokens.size());
                    tokens.push_back(static_cast<double>(step.prefix[i]));
                }
                parents[i] = parents[first];
            }
            parents.resize(tokens.size(), -1);
        }
        std::vector<bool> is_leaf(step.sizes.size(), true);
        for (const int64_t parent : step.parents)
            if (parent >= 0) is_leaf[static_cast<std::size_t>(parent)] = false;
        for (std::size_t i = 0; i < is_leaf.size(); ++i)
            if (is_leaf[i]) samples.push_back(static_cast<int64_t>(i));
        begins.resize(tokens.size());
        for (std::size_t i = 0; i < tokens.size(); ++i)
            for (int64_t at = parents[i]; at >= 0; at = parents[static_cast<std::size_t>(at)])
                begins[i] += tokens[static_cast<std::size_t>(at)];
    }

    double value(std::size_t node, bool is_quadratic) const {
        const double end = begins[node] + tokens[node], begin = begins[node];
        return is_quadratic ? end * end - begin * begin : end - begin;
    }
    std::vector<std::size_t> above(int64_t sample) const {
        std::vector<std::size_t> path;
        for (int64_t at = sample; at >= 0; at = parents[static_cast<std::size_t>(at)])
            path.push_back(static_cast<std::size_t>(at));
        return path;
    }
    /// Of all nodes above some samples, each once.
    double cost(const std::vector<int64_t>& some, bool is_quadratic) const {
        std::vector<bool> is_seen(tokens.size());
        double sum = 0;
        for (const int64_t sample : some)
            for (const std::size_t node : above(sample)) {
                if (!is_seen[node]) sum += value(node, is_quadratic);
                is_seen[node] = true;
            }
        return sum;
    }
};

class Random {
public:
    explicit Random(uint64_t seed) : engine_(seed) {}
    int below(int end) { return static_cast<int>(engine_() % static_cast<uint64_t>(end)); }

private:
    std::mt19937_64 engine_;
};

/// Of about `samples` leaves.
Step random_step(Random& random, int samples, int longest) {
    Step step;
    if (random.below(2) == 0) {
        for (int i = 0; i < samples; ++i) step.groups.push_back(random.below(1 + samples / 3));
        std::vector<int64_t> shared(static_cast<std::size_t>(samples));
        for (int64_t& prefix : shared) prefix = random.below(longest);
        for (const int64_t group : step.groups) {
            step.prefix.push_back(shared[static_cast<std::size_t>(group)]);
            step.sizes.push_back(static_cast<int32_t>(step.prefix.back()) + random.below(longest));
        }
        return step;
    }
    // Every node is above some of those behind it, so the last ones are leaves.
    const int inner = 1 + samples / 2;
    for (int i = 0; i < inner + samples; ++i) {
        const bool is_root = i == 0 || random.below(i < inner ? 3 : 6) == 0;
        step.parents.push_back(is_root ? -1 : random.below(std::min(i, inner)));
        step.sizes.push_back(random.below(longest));
    }
    return step;
}

double longest_of(const Step& step) {
    const Nodes nodes(step);
    double longest = 1;
    for (const int64_t sample : nodes.samples)
        longest = std::max(longest, nodes.cost({sample}, false));
    return longest;
}

void check_segments(const Plan& plan, const Nodes& nodes, uint64_t part,
                    const std::vector<int64_t>& samples) {
    const sab_step_plan_view& view = plan.view;
    const uint64_t first = view.segment_offsets[part];
    std::vector<bool> is_seen(nodes.tokens.size());
    int64_t offset = 0;
    for (uint64_t at = first; at < view.segment_offsets[part + 1]; ++at) {
        const sab_step_segment& each = view.segments[at];
        const auto node = static_cast<std::size_t>(
            each.node >= 0 ? each.node : nodes.parents[static_cast<std::size_t>(each.sample)]);
        EXPECT_FALSE(is_seen[node]);
        is_seen[node] = true;
        EXPECT_EQ(each.offset, offset);
        EXPECT_EQ(static_cast<double>(each.length), nodes.tokens[node]);
        EXPECT_EQ(static_cast<double>(each.position), nodes.begins[node]);
        const auto own = nodes.above(each.sample);
        EXPECT_TRUE(std::ranges::find(own, node) != own.end());
        EXPECT_TRUE(std::ranges::binary_search(samples, each.sample));
        ASSERT_LT(each.parent, static_cast<int64_t>(at - first));
        EXPECT_EQ(each.parent < 0, nodes.parents[node] < 0);
        if (each.parent >= 0) {
            const sab_step_segment& above =
                view.segments[first + static_cast<uint64_t>(each.parent)];
            EXPECT_EQ(above.node >= 0 ? above.node : nodes.parents[node], nodes.parents[node]);
        }
        EXPECT_EQ(view.cu_seqlens[0][at + part], offset);
        offset += each.length;
    }
    EXPECT_EQ(view.cu_seqlens[0][view.segment_offsets[part + 1] + part], offset);
    for (const int64_t sample : samples)
        for (const std::size_t node : nodes.above(sample)) EXPECT_TRUE(is_seen[node]);
}

void check_plan(const Step& step, const Plan& plan) {
    const Nodes nodes(step);
    const sab_step_plan_view& view = plan.view;
    EXPECT_EQ(view.samples, nodes.samples.size());
    EXPECT_EQ(view.nodes, step.sizes.size());
    EXPECT_EQ(view.micro_batches % step.multiple, 0U);
    EXPECT_GE(view.micro_batches, view.least_micro_batches);
    std::vector<int64_t> all, rank_of(nodes.tokens.size(), -1);
    for (uint64_t part = 0; part < plan.parts(); ++part) {
        const std::vector<int64_t> own(view.indices + view.offsets[part],
                                       view.indices + view.offsets[part + 1]);
        EXPECT_TRUE(std::ranges::is_sorted(own));
        EXPECT_LE(nodes.cost(own, false), step.limit);
        EXPECT_EQ(view.costs[part], nodes.cost(own, step.is_quadratic));
        check_segments(plan, nodes, part, own);
        all.insert(all.end(), own.begin(), own.end());
        for (const int64_t sample : own) {
            const std::size_t root = nodes.above(sample).back();
            const auto rank = static_cast<int64_t>(part / view.micro_batches);
            EXPECT_TRUE(!step.is_whole || rank_of[root] < 0 || rank_of[root] == rank);
            rank_of[root] = rank;
        }
    }
    for (std::size_t i = 0; i < all.size(); ++i)
        EXPECT_EQ(view.indices[view.inverse[i]], nodes.samples[i]);
    std::ranges::sort(all);
    EXPECT_EQ(all, nodes.samples);
    EXPECT_GE(view.rank_imbalance[0], view.least_rank_imbalance[0] * (1 - 1e-12));
}

TEST(SharedSteps, OfRandomForests_KeepAllRules) {
    for (int round = 0; round < 300; ++round) {
        Random random(static_cast<uint64_t>(round));
        Step step = random_step(random, 1 + random.below(round % 10 == 0 ? 300 : 60), 100);
        step.world_size = 1 + static_cast<uint64_t>(random.below(6));
        step.multiple = 1 + static_cast<uint64_t>(random.below(3));
        step.limit = longest_of(step) + random.below(400);
        step.is_whole = random.below(3) == 0;
        step.is_quadratic = random.below(3) == 0;
        const Plan plan(step), again(step);
        ASSERT_TRUE(plan.is_made()) << sab_last_error_message();
        check_plan(step, plan);
        EXPECT_TRUE(std::equal(plan.view.indices, plan.view.indices + plan.view.samples,
                               again.view.indices));
        if (testing::Test::HasFailure()) FAIL() << "round " << round;
    }
}

/// All ways to divide a few samples: the least cost of the costliest rank.
class BruteForce {
public:
    BruteForce(const Step& step, uint64_t micro_batches)
        : step_(step), nodes_(step), used_(step.world_size), micro_batches_(micro_batches) {}

    double least() {
        next_sample(0);
        return least_;
    }

private:
    /// To a micro-batch that has samples, or to a new one.
    void next_sample(std::size_t at) {
        if (at == nodes_.samples.size()) {
            std::vector<double> costs;
            for (const std::vector<int64_t>& part : parts_) {
                if (nodes_.cost(part, false) > step_.limit) return;
                costs.push_back(nodes_.cost(part, step_.is_quadratic));
            }
            std::vector<double> sums(step_.world_size);
            next_part(costs, sums, 0);
            return;
        }
        for (std::size_t k = 0; k <= parts_.size(); ++k) {
            if (k == parts_.size()) parts_.emplace_back();
            parts_[k].push_back(nodes_.samples[at]);
            next_sample(at + 1);
            parts_[k].pop_back();
            if (parts_[k].empty()) {
                parts_.pop_back();
                break;
            }
        }
    }
    void next_part(const std::vector<double>& costs, std::vector<double>& sums, std::size_t at) {
        if (std::ranges::max(sums) >= least_) return;
        if (at == costs.size()) {
            least_ = std::ranges::max(sums);
            return;
        }
        for (std::size_t rank = 0; rank < sums.size(); ++rank) {
            if (used_[rank] == micro_batches_) continue;
            ++used_[rank];
            sums[rank] += costs[at];
            next_part(costs, sums, at + 1);
            sums[rank] -= costs[at];
            --used_[rank];
        }
    }

    const Step& step_;
    Nodes nodes_;
    std::vector<std::vector<int64_t>> parts_;
    std::vector<uint64_t> used_;
    uint64_t micro_batches_;
    double least_ = never;
};

TEST(SharedSteps, OfFewSamples_AreTheBest) {
    for (int round = 0; round < 120; ++round) {
        Random random(static_cast<uint64_t>(1000 + round));
        Step step = random_step(random, 2 + random.below(round % 20 == 0 ? 7 : 5), 100);
        step.world_size = 1 + static_cast<uint64_t>(random.below(3));
        step.limit = longest_of(step) + random.below(150);
        step.is_quadratic = random.below(3) == 0;
        if (Nodes(step).samples.size() > 8) continue;
        for (step.micro_batches = 0; step.micro_batches < 3; ++step.micro_batches) {
            const Plan plan(step);
            const double least =
                BruteForce(step, plan.is_made() ? plan.view.micro_batches : step.micro_batches)
                    .least();
            EXPECT_EQ(plan.is_made() ? plan.costliest_rank() : never, least) << round;
        }
    }
}

/// Prompts with the same number of responses each, of log-normal length with a mean of 1,000.
Step reinforcement_step(int prompts, int responses, double prefix, uint64_t ranks) {
    std::mt19937_64 random(7);
    std::lognormal_distribution<double> length(std::log(1000) - 0.32, 0.8);
    Step step;
    for (int i = 0; i < prompts * responses; ++i) {
        step.groups.push_back(i / responses);
        step.prefix.push_back(static_cast<int64_t>(prefix * 1000));
        const double own = std::clamp(length(random), 1.0, 16384 - prefix * 1000);
        step.sizes.push_back(static_cast<int32_t>(step.prefix.back()) + static_cast<int32_t>(own));
    }
    step.limit = 16384;
    step.world_size = ranks;
    return step;
}

TEST(SharedSteps, OfManyGroups_AreEvenAndComputeLittleTwice) {
    for (const double prefix : {0.2, 1.0, 4.0}) {
        const Step step = reinforcement_step(512, 8, prefix, 8);
        const Plan plan(step);
        ASSERT_TRUE(plan.is_made());
        check_plan(step, plan);
        double least = 0, own = 0;  // a prompt in as many micro-batches as its responses need
        for (std::size_t i = 0; i < step.sizes.size(); ++i) {
            const auto shared = static_cast<double>(step.prefix[i]);
            own += step.sizes[i] - shared;
            if (i % 8 < 7) continue;
            least += own + shared * std::ceil(own / (step.limit - shared));
            own = 0;
        }
        EXPECT_LE(plan.costliest_rank() * 8, least * 1.01);
        EXPECT_LE(plan.view.rank_imbalance[0], 1.005);
    }
}

/// A conversation with an answer at each turn: node 2i is a turn, and node 2i + 1 its answer.
TEST(SharedSteps, OfADeepTree_KeepAllRules) {
    Step step;
    for (int turn = 0; turn < 500; ++turn) {
        step.parents.insert(step.parents.end(), {turn > 0 ? 2 * turn - 2 : -1, 2 * turn});
        step.sizes.insert(step.sizes.end(), {1, 50});
    }
    step.limit = 1000;
    step.world_size = 8;
    const Plan plan(step);
    ASSERT_TRUE(plan.is_made());
    check_plan(step, plan);
}

/// With up to four children for each node that is not of the last level.
void add_tree(Step& step, Random& random, int64_t parent, int levels) {
    const auto node = static_cast<int64_t>(step.sizes.size());
    step.parents.push_back(parent);
    step.sizes.push_back(1 + random.below(1000));
    for (int child = levels > 1 ? random.below(4) : -1; child >= 0; --child)
        add_tree(step, random, node, levels - 1);
}

TEST(SharedSteps, OfManyDeepTrees_AreEvenAndComputeLittleTwice) {
    Random random(3);
    Step step;
    for (int tree = 0; tree < 100; ++tree) add_tree(step, random, -1, 6);
    step.limit = 16384;
    step.world_size = 8;
    const Plan plan(step);
    ASSERT_TRUE(plan.is_made());
    const Nodes nodes(step);
    // Each node in as many micro-batches as those below it need.
    std::vector<double> below(nodes.tokens.size()), times(nodes.tokens.size(), 1);
    double least = 0;
    for (std::size_t at = below.size(); at-- > 0;) {
        const double room = step.limit - nodes.begins[at] - nodes.tokens[at];
        times[at] = std::max(times[at], std::ceil(below[at] / room));
        const double all = times[at] * nodes.tokens[at] + below[at];
        if (nodes.parents[at] < 0) {
            least += all;
            continue;
        }
        const auto parent = static_cast<std::size_t>(nodes.parents[at]);
        below[parent] += all;
        times[parent] = std::max(times[parent], times[at]);
    }
    EXPECT_LE(plan.costliest_rank() * 8, least * 1.01);
    EXPECT_LE(plan.view.rank_imbalance[0], 1.005);
}

struct Told {
    std::vector<double> shares;
    std::size_t most_calls;
};

int32_t tell(void* ctx, uint64_t done, uint64_t total) {
    auto& told = *static_cast<Told*>(ctx);
    told.shares.push_back(static_cast<double>(done) / static_cast<double>(total));
    return told.shares.size() < told.most_calls ? 0 : 5;
}

TEST(SharedSteps, OfManyGroups_TellWhatIsDone_AndStop) {
    for (const bool is_whole : {false, true}) {
        Told told{{}, 1000};
        Step step = reinforcement_step(512, 8, 1, 7);
        step.is_whole = is_whole;
        step.progress = tell;
        step.progress_ctx = &told;
        ASSERT_TRUE(Plan(step).is_made());
        const std::size_t calls = told.shares.size();
        EXPECT_GT(calls, 20U);
        EXPECT_TRUE(std::ranges::is_sorted(told.shares));
        EXPECT_GT(told.shares.back(), 0.5);
        EXPECT_LT(told.shares[calls / 2], 0.9);
        told = {{}, calls / 2};
        EXPECT_FALSE(Plan(step).is_made());
        EXPECT_EQ(told.shares.size(), calls / 2);
    }
}

}  // namespace
