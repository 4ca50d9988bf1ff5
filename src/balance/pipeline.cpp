#include "balance/pipeline.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>

#include "balance/late_acceptance.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/sorting.h"

namespace sab {
namespace {

constexpr uint64_t most_chunks = 1024, longest_order = uint64_t{1} << 20,
                   most_passes = uint64_t{1} << 22;
constexpr uint64_t search_work = 8'000'000;  // tasks
constexpr uint64_t fewest_orders = 100;
constexpr std::size_t search_memory = 200;
constexpr uint32_t all_orders = 6;  // micro-batches

void check_times(std::string_view name, const double* times, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        check(std::isfinite(times[i]) && times[i] >= 0, text(name, "[", i, "]"), times[i],
              "must be finite and at least 0");
}

}  // namespace

PipelineInput::PipelineInput(const double* forward_, const double* backward_, std::size_t count,
                             uint64_t stages_, const sab_pipeline_options& options) {
    check(stages_ >= 1 && stages_ <= most_passes, "stages", stages_, "must be from 1 to ",
          most_passes);
    check(options.chunks >= 1 && options.chunks <= most_chunks, "options.chunks", options.chunks,
          "must be from 1 to ", most_chunks);
    check(std::isfinite(options.transfer) && options.transfer >= 0, "options.transfer",
          options.transfer, "must be finite and at least 0");
    const std::string given = text(count, " micro-batches");
    check(count <= longest_order, "forward", given, "must be at most ", longest_order);
    const uint64_t most = most_passes / (stages_ * options.chunks);
    check(count <= most, "forward", given, "must be at most ", most, " with ", stages_,
          " stages and options.chunks = ", options.chunks);
    check(options.chunks == 1 || count % stages_ == 0, "forward", given, "must be a multiple of ",
          stages_, ", the stages, with options.chunks = ", options.chunks);
    check_times("forward", forward_, count);
    if (backward_ != nullptr) check_times("backward", backward_, count);
    stages = static_cast<uint32_t>(stages_);
    chunks = static_cast<uint32_t>(options.chunks);
    transfer = options.transfer;
    forward.assign(forward_, forward_ + count);
    if (backward_ != nullptr) {
        backward.assign(backward_, backward_ + count);
    } else {
        backward = forward;
        for (double& time : backward) time *= 2;
    }
    double sum = transfer * static_cast<double>(count + 1) * stages * chunks;
    for (std::size_t i = 0; i < count; ++i) sum += (forward[i] + backward[i]) * stages;
    check(std::isfinite(sum), "forward", sum,
          "the sum of all times, with the transfers, must be finite");
    for (double& time : forward) time /= chunks;
    for (double& time : backward) time /= chunks;
}

PipelineSchedule::PipelineSchedule(const PipelineInput& input)
    : input_(input), free_(input.stages) {
    sort_tasks();
    ends_.resize(tasks_.size());
}

/// Forward passes of a rank before its first backward pass.
uint32_t PipelineSchedule::forwards_first(uint32_t rank) const {
    const uint32_t behind = input_.stages - 1 - rank;
    const uint32_t wanted =
        input_.chunks == 1 ? behind : 2 * behind + (input_.chunks - 1) * input_.stages;
    return std::min(wanted, input_.count() * input_.chunks);
}

/// The task with this number on a rank. The n-th forward pass of the interleaved schedule takes
/// `stages` micro-batches through the first chunk, then through the next, and so on; backward
/// passes begin with the last chunk.
PipelineSchedule::Task PipelineSchedule::task_of(uint32_t rank, uint32_t number) const {
    const uint32_t all = input_.count() * input_.chunks, first = forwards_first(rank);
    const bool in_turns = number >= first && number < 2 * all - first;
    Task task{};
    task.rank = rank;
    task.is_backward = in_turns ? (number - first) % 2 == 1 : number >= first;
    const uint32_t pass = !in_turns          ? (task.is_backward ? number - all : number)
                          : task.is_backward ? (number - first) / 2
                                             : first + (number - first) / 2;
    const uint32_t round = input_.stages * input_.chunks;
    if (input_.chunks == 1) {
        task.place = pass;
        return task;
    }
    const uint32_t chunk = pass % round / input_.stages;
    task.chunk = task.is_backward ? input_.chunks - 1 - chunk : chunk;
    task.place = pass / round * input_.stages + pass % input_.stages;
    return task;
}

/// A number for each pass of a micro-batch through a part of the model.
std::size_t PipelineSchedule::key(const Task& task) const {
    const std::size_t parts = std::size_t{input_.stages} * input_.chunks;
    const std::size_t part = std::size_t{task.chunk} * input_.stages + task.rank;
    return (std::size_t{task.place} * 2 + task.is_backward) * parts + part;
}

bool PipelineSchedule::needs_nothing(const Task& task) const {
    return !task.is_backward && task.rank == 0 && task.chunk == 0;
}

/// The task whose result a task needs, which must need one.
PipelineSchedule::Task PipelineSchedule::source_of(const Task& task) const {
    const uint32_t parts = input_.stages * input_.chunks;
    const uint32_t part = task.chunk * input_.stages + task.rank;
    const bool turns = task.is_backward && part + 1 == parts;
    const uint32_t source = turns ? part : task.is_backward ? part + 1 : part - 1;
    Task found = task;
    found.rank = source % input_.stages;
    found.chunk = source / input_.stages;
    found.is_backward = task.is_backward && !turns;
    return found;
}

/// Puts each task behind those that it needs. A rank goes on until it needs a result that is
/// missing, and again when that is there.
void PipelineSchedule::sort_tasks() {
    const std::size_t per_rank = std::size_t{2} * input_.count() * input_.chunks;
    const std::size_t all = per_rank * input_.stages;
    std::vector<uint32_t> index(all, none), next(input_.stages, 0);
    std::vector<std::size_t> missing(input_.stages, all);
    std::vector<uint32_t> ready(input_.stages);
    std::iota(ready.begin(), ready.end(), 0U);
    tasks_.reserve(all);
    // In the order in which they become ready: tasks of different ranks in turns are simulated
    // faster than many of one rank, each of which begins when the one before it ends.
    for (std::size_t turn = 0; turn < ready.size(); ++turn) {
        const uint32_t rank = ready[turn];
        for (; next[rank] < per_rank; ++next[rank]) {
            Task task = task_of(rank, next[rank]);
            if (!needs_nothing(task)) {
                const Task source = source_of(task);
                missing[rank] = key(source);
                task.needed = index[missing[rank]];
                if (task.needed == none) break;
                task.is_far = source.rank != rank;
            }
            const std::size_t done = key(task);
            index[done] = static_cast<uint32_t>(tasks_.size());
            tasks_.push_back(task);
            const uint32_t ahead = rank + 1 == input_.stages ? 0 : rank + 1;
            const uint32_t behind = (rank == 0 ? input_.stages : rank) - 1;
            const uint32_t user = task.is_backward ? behind : ahead;
            if (missing[user] == done && user != rank) ready.push_back(user);
        }
    }
    if (tasks_.size() < all) fail(SAB_E_INTERNAL, "a pipeline's tasks wait for each other");
}

double PipelineSchedule::simulate(std::span<const uint32_t> order,
                                  std::span<sab_pipeline_task> tasks) {
    free_.assign(input_.stages, 0);
    std::vector<std::size_t> next;
    if (!tasks.empty()) {
        next.resize(input_.stages);
        for (std::size_t rank = 0; rank < next.size(); ++rank)
            next[rank] = rank * (tasks_.size() / input_.stages);
    }
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
        const Task& task = tasks_[i];
        double start = free_[task.rank];
        if (task.needed != none) {
            const double arrived = ends_[task.needed] + (task.is_far ? input_.transfer : 0);
            start = std::max(start, arrived);
        }
        const uint32_t micro_batch = order[task.place];
        const double end =
            start + (task.is_backward ? input_.backward : input_.forward)[micro_batch];
        free_[task.rank] = ends_[i] = end;
        if (!tasks.empty())
            tasks[next[task.rank]++] = {micro_batch, task.chunk, task.is_backward, start, end};
    }
    return std::ranges::max(free_);
}

/// A lower bound of 1F1B. A rank with n ranks behind it has at most n other forward and n other
/// backward passes between the two passes of a micro-batch. Meanwhile the micro-batch takes its
/// time on those n ranks. If that is more than the other passes take, the rank waits.
double PipelineSchedule::bound_by_longest() const {
    std::vector<double> forward = input_.forward, backward = input_.backward;
    uint32_t longest = 0;
    double work = 0;
    for (uint32_t i = 0; i < input_.count(); ++i) {
        work += forward[i] + backward[i];
        if (forward[i] + backward[i] > forward[longest] + backward[longest]) longest = i;
    }
    const double time = forward[longest] + backward[longest];
    const double least = std::ranges::min(forward) + std::ranges::min(backward);
    forward.erase(forward.begin() + longest);
    backward.erase(backward.begin() + longest);
    std::ranges::sort(forward, std::greater{});
    std::ranges::sort(backward, std::greater{});
    double bound = 0, others = 0;
    for (uint32_t behind = 0; behind < input_.stages; ++behind) {
        if (behind > 0 && behind <= forward.size())
            others += forward[behind - 1] + backward[behind - 1];
        const double before = input_.stages - 1 - behind;
        bound = std::max(bound, work + behind * time - others + before * least);
    }
    return bound + 2.0 * (input_.stages - 1) * input_.transfer;
}

/// The last rank waits for the first micro-batch to come to it, and the last one then goes back
/// through all others: two micro-batches if there are two.
double PipelineSchedule::bound_by_last_rank() const {
    std::vector<double> forward = input_.forward, backward = input_.backward;
    const auto first = std::ranges::min_element(forward) - forward.begin();
    const auto last = std::ranges::min_element(backward) - backward.begin();
    const double work = std::accumulate(forward.begin(), forward.end(), 0.0) +
                        std::accumulate(backward.begin(), backward.end(), 0.0);
    const bool is_one = first == last && forward.size() > 1;
    std::ranges::sort(forward);
    std::ranges::sort(backward);
    const double ends = is_one ? std::min(forward[1] + backward[0], forward[0] + backward[1])
                               : forward[0] + backward[0];
    return work * input_.chunks + (input_.stages - 1.0) * (ends + 2 * input_.transfer);
}

double PipelineSchedule::lower_bound() const {
    if (input_.count() == 0) return 0;
    double longest = 0;
    for (uint32_t i = 0; i < input_.count(); ++i)
        longest = std::max(longest, input_.forward[i] + input_.backward[i]);
    const double parts = static_cast<double>(input_.stages) * input_.chunks;
    const double path =
        parts * longest + (input_.stages > 1 ? 2 * (parts - 1) * input_.transfer : 0);
    const double bound = std::max(path, bound_by_last_rank());
    return input_.chunks == 1 ? std::max(bound, bound_by_longest()) : bound;
}

sab_pipeline_report PipelineSchedule::report(double makespan) const {
    double work = 0;
    for (uint32_t i = 0; i < input_.count(); ++i) work += input_.forward[i] + input_.backward[i];
    work *= input_.chunks;
    return {sizeof(sab_pipeline_report), makespan, std::min(lower_bound(), makespan),
            makespan > 0 ? std::max(0.0, 1 - work / makespan) : 0};
}

std::vector<uint32_t> read_order(const uint32_t* order, std::size_t count) {
    std::vector<uint32_t> read(count);
    std::iota(read.begin(), read.end(), 0U);
    if (order == nullptr) return read;
    std::vector<bool> is_seen(count);
    for (std::size_t i = 0; i < count; ++i) {
        check(order[i] < count, text("order[", i, "]"), order[i], "must be below ", count,
              ", the number of micro-batches");
        check(!is_seen[order[i]], text("order[", i, "]"), order[i], "must not come twice");
        is_seen[order[i]] = true;
        read[i] = order[i];
    }
    return read;
}

OrderSearch::OrderSearch(const PipelineInput& input, PipelineSchedule& pipeline)
    : input_(input), pipeline_(pipeline), bound_(pipeline.lower_bound()) {
    best_ = read_order(nullptr, input.count());
    makespan_ = pipeline.simulate(best_);
}

std::vector<uint32_t> OrderSearch::run() {
    std::vector<uint32_t> order = best_;
    if (order.size() <= all_orders) {
        try_all(std::move(order));
        return best_;
    }
    start();
    improve();
    return best_;
}

void OrderSearch::keep(const std::vector<uint32_t>& order, double makespan) {
    if (makespan >= makespan_) return;
    makespan_ = makespan;
    best_ = order;
}

void OrderSearch::try_all(std::vector<uint32_t> order) {
    uint64_t orders = 1;
    for (uint64_t i = 2; i <= order.size(); ++i) orders *= i;
    SearchWork work(orders * pipeline_.task_count());
    while (makespan_ > bound_ && std::ranges::next_permutation(order).found) {
        keep(order, pipeline_.simulate(order));
        work.add(pipeline_.task_count());
    }
}

/// Orders by time.
void OrderSearch::start() {
    std::vector<double> times(input_.forward.begin(), input_.forward.end());
    for (std::size_t i = 0; i < times.size(); ++i) times[i] += input_.backward[i];
    const std::vector<uint32_t> ascending = by_ascending(times);
    const std::vector<uint32_t> descending(ascending.rbegin(), ascending.rend());
    std::vector<uint32_t> longest_inside;
    for (std::size_t i = 0; i < ascending.size(); i += 2) longest_inside.push_back(ascending[i]);
    for (std::size_t i = ascending.size() / 2; i-- > 0;)
        longest_inside.push_back(ascending[2 * i + 1]);
    for (const auto& order : {ascending, descending, longest_inside}) {
        report_progress(0, 1);
        keep(order, pipeline_.simulate(order));
    }
}

/// Exchanges two micro-batches, or moves one to another place.
void OrderSearch::improve() {
    const std::size_t count = input_.count();
    const uint64_t work_of_one = pipeline_.task_count();
    std::vector<uint32_t> order = best_, tried;
    LateAcceptance search(search_memory, makespan_);
    SearchDraws draws;
    for (SearchWork work(std::max(search_work, fewest_orders * work_of_one));
         work.is_left() && makespan_ > bound_; work.add(work_of_one)) {
        const uint32_t from = draws.below(count), to = draws.below(count);
        tried = order;
        if (draws.below(2) == 0) {
            std::swap(tried[from], tried[to]);
        } else if (from < to) {
            std::rotate(tried.begin() + from, tried.begin() + from + 1, tried.begin() + to + 1);
        } else {
            std::rotate(tried.begin() + to, tried.begin() + from, tried.begin() + from + 1);
        }
        const double makespan = pipeline_.simulate(tried);
        if (!search.accepts(makespan)) continue;
        order.swap(tried);
        keep(order, makespan);
    }
}

}  // namespace sab
