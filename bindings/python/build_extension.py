"""Writes the C source of the extension `sab._sab`: build_extension.py OUTPUT."""

import pathlib
import sys

import cffi

HERE = pathlib.Path(__file__).resolve().parent

# The callbacks that run Python.
EXTRA = """
extern "Python" int32_t sab_py_size(void *ctx, int64_t index, double *size);
extern "Python" int32_t sab_py_cost(void *ctx, uint64_t count, const double *lengths,
    const double *totals, size_t columns, double *cost);
extern "Python" int32_t sab_py_index(void *ctx, uint64_t epoch, uint64_t position, int64_t *index,
    double *size);
extern "Python" int32_t sab_py_all_gather(void *ctx, const void *mine, size_t size, void *all);
extern "Python" int32_t sab_py_load(void *ctx, const void *key, size_t key_size, const void
    **data, size_t *size);
extern "Python" int32_t sab_py_make_batches(void *ctx, const int64_t *indices, size_t count,
    sab_batches *batches);
extern "Python" int32_t sab_py_progress(void *ctx, uint64_t done, uint64_t total);
extern "Python" int32_t sab_py_work(void *ctx, uint64_t item, double *features, size_t capacity,
    size_t *count);
extern "Python" int32_t sab_py_cleanup(void *ctx, uint64_t item);
extern "Python" int32_t sab_py_collect_garbage(void *ctx);
extern "Python" int32_t sab_py_begin(void *ctx);
extern "Python" int32_t sab_py_trial(void *ctx, uint64_t count, double length);
extern "Python" int32_t sab_py_chunk(void *ctx, uint64_t first, uint64_t count, double weight);
extern "Python" int32_t sab_py_batch(void *ctx, const sab_batch *batch);
extern "Python" int32_t sab_py_reduce(void *ctx, int64_t *values, size_t count);
extern "Python" int32_t sab_py_device_reset(void *ctx);
extern "Python" int32_t sab_py_device_current(void *ctx, int64_t *bytes);
extern "Python" int32_t sab_py_device_peak(void *ctx, int64_t *bytes);
extern "Python" int32_t sab_py_device_reserved(void *ctx, int64_t *reserved_peak, int64_t
    *largest_free);
extern "Python" int32_t sab_py_device_total(void *ctx, int64_t *bytes);
extern "Python" int32_t sab_py_device_release_cache(void *ctx);
extern "Python" void sab_py_device_release(void *ctx);
extern "Python" int32_t sab_py_device_rng_save(void *ctx, uint64_t depth);
extern "Python" int32_t sab_py_device_rng_restore(void *ctx, uint64_t depth);
"""

# What streams.c has for Python.
EXTRA += """
typedef struct sab_py_stage sab_py_stage;
void sab_py_use_pickle(uintptr_t dumps, uintptr_t loads);
void sab_py_set_over(void);
int32_t sab_py_stream_progress(void *ctx, uint64_t done, uint64_t total);
sab_py_stage *sab_py_stage_new(uintptr_t held, int32_t is_text);
void sab_py_stage_close(sab_py_stage *stage);
int32_t sab_py_stage_is_used(sab_py_stage *stage);
void sab_py_stage_release(void *stage);
sab_status sab_py_next(sab_stream *stream, uintptr_t list, int32_t is_text);
sab_status sab_py_source_new(sab_py_stage *stage, int32_t has_state, sab_stream **stream);
sab_status sab_py_map_new(sab_stream *source, sab_py_stage *stage, int32_t what, uint64_t threads,
    sab_stream **stream);
sab_status sab_py_select_new(sab_stream *source, sab_py_stage *stage, sab_stream **stream);
sab_status sab_py_recurrent_new(sab_stream *source, sab_py_stage *stage, sab_stream **stream);
sab_status sab_py_random_map_new(sab_stream *source, sab_py_stage *stage, uint64_t seed,
    sab_stream **stream);
sab_status sab_py_pack_new(sab_stream *source, sab_pack_stream_options *options,
    sab_py_stage *stage, sab_stream **stream);
sab_status sab_py_readahead_new(sab_stream *source, sab_readahead_stream_options *options,
    sab_py_stage *stage, int32_t has_batch_size,
                                int32_t has_boundary_key, sab_stream **stream);
"""

# What schedule.c has for Python.
EXTRA += """
sab_status sab_py_schedule_new(sab_sampler *handle, uintptr_t sampler, uintptr_t list);
"""

builder = cffi.FFI()
builder.cdef((HERE / "libsab" / "include" / "sab_cdef.h").read_text() + EXTRA)
builder.set_source(
    "sab._sab",
    "#include <sab.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
    + (HERE / "streams.c").read_text()
    + (HERE / "schedule.c").read_text(),
)
builder.emit_c_code(sys.argv[1])
