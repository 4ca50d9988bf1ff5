// group
#include "data.h"

namespace {

int32_t cost_of(void *, uint64_t, const double *lengths, const double *totals, std::size_t,
                double *cost) {
    *cost = totals[0] * lengths[0];
    return 0;
}

void note_grouping(Run &run, sab_grouping *grouping) {
    sab_grouping_view groups = SAB_GROUPING_VIEW_INIT;
    CALL_INTO(groups, sab_grouping_get_view(grouping, &groups));
    run.note(groups.offsets, (groups.groups + 1) * sizeof(int64_t));
    run.note(groups.permutation, groups.samples * sizeof(int64_t));
    run.note(groups.inverse, groups.samples * sizeof(int64_t));
    run.note(groups.group_of, groups.samples * sizeof(int64_t));
    CALL_PLAIN(sab_grouping_free(grouping));
}

}  // namespace

SCENARIO(thresholds, Threads::none) {
    sab_sizes *const sizes = sizes_of(run, lengths());
    sab_cost *cost = nullptr;
    CALL_INTO(cost, sab_cost_callback_new(cost_of, nullptr, nullptr, &cost));
    for (const sab_thresholds_method method :
         {SAB_THRESHOLDS_LEAST_TOTAL, SAB_THRESHOLDS_LEAST_LARGEST, SAB_THRESHOLDS_RANDOMISED})
        for (const bool asks : {false, true}) {
            sab_thresholds_options options = SAB_THRESHOLDS_OPTIONS_INIT;
            options.method = method;
            if (method == SAB_THRESHOLDS_RANDOMISED) options.num_trials = 5;
            if (asks) options.cost = cost;
            std::vector<double> thresholds(4);
            sab_thresholds_info info = SAB_THRESHOLDS_INFO_INIT;
            CALL_INTO(thresholds,
                      sab_thresholds_find(sizes, 4, &options, thresholds.data(), &info));
            run.note(thresholds.data(), thresholds.size() * sizeof(double));
            run.note(&info, sizeof info);
        }
    CALL_PLAIN(sab_sizes_free(sizes));
    CALL_PLAIN(sab_cost_free(cost));
}

SCENARIO(groupings, Threads::none) {
    sab_sizes *const sizes = sizes_of(run, lengths());
    const double thresholds[] = {5, 20}, others[] = {10};
    const sab_grouping_dimension dimensions[] = {{sizes, thresholds, 2}, {sizes, others, 1}};
    sab_grouping *grouping = nullptr;
    CALL_INTO(grouping, sab_grouping_thresholds_new(dimensions, 2, &grouping));
    note_grouping(run, grouping);
    const int64_t group_of[] = {2, 0, 2, 1}, indices[] = {3, 1, 0, 2};
    const uint64_t counts[] = {1, 0, 3};
    CALL_INTO(grouping, sab_grouping_predefined_new(group_of, 4, 4, &grouping));
    note_grouping(run, grouping);
    CALL_INTO(grouping, sab_grouping_partition_new(indices, counts, 3, &grouping));
    note_grouping(run, grouping);
    CALL_INTO(grouping, sab_grouping_partition_new(nullptr, counts, 3, &grouping));
    note_grouping(run, grouping);
    CALL_PLAIN(sab_sizes_free(sizes));
}

static void play_padding(Run &run, uint64_t threads, int64_t rows) {
    std::vector<int64_t> shapes = {rows, 2, rows - 1, 4, 2, 2};
    std::vector<double> values(static_cast<std::size_t>(rows * 2 + (rows - 1) * 4 + 4));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
    sab_ragged ragged = SAB_RAGGED_INIT;
    ragged.samples = 3;
    ragged.dimensions = 2;
    ragged.element_size = sizeof(double);
    ragged.shapes = shapes.data();
    ragged.values = values.data();
    std::vector<int64_t> shape(2);
    CALL_INTO(shape, sab_ragged_get_padded_shape(&ragged, nullptr, 3, shape.data()));
    std::vector<double> padded(static_cast<std::size_t>(3 * shape[0] * shape[1]));
    sab_pad_options options = SAB_PAD_OPTIONS_INIT;
    options.threads = threads;
    CALL(sab_ragged_pad(&ragged, nullptr, 3, shape.data(), &options, padded.data()));
    run.note(padded.data(), (padded.size() < 100 ? padded.size() : 100) * sizeof(double));
    CALL(sab_ragged_unpad(padded.data(), shape.data(), nullptr, 3, &options, &ragged));
    run.note(values.data(), 10 * sizeof(double));
}

SCENARIO(padding, Threads::none) {
    play_padding(run, 1, 5);
    const int64_t own[] = {2, 1}, shape[] = {3};
    std::vector<uint8_t> mask(6);
    CALL_INTO(mask, sab_ragged_mask(own, 2, shape, 1, SAB_MASK_ALL, mask.data()));
    run.note(mask.data(), mask.size());
}

SCENARIO(padding_in_threads, Threads::some) {
    play_padding(run, 3, 60000);
}
