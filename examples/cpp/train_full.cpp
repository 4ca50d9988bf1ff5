/// A LibTorch trainer that finds out by itself how large its batches may be, on a device of 64 MiB:
/// emulated here, a GPU with "cuda:0". Links libtorch_cpu, libc10 and libsab; SAB_TORCH_LIBRARY
/// names libsab_torch.so.0 where it is not beside libsab.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <sab.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

constexpr int64_t width = 32;
constexpr int64_t total_bytes = int64_t{64} << 20;

void check(sab_status status) {
    if (status >= SAB_OK) return;
    std::fprintf(stderr, "%s: %s\n", sab_status_name(status), sab_last_error_message());
    std::exit(1);
}

/// A layer of attention, trained to give its input back.
class Trainer {
public:
    Trainer() {
        for (at::Tensor* weights : {&all_, &out_}) weights->requires_grad_(true);
    }
    void clear() {
        for (at::Tensor* weights : {&all_, &out_}) weights->mutable_grad() = at::Tensor();
    }
    /// Forward and backward; an exception when the device is full. What the samples are does not
    /// matter to the memory they take.
    void part(int64_t count, int64_t length, double weight) {
        const at::Tensor data = at::randn({count, length, width});
        const auto parts = at::matmul(data, all_).chunk(3, 2);
        const at::Tensor scores =
            at::softmax(at::matmul(parts[0], parts[1].transpose(1, 2)) / 6, -1);
        const at::Tensor told = at::matmul(at::matmul(scores, parts[2]), out_);
        ((told - data).square().mean() * weight).backward();
    }
    void update() {
        const c10::NoGradGuard without;
        for (at::Tensor* weights : {&all_, &out_}) weights->sub_(weights->grad(), 0.1);
    }

private:
    at::Tensor all_ = at::randn({width, 3 * width}) / 6, out_ = at::randn({width, width}) / 6;
};

struct Job {
    Trainer& trainer;
    std::vector<uint64_t> counts;
    std::vector<double> lengths;
    const sab_batch* batch = nullptr;
};

}  // namespace

int main() {
    std::mt19937 draw(1);
    std::geometric_distribution<int32_t> lengths(0.03);
    std::vector<int32_t> tokens(10000);
    for (int32_t& length : tokens) length = 4 + std::min(lengths(draw), 150);

    check(sab_torch_open(nullptr, nullptr));
    sab_probe_options device = SAB_PROBE_OPTIONS_INIT;
    device.total_bytes = total_bytes;
    sab_probe* probe = nullptr;
    check(sab_probe_new("cpu", &device, &probe));
    Trainer trainer;
    Job job{trainer, std::vector<uint64_t>(30), std::vector<double>(30)};

    // Small steps give a first model; steps that it says are near the budget, the one that is used.
    sab_memory_model* model = nullptr;
    sab_cost* cost = nullptr;  // of the model
    sab_memory_model_options fit = SAB_MEMORY_MODEL_OPTIONS_INIT;
    fit.coverage = 0.9;
    for (int round = 0; round < 2; ++round) {
        sab_measurement_options range = SAB_MEASUREMENT_OPTIONS_INIT;
        const double shortest = 4, longest = 154;
        const sab_budget budget = {cost, total_bytes, {}};
        range.shortest = &shortest;
        range.longest = &longest;
        range.column_count = 1;
        range.max_count = 10000;
        if (cost != nullptr) range.budget = &budget;
        check(sab_measurement_points_find(&range, job.counts.size(), job.counts.data(),
                                          job.lengths.data()));
        sab_collect_peak_options collect = SAB_COLLECT_PEAK_OPTIONS_INIT;
        collect.item_count = job.counts.size();
        collect.ctx = &job;
        collect.work = [](void* ctx, uint64_t item, double* features, size_t,
                          size_t* count) -> int32_t {
            Job& job = *static_cast<Job*>(ctx);
            features[0] = static_cast<double>(job.counts[item]);
            features[1] = job.lengths[item];
            *count = 2;
            job.trainer.clear();
            job.trainer.part(static_cast<int64_t>(job.counts[item]),
                             static_cast<int64_t>(job.lengths[item]), 1);
            return 0;
        };
        sab_peaks* peaks = nullptr;
        sab_peaks_view measured = SAB_PEAKS_VIEW_INIT;
        check(sab_peaks_new(&peaks));
        check(sab_collect_peak(probe, &collect, peaks));
        check(sab_peaks_get_view(peaks, &measured));
        const std::vector<double> bytes(measured.peaks, measured.peaks + measured.count);
        sab_memory_model_free(model);
        check(sab_memory_model_fit_new(measured.features, measured.count, measured.feature_count,
                                       bytes.data(), &fit, &model));
        sab_peaks_free(peaks);
        sab_cost_free(cost);
        check(sab_memory_model_cost_new(model, &cost));
    }

    const sab_budget budget = {cost, total_bytes, {}};
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    options.budgets = &budget;
    options.budget_count = 1;
    sab_sizes* sizes = nullptr;
    sab_plan* plan = nullptr;
    sab_sampler* sampler = nullptr;
    sab_memory_guard* guard = nullptr;
    check(sab_sizes_new(tokens.data(), tokens.size(), SAB_INT32, nullptr, &sizes));
    check(sab_plan_new(sizes, &options, &plan));
    check(sab_bucket_sampler_new(plan, nullptr, &sampler));
    check(sab_memory_guard_new(probe, sampler, nullptr, &guard));

    sab_step_in_chunks_options step = SAB_STEP_IN_CHUNKS_OPTIONS_INIT;
    step.ctx = &job;
    step.begin = [](void* ctx) -> int32_t {
        static_cast<Job*>(ctx)->trainer.clear();
        return 0;
    };
    step.chunk = [](void* ctx, uint64_t, uint64_t count, double weight) -> int32_t {
        const Job& job = *static_cast<Job*>(ctx);
        job.trainer.part(static_cast<int64_t>(count),
                         static_cast<int64_t>(*job.batch->padded_length), weight);
        return 0;
    };
    sab_batch batch = SAB_BATCH_INIT;
    while (sab_next_batch(sampler, &batch) == SAB_OK) {
        job.batch = &batch;
        check(sab_memory_guard_step(guard, &batch, &step));
        trainer.update();
    }
    sab_memory_guard_info seen = SAB_MEMORY_GUARD_INFO_INIT;
    check(sab_memory_guard_get_info(guard, &seen));
    std::printf(
        "%zu samples in %d steps, %d out of memory; the peak is %.1f %% of the device on average, "
        "%.1f %% at most\n",
        tokens.size(), static_cast<int>(seen.steps), static_cast<int>(seen.out_of_memory),
        100 * seen.mean_peak / total_bytes, 100 * static_cast<double>(seen.peak) / total_bytes);
    sab_memory_guard_free(guard);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
    sab_cost_free(cost);
    sab_memory_model_free(model);
    trainer.clear();
    sab_probe_free(probe);
    return seen.out_of_memory == 0 && seen.mean_peak > 0.8 * total_bytes ? 0 : 1;
}
