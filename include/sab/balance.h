/** @file balance.h
 * Balanced work: items assigned to parts, samples assigned to the ranks and micro-batches of a
 * step.
 *
 * sab_items_partition() assigns items (samples, batches, micro-batches) to parts (ranks, steps) so
 * that the costliest part costs little more than the mean. Optionally every part has the same
 * number of items, or keeps limits on other quantities, such as memory. Items may have several
 * costs, which are all balanced.
 *
 * sab_balanced_sampler_new() does this with the samples of each step of an epoch.
 *
 * sab_step_plan_new() does it with the samples of one step whose sizes are known only when it
 * begins.
 *
 * sab_context_plan_new() splits samples that are too long for one rank over several ranks.
 *
 * Tier: provisional. Functions and structs here may change or be removed in a minor release.
 */
#ifndef SAB_BALANCE_H
#define SAB_BALANCE_H

#include "sab/base.h"
#include "sab/cost.h"
#include "sab/plan.h"
#include "sab/sampler.h"
#include "sab/sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Which limits each part of a partition keeps, and how many costs an item has. */
typedef struct sab_partition_options {
    /** set by SAB_PARTITION_OPTIONS_INIT */
    size_t struct_size;
    /** 1: every part has the same number of items, and the count must be a multiple of the parts; 0
     *  (default) */
    int32_t equal_counts;
    /** number of costs of an item, at most SAB_MAX_BUDGETS; 0: 1 */
    size_t cost_count;
    /** weights of each item, such as tokens or bytes: finite, at least 0, with a finite sum.
     *  `capacity_count` times as many as items: the first weight of all items, then the second of
     *  all, and so on. NULL (default) without capacities */
    const double *weights;
    /** for each weight the largest sum of a part; finite, above 0. NULL */
    const double *capacities;
    /** number of `capacities` and of weights of an item, 0 (default) to SAB_MAX_BUDGETS */
    size_t capacity_count;
    /** called every few milliseconds and may cancel; NULL (default) for none */
    sab_progress_fn progress;
    /** passed to `progress` */
    void *progress_ctx;
} sab_partition_options;
#define SAB_PARTITION_OPTIONS_INIT SAB_INIT(sab_partition_options)

/** Assigns items to parts so that the largest sum of costs is small.
 *
 * Items are first assigned by the largest differencing method of Karmarkar and Karp: the two most
 * uneven partial partitions are joined until one is left. Then single items are moved or exchanged
 * between the costliest part and cheaper ones. This continues while it lowers the largest sum and
 * that is over the mean by more than a hundred-thousandth; the number of moves is bounded by the
 * number of items. The same costs give the same parts on every machine.
 *
 * With several costs, such as the images and the tokens of a sample, each part has a sum of each
 * cost. The first assignment is that of the sum of their costs, each divided by its mean. Moves and
 * exchanges then lower the largest of all (costliest part / mean), until each is at most 1.001 or
 * no exchange of two items lowers it. A cost that cannot be lowered further keeps its largest sum,
 * and the others are lowered.
 *
 * Capacities are always kept: the sum of a part's weights, added in double in the order of the
 * items, is at most the capacity. So 0.1, 0.2 and 0.3, in this order, exceed 0.6. Sums of whole
 * numbers are exact. If no balanced assignment keeps the capacities, less balanced ones are tried.
 * Finding one is a bin packing problem, so capacities that could be kept may be refused. That is
 * rare with several items in a part and a few percent of free capacity.
 *
 * Time grows like that of sorting items and parts, plus a bounded time for moves. With a capacity
 * it takes several times as long; with several costs it grows with their number. A capacity that
 * one item or the total exceeds is refused at once. Memory: about 80 bytes an item and 150 bytes a
 * part, and 200 bytes a part for each of several costs.
 *
 * @param costs    `count` * `cost_count` numbers: the first cost of all items, then the second of
 *     all, and so on. Finite, at least 0, each with a finite sum. May be NULL when there are none
 * @param count    number of `part_of`: the items, at most 4,294,967,295
 * @param parts    number of parts, 1 to 2^20; may be more than there are items
 * @param options  NULL: the defaults
 * @param part_of  filled on SAB_OK with the part of each item, from 0; room for `count`
 * @return SAB_OK; SAB_E_ARGUMENT, also when no assignment under the capacities was found;
 *     SAB_E_CANCELLED
 */
SAB_API sab_status sab_items_partition(const double *costs, size_t count, uint64_t parts,
                                       const sab_partition_options *options, uint32_t *part_of)
    SAB_NOEXCEPT;

/* ---- Balanced steps ---- */

/** How steps of balanced micro-batches are made. `samples` or `budgets` must be given. */
typedef struct sab_balanced_options {
    /** set by SAB_BALANCED_OPTIONS_INIT */
    size_t struct_size;
    /** samples of a step over all ranks and micro-batches; at least the number of micro-batches.
     *  With `padded` exactly as many, but in the last step. Without, fewer if a budget is reached
     *  first. 0: as many as fit */
    uint64_t samples;
    /** limits that each micro-batch keeps, all of them. The cost is that of a row (sab/cost.h),
     *  with `padded` that of a padded batch. A NULL cost is the sum of the sizes of a row, over all
     *  columns, or the padded total. Read during the call; callbacks are called once for each
     *  distinct size, with several columns once for each distinct combination of sizes. NULL */
    const sab_budget *budgets;
    /** number of `budgets`, 0 to SAB_MAX_BUDGETS */
    size_t budget_count;
    /** share of all budgets of a step that its samples may take; the rest stays free so that costs
     *  can be balanced. In (0, 1]; 0: 0.95. With `padded` it must be 0 */
    double fill;
    /** 1: steps are random samples and micro-batches are padded; 0 (default): micro-batches are
     *  rows */
    int32_t padded;
    /** the costs that are balanced, of a row or of a padded batch, each of them over ranks and over
     *  micro-batches. The constant term of a row is the same for all micro-batches and is not
     *  counted. Read during the call.
     *  NULL: with one column the cost of the first budget, with several columns those of all
     *  budgets; without a budget the sum of sizes */
    const sab_cost *const *balance;
    /** number of `balance`, 0 to SAB_MAX_BUDGETS */
    size_t balance_count;
    /** samples that alone exceed a budget: SAB_OVERSIZE_SKIP or SAB_OVERSIZE_ERROR (default) */
    sab_oversize oversize;
    /** reports progress and may cancel the constructor; NULL */
    sab_progress_fn progress;
    /** passed to `progress` */
    void *progress_ctx;
    /** each sample is rounded up to a multiple, and with `padded` the longest of a micro-batch: one
     *  number for all columns, or one a column. Costs, budgets and `cu_seqlens` are those of
     *  rounded lengths; see sab/pack.h. 0 or NULL: none */
    const double *length_multiples;
    /** number of `length_multiples` */
    size_t length_multiple_count;
    /** `padded_length` of a row is its total, rounded up to a multiple: as `length_multiples`. The
     *  budgets hold with this padding, as one more sequence: room for the longest one that there
     *  may be is kept free, where the cost is not the total of one column. A sample that is too
     *  large for that, under a weighted sum of the columns, has a row of its own. Must be 0 with
     *  `padded`. 0 or NULL: none */
    const double *row_multiples;
    /** number of `row_multiples` */
    size_t row_multiple_count;
} sab_balanced_options;
#define SAB_BALANCED_OPTIONS_INIT SAB_INIT(sab_balanced_options)

/** Steps of samples in random order, assigned to ranks and micro-batches of nearly equal cost,
 * under budgets of tokens or memory. For batches without padding (packed, nested, variable-length
 * attention), whose cost is not their number of tokens; with `padded` for padded batches.
 *
 * Each epoch permutes the samples. A step takes the next ones, up to `samples` or until the budgets
 * are used, and divides them as sab_step_plan_new() does. Every rank takes the same number of
 * micro-batches, no budget is exceeded, and no sample is lost or repeated. Ranks need not
 * communicate.
 *
 * Rows: samples that cost more than an eighth of a mean micro-batch are hard to balance with other
 * samples. Those of similar size are therefore taken together, one for each micro-batch of a step.
 * A batch is a micro-batch in one row (SAB_LAYOUT_ROW).
 *
 * With `padded`, no sample is moved for its size: each step is a random sample of the data, as with
 * shuffled batches of one size. Only its division goes by length. The samples of a step are sorted
 * by size and cut into micro-batches of nearly equal padded cost, each within the budgets. A batch
 * is padded to its longest sample (SAB_LAYOUT_PADDED). Steps have about equal numbers of samples,
 * but for the last one, or exactly `samples`. If so many do not fit in a step of the first epochs,
 * the constructor refuses `samples` and names the step. The more micro-batches a step has, the less
 * is padding. Costs must be terms, not callbacks. With several columns samples are sorted by the
 * largest of their sizes, each divided by the mean of its column.
 *
 * The micro-batches of each rank come in the order of their costs, the costliest first, so that
 * those of similar cost run at the same time.
 *
 * Sizes may have several columns, such as the images and the tokens of a sample, or the nodes and
 * the edges of a graph. A budget is then for one column or a cost over several, and several costs
 * can be balanced. The largest of all (costliest micro-batch / mean) is lowered first. A step with
 * several budgets ends when any of them is used.
 *
 * All epochs have the same number of steps, and all steps the same number of micro-batches. The
 * number of steps is the smallest that was found to hold the first epochs. Without `samples` all
 * steps share an epoch evenly; where a step does not hold its share, later ones take more. With
 * `samples`, steps have fewer only if the budgets of rows do not hold as many. An epoch that does
 * not fit into its steps is drawn again, up to 16 times; then it has the order of epoch 0. The
 * epochs of a mixture have other samples each. They have room for three standard deviations of the
 * sum of their sizes; an epoch that still does not fit has more steps, which is logged as a
 * warning. So has one whose schedule or whose skipped samples change its number of samples.
 *
 * `world_size` times `micro_batches` of the sampler's options is at most 2^20. `costliest_first`
 * must be 0. `last_step` says how a last step is treated that has fewer than `samples`, or without
 * `samples` fewer samples than micro-batches: it is shorter (SPLIT), is left out (DROP), or is
 * filled up from the beginning of the epoch (WRAP). With SPLIT a micro-batch of the last step is
 * empty when there are fewer samples than micro-batches; its loss weight is 0.
 *
 * A state that was saved between two steps can be restored with any other world size,
 * `micro_batches`, `samples`, `padded`, balance, budgets and multiples. The rest of the epoch is
 * then cut anew and may have another number of steps. A state that was saved inside a step can only
 * be restored with the same. Samples that are too large for lower budgets are left out from there
 * on. Samples that were too large for the budgets that began the epoch return in the next epoch.
 *
 * Time: an epoch begins with one pass over the samples, in sab_sampler_set_epoch() and
 * sab_sampler_state_restore(), and with another one each time that it is drawn again. The
 * constructor takes several passes to find the number of steps. A step with a sample larger than
 * the room that `fill` leaves is partitioned in a pass, too. With several columns and budgets that
 * is so for most steps. Making a step takes one step plan.
 * Memory: 8 bytes a sample, 40 a distinct size, 16 a step. With several columns a distinct
 * combination of sizes takes 13 bytes, and 8 for each column, balanced cost and budget.
 *
 * A mixture takes 4 bytes a sample more when an epoch begins, and no callbacks as costs. If no
 * sample costs more than a micro-batch that is full of mean samples, as where the only budget is
 * also what is balanced, samples are not taken together. Each source is then within the largest
 * sample of its due after every step, on any number of ranks. A step with a sample that fills a
 * micro-batch takes as long as a full step; with `fill` near 1 this adds little time. If a sample
 * costs more, as with quadratic costs, long samples are taken together, since costs could not be
 * even otherwise. Sources with longer samples are then up to half of these from their dues.
 *
 * @param sizes     read during the call only
 * @param balanced  see sab_balanced_options; NULL is refused
 * @param options   NULL: seed 0, one rank
 * @param sampler   the new handle; free with sab_sampler_free()
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_CALLBACK from a cost; SAB_E_CANCELLED
 */
SAB_API sab_status sab_balanced_sampler_new(const sab_sizes *sizes,
                                            const sab_balanced_options *balanced,
                                            const sab_sampler_options *options,
                                            sab_sampler **sampler) SAB_NOEXCEPT;

/** Balance of the current epoch of a balanced or packed sampler over all ranks, known before
 *  training. */
typedef struct sab_balanced_report {
    /** set by SAB_BALANCED_REPORT_INIT */
    size_t struct_size;
    /** samples in the sizes; of a mixture those of the epoch, with repeats */
    uint64_t samples;
    /** samples left out because they are too large */
    uint64_t skipped;
    /** samples left out of this epoch by SAB_LAST_STEP_DROP; of a packed sampler samples and
     *  pieces */
    uint64_t dropped;
    /** steps of the optimizer */
    uint64_t steps;
    /** samples of the step that has the fewest, over all ranks and micro-batches, pieces
     *  counted. The last step may have few */
    uint64_t least_step_samples;
    /** samples of the step that has the most */
    uint64_t most_step_samples;
    /** standard deviation of the samples of a step */
    double step_samples_deviation;
    /** number of columns of the sizes */
    size_t columns;
    /** sum of the sizes in the steps, one a column. This array and those below belong to the
     *  sampler and stay valid until its next report */
    const double *totals;
    /** share of a budget that the samples take, of the budget where it is largest; 0 without a
     *  budget; of a packed sampler that of sab_packed_info */
    double fill;
    /** number of balanced costs: the numbers of each of the arrays below, in the order of
     *  `balance` */
    size_t balance_count;
    /** mean over steps of (cost of the costliest rank / mean cost of the ranks); 1: perfect */
    const double *rank_imbalance;
    /** the largest of these */
    const double *largest_rank_imbalance;
    /** mean over steps of (cost of the costliest micro-batch / mean) */
    const double *micro_batch_imbalance;
    /** sum over steps of the cost of the costliest rank: the time of an epoch if each step waits
     *  for the slowest rank */
    const double *time;
    /** total cost / world size: the time of an epoch without waiting */
    const double *least_time;
    /** of a packed sampler: share of the pairs of samples in one row that share a row in the next
     *  epoch, too. 0 for a balanced sampler, as the three below */
    double meet_again;
    /** the share expected of random rows: shuffled samples, of which one that does not fit begins
     *  a row */
    double random_meet_again;
    /** of a packed sampler: standard deviation of the mean length of a row; of several columns, of
     *  the fullest one */
    double length_deviation;
    /** that of random rows */
    double random_length_deviation;
    /** sum over the micro-batches of samples * padded length, one a column: totals / padded_totals
     *  is 1 less the share of padding. Of rows the same as `totals`, or with `length_multiples` or
     *  `row_multiples` the sum of the rounded lengths of the rows */
    const double *padded_totals;
} sab_balanced_report;
#define SAB_BALANCED_REPORT_INIT SAB_INIT(sab_balanced_report)

/** Measures the current epoch of a balanced or packed sampler. Does not move its cursor.
 *
 * Of a packed sampler the one cost is `balance` of sab_packed_options. A row that is split between
 * ranks, in the last step, is counted by the share of its samples. The next epoch is laid out, too.
 *
 * @param sampler  made by sab_balanced_sampler_new() or sab_packed_sampler_new(). After a restore
 *     from another world size the report begins where this one took over
 * @param options  NULL: no progress
 * @param report   filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT for another sampler; SAB_E_CANCELLED
 */
SAB_API sab_status sab_balanced_sampler_get_report(sab_sampler *sampler,
                                                   const sab_progress_options *options,
                                                   sab_balanced_report *report) SAB_NOEXCEPT;

/* ---- Step plans ---- */

/** The order of the micro-batches of a rank, by cost. It is the same on all ranks, so that
 *  micro-batches of similar cost run at the same time. */
typedef int32_t sab_micro_batch_order;
/** costliest first: a step that runs out of memory does so at its beginning */
#define SAB_MICRO_BATCHES_DESCENDING 0
/** cheapest first */
#define SAB_MICRO_BATCHES_ASCENDING 1
/** costliest in the middle, cheap ones at both ends, where a pipeline fills and drains */
#define SAB_MICRO_BATCHES_BELL 2

/** How the samples of a step are divided. `budgets` or `micro_batches` must be given. */
typedef struct sab_step_plan_options {
    /** set by SAB_STEP_PLAN_OPTIONS_INIT */
    size_t struct_size;
    /** number of ranks; may be more than there are samples. 0: 1 */
    uint64_t world_size;
    /** limits that each micro-batch keeps, all of them. A NULL cost is the padded total of a padded
     *  batch, and the total of a row. Read during the call. NULL */
    const sab_budget *budgets;
    /** number of `budgets`, 0 to SAB_MAX_BUDGETS */
    size_t budget_count;
    /** micro-batches of each rank, rounded up to `multiple`. 0 (default): the fewest that were
     *  found; with `prefix` or `parents` more, where fewer would compute more tokens */
    uint64_t micro_batches;
    /** the number of micro-batches is a multiple of this, such as the stages of an interleaved
     *  pipeline. 0: 1 */
    uint64_t multiple;
    /** 1: a micro-batch is padded to its longest sample; 0 (default): it is a row */
    int32_t padded;
    /** the costs that are evened out, over ranks in sum and in each micro-step. Those of rows must
     *  be costs of a row (sab/cost.h). Read during the call. NULL: the cost of the first budget;
     *  without a budget that of a budget with a NULL cost */
    const sab_cost *const *balance;
    /** number of `balance`, 0 to SAB_MAX_BUDGETS */
    size_t balance_count;
    /** an id for each sample; samples with the same id are of the same rank, but with `prefix` only
     *  if `whole_groups` is 1. Any numbers; read during the call. NULL: each sample is alone */
    const int64_t *groups;
    /** for each sample the number of leading tokens that it shares with all samples of its group,
     *  such as those of the prompt: 0 to its size, and equal within a group. A micro-batch computes
     *  them once. Needs `groups`. Read during the call. NULL: nothing is shared */
    const int64_t *prefix;
    /** for each node of a forest the index of its parent, or -1, in any order; `sizes` are then the
     *  tokens of the nodes. The samples are the leaves: a sample has the tokens of all nodes from
     *  its root to its leaf, and the index of its leaf. In place of `groups` and `prefix`. Read
     *  during the call. NULL: each sample is alone */
    const int64_t *parents;
    /** 1: with `prefix` the samples of a group, and with `parents` those of a tree, are of the same
     *  rank; 0 (default): they are on several ranks where that pays */
    int32_t whole_groups;
    /** SAB_MICRO_BATCHES_DESCENDING */
    sab_micro_batch_order order;
    /** reports progress and may cancel; NULL */
    sab_progress_fn progress;
    /** passed to `progress` */
    void *progress_ctx;
} sab_step_plan_options;
#define SAB_STEP_PLAN_OPTIONS_INIT SAB_INIT(sab_step_plan_options)

/** The samples of one step, divided among ranks and micro-batches. Immutable; threads may share it.
 */
typedef struct sab_step_plan sab_step_plan;

/** Tokens that a micro-batch computes once: those of a prefix, of a sample after its prefix, or of
 *  a node of a forest. They attend to themselves and to the segments above them: `parent`, its
 *  `parent`, and so on. */
typedef struct sab_step_segment {
    /** with `parents` the node. With `prefix` the sample whose own tokens these are, or -1 for the
     *  prefix of a group */
    int64_t node;
    /** the first sample of the micro-batch that has these tokens */
    int64_t sample;
    /** the segment before this one in the samples, counted from the first of the micro-batch; -1 at
     *  the beginning of the samples */
    int64_t parent;
    /** position of the first token in its samples, from 0: the number of tokens above it */
    int64_t position;
    /** where the first token is in the micro-batch, from 0 */
    int64_t offset;
    /** number of tokens; may be 0 */
    int64_t length;
} sab_step_segment;

/** Divides the samples of one step among ranks and micro-batches, when their sizes are known only
 * as the step begins: in reinforcement learning, and in fine-tuning on generated data.
 *
 * Each sample is in exactly one micro-batch. No micro-batch exceeds a budget. All ranks have the
 * same number of micro-batches, the fewest that were found to keep the budgets, so they need not
 * communicate: the plan is a function of sizes and options alone, the same on every machine.
 *
 * Ranks are even in the sum of their micro-batches, and in each micro-step, which is the
 * micro-batch that all ranks run at the same time. A micro-step is uneven where one sample costs
 * more than other ranks can fit into a micro-batch. A micro-batch is empty only if there are fewer
 * samples than micro-batches; with `groups`, only if its rank has fewer; with shared tokens, where
 * another division would compute more tokens.
 *
 * The costs of the samples of a micro-batch are added in double, in the order of the samples. Their
 * sum is at most the limit less the constant of the cost. Sums of whole numbers are exact.
 *
 * Method, rows: samples are assigned to ranks as by sab_items_partition(), longest first, and then
 * those of each rank to micro-batches. If those of a rank do not fit, or there are several costs,
 * all samples are assigned to micro-batches first, and micro-batches to ranks: as by
 * sab_items_partition() with capacities; under one budget each micro-batch as full as possible;
 * under several each sample, largest first, to the first micro-batch with room. With `groups`,
 * ranks whose samples do not fit exchange groups with other ranks. Up to 256 samples are then
 * assigned by a search, depth first, of bounded length. If this also fails there are `multiple`
 * more micro-batches; after three failures more at a time, and fewer again when samples fit. The
 * first number tried is a lower bound.
 *
 * Finding the fewest is a bin packing problem. With one budget and without groups there may be one
 * more than the fewest where less than 2 % of the room is free. With several budgets, or groups on
 * several ranks, there may be more where less than 5 % is free.
 *
 * Shared tokens: with `prefix` or `parents`, a micro-batch computes a prefix or node once for all
 * of its samples that have it. For a cost f of a row, a node that begins after n tokens of its
 * samples and ends after m costs f(m) - f(n), and one without a parent f(m): its tokens attend to
 * those before them. The cost of a micro-batch is the sum over its nodes. Sums that are not of
 * whole numbers may exceed a limit by their rounding. Samples that share tokens are divided only
 * where that lowers the cost of the costliest rank or saves micro-batches. The number of
 * micro-batches is not always the fewest, since fewer would compute some tokens more often: the one
 * is taken with the least sum of the costliest rank and, for each of its micro-batches, a twentieth
 * of what a full one costs. Where most groups exceed half of a budget, no micro-batch holds two of
 * them, so that fewer micro-batches than groups compute prefixes again. Sizes must be whole numbers
 * in one column, rows, with at most one `balance`; several budgets are kept. Groups are trees of
 * depth one.
 *
 * Method, shared tokens: up to 9 samples are divided by dynamic programming over all sets of them.
 * Of more, trees that no micro-batch holds are cut, above their leaves where possible.
 * Micro-batches then take whole trees, largest first, and parts of trees where more room than a
 * part computes again would stay free; how much more is searched for. A tree is cut from its lowest
 * nodes that no micro-batch holds. What is then free is filled below the node with the fewest
 * tokens. How many of its tokens may be computed again is searched for, too.
 * Micro-batches are also filled up to the lowest common cost that suffices. Micro-batches go to
 * ranks as by sab_items_partition(), and ranks exchange parts of trees. The most even of these ways
 * is taken.
 *
 * Several costs: the plan is also made for each of them alone, and the one with the most even ranks
 * is taken. It compares the largest rank_imbalance / least_rank_imbalance of all costs.
 * With at least 2 % of the room free, it is never above that of a plan for one cost with as many
 * micro-batches.
 *
 * Method, padded: samples are sorted by size and cut into runs. The smallest largest cost with
 * which there are not too many runs is found by bisection. The micro-batches are the fewest
 * possible with one column and without `groups`. With several columns there may be more. With up to
 * 256 groups a bounded search finds ranks for them.
 *
 * Time: a step takes longer where the budget is nearly used up, with a quadratic `balance` and with
 * several costs. Several numbers are tried where the fewest micro-batches are far above the lower
 * bound. A callback as a cost is called once for each sample of rows, or each node, and many times
 * in the padded layout. With shared tokens time and memory also grow with micro-batches times the
 * depth of trees.
 * Memory: about 150 bytes a sample.
 *
 * Sources: R. L. Graham, "Bounds on multiprocessing timing anomalies", 1969 (longest first); S.
 * Martello and P. Toth, "Lower bounds and reduction procedures for the bin packing problem", 1990
 * (the bound); J. N. D. Gupta and J. C. Ho, "A new heuristic algorithm for the one-dimensional
 * bin-packing problem", 1999 (micro-batches as full as possible).
 *
 * @param sizes    of the samples of the step, at least one; read during the call only. Not a
 *     mixture
 * @param options  NULL is refused, since a budget or a number of micro-batches is needed.
 *     `world_size` times micro-batches is at most 2^20. `whole_groups` needs `groups` or `parents`
 * @param plan     the new handle; free with sab_step_plan_free()
 * @return SAB_OK; SAB_E_ARGUMENT, also for a sample that exceeds a budget alone, and when the given
 *     number of micro-batches does not suffice; SAB_E_CALLBACK from a cost; SAB_E_CANCELLED
 */
SAB_API sab_status sab_step_plan_new(const sab_sizes *sizes, const sab_step_plan_options *options,
                                     sab_step_plan **plan) SAB_NOEXCEPT;

/** A step plan. The arrays belong to the plan. Micro-batch `m` of rank `r` is number
 *  r * micro_batches + m. */
typedef struct sab_step_plan_view {
    /** set by SAB_STEP_PLAN_VIEW_INIT */
    size_t struct_size;
    /** number of ranks */
    uint64_t world_size;
    /** micro-batches of each rank */
    uint64_t micro_batches;
    /** the fewest micro-batches of a rank that any plan could have, by a lower bound: `multiple`
     *  is counted, `micro_batches` of the options is not */
    uint64_t least_micro_batches;
    /** number of samples */
    size_t samples;
    /** number of sizes: as many as samples; with `parents` the number of nodes */
    size_t nodes;
    /** number of columns of the sizes */
    size_t columns;
    /** the samples of the first micro-batch of rank 0, then of its second, ...; in a micro-batch by
     *  ascending index */
    const int64_t *indices;
    /** world_size * micro_batches + 1 numbers: micro-batch k has the indices from offsets[k] to
     *  below offsets[k + 1] */
    const uint64_t *offsets;
    /** the position of each sample in `indices`, in ascending order of the samples:
     *  indices[inverse[i]] is sample i, or with `parents` the leaf before which i others come.
     *  Restores the order of results */
    const int64_t *inverse;
    /** for each column the cumulative lengths of all micro-batches, as kernels for attention of
     *  variable length take them: those of micro-batch k begin with 0 at offsets[k] + k, and are
     *  one more than its samples. With `segments`, they are those of the segments: they begin at
     *  segment_offsets[k] + k, and are one more than its segments. NULL in the padded layout, and
     *  when sizes are not whole numbers or a micro-batch has 2^31 or more */
    const int32_t *const *cu_seqlens;
    /** with `prefix` or `parents` the segments of the first micro-batch of rank 0, then of its
     *  second, ...: in a micro-batch in the order of their tokens, each behind its parent. An empty
     *  prefix has none. NULL without shared tokens */
    const sab_step_segment *segments;
    /** world_size * micro_batches + 1 numbers: micro-batch k has the segments from
     *  segment_offsets[k] to below segment_offsets[k + 1]. NULL without shared tokens */
    const uint64_t *segment_offsets;
    /** number of balanced costs: the numbers of each of the arrays below, in the order of
     *  `balance` */
    size_t balance_count;
    /** balance_count * world_size * micro_batches: the cost of each micro-batch, the first cost of
     *  all, then the second of all, and so on. Of rows without the constant term */
    const double *costs;
    /** cost of the costliest rank / mean of the ranks; 1: perfect */
    const double *rank_imbalance;
    /** a lower bound of rank_imbalance: above 1 if one sample or group costs more than the mean */
    const double *least_rank_imbalance;
    /** sum over micro-steps of the costliest micro-batch / mean of the ranks: how much longer a
     *  step takes than without waiting, if ranks wait for each other after each micro-batch */
    const double *micro_step_imbalance;
} sab_step_plan_view;
#define SAB_STEP_PLAN_VIEW_INIT SAB_INIT(sab_step_plan_view)

/** Shows a step plan.
 *
 * @param plan  a handle
 * @param view  filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_step_plan_get_view(const sab_step_plan *plan, sab_step_plan_view *view)
    SAB_NOEXCEPT;

/** What counts equally in the loss of a step. */
typedef int32_t sab_loss_weighting;
/** each sample: its weight is 1 / samples */
#define SAB_LOSS_BY_SAMPLE 0
/** each token: the weight of a sample is its tokens / those of the step */
#define SAB_LOSS_BY_TOKEN 1
/** each group, or tree of `parents`, and in it each sample: the weight is 1 / (groups * samples of
 *  the group) */
#define SAB_LOSS_BY_GROUP 2

/** The weights with which the samples of all ranks and micro-batches make one mean: their sum is 1.
 *
 * The loss of a sample is the mean over its tokens. The sum of weight * loss over all samples is
 * then the mean over the step, however they are divided. A framework that averages gradients over
 * ranks needs `world_size` times this loss.
 *
 * @param plan       a handle
 * @param weighting  SAB_LOSS_BY_SAMPLE, SAB_LOSS_BY_TOKEN or SAB_LOSS_BY_GROUP. Without `groups`
 *     or `parents` each sample is a group
 * @param tokens     of each sample, those that count in the loss, such as the tokens of a response:
 *     finite, at least 0, with a finite sum above 0. With `parents` one number for each node, of
 *     which only those of the leaves are read. NULL: the sum of the sample's sizes. Only read by
 *     SAB_LOSS_BY_TOKEN
 * @param weights    filled on SAB_OK with the weight of each sample, in the order of the sizes;
 * with `parents` one for each node, 0 for those that are not leaves
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_step_plan_get_loss_weights(const sab_step_plan *plan,
                                                  sab_loss_weighting weighting,
                                                  const double *tokens, double *weights)
    SAB_NOEXCEPT;

/** Frees the handle.
 *
 * @param plan  a handle or NULL
 */
SAB_API void sab_step_plan_free(sab_step_plan *plan) SAB_NOEXCEPT;

/* ---- Context parallelism ---- */

/** How many ranks a group of a context plan may have. */
typedef int32_t sab_context_groups;
/** 1, 2, 4, 8, ...; a group begins at a multiple of its size, so that all groups are those of a
 *  fixed hierarchy of communicators */
#define SAB_CONTEXT_POWERS_OF_TWO 0
/** any number; a group begins at any rank */
#define SAB_CONTEXT_ANY_NUMBER 1

/** How samples are split over ranks. */
typedef struct sab_context_options {
    /** set by SAB_CONTEXT_OPTIONS_INIT */
    size_t struct_size;
    /** cost of a sample on one rank: that of a batch of this sample. For one column. Read and
     *  called during the call. NULL: the length */
    const sab_cost *cost;
    /** what each rank of a group after the first adds to the time of a sample, in the unit of the
     *  cost; finite, at least 0; 0. With 0 it costs nothing to split a sample, so most samples are
     *  split over many ranks */
    double overhead;
    /** SAB_CONTEXT_POWERS_OF_TWO */
    sab_context_groups groups;
    /** reports progress and may cancel; NULL */
    sab_progress_fn progress;
    /** passed to `progress` */
    void *progress_ctx;
} sab_context_options;
#define SAB_CONTEXT_OPTIONS_INIT SAB_INIT(sab_context_options)

/** A part of a sample, which one rank computes.
 *
 * With causal attention a token attends to those before it, so later tokens take more work. The
 * sample is therefore cut into 2 * `of` chunks, and each part has two: one from the head, and the
 * one at the same distance from the tail. Chunks differ by at most one token, and parts, too. The
 * parts of a sample that is not split are its two halves.
 */
typedef struct sab_context_part {
    /** index of the sample */
    uint64_t sample;
    /** number of this part, from 0: the rank of this part in the group */
    uint32_t part;
    /** number of parts, which is the number of ranks in the group */
    uint32_t of;
    /** tokens of the chunk from the head: from `head_begin` to below `head_end` */
    uint64_t head_begin;
    uint64_t head_end; /**< see `head_begin` */
    /** tokens of the chunk from the tail: from `tail_begin` to below `tail_end` */
    uint64_t tail_begin;
    uint64_t tail_end; /**< see `tail_begin` */
    /** when all ranks of the group begin the sample, in the unit of the cost */
    double start;
    /** when they end it */
    double end;
} sab_context_part;

/** The parts of each rank. Immutable; threads may share it. */
typedef struct sab_context_plan sab_context_plan;

/** What is in a context plan. Arrays belong to the plan and are valid until it is freed. */
typedef struct sab_context_plan_view {
    /** set by SAB_CONTEXT_PLAN_VIEW_INIT */
    size_t struct_size;
    /** number of ranks */
    uint64_t world_size;
    /** number of samples */
    uint64_t samples;
    /** `world_size` + 1 numbers: rank r has the parts from `offsets[r]` to below `offsets[r + 1]`
     */
    const uint64_t *offsets;
    /** the parts of all ranks; those of a rank in the order in which it computes them */
    const sab_context_part *parts;
    /** when the last rank ends, if each takes the time that the cost and the overhead say */
    double makespan;
    /** no plan for these groups has a lower makespan */
    double lower_bound;
    /** makespan / lower_bound - 1; 0 when both are 0 */
    double gap;
} sab_context_plan_view;
#define SAB_CONTEXT_PLAN_VIEW_INIT SAB_INIT(sab_context_plan_view)

/** Splits samples over ranks so that the ranks end early: context parallelism with groups of
 * different sizes.
 *
 * A sample is computed by a group of ranks that follow each other. A rank computes its parts one
 * after another, and begins a part when all ranks of the group are free. On k ranks a sample takes
 * cost / k + overhead * (k - 1). A rank holds ceil(length / k) of its tokens, at most `limit` at a
 * time. No more ranks are used than make the sample faster.
 *
 * First, samples get the fewest ranks on which they take at most some share of the lower bound, for
 * 20 shares. They are placed most ranks first, then highest cost first (Graham 1969), each where it
 * can begin first. The best of these is improved by late acceptance (Burke and Bykov 2017): steps
 * change the number of ranks of one or two samples, and with powers of two move and exchange
 * samples. The makespan is never above that of the same placement with the fewest ranks that hold
 * each sample. That is longest-first if a longer sample has no lower cost. The work is bounded by
 * counts, so that the same arguments give the same plan on every machine. With powers of two no
 * rank waits between its parts.
 *
 * The lower bound is the least time T until which the ranks can do the work of all samples. Each
 * sample has the fewest ranks on which it takes at most T.
 *
 * Time grows with the samples; with SAB_CONTEXT_ANY_NUMBER with the product of samples and ranks.
 * Memory: about 400 bytes a
 * sample, and 64 bytes a part. Without an overhead there may be a part of each sample on each rank.
 *
 * @param lengths     tokens of each sample, whole numbers in one column; read during the call only
 * @param world_size  number of ranks, 1 to 65,536
 * @param limit        tokens that a rank holds at a time, 1 to 2^53. A sample that all ranks
 *     together do not hold is refused; with SAB_CONTEXT_POWERS_OF_TWO these are the ranks of the
 *     largest group
 * @param options     NULL: the defaults
 * @param plan        the new handle; free with sab_context_plan_free()
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_CALLBACK from the cost; SAB_E_CANCELLED
 */
SAB_API sab_status sab_context_plan_new(const sab_sizes *lengths, uint64_t world_size,
                                        uint64_t limit, const sab_context_options *options,
                                        sab_context_plan **plan) SAB_NOEXCEPT;

/** Shows the parts of a context plan.
 *
 * @param plan  a handle
 * @param view  filled on SAB_OK; its struct_size must be set
 * @return SAB_OK; SAB_E_ARGUMENT
 */
SAB_API sab_status sab_context_plan_get_view(const sab_context_plan *plan,
                                             sab_context_plan_view *view) SAB_NOEXCEPT;

/** Frees the handle. Arrays that sab_context_plan_get_view() showed are no longer valid.
 *
 * @param plan  a handle or NULL
 */
SAB_API void sab_context_plan_free(sab_context_plan *plan) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
