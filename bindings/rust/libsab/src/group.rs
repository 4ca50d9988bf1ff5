use std::fmt;
use std::sync::Arc;

pub use crate::choices::ThresholdsMethod;
use crate::cost::Cost;
use crate::error::Error;
use crate::options::{array_setters, cost_setter, options, progress_setter, setters, Hook};
use crate::raw::{self, GroupingHandle, ProgressFn};
use crate::sizes::Sizes;

options! {
/// Criterion and cost of [`find_thresholds`]. By default the least total of padded lengths.
pub struct ThresholdsOptions<'f>: sab_thresholds_options {
    starts: Vec<u64>,
    cost: Option<Cost<'f>>,
    progress: Hook<ProgressFn<'f>>,
}
}

impl<'f> ThresholdsOptions<'f> {
    setters! {
        /// Criterion; [`ThresholdsMethod::LeastTotal`].
        method(method: ThresholdsMethod) => method = method.raw();
        /// Whether a group costs its count times the cost of one sample of its longest length. A
        /// closure is then called once for each distinct length only.
        cost_per_sample(wanted: bool) => cost_per_sample = i32::from(wanted);
        /// [`ThresholdsMethod::Randomised`]: searches, at most 2^32 - 1, of which the one with the
        /// most even groups counts; 100.
        num_trials(trials: u64) => num_trials = u32::try_from(trials).unwrap_or(u32::MAX);
        /// [`ThresholdsMethod::Randomised`]: a search ends after more than so many steps that did
        /// not reduce the largest difference; twice the number of distinct lengths.
        tolerate(steps: u64) => patience = steps.saturating_add(1);
        /// [`ThresholdsMethod::Randomised`]: seed of the places where searches begin; 0.
        seed(seed: u64) => seed = seed;
    }

    array_setters! {
        /// [`ThresholdsMethod::Randomised`]: where searches begin: for each trial k of the distinct
        /// lengths, by number from 0, ascending in length.
        starts: u64;
    }

    cost_setter! {
        'f,
        /// Cost of a group, of its count and its longest length; [`Cost::padded`]. With a closure and
        /// beyond 1,024 distinct lengths, the exact methods also rely on a sample more costing at
        /// least as much in a group that is larger or longer.
        cost
    }

    progress_setter!('f);
}

/// Result of [`find_thresholds`], with the costs of the groups, each as one batch.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Thresholds {
    /// Lengths that occur, ascending.
    pub thresholds: Vec<f64>,
    /// Sum of the groups' costs.
    pub total: f64,
    /// Cost of the costliest group.
    pub largest: f64,
    /// Of the costs of two neighbours.
    pub largest_difference: f64,
    /// Randomised searches that ended with groups of the same cost.
    pub even: u64,
    /// Searches that went back to where they were two steps before.
    pub repeated: u64,
    /// Searches ended by [`ThresholdsOptions::tolerate`].
    pub not_tolerated: u64,
    /// Searches whose threshold could go no further, at the shortest or longest length.
    pub extreme: u64,
    /// Searches whose threshold could go no further, beside another one.
    pub narrow: u64,
}

/// Finds `k` lengths that cut a data set into `k` + 1 groups: up to the first, above it up to the
/// second, ..., above the last.
///
/// ```
/// use libsab::{find_thresholds, Sizes, ThresholdsOptions};
///
/// let lengths = [1, 1, 1, 1, 1, 1, 4, 4, 16];
/// let found = find_thresholds(&Sizes::borrowed(&lengths)?, 2, &ThresholdsOptions::new())?;
/// assert_eq!(found.thresholds, [1.0, 4.0]);
/// assert_eq!(found.total, 30.0);
/// # Ok::<(), libsab::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Argument`] for options or lengths that break a rule, and when `k` is not below the
/// number of distinct lengths; [`Error::Callback`] from the cost closure; [`Error::Cancelled`] from
/// the progress closure.
pub fn find_thresholds(
    lengths: &Sizes<'_>,
    k: u64,
    options: &ThresholdsOptions<'_>,
) -> Result<Thresholds, Error> {
    let (thresholds, info) = raw::find_thresholds(&lengths.handle, k, options)?;
    Ok(Thresholds {
        thresholds,
        total: info.total,
        largest: info.largest,
        largest_difference: info.largest_difference,
        even: info.even,
        repeated: info.repeated,
        not_tolerated: info.not_tolerated,
        extreme: info.extreme,
        narrow: info.narrow,
    })
}

/// Samples in groups: the order that takes them group by group, and the way back.
///
/// Immutable and shareable between threads; a clone is the same grouping.
///
/// ```
/// use libsab::{Grouping, Sizes};
///
/// let grouping = Grouping::by_thresholds(&[(&Sizes::borrowed(&[16, 1, 5, 64])?, &[4.0, 16.0])])?;
/// assert_eq!(grouping.groups().collect::<Vec<_>>(), [&[1][..], &[0, 2], &[3]]);
/// assert_eq!(grouping.inverse(), [1, 0, 2, 3]);
/// # Ok::<(), libsab::Error>(())
/// ```
#[derive(Clone)]
pub struct Grouping {
    handle: Arc<GroupingHandle>,
}

impl Grouping {
    fn own(handle: GroupingHandle) -> Self {
        Grouping { handle: Arc::new(handle) }
    }

    /// Groups by one or several lengths, each with its thresholds: up to the first, above it up to
    /// the second, ..., above the last.
    ///
    /// Samples in the same interval of every dimension are a group; there are no empty ones; the
    /// first dimension counts most for their order.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for lengths or thresholds that break a rule, and for dimensions that
    /// differ in the number of samples.
    pub fn by_thresholds(dimensions: &[(&Sizes<'_>, &[f64])]) -> Result<Self, Error> {
        let dimensions: Vec<_> =
            dimensions.iter().map(|(lengths, thresholds)| (&lengths.handle, *thresholds)).collect();
        GroupingHandle::by_thresholds(&dimensions).map(Self::own)
    }

    /// All samples in one group.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for more than 4,294,967,295 samples.
    pub fn uni(samples: u64) -> Result<Self, Error> {
        Self::consecutive(&[samples])
    }

    /// Groups given as the number of each sample's group, from 0 to below `groups`; any of them may
    /// be empty.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a number that is none of a group.
    pub fn predefined(group_of: &[i64], groups: u64) -> Result<Self, Error> {
        GroupingHandle::predefined(group_of, groups).map(Self::own)
    }

    /// Groups given as the samples of each, one group after the other, in an order that is kept,
    /// and how many each group has.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] unless each sample is there exactly once.
    pub fn partition(indices: &[i64], counts: &[u64]) -> Result<Self, Error> {
        GroupingHandle::partition(indices, counts).map(Self::own)
    }

    /// Groups of consecutive samples, so many in each.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for more than 4,294,967,295 samples.
    pub fn consecutive(counts: &[u64]) -> Result<Self, Error> {
        GroupingHandle::consecutive(counts).map(Self::own)
    }

    /// The indices of each group's samples.
    #[must_use]
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &[i64]> + '_ {
        let groups = self.handle.groups();
        groups
            .offsets
            .windows(2)
            .map(move |ends| &groups.permutation[ends[0] as usize..ends[1] as usize])
    }

    /// Position of the first sample of each group, and at the end the number of samples.
    #[must_use]
    pub fn offsets(&self) -> &[i64] {
        self.handle.groups().offsets
    }

    /// The sample at each place.
    #[must_use]
    pub fn permutation(&self) -> &[i64] {
        self.handle.groups().permutation
    }

    /// The place of each sample: puts what was computed group by group back in order.
    #[must_use]
    pub fn inverse(&self) -> &[i64] {
        self.handle.groups().inverse
    }

    /// The group of each sample.
    #[must_use]
    pub fn group_of(&self) -> &[i64] {
        self.handle.groups().group_of
    }

    /// The interval, from 0, of a group in each dimension; empty where the groups were given.
    /// `None` for a group that is not there.
    #[must_use]
    pub fn intervals(&self, group: usize) -> Option<&[i64]> {
        let groups = self.handle.groups();
        (group < groups.offsets.len() - 1)
            .then(|| &groups.intervals[group * groups.dimensions..(group + 1) * groups.dimensions])
    }
}

impl fmt::Debug for Grouping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.groups()).finish()
    }
}
