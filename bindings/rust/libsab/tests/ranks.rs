//! Balanced steps, samples spread over ranks, and what ranks know of each other.

mod common;

use std::cell::Cell;
use std::net::TcpListener;
use std::ops::ControlFlow;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::process::Command;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use common::Mine;
use libsab::torch::TorchStore;
use libsab::{
    ranks_from_environment, ranks_from_mesh, BalancedOptions, BoxError, Budget, Cost, CostTerm,
    Error, PlanOptions, Sampler, SamplerOptions, Sizes, Tail,
};
use static_assertions::{assert_impl_all, assert_not_impl_any};

assert_impl_all!(TorchStore: Send);
assert_not_impl_any!(TorchStore: Sync, Clone);

/// Few long, many short.
fn skewed() -> Vec<u32> {
    (0..1500u32).map(|i| (1 + i * 7919 % 97) * if i % 23 == 0 { 8 } else { 1 }).collect()
}

fn on(rank: u64, world_size: u64) -> SamplerOptions<'static> {
    SamplerOptions::new().seed(11).rank(rank).world_size(world_size)
}

fn balanced(
    options: &BalancedOptions<'_>,
    rank: u64,
    world_size: u64,
) -> Result<Sampler<'static>, Error> {
    accumulating(options, rank, world_size, 1)
}

fn accumulating(
    options: &BalancedOptions<'_>,
    rank: u64,
    world_size: u64,
    micro_batches: u64,
) -> Result<Sampler<'static>, Error> {
    let on = on(rank, world_size).micro_batches(micro_batches);
    Sampler::balanced(&Sizes::borrowed(&skewed()).unwrap(), options, &on)
}

fn argument<T>(result: Result<T, Error>) -> String {
    match result.map(|_| ()) {
        Err(Error::Argument(message)) => message.to_string(),
        other => panic!("{other:?}"),
    }
}

// ---- balanced steps -----------------------------------------------------------------------------

#[test]
fn costs_of_all_kinds_are_even() {
    let terms = [CostTerm::new(4.0, 1, 1), CostTerm::new(1.0, 1, 2)];
    let options = || BalancedOptions::new().budget(4000.0);
    for options in [
        options(),
        options().balance(Cost::quadratic()),
        options().balance(Cost::polynomial(&[0.0, 0.0, 4.0, 1.0])),
        options().balance(Cost::terms(terms)),
        options().balance(Cost::from_fn(|_, length| length * length)),
        options().balance(Cost::padded(&[1.0])),
    ] {
        let report = balanced(&options, 0, 4).unwrap().report().unwrap();
        assert!(report.rank_imbalance < 1.03, "{report:?}");
        assert!(report.fill > 0.5 && report.fill <= 0.95);
    }
    let report = balanced(&BalancedOptions::new().samples(64), 0, 2).unwrap().report().unwrap();
    assert_eq!((report.steps, report.fill), (1500u64.div_ceil(64), 0.0));
}

#[test]
fn what_breaks_a_rule_is_refused() {
    let options = || BalancedOptions::new().budget(1000.0);
    assert!(argument(balanced(&BalancedOptions::new(), 0, 1))
        .contains("samples of a step, or a budget"));
    assert!(
        argument(accumulating(&options(), 0, 1, 1 << 32)).contains("micro_batches = 4294967296")
    );
    assert!(argument(balanced(&options().fill(1.5), 0, 1)).contains("fill = 1.5"));
    assert!(argument(balanced(&options().samples(3), 0, 4)).contains("samples = 3"));
    assert!(argument(balanced(&options().balance(Cost::terms([])), 0, 1)).contains("count = 0"));
    let several = options().budgets([1000.0.into(), Budget::new(-5.0)]);
    assert!(argument(balanced(&several, 0, 1)).contains("budgets[1] = -5"));
    let squares = Budget::new(1e6).cost(Cost::terms([CostTerm::new(1.0, 2, 1)]));
    assert!(argument(balanced(&options().budget(squares), 0, 1)).contains("budget.cost"));
    assert!(argument(balanced(&options(), 4, 4)).contains("rank = 4"));
    let skipping = BalancedOptions::new().budget(50.0);
    assert!(argument(balanced(&skipping, 0, 1)).contains("must fit budget = 50 alone"));
    let sampler = balanced(&BalancedOptions::new().budget(50.0).skip_oversize(), 0, 1).unwrap();
    assert_eq!(sampler.skipped_count(), skewed().iter().filter(|&&size| size > 50).count());
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
fn the_environment_says_who_is_who() {
    if std::env::var_os("SAB_SAYS_RANKS").is_some() {
        println!("<{:?}>", ranks_from_environment());
        return;
    }
    let said = |variables: &[(&str, &str)]| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "the_environment_says_who_is_who", "--nocapture"]);
        for pair in [
            ["RANK", "WORLD_SIZE"],
            ["SLURM_PROCID", "SLURM_NTASKS"],
            ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
            ["PMI_RANK", "PMI_SIZE"],
        ] {
            for name in pair {
                child.env_remove(name);
            }
        }
        let output =
            child.envs(variables.iter().copied()).env("SAB_SAYS_RANKS", "1").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text[text.find('<').unwrap() + 1..text.rfind('>').unwrap()].to_owned()
    };
    assert_eq!(said(&[]), "Ok((0, 1))");
    assert_eq!(said(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")]), "Ok((1, 2))");
    assert_eq!(
        said(&[("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("RANK", "3"), ("WORLD_SIZE", "8")]),
        "Ok((3, 8))"
    );
    assert!(said(&[("RANK", "3")]).contains("RANK = 3: the environment has no WORLD_SIZE"));
    assert!(said(&[("RANK", "8"), ("WORLD_SIZE", "8")])
        .contains("RANK = 8: must be below WORLD_SIZE = 8"));
}

#[test]
fn meshes_have_data_ranks() {
    for process in 0..64 {
        assert_eq!(
            ranks_from_mesh(&[2, 4, 8], &[false, true, false], process).unwrap(),
            (process / 8 % 4, 4)
        );
        assert_eq!(
            ranks_from_mesh(&[2, 4, 8], &[true, true, false], process).unwrap(),
            (process / 8, 8)
        );
    }
    assert!(argument(ranks_from_mesh(&[2, 4], &[true, true], 8)).contains("rank = 8"));
    assert!(argument(ranks_from_mesh(&[2, 4], &[true], 0)).contains("is_data.len() = 1"));
    assert!(argument(ranks_from_mesh(&[], &[], 0)).contains("axes = 0"));
    assert!(argument(ranks_from_mesh(&[2, 0], &[true, true], 0)).contains("shape[1] = 0"));
}

// ---- ranks as threads ---------------------------------------------------------------------------

/// Where ranks that are threads meet.
struct Group {
    barrier: Barrier,
    given: Mutex<Vec<Vec<u8>>>,
}

impl Group {
    #[allow(clippy::unnecessary_wraps)] // the type of a closure that gathers
    fn all_gather(&self, rank: u64, mine: &[u8], all: &mut [u8]) -> Result<(), BoxError> {
        self.given.lock().unwrap()[rank as usize] = mine.to_vec();
        self.barrier.wait();
        all.copy_from_slice(&self.given.lock().unwrap().concat());
        self.barrier.wait();
        Ok(())
    }
}

/// Runs every rank in a thread of its own.
fn on_all<T: Send>(world_size: u64, run: impl Fn(&Group, u64) -> T + Sync) -> Vec<T> {
    let ranks = world_size as usize;
    let group = Group { barrier: Barrier::new(ranks), given: Mutex::new(vec![Vec::new(); ranks]) };
    thread::scope(|scope| {
        let (group, run) = (&group, &run);
        let threads: Vec<_> =
            (0..world_size).map(|rank| scope.spawn(move || run(group, rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Uneven shards; that of rank 1 is empty.
fn shard(rank: u64, world_size: u64) -> Vec<u32> {
    let owner = |i: usize| if world_size == 1 { 0 } else { [0, 2, 0, 2, 2][i % 5] % world_size };
    skewed()
        .into_iter()
        .enumerate()
        .filter(|&(i, _)| owner(i) == rank)
        .map(|(_, size)| size)
        .collect()
}

fn sharded(
    group: &Group,
    rank: u64,
    world_size: u64,
    plan: &PlanOptions<'_>,
) -> Result<Sampler<'static>, Error> {
    let sizes = Sizes::copied(&shard(rank, world_size)).unwrap();
    let all_gather = |mine: &[u8], all: &mut [u8]| group.all_gather(rank, mine, all);
    Sampler::sharded(&sizes, plan, &on(rank, world_size), all_gather)
}

#[test]
fn shards_are_covered_in_equal_steps_of_one_bucket() {
    for world_size in [1, 2, 3] {
        let ranks = on_all(world_size, |group, rank| {
            let mut sampler =
                sharded(group, rank, world_size, &PlanOptions::new().budget(2000.0)).unwrap();
            sampler
                .check_ranks(rank, world_size, |mine, all| group.all_gather(rank, mine, all))
                .unwrap();
            let mut batches = Vec::new();
            while let Some(batch) = sampler.next_batch() {
                batches.push((batch.unwrap(), sampler.step().unwrap()));
            }
            sampler.seek(1).unwrap();
            let state = sampler.state().unwrap();
            sampler.set_epoch(1).unwrap();
            sampler.restore(&state).unwrap();
            assert_eq!(sampler.next_batch().unwrap().unwrap(), batches[1].0);
            batches
        });
        for (rank, batches) in (0..).zip(&ranks) {
            let sizes = shard(rank, world_size);
            let mut seen = vec![0; sizes.len()];
            for (batch, _) in batches {
                assert!(batch.padded_total() <= 2000.0);
                batch.indices.iter().for_each(|&index| seen[index as usize] += 1);
            }
            assert!(seen.iter().all(|&times| times == 1));
        }
        for step in 0..ranks[0].len() {
            let of_step: Vec<_> = ranks.iter().map(|batches| &batches[step]).collect();
            let samples: usize = of_step.iter().map(|(batch, _)| batch.indices.len()).sum();
            assert!(of_step.iter().all(|(_, step)| step.samples == samples as u64));
            let mut buckets: Vec<_> =
                of_step.iter().filter_map(|(batch, _)| batch.bucket).collect();
            buckets.dedup();
            assert_eq!(buckets.len(), 1);
            assert_eq!(of_step[0].1.total.is_some(), world_size == 1);
        }
        assert!(ranks.iter().all(|batches| batches.len() == ranks[0].len()));
    }
}

#[test]
fn shards_that_do_not_fit_together_are_refused_on_all_ranks() {
    for error in on_all(3, |group, rank| {
        sharded(group, rank, 3, &PlanOptions::new().budget(2000.0 + (rank / 2) as f64)).unwrap_err()
    }) {
        let Error::Mismatch(message) = error else { panic!("{error:?}") };
        assert!(message.text().contains("options"));
    }
    let errors = on_all(2, |group, rank| {
        let sizes = Sizes::copied(&[1i32, 2 - 3 * rank as i32]).unwrap();
        let all_gather = |mine: &[u8], all: &mut [u8]| group.all_gather(rank, mine, all);
        argument(Sampler::sharded(
            &sizes,
            &PlanOptions::new().budget(9.0),
            &on(rank, 2),
            all_gather,
        ))
    });
    assert!(errors[0].contains("rank 1") && errors[1].contains("sizes[1] = -1"));
    for message in on_all(2, |group, rank| {
        argument(sharded(group, rank, 2, &PlanOptions::new().budget(2000.0).tail(Tail::Drop)))
    }) {
        assert!(message.contains("tail"));
    }
}

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
    on_all(3, |group, rank| {
        let mut store =
            TorchStore::new("localhost", port, rank, 3, Duration::from_secs(60)).unwrap();
        let mut all = [0; 6];
        store.all_gather(&[rank as u8, 7], &mut all).unwrap();
        assert_eq!(all, [0, 7, 1, 7, 2, 7]);
        assert!(argument(store.all_gather(&[1], &mut all)).contains("all.len() = 6: must be 3"));
        let sizes = shard(rank, 3);
        let (sizes, plan) = (Sizes::borrowed(&sizes).unwrap(), &PlanOptions::new().budget(2000.0));
        let sampler = Sampler::sharded(&sizes, plan, &on(rank, 3), |mine, all| {
            Ok(store.all_gather(mine, all)?)
        })
        .unwrap();
        sampler.check_ranks(rank, 3, |mine, all| Ok(store.all_gather(mine, all)?)).unwrap();
        group.barrier.wait(); // rank 0 holds the store
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
