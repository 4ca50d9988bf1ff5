//! Thresholds and groupings.

use std::ops::ControlFlow;
use std::panic::catch_unwind;

use libsab::{find_thresholds, Cost, Error, Grouping, Sizes, ThresholdsMethod, ThresholdsOptions};

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
    let least = ThresholdsOptions::new().method(ThresholdsMethod::LeastLargest);
    let found = find_thresholds(&sizes, 1, &least).unwrap();
    assert_eq!((found.thresholds, found.largest), (vec![3.0], 10.0)); // 1, 2, 3; 4, 5
    let stopped = ThresholdsOptions::new().progress(|_, _| ControlFlow::Break(()));
    assert!(matches!(find_thresholds(&sizes, 2, &stopped), Err(Error::Cancelled)));
    assert!(matches!(
        find_thresholds(&sizes, u64::MAX, &ThresholdsOptions::new()),
        Err(Error::Argument(_))
    ));
}

#[test]
fn groups_by_two_lengths() {
    let sizes = Sizes::borrowed(&[3, 25, 12, 25, 11]).unwrap();
    let grouping = Grouping::by_thresholds(&[(&sizes, &[10.0, 20.0]), (&sizes, &[11.5])]).unwrap();
    let groups: Vec<_> = grouping.groups().collect();
    assert_eq!(groups, [&[0][..], &[4], &[2], &[1, 3]]);
    assert_eq!(grouping.group_of(), [0, 3, 2, 3, 1]);
    assert_eq!(grouping.intervals(2), Some(&[1, 1][..]));
    assert_eq!(
        (grouping.permutation(), grouping.offsets()),
        (&[0, 4, 2, 1, 3][..], &[0, 1, 2, 3, 5][..])
    );
    assert_eq!(grouping.inverse(), [0, 3, 2, 4, 1]);
    assert!(grouping.intervals(4).is_none());
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
    assert!(matches!(Grouping::by_thresholds(&[]), Err(Error::Argument(_))));
}
