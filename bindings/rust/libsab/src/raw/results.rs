// Generated from the public headers by tools/abi.py: do not edit.
//! Results that are shown as the library gives them.
#![cfg_attr(rustfmt, rustfmt_skip)]

use super::{known, per_column, sys};
use crate::PerColumn;

/// One bucket of a plan. Lengths and `total` have one number for each column of the sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Bucket {
    /// [`BucketRule::Boundaries`](crate::BucketRule::Boundaries): the caller's, inclusive;
    /// otherwise `shortest`.
    pub lower: PerColumn<f64>,
    /// [`BucketRule::Boundaries`](crate::BucketRule::Boundaries): the caller's, exclusive;
    /// otherwise `longest`.
    pub upper: PerColumn<f64>,
    /// Smallest size in it in some epoch; 0 when it is empty.
    pub shortest: PerColumn<f64>,
    /// Largest size in it in some epoch; 0 when it is empty.
    pub longest: PerColumn<f64>,
    /// `longest`, rounded up to `length_multiples`.
    pub padded_length: PerColumn<f64>,
    /// Sum of its sizes, before any exchange.
    pub total: PerColumn<f64>,
    /// Cost of its largest batch, by the first budget's cost.
    pub cost: f64,
    /// Samples in it.
    pub samples: u64,
    /// Samples in a full batch.
    pub batch_size: u64,
    /// Batches an epoch.
    pub batches: u64,
    /// Id of its samples, by `separate_by`; else 0.
    pub id: i64,
}

impl Bucket {
    /// # Safety
    ///
    /// The arrays have a number for each column.
    pub(crate) unsafe fn of(raw: &sys::sab_bucket) -> Self {
        // SAFETY: the caller's promise.
        let of = |numbers: *const f64| unsafe { per_column(numbers, raw.columns) };
        Bucket {
            lower: of(raw.lower),
            upper: of(raw.upper),
            shortest: of(raw.shortest),
            longest: of(raw.longest),
            padded_length: of(raw.padded_length),
            total: of(raw.total),
            cost: raw.cost,
            samples: raw.samples,
            batch_size: raw.batch_size,
            batches: raw.batches,
            id: raw.id,
        }
    }
}

/// The shape of batches.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Shape {
    /// Samples.
    pub count: u64,
    /// Padded length, one a column.
    pub padded_length: PerColumn<f64>,
}

impl Shape {
    /// # Safety
    ///
    /// The arrays have a number for each column.
    pub(crate) unsafe fn of(raw: &sys::sab_shape) -> Self {
        // SAFETY: the caller's promise.
        let of = |numbers: *const f64| unsafe { per_column(numbers, raw.columns) };
        Shape {
            count: raw.count,
            padded_length: of(raw.padded_length),
        }
    }
}

/// Facts of a plan that no order changes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PlanInfo {
    /// Samples in the sizes; of a mixture those of epoch 0, with repeats.
    pub samples: u64,
    /// Samples that the oversize policy left out.
    pub skipped: u64,
    /// Buckets, empty ones included.
    pub buckets: u64,
    /// Batches an epoch on one rank.
    pub batches: u64,
    /// No plan of these samples under these budgets has fewer batches: for each budget the sum of
    /// each sample's share of the limit, rounded up (for a cost of one term that is proportional to
    /// the count: ceil(total cost without padding / limit), and at least samples /
    /// `max_batch_size`); the largest of these.
    pub lower_bound: u64,
    /// Equal only for equal plans: compare it between ranks and runs.
    pub fingerprint: u64,
    /// Sum of the sizes of the samples not skipped, over all columns.
    pub total: f64,
    /// Number of columns of the sizes.
    pub columns: usize,
    /// Number of the buckets of epochs with odd numbers, if these have buckets of their own;
    /// `buckets` are then those of epochs with even numbers. 0: all epochs have the same buckets.
    pub second_buckets: u64,
}

impl PlanInfo {
    pub(crate) fn of(raw: &sys::sab_plan_info) -> Self {
        PlanInfo {
            samples: raw.samples,
            skipped: raw.skipped,
            buckets: raw.buckets,
            batches: raw.batches,
            lower_bound: raw.lower_bound,
            fingerprint: raw.fingerprint,
            total: raw.total,
            columns: raw.columns,
            second_buckets: raw.second_buckets,
        }
    }
}

/// Statistics of an epoch of the bucket order, known before training.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Samples in the sizes; of a mixture those of the epoch, with repeats.
    pub samples: u64,
    /// Samples that the oversize policy left out.
    pub skipped: u64,
    /// Samples left out of this epoch by [`Tail::Drop`](crate::Tail::Drop) or
    /// [`LastStep::Drop`](crate::LastStep::Drop).
    pub dropped: u64,
    /// Appearances in this epoch beyond each sample's first (of a mixture beyond those that it
    /// takes), by [`Tail::Wrap`](crate::Tail::Wrap) or [`LastStep::Wrap`](crate::LastStep::Wrap).
    pub repeated: u64,
    /// Batches over all ranks.
    pub batches: u64,
    /// Batches without a sample, which ranks get in a last step that cannot be split further. Not
    /// in `batches` or `shapes`.
    pub empty_batches: u64,
    /// Steps of the optimizer.
    pub steps: u64,
    /// Samples of the step that has the fewest, over all ranks and micro-batches. The last step may
    /// have few.
    pub least_step_samples: u64,
    /// Samples of the step that has the most.
    pub most_step_samples: u64,
    /// Standard deviation of the samples of a step.
    pub step_samples_deviation: f64,
    /// See [`PlanInfo::lower_bound`].
    pub lower_bound: u64,
    /// Number of distinct pairs of count and padded lengths.
    pub shapes: u64,
    /// Sum of the sizes in the batches, over all columns.
    pub total: f64,
    /// Sum of count * padded length of the batches, over all columns.
    pub padded_total: f64,
    /// 1 - total / `padded_total`.
    pub padding: f64,
    /// Mean over steps of (largest cost of a rank / mean cost of the ranks); 1: perfect. The cost
    /// is [`SamplerOptions::balance`](crate::SamplerOptions::balance); without it the first
    /// budget's, or the padded total if that is a closure.
    pub rank_imbalance: f64,
    /// Share of the pairs of batch mates of this epoch that are batch mates in the next one too.
    pub meet_again: f64,
    /// Mean over samples of how many others can be its batch mates in some epoch with the buckets
    /// of this one.
    pub partners: f64,
    /// Lag-1 correlation of the longest sizes of a rank's successive batches; near 0: random. Here
    /// and below the size of a sample of several columns is their sum.
    pub length_correlation: f64,
    /// Variance between batches of the mean size, over that of batches drawn at random; 1: random,
    /// 0: all batches alike, large: batches are homogeneous in size.
    pub variance_ratio: f64,
    /// [`BucketRule::Auto`](crate::BucketRule::Auto): `padding_target` where the plan meets it,
    /// else the smallest that one of the plans met that were tried for it. A plan for that target
    /// meets it; buckets that were not tried may reach a smaller one. With `separate_by` it is that
    /// of all ids together. 0 for a plan without a target.
    pub nearest_target: f64,
    /// The plan meets its `padding_target` or has none.
    pub target_met: bool,
    /// `total` of each column.
    pub totals: PerColumn<f64>,
    /// `padded_total` of each column.
    pub padded_totals: PerColumn<f64>,
}

impl Report {
    /// # Safety
    ///
    /// The arrays have a number for each column.
    pub(crate) unsafe fn of(raw: &sys::sab_plan_report) -> Self {
        // SAFETY: the caller's promise.
        let of = |numbers: *const f64| unsafe { per_column(numbers, raw.columns) };
        Report {
            samples: raw.samples,
            skipped: raw.skipped,
            dropped: raw.dropped,
            repeated: raw.repeated,
            batches: raw.batches,
            empty_batches: raw.empty_batches,
            steps: raw.steps,
            least_step_samples: raw.least_step_samples,
            most_step_samples: raw.most_step_samples,
            step_samples_deviation: raw.step_samples_deviation,
            lower_bound: raw.lower_bound,
            shapes: raw.shapes,
            total: raw.total,
            padded_total: raw.padded_total,
            padding: raw.padding,
            rank_imbalance: raw.rank_imbalance,
            meet_again: raw.meet_again,
            partners: raw.partners,
            length_correlation: raw.length_correlation,
            variance_ratio: raw.variance_ratio,
            nearest_target: raw.nearest_target,
            target_met: raw.target_met != 0,
            totals: of(raw.totals),
            padded_totals: of(raw.padded_totals),
        }
    }
}

/// Result of [`Plan::verify`](crate::Plan::verify).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verification {
    /// Batches run.
    pub batches: u64,
    /// Largest of their peaks.
    pub peak: u64,
    /// Bytes of the device; `None` if not known.
    pub total: Option<u64>,
}

impl Verification {
    pub(crate) fn of(raw: &sys::sab_verification) -> Self {
        Verification {
            batches: raw.batches,
            peak: known(raw.peak).unwrap_or(0),
            total: known(raw.total),
        }
    }
}

/// Facts of a packing. Those of [`PackMethod::Shuffled`](crate::PackMethod::Shuffled) and
/// [`PackMethod::Concat`](crate::PackMethod::Concat) are of the present epoch: `bins` and `fill` of
/// the former, `split` and `sequences` of the latter, `most_sequences` of both.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PackedInfo {
    /// Samples in the sizes.
    pub samples: u64,
    /// Samples left out because they are longer than a bin.
    pub skipped: u64,
    /// Samples cut into pieces.
    pub split: u64,
    /// Samples and pieces in the bins.
    pub sequences: u64,
    /// Bins an epoch on one rank.
    pub bins: u64,
    /// No packing of these lengths has fewer bins: the largest of three bounds. The first is
    /// ceil(total / capacity) of each column, the second follows from `max_sequences`. The third
    /// knows that long sequences cannot share a bin (the bound L2 of Martello and Toth).
    pub lower_bound: u64,
    /// Largest number of sequences in a bin.
    pub most_sequences: u64,
    /// Equal only for equal packings: compare it between ranks and runs.
    pub fingerprint: u64,
    /// Tokens in the bins; of several columns, the sum of the column with the largest `fill`.
    pub total: f64,
    /// Total / (bins * the column's capacity).
    pub fill: f64,
}

impl PackedInfo {
    pub(crate) fn of(raw: &sys::sab_packed_info) -> Self {
        PackedInfo {
            samples: raw.samples,
            skipped: raw.skipped,
            split: raw.split,
            sequences: raw.sequences,
            bins: raw.bins,
            lower_bound: raw.lower_bound,
            most_sequences: raw.most_sequences,
            fingerprint: raw.fingerprint,
            total: raw.total,
            fill: raw.fill,
        }
    }
}

/// Memory statistics; `None` if not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbeStats {
    /// Bytes in use now.
    pub current: u64,
    /// Largest number of bytes in use since the last reset.
    pub peak: u64,
    /// Largest number of bytes that the allocator reserved since the last reset, including
    /// fragments.
    pub reserved_peak: Option<u64>,
    /// Largest free block of the allocator.
    pub largest_free: Option<u64>,
    /// Bytes of the device, or `total_bytes`.
    pub total: Option<u64>,
}

impl ProbeStats {
    pub(crate) fn of(raw: &sys::sab_probe_stats) -> Self {
        ProbeStats {
            current: known(raw.current).unwrap_or(0),
            peak: known(raw.peak).unwrap_or(0),
            reserved_peak: known(raw.reserved_peak),
            largest_free: known(raw.largest_free),
            total: known(raw.total),
        }
    }
}

/// What a sampler gives of a source in an epoch, over all ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SourceReport {
    /// Samples in the batches, with repeats. One that is cut counts once.
    pub samples: u64,
    /// Different samples among them.
    pub distinct: u64,
    /// How often the sample appears that appears most often.
    pub most: u64,
    /// Of `samples`: those whose batch has the same sample again.
    pub together: u64,
    /// Sum of their sizes, over all columns.
    pub total: f64,
    /// What they take up. Of a row the room that is left is shared out by the sizes of its samples.
    pub padded_total: f64,
    /// Share of padding in `padded_total`.
    pub padding: f64,
    /// Share of the total of all sources.
    pub proportion: f64,
    /// The largest distance from its due after a step of all ranks, in sizes of the largest batch.
    /// The due is `proportion` of the total so far.
    pub deviation: f64,
}

impl SourceReport {
    pub(crate) fn of(raw: &sys::sab_mixture_report) -> Self {
        SourceReport {
            samples: raw.samples,
            distinct: raw.distinct,
            most: raw.most,
            together: raw.together,
            total: raw.total,
            padded_total: raw.padded_total,
            padding: raw.padding,
            proportion: raw.proportion,
            deviation: raw.deviation,
        }
    }
}

/// Statistics of a memory guard.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct GuardInfo {
    /// Number of measured steps.
    pub steps: u64,
    /// Steps that ran out of memory and were split.
    pub out_of_memory: u64,
    /// Times the budget was lowered.
    pub lowered: u64,
    /// Limit of the plan's first budget for the coming batches, as
    /// [`Sampler::budget`](crate::Sampler::budget) gives it.
    pub limit: f64,
    /// Largest peak.
    pub peak: Option<u64>,
    /// Mean of the peaks.
    pub mean_peak: f64,
    /// Largest number of bytes by which peaks of the window exceed the model.
    pub creep: f64,
}

impl GuardInfo {
    pub(crate) fn of(raw: &sys::sab_memory_guard_info) -> Self {
        GuardInfo {
            steps: raw.steps,
            out_of_memory: raw.out_of_memory,
            lowered: raw.lowered,
            limit: raw.limit,
            peak: known(raw.peak),
            mean_peak: raw.mean_peak,
            creep: raw.creep,
        }
    }
}

#[cfg(feature = "cache")]
/// Statistics of a cache in this process since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Values found.
    pub hits: u64,
    /// Values not found, including damaged ones and failures.
    pub misses: u64,
    /// Values computed by `load`.
    pub loads: u64,
    /// Values that another caller computed meanwhile.
    pub waits: u64,
    /// Values evicted by this process ("lmdb:", "memory:").
    pub evictions: u64,
    /// Values with a wrong checksum: misses.
    pub damaged: u64,
    /// Calls that could not reach the storage.
    pub failures: u64,
    /// Values that could not be written.
    pub dropped: u64,
    /// Bytes of values found.
    pub bytes_read: u64,
    /// Bytes of values written.
    pub bytes_written: u64,
    /// Values in the buffer now.
    pub buffered: u64,
}

#[cfg(feature = "cache")]
impl CacheStats {
    pub(crate) fn of(raw: &sys::sab_cache_stats) -> Self {
        CacheStats {
            hits: raw.hits,
            misses: raw.misses,
            loads: raw.loads,
            waits: raw.waits,
            evictions: raw.evictions,
            damaged: raw.damaged,
            failures: raw.failures,
            dropped: raw.dropped,
            bytes_read: raw.bytes_read,
            bytes_written: raw.bytes_written,
            buffered: raw.buffered,
        }
    }
}
