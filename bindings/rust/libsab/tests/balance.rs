//! Partitions, and the samplers that balance load.

mod common;

use std::cell::Cell;
use std::ops::ControlFlow;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};

use common::Mine;
use libsab::{
    partition, partition_by, BaguaOptions, Error, PartitionOptions, Sampler, SamplerOptions, Sizes,
};

#[test]
fn partitions_have_several_costs_capacities_and_equal_counts() {
    let images: Vec<f64> = (0..512).map(|i| f64::from(1 + i * 7919 % 5)).collect();
    let tokens: Vec<f64> = (0..512).map(|i| f64::from(1 + i * 104_729 % 997)).collect();
    let limit = |numbers: &[f64]| 1.05 * numbers.iter().sum::<f64>() / 8.0;
    let options =
        PartitionOptions::new().capacity(&images, limit(&images)).capacity(&tokens, limit(&tokens));
    let part_of = partition_by(&[&images, &tokens], 8, &options).unwrap();
    for numbers in [&images, &tokens] {
        let mut sums = [0.0; 8];
        part_of.iter().zip(numbers).for_each(|(&part, number)| sums[part as usize] += number);
        assert!(sums.iter().all(|sum| *sum <= limit(numbers)));
    }
    assert!(partition_by(&[&images, &tokens[1..]], 8, &PartitionOptions::new()).is_err());
    let short = PartitionOptions::new().capacity(&images[1..], 1e6);
    let Err(Error::Argument(message)) = partition(&tokens, 8, &short) else { panic!("was taken") };
    assert!(message.text().contains("weights.len() = 511: must be that of costs"));

    let equal = PartitionOptions::new().equal_counts(true);
    let part_of = partition(&[9.0, 1.0, 1.0, 1.0], 2, &equal).unwrap();
    assert_eq!(part_of.iter().filter(|&&part| part == part_of[0]).count(), 2);
}

#[test]
fn totals_of_batches_keep_their_budget() {
    let (balancing, options) = (BaguaOptions::new().random_level(0.2), SamplerOptions::new());
    let mut totals =
        Sampler::bagua_batch_with_budget(&complexity(), &balancing, 120.0, &options).unwrap();
    for batch in &mut totals {
        assert!(batch.unwrap().total[0] <= 120.0);
    }
}

#[test]
fn progress_follows_and_stops_a_partition() {
    let costs: Vec<f64> = (0..200_000).map(|i| f64::from(1 + i % 97)).collect();
    let calls = Cell::new(0);
    let stop = |_, _| {
        calls.set(calls.get() + 1);
        ControlFlow::Break(())
    };
    assert!(matches!(
        partition(&costs, 4, &PartitionOptions::new().progress(stop)),
        Err(Error::Cancelled)
    ));
    assert_eq!(calls.get(), 1);
    let go_on = |_, _| ControlFlow::Continue(());
    let followed = partition(&costs, 4, &PartitionOptions::new().progress(go_on)).unwrap();
    assert_eq!(followed, partition(&costs, 4, &PartitionOptions::new()).unwrap());
    let panics = |_, _| panic!("mine");
    let options = PartitionOptions::new().progress(panics);
    assert!(catch_unwind(AssertUnwindSafe(|| partition(&costs, 4, &options))).is_err());
}

/// Batches of 1, 2, 3, 1, ... samples.
fn uneven(mut samples: &[i64]) -> Vec<Vec<i64>> {
    let (mut batches, mut size) =
        (Vec::new(), 1 + samples.first().map_or(0, |&first| first as usize) % 3);
    while !samples.is_empty() {
        let (batch, rest) = samples.split_at(size.min(samples.len()));
        batches.push(batch.to_vec());
        (samples, size) = (rest, 1 + size % 3);
    }
    batches
}

fn complexity() -> Sizes<'static> {
    Sizes::from_fn(150, |index| (index * 7919 % 97) as f64).unwrap()
}

#[test]
fn a_closure_that_fails_changes_nothing() {
    let fails = AtomicBool::new(false);
    let make_batches = |samples: &[i64]| {
        if fails.load(Ordering::Relaxed) {
            Err(Mine(0).into())
        } else {
            Ok(uneven(samples))
        }
    };
    let (balancing, options) = (BaguaOptions::new(), SamplerOptions::new().world_size(2));
    let mut sampler =
        Sampler::bagua_batch(&complexity(), &balancing, &options, make_batches).unwrap();
    let first = sampler.next_batch().unwrap().unwrap();
    fails.store(true, Ordering::Relaxed);
    let Err(Error::Callback(error)) = sampler.set_epoch(1) else { panic!("did not fail") };
    assert!(error.is::<Mine>());
    assert_eq!(sampler.tell(), (0, 1));
    assert_eq!(sampler.at(0).unwrap().indices, first.indices);
    let Err(Error::Callback(error)) =
        Sampler::bagua_batch(&complexity(), &balancing, &options, make_batches)
    else {
        panic!("did not fail")
    };
    assert!(error.is::<Mine>());
    let panics = |_: &[i64]| panic!("of the closure");
    assert!(catch_unwind(AssertUnwindSafe(|| Sampler::bagua_batch(
        &complexity(),
        &balancing,
        &options,
        panics
    )))
    .is_err());
}
