// Every constructor of a sampler; sampler, pack
#include <cerrno>

#include "../constructors.h"
#include "../one.h"
#include "data.h"

namespace {

void note_state(Run &run, const sab_sampler *sampler) {
    const std::vector<unsigned char> state = state_of(run, sampler);
    run.note(state.data(), state.size());
    uint64_t epoch = 0, step = 0;
    CALL(sab_sampler_tell(sampler, &epoch, &step));
    run.note(epoch);
    run.note(step);
}

void note_skipped(Run &run, sab_sampler *sampler) {
    std::vector<int64_t> skipped(256);
    std::size_t count = 0;
    CALL(sab_sampler_get_skipped(sampler, skipped.data(), skipped.size(), &count));
    run.note(skipped.data(), count * sizeof skipped[0]);
}

/// What Arrow's functions return, as a status.
sab_status status_of(int code) {
    return code == 0 ? SAB_OK : code == ENOMEM ? SAB_E_NO_MEMORY : SAB_E_INTERNAL;
}

/// The rows of the epoch, through a stream that outlives its arrays.
void note_schedule(Run &run, const sab_sampler *sampler) {
    ArrowArrayStream stream{};
    CALL_INTO(stream, sab_arrow_schedule_new(sampler, &stream));
    ArrowSchema schema{};
    CALL_INTO(schema, status_of(stream.get_schema(&stream, &schema)));
    run.note(static_cast<uint64_t>(schema.n_children));
    schema.release(&schema);
    for (;;) {
        ArrowArray array{};
        CALL_INTO(array, status_of(stream.get_next(&stream, &array)));
        if (array.release == nullptr) break;
        const auto rows = static_cast<std::size_t>(array.length);
        for (const int column : {0, 1, 2, 4})
            run.note(array.children[column]->buffers[1], rows * sizeof(int64_t));
        const ArrowArray &lists = *array.children[3], &items = *lists.children[0];
        run.note(lists.buffers[1], (rows + 1) * sizeof(int32_t));
        run.note(items.buffers[1], static_cast<std::size_t>(items.length) * sizeof(int64_t));
        array.release(&array);
    }
    stream.release(&stream);
}

/// All that a sampler with random access can do.
void use(Run &run, sab_sampler *sampler) {
    walk(run, sampler, 3);
    note_state(run, sampler);
    std::vector<unsigned char> state = state_of(run, sampler);
    uint64_t count = 0, capabilities = 0;
    CALL(sab_sampler_get_capabilities(sampler, &capabilities));
    run.note(capabilities);
    if (capabilities & SAB_SAMPLER_SCHEDULE) note_schedule(run, sampler);
    CALL_INTO(count, sab_sampler_get_batch_count(sampler, &count));
    run.note(count);
    sab_batch batch = SAB_BATCH_INIT;
    CALL_INTO(batch, sab_sampler_at(sampler, count - 1, &batch));
    run.note_batch(batch);
    CALL_OR_SKIP(sab_sampler_set_epoch(sampler, 3));
    walk(run, sampler, 2);
    note_state(run, sampler);
    take_blocks(run, sampler, 4);
    note_state(run, sampler);
    CALL_OR_SKIP(sab_sampler_state_restore(sampler, state.data(), state.size()));
    walk(run, sampler, 1);
    note_state(run, sampler);
    CALL_OR_SKIP(sab_sampler_seek(sampler, 1));
    walk(run, sampler);
    note_state(run, sampler);
    CALL_OR_SKIP(sab_sampler_begin(sampler));  // the next epoch
    walk(run, sampler, 2);
    CALL_OR_SKIP(sab_sampler_begin(sampler));  // the same again
    note_state(run, sampler);
    note_skipped(run, sampler);
    CALL_FAILS(SAB_E_ARGUMENT, sab_sampler_seek(sampler, 1000000));
    state[40] ^= 1;
    CALL_FAILS(SAB_E_FORMAT, sab_sampler_state_restore(sampler, state.data(), state.size()));
    walk(run, sampler);
}

/// A sampler of a row of the table, on one of several ranks where it can be. `steps`: of an epoch.
void play_constructor(Run &run, const constructor &kind, uint64_t steps = 0) {
    static const std::vector<int32_t> numbers(lengths().begin(), lengths().end());
    inputs given = default_inputs();
    given.numbers = numbers.data();
    given.count = numbers.size();
    if (!(kind.properties & ONE_RANK)) given.options = rank_options();
    const std::string name = kind.name;
    const bool has_own_order = name == "balanced" || name.rfind("bagua", 0) == 0;
    given.options.costliest_first = has_own_order ? 0 : 2;
    given.options.steps_per_epoch = steps;
    sab_sizes *const sizes = sizes_of(run, lengths());
    sab_plan *const plan =
        plan_with(run, kind.source == OF_BOUNDARIES ? with_boundaries() : with_budget(300));
    given.sizes = sizes;
    given.plan = plan;
    const std::string call = std::string("sab_") + kind.name + "_sampler_new()";
    sab_sampler *sampler = nullptr;
    run.call(call.c_str(), Run::Kind::must, SAB_OK, [&] { return kind.make(&given, &sampler); },
             {Run::out(sampler)});
    CALL_PLAIN(sab_plan_free(plan));
    CALL_PLAIN(sab_sizes_free(sizes));
    if (kind.capabilities & SAB_SAMPLER_RANDOM_ACCESS) {
        use(run, sampler);
    } else {
        walk(run, sampler, 2);
        CALL_OR_SKIP(sab_sampler_set_epoch(sampler, 1));
        walk(run, sampler);
        note_skipped(run, sampler);
    }
    CALL_PLAIN(sab_sampler_free(sampler));
}

/// A scenario for each row of the table.
const bool are_registered = [] {
    FOR_CONSTRUCTORS(kind)
    scenarios().push_back(
        {kind->name, [kind](Run &run) { play_constructor(run, *kind); }, Threads::none});
    // Its epochs have the end of one epoch of the data and the beginning of another.
    const constructor *const packed = constructor_of("packed");
    scenarios().push_back({"steps_per_epoch",
                           [packed](Run &run) { play_constructor(run, *packed, 7); },
                           Threads::none});
    return true;
}();

int32_t next_index(void *, uint64_t epoch, uint64_t position, int64_t *index, double *size) {
    if (position >= lengths().size()) return SAB_END;
    *index = static_cast<int64_t>(position * 7 + epoch);
    *size = lengths()[position];
    return 0;
}

int32_t size_by_index(void *, int64_t index, double *size) {
    *size = lengths()[static_cast<std::size_t>(index)];
    return 0;
}

}  // namespace

SCENARIO(next_block, Threads::none) {
    // First batches of few, then of many samples: memory for them is needed on the way.
    std::vector<double> numbers(56, 40.0);
    numbers.insert(numbers.end(), 8, 1.0);
    sab_sizes *const sizes = sizes_of(run, numbers);
    sab_plan_options options = with_budget(80);
    options.bucket_rule = SAB_BUCKETS_OPTIMAL;
    options.bucket_count = 2;
    sab_plan *plan = nullptr;
    CALL_INTO(plan, sab_plan_new(sizes, &options, &plan));
    sab_sampler *sampler = nullptr;
    CALL_INTO(sampler, sab_bucket_sampler_new(plan, nullptr, &sampler));
    take_blocks(run, sampler, 20);
    walk(run, sampler);
    CALL_PLAIN(sab_sampler_free(sampler));
    CALL_PLAIN(sab_plan_free(plan));
    CALL_PLAIN(sab_sizes_free(sizes));
}

SCENARIO(few_shapes, Threads::none) {
    sab_plan_options planned = with_budget(100);
    planned.shapes = SAB_SHAPES_AUTO;
    planned.padding_target = 0.1;
    sab_plan *const plan = plan_with(run, planned, few_lengths());
    uint64_t shapes = 0;
    double padding = 0;
    CALL_INTO(padding, sab_plan_get_shape_padding(plan, 0, &shapes, &padding));
    run.note(shapes);
    run.note(padding);
    const sab_sampler_options options = rank_options();
    sab_sampler *sampler = nullptr;
    CALL_INTO(sampler, sab_bucket_sampler_new(plan, &options, &sampler));
    sab_shape shape = SAB_SHAPE_INIT;
    CALL_INTO(shape, sab_sampler_get_shape(sampler, 0, &shape));
    run.note(shape.count);
    walk(run, sampler);
    CALL_PLAIN(sab_sampler_free(sampler));
    CALL_PLAIN(sab_plan_free(plan));
}

SCENARIO(balance, Threads::none) {
    sab_plan *const plan = plan_with(run, with_budget(300));
    sab_cost *cost = nullptr;
    CALL_INTO(cost, sab_cost_transformer_new(64, 2, &cost));
    sab_sampler_options options = rank_options();
    options.balance = &cost;
    options.balance_count = 1;
    sab_sampler *sampler = nullptr;
    CALL_INTO(sampler, sab_bucket_sampler_new(plan, &options, &sampler));
    CALL_PLAIN(sab_cost_free(cost));
    walk(run, sampler);
    CALL_PLAIN(sab_sampler_free(sampler));
    CALL_PLAIN(sab_plan_free(plan));
}

SCENARIO(lowered_budget, Threads::none) {
    sab_plan *const plan = plan_with(run, with_budget(300));
    const sab_sampler_options options = rank_options();
    sab_sampler *sampler = nullptr;
    CALL_INTO(sampler, sab_bucket_sampler_new(plan, &options, &sampler));
    walk(run, sampler, 2);
    CALL_OR_SKIP(sab_sampler_set_budget(sampler, 0, 120));
    note_state(run, sampler);
    walk(run, sampler, 2);
    double budget = 0;
    CALL_INTO(budget, sab_sampler_get_budget(sampler, 0, &budget));
    run.note(budget);
    CALL_OR_SKIP(sab_sampler_set_budget(sampler, 0, 90));
    note_state(run, sampler);
    unsigned char state[4096];  // of a position before both changes
    std::size_t size = 0;
    CALL_INTO(state, sab_sampler_state_save_at(sampler, 1, state, sizeof state, &size));
    run.note(state, size);
    CALL_OR_SKIP(sab_sampler_set_epoch(sampler, 2));
    note_state(run, sampler);
    walk(run, sampler, 2);
    CALL(sab_sampler_set_epoch(sampler, 3));
    use(run, sampler);
    CALL_PLAIN(sab_sampler_free(sampler));
    CALL_PLAIN(sab_plan_free(plan));
}

SCENARIO(other_ranks, Threads::none) {
    // A state of three ranks is restored on two, in the middle of a step under a lowered budget.
    sab_plan *const plan = plan_with(run, with_budget(300));
    sab_sampler_options options = rank_options();
    sab_sampler *three = nullptr, *two = nullptr;
    CALL_INTO(three, sab_bucket_sampler_new(plan, &options, &three));
    CALL(sab_sampler_set_budget(three, 0, 100));
    walk(run, three, 4);
    const std::vector<unsigned char> state = state_of(run, three);
    options.world_size = 2;
    options.micro_batches = 1;
    CALL_INTO(two, sab_bucket_sampler_new(plan, &options, &two));
    walk(run, two, 1);
    CALL_OR_SKIP(sab_sampler_state_restore(two, state.data(), state.size()));
    note_state(run, two);
    walk(run, two);
    CALL_PLAIN(sab_sampler_free(three));
    CALL_PLAIN(sab_sampler_free(two));
    CALL_PLAIN(sab_plan_free(plan));
}

SCENARIO(sequential_sampler, Threads::none) {
    sab_plan_options options = with_budget(300);
    options.bucket_rule = SAB_BUCKETS_OPTIMAL;
    options.bucket_count = 5;
    options.tail = SAB_TAIL_WRAP;
    sab_plan *const plan = plan_with(run, options);
    sab_sampler_options how = rank_options();
    how.seed = 0;
    how.last_step = SAB_LAST_STEP_WRAP;
    sab_sampler *sampler = nullptr;
    CALL_INTO(sampler, sab_sequential_sampler_new(plan, &how, &sampler));
    CALL_PLAIN(sab_plan_free(plan));
    use(run, sampler);
    CALL_PLAIN(sab_sampler_free(sampler));
}

SCENARIO(size_aware_sampler, Threads::none) {
    sab_sizes *const sizes = sizes_of(run, lengths());
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < 60; ++i) indices.push_back(i * 2);
    sab_sampler_options options = rank_options();
    options.seed = 0;
    sab_sampler *sampler = nullptr;
    CALL_INTO(sampler, sab_ordered_sampler_new(indices.data(), indices.size(), sizes, 40, &options,
                                               &sampler));
    CALL_PLAIN(sab_sizes_free(sizes));
    use(run, sampler);
    CALL_PLAIN(sab_sampler_free(sampler));
}

SCENARIO(size_aware_stream, Threads::none) {
    void *const ctx = run.context();
    sab_sampler *sampler = nullptr;
    CALL_INTO(sampler, sab_bionemo_size_aware_stream_sampler_new(next_index, ctx, Run::release, 35,
                                                                 &sampler));
    walk(run, sampler, 4);
    CALL_OR_SKIP(sab_sampler_set_epoch(sampler, 1));
    walk(run, sampler);
    note_skipped(run, sampler);
    CALL_PLAIN(sab_sampler_free(sampler));
}

SCENARIO(torch_sampler, Threads::none) {
    sab_plan *const plan = plan_with(run, with_boundaries());
    sab_sampler *sampler = nullptr;
    CALL_INTO(sampler, sab_bionemo_sampler_new(plan, nullptr, &sampler));
    CALL_PLAIN(sab_plan_free(plan));
    std::vector<uint32_t> words(SAB_BIONEMO_GENERATOR_WORDS);
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
        walk(run, sampler, epoch == 1 ? 2 : 1000);
        CALL_INTO(words, sab_bionemo_sampler_get_generator(sampler, words.data()));
        run.note(words.data(), words.size() * sizeof words[0]);
        CALL_OR_SKIP(sab_sampler_set_epoch(sampler, epoch + 1));
    }
    CALL_OR_SKIP(sab_bionemo_sampler_set_generator(sampler, words.data()));
    walk(run, sampler);
    uint64_t count = 0;
    CALL(sab_sampler_get_batch_count(sampler, &count));
    run.note(count);
    CALL_PLAIN(sab_sampler_free(sampler));
}

SCENARIO(torch_sampler_by_size, Threads::none) {
    sab_plan *const plan = plan_with(run, with_boundaries());
    for (const bool asks : {false, true}) {
        sab_bionemo_options options = SAB_BIONEMO_OPTIONS_INIT;
        sab_sizes *const sizes = sizes_of(run, lengths());
        options.limit = 40;
        if (asks) {
            options.size = size_by_index;
            options.size_ctx = run.context();
            options.release = Run::release;
        } else {
            options.sizes = sizes;
        }
        sab_sampler *sampler = nullptr;
        CALL_INTO(sampler, sab_bionemo_sampler_new(plan, &options, &sampler));
        CALL_PLAIN(sab_sizes_free(sizes));
        walk(run, sampler);
        CALL(sab_sampler_set_epoch(sampler, 1));
        walk(run, sampler);
        note_skipped(run, sampler);
        CALL_PLAIN(sab_sampler_free(sampler));
    }
    CALL_PLAIN(sab_plan_free(plan));
}

static void play_packed(Run &run, sab_pack_method method) {
    sab_sizes *const sizes = sizes_of(run, lengths());
    sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
    pack.capacities = one_count(30), pack.capacity_count = 1;
    pack.method = method;
    pack.max_sequences = 6;
    if (method == SAB_PACK_SHUFFLED) pack.window = 5;
    pack.split = method != SAB_PACK_HISTOGRAM;
    pack.oversize = SAB_OVERSIZE_SKIP;
    const sab_sampler_options options = rank_options();
    sab_sampler *sampler = nullptr;
    CALL_INTO(sampler, sab_packed_sampler_new(sizes, &pack, &options, &sampler));
    CALL_PLAIN(sab_sizes_free(sizes));
    sab_packed_info info = SAB_PACKED_INFO_INIT;
    CALL_INTO(info, sab_packed_sampler_get_info(sampler, &info));
    run.note(&info, sizeof info);
    sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
    CALL_INTO(report, sab_balanced_sampler_get_report(sampler, nullptr, &report));
    note_balance(run, report);
    note_skipped(run, sampler);
    use(run, sampler);
    CALL_PLAIN(sab_sampler_free(sampler));
}

SCENARIO(packed_best_fit, Threads::none) {
    play_packed(run, SAB_PACK_BEST_FIT);
}
SCENARIO(packed_histogram, Threads::none) {
    play_packed(run, SAB_PACK_HISTOGRAM);
}
SCENARIO(packed_shuffled, Threads::none) {
    play_packed(run, SAB_PACK_SHUFFLED);
}
