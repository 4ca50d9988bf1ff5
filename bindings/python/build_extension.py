"""Writes the C source of the extension `sab._sab`: build_extension.py OUTPUT."""

import pathlib
import sys

import cffi

HERE = pathlib.Path(__file__).resolve().parent

# What C has as macros, and the callbacks that run Python.
EXTRA = """
sab_sizes_options sab_py_sizes_options(void);
sab_plan_options sab_py_plan_options(void);
sab_sampler_options sab_py_sampler_options(void);
sab_torch_sampler_options sab_py_torch_sampler_options(void);

extern "Python" int32_t sab_py_size(void *ctx, int64_t index, double *size);
extern "Python" int32_t sab_py_cost(void *ctx, uint64_t count, double length, double *cost);
extern "Python" int32_t sab_py_index(void *ctx, uint64_t epoch, uint64_t position, int64_t *index, double *size);
extern "Python" int32_t sab_py_progress(void *ctx, uint64_t done, uint64_t total);
"""

SOURCE = """
#include <sab.h>
static sab_sizes_options sab_py_sizes_options(void) { sab_sizes_options o = SAB_SIZES_OPTIONS_INIT; return o; }
static sab_plan_options sab_py_plan_options(void) { sab_plan_options o = SAB_PLAN_OPTIONS_INIT; return o; }
static sab_sampler_options sab_py_sampler_options(void) { sab_sampler_options o = SAB_SAMPLER_OPTIONS_INIT; return o; }
static sab_torch_sampler_options sab_py_torch_sampler_options(void) {
    sab_torch_sampler_options o = SAB_TORCH_SAMPLER_OPTIONS_INIT; return o;
}
"""

builder = cffi.FFI()
builder.cdef((HERE / "sab" / "_cdef.h").read_text() + EXTRA)
builder.set_source("sab._sab", SOURCE)
builder.emit_c_code(sys.argv[1])
