//! Samplers as Rust shows them. What holds for every plan and order (coverage, equal steps, budgets,
//! states on other ranks) is tested in C: `tests/c/sampler_test.c` and the files beside it.

#[macro_use]
mod common;

use libsab::{
    Cost, Error, Mixture, MixtureOptions, PackedOptions, Plan, PlanOptions, Sampler,
    SamplerOptions, Sizes,
};

fn lengths() -> Vec<u16> {
    (0..60).map(|i| 1 + i * 7 % 30).collect()
}

fn plan() -> Plan {
    Plan::new(&Sizes::borrowed(&lengths()).unwrap(), &PlanOptions::new().budget(100.0)).unwrap()
}

fn bucket(options: &SamplerOptions) -> Sampler<'static> {
    Sampler::bucket(&plan(), options).unwrap()
}

#[test]
fn batches_and_steps_show_their_numbers() {
    let (lengths, plan) = (lengths(), plan());
    let options = SamplerOptions::new().seed(3).epoch(5).micro_batches(2).world_size(2);
    let mut ranks = [0, 1].map(|rank| Sampler::bucket(&plan, &options.clone().rank(rank)).unwrap());
    let count = ranks[0].batch_count().unwrap();
    let mut seen = vec![0; lengths.len()];
    for position in 0..count {
        let mut steps = Vec::new();
        for rank in &mut ranks {
            assert_eq!((rank.batch_count().unwrap(), rank.tell()), (count, (5, position)));
            let batch = rank.next_ref().unwrap().unwrap();
            let sizes = batch.indices.iter().map(|&index| f64::from(lengths[index as usize]));
            assert_eq!(batch.total[0], sizes.clone().sum::<f64>());
            assert_eq!(batch.longest[0], sizes.fold(0.0, f64::max));
            assert_eq!(batch.padded_total(), batch.indices.len() as f64 * batch.padded_length[0]);
            assert_eq!((batch.epoch, batch.step), (5, position / 2));
            assert_eq!((batch.micro_batch, batch.cu_seqlens), (position % 2, None));
            assert!(batch.padded_total() <= 100.0);
            let bucket = batch.bucket.map(|bucket| plan.buckets()[bucket]);
            assert!(bucket.map_or(true, |bucket| bucket.longest[0] >= batch.longest[0]));
            batch.indices.iter().for_each(|&index| seen[index as usize] += 1);
            steps.push(rank.step().unwrap());
        }
        assert_eq!(steps[0], steps[1]);
        assert!(steps[0].micro_batches <= 2 && steps[0].total.unwrap()[0] > 0.0);
    }
    assert!(ranks.iter_mut().all(|rank| rank.next_batch().is_none()));
    assert!(seen.iter().all(|&times| times == 1));
}

#[test]
fn a_balance_is_the_cost_that_ranks_have_in_common() {
    let plan = plan();
    let order = || SamplerOptions::new().seed(3).world_size(4);
    let squares = Cost::from_fn(|count, length| count as f64 * length * length);
    for balance in [Cost::quadratic(), squares, Cost::transformer(64, 2).unwrap()] {
        let options = order().balance(balance);
        let report = plan.report(&options).unwrap();
        assert!(report.rank_imbalance >= 1.0);
        assert!(report.least_step_samples < report.most_step_samples);
        assert!(report.step_samples_deviation > 0.0);
        let state = bucket(&options).state().unwrap();
        assert!(matches!(bucket(&order()).restore(&state), Err(Error::Mismatch(_))));
        bucket(&options).restore(&state).unwrap();
    }
    let model = Cost::transformer(64, 2).unwrap();
    assert_eq!(model.evaluate(3, 10.0).unwrap(), 2.0 * (24.0 * 3e1 * 4096.0 + 4.0 * 3e2 * 64.0));
    assert!(matches!(Cost::transformer(0, 2), Err(Error::Argument(_))));
    let fails = Cost::try_from_fn(|_, _| Err("no".into()));
    assert!(matches!(Sampler::bucket(&plan, &order().balance(fails)), Err(Error::Callback(_))));
}

#[test]
fn states_go_on_and_at_and_seek_find_batches() {
    let mut sampler = bucket(&SamplerOptions::new());
    let count = sampler.batch_count().unwrap() as usize;
    assert_eq!(sampler.iter_mut().size_hint(), (count, Some(count)));
    let walked: Vec<_> = sampler.iter_mut().map(Result::unwrap).collect();
    for (position, batch) in (0..).zip(&walked) {
        assert_eq!(sampler.at(position).unwrap().into_owned(), *batch);
        let state = sampler.state_at(position).unwrap();
        sampler.seek(position).unwrap();
        assert_eq!(sampler.state().unwrap(), state);
        let mut resumed = bucket(&SamplerOptions::new());
        resumed.restore(&state).unwrap();
        assert_eq!(resumed.iter_mut().size_hint().0, count - position as usize);
        assert_eq!(resumed.next_batch().unwrap().unwrap(), *batch);
    }
}

/// The table of decision 3, as `for batch in &mut sampler` follows it.
#[test]
fn a_second_loop_is_the_next_epoch_or_the_same_one_from_its_start() {
    let pass = |sampler: &mut Sampler<'_>, count: usize| {
        sampler.iter_mut().take(count).map(|batch| batch.unwrap().indices).collect::<Vec<_>>()
    };
    let epoch = |number| pass(&mut bucket(&SamplerOptions::new().epoch(number)), usize::MAX);
    let (first, second) = (epoch(0), epoch(1));
    assert!(first.len() > 4 && first != second);

    let mut sampler = bucket(&SamplerOptions::new());
    assert!(pass(&mut sampler, 0).is_empty());
    assert_eq!(pass(&mut sampler, 2), first[..2]);
    let middle = sampler.state().unwrap();
    assert_eq!(pass(&mut sampler, usize::MAX), first);
    assert!(sampler.next_batch().is_none());
    assert_eq!(pass(&mut sampler, usize::MAX), second);
    sampler.restore(&middle).unwrap();
    assert_eq!(pass(&mut sampler, usize::MAX), first[2..]);
}

#[test]
fn blocks_are_the_batches() {
    let mut sampler = bucket(&SamplerOptions::new());
    let mut other = bucket(&SamplerOptions::new());
    while let Some(block) = sampler.next_block(3) {
        let block = block.unwrap();
        assert!((1..=3).contains(&block.len()));
        for i in 0..block.len() {
            let batch = other.next_ref().unwrap().unwrap();
            assert_eq!(block.samples(i), batch.indices);
            assert_eq!((block.longest[i], block.total[i]), (batch.longest[0], batch.total[0]));
            assert_eq!(block.step[i], batch.step);
            let weights = (batch.sample_weight, batch.token_weight[0]);
            assert_eq!((block.sample_weight[i], block.token_weight[i]), weights);
            assert_eq!(block.bucket[i], batch.bucket.map_or(-1, |bucket| bucket as i64));
        }
    }
    assert!(other.next_ref().is_none());
    sampler.set_epoch(0).unwrap();
    assert!(matches!(sampler.next_block(0), Some(Err(libsab::Error::Argument(_)))));

    let lengths = lengths();
    let (sizes, pack) = (Sizes::borrowed(&lengths).unwrap(), PackedOptions::new().capacity(100));
    let packed = || Sampler::packed(&sizes, &pack, &SamplerOptions::new()).unwrap();
    let (mut rows, mut others) = (packed(), packed());
    while let Some(block) = rows.next_block(3) {
        let block = block.unwrap();
        for i in 0..block.len() {
            let batch = others.next_ref().unwrap().unwrap();
            let begin = block.offsets[i] as usize + i;
            let ends = &block.cu_seqlens.unwrap()[0][begin..=begin + batch.indices.len()];
            assert_eq!(ends, batch.cu_seqlens.unwrap()[0]);
        }
    }
}

#[test]
fn what_a_sampler_does_not_support_is_refused() {
    let mut sampler = bucket(&SamplerOptions::new());
    let can = sampler.capabilities();
    assert!(can.batch_count && can.random_access && can.budget && can.schedule);
    assert_refused!(sampler.packed_info(), Argument, "sampler");
    assert_refused!(sampler.report(), Argument, "sampler");
    assert_refused!(sampler.generator(), Argument, "Sampler::bionemo");
    let words = [0; libsab::BIONEMO_GENERATOR_WORDS];
    assert_refused!(sampler.set_generator(&words), Argument, "Sampler::bionemo");

    let mut greedy = Sampler::bionemo_size_aware_stream(8.0, |_, position| {
        Ok((position < 3).then_some((position as i64, 5.0)))
    })
    .unwrap();
    let can = greedy.capabilities();
    assert!(!can.batch_count && !can.random_access && !can.budget && !can.schedule);
    assert_refused!(greedy.batch_count(), Unsupported);
    assert_refused!(greedy.seek(1), Unsupported, "random access");
    assert_refused!(greedy.check_ranks(0, 1, |_, _| Ok(())), Unsupported);
    let sizes = Sizes::copied(&[1u8, 2]).unwrap();
    let mixture = Mixture::new(&[("one", &sizes)], &MixtureOptions::new()).unwrap();
    assert_refused!(greedy.report_sources(&mixture), Argument, "no mixture");
    #[cfg(feature = "arrow")]
    assert_refused!(greedy.schedule(), Unsupported);
    assert_eq!(greedy.iter_mut().count(), 3); // as if nothing had been
}
