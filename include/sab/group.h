/** @file group.h
 * Batches cut into groups of like lengths, so that each group is padded to its own longest.
 *
 * sab_thresholds_find() decides, once for a data set, where to cut: lengths up to the first
 * threshold are one group, those above it up to the second the next, and those above the last one
 * the last. sab_grouping does so with the samples of a batch, or of anything: it says in which
 * order to take them, group by group, and how to get back, for any runtime that can index by an
 * array. sab_ragged_pad() stacks the samples of a group, sab_ragged_unpad() takes them apart.
 *
 * Tier: provisional. Functions and structs here may change or be removed in a minor release.
 */
#ifndef SAB_GROUP_H
#define SAB_GROUP_H

#include "sab/base.h"
#include "sab/plan.h"
#include "sab/sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Thresholds ---- */

/** What thresholds are best. */
typedef int32_t sab_thresholds_method;
/** those whose groups cost least in sum: exact, by dynamic programming over the distinct lengths */
#define SAB_THRESHOLDS_LEAST_TOTAL 0
/** those whose costliest group costs least, by bisection, and of these the ones whose groups cost
 *  least in sum: exact */
#define SAB_THRESHOLDS_LEAST_LARGEST 1
/** groups that cost about the same, by a greedy search from random places: that of asym. The
 *  threshold between the two neighbours whose costs differ most moves by one distinct length
 *  towards the costlier, again and again */
#define SAB_THRESHOLDS_RANDOMISED 2

/** How to find thresholds. */
typedef struct sab_thresholds_options {
    /** set by SAB_THRESHOLDS_OPTIONS_INIT */
    size_t struct_size;
    /** SAB_THRESHOLDS_LEAST_TOTAL */
    sab_thresholds_method method;
    /** what a group costs, of its count and its longest length; SAB_COST_PADDED */
    sab_cost cost;
    /** 1: a group costs count * cost(1, longest), and a callback is asked once for each distinct
     *  length only; 0 (default) */
    int32_t cost_per_sample;
    /** RANDOMISED: searches, of which the one with the most even groups counts; at least 1. 100 */
    uint32_t num_trials;
    /** RANDOMISED: a search ends when more than so many steps have not made the largest difference
     *  smaller; at least 0. -1 (default): twice the number of distinct lengths */
    int64_t tolerate;
    /** RANDOMISED: of the places where searches begin, those of CPython's
     *  `random.Random(seed).sample`; 0 */
    uint64_t seed;
    /** RANDOMISED: instead, num_trials * k of them: for each search k of the distinct lengths, by
     *  number from 0, ascending in length, in any order, no two equal; read during the call.
     *  NULL */
    const uint64_t *starts;
    /** POLYNOMIAL: c[0], c[1], ...; read during the call */
    const double *coefficients;
    /** number of `coefficients` */
    size_t coefficient_count;
    /** TERMS, such as those of a memory model, not negative for the shortest length; read during
     *  the call */
    const sab_cost_term *cost_terms;
    /** number of `cost_terms` */
    size_t cost_term_count;
    /** CALLBACK: called during the call */
    sab_cost_fn cost_fn;
    /** handed to `cost_fn` */
    void *cost_ctx;
    /** follows and may cancel; NULL */
    sab_progress_fn progress;
    /** handed to `progress` */
    void *progress_ctx;
} sab_thresholds_options;
#define SAB_THRESHOLDS_OPTIONS_INIT  \
    {sizeof(sab_thresholds_options), \
     SAB_THRESHOLDS_LEAST_TOTAL,     \
     SAB_COST_PADDED,                \
     0,                              \
     100,                            \
     -1,                             \
     0,                              \
     NULL,                           \
     NULL,                           \
     0,                              \
     NULL,                           \
     0,                              \
     NULL,                           \
     NULL,                           \
     NULL,                           \
     NULL}

/** Sets the defaults, the same as SAB_THRESHOLDS_OPTIONS_INIT: for languages without C's macros.
 *
 * @param options      filled; NULL is ignored
 * @param struct_size  size of the caller's sab_thresholds_options; exactly this many bytes are
 *     written
 */
SAB_API void sab_thresholds_options_init(sab_thresholds_options *options, size_t struct_size)
    SAB_NOEXCEPT;

/** What groups by thresholds cost, when each is one batch. A group without samples costs nothing.
 */
typedef struct sab_thresholds_info {
    /** set by SAB_THRESHOLDS_INFO_INIT */
    size_t struct_size;
    /** sum of the groups' costs */
    double total;
    /** cost of the costliest group */
    double largest;
    /** of the costs of two neighbours: what the randomised search makes small */
    double largest_difference;
    /** RANDOMISED: searches that ended with groups of the same cost ("perfect") */
    uint64_t even;
    /** searches that went back to where they were two steps before ("repeated") */
    uint64_t repeated;
    /** searches ended by `tolerate` ("could not tolerate") */
    uint64_t not_tolerated;
    /** searches whose threshold could go no further, at the shortest or longest length
     *  ("extreme") */
    uint64_t extreme;
    /** searches whose threshold could go no further, beside another one ("narrow gap") */
    uint64_t narrow;
} sab_thresholds_info;
#define SAB_THRESHOLDS_INFO_INIT {sizeof(sab_thresholds_info), 0, 0, 0, 0, 0, 0, 0, 0}

/** Finds `k` thresholds, which cut lengths into `k` + 1 groups.
 *
 * Thresholds are lengths that occur, ascending. The last one is the longest, and its group above
 * empty, only where a group more would cost more (the exact methods, for costs with a constant), or
 * where a randomised search ended there.
 *
 * The exact methods rely on costs that never decrease with count or length. Least sums also rely on
 * this: a sample more costs at least as much in a group that is larger or longer. Formulas and
 * `cost_per_sample` grant it; a callback of count and length may break it and is nevertheless
 * answered exactly up to 1,024 distinct lengths, being asked about all possible groups where need
 * be.
 *
 * Time: that of sorting by counting, then some k * d steps for d distinct lengths and costs in
 * proportion to the count but for a constant: a third of a second for a million and 15 thresholds.
 * Other costs, callbacks of count and length and terms of higher powers of the count, are computed
 * some k * d * log2(d) times; far fewer for LEAST_LARGEST. Memory: 4 * k * d bytes.
 *
 * @param lengths     read during the call only; a length of zero costs as much as the shortest
 *     above zero
 * @param k           number of thresholds, at least 1 and below the number of distinct lengths
 * @param options     NULL: the defaults
 * @param thresholds  room for `k` numbers, filled on SAB_OK
 * @param info        filled on SAB_OK, its struct_size must be set; or NULL
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_CALLBACK from `cost_fn`; SAB_E_CANCELLED
 */
SAB_API sab_status sab_thresholds_find(const sab_sizes *lengths, uint64_t k,
                                       const sab_thresholds_options *options, double *thresholds,
                                       sab_thresholds_info *info) SAB_NOEXCEPT;

/* ---- Groupings ---- */

/** Samples, such as those of a batch, in groups: which sample is in which, and how to reorder what
 * belongs to them, there and back. Immutable, shareable.
 */
typedef struct sab_grouping sab_grouping;

/** One length of the samples, and where it is cut. */
typedef struct sab_grouping_dimension {
    const sab_sizes *lengths; /**< of all samples */
    const double *thresholds; /**< in any order, no two equal, none NaN */
    size_t threshold_count;   /**< at least 1 */
} sab_grouping_dimension;

/** Groups samples by one or several of their lengths, such as residues of a protein and atoms of
 * its ligand.
 *
 * Each dimension is cut into the lengths up to its first threshold, those above it up to the
 * second, ..., those above its last one. Samples that lie in the same interval of every dimension
 * are a group. There are no empty groups. They come in ascending order of the first dimension's
 * interval, then the second's, and so on.
 *
 * Time: some 50 ns a sample. Memory: 24 bytes a sample, and during the call 8 more and 4 for each
 * dimension.
 *
 * @param dimensions  `count` of them, with as many samples each; read during the call only
 * @param count       1 to 64
 * @param grouping    the new handle; free with sab_grouping_free()
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_grouping_thresholds_new(const sab_grouping_dimension *dimensions,
                                               size_t count, sab_grouping **grouping) SAB_NOEXCEPT;

/** All samples in one group.
 *
 * @param samples   number of samples, at most 4,294,967,295
 * @param grouping  the new handle; free with sab_grouping_free()
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_grouping_single_new(size_t samples, sab_grouping **grouping) SAB_NOEXCEPT;

/** Groups given as the number of each sample's group.
 *
 * @param group_of  `samples` numbers, from 0 to below `groups`; may be NULL when there are no
 *     samples
 * @param samples   number of samples, at most 4,294,967,295
 * @param groups    number of groups, at most 4,294,967,295; any of them may be empty
 * @param grouping  the new handle; free with sab_grouping_free()
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_grouping_predefined_new(const int64_t *group_of, size_t samples,
                                               size_t groups, sab_grouping **grouping) SAB_NOEXCEPT;

/** Groups given as the samples of each, in an order that is kept.
 *
 * @param indices   the samples of the first group, then those of the second, ...: each sample
 *     exactly once; may be NULL when there are none
 * @param counts    samples of each group, any of them 0; may be NULL when there are no groups
 * @param groups    number of `counts`, at most 4,294,967,295
 * @param grouping  the new handle; free with sab_grouping_free()
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_grouping_partition_new(const int64_t *indices, const uint64_t *counts,
                                              size_t groups, sab_grouping **grouping) SAB_NOEXCEPT;

/** Groups of consecutive samples.
 *
 * @param counts    samples of each group, any of them 0; may be NULL when there are no groups
 * @param groups    number of `counts`, at most 4,294,967,295
 * @param grouping  the new handle; free with sab_grouping_free()
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_grouping_consecutive_new(const uint64_t *counts, size_t groups,
                                                sab_grouping **grouping) SAB_NOEXCEPT;

/** What a grouping is. The arrays are the grouping's and live as long as it does. */
typedef struct sab_grouping_view {
    /** set by SAB_GROUPING_VIEW_INIT */
    size_t struct_size;
    /** number of samples */
    uint64_t samples;
    /** number of groups */
    uint64_t groups;
    /** of lengths; 0 where the groups were given */
    uint64_t dimensions;
    /** groups + 1: group g stands at the places from offsets[g] to below offsets[g + 1] */
    const int64_t *offsets;
    /** the sample at each place; in a group by ascending index, or as they were given */
    const int64_t *permutation;
    /** the place of each sample: inverse[permutation[place]] == place. Puts what was computed group
     *  by group back in order */
    const int64_t *inverse;
    /** the group of each sample */
    const int64_t *group_of;
    /** groups * dimensions: the interval of each group, from 0, in its first dimension, its second,
     *  ...; NULL without dimensions */
    const int64_t *intervals;
} sab_grouping_view;
#define SAB_GROUPING_VIEW_INIT {sizeof(sab_grouping_view), 0, 0, 0, NULL, NULL, NULL, NULL, NULL}

/** Shows a grouping.
 *
 * @param grouping  a handle
 * @param groups    filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_grouping_get_view(const sab_grouping *grouping, sab_grouping_view *groups)
    SAB_NOEXCEPT;

/** Gives the handle back.
 *
 * @param grouping  a handle or NULL
 */
SAB_API void sab_grouping_free(sab_grouping *grouping) SAB_NOEXCEPT;

/* ---- Padding ---- */

/** Samples of one array each, such as tensors, whose shapes differ: where their elements lie. The
 * memory is the caller's.
 */
typedef struct sab_ragged {
    /** set by SAB_RAGGED_INIT */
    size_t struct_size;
    /** number of samples */
    uint64_t samples;
    /** dimensions of each sample, at most 16; 0: a sample is one element */
    uint64_t dimensions;
    /** bytes of an element, at least 1 */
    uint64_t element_size;
    /** samples * dimensions: the shape of the first sample, of the second, ...; NULL where
     *  `dimensions` is 0 */
    const int64_t *shapes;
    /** samples * dimensions, of any sign, in elements; NULL: samples are row-major. Where samples
     *  are only read, elements may share memory */
    const int64_t *strides;
    /** all samples in one piece; or NULL */
    void *values;
    /** where each sample begins in `values`, in elements; NULL: they lie end to end, and each call
     *  adds up the shapes of all samples, also where `indices` name a few */
    const int64_t *offsets;
    /** instead of `values`: where each sample begins; of samples without elements anything */
    void *const *data;
} sab_ragged;
#define SAB_RAGGED_INIT {sizeof(sab_ragged), 0, 0, 0, NULL, NULL, NULL, NULL, NULL}

/** What stands in places that a sample does not reach. */
typedef int32_t sab_pad_rule;
/** a value, or along some dimensions an array of them */
#define SAB_PADDING_CONSTANT 0
/** along each dimension the sample's last element; the value where a sample has none */
#define SAB_PADDING_REPEAT 1

/** How to pad, and to undo it. */
typedef struct sab_pad_options {
    /** set by SAB_PAD_OPTIONS_INIT */
    size_t struct_size;
    /** where the dimension of samples stands in the padded array, at most `dimensions`; 0 */
    uint64_t batch_dim;
    /** SAB_PADDING_CONSTANT */
    sab_pad_rule padding;
    /** an element, or several by `value_dims`; NULL (default): zero bytes */
    const void *value;
    /** a bit for each dimension of the samples. Those whose bit is set, the lowest being the first
     *  dimension, are the dimensions of `value`, row-major: a padded place gets the element for its
     *  index there. No sample may be shorter there than the padded array. Such as 0b110 to pad
     *  rotations of shape (length, 3, 3) with the identity. 0 */
    uint64_t value_dims;
    /** 1: the calling one only; else at most so many, of at least 1 MiB each, which end before the
     *  call does; 0 (default): as many as there are processors */
    uint64_t threads;
} sab_pad_options;
#define SAB_PAD_OPTIONS_INIT {sizeof(sab_pad_options), 0, SAB_PADDING_CONSTANT, NULL, 0, 0}

/** Sets the defaults, the same as SAB_PAD_OPTIONS_INIT: for languages without C's macros.
 *
 * @param options      filled; NULL is ignored
 * @param struct_size  size of the caller's sab_pad_options; exactly this many bytes are
 *     written
 */
SAB_API void sab_pad_options_init(sab_pad_options *options, size_t struct_size) SAB_NOEXCEPT;

/** The least shape that holds some samples: the longest along each dimension.
 *
 * @param samples  their memory is not looked at
 * @param indices  which samples, such as the permutation of a grouping from a group's offset on;
 *     NULL: all
 * @param count    number of `indices`; without them, of samples
 * @param shape    `dimensions` numbers, filled on SAB_OK; zeros when there are no samples
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_ragged_padded_shape(const sab_ragged *samples, const int64_t *indices,
                                           size_t count, int64_t *shape) SAB_NOEXCEPT;

/** Stacks samples in one row-major array, each padded at the end of its dimensions. One pass over
 * the output.
 *
 * @param samples  read; must not overlap with `padded`
 * @param indices  which samples, in this order, possibly several times; NULL: all
 * @param count    number of `indices`; without them, of samples
 * @param shape    `dimensions` numbers, each at least as large as those of
 *     sab_ragged_padded_shape()
 * @param options  NULL: the defaults
 * @param padded   room for count * shape[0] * shape[1] * ... elements: an array of `shape` with
 *     `count` inserted before dimension `batch_dim`
 * @return SAB_OK; SAB_E_ARGUMENT, with nothing written
 */
SAB_API sab_status sab_ragged_pad(const sab_ragged *samples, const int64_t *indices, size_t count,
                                  const int64_t *shape, const sab_pad_options *options,
                                  void *padded) SAB_NOEXCEPT;

/** Takes samples out of a padded array: the inverse of sab_ragged_pad(), and its gradient where the
 * padding is constant. (The gradient of sab_ragged_unpad() is sab_ragged_pad() with zeros.)
 *
 * @param padded   an array as sab_ragged_pad() makes it
 * @param shape    its `dimensions` numbers without the samples' dimension, each at least as large
 *     as those of sab_ragged_padded_shape()
 * @param indices  which sample stands at each place of the array; NULL: all, in order. With several
 *     threads no two may be equal
 * @param count    number of `indices`; without them, of samples
 * @param options  `batch_dim` and `threads` count; NULL: the defaults
 * @param samples  their elements are written, as far as they are in `indices`
 * @return SAB_OK; SAB_E_ARGUMENT, with nothing written
 */
SAB_API sab_status sab_ragged_unpad(const void *padded, const int64_t *shape,
                                    const int64_t *indices, size_t count,
                                    const sab_pad_options *options, const sab_ragged *samples)
    SAB_NOEXCEPT;

/** Which places of padded samples are valid. */
typedef int32_t sab_mask_rule;
#define SAB_MASK_ALL 0 /**< those within the sample's length along all dimensions */
#define SAB_MASK_ANY 1 /**< those within it along at least one: that of asym */

/** Fills a mask of padded samples.
 *
 * @param lengths  count * dimensions: the lengths of the first sample, of the second, ...; each
 *     from 0 to `shape`'s
 * @param count    number of samples
 * @param shape    `dimensions` numbers: the padded lengths
 * @param dimensions  1 to 16
 * @param rule     SAB_MASK_ALL or SAB_MASK_ANY
 * @param mask     room for count * shape[0] * shape[1] * ... bytes: 1 for valid, 0 for padding
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_ragged_mask(const int64_t *lengths, size_t count, const int64_t *shape,
                                   size_t dimensions, sab_mask_rule rule, uint8_t *mask)
    SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
