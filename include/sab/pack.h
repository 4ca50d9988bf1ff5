/** @file pack.h
 * Packing: samples laid end to end in rows (bins) of a fixed capacity, for training without
 * padding.
 *
 * Each batch of the sampler is one bin: its samples, and where each begins and ends in the row
 * (`cu_seqlens`, as kernels for attention of variable length take it). The bins of an epoch are a
 * pure function of (sizes, options, seed, epoch), the same on every machine. So an epoch can be
 * resumed at any step with any number of ranks.
 *
 * The bins of one step have nearly the same cost. `balance` gives the cost of a bin. By default it
 * is the sum of the squares of its lengths (attention inside each sequence).
 *
 * The layout of a batch is SAB_LAYOUT_ROW: `count` sequences of `longest` and `total` tokens.
 * `padded_length` is the capacity, the length of a row of fixed size, or less with `row_multiples`.
 * sab_sampler_get_rows() gives
 * `cu_seqlens`, the capacity and, with `split`, `starts`. When the last micro-batch is split
 * between ranks, the sequences of its bins are assigned to the ranks.
 *
 * # Rounded lengths
 *
 * `length_multiples` rounds up each sequence of a row, and `row_multiples` the row. Context
 * parallelism over n ranks needs sequences of a multiple of 2n tokens, FP8 rows of a multiple of
 * 16. Rounded lengths take room in a row, and `balance` counts them. `cu_seqlens` are then those of
 * the rounded lengths: where the sequences lie. `cu_seqlens_unpadded` are those of the true ones.
 * TransformerEngine calls them `cu_seqlens_padded` and `cu_seqlens`. `longest`, `total`, weights,
 * and `total` and `fill` of sab_packed_info are of true lengths. With `split`, pieces are rounded.
 *
 * # Rows that mix lengths
 *
 * SAB_PACK_SHUFFLED, the default, lays out each epoch when it begins: in the constructor, in
 * sab_sampler_set_epoch() and when a state of another epoch is restored. The samples are shuffled
 * by a keyed permutation. A window of `window` samples moves over them. The oldest sample of the
 * window begins a row, and the samples that follow it fill the row. The last one to three samples
 * are chosen from the window, so that they leave little room. So the lengths in a row are mixed,
 * and few samples that share a row share one in the next epoch; sab_balanced_sampler_get_report()
 * says how many.
 *
 * The number of bins is at most 0.1 % above `lower_bound` if best fit reaches that, and otherwise
 * at most 0.1 % above that of best fit. Where the window does not reach this, because most samples
 * are long and fit only few others, the bins of the epoch are those of best fit. The number of bins
 * may differ by some between epochs: sab_sampler_get_batch_count() and `bins` are those of the
 * present epoch. A state holds no rows, so its size does not depend on the samples.
 *
 * Time of laying out an epoch: docs/benchmarks.md. Memory: 12 bytes a sample and about 60 a row; 20
 * bytes a sample more while an epoch is laid out; `split` needs 8 bytes more a sequence if samples
 * are cut, `balance` 8 more.
 *
 * # Rows under several capacities
 *
 * Sizes of several columns (images and tokens, nodes and edges) are packed into rows that keep a
 * capacity for each column, in the same way. A row is filled `tries` times from the oldest sample
 * and random samples of the window. Once a column has little room, the one sample that would leave
 * the least room is looked up after each of them. The best filling is kept. A filling that leaves
 * no room is the last. Room in a column that needs clearly fewer rows than another one does not
 * count. The row then takes samples of the window until no other fits. Where it takes the whole
 * window, the window moves on. So samples that fit into one row together are one. The last 300
 * samples are packed three times, and the fewest rows are kept.
 *
 * Laying out an epoch is slower when two columns with many distinct sizes need about as many rows.
 *
 * # Bins of lengths
 *
 * SAB_PACK_BEST_FIT and SAB_PACK_HISTOGRAM decide once which lengths share a bin. Each epoch
 * assigns the samples of equal length to the bins again and permutes the bins. A bin is then a pure
 * function of its position, without a layout of the epoch: for more than 100 million samples, and
 * for those of sab_histogram_packing_new(). Such bins hold like lengths, and samples of rare
 * lengths share a bin in each epoch. The sequences of a bin stand in descending order of length.
 *
 * # Concatenate and cut
 *
 * SAB_PACK_CONCAT lays the samples end to end in a shuffled order and cuts them at the capacity.
 * Every row but the last is full. `starts` gives where each piece begins in its sample.
 *
 * Tier: stable.
 */
#ifndef SAB_PACK_H
#define SAB_PACK_H

#include "sab/base.h"
#include "sab/cost.h"
#include "sab/plan.h"
#include "sab/sampler.h"
#include "sab/sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Which bin a sequence goes into. */
typedef int32_t sab_pack_method;
/** samples in a shuffled order, chosen from a window so that they fill the row: rows that mix
 *  lengths, laid out for each epoch */
#define SAB_PACK_SHUFFLED 0
/** longest first, each into the fullest bin that has room for it: best-fit decreasing. Of equally
 *  full bins the one with the most sequences is taken */
#define SAB_PACK_BEST_FIT 1
/** longest first, each into the emptiest bin that has room for it: shortest-pack-first histogram
 *  packing (Krell et al. 2021), which spreads lengths more evenly over the bins. A bin is opened
 *  only where none has room. Under `max_sequences` the least possible number of bins is open from
 *  the beginning, if that gives fewer bins */
#define SAB_PACK_HISTOGRAM 2
/** the samples of each epoch in a shuffled order, end to end and cut at the capacity: all rows but
 *  one are full. Beginning an epoch reads all sizes once; a row is then found by a search in blocks
 *  of 256 samples. Memory: 4 bytes a sample. One column, sizes up to 2^32 - 1, without
 *  `max_sequences` and `balance` */
#define SAB_PACK_CONCAT 3

/** How to pack. */
typedef struct sab_packed_options {
    /** set by SAB_PACKED_OPTIONS_INIT */
    size_t struct_size;
    /** SAB_PACK_SHUFFLED, which sizes of several columns need */
    sab_pack_method method;
    /** for each column the largest sum of the lengths in a bin, 1 to 2^31 - 1. Read during the
     * call. Must be given */
    const uint64_t *capacities;
    /** number of `capacities`: the columns of the sizes */
    size_t capacity_count;
    /** sequences in a bin at most; 0: no limit. Where the limit binds, BEST_FIT needs more bins
     *  than the others: it leaves many short sequences together at the end */
    uint64_t max_sequences;
    /** 1: a sample longer than the capacity is cut into pieces of that length, each a bin of its
     *  own, and a remainder that is packed as samples are. 0: see `oversize`. Must be 0 with
     * CONCAT, which cuts all samples */
    int32_t split;
    /** how samples that are longer than a capacity and not split are treated: SAB_OVERSIZE_ERROR
     *  (default; must be so with CONCAT) or SAB_OVERSIZE_SKIP. SAB_OVERSIZE_SINGLE is refused,
     * since no bin holds them */
    sab_oversize oversize;
    /** SHUFFLED: number of samples that a row is chosen from, at most 1,048,576. 0: 1,000. Must be
     *  0 with other methods */
    uint64_t window;
    /** the cost of a bin, which is a row (sab/cost.h). Read during the call; callbacks are called
     *  once for each distinct length in the bins, or for each sample of several columns. NULL: the
     *  sum of the squares of its lengths, each as a share of its capacity where there are several
     *  columns */
    const sab_cost *const *balance;
    /** number of `balance`, 0 or 1 */
    size_t balance_count;
    /** reports progress and may cancel; NULL */
    sab_progress_fn progress;
    /** passed to `progress` */
    void *progress_ctx;
    /** SHUFFLED: how often the end of a row is tried; of several columns, fillings of a row, of
     *  which the best is kept. At most 1,048,576. 0: 16, of several columns 100. Must be 0 with
     *  other methods */
    uint64_t tries;
    /** each sequence is rounded up to a multiple of tokens, which must be a whole number and divide
     *  the capacity: one number for all columns, or one a column. 0 or NULL: none */
    const double *length_multiples;
    /** number of `length_multiples` */
    size_t length_multiple_count;
    /** `padded_length` of a row is its total of rounded lengths, rounded up to a multiple, which
     *  must be a whole number and divide the capacity: as `length_multiples`. 0 or NULL:
     *  `padded_length` is the capacity */
    const double *row_multiples;
    /** number of `row_multiples` */
    size_t row_multiple_count;
} sab_packed_options;
#define SAB_PACKED_OPTIONS_INIT SAB_INIT(sab_packed_options)

/** Facts of a packing. Those of SAB_PACK_SHUFFLED and SAB_PACK_CONCAT are of the present epoch:
 *  `bins` and `fill` of the former, `split` and `sequences` of the latter, `most_sequences` of
 *  both. */
typedef struct sab_packed_info {
    /** set by SAB_PACKED_INFO_INIT */
    size_t struct_size;
    /** samples in the sizes */
    uint64_t samples;
    /** samples left out because they are longer than a bin */
    uint64_t skipped;
    /** samples cut into pieces */
    uint64_t split;
    /** samples and pieces in the bins */
    uint64_t sequences;
    /** bins an epoch on one rank */
    uint64_t bins;
    /** no packing of these lengths has fewer bins: the largest of three bounds. The first is
     *  ceil(total / capacity) of each column, the second follows from `max_sequences`. The third
     *  knows that long sequences cannot share a bin (the bound L2 of Martello and Toth) */
    uint64_t lower_bound;
    /** largest number of sequences in a bin */
    uint64_t most_sequences;
    /** equal only for equal packings: compare it between ranks and runs */
    uint64_t fingerprint;
    /** tokens in the bins; of several columns, the sum of the column with the largest `fill` */
    double total;
    /** total / (bins * the column's capacity) */
    double fill;
} sab_packed_info;
#define SAB_PACKED_INFO_INIT SAB_INIT(sab_packed_info)

/** Packs samples into bins. The batches of the sampler are the bins.
 *
 * BEST_FIT and HISTOGRAM. Time: about that of sorting the sizes by counting, since equal lengths
 * are packed together. Memory: 4 bytes a sample, and while packing about 200 for each distinct
 * length. With about as many distinct lengths as samples, such as sizes of files in bytes, packing
 * is much slower.
 *
 * A sample of length 0 is a sequence that takes no room.
 *
 * @param sizes    lengths, of one or several columns: whole numbers, since `cu_seqlens` are; read
 *     during the call only
 * @param pack     see sab_packed_options; NULL is refused, since a capacity is needed
 * @param options  `costliest_first` begins the epoch with the costliest bins; NULL: seed 0, one
 *     rank
 * @param sampler  the new handle; free with sab_sampler_free()
 * @return SAB_OK; SAB_E_ARGUMENT for options or sizes that break a rule, over 4,294,967,295
 *     pieces, no sample left, or a sample longer than the capacity that is neither split
 *     nor skipped; SAB_E_CALLBACK from `balance`; SAB_E_CANCELLED from `progress`
 */
SAB_API sab_status sab_packed_sampler_new(const sab_sizes *sizes, const sab_packed_options *pack,
                                          const sab_sampler_options *options, sab_sampler **sampler)
    SAB_NOEXCEPT;

/** Facts of the packing.
 *
 * @param sampler  made by sab_packed_sampler_new()
 * @param info     filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT, also for another sampler
 */
SAB_API sab_status sab_packed_sampler_get_info(const sab_sampler *sampler, sab_packed_info *info)
    SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
