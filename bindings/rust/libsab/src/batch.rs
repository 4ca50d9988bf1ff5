use crate::columns::PerColumn;

/// How the samples of a batch are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// Each sample is padded to [`Batch::padded_length`].
    #[default]
    Padded,
    /// The samples are end to end in one row.
    Row,
}

/// One batch; `I` is how its indices are held and `L` its cumulative lengths, owned by default.
/// Lengths, totals and cumulative lengths have one value for each column of the sizes.
///
/// ```
/// use libsab::{Plan, PlanOptions, Sampler, SamplerOptions, Sizes};
///
/// let plan = Plan::new(&Sizes::from_vec(vec![3u8, 5])?, &PlanOptions::new().batch_size(2))?;
/// let mut sampler = Sampler::sequential(&plan, &SamplerOptions::new())?;
/// let batch = sampler.next_batch().unwrap()?;
/// assert_eq!((batch.padded_total(), batch.total[0], batch.indices), (10.0, 8.0, vec![0, 1]));
/// # Ok::<(), libsab::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Batch<I = Vec<i64>, L = Vec<i32>> {
    /// The samples. None only for a rank without a share: in the last step, and when its shard has
    /// fewer samples in the bucket than the bucket has steps.
    pub indices: I,
    /// How the samples are laid out.
    pub layout: Layout,
    /// Largest size in the batch.
    pub longest: PerColumn<f64>,
    /// Length of the batch. Padded: `longest` rounded up to the plan's length multiple, or the
    /// bucket's length under `max_shapes`. Row: the length of the row, which is the capacity in
    /// the packed sampler and `total` in the balanced sampler, unless lengths are rounded.
    pub padded_length: PerColumn<f64>,
    /// Sum of the sizes.
    pub total: PerColumn<f64>,
    /// The bucket of the plan; `None` without buckets, or in an empty batch.
    pub bucket: Option<usize>,
    /// Epoch of the batch.
    pub epoch: u64,
    /// Step of the optimizer in the epoch, from 0.
    pub step: u64,
    /// Number of the batch among this rank's micro-batches of the step, from 0.
    pub micro_batch: u64,
    /// What all its samples have in [`PlanOptions::separate_by`](crate::PlanOptions::separate_by);
    /// 0 without it.
    pub id: i64,
    /// Row of whole-number sizes: where each sequence begins in the row, and at last where the row
    /// ends: one more than there are indices.
    pub cu_seqlens: Option<PerColumn<L>>,
    /// The same of the true lengths, where `cu_seqlens` has lengths that
    /// [`PackedOptions::length_multiples`](crate::PackedOptions::length_multiples) rounds.
    pub cu_seqlens_unpadded: Option<PerColumn<L>>,
    /// Row of a sampler that splits samples: where each sequence begins in its sample.
    pub starts: Option<I>,
    /// Number of samples over the mean of all batches of the epoch, of all ranks and micro-batches.
    /// Multiply a loss that is a mean over the samples by it, and each sample of the epoch counts
    /// the same. Its mean is 1; an empty batch has 0. After a lowered budget, and after a state of
    /// other ranks or micro-batches, the mean is that of the batches from there on. Samplers that
    /// do not know their number of batches take the mean of those of the epoch up to this one.
    pub sample_weight: f64,
    /// The same of `total`: for a loss that is a mean over the tokens.
    pub token_weight: PerColumn<f64>,
}

/// Several batches, whose arrays belong to the sampler: those of one batch after those of another.
///
/// ```
/// use libsab::{Plan, PlanOptions, Sampler, SamplerOptions, Sizes};
///
/// let sizes = Sizes::from_vec(vec![3u8, 5, 4])?;
/// let plan = Plan::new(&sizes, &PlanOptions::new().batch_size(2))?;
/// let mut sampler = Sampler::sequential(&plan, &SamplerOptions::new())?;
/// let block = sampler.next_block(1024).unwrap()?;
/// assert_eq!((block.len(), block.indices), (2, &[0, 2, 1][..]));
/// assert_eq!((block.samples(0), block.total), (&[0, 2][..], &[7.0, 5.0][..]));
/// # Ok::<(), libsab::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Block<'a> {
    /// The samples of all batches: see [`samples`](Self::samples).
    pub indices: &'a [i64],
    /// Where the samples of each batch begin; at last the number of all.
    pub offsets: &'a [u64],
    /// How the samples of all batches are laid out.
    pub layout: Layout,
    /// Number of columns of the sizes.
    pub columns: usize,
    /// Largest size of each batch: that of batch `i` in column `j` is number `i * columns + j`.
    pub longest: &'a [f64],
    /// Length of each batch, as `longest`.
    pub padded_length: &'a [f64],
    /// Sum of the sizes of each batch, as `longest`.
    pub total: &'a [f64],
    /// The bucket of each batch; -1 without buckets, or in an empty batch.
    pub bucket: &'a [i64],
    /// Epoch of all batches.
    pub epoch: u64,
    /// Step of each batch.
    pub step: &'a [u64],
    /// Number of each batch among this rank's micro-batches of its step.
    pub micro_batch: &'a [u64],
    /// What the samples of each batch have in
    /// [`PlanOptions::separate_by`](crate::PlanOptions::separate_by); 0 without it.
    pub id: &'a [i64],
    /// As in [`Batch`]: those of batch `i` begin at `offsets[i] + i`.
    pub cu_seqlens: Option<PerColumn<&'a [i32]>>,
    /// As `cu_seqlens`.
    pub cu_seqlens_unpadded: Option<PerColumn<&'a [i32]>>,
    /// As in [`Batch`], beside `indices`.
    pub starts: Option<&'a [i64]>,
    /// Weight of each batch for its samples, as in [`Batch`].
    pub sample_weight: &'a [f64],
    /// Weight of each batch for its tokens, as `longest`.
    pub token_weight: &'a [f64],
}

impl<'a> Block<'a> {
    /// Number of batches, at least 1.
    #[allow(clippy::len_without_is_empty)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.step.len()
    }

    /// The samples of a batch.
    ///
    /// # Panics
    ///
    /// When `batch` is not below [`len`](Self::len).
    #[must_use]
    pub fn samples(&self, batch: usize) -> &'a [i64] {
        &self.indices[self.offsets[batch] as usize..self.offsets[batch + 1] as usize]
    }
}

/// A step of the optimizer, over all ranks and all their micro-batches.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Step {
    /// Batches that each rank takes in the step.
    pub micro_batches: u64,
    /// Number of samples.
    pub samples: u64,
    /// Sum of the sizes. `None` when not known: sharded sampler of several ranks.
    pub total: Option<PerColumn<f64>>,
}

impl<I: AsRef<[i64]>, L> Batch<I, L> {
    /// Number of positions with padding, over all columns: samples times padded length, or the
    /// length of the row.
    pub fn padded_total(&self) -> f64 {
        let length: f64 = self.padded_length.iter().sum();
        match self.layout {
            Layout::Padded => self.indices.as_ref().len() as f64 * length,
            Layout::Row => length,
        }
    }
}

impl<I: AsRef<[i64]>, L: AsRef<[i32]>> Batch<I, L> {
    /// The same batch with its arrays borrowed from this one.
    pub(crate) fn borrowed(&self) -> BatchRef<'_> {
        self.with_arrays(AsRef::as_ref, AsRef::as_ref)
    }
}

impl<I, L> Batch<I, L> {
    fn with_arrays<'a, J, M: Default>(
        &'a self,
        indices: impl Fn(&'a I) -> J,
        lengths: impl Fn(&'a L) -> M,
    ) -> Batch<J, M> {
        let ends = |each: &'a PerColumn<L>| PerColumn::of(each.iter().map(&lengths));
        Batch {
            indices: indices(&self.indices),
            layout: self.layout,
            longest: self.longest,
            padded_length: self.padded_length,
            total: self.total,
            bucket: self.bucket,
            epoch: self.epoch,
            step: self.step,
            micro_batch: self.micro_batch,
            id: self.id,
            cu_seqlens: self.cu_seqlens.as_ref().map(ends),
            cu_seqlens_unpadded: self.cu_seqlens_unpadded.as_ref().map(ends),
            starts: self.starts.as_ref().map(indices),
            sample_weight: self.sample_weight,
            token_weight: self.token_weight,
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
