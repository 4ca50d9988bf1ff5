//! Calls of `engine.h`.

use super::*;
use crate::engine::{BinPatterns, Places};
use crate::pack::PackedOptions;
use crate::sampler::SamplerOptions;

/// Owns a `sab_histogram`.
pub(crate) struct HistogramHandle(Owned<sys::sab_histogram>);

impl HistogramHandle {
    pub(crate) fn column_names(&self) -> Vec<Option<String>> {
        let info = self.info();
        // SAFETY: the names of a live handle.
        unsafe { column_names(info.column_names, info.columns) }
    }

    pub(crate) fn pointer(&self) -> *mut sys::sab_histogram {
        self.0.pointer()
    }

    pub(crate) fn new() -> Result<Self, Error> {
        // SAFETY: an address for the handle.
        make(|histogram| unsafe { sys::sab_histogram_new(histogram) }).map(HistogramHandle)
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Error> {
        // SAFETY: `bytes` is readable for its length and copied during the call.
        make(|histogram| unsafe {
            sys::sab_histogram_bytes_new(bytes.as_ptr().cast(), bytes.len(), histogram)
        })
        .map(HistogramHandle)
    }

    pub(crate) fn write(&self) -> Result<Vec<u8>, Error> {
        // SAFETY: a live handle; it does not change between both calls.
        unsafe {
            array(|bytes: *mut u8, capacity, size| {
                sys::sab_histogram_write(self.pointer(), bytes.cast(), capacity, size)
            })
        }
    }

    pub(crate) fn add(&mut self, sizes: &SizesHandle<'_>) -> Result<(), Error> {
        // SAFETY: live handles, of which the first is not shared.
        check(unsafe { sys::sab_histogram_add(self.pointer(), sizes.pointer(), null_mut()) })?;
        Ok(())
    }

    pub(crate) fn number(&mut self, sizes: &SizesHandle<'_>) -> Result<Vec<u64>, Error> {
        let mut numbers = vec![0; sizes.count()];
        // SAFETY: live handles, of which the first is not shared, and room for all numbers.
        check(unsafe {
            sys::sab_histogram_add(self.pointer(), sizes.pointer(), numbers.as_mut_ptr())
        })?;
        Ok(numbers)
    }

    pub(crate) fn merge(&mut self, other: &Self) -> Result<(), Error> {
        // SAFETY: live handles, of which the first is not shared.
        check(unsafe { sys::sab_histogram_merge(self.pointer(), other.pointer()) })?;
        Ok(())
    }

    pub(crate) fn subtract(&mut self, other: &Self) -> Result<(), Error> {
        // SAFETY: live handles, of which the first is not shared.
        check(unsafe { sys::sab_histogram_subtract(self.pointer(), other.pointer()) })?;
        Ok(())
    }

    pub(crate) fn epoch(&self, repeats: &[f64], epoch: u64, seed: u64) -> Result<Self, Error> {
        // SAFETY: a live handle, an array of as many numbers, and an address for the handle.
        make(|of_epoch| unsafe {
            sys::sab_histogram_epoch_new(
                self.pointer(),
                elements(repeats),
                repeats.len(),
                epoch,
                seed,
                of_epoch,
            )
        })
        .map(HistogramHandle)
    }

    calls! { fn info(&self) -> struct sab_histogram_info = sab_histogram_get_info; }

    /// Sizes, counts and, of a mixture, sources of the entries.
    pub(crate) fn entries(&self) -> (&[f64], &[u64], Option<&[u32]>) {
        let info = self.info();
        let entries = usize::try_from(info.entries).unwrap_or(0);
        if entries == 0 {
            return (&[], &[], (info.sources > 0).then_some(&[]));
        }
        // SAFETY: the arrays have these lengths, and live until the handle, which is borrowed, is
        // changed.
        unsafe {
            (
                std::slice::from_raw_parts(info.entry_sizes, entries * info.columns),
                std::slice::from_raw_parts(info.entry_counts, entries),
                (info.sources > 0).then(|| std::slice::from_raw_parts(info.entry_sources, entries)),
            )
        }
    }
}

/// Owns a `sab_packing`.
pub(crate) struct PackingHandle(Owned<sys::sab_packing>);

impl PackingHandle {
    fn pointer(&self) -> *mut sys::sab_packing {
        self.0.pointer()
    }

    pub(crate) fn new(
        histogram: &HistogramHandle,
        pack: &PackedOptions<'_>,
    ) -> Result<Self, Error> {
        pack.make(|raw| {
            // SAFETY: a live handle, a struct whose size is set; the closures outlive the call, the
            // only time they are used.
            construct(|packing| unsafe {
                sys::sab_histogram_packing_new(histogram.pointer(), raw, packing)
            })
        })
        .map(PackingHandle)
    }

    calls! { fn info(&self) -> struct sab_packed_info = sab_packing_get_info; }

    pub(crate) fn patterns(&self) -> BinPatterns<'_> {
        let (mut count, mut bins, mut begins) = (0, null(), null());
        let (mut lengths, mut sequences) = (null(), null());
        // SAFETY: a live handle, and addresses for the arrays.
        certain(check(unsafe {
            sys::sab_packing_get_patterns(
                self.pointer(),
                &mut count,
                &mut bins,
                &mut begins,
                &mut lengths,
                &mut sequences,
            )
        }));
        // SAFETY: the arrays have these lengths, are not empty, and live as long as the handle,
        // which is borrowed.
        unsafe {
            let begins = std::slice::from_raw_parts(begins, count + 1);
            let parts = usize::try_from(begins[count]).unwrap_or(0);
            BinPatterns {
                bins: std::slice::from_raw_parts(bins, count),
                begins,
                lengths: std::slice::from_raw_parts(lengths, parts),
                sequences: std::slice::from_raw_parts(sequences, parts),
            }
        }
    }

    pub(crate) fn locate(
        &self,
        options: &sys::sab_sampler_options,
        sizes: &[f64],
        numbers: &[u64],
        which: Option<&[u64]>,
    ) -> Result<Places, Error> {
        located(sizes, 1, numbers, which, |sizes, numbers, which, count, places| {
            // SAFETY: a live handle; arrays of `count` numbers, and room for as many.
            unsafe {
                sys::sab_packing_locate(
                    self.pointer(),
                    options,
                    sizes,
                    numbers,
                    which,
                    count,
                    places,
                )
            }
        })
    }
}

impl PlanHandle {
    pub(crate) fn locate(
        &self,
        options: &SamplerOptions<'_>,
        sources: Option<&[u32]>,
        sizes: &[f64],
        numbers: &[u64],
        which: Option<&[u64]>,
    ) -> Result<Places, Error> {
        let columns = self.info().columns;
        if sources.is_some_and(|sources| sources.len() != numbers.len()) {
            return Err(Error::argument_error(
                "sources: must have a number for each sample".to_string(),
            ));
        }
        let sources = sources.map_or(null(), elements);
        let mut call = InCall::without_progress();
        let mut raw = *options.raw;
        (raw.balance, raw.balance_count) = call.balance(&options.balance)?;
        located(sizes, columns, numbers, which, |sizes, numbers, which, count, places| {
            // SAFETY: a live handle; arrays of `count` numbers, of sizes as many for each column,
            // and room for as many.
            unsafe {
                sys::sab_histogram_plan_locate(
                    self.pointer(),
                    &raw,
                    sources,
                    sizes,
                    numbers,
                    which,
                    count,
                    places,
                )
            }
        })
    }
}

/// `locate` takes pointers to sizes, numbers and `which`, their count, and the arrays to be filled.
fn located(
    sizes: &[f64],
    columns: usize,
    numbers: &[u64],
    which: Option<&[u64]>,
    locate: impl FnOnce(
        *const f64,
        *const u64,
        *const u64,
        usize,
        *const sys::sab_places,
    ) -> sys::sab_status,
) -> Result<Places, Error> {
    let count = numbers.len();
    let asked = which.unwrap_or(numbers).len();
    for (name, found, needed) in [("sizes", sizes.len(), count * columns), ("which", asked, count)]
    {
        if found != needed {
            return Err(Error::argument_error(format!(
                "{name}: has {found} numbers: must have {needed}, for {count} numbers"
            )));
        }
    }
    let mut made = Places {
        counts: vec![0; count],
        ranks: vec![0; count],
        batches: vec![0; count],
        steps: vec![0; count],
        slots: vec![0; count],
        batch_count: 0,
    };
    let mut places = empty::<sys::sab_places>();
    places.counts = made.counts.as_mut_ptr();
    places.ranks = made.ranks.as_mut_ptr();
    places.batches = made.batches.as_mut_ptr();
    places.steps = made.steps.as_mut_ptr();
    places.slots = made.slots.as_mut_ptr();
    places.batch_count = &mut made.batch_count;
    check(locate(
        elements(sizes),
        elements(numbers),
        which.map_or(null(), elements),
        count,
        &places,
    ))?;
    Ok(made)
}
