"""Writes the C source of the extension `sab._sab`: build_extension.py OUTPUT."""

import pathlib
import sys

import cffi

HERE = pathlib.Path(__file__).resolve().parent

# The callbacks that run Python.
EXTRA = """
extern "Python" int32_t sab_py_size(void *ctx, int64_t index, double *size);
extern "Python" int32_t sab_py_cost(void *ctx, uint64_t count, double length, double *cost);
extern "Python" int32_t sab_py_index(void *ctx, uint64_t epoch, uint64_t position, int64_t *index, double *size);
extern "Python" int32_t sab_py_progress(void *ctx, uint64_t done, uint64_t total);
"""

builder = cffi.FFI()
builder.cdef((HERE / "sab" / "_cdef.h").read_text() + EXTRA)
builder.set_source("sab._sab", "#include <sab.h>")
builder.emit_c_code(sys.argv[1])
