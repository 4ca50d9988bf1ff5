/** @file group.h
 * Divides batches into groups of similar lengths, so that each group is padded to its own longest.
 *
 * sab_thresholds_find() finds thresholds once for a data set. Lengths up to the first threshold are
 * the first group, those above it up to the second threshold the next, and those above the last
 * threshold the last. sab_grouping assigns the samples of a batch to groups. It gives index arrays
 * that reorder the samples group by group, and restore their order. sab_ragged_pad() stacks the
 * samples of a group in one array, sab_ragged_unpad() takes them out again.
 *
 * Tier: provisional. Functions and structs here may change or be removed in a minor release.
 */
#ifndef SAB_GROUP_H
#define SAB_GROUP_H

#include "sab/base.h"
#include "sab/cost.h"
#include "sab/plan.h"
#include "sab/sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Thresholds ---- */

/** Objective of the thresholds. */
typedef int32_t sab_thresholds_method;
/** least total cost of the groups: exact, by dynamic programming over the distinct lengths */
#define SAB_THRESHOLDS_LEAST_TOTAL 0
/** least cost of the costliest group, and among those the least total: exact, by bisection */
#define SAB_THRESHOLDS_LEAST_LARGEST 1
/** groups of about the same cost, by the randomised greedy search of asym: the threshold between
 *  the two neighbours whose costs differ most moves by one distinct length towards the costlier
 *  one, repeatedly */
#define SAB_THRESHOLDS_RANDOMISED 2

/** How to find thresholds. */
typedef struct sab_thresholds_options {
    /** set by SAB_THRESHOLDS_OPTIONS_INIT */
    size_t struct_size;
    /** SAB_THRESHOLDS_LEAST_TOTAL */
    sab_thresholds_method method;
    /** what a group costs, as a padded batch of its count and its longest length. Read and called
     *  during the call. NULL: the padded total */
    const sab_cost *cost;
    /** 1: a group costs count * cost(1, longest), and a callback is called only once for each
     *  distinct length; 0 (default) */
    int32_t cost_per_sample;
    /** RANDOMISED: number of searches; the one with the most even groups is the result. 0:
     *  100 */
    uint32_t num_trials;
    /** RANDOMISED: a search ends after this number of steps in sequence that do not reduce the
     *  largest difference: `tolerate` of asym plus 1. 0: twice the number of distinct lengths, plus
     *  1 */
    uint64_t patience;
    /** RANDOMISED: seed of the start points, which are those of CPython's
     *  `random.Random(seed).sample`; 0 */
    uint64_t seed;
    /** RANDOMISED: instead of `seed`, num_trials * k start points: for each search, k indices of
     *  distinct lengths in ascending order of length, in any order, no two equal; read during the
     *  call. NULL */
    const uint64_t *starts;
    /** reports progress and may cancel; NULL */
    sab_progress_fn progress;
    /** passed to `progress` */
    void *progress_ctx;
} sab_thresholds_options;
#define SAB_THRESHOLDS_OPTIONS_INIT SAB_INIT(sab_thresholds_options)

/** Costs of the groups, if each is one batch. A group without samples costs nothing. */
typedef struct sab_thresholds_info {
    /** set by SAB_THRESHOLDS_INFO_INIT */
    size_t struct_size;
    /** sum of the groups' costs */
    double total;
    /** cost of the costliest group */
    double largest;
    /** largest difference of the costs of two neighbours, which the randomised search minimises */
    double largest_difference;
    /** RANDOMISED: searches that ended with groups of the same cost ("perfect") */
    uint64_t even;
    /** searches that returned to the thresholds of two steps before ("repeated") */
    uint64_t repeated;
    /** searches ended by `patience` ("could not tolerate") */
    uint64_t not_tolerated;
    /** searches that ended at the shortest or longest length ("extreme") */
    uint64_t extreme;
    /** searches that ended because two thresholds met ("narrow gap") */
    uint64_t narrow;
} sab_thresholds_info;
#define SAB_THRESHOLDS_INFO_INIT SAB_INIT(sab_thresholds_info)

/** Finds `k` thresholds, which divide lengths into `k` + 1 groups.
 *
 * Thresholds are lengths of the data, in ascending order. The last threshold can be the longest
 * length, so that the group above it is empty. This happens if one more group would cost more
 * (exact methods, for costs with a constant), or if a randomised search ended there.
 *
 * The exact methods need costs that never decrease with count or length. The least total also needs
 * this: one more sample costs at least as much in a group that is larger or longer. Formulas and
 * `cost_per_sample` satisfy it. For a callback that does not, the result is exact up to 1,024
 * distinct lengths; the callback may then be called for all possible groups.
 *
 * Time, for d distinct lengths: a counting sort, then about k * d steps for costs that are
 * proportional to the count except for a constant. Other costs (callbacks, higher powers of the
 * count) are computed about k * d * log2(d) times, and far fewer times for LEAST_LARGEST. Memory:
 * 4 * k * d bytes.
 *
 * @param lengths     read during the call only; a length of zero costs as much as the shortest
 *     above zero
 * @param k           number of thresholds, at least 1 and below the number of distinct lengths
 * @param options     NULL: the defaults
 * @param thresholds  room for `k` numbers, filled on SAB_OK
 * @param info        filled on SAB_OK, its struct_size must be set; or NULL
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_CALLBACK from the cost; SAB_E_CANCELLED
 */
SAB_API sab_status sab_thresholds_find(const sab_sizes *lengths, uint64_t k,
                                       const sab_thresholds_options *options, double *thresholds,
                                       sab_thresholds_info *info) SAB_NOEXCEPT;

/* ---- Groupings ---- */

/** Samples, such as those of a batch, in groups, and the index arrays that reorder them and restore
 * the order. Immutable; threads may share it.
 */
typedef struct sab_grouping sab_grouping;

/** One length of the samples, and its thresholds. */
typedef struct sab_grouping_dimension {
    const sab_sizes *lengths; /**< of all samples */
    const double *thresholds; /**< in any order, no two equal, none NaN */
    size_t threshold_count;   /**< number of `thresholds`, at least 1 */
} sab_grouping_dimension;

/** Groups samples by one or several of their lengths, such as residues of a protein and atoms of
 * its ligand.
 *
 * The thresholds of a dimension divide its lengths into intervals: up to the first threshold, above
 * it up to the second, ..., above the last. Samples in the same interval of every dimension are a
 * group. There are no empty groups. They come in ascending order of the first dimension's interval,
 * then the second's, and so on.
 *
 * Time: in proportion to the samples. Memory: 24 bytes a sample, and during the call 8 more and 4
 * for each dimension.
 *
 * @param dimensions  `count` of them, with as many samples each; read during the call only
 * @param count       1 to 64
 * @param grouping    the new handle; free with sab_grouping_free()
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_grouping_thresholds_new(const sab_grouping_dimension *dimensions,
                                               size_t count, sab_grouping **grouping) SAB_NOEXCEPT;

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
 *     exactly once; NULL: 0, 1, 2, ...
 * @param counts    samples of each group, any of them 0; may be NULL when there are no groups
 * @param groups    number of `counts`, at most 4,294,967,295
 * @param grouping  the new handle; free with sab_grouping_free()
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_grouping_partition_new(const int64_t *indices, const uint64_t *counts,
                                              size_t groups, sab_grouping **grouping) SAB_NOEXCEPT;

/** Contents of a grouping. The arrays belong to the grouping and are valid as long as it. */
typedef struct sab_grouping_view {
    /** set by SAB_GROUPING_VIEW_INIT */
    size_t struct_size;
    /** number of samples */
    size_t samples;
    /** number of groups */
    size_t groups;
    /** number of lengths of a sample; 0 if the groups were given */
    size_t dimensions;
    /** groups + 1 numbers: group g is at positions offsets[g] to below offsets[g + 1] */
    const int64_t *offsets;
    /** the sample at each position; in a group by ascending index, or as given */
    const int64_t *permutation;
    /** the position of each sample: inverse[permutation[p]] == p. Restores the order of results */
    const int64_t *inverse;
    /** the group of each sample */
    const int64_t *group_of;
    /** groups * dimensions: the interval of each group, from 0, in its first dimension, its second,
     *  ...; NULL without dimensions */
    const int64_t *intervals;
} sab_grouping_view;
#define SAB_GROUPING_VIEW_INIT SAB_INIT(sab_grouping_view)

/** Shows a grouping.
 *
 * @param grouping  a handle
 * @param groups    filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_grouping_get_view(const sab_grouping *grouping, sab_grouping_view *groups)
    SAB_NOEXCEPT;

/** Frees the handle.
 *
 * @param grouping  a handle or NULL
 */
SAB_API void sab_grouping_free(sab_grouping *grouping) SAB_NOEXCEPT;

/* ---- Padding ---- */

/** Samples of different shapes, one array each, such as tensors, and the addresses of their
 * elements. The caller owns the memory.
 */
typedef struct sab_ragged {
    /** set by SAB_RAGGED_INIT */
    size_t struct_size;
    /** number of samples */
    size_t samples;
    /** dimensions of each sample, at most 16; 0: a sample is one element */
    size_t dimensions;
    /** bytes of an element, at least 1 */
    size_t element_size;
    /** samples * dimensions: the shape of the first sample, of the second, ...; NULL where
     *  `dimensions` is 0 */
    const int64_t *shapes;
    /** samples * dimensions, of any sign, in elements; NULL: samples are row-major. Where samples
     *  are only read, elements may share memory */
    const int64_t *strides;
    /** all samples in one piece; or NULL */
    void *values;
    /** where each sample begins in `values`, in elements; NULL: they lie end to end. Each call then
     *  adds up the shapes of all samples, even if `indices` names few */
    const int64_t *offsets;
    /** instead of `values`: the address of each sample; ignored for samples without elements */
    void *const *data;
} sab_ragged;
#define SAB_RAGGED_INIT SAB_INIT(sab_ragged)

/** Value of padded positions. */
typedef int32_t sab_pad_rule;
/** a value, or along some dimensions an array of them */
#define SAB_PADDING_CONSTANT 0
/** along each dimension the sample's last element; the value if a sample has none */
#define SAB_PADDING_REPEAT 1

/** Options of padding and unpadding. */
typedef struct sab_pad_options {
    /** set by SAB_PAD_OPTIONS_INIT */
    size_t struct_size;
    /** index of the samples' dimension in the padded array, at most `dimensions`; 0 */
    uint64_t batch_dim;
    /** SAB_PADDING_CONSTANT */
    sab_pad_rule padding;
    /** an element, or several by `value_dims`. NULL: zero bytes */
    const void *value;
    /** a bit for each dimension of the samples. Those whose bit is set, the lowest being the first
     *  dimension, are the dimensions of `value`, row-major: a padded position gets the element of
     *  its index there. No sample may be shorter there than the padded array. Such as 0b110 to pad
     *  rotations of shape (length, 3, 3) with the identity. 0 */
    uint64_t value_dims;
    /** 1: only the calling thread; otherwise the maximum number of threads, with at least 1 MiB
     *  each, which end before the call returns; 0 (default): the number of processors */
    uint64_t threads;
} sab_pad_options;
#define SAB_PAD_OPTIONS_INIT SAB_INIT(sab_pad_options)

/** The smallest shape that holds the samples: the largest length along each dimension.
 *
 * @param samples  their elements are not read
 * @param indices  which samples, such as the permutation of a grouping from a group's offset on;
 *     NULL: all
 * @param count    number of `indices`; without them, of samples
 * @param shape    room for `dimensions` numbers, filled on SAB_OK; zeros when there are no samples
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_ragged_get_padded_shape(const sab_ragged *samples, const int64_t *indices,
                                               size_t count, int64_t *shape) SAB_NOEXCEPT;

/** Stacks samples in one row-major array, each padded at the end of its dimensions. One pass over
 * the output.
 *
 * @param samples  read; must not overlap with `padded`
 * @param indices  which samples, in this order, possibly several times; NULL: all
 * @param count    number of `indices`; without them, of samples
 * @param shape    `dimensions` numbers, each at least as large as those of
 *     sab_ragged_get_padded_shape()
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
 *     as those of sab_ragged_get_padded_shape()
 * @param indices  the sample at each position of the array; NULL: all, in order. With several
 *     threads no two may be equal
 * @param count    number of `indices`; without them, of samples
 * @param options  those of sab_ragged_pad(), of which only `batch_dim` and `threads` are used;
 *     NULL: the defaults
 * @param samples  elements of the samples in `indices` are written
 * @return SAB_OK; SAB_E_ARGUMENT, with nothing written
 */
SAB_API sab_status sab_ragged_unpad(const void *padded, const int64_t *shape,
                                    const int64_t *indices, size_t count,
                                    const sab_pad_options *options, const sab_ragged *samples)
    SAB_NOEXCEPT;

/** Which positions of padded samples are valid. */
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
