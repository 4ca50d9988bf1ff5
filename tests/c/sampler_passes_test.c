/* What a pass over an epoch gives, for every kind of sampler: the rows of the table in sampler.h.
 */
#include <stdlib.h>

#include "kinds.h"

#define SAMPLES 90

struct epoch {
    size_t count;
    int64_t firsts[SAMPLES]; /* first index of each batch, or -1 */
};

/* The epoch in which a sampler begins. */
static uint64_t first_epoch(const struct constructor *kind) {
    return kind->properties & WITH_OPTIONS ? 4 : 0;
}

static sab_sampler *made(const struct constructor *kind) {
    sab_sampler_options options = SAB_SAMPLER_OPTIONS_INIT;
    options.seed = 3;
    options.epoch = first_epoch(kind);
    options.micro_batches = 2;
    return sampler_of_kind(kind, lengths(SAMPLES), SAMPLES, &options);
}

static uint64_t epoch_of(const sab_sampler *sampler) {
    uint64_t epoch = 0, position = 0;
    EXPECT_OK(sab_sampler_tell(sampler, &epoch, &position));
    return epoch;
}

static uint64_t position_of(const sab_sampler *sampler) {
    uint64_t epoch = 0, position = 0;
    EXPECT_OK(sab_sampler_tell(sampler, &epoch, &position));
    return position;
}

/* At most `most` batches from the cursor on. */
static struct epoch taken(sab_sampler *sampler, size_t most) {
    struct epoch epoch;
    memset(&epoch, 0, sizeof epoch);
    sab_batch batch = SAB_BATCH_INIT;
    sab_status status = SAB_OK;
    while (epoch.count < most && (status = sab_next_batch(sampler, &batch)) == SAB_OK)
        epoch.firsts[epoch.count++] = batch.count > 0 ? batch.indices[0] : -1;
    EXPECT(status == SAB_OK || status == SAB_END);
    return epoch;
}

static struct epoch rest(sab_sampler *sampler) {
    const struct epoch epoch = taken(sampler, SAMPLES);
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT(sab_next_batch(sampler, &batch) == SAB_END);
    return epoch;
}

/* An epoch as a sampler of its own gives it. */
static struct epoch epoch_at(const struct constructor *kind, uint64_t epoch) {
    sab_sampler *sampler = made(kind);
    EXPECT_OK(sab_sampler_set_epoch(sampler, epoch));
    const struct epoch whole = rest(sampler);
    sab_sampler_free(sampler);
    return whole;
}

static int are_same(const struct epoch *a, const struct epoch *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

/* The torch-generator order continues with its generator, so no two passes are alike. */
static void expect_epoch(const struct constructor *kind, const struct epoch *pass, uint64_t epoch) {
    const struct epoch expected = epoch_at(kind, epoch);
    EXPECT(kind->properties & BY_GENERATOR ? pass->count > 0 : are_same(pass, &expected));
}

static int have_same_rows(sab_sampler *sampler, const sab_batch *batch, const sab_block *block,
                          size_t i) {
    sab_rows rows = SAB_ROWS_INIT;
    if (batch->layout == SAB_LAYOUT_PADDED)
        return block->cu_seqlens == NULL && block->starts == NULL;
    EXPECT_OK(sab_sampler_get_rows(sampler, &rows));
    if ((rows.cu_seqlens == NULL) != (block->cu_seqlens == NULL) ||
        (rows.starts == NULL) != (block->starts == NULL))
        return 0;
    const uint64_t at = block->offsets[i];
    for (size_t j = 0; rows.cu_seqlens != NULL && j < rows.columns; ++j)
        if (memcmp(rows.cu_seqlens[j], block->cu_seqlens[j] + at + i, (batch->count + 1) * 4) != 0)
            return 0;
    return rows.starts == NULL || batch->count == 0 ||
           memcmp(rows.starts, block->starts + at, batch->count * 8) == 0;
}

static int are_same_batch(const sab_batch *batch, const sab_block *block, size_t i) {
    const size_t columns = batch->columns, bytes = columns * sizeof(double);
    return batch->count == block->offsets[i + 1] - block->offsets[i] &&
           (batch->count == 0 || memcmp(batch->indices, block->indices + block->offsets[i],
                                        batch->count * sizeof(int64_t)) == 0) &&
           batch->layout == block->layout && columns == block->columns &&
           memcmp(batch->longest, block->longest + i * columns, bytes) == 0 &&
           memcmp(batch->padded_length, block->padded_length + i * columns, bytes) == 0 &&
           memcmp(batch->total, block->total + i * columns, bytes) == 0 &&
           batch->bucket == block->bucket[i] && batch->epoch == block->epoch &&
           batch->step == block->step[i] && batch->micro_batch == block->micro_batch[i] &&
           batch->id == block->id[i] && batch->sample_weight == block->sample_weight[i] &&
           memcmp(batch->token_weight, block->token_weight + i * columns, bytes) == 0;
}

/* Blocks of any size, begun after any number of batches, up to the end and past it. */
static void NextBlock_ShowsWhatNextShows(void) {
    FOR_CONSTRUCTORS(kind)
    for (size_t before = 0; before < 3; ++before)
        for (size_t most = 1; most < 100; most = most * 3 + 1) {
            sab_sampler *sampler = made(kind), *blocks = made(kind);
            taken(sampler, before);
            taken(blocks, before);
            sab_batch batch = SAB_BATCH_INIT;
            sab_block block = SAB_BLOCK_INIT;
            sab_status status;
            while ((status = sab_next_block(blocks, most, &block)) == SAB_OK) {
                EXPECT(block.count >= 1 && block.count <= most && block.offsets[0] == 0);
                for (size_t i = 0; i < block.count; ++i) {
                    EXPECT_OK(sab_next_batch(sampler, &batch));
                    EXPECT(are_same_batch(&batch, &block, i));
                    EXPECT(have_same_rows(sampler, &batch, &block, i));
                }
                EXPECT(position_of(blocks) == position_of(sampler));
            }
            EXPECT(status == SAB_END && sab_next_block(blocks, most, &block) == SAB_END);
            EXPECT(sab_next_batch(sampler, &batch) == SAB_END);
            EXPECT_OK(sab_sampler_begin(blocks));
            EXPECT(epoch_of(blocks) == first_epoch(kind) + 1 && position_of(blocks) == 0);
            sab_sampler_free(sampler);
            sab_sampler_free(blocks);
        }
}

static void NextBlock_OfBadArguments_MovesNothing(void) {
    FOR_CONSTRUCTORS(kind) {
        sab_sampler *sampler = made(kind);
        sab_block block = SAB_BLOCK_INIT;
        EXPECT_FAILS(sab_next_block(sampler, 0, &block), SAB_E_ARGUMENT, "max_batches = 0");
        EXPECT_FAILS(sab_next_block(sampler, 1, NULL), SAB_E_ARGUMENT, "block = NULL");
        EXPECT_FAILS(sab_next_block(NULL, 1, &block), SAB_E_ARGUMENT, "sampler = NULL");
        block.struct_size = 8;
        EXPECT_FAILS(sab_next_block(sampler, 1, &block), SAB_E_ARGUMENT, "block.struct_size = 8");
        EXPECT(block.count == 0 && position_of(sampler) == 0);
        sab_sampler_free(sampler);
    }
}

static void Begin_WhereNothingWasTaken_IsTheCurrentEpoch(void) {
    FOR_CONSTRUCTORS(kind) {
        sab_sampler *sampler = made(kind);
        EXPECT_OK(sab_sampler_begin(sampler));
        EXPECT_OK(sab_sampler_begin(sampler));
        EXPECT(epoch_of(sampler) == first_epoch(kind) && position_of(sampler) == 0);
        const struct epoch pass = rest(sampler);
        expect_epoch(kind, &pass, first_epoch(kind));
        EXPECT(pass.count > 2);
        sab_sampler_free(sampler);
    }
}

static void Begin_AfterTheEnd_IsTheNextEpoch(void) {
    FOR_CONSTRUCTORS(kind) {
        sab_sampler *sampler = made(kind);
        rest(sampler); /* without sab_sampler_begin() */
        for (uint64_t epoch = first_epoch(kind) + 1; epoch < first_epoch(kind) + 4; ++epoch) {
            sab_batch batch = SAB_BATCH_INIT;
            EXPECT(sab_next_batch(sampler, &batch) == SAB_END);
            EXPECT(epoch_of(sampler) == epoch - 1);
            EXPECT_OK(sab_sampler_begin(sampler));
            EXPECT(epoch_of(sampler) == epoch && position_of(sampler) == 0);
            const struct epoch pass = rest(sampler);
            expect_epoch(kind, &pass, epoch);
        }
        sab_sampler_free(sampler);
    }
}

static void Begin_AfterABrokenOffPass_IsTheSameEpochFromItsStart(void) {
    FOR_CONSTRUCTORS(kind) {
        sab_sampler *sampler = made(kind);
        const uint64_t epoch = first_epoch(kind);
        for (size_t count = 1; count <= 3; ++count) {
            taken(sampler, count);
            EXPECT(position_of(sampler) == count);
            EXPECT_OK(sab_sampler_begin(sampler));
            EXPECT(epoch_of(sampler) == epoch && position_of(sampler) == 0);
        }
        /* all batches, but not the end */
        const struct epoch whole = epoch_at(kind, epoch);
        if (!(kind->properties & BY_GENERATOR)) {
            taken(sampler, whole.count);
            EXPECT_OK(sab_sampler_begin(sampler));
        }
        const struct epoch pass = rest(sampler);
        expect_epoch(kind, &pass, epoch);
        sab_sampler_free(sampler);
    }
}

/* Three of the epochs that a state can be saved in: begun, at the end, ended. */
static void Begin_AfterARestore_IsWhatWasLeft(void) {
    FOR_CONSTRUCTORS(kind) {
        if (!(kind->capabilities & SAB_SAMPLER_RANDOM_ACCESS)) continue;
        const struct epoch whole = epoch_at(kind, 6);
        for (size_t count = 0; count <= whole.count; ++count) {
            sab_sampler *saved = made(kind), *sampler = made(kind);
            struct state state;
            EXPECT_OK(sab_sampler_set_epoch(saved, 6));
            taken(saved, count);
            EXPECT_OK(save_state(saved, &state));
            taken(sampler, 2); /* whatever was before */
            EXPECT_OK(restore_state(sampler, &state));
            EXPECT_OK(sab_sampler_begin(sampler));
            EXPECT(epoch_of(sampler) == 6 && position_of(sampler) == count);
            const struct epoch left = rest(sampler);
            EXPECT(left.count == whole.count - count &&
                   memcmp(left.firsts, whole.firsts + count, left.count * sizeof *left.firsts) ==
                       0);
            EXPECT_OK(sab_sampler_begin(sampler));
            EXPECT(epoch_of(sampler) == 7 && position_of(sampler) == 0);
            sab_sampler_free(saved);
            sab_sampler_free(sampler);
        }
    }
}

static void Begin_AfterARestoreOfAnEndedEpoch_IsTheNextEpoch(void) {
    FOR_CONSTRUCTORS(kind) {
        if (!(kind->capabilities & SAB_SAMPLER_RANDOM_ACCESS)) continue;
        sab_sampler *saved = made(kind), *sampler = made(kind);
        struct state state, again;
        sab_batch batch = SAB_BATCH_INIT;
        rest(saved);
        EXPECT_OK(save_state(saved, &state));
        EXPECT_OK(restore_state(sampler, &state));
        EXPECT_OK(save_state(sampler, &again));
        EXPECT(memcmp(&state, &again, sizeof state) == 0);
        EXPECT(sab_next_batch(sampler, &batch) == SAB_END);
        EXPECT_OK(restore_state(sampler, &state));
        EXPECT_OK(sab_sampler_begin(sampler));
        EXPECT(epoch_of(sampler) == first_epoch(kind) + 1 && position_of(sampler) == 0);
        const struct epoch pass = rest(sampler);
        expect_epoch(kind, &pass, first_epoch(kind) + 1);
        sab_sampler_free(saved);
        sab_sampler_free(sampler);
    }
}

static void Begin_AfterSeekOrSetEpoch_StaysThere(void) {
    FOR_CONSTRUCTORS(kind) {
        if (!(kind->capabilities & SAB_SAMPLER_RANDOM_ACCESS)) continue;
        const struct epoch whole = epoch_at(kind, 1);
        sab_sampler *sampler = made(kind);
        rest(sampler);
        EXPECT_OK(sab_sampler_set_epoch(sampler, 1));
        EXPECT_OK(sab_sampler_seek(sampler, 2));
        EXPECT_OK(sab_sampler_begin(sampler));
        EXPECT(epoch_of(sampler) == 1 && position_of(sampler) == 2);
        EXPECT(rest(sampler).count == whole.count - 2);
        EXPECT_OK(sab_sampler_seek(sampler, whole.count)); /* the end was not reported since */
        EXPECT_OK(sab_sampler_begin(sampler));
        EXPECT(epoch_of(sampler) == 1 && rest(sampler).count == 0);
        EXPECT_OK(sab_sampler_begin(sampler));
        EXPECT(epoch_of(sampler) == 2);
        sab_sampler_free(sampler);
    }
}

static void NextBlocks_ArePassesToo(void) {
    FOR_CONSTRUCTORS(kind) {
        sab_sampler *sampler = made(kind);
        sab_block block = SAB_BLOCK_INIT;
        EXPECT_OK(sab_next_block(sampler, 2, &block));
        EXPECT_OK(sab_sampler_begin(sampler)); /* broken off */
        EXPECT(epoch_of(sampler) == first_epoch(kind) && position_of(sampler) == 0);
        sab_status status;
        while ((status = sab_next_block(sampler, 2, &block)) == SAB_OK) {
        }
        EXPECT(status == SAB_END);
        EXPECT_OK(sab_sampler_begin(sampler));
        EXPECT(epoch_of(sampler) == first_epoch(kind) + 1 && position_of(sampler) == 0);
        sab_sampler_free(sampler);
    }
}

static int32_t fails_in_epoch_one(void *ctx, const int64_t *indices, size_t count,
                                  sab_batches *batches) {
    const int *fails = ctx;
    return *fails ? 41 : sab_bagua_batches_add(batches, indices, count);
}

static void Begin_ThatFails_ChangesNothing(void) {
    sab_sizes *sizes = sizes_of(lengths(SAMPLES), SAMPLES);
    sab_bagua_options balancing = SAB_BAGUA_OPTIONS_INIT;
    int fails = 0;
    balancing.make_batches = fails_in_epoch_one;
    balancing.make_batches_ctx = &fails;
    sab_sampler *sampler = NULL;
    EXPECT_OK(sab_bagua_sampler_new(sizes, &balancing, NULL, &sampler));
    rest(sampler);
    fails = 1;
    sab_batch batch = SAB_BATCH_INIT;
    EXPECT(sab_sampler_begin(sampler) == SAB_E_CALLBACK && sab_last_error_code() == 41);
    EXPECT(epoch_of(sampler) == 0 && sab_next_batch(sampler, &batch) == SAB_END);
    fails = 0;
    EXPECT_OK(sab_sampler_begin(sampler));
    EXPECT(epoch_of(sampler) == 1 && rest(sampler).count == 1);
    sab_sampler_free(sampler);
    sab_sizes_free(sizes);
}

int main(void) {
    RUN(NextBlock_ShowsWhatNextShows);
    RUN(NextBlock_OfBadArguments_MovesNothing);
    RUN(Begin_WhereNothingWasTaken_IsTheCurrentEpoch);
    RUN(Begin_AfterTheEnd_IsTheNextEpoch);
    RUN(Begin_AfterABrokenOffPass_IsTheSameEpochFromItsStart);
    RUN(Begin_AfterARestore_IsWhatWasLeft);
    RUN(Begin_AfterARestoreOfAnEndedEpoch_IsTheNextEpoch);
    RUN(Begin_AfterSeekOrSetEpoch_StaysThere);
    RUN(NextBlocks_ArePassesToo);
    RUN(Begin_ThatFails_ChangesNothing);
    return finish();
}
