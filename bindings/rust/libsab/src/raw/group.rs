use std::mem::size_of;
use std::ptr::{null_mut, NonNull};

use sab_sys as sys;

use super::{
    certain, check, check_with, cost_failure, cost_parts, defaults, elements, made, owned,
    progress_failure, progress_parts, slice, CostFn, Guarded, Progress, ProgressFn, Room,
    SizesHandle,
};
use crate::error::Error;

/// The options of a search for thresholds whose pointers are still Rust's.
pub(crate) struct ThresholdsParts<'f> {
    /// Pointers and lengths in it are filled in by [`find_thresholds`].
    pub(crate) options: sys::sab_thresholds_options,
    pub(crate) starts: Vec<u64>,
    pub(crate) coefficients: Vec<f64>,
    pub(crate) cost_terms: Vec<sys::sab_cost_term>,
    pub(crate) cost: Option<Box<CostFn<'f>>>,
    pub(crate) progress: Option<Box<ProgressFn<'f>>>,
}

pub(crate) fn default_thresholds_options() -> sys::sab_thresholds_options {
    // SAFETY: the call fills the whole struct.
    unsafe { defaults(sys::sab_thresholds_options_init) }
}

pub(crate) fn find_thresholds(
    lengths: &SizesHandle<'_>,
    k: usize,
    mut parts: ThresholdsParts<'_>,
) -> Result<(Vec<f64>, sys::sab_thresholds_info), Error> {
    let (count, trials) = (lengths.count(), parts.options.num_trials as usize);
    if k >= count.max(1) {
        return Err(Error::Argument(format!(
            "k = {k}: must be below the number of lengths, {count}"
        )));
    }
    if !parts.starts.is_empty() && Some(parts.starts.len()) != trials.checked_mul(k) {
        let given = parts.starts.len();
        return Err(Error::Argument(format!(
            "starts has {given} numbers: must have {k} for each of {trials} trials"
        )));
    }
    let mut cost = parts.cost.map(Guarded::new);
    let mut progress =
        parts.progress.as_mut().map(|progress| Guarded::new(&mut **progress as Progress<'_>));
    let options = &mut parts.options;
    options.starts = elements(&parts.starts);
    options.coefficients = elements(&parts.coefficients);
    options.coefficient_count = parts.coefficients.len();
    options.cost_terms = elements(&parts.cost_terms);
    options.cost_term_count = parts.cost_terms.len();
    (options.cost_fn, options.cost_ctx) = cost_parts(&mut cost);
    (options.progress, options.progress_ctx) = progress_parts(&mut progress);
    let mut thresholds = vec![0.0; k];
    let mut info = sys::sab_thresholds_info {
        struct_size: size_of::<sys::sab_thresholds_info>(),
        total: 0.0,
        worst: 0.0,
        largest_difference: 0.0,
        even: 0,
        repeated: 0,
        not_tolerated: 0,
        extreme: 0,
        narrow: 0,
    };
    // SAFETY: a live handle, room for `k` numbers, a struct whose size is set; arrays and closures in the options outlive the call.
    let status = unsafe {
        sys::sab_find_thresholds(
            lengths.pointer.as_ptr(),
            k as u64,
            options,
            thresholds.as_mut_ptr(),
            &mut info,
        )
    };
    check_with(
        status,
        &mut [cost_failure(&mut cost, &mut None), progress_failure(&mut progress, &mut None)],
    )?;
    Ok((thresholds, info))
}

/// Owns a `sab_grouping`.
pub(crate) struct GroupingHandle {
    pointer: NonNull<sys::sab_grouping>,
}

// SAFETY: the handle is immutable, tied to no thread, and const for every call (sab.h, Threads).
unsafe impl Send for GroupingHandle {}
// SAFETY: as above.
unsafe impl Sync for GroupingHandle {}

impl Drop for GroupingHandle {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and this is its last use.
        unsafe { sys::sab_grouping_free(self.pointer.as_ptr()) }
    }
}

/// The arrays of a grouping.
pub(crate) struct Groups<'a> {
    pub(crate) dimensions: usize,
    pub(crate) offsets: &'a [i64],
    pub(crate) permutation: &'a [i64],
    pub(crate) inverse: &'a [i64],
    pub(crate) group_of: &'a [i64],
    pub(crate) intervals: &'a [i64],
}

impl GroupingHandle {
    fn finish(status: sys::sab_status, pointer: Room<sys::sab_grouping>) -> Result<Self, Error> {
        let handle = owned(pointer, |pointer| GroupingHandle { pointer });
        made(check(status), handle)
    }

    pub(crate) fn by_thresholds(dimensions: &[(&SizesHandle<'_>, &[f64])]) -> Result<Self, Error> {
        let given: Vec<_> = dimensions
            .iter()
            .map(|(lengths, thresholds)| sys::sab_grouping_dimension {
                lengths: lengths.pointer.as_ptr(),
                thresholds: thresholds.as_ptr(),
                threshold_count: thresholds.len(),
            })
            .collect();
        let mut pointer = Room::new()?;
        // SAFETY: `given` holds live handles and arrays that outlive the call, and there is room for a handle.
        let status = unsafe {
            sys::sab_grouping_thresholds_new(given.as_ptr(), given.len(), pointer.fill())
        };
        Self::finish(status, pointer)
    }

    pub(crate) fn uni(samples: usize) -> Result<Self, Error> {
        let mut pointer = Room::new()?;
        // SAFETY: room for a handle.
        let status = unsafe { sys::sab_grouping_uni_new(samples, pointer.fill()) };
        Self::finish(status, pointer)
    }

    pub(crate) fn predefined(group_of: &[i64], groups: usize) -> Result<Self, Error> {
        let mut pointer = Room::new()?;
        // SAFETY: as many numbers as are said, and room for a handle.
        let status = unsafe {
            sys::sab_grouping_predefined_new(
                group_of.as_ptr(),
                group_of.len(),
                groups,
                pointer.fill(),
            )
        };
        Self::finish(status, pointer)
    }

    pub(crate) fn partition(indices: &[i64], counts: &[u64]) -> Result<Self, Error> {
        let sum = counts.iter().try_fold(0u64, |sum, &count| sum.checked_add(count));
        if sum != Some(indices.len() as u64) {
            return Err(Error::Argument(format!(
                "indices has {} numbers: must have as many as the groups together",
                indices.len()
            )));
        }
        let mut pointer = Room::new()?;
        // SAFETY: as many indices as the counts sum to, as many counts as are said, and room for a handle.
        let status = unsafe {
            sys::sab_grouping_partition_new(
                indices.as_ptr(),
                counts.as_ptr(),
                counts.len(),
                pointer.fill(),
            )
        };
        Self::finish(status, pointer)
    }

    pub(crate) fn consecutive(counts: &[u64]) -> Result<Self, Error> {
        let mut pointer = Room::new()?;
        // SAFETY: as many counts as are said, and room for a handle.
        let status = unsafe {
            sys::sab_grouping_consecutive_new(counts.as_ptr(), counts.len(), pointer.fill())
        };
        Self::finish(status, pointer)
    }

    pub(crate) fn groups(&self) -> Groups<'_> {
        let mut groups = sys::sab_groups {
            struct_size: size_of::<sys::sab_groups>(),
            samples: 0,
            groups: 0,
            dimensions: 0,
            offsets: null_mut(),
            permutation: null_mut(),
            inverse: null_mut(),
            group_of: null_mut(),
            intervals: null_mut(),
        };
        // SAFETY: a live handle, and a struct whose size is set.
        certain(check(unsafe { sys::sab_grouping_get(self.pointer.as_ptr(), &mut groups) }));
        let (samples, count, dimensions) =
            (groups.samples as usize, groups.groups as usize, groups.dimensions as usize);
        // SAFETY: arrays of these lengths, which live unchanged as long as the handle.
        unsafe {
            Groups {
                dimensions,
                offsets: slice(groups.offsets, count + 1),
                permutation: slice(groups.permutation, samples),
                inverse: slice(groups.inverse, samples),
                group_of: slice(groups.group_of, samples),
                intervals: slice(groups.intervals, count * dimensions),
            }
        }
    }
}
