#pragma once
/// One step of a pipeline: the tasks of each rank, when they run, and orders of the micro-batches.

#include <cstdint>
#include <span>
#include <vector>

#include "sab/balance.h"

namespace sab {

/// Times of the micro-batches, read and checked.
struct PipelineInput {
    PipelineInput(const double* forward, const double* backward, std::size_t count, uint64_t stages,
                  const sab_pipeline_options& options);

    std::vector<double> forward, backward;  ///< in one part of the model
    uint32_t stages, chunks;
    double transfer;
    uint32_t count() const { return static_cast<uint32_t>(forward.size()); }
};

/// The tasks of all ranks, for any order of the micro-batches.
class PipelineSchedule {
public:
    explicit PipelineSchedule(const PipelineInput& input);

    /// The makespan. Fills `tasks`, if there are any, rank by rank.
    double simulate(std::span<const uint32_t> order, std::span<sab_pipeline_task> tasks = {});
    std::size_t task_count() const { return tasks_.size(); }
    /// No order has a lower makespan.
    double lower_bound() const;
    sab_pipeline_report report(double makespan) const;

private:
    static constexpr uint32_t none = UINT32_MAX;

    /// A task, and the one before it that must have ended, an index of `tasks_`.
    struct Task {
        uint32_t rank, place;  ///< of the micro-batch in the order
        uint32_t chunk;
        uint32_t needed = none;
        bool is_backward, is_far;  ///< from another rank
    };

    Task task_of(uint32_t rank, uint32_t number) const;
    Task source_of(const Task& task) const;
    std::size_t key(const Task& task) const;
    uint32_t forwards_first(uint32_t rank) const;
    bool needs_nothing(const Task& task) const;
    void sort_tasks();
    double bound_by_longest() const;
    double bound_by_last_rank() const;

    const PipelineInput& input_;
    std::vector<Task> tasks_;  ///< each behind those that it needs
    std::vector<double> ends_, free_;
};

/// Searches an order with a low makespan. The work is bounded by counts.
class OrderSearch {
public:
    OrderSearch(const PipelineInput& input, PipelineSchedule& pipeline);
    std::vector<uint32_t> run();

private:
    void keep(const std::vector<uint32_t>& order, double makespan);
    void try_all(std::vector<uint32_t> order);
    void start();
    void improve();

    const PipelineInput& input_;
    PipelineSchedule& pipeline_;
    double bound_;
    std::vector<uint32_t> best_;
    double makespan_;
};

/// Each micro-batch once; NULL: as given.
std::vector<uint32_t> read_order(const uint32_t* order, std::size_t count);

}  // namespace sab
