/** @file features.h
 * Which optional parts this build of the library has.
 *
 * A build without a part installs this file with 0 in its place, does not install the part's header
 * and does not export its symbols. The CMake options `SAB_WITH_FILES`, `SAB_WITH_STREAM` and
 * `SAB_WITH_CACHE` leave out one part each. Without all three `memory`, `engine`, `steps`, `group`
 * and `torch` are left out, too. The option `SAB_PLANNER_ONLY` leaves out all parts below.
 *
 * Tier: stable.
 */
#ifndef SAB_FEATURES_H
#define SAB_FEATURES_H

/** 1 if sab/files.h is included */
#ifndef SAB_WITH_FILES
#define SAB_WITH_FILES 1
#endif

/** 1 if sab/stream.h is included */
#ifndef SAB_WITH_STREAM
#define SAB_WITH_STREAM 1
#endif

/** 1 if sab/cache.h is included */
#ifndef SAB_WITH_CACHE
#define SAB_WITH_CACHE 1
#endif

/** 1 if sab/pack.h is included */
#ifndef SAB_WITH_PACK
#define SAB_WITH_PACK 1
#endif

/** 1 if sab/compat.h is included */
#ifndef SAB_WITH_COMPAT
#define SAB_WITH_COMPAT 1
#endif

/** 1 if sab/balance.h is included */
#ifndef SAB_WITH_BALANCE
#define SAB_WITH_BALANCE 1
#endif

/** 1 if sab/mixture.h is included */
#ifndef SAB_WITH_MIXTURE
#define SAB_WITH_MIXTURE 1
#endif

/** 1 if sab/memory.h is included */
#ifndef SAB_WITH_MEMORY
#define SAB_WITH_MEMORY 1
#endif

/** 1 if sab/engine.h is included */
#ifndef SAB_WITH_ENGINE
#define SAB_WITH_ENGINE 1
#endif

/** 1 if sab/steps.h is included */
#ifndef SAB_WITH_STEPS
#define SAB_WITH_STEPS 1
#endif

/** 1 if sab/group.h is included */
#ifndef SAB_WITH_GROUP
#define SAB_WITH_GROUP 1
#endif

/** 1 if sab/torch.h is included */
#ifndef SAB_WITH_TORCH
#define SAB_WITH_TORCH 1
#endif

#endif
