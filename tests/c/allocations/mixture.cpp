// mixture
#include "../one.h"
#include "data.h"

namespace {

int32_t go_on(void *, uint64_t, uint64_t) {
    return 0;
}

/// Three sources of the lengths, with other repeats from epoch 2 on.
struct Proportions {
    Proportions() {
        options.repeats = repeats;
        options.repeat_count = 3;
        options.names = names;
        options.name_count = 3;
        options.schedule_epochs = epochs;
        options.schedule_repeats = later;
        options.schedule_count = 1;
    }
    const double repeats[3] = {1, 0.5, 2.25}, later[3] = {0.75, 1.5, 1};
    const char *const names[3] = {"wiki", "code", "a name too long for a small text"};
    const uint64_t epochs[1] = {2};
    sab_mixture_options options = SAB_MIXTURE_OPTIONS_INIT;
};

sab_sizes *mixture_of(Run &run) {
    const Proportions with;
    std::vector<double> first(lengths().begin(), lengths().begin() + 50),
        second(lengths().begin() + 50, lengths().begin() + 100),
        third(lengths().begin() + 100, lengths().end());
    third[3] += 0.1;  // no float
    sab_sizes *const parts[] = {sizes_of(run, first), sizes_of(run, second), sizes_of(run, third)};
    sab_sizes *mixture = nullptr;
    CALL_INTO(mixture, sab_mixture_new(parts, 3, &with.options, &mixture));
    for (sab_sizes *const part : parts) CALL_PLAIN(sab_sizes_free(part));
    return mixture;
}

void note_mixture(Run &run, const sab_sizes *mixture) {
    sab_sizes_info info = SAB_SIZES_INFO_INIT;
    CALL_INTO(info, sab_sizes_get_info(mixture, &info));
    const std::size_t sources = info.sources, samples = CALL_PLAIN(sab_sizes_count(mixture));
    for (std::size_t s = 0; s < sources; ++s) {
        sab_mixture_source source = SAB_MIXTURE_SOURCE_INIT;
        CALL_INTO(source, sab_mixture_get_source(mixture, s, 3, &source));
        run.note_text(source.name);
        run.note(source.epoch_samples);
    }
    std::size_t source = 0, row = 0;
    CALL_INTO(row, sab_sizes_locate(mixture, samples - 1, &source, &row));
    run.note(uint64_t{source});
    run.note(uint64_t{row});
    std::vector<uint32_t> counts(samples);
    CALL_INTO(counts, sab_mixture_get_counts(mixture, 1, counts.data(), samples));
    run.note(counts.data(), samples * sizeof counts[0]);
    sab_mixture_source none = SAB_MIXTURE_SOURCE_INIT;
    CALL_FAILS(SAB_E_ARGUMENT, sab_mixture_get_source(mixture, sources, 0, &none));
}

/// Epochs, whose samples are others, and resuming.
void use(Run &run, sab_sampler *sampler) {
    walk(run, sampler, 3);
    const std::vector<unsigned char> state = state_of(run, sampler);
    std::vector<sab_mixture_report> reports(3, sab_mixture_report SAB_MIXTURE_REPORT_INIT);
    CALL_INTO(reports,
              sab_mixture_get_report(sampler, a_progress(go_on, nullptr), reports.data(), 3));
    run.note(reports.data(), 3 * sizeof reports[0]);
    for (const uint64_t epoch : {1, 3, 0}) {
        CALL_OR_SKIP(sab_sampler_set_epoch(sampler, epoch));
        walk(run, sampler, 2);
        std::vector<unsigned char> now = state_of(run, sampler);
        run.note(now.data(), now.size());
    }
    CALL_OR_SKIP(sab_sampler_seek(sampler, 1));
    CALL_OR_SKIP(sab_sampler_state_restore(sampler, state.data(), state.size()));
    walk(run, sampler);
    CALL_OR_SKIP(sab_sampler_begin(sampler));  // the next epoch
    walk(run, sampler, 3);
}

/// The batches of a plan of the mixture, of which each holds one source if they are separated.
void play_plan(Run &run, bool are_separated) {
    sab_sizes *const mixture = mixture_of(run);
    std::vector<int64_t> ids(lengths().size());
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i / 50);
    sab_plan_options options = with_budget(300);
    if (are_separated) {
        options.separate_by = ids.data();
        options.separate_by_count = ids.size();
    }
    sab_plan *plan = nullptr;
    CALL_INTO(plan, sab_plan_new(mixture, &options, &plan));
    CALL_PLAIN(sab_sizes_free(mixture));
    const sab_sampler_options of_rank = rank_options();
    sab_plan_report report = SAB_PLAN_REPORT_INIT;
    CALL_INTO(report, sab_plan_get_report(plan, &of_rank, nullptr, &report));
    run.note(&report, sizeof report);
    sab_sampler *sampler = nullptr;
    CALL_INTO(sampler, sab_bucket_sampler_new(plan, &of_rank, &sampler));
    CALL_PLAIN(sab_plan_free(plan));
    use(run, sampler);
    CALL_OR_SKIP(sab_sampler_set_budget(sampler, 0, 200));
    CALL_OR_SKIP(sab_sampler_set_epoch(sampler, 5));
    walk(run, sampler, 4);
    CALL_PLAIN(sab_sampler_free(sampler));
}

}  // namespace

SCENARIO(mixture, Threads::none) {
    sab_sizes *const mixture = mixture_of(run);
    note_mixture(run, mixture);
    CALL_PLAIN(sab_sizes_free(mixture));
}

SCENARIO(mixture_flat, Threads::none) {
    std::vector<int64_t> ids(lengths().size());
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i % 3 * 5);
    const double shares[] = {1, 2, 1};
    sab_mixture_options options = SAB_MIXTURE_OPTIONS_INIT;
    options.proportions = shares;
    options.proportion_count = 3;
    options.unit = SAB_MIXTURE_SIZE;
    options.ids = ids.data();
    options.id_count = ids.size();
    sab_sizes *const sizes = sizes_of(run, lengths()), *mixture = nullptr;
    CALL_INTO(mixture, sab_mixture_new(&sizes, 1, &options, &mixture));
    note_mixture(run, mixture);
    CALL_PLAIN(sab_sizes_free(mixture));
    ids[7] = -1;
    sab_sizes *none = nullptr;
    CALL_FAILS(SAB_E_ARGUMENT, sab_mixture_new(&sizes, 1, &options, &none));
    CALL_PLAIN(sab_sizes_free(sizes));
}

SCENARIO(mixture_bucket, Threads::none) {
    play_plan(run, false);
}

SCENARIO(mixture_separated, Threads::none) {
    play_plan(run, true);
}

SCENARIO(mixture_packed, Threads::none) {
    const sab_sampler_options of_rank = rank_options();
    for (const sab_pack_method method : {SAB_PACK_BEST_FIT, SAB_PACK_CONCAT}) {
        // Rows have whole numbers.
        sab_sizes *const sizes = sizes_of(run, lengths()), *mixture = nullptr;
        std::vector<int64_t> ids(lengths().size());
        for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i / 50);
        Proportions with;
        with.options.ids = ids.data();
        with.options.id_count = ids.size();
        CALL_INTO(mixture, sab_mixture_new(&sizes, 1, &with.options, &mixture));
        CALL_PLAIN(sab_sizes_free(sizes));
        sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
        pack.capacities = one_count(128), pack.capacity_count = 1;
        pack.method = method;
        sab_sampler *sampler = nullptr;
        CALL_INTO(sampler, sab_packed_sampler_new(mixture, &pack, &of_rank, &sampler));
        CALL_PLAIN(sab_sizes_free(mixture));
        use(run, sampler);
        CALL_PLAIN(sab_sampler_free(sampler));
    }
}
