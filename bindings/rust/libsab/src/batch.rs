/// One batch; `I` is how its indices are held and `L` its cumulative lengths, owned by default.
///
/// ```
/// use libsab::{Plan, PlanOptions, SamplerOptions, SequentialSampler, Sizes};
///
/// let plan = Plan::new(&Sizes::from_vec(vec![3u8, 5])?, &PlanOptions::new().batch_size(2))?;
/// let mut sampler = SequentialSampler::new(&plan, &SamplerOptions::new())?;
/// let batch = sampler.next().unwrap()?;
/// assert_eq!((batch.indices, batch.total, batch.padded_total), (vec![0, 1], 8.0, 10.0));
/// # Ok::<(), libsab::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Batch<I = Vec<i64>, L = Vec<i32>> {
    /// The samples. None only in the last step, when fewer samples than ranks are left (loss weight
    /// 0).
    pub indices: I,
    /// Largest size in the batch.
    pub longest: f64,
    /// Sum of the sizes.
    pub total: f64,
    /// Length to pad to: `longest` rounded up to the plan's length multiple, or the bucket's length
    /// under `max_shapes`. Packed sampler: the capacity.
    pub padded_length: f64,
    /// Number of samples times `padded_length`. Packed sampler: the capacity, since the sequences
    /// share one row.
    pub padded_total: f64,
    /// The bucket of the plan; `None` where there are no buckets.
    pub bucket: Option<usize>,
    /// Epoch of the batch.
    pub epoch: u64,
    /// Step of the batch in its epoch, from 0.
    pub step: u64,
    /// Samples of this step over all ranks: `indices.len() / step_samples` is this rank's weight of
    /// a mean over samples. 0 when
    /// [`SamplerOptions::step_totals`](crate::SamplerOptions::step_totals) is off.
    pub step_samples: u64,
    /// Sum of sizes of this step over all ranks: `total / step_total` is the weight of a mean over
    /// tokens. -1 when [`SamplerOptions::step_totals`](crate::SamplerOptions::step_totals) is off,
    /// and from a sharded sampler on more than one rank.
    pub step_total: f64,
    /// Balanced sampler: which of the rank's micro-batches of the step this is, from 0; 0
    /// elsewhere.
    pub micro_batch: u64,
    /// Balanced sampler: micro-batches that each rank takes in a step; 1 elsewhere.
    pub micro_batches: u64,
    /// Packed sampler: where each sequence begins in the row, and at last where the row ends: one
    /// more than there are indices.
    pub cu_seqlens: Option<L>,
    /// Packed sampler that splits samples: where each sequence begins in its sample.
    pub starts: Option<I>,
}

impl<I: AsRef<[i64]>, L: AsRef<[i32]>> Batch<I, L> {
    /// The same batch with its arrays borrowed from this one.
    pub(crate) fn borrowed(&self) -> BatchRef<'_> {
        self.with_arrays(AsRef::as_ref, AsRef::as_ref)
    }
}

impl<I, L> Batch<I, L> {
    fn with_arrays<'a, J, M>(
        &'a self,
        indices: impl Fn(&'a I) -> J,
        lengths: impl Fn(&'a L) -> M,
    ) -> Batch<J, M> {
        Batch {
            indices: indices(&self.indices),
            longest: self.longest,
            total: self.total,
            padded_length: self.padded_length,
            padded_total: self.padded_total,
            bucket: self.bucket,
            epoch: self.epoch,
            step: self.step,
            step_samples: self.step_samples,
            step_total: self.step_total,
            micro_batch: self.micro_batch,
            micro_batches: self.micro_batches,
            cu_seqlens: self.cu_seqlens.as_ref().map(lengths),
            starts: self.starts.as_ref().map(indices),
        }
    }
}

/// A batch whose arrays belong to the sampler, which cannot move while it is held.
pub type BatchRef<'a> = Batch<&'a [i64], &'a [i32]>;

impl BatchRef<'_> {
    /// The same batch with copies of its arrays.
    #[must_use]
    pub fn into_owned(self) -> Batch {
        self.with_arrays(|indices| indices.to_vec(), |lengths| lengths.to_vec())
    }
}
