/** @file sab.h
 * libsab: which samples go into which batch when samples differ in size.
 *
 * The whole library in one include. Its parts, in the order in which they build on each other:
 *
 *     sab/base.h      status, last error, log, progress, versions
 *     sab/sizes.h     sab_sizes: the size of each sample
 *     sab/cost.h      what a batch costs
 *     sab/plan.h      sab_plan: buckets, batch sizes, budget; immutable, shareable
 *     sab/sampler.h   sab_sampler: a cursor over the batches of an epoch, for one rank
 *     sab/ranks.h     which rank this is; whether all ranks hold the same; sharded samples
 *     sab/pack.h      samples end to end in rows of a fixed capacity
 *     sab/memory.h    device memory: probes, models, the largest batch, the guard
 *     sab/compat.h    the orders and rules of other packages, exactly
 *     sab/files.h     sizes read from files
 *     sab/balance.h   items and samples dealt out to parts of nearly equal cost
 *     sab/mixture.h   data sets in proportions
 *     sab/engine.h    histograms, plans and places for data sets on several machines
 *     sab/steps.h     the largest batch, steps in parts, the guard
 *     sab/stream.h    sab_stream: pipelines of records that can be saved and resumed
 *     sab/group.h     batches cut into groups of similar lengths; padding
 *     sab/cache.h     sab_cache: values made once, kept in files or on Redis servers
 *     sab/torch.h     what needs LibTorch, loaded on demand
 *
 * Some builds have only a part of this: see sab/features.h.
 *
 * Most programs make sab_sizes, then a sab_plan, then a sab_sampler, and call sab_next_batch().
 *
 * The file comment of each header states its tier. Functions of stable headers do not change.
 * Those of provisional headers may change in a minor release.
 *
 * Rules that hold everywhere and are not repeated at each function:
 *
 * - Errors. A function that can fail returns a sab_status: SAB_OK (0), a positive normal outcome
 *   (SAB_END) or a negative failure. After a failure sab_last_error_message() says, for the calling
 *   thread, which argument, which value and which rule. Where a failure is about no argument or
 *   file, the parts are empty and the message says all. A failed call changes nothing, but for the
 *   size that a buffer which is too small should have. Nothing in the library prints, exits or
 *   aborts.
 * - Ownership. A constructor (`..._new`) gives its handle through the last argument, and sets it to
 *   NULL on failure. The caller frees the handle with the matching `..._free`, which ignores NULL
 *   and never fails. Handles keep what they were built from alive, so they may be freed in any
 *   order. A handle of another kind is refused, and one that was freed where its memory still shows
 *   it: do not rely on that. The caller never calls free() on memory of the library. Either the
 * caller provides the buffer, or the comment of the function says how long a borrowed one stays
 * valid.
 * - Threads. `const` handles may be used by any number of threads at once. A cursor (sab_sampler)
 *   is for one thread at a time.
 * - Fork. Every handle may be used in a child after fork(), and freed there. No lock is held
 *   between calls, and the only threads between calls are those of streams that ask for them.
 * - Callbacks. Their results are unset before the call, unless their comment says what they are,
 *   and one that returns 0 without setting them is refused. They are called in the calling thread
 *   and only during the call that received them, unless stated otherwise. Pointers passed to a
 *   callback are valid until it returns. A callback must not use the handle of the call that it is
 *   called from. It must not throw: a C++ exception ends the call with SAB_E_CALLBACK or
 *   SAB_E_INTERNAL and the text of the exception. An exception from a `release` function ends the
 *   process. longjmp(), pthread_exit() and pthread_cancel() must not end a call.
 * - Options. `struct_size` comes first and is the size of the struct, as the `_INIT` macro sets it.
 *   Zero in all other fields, and NULL options, mean the defaults. (GCC's -Wextra warns of fields
 *   without a value; -Wno-missing-field-initializers silences it.) A struct smaller than the first
 * released one is refused. A larger one is accepted if all bytes that this library does not know
 * are zero.
 * - Embedding. The C headers need C99, C89 with <stdint.h>, or C++11; those that end in .hpp need
 *   C++17. A thread needs 64 KiB of stack. The library sets no signal handler, locale or
 *   environment variable. Its threads have the signal mask of the thread that started them.
 * - Copies. Several copies of the library, shared or static, may be in one process. Each has its
 *   own last errors and log callback. Two copies must not have one cache file open at once. A copy
 *   in a namespace of its own (dlmopen) does not detect forks: a child must not use its handles.
 *   The shared library stays loaded after dlclose(), because threads may be running in it.
 * - Static library. Link a shared object that contains it with `-Wl,-z,nodelete`, for the same
 *   reason, and with `-Wl,--exclude-libs,libsab.a`, so that it uses its own copy and does not
 *   export it. CMake's target sab::sab_static adds both.
 * - Units. Sizes, lengths and totals are in the caller's unit (tokens, residues, frames, seconds,
 *   nodes). Indices are the positions of samples in the sizes, from 0.
 */
#ifndef SAB_H
#define SAB_H

/* A header comes after those that it needs. */
/* clang-format off */
#include "sab/features.h"
#include "sab/base.h"
#include "sab/sizes.h"
#include "sab/cost.h"
#include "sab/plan.h"
#include "sab/sampler.h"
#include "sab/arrow.h"
#include "sab/ranks.h"
#if SAB_WITH_PACK
#include "sab/pack.h"
#endif
#if SAB_WITH_MEMORY
#include "sab/memory.h"
#endif
#if SAB_WITH_COMPAT
#include "sab/compat.h"
#endif
#if SAB_WITH_FILES
#include "sab/files.h"
#endif
#if SAB_WITH_BALANCE
#include "sab/balance.h"
#endif
#if SAB_WITH_MIXTURE
#include "sab/mixture.h"
#endif
#if SAB_WITH_ENGINE
#include "sab/engine.h"
#endif
#if SAB_WITH_STEPS
#include "sab/steps.h"
#endif
#if SAB_WITH_STREAM
#include "sab/stream.h"
#endif
#if SAB_WITH_GROUP
#include "sab/group.h"
#endif
#if SAB_WITH_CACHE
#include "sab/cache.h"
#endif
#if SAB_WITH_TORCH
#include "sab/torch.h"
#endif
/* clang-format on */

#endif
