use crate::error::Error;
use crate::options::{options, progress_setter, setters, Hook};
use crate::raw::{self, ProgressFn};

options! {
/// Limits of a [`partition`]. By default any number of items a part, no cap.
///
/// ```
/// use libsab::{partition, PartitionOptions};
///
/// let tokens = [4.0, 3.0, 2.0, 1.0];
/// let options = PartitionOptions::new().equal_counts(true).capacity(&tokens, 6.0);
/// assert_eq!(partition(&[16.0, 9.0, 4.0, 1.0], 2, &options)?.len(), 4);
/// # Ok::<(), libsab::Error>(())
/// ```
pub struct PartitionOptions<'f>: sab_partition_options {
    weights: Vec<(&'f [f64], f64)>,
    progress: Hook<ProgressFn<'f>>,
}
}

impl<'f> PartitionOptions<'f> {
    setters! {
        /// Whether every part gets as many items; their number must be a multiple of the parts.
        equal_counts(wanted: bool) => equal_counts = i32::from(wanted);
    }

    /// A hard cap: the weights (tokens, bytes) of no part sum to more than `capacity`. Each further
    /// call adds another weight with its capacity.
    pub fn capacity(mut self, weights: &'f [f64], capacity: f64) -> Self {
        self.weights.push((weights, capacity));
        self
    }

    progress_setter!('f);
}

/// Assigns items to parts so that the largest sum of costs is small: the part of each item.
///
/// ```
/// use libsab::{partition, PartitionOptions};
///
/// let part_of = partition(&[4.0, 5.0, 6.0, 7.0, 8.0], 2, &PartitionOptions::new())?;
/// assert_eq!(part_of, [0, 0, 0, 1, 1]);
/// # Ok::<(), libsab::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Argument`] for a cost or weight that is negative or not finite, and when no assignment
/// under the capacity was found; [`Error::Cancelled`] from the progress closure.
pub fn partition(
    costs: &[f64],
    parts: u64,
    options: &PartitionOptions<'_>,
) -> Result<Vec<u32>, Error> {
    raw::partition(&[costs], parts, options)
}

/// [`partition`] of items with several costs, which are all balanced: a slice for each cost.
///
/// ```
/// use libsab::{partition_by, PartitionOptions};
///
/// let (images, tokens) = ([3.0, 1.0, 3.0, 1.0], [2.0, 4.0, 2.0, 4.0]);
/// let part_of = partition_by(&[&images, &tokens], 2, &PartitionOptions::new())?;
/// assert_ne!(part_of[0], part_of[2]);
/// # Ok::<(), libsab::Error>(())
/// ```
///
/// # Errors
///
/// As [`partition`], and for costs of different length.
pub fn partition_by(
    costs: &[&[f64]],
    parts: u64,
    options: &PartitionOptions<'_>,
) -> Result<Vec<u32>, Error> {
    raw::partition(costs, parts, options)
}
