//! Closures: their errors come back, their panics go on, progress closures cancel, destructors stay
//! out of the library.

mod common;

use std::cell::Cell;
use std::error::Error as _;
use std::ops::ControlFlow;
use std::panic::{catch_unwind, panic_any, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::Mine;
use libsab::{
    BionemoOptions, BucketRule, Budget, Cost, Error, Plan, PlanOptions, Sampler, SamplerOptions,
    Sizes,
};

/// The caller's own error inside a result, also by way of `source`.
fn mine<T>(result: Result<T, Error>) -> usize {
    let Err(error) = result else { panic!("did not fail") };
    let number = error.source().unwrap().downcast_ref::<Mine>().unwrap().0;
    match error {
        Error::Callback(inner) => assert_eq!(*inner.downcast::<Mine>().unwrap(), Mine(number)),
        other => panic!("{other:?}"),
    }
    number
}

/// The payload of a panic, which must be a `usize`.
fn panic_of<T>(call: impl FnOnce() -> T) -> usize {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(_) => panic!("did not panic"),
        Err(payload) => *payload.downcast::<usize>().expect("the payload of the closure"),
    }
}

fn thousand() -> Sizes<'static> {
    Sizes::from_fn(1000, |index| (1 + index % 40) as f64).unwrap()
}

fn boundary_plan() -> Plan {
    let options =
        PlanOptions::new().bucket_rule(BucketRule::Boundaries(vec![0.0, 20.0, 41.0])).batch_size(4);
    Plan::new(&thousand(), &options).unwrap()
}

#[test]
fn size_closure_is_asked_once_in_order() {
    let asked = Cell::new(0);
    let sizes = Sizes::from_fn(100, |index| {
        assert_eq!(index, asked.replace(index + 1));
        index as f64
    });
    assert_eq!((asked.get(), sizes.unwrap().get(99).unwrap()), (100, 99.0));
}

#[test]
fn size_closure_error_comes_back() {
    assert_eq!(
        mine(Sizes::try_from_fn(10, |index| if index == 7 {
            Err(Mine(index).into())
        } else {
            Ok(1.0)
        })),
        7
    );
}

#[test]
fn size_closure_panic_goes_on() {
    let payload =
        panic_of(|| Sizes::from_fn(10, |index| if index == 3 { panic_any(33usize) } else { 1.0 }));
    assert_eq!(payload, 33);
}

#[test]
fn size_closure_bad_size_names_index_and_value() {
    let Err(Error::Argument(message)) =
        Sizes::from_fn(10, |index| if index == 5 { f64::NAN } else { 1.0 })
    else {
        panic!("NaN was taken")
    };
    let message = message.text();
    assert!(message.contains('5') && message.to_lowercase().contains("nan"), "{message}");
}

#[test]
fn cost_closure_error_comes_back() {
    let cost = Cost::try_from_fn(|_, _| Err(Mine(5).into()));
    assert_eq!(mine(cost.evaluate(1, 2.0)), 5);
    let options = PlanOptions::new().budget(Budget::new(100.0).cost(cost));
    assert_eq!(mine(Plan::new(&thousand(), &options)), 5);
}

#[test]
fn cost_closure_panic_goes_on() {
    let cost = Cost::from_fn(|_, _| panic_any(44usize));
    let options = PlanOptions::new().budgets([100.0.into(), Budget::new(100.0).cost(cost)]);
    assert_eq!(panic_of(|| Plan::new(&thousand(), &options)), 44);
}

#[test]
fn progress_closure_ends_at_all_and_cancels() {
    let last = Cell::new((0, 1));
    let options = PlanOptions::new().budget(300.0).progress(|done, total| {
        last.set((done, total));
        ControlFlow::Continue(())
    });
    Plan::new(&thousand(), &options).unwrap();
    assert_eq!(last.get().0, last.get().1);

    let stop = |_, _| ControlFlow::Break(());
    assert!(matches!(
        Plan::new(&thousand(), &PlanOptions::new().budget(300.0).progress(stop)),
        Err(Error::Cancelled)
    ));
    let plan = boundary_plan();
    assert!(matches!(
        plan.report_with_progress(&SamplerOptions::new(), stop),
        Err(Error::Cancelled)
    ));
    let sized = Sizes::try_from_fn_with_progress(1_000_000, |_| Ok(1.0), stop);
    assert!(matches!(sized, Err(Error::Cancelled)));
}

#[test]
fn progress_closure_panic_goes_on() {
    let options = PlanOptions::new().budget(300.0).progress(|_, _| panic_any(55usize));
    assert_eq!(panic_of(|| Plan::new(&thousand(), &options)), 55);
    let plan = boundary_plan();
    assert_eq!(
        panic_of(|| plan.report_with_progress(&SamplerOptions::new(), |_, _| panic_any(56usize))),
        56
    );
}

#[test]
fn stream_failure_keeps_the_batch_under_way() {
    let mut failures = 2;
    let mut stream = Sampler::bionemo_size_aware_stream(10.0, move |_, position| match position {
        0..=2 => Ok(Some((position as i64, 3.0))),
        3 if failures == 2 => {
            failures -= 1;
            Err(Mine(3).into())
        }
        3 if failures == 1 => {
            failures -= 1;
            panic_any(66usize)
        }
        3 => Ok(Some((30, 1.0))),
        _ => Ok(None),
    })
    .unwrap();
    assert_eq!(mine(stream.next_ref().unwrap()), 3);
    assert_eq!(panic_of(|| stream.next_batch().is_some()), 66);
    assert_eq!(stream.next_batch().unwrap().unwrap().indices, [0, 1, 2, 30]);
    assert!(stream.next_batch().is_none());
    assert!(stream.next_batch().is_none());
    stream.set_epoch(1).unwrap();
    assert_eq!(stream.next_batch().unwrap().unwrap().indices, [0, 1, 2, 30]);
}

#[test]
fn stream_of_a_closure_agrees_with_indices() {
    let lengths: Vec<f64> = (0..50).map(|i| f64::from(1 + i * 7 % 12)).collect();
    let mut stream = Sampler::bionemo_size_aware_stream(20.0, |epoch, position| {
        let index = (position + epoch) % 50;
        Ok((position < 50).then(|| (index as i64, lengths[index as usize])))
    })
    .unwrap();
    for epoch in 0..3 {
        stream.set_epoch(epoch).unwrap();
        let order: Vec<i64> = (0..50).map(|i| (i + epoch as i64) % 50).collect();
        let sizes = Sizes::borrowed(&lengths).unwrap();
        let mut sampler =
            Sampler::ordered(Some(&order), &sizes, 20.0, &SamplerOptions::new()).unwrap();
        let expected: Vec<_> = sampler.iter_mut().map(|batch| batch.unwrap().indices).collect();
        let batches: Vec<_> = stream.iter_mut().map(|batch| batch.unwrap().indices).collect();
        assert_eq!(batches, expected);
    }
}

#[test]
fn torch_size_closure_error_and_panic_come_back() {
    let plan = boundary_plan();
    let calls = AtomicUsize::new(0);
    let options =
        BionemoOptions::new().try_budget(60.0, |_| match calls.fetch_add(1, Ordering::Relaxed) {
            0 => Err(Mine(1).into()),
            1 => panic_any(77usize),
            _ => Ok(20.0),
        });
    let mut sampler = Sampler::bionemo(&plan, &options).unwrap();
    assert!(matches!(sampler.batch_count(), Err(Error::Unsupported(_))));
    assert_eq!(mine(sampler.next_batch().unwrap()), 1);
    assert_eq!(panic_of(|| sampler.next_batch().is_some()), 77);
    assert_eq!(sampler.next_batch().unwrap().unwrap().indices.len(), 3);
}

/// Counts its drops, or panics in them.
struct Noisy<'a>(&'a AtomicUsize, bool);

impl Drop for Noisy<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        if self.1 {
            panic_any(88usize);
        }
    }
}

fn noisy_stream(drops: &AtomicUsize, panics: bool, budget: f64) -> Result<Sampler<'_>, Error> {
    let noisy = Noisy(drops, panics);
    Sampler::bionemo_size_aware_stream(budget, move |_, _| {
        let _ = &noisy;
        Ok(None)
    })
}

#[test]
fn stream_closure_is_dropped_once_also_when_the_stream_is_refused() {
    let drops = AtomicUsize::new(0);
    drop(noisy_stream(&drops, false, 1.0).unwrap());
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    assert!(matches!(noisy_stream(&drops, false, -1.0), Err(Error::Argument(_))));
    assert_eq!(drops.load(Ordering::Relaxed), 2);
}

#[test]
fn panic_in_a_closures_destructor_goes_on() {
    let drops = AtomicUsize::new(0);
    let stream = noisy_stream(&drops, true, 1.0).unwrap();
    assert_eq!(panic_of(|| drop(stream)), 88);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
}

#[test]
fn text_with_nul_in_an_error_comes_back_whole() {
    let Err(Error::Callback(error)) = Sizes::try_from_fn(1, |_| Err("a\0b".into())) else {
        panic!("did not fail")
    };
    assert_eq!(error.to_string(), "a\0b");
}
