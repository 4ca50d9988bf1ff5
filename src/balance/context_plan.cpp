#include "balance/context_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "balance/context_search.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/sorting.h"
#include "cost/cost.h"

namespace sab {
namespace {

constexpr uint64_t most_ranks = 65'536, largest_limit = uint64_t{1} << 53;

/// Where a sample runs, and when.
struct Run {
    uint32_t first = 0, ranks = 0;
    double start = 0, end = 0;
};

/// What the caller gave, read and checked.
struct ContextInput {
    std::vector<uint64_t> lengths{};
    uint64_t limit = 1;
    ContextProblem problem{};  ///< without the groups that samples may have
};

void check_numbers(uint64_t world_size, uint64_t limit, const sab_context_options& options) {
    check(world_size >= 1 && world_size <= most_ranks, "world_size", world_size,
          "must be from 1 to ", most_ranks);
    check(limit >= 1 && limit <= largest_limit, "limit", limit, "must be from 1 to 2^53");
    check(std::isfinite(options.overhead) && options.overhead >= 0, "options.overhead",
          options.overhead, "must be finite and at least 0");
    check(options.groups == SAB_CONTEXT_POWERS_OF_TWO || options.groups == SAB_CONTEXT_ANY_NUMBER,
          "options.groups", options.groups,
          "must be SAB_CONTEXT_POWERS_OF_TWO or SAB_CONTEXT_ANY_NUMBER");
}

ContextInput read_input(const Columns& columns, uint64_t world_size, uint64_t limit,
                        const sab_context_options& options) {
    check_numbers(world_size, limit, options);
    const Sizes& sizes = columns.only("lengths");
    const Cost cost = read_cost(options.cost, columns.names(), "options.cost");
    ContextInput input;
    ContextProblem& problem = input.problem;
    problem.ranks = static_cast<uint32_t>(world_size);
    problem.overhead = options.overhead;
    input.limit = limit;
    std::vector<double> read(sizes.count());
    sizes.read(0, read, "lengths");
    input.lengths.resize(read.size());
    problem.costs.resize(read.size());
    double sum = 0;
    for (std::size_t i = 0; i < read.size(); ++i) {
        check(std::floor(read[i]) == read[i], text("lengths[", i, "]"), read[i],
              "must be a whole number");
        input.lengths[i] = static_cast<uint64_t>(read[i]);
        problem.costs[i] = cost(1, read[i]);
        sum += problem.costs[i] + options.overhead * static_cast<double>(world_size * world_size);
    }
    check(std::isfinite(4 * sum), "options.cost", sum,
          "the sum over all lengths, with the overhead, must be below 2^1022");
    problem.order = by_descending(problem.costs);
    return input;
}

uint64_t ranks_needed(uint64_t length, uint64_t limit) {
    return std::max<uint64_t>(1, length / limit + (length % limit != 0));
}

/// The first of the lengths that no group holds; as many as there are if all fit.
std::size_t first_too_long(const ContextInput& input, uint32_t most) {
    const auto found = std::ranges::find_if(
        input.lengths, [&](uint64_t length) { return ranks_needed(length, input.limit) > most; });
    return static_cast<std::size_t>(found - input.lengths.begin());
}

/// All lengths must fit.
ContextProblem make_problem(const ContextInput& input, bool powers_of_two) {
    ContextProblem problem = input.problem;
    problem.powers_of_two = powers_of_two;
    problem.narrowest.resize(problem.costs.size());
    problem.widest.resize(problem.costs.size());
    for (uint32_t sample = 0; sample < problem.costs.size(); ++sample) {
        const uint64_t needed = ranks_needed(input.lengths[sample], input.limit);
        problem.narrowest[sample] = problem.width_of(static_cast<uint32_t>(needed));
        problem.widest[sample] = problem.fastest_width(sample);
    }
    return problem;
}

/// Runs the samples of a schedule, each when its ranks are free.
std::vector<Run> simulate(const ContextProblem& problem, const ContextSchedule& schedule) {
    std::vector<Run> runs(schedule.groups.size());
    std::vector<double> free(problem.ranks, 0);
    for (const uint32_t sample : schedule.sequence) {
        const ContextGroup group = schedule.groups[sample];
        Run& run = runs[sample];
        run.first = group.first;
        run.ranks = problem.ranks_of(group.width);
        const auto ranks = std::span(free).subspan(run.first, run.ranks);
        run.start = std::ranges::max(ranks);
        run.end = run.start + problem.time(sample, group.width);
        std::ranges::fill(ranks, run.end);
    }
    return runs;
}

/// A schedule for powers of two as one for any number of ranks. Groups lose the ranks that make
/// their sample slower, so that nothing ends later.
ContextSchedule narrowed(const ContextProblem& problem, const ContextProblem& powers,
                         ContextSchedule schedule) {
    for (uint32_t sample = 0; sample < schedule.groups.size(); ++sample) {
        uint32_t& width = schedule.groups[sample].width;
        width = std::min(problem.width_of(powers.ranks_of(width)), problem.widest[sample]);
    }
    schedule.makespan = 0;
    for (const Run& run : simulate(problem, schedule))
        schedule.makespan = std::max(schedule.makespan, run.end);
    return schedule;
}

/// A sample is cut into twice as many chunks as it has parts. Each part has one from the head and
/// the one as far from the tail, so that all parts have as many pairs of causal attention. The
/// first chunks are one token longer if the length is no multiple.
sab_context_part make_part(uint32_t sample, uint64_t length, uint32_t part, const Run& run) {
    const uint64_t chunks = 2 * uint64_t{run.ranks};
    const auto begin = [&](uint64_t chunk) {
        return chunk * (length / chunks) + std::min(chunk, length % chunks);
    };
    const uint64_t last = chunks - 1 - part;
    return {sample,          part,      run.ranks, begin(part), begin(part + 1), begin(last),
            begin(last + 1), run.start, run.end};
}

void list_parts(const ContextInput& input, const std::vector<Run>& runs,
                const std::vector<uint32_t>& sequence, ContextPlan& plan) {
    plan.offsets.assign(input.problem.ranks + std::size_t{1}, 0);
    for (const Run& run : runs)
        for (uint32_t part = 0; part < run.ranks; ++part) ++plan.offsets[run.first + part + 1];
    std::partial_sum(plan.offsets.begin(), plan.offsets.end(), plan.offsets.begin());
    plan.parts.resize(plan.offsets.back());
    std::vector<uint64_t> next(plan.offsets.begin(), plan.offsets.end() - 1);
    for (const uint32_t sample : sequence)
        for (uint32_t part = 0; part < runs[sample].ranks; ++part)
            plan.parts[next[runs[sample].first + part]++] =
                make_part(sample, input.lengths[sample], part, runs[sample]);
}

}  // namespace

sab_context_plan_view ContextPlan::view() const {
    return {sizeof(sab_context_plan_view),
            offsets.size() - 1,
            samples,
            offsets.data(),
            parts.data(),
            makespan,
            lower_bound,
            lower_bound > 0 ? makespan / lower_bound - 1 : 0};
}

ContextPlan plan_context(const Columns& lengths, uint64_t world_size, uint64_t limit,
                         const sab_context_options& options) {
    const Progress progress(options.progress, options.progress_ctx);
    const CurrentProgress current(&progress);
    const ContextInput input = read_input(lengths, world_size, limit, options);
    const bool any_number = options.groups == SAB_CONTEXT_ANY_NUMBER;
    const uint32_t power = std::bit_floor(input.problem.ranks),
                   most = any_number ? input.problem.ranks : power;
    if (const std::size_t i = first_too_long(input, most); i < input.lengths.size())
        refuse_argument(named("lengths[", i, "]"), input.lengths[i], "must be at most ",
                        limit * most, ", what ", most, most == 1 ? " rank holds" : " ranks hold");

    ContextPlan plan;
    plan.samples = input.lengths.size();
    const ContextProblem problem = make_problem(input, !any_number);
    plan.lower_bound = problem.lower_bound();
    ContextSchedule schedule = find_context_schedule(problem, plan.lower_bound);
    if (any_number && first_too_long(input, power) == input.lengths.size()) {
        const ContextProblem powers = make_problem(input, true);
        ContextSchedule other =
            narrowed(problem, powers, find_context_schedule(powers, powers.lower_bound()));
        if (other.makespan < schedule.makespan) schedule = std::move(other);
    }
    plan.makespan = schedule.makespan;
    plan.lower_bound = std::min(plan.lower_bound, plan.makespan);
    list_parts(input, simulate(problem, schedule), schedule.sequence, plan);
    return plan;
}

}  // namespace sab
