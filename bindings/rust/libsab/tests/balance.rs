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
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #[test]
    fn parts_hold_every_item_evenly(costs in vec(0u16..1000, 0..60), parts in 1u64..9, equal_counts: bool) {
        let mut costs: Vec<f64> = costs.into_iter().map(f64::from).collect();
        if equal_counts {
            costs.truncate(costs.len() / parts as usize * parts as usize);
        }
        let options = PartitionOptions::new().equal_counts(equal_counts);
        let part_of = partition(&costs, parts, &options).unwrap();
        let (mut sums, mut counts) = (vec![0.0; parts as usize], vec![0; parts as usize]);
        for (&part, cost) in part_of.iter().zip(&costs) {
            sums[part as usize] += cost;
            counts[part as usize] += 1;
        }
        let (total, most): (f64, f64) = (costs.iter().sum(), costs.iter().copied().fold(0.0, f64::max));
        if equal_counts {
            prop_assert!(counts.iter().all(|&count| count * parts as usize == costs.len()));
        } else {
            prop_assert!(sums.iter().all(|&sum| sum <= total / parts as f64 + most));
        }
    }
}

#[test]
fn several_costs_are_all_even_under_several_capacities() {
    let images: Vec<f64> = (0..512).map(|i| f64::from(1 + i * 7919 % 5)).collect();
    let tokens: Vec<f64> = (0..512).map(|i| f64::from(1 + i * 104_729 % 997)).collect();
    let limit = |numbers: &[f64]| 1.05 * numbers.iter().sum::<f64>() / 8.0;
    let options =
        PartitionOptions::new().capacity(&images, limit(&images)).capacity(&tokens, limit(&tokens));
    let part_of = partition_by(&[&images, &tokens], 8, &options).unwrap();
    for numbers in [&images, &tokens] {
        let mut sums = [0.0; 8];
        for (part, number) in part_of.iter().zip(numbers) {
            sums[*part as usize] += number;
        }
        let mean = numbers.iter().sum::<f64>() / 8.0;
        assert!(sums.iter().all(|sum| *sum < 1.01 * mean));
    }
    assert!(partition_by(&[&images, &tokens[1..]], 8, &PartitionOptions::new()).is_err());
    assert!(partition_by(&[], 8, &PartitionOptions::new()).is_err());
}

#[test]
fn capacity_is_kept_or_refused() {
    let weights: Vec<f64> = (0..64).map(|i| f64::from(1 + i * 7919 % 97)).collect();
    let costs: Vec<f64> = weights.iter().map(|weight| weight * weight).collect();
    let capacity = 1.1 * weights.iter().sum::<f64>() / 4.0;
    let part_of =
        partition(&costs, 4, &PartitionOptions::new().capacity(&weights, capacity)).unwrap();
    for part in 0..4 {
        let held: f64 = part_of
            .iter()
            .zip(&weights)
            .filter(|(&own, _)| own == part)
            .map(|(_, weight)| weight)
            .sum();
        assert!(held <= capacity);
    }
    let refused = |options: PartitionOptions<'_>| match partition(&costs, 4, &options) {
        Err(Error::Argument(message)) => message.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(refused(PartitionOptions::new().capacity(&weights, capacity / 1.2))
        .contains("the weights sum to"));
    assert!(refused(PartitionOptions::new().capacity(&weights[1..], capacity))
        .contains("weights.len() = 63: must be that of costs"));
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
fn ranks_cover_the_data_in_equal_steps() {
    let (balancing, mut steps, mut seen) =
        (BaguaOptions::new().random_level(0.2), Vec::new(), vec![0; 150]);
    for rank in 0..7 {
        let options = SamplerOptions::new().seed(3).rank(rank).world_size(7);
        let one_by_one = Sampler::bagua(&complexity(), &balancing, &options).unwrap();
        assert_eq!(one_by_one.batch_count().unwrap(), 22);
        let made = Sampler::bagua_batch(&complexity(), &balancing, &options, |samples| {
            Ok(uneven(samples))
        });
        let mut made = made.unwrap();
        steps.push(made.batch_count().unwrap());
        for batch in &mut made {
            batch.unwrap().indices.iter().for_each(|&index| seen[index as usize] += 1);
        }
    }
    assert!(steps.iter().all(|&each| each == steps[0]));
    assert!(seen.iter().all(|&times| times >= 1));
    let mut totals =
        Sampler::bagua_batch_with_budget(&complexity(), &balancing, 120.0, &SamplerOptions::new())
            .unwrap();
    for batch in &mut totals {
        assert!(batch.unwrap().total[0] <= 120.0);
    }
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
    let wrong = |_: &[i64]| Ok(vec![vec![150]]);
    let Err(Error::Argument(message)) =
        Sampler::bagua_batch(&complexity(), &balancing, &options, wrong)
    else {
        panic!("did not fail")
    };
    assert!(message.text().contains("indices[0] = 150"));
    let panics = |_: &[i64]| panic!("of the closure");
    assert!(catch_unwind(AssertUnwindSafe(|| Sampler::bagua_batch(
        &complexity(),
        &balancing,
        &options,
        panics
    )))
    .is_err());
}
