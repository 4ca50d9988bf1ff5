// memory
#include "../one.h"
#include "data.h"

namespace {

/// A device that is simulated.
struct Device {
    int64_t held = 1000, peak = 1000, limit = 50000;
    uint64_t rng = 1, saved[4] = {};
    int64_t leaked = 0;
    int reduced = 0;
    int64_t told = 1;  // the first number that was last reduced: 0 says that the rank failed
    Run *run = nullptr;
};
Device *device_of(void *ctx) {
    return static_cast<Device *>(ctx);
}

int32_t reset(void *ctx) {
    device_of(ctx)->peak = device_of(ctx)->held;
    return 0;
}
int32_t current(void *ctx, int64_t *bytes) {
    *bytes = device_of(ctx)->held;
    return 0;
}
int32_t peak(void *ctx, int64_t *bytes) {
    *bytes = device_of(ctx)->peak;
    return 0;
}
int32_t total(void *ctx, int64_t *bytes) {
    *bytes = device_of(ctx)->limit;
    return 0;
}
int32_t release_cache(void *) {
    return 0;
}
int32_t rng_save(void *ctx, uint64_t depth) {
    device_of(ctx)->saved[depth] = device_of(ctx)->rng;
    return 0;
}
int32_t rng_restore(void *ctx, uint64_t depth) {
    device_of(ctx)->rng = device_of(ctx)->saved[depth];
    return 0;
}
int32_t step_of(Device *device, double bytes) {
    device->rng = device->rng * 6364136223846793005u + 1;
    const int64_t needed = device->held + device->leaked + static_cast<int64_t>(bytes);
    if (needed > device->limit) return SAB_OUT_OF_MEMORY;
    device->peak = needed > device->peak ? needed : device->peak;
    return 0;
}
int32_t trial(void *ctx, uint64_t count, double length) {
    return step_of(device_of(ctx), static_cast<double>(count) * length * 7);
}
int32_t reduce(void *ctx, int64_t *values, std::size_t) {
    ++device_of(ctx)->reduced;
    device_of(ctx)->told = values[0];
    return 0;
}
int32_t chunk(void *ctx, uint64_t, uint64_t count, double) {
    return step_of(device_of(ctx), static_cast<double>(count) * 2000);
}
int32_t leaking_chunk(void *ctx, uint64_t, uint64_t count, double) {
    if (device_of(ctx)->leaked < 44000) device_of(ctx)->leaked += 5000;
    return step_of(device_of(ctx), static_cast<double>(count) * 300);
}
sab_step_in_chunks_options leaking_step(Device *device) {
    sab_step_in_chunks_options step = SAB_STEP_IN_CHUNKS_OPTIONS_INIT;
    step.chunk = leaking_chunk;
    step.ctx = device;
    return step;
}
int32_t run_batch(void *ctx, const sab_batch *batch) {
    return step_of(device_of(ctx), static_cast<double>(batch->count) * *batch->padded_length);
}
int32_t work(void *ctx, uint64_t item, double *features, std::size_t, std::size_t *count) {
    features[0] = static_cast<double>(item);
    *count = 1;
    return step_of(device_of(ctx), static_cast<double>(item) * 3000);
}
int32_t clean(void *, uint64_t) {
    return 0;
}
int32_t collect_garbage(void *) {
    return 0;
}
int32_t go_on(void *, uint64_t, uint64_t) {
    return 0;
}

/// The context of a probe is counted apart from the device, which is on the stack of the scenario.
sab_probe *probe_of(Run &run, Device &device) {
    sab_probe_callbacks callbacks = SAB_PROBE_CALLBACKS_INIT;
    callbacks.ctx = &device;
    callbacks.reset = reset;
    callbacks.current = current;
    callbacks.peak = peak;
    callbacks.total = total;
    callbacks.release_cache = release_cache;
    callbacks.rng_save = rng_save;
    callbacks.rng_restore = rng_restore;
    sab_probe *probe = nullptr;
    CALL_INTO(probe, sab_probe_callbacks_new(&callbacks, &probe));
    return probe;
}
int32_t nothing(void *) {
    return 0;
}
int32_t no_bytes(void *, int64_t *bytes) {
    *bytes = 5;
    return 0;
}

std::vector<double> features() {
    std::vector<double> all;
    for (int i = 0; i < 30; ++i) {
        all.push_back(1 + i % 6);
        all.push_back(8 + i * 5 % 40);
    }
    return all;
}
std::vector<double> peaks() {
    std::vector<double> all;
    const std::vector<double> rows = features();
    for (std::size_t i = 0; i < rows.size(); i += 2)
        all.push_back(1000 + rows[i] * rows[i + 1] * 17 +
                      rows[i] * rows[i + 1] * rows[i + 1] * 0.5 + static_cast<double>(i * 7 % 13));
    return all;
}

/// What was measured of two columns.
std::vector<double> column_features() {
    std::vector<double> all;
    for (int i = 0; i < 9; ++i)
        for (const int feature : {1 + i % 6, 8 + i * 5 % 40, 4 + i * 7 % 33})
            all.push_back(feature);
    return all;
}
std::vector<double> column_peaks() {
    std::vector<double> all;
    const std::vector<double> rows = column_features();
    for (std::size_t i = 0; i < rows.size(); i += 3)
        all.push_back(1000 + rows[i] * (rows[i + 1] * 17 + rows[i + 2] * 9) +
                      rows[i] * rows[i + 1] * rows[i + 2] * 0.5 + static_cast<double>(i * 7 % 13));
    return all;
}

void note_model(Run &run, const sab_memory_model *model) {
    sab_memory_model_info info = SAB_MEMORY_MODEL_INFO_INIT;
    CALL_INTO(info, sab_memory_model_get_info(model, &info));
    run.note(info.coefficients, info.term_count * sizeof *info.coefficients);
    run.note(info.powers, info.term_count * info.feature_count * sizeof *info.powers);
    run.note_text(info.column_names == nullptr ? "" : info.column_names[0]);
    info.coefficients = nullptr;
    info.powers = nullptr;
    info.column_names = nullptr;
    run.note(&info, sizeof info);
    const double rows[] = {2, 10, 5, 30, 7, 9};
    std::vector<double> predicted(2), upper(2);
    CALL_INTO(predicted, sab_memory_model_predict(model, rows, 2, predicted.data(), upper.data()));
    run.note(predicted.data(), 2 * sizeof(double));
    run.note(upper.data(), 2 * sizeof(double));
    sab_cost *cost = nullptr;
    CALL_INTO(cost, sab_memory_model_cost_new(model, &cost));
    double value = 0;
    CALL_INTO(value, sab_cost_evaluate(cost, 2, rows + 1, nullptr, info.feature_count - 1, &value));
    run.note(value);
    CALL_PLAIN(sab_cost_free(cost));
}

}  // namespace

SCENARIO(probe, Threads::none) {
    sab_probe_callbacks callbacks = SAB_PROBE_CALLBACKS_INIT;
    callbacks.ctx = run.context();
    callbacks.reset = nothing;
    callbacks.current = callbacks.peak = no_bytes;
    callbacks.release = Run::release;
    sab_probe *probe = nullptr;
    CALL_INTO(probe, sab_probe_callbacks_new(&callbacks, &probe));
    CALL(sab_probe_reset(probe));
    sab_probe_stats stats = SAB_PROBE_STATS_INIT;
    CALL_INTO(stats, sab_probe_get_stats(probe, &stats));
    run.note(&stats, sizeof stats);
    CALL(sab_probe_release_cache(probe));
    CALL_PLAIN(sab_probe_free(probe));
}

SCENARIO(probe_of_host, Threads::none) {
    run.allow(SAB_E_CALLBACK);  // of fopen(), which fails without memory
    sab_probe *probe = nullptr;
    CALL_INTO(probe, sab_probe_new("host", nullptr, &probe));
    CALL(sab_probe_reset(probe));
    sab_probe_stats stats = SAB_PROBE_STATS_INIT;
    CALL_INTO(stats, sab_probe_get_stats(probe, &stats));
    CALL_PLAIN(sab_probe_free(probe));
    CALL_FAILS(SAB_E_UNSUPPORTED, sab_probe_new("cuda:0", nullptr, &probe));
}

SCENARIO(peaks, Threads::none) {
    Device device;
    sab_probe *const probe = probe_of(run, device);
    sab_peaks *peaks = nullptr;
    CALL_INTO(peaks, sab_peaks_new(&peaks));
    sab_collect_peak_options options = SAB_COLLECT_PEAK_OPTIONS_INIT;
    options.item_count = 20;
    options.work = work;
    options.cleanup = clean;
    options.collect_garbage = collect_garbage;
    options.ctx = &device;
    options.progress = go_on;
    // What was collected before it failed stays, as documented: an empty collection is made for
    // each try.
    while (CALL_ONCE(sab_collect_peak(probe, &options, peaks)) != SAB_OK) {
        sab_peaks_view view = SAB_PEAKS_VIEW_INIT;
        CALL(sab_peaks_get_view(peaks, &view));
        run.require(view.count <= 20, "more peaks than items");
        for (std::size_t i = 0; i < view.count; ++i)
            run.require(view.items[i] == i && view.features[i] == static_cast<double>(i),
                        "a row of peaks is damaged");
        CALL_PLAIN(sab_peaks_free(peaks));
        peaks = nullptr;
        CALL_INTO(peaks, sab_peaks_new(&peaks));
    }
    sab_peaks_view view = SAB_PEAKS_VIEW_INIT;
    CALL_INTO(view, sab_peaks_get_view(peaks, &view));
    run.note(uint64_t{view.count});
    run.note(view.features, view.count * sizeof(double));
    run.note(view.peaks, view.count * sizeof(int64_t));
    run.note(view.out_of_memory, view.out_of_memory_count * sizeof(uint64_t));
    CALL_PLAIN(sab_peaks_free(peaks));
    CALL_PLAIN(sab_probe_free(probe));
}

SCENARIO(measurement_points, Threads::none) {
    sab_measurement_options options = SAB_MEASUREMENT_OPTIONS_INIT;
    options.max_count = 20;
    options.degree = 1;
    for (options.column_count = 1; options.column_count <= 2; ++options.column_count) {
        const double most = options.column_count == 1 ? 100 : 11;
        const double shortest[] = {10, 10}, longest[] = {most, most};
        options.shortest = shortest;
        options.longest = longest;
        std::vector<uint64_t> counts(8);
        std::vector<double> rows(8 * options.column_count);
        CALL_INTO(counts, sab_measurement_points_find(&options, 8, counts.data(), rows.data()));
        run.note(counts.data(), counts.size() * sizeof counts[0]);
        run.note(rows.data(), rows.size() * sizeof rows[0]);
    }
}

/// A model that is fitted, written, and read again.
static void fit_and_copy(Run &run, const std::vector<double> &rows,
                         const std::vector<double> &measured,
                         const sab_memory_model_options &options) {
    sab_memory_model *model = nullptr, *opened = nullptr, *read = nullptr;
    CALL_INTO(model,
              sab_memory_model_fit_new(rows.data(), measured.size(), rows.size() / measured.size(),
                                       measured.data(), &options, &model));
    note_model(run, model);
    const std::string path = folder + "/model";
    CALL(sab_memory_model_save(model, path.c_str()));
    CALL_INTO(opened, sab_memory_model_file_new(path.c_str(), &opened));
    note_model(run, opened);
    std::size_t size = 0;
    CALL_INTO(size, sab_memory_model_write(model, nullptr, 0, &size));
    std::vector<unsigned char> image(size);
    CALL_INTO(image, sab_memory_model_write(model, image.data(), size, &size));
    run.note(image.data(), size);
    CALL_INTO(read, sab_memory_model_bytes_new(image.data(), size, &read));
    note_model(run, read);
    for (sab_memory_model *const each : {model, opened, read})
        CALL_PLAIN(sab_memory_model_free(each));
}

SCENARIO(memory_model, Threads::none) {
    fit_and_copy(run, features(), peaks(), SAB_MEMORY_MODEL_OPTIONS_INIT);
}

SCENARIO(memory_model_columns, Threads::none) {
    static const char *const names[] = {"the lengths of the sources", "target"};
    sab_memory_model_options options = SAB_MEMORY_MODEL_OPTIONS_INIT;
    options.degree = 1;
    options.column_names = names;
    fit_and_copy(run, column_features(), column_peaks(), options);
}

SCENARIO(find_max_batch, Threads::none) {
    for (const sab_search search :
         {SAB_SEARCH_PREDICT, SAB_SEARCH_DIFFERENCE, SAB_SEARCH_BINARY, SAB_SEARCH_HALVE}) {
        Device device;
        sab_probe *const probe = probe_of(run, device);
        const double two[] = {10, 40};
        sab_max_batch_options options = SAB_MAX_BATCH_OPTIONS_INIT;
        options.search = search;
        options.lengths = two;
        options.length_count = 2;
        options.max_batch_size = 2000;
        options.progress = go_on;
        sab_max_batch found = SAB_MAX_BATCH_INIT;
        std::vector<uint64_t> sizes(2);
        CALL_INTO(found, sab_max_batch_find(probe, trial, &device, &options, sizes.data(), &found));
        run.note(&found, sizeof found);
        run.note(sizes.data(), 2 * sizeof sizes[0]);
        run.note(device.rng);
        CALL_PLAIN(sab_probe_free(probe));
    }
}

SCENARIO(find_max_batch_of_ranks, Threads::none) {
    // The other ranks see what this one sees. They wait in `reduce` unless this one came there too,
    // to say that it failed.
    Device device;
    sab_probe *const probe = probe_of(run, device);
    sab_max_batch_options options = SAB_MAX_BATCH_OPTIONS_INIT;
    options.max_batch_size = 2000;
    options.reduce = reduce;
    options.reduce_ctx = &device;
    sab_max_batch found = SAB_MAX_BATCH_INIT;
    static int most_calls = 0;
    while (CALL_ONCE(sab_max_batch_find(probe, trial, &device, &options, nullptr, &found)) !=
           SAB_OK) {
        run.require(device.reduced == most_calls || (device.reduced > 0 && device.told == 0),
                    "the other ranks wait for one that has failed");
        device.reduced = 0;
    }
    if (!run.can_fail()) most_calls = device.reduced;
    run.note(static_cast<uint64_t>(device.reduced));
    run.note(&found, sizeof found);
    CALL_PLAIN(sab_probe_free(probe));
}

SCENARIO(step_in_chunks, Threads::none) {
    Device device;
    sab_probe *const probe = probe_of(run, device);
    sab_step_in_chunks_options options = SAB_STEP_IN_CHUNKS_OPTIONS_INIT;
    options.chunk = chunk;
    options.begin = nothing;
    options.ctx = &device;
    options.sample_weights = lengths().data();
    uint64_t size = 0;
    CALL_INTO(size, sab_step_run_in_chunks(probe, 60, &options, &size));
    run.note(size);
    CALL_PLAIN(sab_probe_free(probe));
}

SCENARIO(plan_verify, Threads::none) {
    Device device;
    sab_probe *const probe = probe_of(run, device);
    sab_plan *const plan = plan_with(run, with_budget(300));
    sab_verification seen = SAB_VERIFICATION_INIT;
    CALL_INTO(seen, sab_plan_verify(plan, probe, run_batch, &device,
                                    a_verification(5, go_on, nullptr), &seen));
    run.note(&seen, sizeof seen);
    run.note(device.rng);
    CALL_PLAIN(sab_plan_free(plan));
    CALL_PLAIN(sab_probe_free(probe));
}

SCENARIO(memory_guard_of_ranks, Threads::none) {
    // The other ranks see what this one sees, and wait in `reduce` unless this one comes as often
    // as they do, whatever fails here. A budget that this rank cannot lower stays on all.
    Device device;
    sab_probe *const probe = probe_of(run, device);
    sab_plan *const plan = plan_with(run, with_budget(100));
    sab_sampler *sampler = nullptr;
    sab_sampler_options first_of_two = SAB_SAMPLER_OPTIONS_INIT;
    first_of_two.seed = 5;
    first_of_two.world_size = 2;
    CALL_INTO(sampler, sab_bucket_sampler_new(plan, &first_of_two, &sampler));
    sab_memory_guard_options options = SAB_MEMORY_GUARD_OPTIONS_INIT;
    options.interval = 4;
    options.window = 8;
    options.reduce = reduce;
    options.reduce_ctx = &device;
    sab_memory_guard *guard = nullptr;
    CALL_INTO(guard, sab_memory_guard_new(probe, sampler, &options, &guard));
    const sab_step_in_chunks_options step = leaking_step(&device);
    sab_batch batch = SAB_BATCH_INIT;
    sab_memory_guard_info info = SAB_MEMORY_GUARD_INFO_INIT;
    static uint64_t usually_lowered = 0;
    for (uint64_t i = 1; i <= 8; ++i) {
        CALL_INTO(batch, sab_next_batch(sampler, &batch));
        const int before = device.reduced;
        double old_budget = 0, new_budget = 0;
        CALL(sab_sampler_get_budget(sampler, 0, &old_budget));
        const sab_status status = CALL_ONCE(sab_memory_guard_step(guard, &batch, &step));
        CALL(sab_sampler_get_budget(sampler, 0, &new_budget));
        run.require((i % 4 == 0) == (device.reduced > before),
                    "the other ranks wait at a judgement");
        run.require(device.told != 0 || status != SAB_OK,
                    "a rank said that it cannot lower its budget, but did not fail");
        run.require(device.told != 0 || new_budget == old_budget,
                    "a budget is lowered although this rank said that it cannot");
    }
    CALL_INTO(info, sab_memory_guard_get_info(guard, &info));
    run.require(info.steps == 8, "a step that failed is not counted");
    if (!run.can_fail()) usually_lowered = info.lowered;
    run.require(usually_lowered > 0, "the budget is never lowered");
    CALL_PLAIN(sab_memory_guard_free(guard));
    CALL_PLAIN(sab_sampler_free(sampler));
    CALL_PLAIN(sab_plan_free(plan));
    CALL_PLAIN(sab_probe_free(probe));
}

SCENARIO(memory_guard, Threads::none) {
    Device device;
    sab_probe *const probe = probe_of(run, device);
    sab_plan *const plan = plan_with(run, with_budget(100));
    sab_sampler *sampler = nullptr;
    CALL_INTO(sampler, sab_bucket_sampler_new(plan, nullptr, &sampler));
    sab_memory_guard_options options = SAB_MEMORY_GUARD_OPTIONS_INIT;
    options.interval = 4;
    options.window = 8;
    sab_memory_guard *guard = nullptr;
    CALL_INTO(guard, sab_memory_guard_new(probe, sampler, &options, &guard));
    const sab_step_in_chunks_options step = leaking_step(&device);
    sab_batch batch = SAB_BATCH_INIT;
    for (int i = 0; i < 40 && CALL_INTO(batch, sab_next_batch(sampler, &batch)) == SAB_OK; ++i) {
        // A step that failed counts as one.
        if (i % 5 == 4) {
            CALL(sab_memory_guard_begin(guard));
            CALL_ONCE(sab_memory_guard_end(guard, &batch, 0));
        } else {
            CALL_ONCE(sab_memory_guard_step(guard, &batch, &step));
        }
        run.require(batch.count > 0, "a batch of nothing");
    }
    sab_memory_guard_info info = SAB_MEMORY_GUARD_INFO_INIT;
    CALL_INTO(info, sab_memory_guard_get_info(guard, &info));
    run.note(info.steps > 0 ? uint64_t{1} : uint64_t{0});
    CALL_PLAIN(sab_memory_guard_free(guard));
    CALL_PLAIN(sab_sampler_free(sampler));
    CALL_PLAIN(sab_plan_free(plan));
    CALL_PLAIN(sab_probe_free(probe));
}
