//! Who may cross threads, and that it works.

use std::thread;

use libsab::{Batch, BatchRef, Error, Plan, PlanOptions, Sampler, SamplerOptions, Sizes};
use static_assertions::{assert_impl_all, assert_not_impl_any};

assert_impl_all!(Sizes<'static>: Send, Sync);
assert_impl_all!(Plan: Send, Sync, Clone);
assert_impl_all!(Error: Send, Sync);
assert_impl_all!(BatchRef<'static>: Send, Sync);
assert_impl_all!(Sampler<'static>: Send);
assert_impl_all!(&mut Sampler<'static>: IntoIterator<Item = Result<Batch, Error>>);
assert_not_impl_any!(Sampler<'static>: Sync, Clone, Iterator);

fn walk(plan: &Plan, options: &SamplerOptions) -> Vec<i64> {
    let mut sampler = Sampler::bucket(plan, options).unwrap();
    sampler.iter_mut().flat_map(|batch| batch.unwrap().indices).collect()
}

#[test]
fn threads_share_a_plan() {
    let plan = Plan::new(
        &Sizes::from_fn(20_000, |i| (1 + i * 31 % 97) as f64).unwrap(),
        &PlanOptions::new().budget(700.0),
    )
    .unwrap();
    let expected = walk(&plan, &SamplerOptions::new().seed(3));
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..4).map(|_| scope.spawn(|| walk(&plan, &SamplerOptions::new().seed(3)))).collect();
        threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), expected));
    });
}

#[test]
fn a_sampler_outlives_its_plan_and_moves_to_another_thread() {
    let plan = Plan::new(
        &Sizes::from_fn(500, |i| (1 + i % 50) as f64).unwrap(),
        &PlanOptions::new().budget(200.0),
    )
    .unwrap();
    let expected = walk(&plan, &SamplerOptions::new());
    let mut sampler = Sampler::bucket(&plan, &SamplerOptions::new()).unwrap();
    let mut seen = sampler.next_batch().unwrap().unwrap().indices;
    drop(plan);
    let rest = thread::spawn(move || {
        let rest = std::iter::from_fn(|| sampler.next_batch());
        rest.flat_map(|batch| batch.unwrap().indices).collect::<Vec<_>>()
    });
    seen.extend(rest.join().unwrap());
    assert_eq!(seen, expected);
}

#[test]
fn a_message_belongs_to_the_thread_that_failed() {
    let failing = thread::spawn(|| Plan::open("/nowhere/there").unwrap_err().to_string());
    let here = Plan::open("/nowhere/here").unwrap_err().to_string();
    assert!(here.contains("/nowhere/here") && failing.join().unwrap().contains("/nowhere/there"));
}
