//! Calls of `mixture.h`.

use super::*;
use crate::mixture::{Mixture, MixtureOptions, MixtureSource, SourceReport};

impl MixtureOptions {
    /// Runs a constructor with the options, for so many sources.
    fn make<'a>(
        &self,
        sources: usize,
        names: &[CString],
        ids: &[i64],
        call: impl FnOnce(&sys::sab_mixture_options, *mut *mut sys::sab_sizes) -> sys::sab_status,
    ) -> Result<SizesHandle<'a>, Error> {
        // The library takes it that each epoch of the schedule has a number for each source.
        for (index, repeats) in self.changes.iter().enumerate() {
            if repeats.len() != sources {
                return Err(Error::refused(
                    format!("schedule[{index}]"),
                    format!("{repeats:?}"),
                    format!("must have a number for each of the sources, {sources}"),
                ));
            }
        }
        let name_pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        let changes = self.changes.concat();
        let mut raw = *self.raw;
        (raw.ids, raw.id_count) = counted(ids);
        (raw.repeats, raw.repeat_count) = counted(&self.repeats);
        (raw.proportions, raw.proportion_count) = counted(&self.proportions);
        (raw.names, raw.name_count) = counted(&name_pointers);
        raw.schedule_epochs = elements(&self.epochs);
        raw.schedule_repeats = elements(&changes);
        raw.schedule_count = self.epochs.len();
        (raw.all_sources, raw.all_source_count) = counted(&self.all_sources);
        make(|sizes| call(&raw, sizes)).map(SizesHandle::over)
    }
}

impl<'a> SizesHandle<'a> {
    pub(crate) fn mixture(
        sources: &[(&str, &SizesHandle<'a>)],
        options: &MixtureOptions,
    ) -> Result<Self, Error> {
        let names = sources.iter().map(|(name, _)| text("sources", name.as_bytes()));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let pointers: Vec<_> =
            sources.iter().map(|(_, each)| each.pointer().cast_const()).collect();
        let memory: Vec<_> = sources.iter().filter_map(|(_, each)| each.memory()).collect();
        // SAFETY: live handles, and options whose arrays outlive the call. The new handle keeps what
        // the sources own; what they borrow lives for `'a`.
        let mixture = options.make(sources.len(), &names, &[], |options, sizes| unsafe {
            sys::sab_mixture_new(elements(&pointers), pointers.len(), options, sizes)
        })?;
        Ok(mixture.keeping(Arc::new(memory)))
    }

    pub(crate) fn flat_mixture(
        &self,
        ids: &[i64],
        options: &MixtureOptions,
    ) -> Result<SizesHandle<'a>, Error> {
        let mut distinct =
            if options.all_sources.is_empty() { ids } else { &options.all_sources }.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        // SAFETY: as above.
        let mixture = options.make(distinct.len(), &[], ids, |options, sizes| unsafe {
            sys::sab_mixture_new(&self.pointer().cast_const(), 1, options, sizes)
        })?;
        Ok(match self.memory() {
            Some(memory) => mixture.keeping(memory),
            None => mixture,
        })
    }
}

impl SizesHandle<'_> {
    pub(crate) fn source_count(&self) -> usize {
        self.info().sources
    }

    pub(crate) fn source_in(&self, index: usize, epoch: u64) -> MixtureSource {
        // SAFETY: a live handle, and a struct whose size is set.
        let source: sys::sab_mixture_source = certain(filled(|source| unsafe {
            sys::sab_mixture_get_source(self.pointer(), index, epoch, source)
        }));
        // SAFETY: NUL-terminated, and lives as long as the handle.
        let name = unsafe { CStr::from_ptr(source.name) }.to_string_lossy().into_owned();
        MixtureSource {
            name,
            id: source.id,
            samples: source.samples,
            repeat: source.repeat,
            epoch_samples: source.epoch_samples,
        }
    }

    pub(crate) fn mixture_counts(&self, epoch: u64) -> Result<Vec<u32>, Error> {
        let mut counts = vec![0; self.count()];
        // SAFETY: a live handle, and room for a number of each sample.
        check(unsafe {
            sys::sab_mixture_get_counts(self.pointer(), epoch, counts.as_mut_ptr(), counts.len())
        })?;
        Ok(counts)
    }
}

impl SamplerHandle<'_> {
    pub(crate) fn report_sources(
        &mut self,
        mixture: &Mixture<'_>,
        progress: Option<Progress<'_, '_>>,
    ) -> Result<Vec<SourceReport>, Error> {
        let mut reports = vec![empty::<sys::sab_mixture_report>(); mixture.source_count()];
        let mut progress = progress.map(Guarded::new);
        let progress_options = progress_options(&mut progress);
        // SAFETY: a live handle that nobody else uses, structs whose sizes are set; the closure
        // outlives the call.
        let status = unsafe {
            sys::sab_mixture_get_report(
                self.pointer(),
                &progress_options,
                reports.as_mut_ptr(),
                reports.len(),
            )
        };
        check_with(status, [failure_of(progress)])?;
        Ok(reports.iter().map(SourceReport::of).collect())
    }
}
