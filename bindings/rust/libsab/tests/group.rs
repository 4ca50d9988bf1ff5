//! Thresholds and groupings.

use std::ops::ControlFlow;
use std::panic::catch_unwind;

use libsab::{find_thresholds, Cost, Error, Grouping, Sizes, ThresholdsMethod, ThresholdsOptions};
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #[test]
    fn exact_thresholds_are_never_worse_than_randomised_ones(lengths in vec(1u32..50, 2..80), k in 1u64..6, seed: u64) {
        let mut distinct = lengths.clone();
        distinct.sort_unstable();
        distinct.dedup();
        prop_assume!(distinct.len() > 1);
        let k = k.min(distinct.len() as u64 - 1);
        let sizes = Sizes::borrowed(&lengths).unwrap();
        for cost in [Cost::padded(&[1.0]), Cost::quadratic(), Cost::polynomial(&[9.0, 1.0, 2.0])] {
            let find = |method| {
                let options = ThresholdsOptions::new().method(method).cost(cost.clone());
                let is_random = method == ThresholdsMethod::Randomised;
                let options = if is_random { options.num_trials(10).tolerate(30).seed(seed) } else { options };
                find_thresholds(&sizes, k, &options).unwrap()
            };
            let random = find(ThresholdsMethod::Randomised);
            prop_assert_eq!(random.even + random.repeated + random.not_tolerated + random.extreme + random.narrow, 10);
            prop_assert!(find(ThresholdsMethod::LeastTotal).total <= random.total);
            prop_assert!(find(ThresholdsMethod::LeastLargest).largest <= random.largest);
        }
    }

    #[test]
    fn a_grouping_goes_there_and_back(lengths in vec(0u16..40, 0..60), first in 0u16..20, second in 20u16..40) {
        let sizes = Sizes::borrowed(&lengths).unwrap();
        let thresholds = [f64::from(first), f64::from(second)];
        let grouping = Grouping::by_thresholds(&[(&sizes, &thresholds), (&sizes, &[10.0])]).unwrap();
        let interval = |i: i64| thresholds.iter().filter(|&&each| f64::from(lengths[i as usize]) > each).count() as i64;
        for (number, group) in grouping.groups().enumerate() {
            prop_assert!(!group.is_empty());
            for &i in group {
                prop_assert_eq!(grouping.group_of()[i as usize], number as i64);
                prop_assert_eq!(grouping.intervals(number).unwrap(), [interval(i), i64::from(lengths[i as usize] > 10)]);
            }
        }
        for (place, &i) in grouping.permutation().iter().enumerate() {
            prop_assert_eq!(grouping.inverse()[i as usize], place as i64);
        }
        prop_assert_eq!(*grouping.offsets().last().unwrap(), lengths.len() as i64);
        prop_assert!(grouping.intervals(grouping.groups().len()).is_none());
    }
}

#[test]
fn a_search_of_no_tolerance_ends_at_the_first_step_that_does_not_help() {
    let lengths: Vec<u32> = (0..200).map(|i| 1 + i * 7919 % 97).collect();
    let sizes = Sizes::borrowed(&lengths).unwrap();
    let options = || ThresholdsOptions::new().method(ThresholdsMethod::Randomised).num_trials(20);
    let ended = |options: &ThresholdsOptions<'_>| {
        find_thresholds(&sizes, 3, options).unwrap().not_tolerated
    };
    assert!(ended(&options().tolerate(0)) > ended(&options().tolerate(u64::MAX)));
    assert_eq!(ended(&options()), ended(&options().tolerate(2 * 97)));
}

#[test]
fn searches_begin_where_they_are_told() {
    let sizes = Sizes::borrowed(&[1, 2, 3, 4, 5]).unwrap();
    let one = |start: u64| {
        ThresholdsOptions::new().method(ThresholdsMethod::Randomised).num_trials(1).starts([start])
    };
    let found = find_thresholds(&sizes, 1, &one(0)).unwrap();
    assert_eq!((found.thresholds, found.largest_difference, found.repeated), (vec![3.0], 1.0, 1));
    assert!(
        matches!(find_thresholds(&sizes, 1, &one(5)), Err(Error::Argument(message)) if message.text().contains("starts[0] = 5"))
    );
    assert!(
        matches!(find_thresholds(&sizes, 2, &one(0)), Err(Error::Argument(message)) if message.text().contains("starts.len() = 1"))
    );
}

#[test]
fn closures_price_groups_and_may_fail() {
    let sizes = Sizes::borrowed(&[1, 2, 3, 4, 5]).unwrap();
    let mut asked = Vec::new();
    let cost = Cost::from_fn(|count, length| {
        asked.push((count, length));
        length
    });
    let options = ThresholdsOptions::new().cost_per_sample(true).cost(cost);
    assert_eq!(find_thresholds(&sizes, 2, &options).unwrap().total, 17.0); // 1, 2; 3; 4, 5
    drop(options);
    assert_eq!(asked, [(1, 1.0), (1, 2.0), (1, 3.0), (1, 4.0), (1, 5.0)]);
    let cost = Cost::try_from_fn(|_, _| Err("no price".into()));
    let failing = ThresholdsOptions::new().cost(cost);
    assert!(
        matches!(find_thresholds(&sizes, 2, &failing), Err(Error::Callback(error)) if error.to_string() == "no price")
    );
    let panicking = || {
        let cost = Cost::from_fn(|_, _| panic!("no price"));
        find_thresholds(&sizes, 2, &ThresholdsOptions::new().cost(cost))
    };
    assert_eq!(*catch_unwind(panicking).unwrap_err().downcast::<&str>().unwrap(), "no price");
    let stopped = ThresholdsOptions::new().progress(|_, _| ControlFlow::Break(()));
    assert!(matches!(find_thresholds(&sizes, 2, &stopped), Err(Error::Cancelled)));
    assert!(matches!(
        find_thresholds(&sizes, u64::MAX, &ThresholdsOptions::new()),
        Err(Error::Argument(_))
    ));
}

#[test]
fn given_groups() {
    let groups = |grouping: Result<Grouping, Error>| {
        grouping.unwrap().groups().map(<[i64]>::to_vec).collect::<Vec<_>>()
    };
    assert_eq!(groups(Grouping::uni(2)), [vec![0, 1]]);
    assert_eq!(groups(Grouping::predefined(&[2, 0, 2], 3)), [vec![1], vec![], vec![0, 2]]);
    assert_eq!(groups(Grouping::partition(&[2, 0, 1], &[2, 0, 1])), [vec![2, 0], vec![], vec![1]]);
    assert_eq!(groups(Grouping::consecutive(&[1, 2])), [vec![0], vec![1, 2]]);
    assert_eq!(groups(Grouping::predefined(&[], 0)), Vec::<Vec<i64>>::new());
    assert_eq!(Grouping::uni(2).unwrap().intervals(0), Some(&[][..]));
    assert_eq!(Grouping::uni(2).unwrap().intervals(usize::MAX), None);
    assert_eq!(format!("{:?}", Grouping::consecutive(&[1, 2]).unwrap()), "[[0], [1, 2]]");
    assert!(matches!(Grouping::partition(&[0, 1], &[1]), Err(Error::Argument(_))));
    assert!(matches!(Grouping::partition(&[0, 0], &[2]), Err(Error::Argument(_))));
    assert!(matches!(Grouping::predefined(&[1], 1), Err(Error::Argument(_))));
    assert!(matches!(Grouping::by_thresholds(&[]), Err(Error::Argument(_))));
}
