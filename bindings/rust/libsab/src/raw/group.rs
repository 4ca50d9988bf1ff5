//! Calls of `group.h` on thresholds and groupings.

use super::*;
use crate::group::ThresholdsOptions;

pub(crate) fn find_thresholds(
    lengths: &SizesHandle<'_>,
    k: u64,
    options: &ThresholdsOptions<'_>,
) -> Result<(Vec<f64>, sys::sab_thresholds_info), Error> {
    let count = lengths.count();
    let trials = match options.raw.num_trials {
        0 => 100, // the default of the library
        given => u64::from(given),
    };
    let room = usize::try_from(k).ok().filter(|&k| k < count.max(1)).ok_or_else(|| {
        Error::refused("k", k, format!("must be below the number of lengths, {count}"))
    })?;
    let starts = &options.starts;
    if !starts.is_empty() && Some(starts.len() as u64) != trials.checked_mul(k) {
        let given = starts.len();
        return Err(Error::refused(
            "starts.len()",
            given,
            format!("must be {k} for each of {trials} trials"),
        ));
    }
    let mut call = InCall::new(&options.progress);
    let mut raw = *options.raw;
    raw.starts = elements(starts);
    raw.cost = call.optional_cost(options.cost.as_ref())?;
    (raw.progress, raw.progress_ctx) = call.progress();
    let mut thresholds = vec![0.0; room];
    let mut info = empty();
    // SAFETY: a live handle, room for `k` numbers, a struct whose size is set; arrays and closures
    // in the options outlive the call.
    let status = unsafe {
        sys::sab_thresholds_find(lengths.pointer(), k, &raw, thresholds.as_mut_ptr(), &mut info)
    };
    check_with(status, call.failures())?;
    Ok((thresholds, info))
}

/// Owns a `sab_grouping`.
pub(crate) struct GroupingHandle(Owned<sys::sab_grouping>);

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
    pub(crate) fn by_thresholds(dimensions: &[(&SizesHandle<'_>, &[f64])]) -> Result<Self, Error> {
        let given: Vec<_> = dimensions
            .iter()
            .map(|(lengths, thresholds)| sys::sab_grouping_dimension {
                lengths: lengths.pointer(),
                thresholds: thresholds.as_ptr(),
                threshold_count: thresholds.len(),
            })
            .collect();
        // SAFETY: `given` holds live handles and arrays that outlive the call.
        make(|grouping| unsafe {
            sys::sab_grouping_thresholds_new(given.as_ptr(), given.len(), grouping)
        })
        .map(GroupingHandle)
    }

    pub(crate) fn predefined(group_of: &[i64], groups: u64) -> Result<Self, Error> {
        let groups = usize::try_from(groups).unwrap_or(usize::MAX);
        // SAFETY: as many numbers as the length.
        make(|grouping| unsafe {
            sys::sab_grouping_predefined_new(group_of.as_ptr(), group_of.len(), groups, grouping)
        })
        .map(GroupingHandle)
    }

    pub(crate) fn partition(indices: &[i64], counts: &[u64]) -> Result<Self, Error> {
        let sum = counts.iter().try_fold(0u64, |sum, &count| sum.checked_add(count));
        if sum != Some(indices.len() as u64) {
            let given = indices.len();
            return Err(Error::refused("indices.len()", given, "must be the sum of the counts"));
        }
        // SAFETY: as many indices as the counts sum to, and as many counts as the length.
        make(|grouping| unsafe {
            let (indices, sizes) = (indices.as_ptr(), counts.as_ptr());
            sys::sab_grouping_partition_new(indices, sizes, counts.len(), grouping)
        })
        .map(GroupingHandle)
    }

    pub(crate) fn consecutive(counts: &[u64]) -> Result<Self, Error> {
        // SAFETY: as many counts as the length.
        make(|grouping| unsafe {
            sys::sab_grouping_partition_new(null(), counts.as_ptr(), counts.len(), grouping)
        })
        .map(GroupingHandle)
    }

    pub(crate) fn groups(&self) -> Groups<'_> {
        // SAFETY: a live handle, and a struct whose size is set.
        let groups: sys::sab_grouping_view = certain(filled(|groups| unsafe {
            sys::sab_grouping_get_view(self.0.pointer(), groups)
        }));
        let (samples, count, dimensions) = (groups.samples, groups.groups, groups.dimensions);
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
