/* Every kind of sampler says what it supports, and supports no less and no more. */
#include "kinds.h"

#define SAMPLES 100

static void expect_capabilities(sab_sampler *sampler, uint64_t expected) {
    uint64_t capabilities = ~UINT64_C(0), count = 0;
    EXPECT_OK(sab_sampler_get_capabilities(sampler, &capabilities));
    EXPECT(capabilities == expected);
    const sab_status counted = expected & SAB_SAMPLER_BATCH_COUNT ? SAB_OK : SAB_E_UNSUPPORTED;
    EXPECT(sab_sampler_get_batch_count(sampler, &count) == counted);

    const sab_status anywhere = expected & SAB_SAMPLER_RANDOM_ACCESS ? SAB_OK : SAB_E_UNSUPPORTED;
    sab_batch batch = SAB_BATCH_INIT;
    struct state state;
    EXPECT(sab_sampler_at(sampler, 1, &batch) == anywhere);
    EXPECT(sab_sampler_seek(sampler, 1) == anywhere);
    EXPECT(save_state(sampler, &state) == anywhere);
    EXPECT(state_at(sampler, 1, &state) == anywhere);
    EXPECT(restore_state(sampler, &state) == anywhere);
    EXPECT_OK(sab_sampler_seek(sampler, 0)); /* the beginning of the epoch, which all support */

    const sab_status scheduled = expected & SAB_SAMPLER_SCHEDULE ? SAB_OK : SAB_E_UNSUPPORTED;
    struct ArrowArrayStream stream;
    EXPECT(sab_arrow_schedule_new(sampler, &stream) == scheduled);
    if (scheduled == SAB_OK) stream.release(&stream);

    const sab_status lowered = expected & SAB_SAMPLER_BUDGET ? SAB_OK : SAB_E_UNSUPPORTED;
    double budget = 0;
    EXPECT(sab_sampler_get_budget(sampler, 0, &budget) == lowered);
    EXPECT(sab_sampler_set_budget(sampler, 0, 150) == lowered);
    sab_sampler_free(sampler);
}

static sab_plan *plan_by_boundaries(sab_cost *cost) {
    static const double boundaries[] = {0, 20, 50, 100};
    sab_plan_options options = budget(300);
    options.bucket_rule = SAB_BUCKETS_BOUNDARIES;
    options.boundaries = boundaries;
    options.boundary_count = COUNT(boundaries);
    options.budgets = a_budget(cost, options.budgets->limit);
    return plan_with(lengths(SAMPLES), SAMPLES, &options);
}

static int32_t padded(void *ctx, uint64_t count, const double *lengths, const double *totals,
                      size_t columns, double *cost) {
    (void)ctx, (void)count, (void)lengths, (void)columns;
    *cost = totals[0];
    return 0;
}

static void Samplers_SayWhatTheySupport(void) {
    FOR_CONSTRUCTORS(kind) {
        const sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
        expect_capabilities(sampler_of_kind(kind, lengths(SAMPLES), SAMPLES, &options),
                            kind->capabilities);
    }
}

/* Some options take capabilities away. */
static void Samplers_WithCallbacksOrGreedyBatches_SupportLess(void) {
    sab_cost *cost = new_callback(padded, NULL);
    sab_plan *plan = plan_by_boundaries(cost);
    sab_cost_free(cost);
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_bucket_sampler_new(plan, NULL, &sampler));
    expect_capabilities(sampler, ANYWHERE);
    sab_sizes *sizes = sizes_of(lengths(SAMPLES), SAMPLES);
    sab_bionemo_options options = SAB_BIONEMO_OPTIONS_INIT;
    options.limit = 300;
    options.sizes = sizes;
    EXPECT_OK(sab_bionemo_sampler_new(plan, &options, &sampler));
    expect_capabilities(sampler, 0);
    sab_sizes_free(sizes);
    sab_plan_free(plan);
}

/* As states name the kind: constructors make some with several options. */
static const char *name_of(const struct constructor *kind) {
    if (strcmp(kind->name, "rows") == 0) return "packed";
    return strcmp(kind->name, "bagua_batch") == 0 ? "bagua" : kind->name;
}

static void States_OfAnotherKind_AreRefusedWithBothKinds(void) {
    const sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    FOR_CONSTRUCTORS(saved)
    FOR_CONSTRUCTORS(restored) {
        const uint64_t both = saved->capabilities & restored->capabilities;
        if (!(both & SAB_SAMPLER_RANDOM_ACCESS)) continue;
        if (strcmp(name_of(saved), name_of(restored)) == 0) continue;
        sab_sampler *from = sampler_of_kind(saved, lengths(SAMPLES), SAMPLES, &options);
        sab_sampler *to = sampler_of_kind(restored, lengths(SAMPLES), SAMPLES, &options);
        struct state state;
        EXPECT_OK(save_state(from, &state));
        char words[200];
        snprintf(words, sizeof words,
                 "state: was saved by another kind of sampler: it is of sab_%s_sampler_new, this "
                 "sampler of sab_%s_sampler_new",
                 name_of(saved), name_of(restored));
        EXPECT_FAILS(restore_state(to, &state), SAB_E_MISMATCH, words);
        sab_sampler_free(from);
        sab_sampler_free(to);
    }
}

/* The states of all positions are those that a cursor there has, which does not move for them. */
static void StateAt_IsWhatACursorThereSaves(void) {
    FOR_CONSTRUCTORS(kind) {
        if (!(kind->capabilities & SAB_SAMPLER_RANDOM_ACCESS)) continue;
        sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
        if (kind->properties & WITH_OPTIONS) options.world_size = options.micro_batches = 2;
        sab_sampler *sampler = sampler_of_kind(kind, lengths(SAMPLES), SAMPLES, &options);
        sab_batch batch = SAB_BATCH_INIT;
        uint64_t count = 0, epoch = 0, position = 0;
        while (sab_next_batch(sampler, &batch) == SAB_OK) ++count;
        struct state ended, expected, found;
        EXPECT_OK(save_state(sampler, &ended));
        sab_sampler *other = sampler_of_kind(kind, lengths(SAMPLES), SAMPLES, &options);
        for (uint64_t at = 0; at <= count; ++at) {
            EXPECT_OK(state_at(sampler, at, &found));
            EXPECT_OK(sab_sampler_seek(other, at));
            EXPECT_OK(save_state(other, &expected));
            EXPECT(memcmp(&found, &expected, sizeof found) == 0);
        }
        EXPECT_FAILS(state_at(sampler, count + 1, &found), SAB_E_ARGUMENT, "position = ");
        EXPECT_OK(sab_sampler_tell(sampler, &epoch, &position));
        EXPECT(epoch == 0 && position == count);
        EXPECT_OK(save_state(sampler, &found));
        EXPECT(memcmp(&found, &ended, sizeof found) == 0);
        sab_sampler_free(sampler);
        sab_sampler_free(other);
    }
}

/* Other lengths and another seed, for every kind of sampler. */
static void States_OfOtherSamplesOrAnotherSeed_SayWhatDiffers(void) {
    FOR_CONSTRUCTORS(kind) {
        if (!(kind->capabilities & SAB_SAMPLER_RANDOM_ACCESS)) continue;
        sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
        sab_sampler *from = sampler_of_kind(kind, lengths(SAMPLES), SAMPLES, &options);
        sab_sampler *to = sampler_of_kind(kind, lengths(SAMPLES), SAMPLES - 1, &options);
        struct state state;
        EXPECT_OK(save_state(from, &state));
        EXPECT_FAILS(restore_state(to, &state), SAB_E_MISMATCH, "state: was saved with ");
        EXPECT(strstr(sab_last_error_message(), ": fingerprint ") != NULL);
        sab_sampler_free(to);
        if (kind->properties & WITH_OPTIONS && kind->make != make_sequential &&
            kind->make != make_ordered) { /* these are not shuffled */
            options.seed = 5;
            to = sampler_of_kind(kind, lengths(SAMPLES), SAMPLES, &options);
            EXPECT_FAILS(restore_state(to, &state), SAB_E_MISMATCH,
                         "state: was saved with seed 0, this sampler has 5");
            sab_sampler_free(to);
        }
        sab_sampler_free(from);
    }
}

static void Arguments_ThatAreNull_AreRefused(void) {
    uint64_t capabilities = 0;
    EXPECT_FAILS(sab_sampler_get_capabilities(NULL, &capabilities), SAB_E_ARGUMENT,
                 "sampler = NULL");
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_bionemo_size_aware_stream_sampler_new(next_of_source, NULL, NULL, 10, &sampler));
    EXPECT_FAILS(sab_sampler_get_capabilities(sampler, NULL), SAB_E_ARGUMENT,
                 "capabilities = NULL");
    sab_sampler_free(sampler);
}

int main(void) {
    RUN(Samplers_SayWhatTheySupport);
    RUN(Samplers_WithCallbacksOrGreedyBatches_SupportLess);
    RUN(States_OfAnotherKind_AreRefusedWithBothKinds);
    RUN(StateAt_IsWhatACursorThereSaves);
    RUN(States_OfOtherSamplesOrAnotherSeed_SayWhatDiffers);
    RUN(Arguments_ThatAreNull_AreRefused);
    return finish();
}
