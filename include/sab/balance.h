/** @file balance.h
 *  Work dealt out evenly: items to parts, samples to ranks.
 *
 *  sab_partition() assigns items (samples, batches, micro-batches) to parts (ranks, steps, pipeline slots) so that the costliest part costs
 *  little more than the mean, optionally with as many items in every part, and under a hard cap of another quantity, such as memory.
 */
#ifndef SAB_BALANCE_H
#define SAB_BALANCE_H

#include "sab/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How items are assigned to parts at first. */
typedef int32_t sab_partition_method;
#define SAB_PARTITION_KARMARKAR_KARP 0 /**< largest differencing: the two most uneven partial partitions are joined, costliest part to cheapest, until one is left */
#define SAB_PARTITION_LONGEST_FIRST 1  /**< each item, costliest first, to the part that costs least so far: faster, less even */

/** What a partition must keep. */
typedef struct sab_partition_options {
    size_t struct_size;          /**< set by SAB_PARTITION_OPTIONS_INIT */
    sab_partition_method method; /**< SAB_PARTITION_KARMARKAR_KARP */
    int32_t equal_counts;        /**< 1: every part has the same number of items, and the count must be a multiple of the parts; 0 (default) */
    const double *weights;       /**< what each item counts against `capacity`, such as tokens or bytes: finite, at least 0. NULL (default): no cap */
    double capacity;             /**< with `weights`: no part's weights sum to more; finite, above 0. Without: 0 (default) */
} sab_partition_options;
#define SAB_PARTITION_OPTIONS_INIT { sizeof(sab_partition_options), SAB_PARTITION_KARMARKAR_KARP, 0, NULL, 0 }

/** Sets the defaults, the same bytes as SAB_PARTITION_OPTIONS_INIT: for languages without C's macros.
 *
 *  @param options  filled whole; NULL is let be
 */
SAB_API void sab_partition_options_init(sab_partition_options *options) SAB_NOEXCEPT;

/** Assigns items to parts so that the largest sum of costs is small.
 *
 *  Whatever the method, single items then move, or change places, between the costliest part and cheaper ones while that lowers the largest
 *  sum; how long is bounded by the number of items. The same costs give the same parts on every machine.
 *
 *  A cap on weights is kept always. Where balance and cap are at odds, assignments are tried that care less and less for balance. As finding one
 *  under the cap is a bin packing problem, a tight cap that could be held may be refused: with a few items to a part and a tenth of room
 *  that does not happen.
 *
 *  Time for n items and k parts: about n log n; memory: some 60 bytes an item.
 *
 *  @param costs    `count` costs, finite, at least 0, with a finite sum; may be NULL when `count` is 0
 *  @param count    number of items, at most 4,294,967,295
 *  @param parts    number of parts, 1 to 2^20; may be more than there are items
 *  @param options  NULL: the defaults
 *  @param part_of  filled on SAB_OK with the part of each item, from 0; room for `count`
 *  @return SAB_OK; SAB_E_ARGUMENT, also when no assignment under the capacity was found
 */
SAB_API sab_status sab_partition(const double *costs, size_t count, uint64_t parts, const sab_partition_options *options,
                                 uint32_t *part_of) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
