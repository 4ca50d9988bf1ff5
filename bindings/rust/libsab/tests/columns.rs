//! Samples with several sizes: sizes, plans, rows and balanced steps of several columns.

#[macro_use]
mod common;

use std::ops::ControlFlow;

use libsab::{
    partition_by, BalancedOptions, BucketRule, Budget, Cost, CostTerm, PackedOptions,
    PartitionOptions, Plan, PlanOptions, Sampler, SamplerOptions, Sizes,
};

fn source() -> Vec<u32> {
    (0..2000).map(|i| 1 + i * 7919 % 60).collect()
}

fn target() -> Vec<f32> {
    (0..2000).map(|i| (1 + i * 104_729 % 83) as f32).collect()
}

fn pairs() -> Sizes<'static> {
    let (source, target) = (Sizes::from_vec(source()).unwrap(), Sizes::from_vec(target()).unwrap());
    Sizes::columns(&[("source", &source), ("target", &target)]).unwrap()
}

fn plan(options: &PlanOptions<'_>) -> Plan {
    Plan::new(&pairs(), options).unwrap()
}

#[test]
fn sizes_have_named_columns() {
    let sizes = pairs();
    let name = |text: &str| Some(text.to_string());
    assert_eq!((sizes.len(), sizes.column_count()), (2000, 2));
    assert_eq!(sizes.column_names(), [name("source"), name("target")]);
    assert_eq!(
        sizes.row(1999).unwrap()[..],
        [f64::from(source()[1999]), f64::from(target()[1999])]
    );
    let column: Vec<f32> =
        sizes.column_values(1).unwrap().into_iter().map(|size| size as f32).collect();
    assert_eq!(column, target());
    assert_refused!(sizes.get(0), Argument, "2 columns", "row()");
    assert_refused!(sizes.values(), Argument, "2 columns", "column_values()");
    assert_refused!(sizes.row(2000), Argument, "2000");
    assert_refused!(sizes.column_values(2), Argument, "column = 2");
    assert_eq!(Sizes::copied(&[7u8]).unwrap().column_names(), [None]);
}

#[test]
fn columns_that_do_not_fit_are_refused() {
    let (two, three) = (Sizes::copied(&[1u8, 2]).unwrap(), Sizes::copied(&[1u8, 2, 3]).unwrap());
    assert_refused!(Sizes::columns(&[("a", &two), ("b", &three)]), Argument, "3");
    assert_refused!(Sizes::columns(&[("a\0b", &two)]), Argument, "NUL");
    assert_refused!(Sizes::columns(&[]), Argument, "count = 0");
    let wrong = Sizes::copied(&[1.0, f64::NAN]).unwrap();
    let wrong = Sizes::columns(&[("good", &two), ("bad", &wrong)]).unwrap();
    assert_refused!(Plan::new(&wrong, &PlanOptions::new().budget(9.0)), Argument, "bad");
}

#[test]
fn batches_buckets_and_reports_have_a_number_for_each_column() {
    let multiples = PlanOptions::new().budget(2048.0).length_multiples([8.0, 4.0]);
    let made = plan(&multiples);
    assert_eq!((made.info().columns, made.column_names()), (2, pairs().column_names()));
    let (lengths, mut seen) =
        ([source(), target().into_iter().map(|size| size as u32).collect()], 0);
    for batch in &mut Sampler::bucket(&made, &SamplerOptions::new()).unwrap() {
        let batch = batch.unwrap();
        for (column, multiple) in [(0, 8.0), (1, 4.0)] {
            let sizes = batch.indices.iter().map(|&i| f64::from(lengths[column][i as usize]));
            assert_eq!(batch.total[column], sizes.clone().sum::<f64>());
            assert_eq!(batch.longest[column], sizes.fold(0.0, f64::max));
            let padded = (batch.longest[column] / multiple).ceil() * multiple;
            assert_eq!(batch.padded_length[column], padded);
        }
        let length = batch.padded_length[0] + batch.padded_length[1];
        assert_eq!(batch.padded_total(), batch.indices.len() as f64 * length);
        assert!(batch.padded_total() <= 2048.0);
        seen += batch.indices.len();
    }
    assert_eq!(seen, 2000);
    let report = made.report(&SamplerOptions::new()).unwrap();
    assert_eq!(report.padded_totals.iter().sum::<f64>(), report.padded_total);
    let buckets = made.buckets();
    let total = |column: usize| buckets.iter().map(|bucket| bucket.total[column]).sum::<f64>();
    assert_eq!(report.totals[..], [total(0), total(1)]);
    assert!(buckets.iter().all(|bucket| bucket.shortest[1] <= bucket.longest[1]));
}

#[test]
fn a_step_has_a_total_for_each_column() {
    let made = plan(&PlanOptions::new().budget(4096.0));
    let options = SamplerOptions::new().world_size(2).micro_batches(2);
    let mut sampler = Sampler::bucket(&made, &options).unwrap();
    let mut totals = [0.0; 2];
    while let Some(batch) = sampler.next_ref() {
        let first = batch.unwrap().micro_batch == 0;
        let of_step = sampler.step().unwrap().total.unwrap();
        if first {
            totals.iter_mut().zip(&*of_step).for_each(|(sum, each)| *sum += each);
        }
    }
    assert_eq!(totals[..], made.report(&SamplerOptions::new()).unwrap().totals[..]);
}

#[test]
fn costs_of_several_columns_are_kept() {
    let area = Cost::terms([CostTerm::of_columns(1.0, 1, [1, 1])]);
    let weighted = Cost::padded(&[1.0, 2.5]);
    let closure = Cost::from_columns_fn(|count, lengths, totals| {
        assert_eq!(totals[1], count as f64 * lengths[1]);
        count as f64 * (lengths[0] + 2.5 * lengths[1])
    });
    assert_eq!(area.evaluate_columns(2, &[3.0, 5.0]).unwrap(), 30.0);
    assert_eq!(weighted.evaluate_columns(2, &[3.0, 4.0]).unwrap(), 26.0);
    assert_eq!(closure.evaluate_columns(2, &[3.0, 4.0]).unwrap(), 26.0);
    assert_refused!(weighted.evaluate(2, 3.0), Argument, "columns");
    let one = Budget::new(4000.0).cost(Cost::from_fn(|count, length| count as f64 * length));
    let refused = Plan::new(&pairs(), &PlanOptions::new().budget(one)).unwrap_err();
    assert!(format!("{refused:?}").contains("from_columns_fn"), "{refused:?}");
    assert_refused!(Cost::padded(&[1.0; 9]).evaluate(1, 1.0), Argument, "columns = 9");
    assert_refused!(Cost::padded(&[]).evaluate(1, 1.0), Argument, "columns = 0");
}

#[test]
fn corners_are_the_ends_of_buckets() {
    let corners = vec![vec![0.0, 0.0], vec![30.0, 40.0], vec![61.0, 84.0]];
    let options = PlanOptions::new().batch_sizes([8, 4]);
    let made = plan(&options.clone().bucket_rule(BucketRule::Corners(corners)));
    let buckets = made.buckets();
    assert_eq!((buckets.len(), buckets[0].batch_size, buckets[1].batch_size), (2, 8, 4));
    assert_eq!(
        (buckets[0].lower[..].to_vec(), buckets[0].upper[..].to_vec()),
        (vec![0.0; 2], vec![30.0, 40.0])
    );
    assert!(buckets[0].longest[0] < 30.0 && buckets[0].longest[1] < 40.0);
    // The library reads as many numbers as the sizes have columns.
    let edges = options.clone().bucket_rule(BucketRule::Boundaries(vec![0.0, 30.0, 61.0]));
    assert_refused!(Plan::new(&pairs(), &edges), Argument, "boundaries[0]", "columns, 2");
    let ragged = vec![vec![0.0, 0.0], vec![61.0]];
    let ragged = options.clone().bucket_rule(BucketRule::Corners(ragged));
    assert_refused!(Plan::new(&pairs(), &ragged), Argument, "boundaries[1]");
    let three = PlanOptions::new().batch_size(4).length_multiples([8.0, 1.0, 2.0]);
    assert_refused!(Plan::new(&pairs(), &three), Argument, "length_multiples.len() = 3");
}

#[test]
fn ids_are_those_of_the_buckets() {
    let ids: Vec<i64> = (0..2000).map(|i| [7, -3, 11][i % 3]).collect();
    let options = PlanOptions::new().budget(2048.0).separate_by(ids.clone()).id_shapes([3, 4, 5]);
    let made = plan(&options);
    for batch in &mut Sampler::bucket(&made, &SamplerOptions::new()).unwrap() {
        let batch = batch.unwrap();
        let id = made.buckets()[batch.bucket.unwrap()].id;
        assert!(batch.indices.iter().all(|&index| ids[index as usize] == id));
    }
    let few = PlanOptions::new().budget(2048.0).separate_by([1, 2]);
    assert_refused!(Plan::new(&pairs(), &few), Argument, "separate_by.len() = 2");
}

#[test]
fn rows_keep_a_capacity_for_each_column() {
    let pack = PackedOptions::new().capacities([128, 200]).window(200).tries(5);
    let mut sampler = Sampler::packed(&pairs(), &pack, &SamplerOptions::new()).unwrap();
    let (lengths, mut seen) =
        ([source(), target().into_iter().map(|size| size as u32).collect()], 0);
    for batch in &mut sampler {
        let batch = batch.unwrap();
        assert_eq!(batch.padded_length[..], [128.0, 200.0]);
        let rows = batch.cu_seqlens.unwrap();
        for (column, ends) in rows.iter().enumerate() {
            let mut sum = 0;
            let expected = batch.indices.iter().map(|&i| {
                sum += lengths[column][i as usize] as i32;
                sum
            });
            assert_eq!(ends[1..], expected.collect::<Vec<_>>());
            assert!(f64::from(*ends.last().unwrap()) <= batch.padded_length[column]);
        }
        seen += batch.indices.len();
    }
    assert_eq!((seen, sampler.packed_info().unwrap().samples), (2000, 2000));
    let report = sampler.report().unwrap();
    assert_eq!((report.samples, report.steps), (2000, sampler.packed_info().unwrap().bins));
    assert_eq!(report.totals[0], f64::from(source().iter().sum::<u32>()));
    assert_eq!((report.rank_imbalance, report.costs.len()), (1.0, 1));
    let stopped = sampler.report_with_progress(|_, _| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(libsab::Error::Cancelled)), "{stopped:?}");
    let one = PackedOptions::new().capacities([128]);
    assert_refused!(
        Sampler::packed(&pairs(), &one, &SamplerOptions::new()),
        Argument,
        "capacities.len() = 1"
    );
}

#[test]
fn balanced_steps_have_a_cost_for_each_budget() {
    let each = |limit, weights: &[f64]| Budget::new(limit).cost(Cost::padded(weights));
    let balanced =
        BalancedOptions::new().budgets([each(1500.0, &[1.0]), each(2500.0, &[0.0, 1.0])]);
    let options = SamplerOptions::new().world_size(4);
    let mut sampler = Sampler::balanced(&pairs(), &balanced, &options).unwrap();
    let report = sampler.report().unwrap();
    assert_eq!(report.costs.len(), 2);
    assert!(report.costs.iter().all(|cost| cost.rank_imbalance < 1.05), "{report:?}");
    let batch = sampler.next_batch().unwrap().unwrap();
    assert!(batch.total[0] <= 1500.0 && batch.total[1] <= 2500.0);
    let (images, tokens) = (pairs().column_values(0).unwrap(), pairs().column_values(1).unwrap());
    let of_part = partition_by(&[&images, &tokens], 4, &PartitionOptions::new()).unwrap();
    assert_eq!((of_part.len(), of_part.iter().max()), (2000, Some(&3)));
}
