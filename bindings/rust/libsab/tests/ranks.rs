//! Balanced steps, samples spread over ranks, and what ranks know of each other.

mod common;

use std::cell::Cell;
use std::net::TcpListener;
use std::ops::ControlFlow;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use common::Mine;
use libsab::torch::TorchStore;
use libsab::{
    ranks_from_environment, ranks_from_mesh, BalancedOptions, Budget, Cost, CostTerm, Error,
    PlanOptions, Sampler, SamplerOptions, Sizes,
};
use static_assertions::{assert_impl_all, assert_not_impl_any};

assert_impl_all!(TorchStore: Send);
assert_not_impl_any!(TorchStore: Sync, Clone);

fn on(rank: u64, world_size: u64) -> SamplerOptions<'static> {
    SamplerOptions::new().seed(11).rank(rank).world_size(world_size)
}

fn balanced(
    options: &BalancedOptions<'_>,
    rank: u64,
    world_size: u64,
) -> Result<Sampler<'static>, Error> {
    let sizes = Sizes::from_fn(1500, |i| (1 + i * 7919 % 97) as f64)?;
    Sampler::balanced(&sizes, options, &on(rank, world_size))
}

fn argument<T>(result: Result<T, Error>) -> String {
    match result.map(|_| ()) {
        Err(Error::Argument(message)) => message.to_string(),
        other => panic!("{other:?}"),
    }
}

// ---- balanced steps -----------------------------------------------------------------------------

#[test]
fn reports_and_errors_of_balanced_steps() {
    let terms = [CostTerm::new(4.0, 1, 1), CostTerm::new(1.0, 1, 2)];
    let options = || BalancedOptions::new().budget(4000.0);
    for options in [options(), options().balance(Cost::terms(terms))] {
        let report = balanced(&options, 0, 4).unwrap().report().unwrap();
        assert!(report.rank_imbalance < 1.03, "{report:?}");
    }
    let several = options().budgets([1000.0.into(), Budget::new(-5.0)]);
    assert!(argument(balanced(&several, 0, 1)).contains("budgets[1] = -5"));
    let small = || BalancedOptions::new().budget(50.0);
    assert!(argument(balanced(&small(), 0, 1)).contains("must fit budget = 50 alone"));
    assert!(balanced(&small().skip_oversize(), 0, 1).unwrap().skipped_count() > 0);
}

#[test]
fn closures_come_back() {
    let calls = Cell::new(0);
    let options = || BalancedOptions::new().budget(1000.0);
    let fails = |_, length: f64| if length > 60.0 { Err(Mine(0).into()) } else { Ok(length) };
    let failing = options().balance(Cost::try_from_fn(fails));
    let Err(Error::Callback(error)) = balanced(&failing, 0, 1) else { panic!("did not fail") };
    assert!(error.is::<Mine>());
    let panicking = options().balance(Cost::from_fn(|_, _| panic!("of the closure")));
    let panics = || balanced(&panicking, 0, 1);
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    let stops = options().progress(|done, total| {
        assert!(done <= total);
        calls.set(calls.get() + 1);
        ControlFlow::Break(())
    });
    assert!(matches!(balanced(&stops, 0, 1), Err(Error::Cancelled)));
    assert_eq!(calls.get(), 1);
    let mut sampler = balanced(&options(), 0, 1).unwrap();
    assert!(matches!(
        sampler.report_with_progress(|_, _| ControlFlow::Break(())),
        Err(Error::Cancelled)
    ));
    assert_eq!(
        sampler.report_with_progress(|_, _| ControlFlow::Continue(())).unwrap(),
        sampler.report().unwrap()
    );
    assert_eq!(sampler.tell(), (0, 0));
}

// ---- who is who ---------------------------------------------------------------------------------

#[test]
fn environments_and_meshes_have_ranks() {
    let is_launched = ["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"]
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    assert!(is_launched || ranks_from_environment().unwrap() == (0, 1));
    assert_eq!(ranks_from_mesh(&[2, 4, 8], &[false, true, false], 21).unwrap(), (2, 4));
    assert!(argument(ranks_from_mesh(&[2, 4], &[true, true], 8)).contains("rank = 8"));
    assert!(argument(ranks_from_mesh(&[2, 4], &[true], 0)).contains("is_data.len() = 1"));
}

// ---- closures that gather -----------------------------------------------------------------------

#[test]
fn closures_of_ranks_come_back() {
    let (sizes, plan) = (Sizes::copied(&[3u8, 1, 2]).unwrap(), || PlanOptions::new().budget(6.0));
    let make = |plan: PlanOptions<'_>, fails_at: usize, panics: bool| {
        let mut calls = 0;
        Sampler::sharded(&sizes, &plan, &on(0, 1), move |mine, all| {
            calls += 1;
            assert!(!panics || calls < fails_at, "of the closure");
            if calls == fails_at {
                return Err(Mine(0).into());
            }
            assert_eq!(all, vec![0; mine.len()]);
            all.copy_from_slice(mine);
            Ok(())
        })
    };
    let sampler = make(plan(), 0, false).unwrap();
    for call in 1..=4 {
        let Err(Error::Callback(error)) = make(plan(), call, false) else { panic!("did not fail") };
        assert!(error.is::<Mine>());
        assert!(catch_unwind(AssertUnwindSafe(|| make(plan(), call, true))).is_err());
    }
    let failing = Budget::new(500.0).cost(Cost::try_from_fn(|_, _| Err(Mine(0).into())));
    let Err(Error::Callback(error)) = make(plan().budget(failing), 0, false) else {
        panic!("did not fail")
    };
    assert!(error.is::<Mine>());
    assert!(matches!(
        make(plan().progress(|_, _| ControlFlow::Break(())), 0, false),
        Err(Error::Cancelled)
    ));
    let Err(Error::Callback(error)) = sampler.check_ranks(0, 1, |_, _| Err(Mine(0).into())) else {
        panic!("did not fail")
    };
    assert!(error.is::<Mine>());
    let panics = |_: &[u8], _: &mut [u8]| panic!("of the closure");
    assert!(catch_unwind(AssertUnwindSafe(|| sampler.check_ranks(0, 1, panics))).is_err());
    let gathers = |mine: &[u8], all: &mut [u8]| {
        all.copy_from_slice(mine);
        Ok(())
    };
    sampler.check_ranks(0, 1, gathers).unwrap();
    let Err(Error::Mismatch(message)) = sampler.check_ranks(0, 1, |_, _| Ok(())) else {
        panic!("nothing was gathered")
    };
    assert!(message.text().contains("slot 0 of 1 does not hold"));
    assert!(argument(sampler.check_ranks(1, 1, gathers)).contains("rank = 1"));
    assert!(argument(sampler.check_ranks(0, 0, gathers)).contains("world_size = 0"));
}

// ---- ranks at a store ---------------------------------------------------------------------------

/// Where `SAB_TORCH_LIBRARY` names the LibTorch component.
#[test]
fn ranks_meet_at_a_store() {
    let second = Duration::from_secs(1);
    assert!(argument(TorchStore::new("local\0host", 1, 0, 1, second)).contains("NUL"));
    assert!(argument(TorchStore::new("localhost", 1, 1, 1, second)).contains("rank = 1"));
    assert!(argument(TorchStore::new("localhost", 1, 0, 1, Duration::ZERO)).contains("timeout = 0"));
    assert!(matches!(TorchStore::new("localhost", 1, 0, 1, second), Err(Error::Unsupported(_))));
    if std::env::var_os("SAB_TORCH_LIBRARY").is_none() {
        eprintln!("SAB_TORCH_LIBRARY is not set: nothing to open");
        return;
    }
    libsab::torch::open(None).unwrap();
    let port = TcpListener::bind("localhost:0").unwrap().local_addr().unwrap().port();
    let barrier = Barrier::new(3);
    let meet = |rank: u64| {
        let mut store =
            TorchStore::new("localhost", port, rank, 3, Duration::from_secs(60)).unwrap();
        let mut all = [0; 6];
        store.all_gather(&[rank as u8, 7], &mut all).unwrap();
        assert_eq!(all, [0, 7, 1, 7, 2, 7]);
        assert!(argument(store.all_gather(&[1], &mut all)).contains("all.len() = 6: must be 3"));
        let sizes = Sizes::from_fn(200 + rank as usize, |i| (1 + i % 50) as f64).unwrap();
        let plan = &PlanOptions::new().budget(2000.0);
        let sampler = Sampler::sharded(&sizes, plan, &on(rank, 3), |mine, all| {
            Ok(store.all_gather(mine, all)?)
        })
        .unwrap();
        sampler.check_ranks(rank, 3, |mine, all| Ok(store.all_gather(mine, all)?)).unwrap();
        barrier.wait(); // rank 0 holds the store
    };
    thread::scope(|scope| {
        for rank in 0..3 {
            let meet = &meet;
            scope.spawn(move || meet(rank));
        }
    });
    let port = TcpListener::bind("localhost:0").unwrap().local_addr().unwrap().port();
    let mut alone = TorchStore::new("localhost", port, 0, 2, second).unwrap();
    let Err(Error::Timeout(message)) = alone.all_gather(&[1], &mut [0; 2]) else {
        panic!("somebody came")
    };
    assert!(message.text().contains("rank 1 of 2 did not come"));
    let sampler = balanced(&BalancedOptions::new().samples(60), 0, 2).unwrap();
    let Err(Error::Callback(error)) =
        sampler.check_ranks(0, 2, |mine, all| Ok(alone.all_gather(mine, all)?))
    else {
        panic!("somebody came")
    };
    assert!(matches!(error.downcast_ref(), Some(Error::Timeout(_))));
}
