/* Epochs of a number of steps, for every kind of sampler: they are the epochs of the data, one
 * after the other, from any place, on any ranks and under any budget. */
#include "kinds.h"

enum { SAMPLES = 60, MOST_RANKS = 4, EPOCHS = 7, MOST = 4000 };

struct walk {
    const struct constructor *kind;
    sab_sampler_options options;
};

static sab_sampler *sampler_of(const struct walk *walk, uint64_t rank, uint64_t steps) {
    sab_sampler_options options = walk->options;
    options.rank = rank;
    options.steps_per_epoch = steps;
    return sampler_of_kind(walk->kind, lengths(SAMPLES), SAMPLES, &options);
}

/* Of a batch: its samples. */
static uint64_t digest_of(const sab_batch *batch) {
    uint64_t digest = 14695981039346656037u;
    for (size_t i = 0; i < batch->count; ++i)
        digest = (digest ^ (uint64_t)batch->indices[i]) * 1099511628211u;
    return digest + batch->count;
}

/* The batches of the epochs of the data, from epoch 0 on. */
static uint64_t data[MOST];
static void read_data(const struct walk *walk, uint64_t rank, size_t count) {
    sab_sampler *sampler = sampler_of(walk, rank, 0);
    sab_batch batch = SAB_BATCH_INIT;
    for (size_t i = 0; i < count;) {
        const sab_status status = sab_next_batch(sampler, &batch);
        if (status == SAB_END)
            EXPECT_OK(sab_sampler_begin(sampler));
        else
            data[i++] = digest_of(&batch);
        if (status < 0) break;
    }
    sab_sampler_free(sampler);
}

static uint64_t steps; /* of an epoch, of the walk at hand */
/* A walk at random. */
static struct walk drawn(const struct constructor *kind) {
    struct walk walk = {kind, SAB_SAMPLER_OPTIONS_INIT};
    const int is_single = (kind->properties & ONE_RANK) != 0;
    walk.options.seed = below(1000);
    walk.options.world_size = is_single ? 1 : 1 + below(MOST_RANKS);
    walk.options.micro_batches = 1 + below(3);
    /* at least a step is left when one is dropped */
    walk.options.last_step = is_single || walk.options.world_size > 2 ? 0 : (sab_last_step)below(3);
    steps = 1 + below(below(2) ? 8 : 40);
    return walk;
}

#define FOR_WALKS(walk)                                     \
    FOR_CONSTRUCTORS(kind)                                  \
    if (kind->properties & WITH_OPTIONS)                    \
        for (int turn_ = 0; turn_ < ROUNDS_OF(24); ++turn_) \
            for (struct walk walk = drawn(kind), *once_ = &walk; once_ != NULL; once_ = NULL)

static void expect_place(const sab_sampler *sampler, uint64_t epoch, uint64_t position) {
    uint64_t its_epoch = 0, its_position = 0;
    EXPECT_OK(sab_sampler_tell(sampler, &its_epoch, &its_position));
    EXPECT(its_epoch == epoch && its_position == position);
}

/* The batch at a position of an epoch of `count` batches. */
static void expect_batch(const sab_batch *batch, const struct walk *walk, uint64_t count,
                         uint64_t epoch, uint64_t position) {
    EXPECT(digest_of(batch) == data[epoch * count + position]);
    EXPECT(batch->epoch == epoch && batch->step == position / walk->options.micro_batches);
    EXPECT(batch->micro_batch == position % walk->options.micro_batches);
}

static void Epochs_AreThoseOfTheData_OneAfterTheOther(void) {
    random_state = 1;
    FOR_WALKS(walk) {
        const uint64_t count = steps * walk.options.micro_batches;
        const uint64_t rank = below(walk.options.world_size);
        read_data(&walk, rank, EPOCHS * count);
        sab_sampler *sampler = sampler_of(&walk, rank, steps),
                    *blocks = sampler_of(&walk, rank, steps);
        sab_batch batch = SAB_BATCH_INIT;
        sab_block block = SAB_BLOCK_INIT;
        for (uint64_t epoch = 0; epoch < EPOCHS; ++epoch) {
            uint64_t known = 0;
            EXPECT_OK(sab_sampler_begin(sampler));
            EXPECT_OK(sab_sampler_begin(blocks));
            EXPECT_OK(sab_sampler_get_batch_count(sampler, &known));
            EXPECT(known == count);
            for (uint64_t position = 0; position < count;) {
                EXPECT_OK(sab_next_block(blocks, 1 + below(5), &block));
                EXPECT(block.epoch == epoch);
                for (size_t i = 0; i < block.count; ++i, ++position) {
                    expect_place(sampler, epoch, position);
                    EXPECT_OK(sab_next_batch(sampler, &batch));
                    expect_batch(&batch, &walk, count, epoch, position);
                    EXPECT(block.step[i] == batch.step &&
                           block.micro_batch[i] == batch.micro_batch);
                    EXPECT(block.offsets[i + 1] - block.offsets[i] == batch.count);
                }
            }
            EXPECT(sab_next_batch(sampler, &batch) == SAB_END);
            EXPECT(sab_next_block(blocks, 1, &block) == SAB_END);
            EXPECT(sab_next_batch(sampler, &batch) == SAB_END);
        }
        sab_sampler_free(sampler);
        sab_sampler_free(blocks);
    }
}

/* Whatever came before: set_epoch(), seek(), at(), states saved and restored, passes broken off. */
static void AnyPlace_CanBeReached_FromAnyOther(void) {
    random_state = 2;
    FOR_WALKS(walk) {
        const uint64_t count = steps * walk.options.micro_batches;
        const uint64_t rank = below(walk.options.world_size);
        read_data(&walk, rank, EPOCHS * count);
        uint64_t epoch = walk.options.epoch = below(EPOCHS), position = 0;
        sab_sampler *sampler = sampler_of(&walk, rank, steps);
        walk.options.epoch = 0;
        sab_sampler *other = sampler_of(&walk, rank, steps);
        sab_batch batch = SAB_BATCH_INIT;
        struct state state, again;
        for (int move = 0; move < 40; ++move) {
            const uint64_t to = below(count + 1);
            switch (below(7)) {
                case 0:
                    epoch = below(EPOCHS), position = 0;
                    EXPECT_OK(sab_sampler_set_epoch(sampler, epoch));
                    break;
                case 1:
                    position = to;
                    EXPECT_OK(sab_sampler_seek(sampler, position));
                    break;
                case 2:
                    if (to == count) break;
                    EXPECT_OK(sab_sampler_at(sampler, to, &batch));
                    expect_batch(&batch, &walk, count, epoch, to);
                    break;
                case 3:
                    EXPECT_OK(save_state(sampler, &state));
                    EXPECT_OK(restore_state(other, &state));
                    EXPECT_OK(save_state(other, &again));
                    EXPECT(memcmp(&state, &again, sizeof state) == 0);
                    sab_sampler *const kept = sampler;
                    sampler = other, other = kept;
                    break;
                case 4: /* the same state as if it stood there */
                    EXPECT_OK(state_at(sampler, to, &state));
                    EXPECT_OK(restore_state(other, &state));
                    expect_place(other, epoch, to);
                    if (to < count) {
                        EXPECT_OK(sab_next_batch(other, &batch));
                        expect_batch(&batch, &walk, count, epoch, to);
                    }
                    EXPECT_OK(sab_sampler_seek(sampler, to));
                    EXPECT_OK(save_state(sampler, &again));
                    EXPECT(memcmp(&state, &again, sizeof state) == 0);
                    position = to;
                    break;
                case 5:
                    if (position == count) break;
                    EXPECT_OK(sab_next_batch(sampler, &batch));
                    expect_batch(&batch, &walk, count, epoch, position);
                    EXPECT_OK(sab_sampler_begin(sampler)); /* broken off */
                    position = 0;
                    break;
                default:
                    for (uint64_t i = below(20); i > 0 && position < count; --i, ++position) {
                        EXPECT_OK(sab_next_batch(sampler, &batch));
                        expect_batch(&batch, &walk, count, epoch, position);
                    }
            }
            expect_place(sampler, epoch, position);
        }
        sab_sampler_free(sampler);
        sab_sampler_free(other);
    }
}

/* ---- All ranks ---- */

struct job {
    struct walk walk;
    sab_sampler *ranks[MOST_RANKS];
    int seen[SAMPLES];
    int is_inside; /* a step */
};

static void make_job(struct job *job, uint64_t steps) {
    for (uint64_t rank = 0; rank < job->walk.options.world_size; ++rank)
        job->ranks[rank] = sampler_of(&job->walk, rank, steps);
}

static void free_job(struct job *job) {
    for (uint64_t rank = 0; rank < job->walk.options.world_size; ++rank)
        sab_sampler_free(job->ranks[rank]);
}

/* Takes a batch on each rank; gives whether there is one. All ranks take as many. */
static int take(struct job *job, uint64_t *samples) {
    sab_batch batch = SAB_BATCH_INIT;
    int count = 0;
    for (uint64_t rank = 0; rank < job->walk.options.world_size; ++rank) {
        if (sab_next_batch(job->ranks[rank], &batch) != SAB_OK) continue;
        ++count;
        *samples += batch.count;
        for (size_t i = 0; i < batch.count; ++i) ++job->seen[batch.indices[i]];
        job->is_inside = batch.micro_batch + 1 < job->walk.options.micro_batches;
    }
    EXPECT(count == 0 || count == (int)job->walk.options.world_size);
    return count > 0;
}

/* No epoch of the data begins before the one before it is whole. */
static int are_even(const int *seen) {
    int least = seen[0], most = seen[0];
    for (int i = 1; i < SAMPLES; ++i) {
        if (seen[i] < least) least = seen[i];
        if (seen[i] > most) most = seen[i];
    }
    return most - least <= 1;
}

static int is_split_once(const struct constructor *kind) {
    return (kind->properties & WITH_OPTIONS) && !(kind->properties & (ONE_RANK | REPEATS));
}

static void begin_all(struct job *job) {
    for (uint64_t rank = 0; rank < job->walk.options.world_size; ++rank)
        EXPECT_OK(sab_sampler_begin(job->ranks[rank]));
}

/* Resumed by other ranks, at any batch, with other numbers of steps and of micro-batches. */
static void Epochs_GoOn_OnOtherRanks(void) {
    random_state = 3;
    FOR_WALKS(walk) {
        if (!is_split_once(kind)) continue;
        walk.options.last_step = SAB_LAST_STEP_SPLIT;
        struct job job = {walk, {NULL}, {0}, 0};
        make_job(&job, steps);
        uint64_t samples = 0, expected_epoch = 0;
        for (int part = 0; part < 6; ++part) {
            int is_over = 0;
            for (uint64_t left = below(3 * steps * walk.options.micro_batches); left > 0; --left) {
                is_over = !take(&job, &samples);
                if (is_over) begin_all(&job), ++expected_epoch;
                EXPECT(are_even(job.seen));
            }
            struct state state, same;
            if (kind->properties & BY_MICRO_BATCHES) /* others take over between two steps only */
                while (job.is_inside && take(&job, &samples)) EXPECT(are_even(job.seen));
            EXPECT_OK(save_state(job.ranks[0], &state));
            for (uint64_t rank = 1; rank < job.walk.options.world_size; ++rank) {
                EXPECT_OK(save_state(job.ranks[rank], &same));
                EXPECT(memcmp(&state, &same, sizeof state) == 0);
            }
            struct job next = job;
            next.walk.options.world_size = 1 + below(MOST_RANKS);
            next.walk.options.micro_batches = 1 + below(3);
            make_job(&next, below(2) ? steps : 1 + below(40));
            for (uint64_t rank = 0; rank < next.walk.options.world_size; ++rank)
                EXPECT_OK(restore_state(next.ranks[rank], &state));
            free_job(&job);
            job = next;
            begin_all(&job);
            uint64_t epoch = 0, position = 0;
            EXPECT_OK(sab_sampler_tell(job.ranks[0], &epoch, &position));
            EXPECT(epoch == expected_epoch);
        }
        while (take(&job, &samples)) EXPECT(are_even(job.seen));
        for (uint64_t rank = 0; rank < job.walk.options.world_size; ++rank)
            EXPECT_OK(sab_sampler_set_epoch(job.ranks[rank], expected_epoch + 1));
        while (take(&job, &samples)) EXPECT(are_even(job.seen));
        free_job(&job);
    }
}

/* Also states of batches before the change, for loaders that fetch ahead. */
static void Epochs_GoOn_UnderOtherBudgets(void) {
    random_state = 4;
    FOR_WALKS(walk) {
        if (!(kind->capabilities & SAB_SAMPLER_BUDGET)) continue;
        walk.options.last_step = SAB_LAST_STEP_SPLIT;
        struct job job = {walk, {NULL}, {0}, 0};
        make_job(&job, steps);
        uint64_t samples = 0;
        for (int change = 0; change < 5; ++change) {
            int before[SAMPLES];
            uint64_t epoch = 0, position = 0, ahead = below(4);
            for (uint64_t left = below(2 * steps * walk.options.micro_batches); left > 0; --left) {
                if (!take(&job, &samples)) begin_all(&job);
                EXPECT(are_even(job.seen));
            }
            EXPECT_OK(sab_sampler_tell(job.ranks[0], &epoch, &position));
            memcpy(before, job.seen, sizeof before);
            while (ahead > 0 && take(&job, &samples)) --ahead;
            const double lowered = 100 + 50 * (double)below(3);
            for (uint64_t rank = 0; rank < walk.options.world_size; ++rank)
                EXPECT_OK(sab_sampler_set_budget(job.ranks[rank], 0, lowered));
            if (below(2)) continue;
            struct state state;
            EXPECT_OK(state_at(job.ranks[0], position, &state));
            struct job next = job;
            make_job(&next, steps);
            for (uint64_t rank = 0; rank < walk.options.world_size; ++rank)
                EXPECT_OK(restore_state(next.ranks[rank], &state));
            free_job(&job);
            job = next;
            memcpy(job.seen, before, sizeof before);
            expect_place(job.ranks[0], epoch, position);
        }
        while (take(&job, &samples)) EXPECT(are_even(job.seen));
        /* the same epoch from its start, under the budget that holds now */
        double limit = 0, same = 0;
        EXPECT_OK(sab_sampler_get_budget(job.ranks[0], 0, &limit));
        for (uint64_t rank = 0; rank < walk.options.world_size; ++rank) {
            uint64_t epoch = 0, position = 0;
            EXPECT_OK(sab_sampler_tell(job.ranks[rank], &epoch, &position));
            EXPECT_OK(sab_sampler_set_epoch(job.ranks[rank], epoch));
            EXPECT_OK(sab_sampler_get_budget(job.ranks[rank], 0, &same));
            EXPECT(limit == same);
        }
        free_job(&job);
    }
}

enum { CHANGES = 2 };

/* What a budget is lowered to, at which positions. */
struct changes {
    uint64_t begin, at[CHANGES];
};
static const double lowered[CHANGES] = {150, 100};

static void take_batches(sab_sampler *sampler, uint64_t count) {
    sab_batch batch = SAB_BATCH_INIT;
    for (; count > 0; --count) EXPECT_OK(sab_next_batch(sampler, &batch));
}

/* Walks from a state to a position. Changes that come later are made there. */
static void walk_to(sab_sampler *sampler, const struct state *begin, const struct changes *changes,
                    uint64_t position) {
    uint64_t at = changes->begin;
    EXPECT_OK(restore_state(sampler, begin));
    for (int i = 0; i < CHANGES; ++i) {
        const uint64_t next = changes->at[i] < position ? changes->at[i] : position;
        take_batches(sampler, next - at);
        EXPECT_OK(sab_sampler_set_budget(sampler, 0, lowered[i]));
        at = next;
    }
    take_batches(sampler, position - at);
}

/* Also into the next epochs. */
static void expect_same_batches(sab_sampler *sampler, sab_sampler *other, int count) {
    sab_batch batch = SAB_BATCH_INIT, expected = SAB_BATCH_INIT;
    for (; count > 0; --count) {
        const sab_status status = sab_next_batch(sampler, &batch);
        EXPECT(sab_next_batch(other, &expected) == status);
        if (status == SAB_OK)
            EXPECT(digest_of(&batch) == digest_of(&expected) && batch.epoch == expected.epoch &&
                   batch.step == expected.step && batch.micro_batch == expected.micro_batch);
        else
            EXPECT(sab_sampler_begin(sampler) == SAB_OK && sab_sampler_begin(other) == SAB_OK);
    }
}

/* The state of where a walk begins: an epoch's beginning, or inside, where others stopped. */
static uint64_t begin_walk(sab_sampler *sampler, const struct walk *walk, struct state *begin) {
    const uint64_t from = walk->kind->properties & ONE_RANK ? 0 : below(3);
    struct walk others = *walk;
    if (from > 0) others.options.world_size = 1 + walk->options.world_size % MOST_RANKS;
    sab_sampler *const first = sampler_of(&others, 0, steps);
    EXPECT_OK(sab_sampler_seek(first, from));
    EXPECT_OK(save_state(first, begin));
    EXPECT_OK(restore_state(sampler, begin));
    sab_sampler_free(first);
    return from;
}

/* Every position since the epoch began, or since other ranks took over, whatever epoch of the data
 * it is in: the budget that holds now holds from there on. */
static void States_OfEarlierPositions_AreSavedFromLaterEpochsOfTheData(void) {
    random_state = 6;
    FOR_WALKS(walk) {
        if (!(kind->capabilities & SAB_SAMPLER_BUDGET)) continue;
        walk.options.last_step = SAB_LAST_STEP_SPLIT;
        steps += 20;
        sab_sampler *const sampler = sampler_of(&walk, 0, steps),
                           *const restored = sampler_of(&walk, 0, steps),
                           *const expected = sampler_of(&walk, 0, steps);
        struct state begin, state, same;
        struct changes changes = {0, {0}};
        changes.begin = begin_walk(sampler, &walk, &begin);
        uint64_t position = changes.begin, least = position;
        for (int i = 0; i < CHANGES; ++i) {
            const uint64_t count = below(9);
            take_batches(sampler, count);
            position += count;
            if (below(3) == 0) position = least + below(position - least + 1);
            EXPECT_OK(sab_sampler_seek(sampler, position));
            EXPECT_OK(sab_sampler_set_budget(sampler, 0, lowered[i]));
            changes.at[i] = least = position;
        }
        for (uint64_t left = below(40); left > 0 && position < steps; --left, ++position)
            take_batches(sampler, 1);
        EXPECT_OK(save_state(sampler, &same));
        for (uint64_t at = changes.begin; at <= position; ++at) {
            EXPECT_OK(state_at(sampler, at, &state));
            EXPECT_OK(restore_state(restored, &state));
            expect_place(restored, 0, at);
            walk_to(expected, &begin, &changes, at);
            expect_same_batches(restored, expected, 60);
        }
        EXPECT_OK(save_state(sampler, &state)); /* nothing moved */
        EXPECT(state.size == same.size && memcmp(state.bytes, same.bytes, same.size) == 0);
        if (changes.begin > 0)
            EXPECT_FAILS(state_at(sampler, changes.begin - 1, &state), SAB_E_ARGUMENT,
                         "must not be before position");
        /* batches since the last change can be read again */
        sab_batch batch = SAB_BATCH_INIT, again = SAB_BATCH_INIT;
        walk_to(expected, &begin, &changes, least);
        for (uint64_t at = least; at < position; ++at) {
            EXPECT_OK(sab_next_batch(expected, &again));
            EXPECT_OK(sab_sampler_at(sampler, at, &batch));
            EXPECT(digest_of(&batch) == digest_of(&again) && batch.step == again.step);
        }
        walk_to(expected, &begin, &changes, least);
        EXPECT_OK(sab_sampler_seek(sampler, least));
        expect_same_batches(sampler, expected, 60);
        sab_sampler_free(sampler);
        sab_sampler_free(restored);
        sab_sampler_free(expected);
    }
}

/* Without a walk through the epochs of the data. */
static void LongEpochs_AreSkipped_AtOnce(void) {
    sab_plan *plan = a_plan();
    sab_sampler_options options = ranks(0, 1);
    options.steps_per_epoch = UINT64_C(1) << 32;
    sab_sampler *sampler = NULL;
    sab_batch batch = SAB_BATCH_INIT, same = SAB_BATCH_INIT;
    EXPECT_OK(sab_bucket_sampler_new(plan, &options, &sampler));
    EXPECT_OK(sab_sampler_set_epoch(sampler, 5));
    EXPECT_OK(sab_next_batch(sampler, &batch));
    expect_place(sampler, 5, 1);
    const uint64_t digest = digest_of(&batch);
    EXPECT_OK(sab_sampler_set_epoch(sampler, 4));
    EXPECT_OK(sab_sampler_seek(sampler, options.steps_per_epoch));
    EXPECT_OK(sab_sampler_at(sampler, options.steps_per_epoch - 1, &same));
    EXPECT(same.step == options.steps_per_epoch - 1);
    EXPECT(sab_next_batch(sampler, &same) == SAB_END);
    EXPECT_OK(sab_sampler_begin(sampler));
    EXPECT_OK(sab_next_batch(sampler, &same));
    EXPECT(same.epoch == 5 && digest_of(&same) == digest);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

/* The totals of a step are those of its batches, also where it has the end of an epoch of the data
 * and the beginning of the next. */
static void Step_HasTheTotalsOfItsBatches(void) {
    random_state = 5;
    FOR_WALKS(walk) {
        struct job job = {walk, {NULL}, {0}, 0};
        make_job(&job, steps);
        const uint64_t micro_batches = walk.options.micro_batches;
        for (int i = 0; i < 40; ++i) {
            uint64_t samples = 0, expected = 0;
            for (uint64_t m = 0; m < micro_batches; ++m) {
                if (!take(&job, &samples)) break;
                const sab_step step = step_of(job.ranks[0]);
                EXPECT(step.micro_batches == micro_batches);
                EXPECT(m == 0 || step.samples == expected);
                expected = step.samples;
            }
            EXPECT(samples == expected || (kind->properties & ONE_RANK));
            if (samples == 0) begin_all(&job);
        }
        free_job(&job);
    }
}

static void WrongCalls_AreRefused_AndChangeNothing(void) {
    sab_plan *plan = a_plan();
    sab_sampler_options options = ranks(0, 1);
    options.steps_per_epoch = (UINT64_C(1) << 32) + 1;
    sab_sampler *sampler = NULL;
    EXPECT_FAILS(sab_bucket_sampler_new(plan, &options, &sampler), SAB_E_ARGUMENT,
                 "options.steps_per_epoch = 4294967297: must be at most 2^32");
    options.steps_per_epoch = 5;
    EXPECT_OK(sab_bucket_sampler_new(plan, &options, &sampler));
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT_OK(sab_next_batch(sampler, &batch));
    EXPECT_FAILS(sab_sampler_at(sampler, 5, &batch), SAB_E_ARGUMENT,
                 "position = 5: must be below the number of batches of the rank, 5");
    EXPECT_FAILS(sab_sampler_seek(sampler, 6), SAB_E_ARGUMENT,
                 "position = 6: must be at most the number of batches of the rank, 5");
    struct state state;
    EXPECT_FAILS(state_at(sampler, 6, &state), SAB_E_ARGUMENT, "position = 6: must be at most");
    EXPECT_FAILS(sab_sampler_set_epoch(sampler, UINT64_MAX), SAB_E_ARGUMENT,
                 "epoch = 18446744073709551615: must be at most");
    expect_place(sampler, 0, 1);
    EXPECT_OK(sab_sampler_set_budget(sampler, 0, 250));
    EXPECT_FAILS(sab_sampler_seek(sampler, 0), SAB_E_ARGUMENT,
                 "position = 0: must not be before position 1, where");
    EXPECT_FAILS(sab_sampler_at(sampler, 0, &batch), SAB_E_ARGUMENT, "must not be before");
    expect_place(sampler, 0, 1);
    sab_plan_report report = SAB_PLAN_REPORT_INIT;
    EXPECT_FAILS(sab_plan_get_report(plan, &options, NULL, &report), SAB_E_ARGUMENT,
                 "sampler.steps_per_epoch = 5: must be 0: a report is of epochs of the data");
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

static void States_OfOtherSamplers_AreRefused(void) {
    sab_plan *plan = a_plan();
    sab_sampler_options options = ranks(0, 1);
    sab_sampler *whole = NULL, *sampler = NULL;
    EXPECT_OK(sab_bucket_sampler_new(plan, &options, &whole));
    options.steps_per_epoch = 5;
    EXPECT_OK(sab_bucket_sampler_new(plan, &options, &sampler));
    EXPECT_OK(sab_sampler_set_epoch(sampler, 3));
    EXPECT_OK(sab_sampler_seek(sampler, 2));
    struct state state, own;
    EXPECT_OK(save_state(whole, &state));
    EXPECT_FAILS(restore_state(sampler, &state), SAB_E_MISMATCH, "without steps_per_epoch");
    EXPECT_OK(save_state(sampler, &own));
    EXPECT_FAILS(restore_state(whole, &own), SAB_E_MISMATCH, "was saved with steps_per_epoch");
    for (size_t i = 0; i < own.size; ++i) { /* every byte counts */
        state = own;
        state.bytes[i] ^= 1;
        EXPECT(restore_state(sampler, &state) == SAB_E_FORMAT);
        state = own;
        state.size = i;
        EXPECT(restore_state(sampler, &state) == SAB_E_FORMAT);
    }
    expect_place(sampler, 3, 2);
    EXPECT_OK(save_state(sampler, &state));
    EXPECT(memcmp(&own, &state, sizeof own) == 0);
    options.seed = 1;
    sab_sampler_free(whole);
    EXPECT_OK(sab_bucket_sampler_new(plan, &options, &whole));
    EXPECT_FAILS(restore_state(whole, &own), SAB_E_MISMATCH, "seed");
    sab_sampler_free(whole);
    sab_sampler_free(sampler);
    sab_plan_free(plan);
}

int main(void) {
    RUN(Epochs_AreThoseOfTheData_OneAfterTheOther);
    RUN(AnyPlace_CanBeReached_FromAnyOther);
    RUN(Epochs_GoOn_OnOtherRanks);
    RUN(Epochs_GoOn_UnderOtherBudgets);
    RUN(States_OfEarlierPositions_AreSavedFromLaterEpochsOfTheData);
    RUN(LongEpochs_AreSkipped_AtOnce);
    RUN(Step_HasTheTotalsOfItsBatches);
    RUN(WrongCalls_AreRefused_AndChangeNothing);
    RUN(States_OfOtherSamplers_AreRefused);
    return finish();
}
