//! Memory, measured and kept within, on a device that is simulated.

#[macro_use]
mod common;

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::rc::Rc;

use common::{mine, Mine};
use libsab::memory::{
    find_max_batch, grow_batch_size, grow_batch_size_doubling, grow_batch_size_linear,
    measurement_points, step_in_chunks, CollectOptions, Device, GuardOptions, MaxBatchOptions,
    MeasurementOptions, MemoryGuard, MemoryModel, ModelKind, ModelOptions, Peaks, Probe, Rounding,
    Search, StepError, StepOptions,
};
use libsab::{BoxError, Error, Plan, PlanOptions, Sampler, SamplerOptions, Sizes};

/// What a device holds, and can hold.
#[derive(Default)]
struct Simulated {
    total: u64,
    held: Cell<u64>,
    peak: Cell<u64>,
    rng: Cell<u64>,
    saved: RefCell<Vec<u64>>,
    fails: Cell<bool>,
    releases: Cell<u64>,
}

impl Simulated {
    fn new(total: u64) -> Self {
        Simulated { total, ..Self::default() }
    }

    fn step(&self, bytes: u64) -> Result<(), StepError> {
        self.rng.set(self.rng.get() + 1);
        if self.total > 0 && self.held.get() + bytes > self.total {
            return Err(StepError::OutOfMemory);
        }
        self.peak.set(self.peak.get().max(self.held.get() + bytes));
        Ok(())
    }
}

impl Device for Simulated {
    fn reset(&self) -> Result<(), BoxError> {
        self.peak.set(self.held.get());
        Ok(())
    }
    fn current(&self) -> Result<u64, BoxError> {
        if self.fails.get() {
            return Err(Mine(7).into());
        }
        Ok(self.held.get())
    }
    fn peak(&self) -> Result<u64, BoxError> {
        Ok(self.peak.get())
    }
    fn total(&self) -> Result<Option<u64>, BoxError> {
        Ok((self.total > 0).then_some(self.total))
    }
    fn release_cache(&self) -> Result<(), BoxError> {
        self.releases.set(self.releases.get() + 1);
        Ok(())
    }
    fn save_rng(&self, depth: u64) -> Result<(), BoxError> {
        let mut saved = self.saved.borrow_mut();
        let most = saved.len().max(depth as usize + 1);
        saved.resize(most, 0);
        saved[depth as usize] = self.rng.get();
        Ok(())
    }
    fn restore_rng(&self, depth: u64) -> Result<(), BoxError> {
        self.rng.set(self.saved.borrow()[depth as usize]);
        Ok(())
    }
}

fn bytes_of(count: f64, length: f64) -> f64 {
    1e6 + 300.0 * count * (length - 1.0) + 2.0 * count * length * length
}

fn fitted() -> MemoryModel {
    let points =
        measurement_points(&MeasurementOptions::new().lengths(4.0, 90.0).max_count(1000), 12)
            .unwrap();
    let features: Vec<f64> =
        points.iter().flat_map(|&(count, length)| [count as f64, length[0]]).collect();
    let peaks: Vec<f64> =
        points.iter().map(|&(count, length)| bytes_of(count as f64, length[0])).collect();
    MemoryModel::fit(&features, 2, &peaks, &ModelOptions::default()).unwrap()
}

fn lengths() -> Sizes<'static> {
    Sizes::from_fn(20_000, |i| (4 + i * 7919 % 87) as f64).unwrap()
}

#[test]
fn a_probe_reads_its_device() {
    let device = Simulated::new(100);
    let mut probe = Probe::from_device(&device);
    device.held.set(5);
    probe.reset().unwrap();
    device.step(20).unwrap();
    let stats = probe.stats().unwrap();
    assert_eq!(
        (stats.current, stats.peak, stats.reserved_peak, stats.largest_free, stats.total),
        (5, 25, None, None, Some(100))
    );
    device.fails.set(true);
    assert_eq!(mine(probe.stats()), 7);
    device.fails.set(false);
    probe.stats().unwrap();
}

thread_local! {
    /// A probe of the device below, which asks it.
    static OWN: RefCell<Option<Probe<'static>>> = const { RefCell::new(None) };
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

struct Asking;

impl Device for Asking {
    fn reset(&self) -> Result<(), BoxError> {
        Ok(())
    }
    fn current(&self) -> Result<u64, BoxError> {
        let asked = ASKED.replace(ASKED.get() + 1);
        if asked == 0 {
            assert_eq!(mine(OWN.with_borrow(|own| own.as_ref().unwrap().stats())), 1);
        }
        Err(Mine(asked).into())
    }
    fn peak(&self) -> Result<u64, BoxError> {
        Ok(0)
    }
}

#[test]
fn a_device_may_ask_a_probe_of_itself() {
    OWN.set(Some(Probe::from_device(&Asking)));
    assert_eq!(mine(OWN.with_borrow(|own| own.as_ref().unwrap().stats())), 0);
}

#[test]
fn the_host_is_known_and_nothing_else_without_libtorch() {
    // Some systems have no way to let the peak begin again.
    if std::fs::write("/proc/self/clear_refs", "5").is_ok() {
        let mut probe = Probe::new("host").unwrap();
        probe.reset().unwrap();
        let before = probe.stats().unwrap();
        let touched = vec![1u8; 64 << 20];
        assert!(probe.stats().unwrap().peak - before.current > 60 << 20 && touched[77] == 1);
    } else {
        assert!(matches!(Probe::new("host"), Err(Error::Unsupported(_))));
    }
    assert!(matches!(Probe::new("abacus"), Err(Error::Unsupported(_))));
    assert!(matches!(Probe::with_total("host", 5), Err(Error::Unsupported(_))));
    assert!(matches!(Probe::new("a\0b"), Err(Error::Argument(_))));
    assert!(matches!(libsab::torch::open(Some("/nowhere.so".as_ref())), Err(Error::Io(_))));
}

fn bytes_in(peaks: &Peaks) -> Vec<u64> {
    peaks.iter().map(|row| row.peak).collect()
}

#[test]
fn peaks_are_collected_in_order() {
    let device = Simulated::new(1000);
    let mut probe = Probe::from_device(&device);
    let mut peaks = Peaks::new().unwrap();
    let order = RefCell::new(Vec::new());
    let options = CollectOptions::new()
        .cleanup(|| {
            order.borrow_mut().push(0);
            Ok(())
        })
        .warm_up(1);
    let work = |size: u64| {
        order.borrow_mut().push(size);
        device.step(size)?;
        Ok(vec![size as f64, 1.0])
    };
    peaks.collect(&mut probe, [1, 10, 2000, 30], &options, work).unwrap();
    let rows: Vec<_> =
        peaks.iter().map(|row| (row.item, row.peak, row.features.to_vec())).collect();
    assert_eq!(rows, [(1, 10, vec![10.0, 1.0]), (3, 30, vec![30.0, 1.0])]);
    assert_eq!((peaks.out_of_memory(), peaks.len()), (&[2][..], 2));
    let row = peaks.get(1).unwrap();
    assert_eq!((row.before, row.reserved_peak, row.largest_free), (0, None, None));
    assert!(peaks.get(2).is_none());
    assert_eq!(*order.borrow(), [1, 0, 10, 0, 2000, 0, 30, 0]);
}

#[test]
fn caches_are_released_after_each_item_unless_they_are_kept() {
    let device = Simulated::new(1000);
    let mut probe = Probe::from_device(&device);
    let mut peaks = Peaks::new().unwrap();
    let mut releases = |options: &CollectOptions<'_>| {
        let before = device.releases.get();
        peaks.collect(&mut probe, [1, 2], options, |_| Ok(vec![])).unwrap();
        device.releases.get() - before
    };
    assert!(releases(&CollectOptions::new()) > 0);
    assert_eq!(releases(&CollectOptions::new().release_cache(false)), 0);
}

#[test]
fn a_failure_comes_back_with_what_was_collected() {
    let device = Simulated::new(0);
    let mut probe = Probe::from_device(&device);
    let mut peaks = Peaks::new().unwrap();
    let failing = |size: u64| match size {
        3 => Err(Mine(3).into()),
        4 => panic!("four"),
        _ => {
            device.step(size)?;
            Ok(vec![size as f64])
        }
    };
    assert_eq!(mine(peaks.collect(&mut probe, [1, 2, 3, 5], &CollectOptions::new(), failing)), 3);
    assert_eq!(bytes_in(&peaks), [1, 2]);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        peaks.collect(&mut probe, [7, 4], &CollectOptions::new(), failing)
    }));
    assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "four");
    assert_eq!(bytes_in(&peaks), [1, 2, 7]);
    let cleanup = CollectOptions::new().cleanup(|| Err(Mine(9).into()));
    assert_eq!(mine(peaks.collect(&mut probe, [8], &cleanup, failing)), 9);
    let varying =
        peaks.collect(&mut probe, [1usize], &CollectOptions::new(), |n| Ok(vec![0.0; n + 1]));
    assert!(
        matches!(varying, Err(Error::Argument(text)) if text.text().contains("must be as many"))
    );
    let stopped = CollectOptions::new().progress(|done, _| {
        if done == 1 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert!(matches!(peaks.collect(&mut probe, [1, 2], &stopped, failing), Err(Error::Cancelled)));
}

#[test]
fn a_panic_in_cleanup_comes_back_and_leaks_nothing() {
    let device = Simulated::new(0);
    let step = |bytes| device.step(bytes);
    let mut probe = Probe::from_device(&device);
    let mut peaks = Peaks::new().unwrap();
    let alive = Rc::new(());
    let (in_work, in_cleanup) = (alive.clone(), alive.clone());
    let cleanup =
        CollectOptions::new().cleanup(move || panic!("cleanup {}", Rc::strong_count(&in_cleanup)));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        peaks.collect(&mut probe, [5], &cleanup, move |size| {
            assert!(Rc::strong_count(&in_work) == 3);
            step(size)?;
            Ok(vec![])
        })
    }));
    assert_eq!(*panicked.unwrap_err().downcast::<String>().unwrap(), "cleanup 3");
    drop(cleanup);
    assert_eq!((Rc::strong_count(&alive), bytes_in(&peaks)), (1, vec![5]));
    // The first panic of a call is the one that goes on.
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let cleanup = CollectOptions::new().cleanup(|| panic!("second"));
        peaks.collect(&mut probe, [5], &cleanup, |_| panic!("first"))
    }));
    assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "first");
    let many = peaks.collect(&mut probe, [5], &CollectOptions::new(), |_| Ok(vec![0.0; 65]));
    assert!(matches!(many, Err(Error::Argument(_))));
}

#[test]
fn a_model_is_fitted_saved_and_the_cost_of_a_plan() {
    let model = fitted();
    let info = model.info();
    assert!(info.kind == ModelKind::Batch && info.feature_count == 2 && info.residual < 1e-6);
    assert!((model.predict(&[7.0, 33.0]).unwrap()[0] / bytes_of(7.0, 33.0) - 1.0).abs() < 1e-6);
    assert!(
        model.predict_upper(&[7.0, 33.0]).unwrap()[0] >= model.predict(&[7.0, 33.0]).unwrap()[0]
    );
    let same = MemoryModel::from_bytes(&model.to_bytes().unwrap()).unwrap();
    assert_eq!(same.terms(), model.terms());
    let path = std::env::temp_dir().join(format!("sab-model-{}", std::process::id()));
    model.save(&path).unwrap();
    assert_eq!(MemoryModel::open(&path).unwrap().info(), info);
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(MemoryModel::open(&path), Err(Error::Io(_))));
    assert!(matches!(MemoryModel::from_bytes(b"no model"), Err(Error::Format(_))));
    assert!(matches!(model.predict(&[1.0]), Err(Error::Argument(_))));
    let few = MemoryModel::fit(&[1.0, 4.0], 2, &[5.0], &ModelOptions::default());
    assert!(matches!(few, Err(Error::Argument(text)) if text.text().contains("measure 6 more")));
}

/// A model of pairs, with these names of their columns.
fn of_pairs(names: &[&str]) -> Result<MemoryModel, Error> {
    let range = MeasurementOptions::new().shortest([4.0, 4.0]).longest([90.0, 90.0]);
    let points = measurement_points(&range.max_count(1000), 24).unwrap();
    let features: Vec<f64> = points
        .iter()
        .flat_map(|(count, lengths)| [*count as f64, lengths[0], lengths[1]])
        .collect();
    let peaks: Vec<f64> =
        features.chunks(3).map(|row| 1e6 + row[0] * row[1] * (300.0 + 2.0 * row[2])).collect();
    let options = ModelOptions::new().column_names(names.to_vec());
    MemoryModel::fit(&features, 3, &peaks, &options)
}

#[test]
fn a_model_keeps_the_names_of_its_columns() {
    let model = of_pairs(&["source", "target"]).unwrap();
    let names = ["source", "target"].map(|name| Some(name.to_string()));
    assert_eq!((model.info().feature_count, model.column_names()), (3, names.to_vec()));
    let same = MemoryModel::from_bytes(&model.to_bytes().unwrap()).unwrap();
    assert_eq!((same.terms(), same.column_names()), (model.terms(), model.column_names()));
    assert_eq!(of_pairs(&[]).unwrap().column_names(), [None, None]);
    assert_refused!(model.cost().unwrap().evaluate(1, 4.0), Argument, "columns = 1");
    assert_refused!(of_pairs(&["source"]), Argument, "column_names = [\"source\"]");
    assert_refused!(of_pairs(&["a", "b\0"]), Argument, "column_names[1]");
    let polynomial = ModelOptions::new().kind(ModelKind::Polynomial);
    let named = MemoryModel::fit(&[1.0; 72], 3, &[5.0; 24], &polynomial.column_names(["a", "b"]));
    assert_refused!(named, Argument, "ModelKind::Batch");
    let ragged = MeasurementOptions::new().max_count(64).shortest([1.0, 2.0]).longest([9.0]);
    assert_refused!(measurement_points(&ragged, 24), Argument, "longest");
}

#[test]
fn the_largest_batch_is_found() {
    let device = Simulated::new(1_000_000);
    device.held.set(1000);
    let mut probe = Probe::from_device(&device);
    let found =
        find_max_batch(&mut probe, &MaxBatchOptions::new(), |count, _| device.step(70 * count))
            .unwrap();
    let best = 999_000 / 70;
    assert!(found.batch_size <= best && found.batch_size as f64 >= 0.97 * best as f64);
    assert!(
        found.out_of_memory == 0
            && found.trials <= 6
            && device.rng.get() == 0
            && device.peak.get() == 1000
    );
    let options = || MaxBatchOptions::new().search(Search::Binary).lengths([1.0, 10.0]);
    let step = |count: u64, length: f64| device.step((70.0 * count as f64 * length) as u64);
    assert_eq!(
        find_max_batch(&mut probe, &options(), step).unwrap().batch_sizes,
        [best, best / 10]
    );
    let rounded =
        find_max_batch(&mut probe, &options().rounding(Rounding::PowerOfTwo), step).unwrap();
    assert_eq!(rounded.batch_sizes, [8192, 1024]);
    let halves = options().budget(71_000).reduce(|values| {
        values.iter_mut().for_each(|value| *value = (*value).min(36_000));
        Ok(())
    });
    assert_eq!(find_max_batch(&mut probe, &halves, step).unwrap().batch_sizes[0], 500);
    assert!(matches!(
        find_max_batch(&mut probe, &options(), |_, _| device.step(2_000_000)),
        Err(Error::DeviceMemory(_))
    ));
    assert_eq!(
        mine(find_max_batch(&mut probe, &options(), |_, _| Err(StepError::from(Mine(5))))),
        5
    );
    assert_eq!(
        mine(find_max_batch(&mut probe, &options().reduce(|_| Err(Mine(6).into())), step)),
        6
    );
    assert_eq!(device.rng.get(), 0);
}

#[test]
fn a_batch_grows_by_schedule() {
    assert_eq!(grow_batch_size(|_, current| Ok(current as i64), 0, 8, 20).unwrap(), 16);
    assert_eq!(grow_batch_size(|_, current| Ok(current as i64), 1, 16, 20).unwrap(), 16);
    assert_eq!(mine(grow_batch_size(|_, _| Err(Mine(4).into()), 0, 8, 20)), 4);
    assert_eq!(grow_batch_size_linear(5, 8, 4, 2, 15).unwrap(), 15);
    assert_eq!(grow_batch_size_doubling(3, 8, &[1, 3], 30).unwrap(), 30);
    assert!(matches!(grow_batch_size_linear(0, 0, 1, 1, 1), Err(Error::Argument(_))));
}

#[test]
fn a_step_is_halved_until_it_fits() {
    let device = Simulated::new(1000);
    let mut probe = Probe::from_device(&device);
    let (begun, parts) = (Cell::new(0), RefCell::new(Vec::new()));
    let weights = [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0];
    let options = StepOptions::new().weights(&weights).begin(|| {
        begun.set(begun.get() + 1);
        parts.borrow_mut().clear();
        Ok(())
    });
    let fitted = step_in_chunks(&mut probe, 8, &options, |first, count, weight| {
        device.step(300 * count)?;
        parts.borrow_mut().push((first, count, (weight * 12.0).round()));
        Ok(())
    });
    assert_eq!((fitted.unwrap(), begun.get()), (2, 3));
    assert_eq!(*parts.borrow(), [(0, 2, 2.0), (2, 2, 2.0), (4, 2, 4.0), (6, 2, 4.0)]);
    let wrong =
        step_in_chunks(&mut probe, 7, &StepOptions::new().weights(&weights), |_, _, _| Ok(()));
    assert!(
        matches!(wrong, Err(Error::Argument(text)) if text.text().contains("weights.len() = 8"))
    );
    assert!(matches!(
        step_in_chunks(&mut probe, 4, &StepOptions::new(), |_, _, _| device.step(5000)),
        Err(Error::DeviceMemory(_))
    ));
}

#[test]
fn the_costliest_batches_are_run_first() {
    let plan = Plan::new(&lengths(), &PlanOptions::new().budget(2048.0)).unwrap();
    let device = Simulated::new(30_000);
    let mut probe = Probe::from_device(&device);
    let seen =
        plan.verify(&mut probe, 5, |batch| device.step(10 * batch.padded_total() as u64)).unwrap();
    assert!(seen.batches == 5 && seen.peak > 20_000 && seen.total == Some(30_000));
    let over = plan.verify(&mut probe, 5, |batch| device.step(20 * batch.padded_total() as u64));
    assert!(
        matches!(over, Err(Error::DeviceMemory(text)) if text.text().contains("samples padded to"))
    );
    assert_eq!(mine(plan.verify(&mut probe, 5, |_| Err(StepError::from(Mine(2))))), 2);
}

#[test]
fn a_guard_runs_the_batches_of_its_sampler_and_gives_it_back() {
    let plan = Plan::new(&lengths(), &PlanOptions::new().budget(2048.0)).unwrap();
    let device = Simulated::new(30_000);
    let probe = Probe::from_device(&device);
    let sampler = Sampler::bucket(&plan, &SamplerOptions::new()).unwrap();
    let mut guard = MemoryGuard::new(&probe, sampler, &GuardOptions::new()).unwrap();
    let mut samples = 0;
    while let Some(batch) = guard.next_batch() {
        let batch = batch.unwrap();
        let step = |_, count, _| device.step(10 * count * batch.padded_length[0] as u64);
        guard.step(&batch, &StepOptions::new(), step).unwrap();
        samples += batch.indices.len();
    }
    assert_eq!((samples, guard.info().out_of_memory), (20_000, 0));
    assert!(guard.info().peak.unwrap() > 15_000);
    let mut sampler = guard.into_sampler();
    sampler.set_budget(0, 700.0).unwrap();
    assert_eq!(sampler.budget(0).unwrap(), 700.0);
}

#[test]
fn a_guard_gives_errors_and_panics_back() {
    let plan = Plan::new(&lengths(), &PlanOptions::new().budget(2048.0)).unwrap();
    let device = Simulated::new(1_000_000);
    let probe = Probe::from_device(&device);
    let sampler = Sampler::bucket(&plan, &SamplerOptions::new()).unwrap();
    let options = GuardOptions::new().interval(1).reduce(|_| Err(Mine(8).into()));
    let mut guard = MemoryGuard::new(&probe, sampler, &options).unwrap();
    let batch = guard.next_batch().unwrap().unwrap();
    assert_eq!(
        mine(guard.step(&batch, &StepOptions::new(), |_, _, _| Err(StepError::from(Mine(1))))),
        1
    );
    assert_eq!(mine(guard.step(&batch, &StepOptions::new(), |_, _, _| device.step(10))), 8);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        guard.step(&batch, &StepOptions::new(), |_, _, _| panic!("chunk"))
    }));
    assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "chunk");
    guard.begin().unwrap();
    assert_eq!(mine(guard.end(&batch, true)), 8);
    let mut sampler = guard.into_sampler();
    sampler.next_batch().unwrap().unwrap();
    let fixed = Sampler::costliest(&plan, 1).unwrap();
    assert_refused!(MemoryGuard::new(&probe, fixed, &GuardOptions::new()), Unsupported, "plan's");
    let blind = Simulated::new(0);
    assert!(matches!(
        MemoryGuard::new(&Probe::from_device(&blind), sampler, &GuardOptions::new()),
        Err(Error::Argument(_))
    ));
}
