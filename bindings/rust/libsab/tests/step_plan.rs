//! Step plans: their rules, the golden vectors, and what is refused.

#[macro_use]
mod common;

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use libsab::{
    Budget, Cost, Error, Layout, LossWeighting, MicroBatchOrder, Sizes, StepPlan, StepPlanOptions,
};

/// The lines of a case, and the plan that they say.
#[derive(Default)]
struct Case {
    sizes: Vec<Vec<u32>>,
    budgets: Vec<Budget<'static>>,
    groups: Vec<i64>,
    options: StepPlanOptions<'static>,
    expected: Vec<Vec<i64>>,
}

fn numbers<T: std::str::FromStr>(words: &[&str]) -> Vec<T> {
    words
        .iter()
        .map(|word| word.parse().unwrap_or_else(|_| panic!("not a number: {word}")))
        .collect()
}

impl Case {
    fn read(&mut self, words: &[&str]) {
        let options = std::mem::take(&mut self.options);
        let rest = &words[1..];
        let count = || numbers::<u64>(rest)[0];
        self.options = match words[0] {
            "world_size" => options.world_size(count()),
            "micro_batches" => options.micro_batches(count()),
            "multiple" => options.multiple(count()),
            "layout" => options.layout(Layout::Padded),
            "order" if rest == ["bell"] => options.order(MicroBatchOrder::Bell),
            "order" => options.order(MicroBatchOrder::Ascending),
            "balance" => options.balance(Cost::quadratic()),
            "prefix" => options.prefix(numbers::<i64>(rest)),
            "parents" => options.parents(numbers::<i64>(rest)),
            "whole_groups" => options.whole_groups(true),
            _ => options,
        };
        match words[0] {
            "sizes" => self.sizes.push(numbers(rest)),
            "groups" => self.groups = numbers(rest),
            "budget" => {
                let budget = Budget::new(numbers::<f64>(&rest[..1])[0]);
                let is_square = rest.len() > 1;
                self.budgets.push(if is_square { budget.cost(Cost::quadratic()) } else { budget });
            }
            "plan" | "indices" | "offsets" | "segments" => self.expected.push(numbers(rest)),
            _ => {}
        }
    }

    fn check(self, name: &str) {
        let Case { sizes, budgets, groups, options, expected } = self;
        let columns: Vec<_> = sizes.iter().map(|each| Sizes::borrowed(each).unwrap()).collect();
        let last = columns.last().unwrap();
        let both = Sizes::columns(&[("first", &columns[0]), ("second", last)]).unwrap();
        let mut options = options.budgets(budgets);
        if !groups.is_empty() {
            options = options.groups(groups);
        }
        let plan = StepPlan::new(if columns.len() == 1 { last } else { &both }, &options).unwrap();
        assert_eq!(vec![plan.micro_batches() as i64], expected[0], "{name}");
        assert_eq!(plan.indices(), expected[1], "{name}");
        let offsets: Vec<_> = plan.offsets().iter().map(|&offset| offset as i64).collect();
        assert_eq!(offsets, expected[2], "{name}");
        let index = |number: Option<usize>| number.map_or(-1, |each| each as i64);
        let segments: Vec<i64> = (0..plan.world_size())
            .flat_map(|rank| plan.segments(rank).unwrap_or_default().concat())
            .flat_map(|each| {
                let places = [each.position, each.offset, each.length].map(|place| place as i64);
                let nodes = [index(each.node), each.sample as i64, index(each.parent)];
                [nodes, places].concat()
            })
            .collect();
        assert_eq!(segments, expected.get(3).cloned().unwrap_or_default(), "{name}");
    }
}

#[test]
fn golden_vectors_agree() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/golden/steps/step_plans.txt");
    let (mut case, mut name, mut cases) = (Case::default(), String::new(), 0);
    for line in fs::read_to_string(path).unwrap().lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.first().copied() {
            None | Some("#") => {}
            Some("case") => (case, name) = (Case::default(), words[1].to_owned()),
            Some("end") => {
                std::mem::take(&mut case).check(&name);
                cases += 1;
            }
            Some(_) => case.read(&words),
        }
    }
    assert!(cases > 10);
}

#[test]
fn rows_have_cumulative_lengths_and_measures() {
    let sizes = Sizes::copied(&[7u32, 2, 5, 3, 6, 1]).unwrap();
    let options = StepPlanOptions::new().world_size(2).budget(8.0).balance(Cost::quadratic());
    let plan = StepPlan::new(&sizes, &options).unwrap();
    let cu_seqlens = plan.cu_seqlens(0).unwrap();
    assert_eq!(cu_seqlens.len(), 6 + plan.costs().len());
    assert_eq!(cu_seqlens.iter().filter(|&&each| each == 0).count(), plan.costs().len());
    assert!(plan.cu_seqlens(1).is_none());
    assert!(plan.rank_imbalance()[0] >= plan.least_rank_imbalance()[0]);
    assert!(plan.micro_step_imbalance()[0] >= plan.rank_imbalance()[0]);
    assert_eq!(plan.world_size(), 2);
    assert!(plan.rank(2).is_none() && plan.rank(u64::MAX).is_none());
    for (sample, &place) in plan.inverse().iter().enumerate() {
        assert_eq!(plan.indices()[place as usize], sample as i64);
    }
    assert!(format!("{plan:?}").contains("micro_batches: 2"));
    let padded = StepPlan::new(&sizes, &options.layout(Layout::Padded)).unwrap();
    assert!(padded.cu_seqlens(0).is_none());
}

#[test]
fn loss_weights_sum_to_one() {
    let sizes = Sizes::copied(&[1u32, 2, 3, 4]).unwrap();
    let options = StepPlanOptions::new().world_size(2).budget(10.0).groups([7, -1, 7, 7]);
    let plan = StepPlan::new(&sizes, &options).unwrap();
    assert_eq!(plan.loss_weights(LossWeighting::Sample, None).unwrap(), [0.25; 4]);
    assert_eq!(plan.loss_weights(LossWeighting::Token, None).unwrap(), [0.1, 0.2, 0.3, 0.4]);
    assert_eq!(plan.loss_weights(LossWeighting::Group, None).unwrap()[1], 0.5);
    let responses = [0.0, 1.0, 1.0, 2.0];
    let weights = plan.loss_weights(LossWeighting::Token, Some(&responses)).unwrap();
    assert_eq!(weights, [0.0, 0.25, 0.25, 0.5]);
    let few = plan.loss_weights(LossWeighting::Token, Some(&[1.0]));
    assert_refused!(few, Argument, "tokens.len() = 1: must be the number of samples, 4");
    let none = plan.loss_weights(LossWeighting::Token, Some(&[0.0; 4]));
    assert_refused!(none, Argument, "their sum is 0");
}

#[test]
fn shared_tokens_have_segments() {
    let sizes = Sizes::copied(&[7u32, 9, 6]).unwrap();
    let options =
        StepPlanOptions::new().world_size(1).budget(16.0).groups([0, 0, 1]).prefix([5, 5, 0]);
    let plan = StepPlan::new(&sizes, &options).unwrap();
    let lengths: Vec<Vec<_>> = plan
        .segments(0)
        .unwrap()
        .iter()
        .map(|each| each.iter().map(|each| each.length).collect())
        .collect();
    assert_eq!(lengths, [vec![5, 2, 4], vec![6]]);
    assert_eq!(plan.cu_seqlens(0).unwrap(), [0, 5, 7, 11, 0, 6]);
    assert!(plan.segments(1).is_none());
    let without = StepPlan::new(&sizes, &StepPlanOptions::new().budget(16.0)).unwrap();
    assert!(without.segments(0).is_none());
    let forest = StepPlan::new(&sizes, &StepPlanOptions::new().budget(30.0).parents([-1, 0, 0]));
    let weights = forest.unwrap().loss_weights(LossWeighting::Sample, None).unwrap();
    assert_eq!(weights, [0.0, 0.5, 0.5]);
}

#[test]
fn bad_input_is_refused() {
    let sizes = Sizes::copied(&[9u32, 4]).unwrap();
    let options = StepPlanOptions::new;
    let plan = |options: StepPlanOptions<'_>| StepPlan::new(&sizes, &options);
    assert_refused!(plan(options().budget(8.0)), Argument, "sizes[0] = 9: must fit");
    assert_refused!(plan(options().budget(9.0).groups([1])), Argument, "groups.len() = 1");
    assert_refused!(plan(options().budget(9.0).prefix([1])), Argument, "prefix.len() = 1");
    assert_refused!(plan(options().budget(9.0).prefix([1, 1])), Argument, "groups must be given");
    let negative = Cost::from_fn(|_, _| -1.0);
    assert_refused!(plan(options().budget(9.0).balance(negative)), Argument, "not negative");
    let stopped = plan(options().budget(9.0).progress(|_, _| ControlFlow::Break(())));
    assert!(matches!(stopped, Err(Error::Cancelled)));
}
