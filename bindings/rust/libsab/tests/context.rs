//! Samples that are split over ranks.

use std::ops::ControlFlow;

use libsab::{ContextGroups, ContextOptions, ContextPlan, Cost, Error, Sizes};

#[test]
fn the_plan_is_the_same_in_all_languages() {
    let lengths: Vec<u64> = (0..40).map(|i| 1 + i * i * 7919 % 9973).collect();
    let options =
        ContextOptions::new().cost(Cost::polynomial(&[0.0, 0.0, 1.0, 1.0 / 4096.0])).overhead(16.0);
    let plan = ContextPlan::new(&Sizes::borrowed(&lengths).unwrap(), 16, 1000, &options).unwrap();
    assert_eq!(plan.makespan(), 32_181.948_364_257_812);
    let places = (0..16).flat_map(|rank| plan.parts(rank));
    let places = places.map(|part| part.sample * 64 + u64::from(part.part));
    assert_eq!((1..).zip(places).map(|(i, place): (u64, u64)| i * place).sum::<u64>(), 41_329_840);
    assert!(plan.clone().parts(16).is_empty());
    assert!(format!("{plan:?}").starts_with("ContextPlan { world_size: 16, samples: 40"));
    assert!(plan.gap() > 0.0 && plan.lower_bound() <= plan.makespan());
    let three = Sizes::borrowed(&[220]).unwrap();
    let options = ContextOptions::new().groups(ContextGroups::AnyNumber);
    let plan = ContextPlan::new(&three, 3, 80, &options).unwrap();
    let parts: Vec<_> = (0..3).flat_map(|rank| plan.parts(rank)).collect();
    let tokens: u64 = parts
        .iter()
        .flat_map(|part| [&part.head, &part.tail])
        .map(|each| each.end - each.start)
        .sum();
    assert_eq!((parts.len(), parts[0].of, tokens), (3, 3, 220));
}

#[test]
fn wrong_arguments_are_refused() {
    let lengths = Sizes::borrowed(&[65, 10]).unwrap();
    let message = |world_size, budget, options: &ContextOptions<'_>| {
        ContextPlan::new(&lengths, world_size, budget, options).unwrap_err().to_string()
    };
    let options = ContextOptions::new();
    assert!(message(0, 8, &options).contains("world_size = 0: must be from 1 to 65536"));
    assert!(message(8, 0, &options).contains("budget = 0: must be from 1 to 2^53"));
    assert!(message(8, 8, &options).contains("lengths[0] = 65: must be at most 64"));
    assert!(message(9, 8, &options.overhead(-1.0)).contains("overhead = -1"));
}

#[test]
fn searches_can_be_cancelled() {
    let lengths = Sizes::borrowed(&[37, 20, 11, 5, 3, 2, 2, 1, 40, 9]).unwrap();
    let options = ContextOptions::new().overhead(0.7).progress(|_, _| ControlFlow::Break(()));
    let plan = ContextPlan::new(&lengths, 4, 16, &options);
    assert!(matches!(plan, Err(Error::Cancelled)));
}
