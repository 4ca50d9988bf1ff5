//! What holds for every plan: nothing lost, nothing twice, equal steps, the budget, and resuming on
//! any number of ranks.

use libsab::{
    Batch, BionemoSizeAwareSampler, BionemoSizeAwareStream, BucketRule, BucketSampler, LastStep,
    PackMethod, PackedOptions, PackedSampler, Plan, PlanOptions, SamplerOptions, SequentialSampler,
    Sizes, Tail,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn buckets() -> impl Strategy<Value = BucketRule> {
    prop_oneof![
        Just(BucketRule::Auto),
        (1u64..6).prop_map(BucketRule::Optimal),
        Just(BucketRule::Boundaries(vec![0.0, 10.0, 25.0, 60.0, 101.0])),
    ]
}

fn lengths() -> impl Strategy<Value = Vec<u16>> {
    vec(0u16..=100, 1..400)
}

fn plan_of(lengths: &[u16], budget: f64, rule: BucketRule, tail: Tail) -> Plan {
    let options = PlanOptions::new().budget(budget).bucket_rule(rule).tail(tail);
    Plan::new(&Sizes::borrowed(lengths).unwrap(), &options).unwrap()
}

fn samplers(plan: &Plan, options: SamplerOptions, world_size: u64) -> Vec<BucketSampler> {
    (0..world_size)
        .map(|rank| BucketSampler::new(plan, &options.rank(rank).world_size(world_size)).unwrap())
        .collect()
}

/// How often each sample was seen.
struct Seen(Vec<u32>);

impl Seen {
    fn new(samples: usize) -> Self {
        Seen(vec![0; samples])
    }

    fn add(&mut self, indices: &[i64]) {
        indices.iter().for_each(|&index| self.0[index as usize] += 1);
    }

    fn all_once(&self) -> bool {
        self.0.iter().all(|&times| times == 1)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_epoch_covers_every_sample_once_in_equal_steps_within_the_budget(
        lengths in lengths(), budget in 100f64..2000.0, buckets in buckets(),
        seed in any::<u64>(), epoch in any::<u64>(), world_size in 1u64..=16, micro_batches in 1u64..4,
        costliest_first in 0u64..8,
    ) {
        let plan = plan_of(&lengths, budget, buckets, Tail::Keep);
        let options = SamplerOptions::new().seed(seed).epoch(epoch).micro_batches(micro_batches).costliest_first(costliest_first);
        let mut ranks = samplers(&plan, options, world_size);
        let count = ranks[0].batch_count();
        let mut seen = Seen::new(lengths.len());
        let (mut samples, mut total) = (0, 0.0);
        for position in 0..count {
            let mut told = None;
            let micro_batch = position % micro_batches;
            if micro_batch == 0 {
                (samples, total) = (0, 0.0);
            }
            for rank in &mut ranks {
                prop_assert_eq!((rank.batch_count(), rank.tell()), (count, (epoch, position)));
                let batch = rank.next_ref().unwrap().unwrap();
                prop_assert!(batch.padded_total() <= budget);
                prop_assert_eq!(batch.padded_total(), batch.indices.len() as f64 * batch.padded_length[0]);
                prop_assert_eq!(batch.longest[0], batch.indices.iter().map(|&i| f64::from(lengths[i as usize])).fold(0.0, f64::max));
                prop_assert_eq!(batch.total[0], batch.indices.iter().map(|&i| f64::from(lengths[i as usize])).sum::<f64>());
                prop_assert_eq!((batch.epoch, batch.step, batch.micro_batch), (epoch, position / micro_batches, micro_batch));
                samples += batch.indices.len() as u64;
                total += batch.total[0];
                seen.add(batch.indices);
                let step = rank.step().unwrap();
                prop_assert_eq!(*told.get_or_insert(step), step);
            }
            let told = told.unwrap();
            if micro_batch + 1 == told.micro_batches {
                prop_assert_eq!((told.samples, told.total.map(|totals| totals[0])), (samples, Some(total)));
            }
            prop_assert!(told.micro_batches == micro_batches || position / micro_batches == (count - 1) / micro_batches);
        }
        for rank in &mut ranks {
            prop_assert!(rank.next_batch().is_none());
            prop_assert!(rank.next_batch().is_none());
        }
        prop_assert!(seen.all_once());
    }

    #[test]
    fn a_state_goes_on_with_any_number_of_ranks(
        lengths in lengths(), budget in 100f64..1000.0, buckets in buckets(), seed in any::<u64>(),
        worlds in vec(1u64..=16, 3), stops in vec(0f64..=1.0, 2),
    ) {
        let plan = plan_of(&lengths, budget, buckets, Tail::Keep);
        let options = SamplerOptions::new().seed(seed).epoch(5);
        let mut seen = Seen::new(lengths.len());
        let mut state: Option<Vec<u8>> = None;
        for (leg, &world_size) in worlds.iter().enumerate() {
            let mut ranks = samplers(&plan, options, world_size);
            if let Some(state) = &state {
                for rank in &mut ranks {
                    rank.restore(state).unwrap();
                    let same_world = world_size == worlds[leg - 1];
                    prop_assert!(!same_world || rank.state() == *state);
                }
            }
            let left = ranks[0].iter_mut().size_hint().0;
            let steps = stops.get(leg).map_or(left, |part| (part * left as f64).round() as usize);
            for rank in &mut ranks {
                prop_assert_eq!(rank.iter_mut().size_hint(), (left, Some(left)));
                for _ in 0..steps {
                    seen.add(rank.next_ref().unwrap().unwrap().indices);
                }
            }
            let saved = ranks[0].state();
            prop_assert!(ranks.iter().all(|rank| rank.state() == saved));
            state = Some(saved);
        }
        prop_assert!(seen.all_once());
    }

    #[test]
    fn seek_at_and_a_same_size_restore_agree_with_next(
        lengths in lengths(), seed in any::<u64>(), world_size in 1u64..=16, rank_part in 0f64..1.0,
    ) {
        let plan = plan_of(&lengths, 300.0, BucketRule::Auto, Tail::Keep);
        let rank = (rank_part * world_size as f64) as u64;
        let options = SamplerOptions::new().seed(seed).rank(rank).world_size(world_size);
        let mut sampler = BucketSampler::new(&plan, &options).unwrap();
        let states: Vec<_> = (0..sampler.batch_count()).map(|step| { sampler.seek(step).unwrap(); sampler.state() }).collect();
        sampler.seek(0).unwrap();
        let walked: Vec<_> = sampler.iter_mut().map(Result::unwrap).collect();
        for (step, batch) in walked.iter().enumerate().rev() {
            prop_assert_eq!(&sampler.at(step as u64).unwrap().into_owned(), batch);
            sampler.seek(step as u64).unwrap();
            prop_assert_eq!(sampler.tell(), (0, step as u64));
            prop_assert_eq!(&sampler.next_batch().unwrap().unwrap(), batch);
            let mut fresh = BucketSampler::new(&plan, &options).unwrap();
            fresh.restore(&states[step]).unwrap();
            prop_assert_eq!(&fresh.next_batch().unwrap().unwrap(), batch);
        }
    }

    #[test]
    fn dropping_and_wrapping_the_last_step_keep_steps_equal(
        lengths in lengths(), seed in any::<u64>(), world_size in 1u64..=16, wrap in any::<bool>(),
    ) {
        let plan = plan_of(&lengths, 300.0, BucketRule::Auto, Tail::Keep);
        let last_step = if wrap { LastStep::Wrap } else { LastStep::Drop };
        let options = SamplerOptions::new().seed(seed).last_step(last_step);
        let batches = plan.info().batches;
        if !wrap && batches < world_size {
            // an epoch without batches
            prop_assert!(BucketSampler::new(&plan, &options.world_size(world_size)).is_err());
            return Ok(());
        }
        let mut ranks = samplers(&plan, options, world_size);
        let steps = if wrap { batches.div_ceil(world_size) } else { batches / world_size };
        let mut seen = Seen::new(lengths.len());
        for rank in &mut ranks {
            let walked: Vec<_> = rank.iter_mut().map(Result::unwrap).collect();
            prop_assert_eq!(walked.len() as u64, steps);
            walked.iter().for_each(|batch| seen.add(&batch.indices));
        }
        let allowed = if wrap { 1..=u32::MAX } else { 0..=1 };
        prop_assert!(seen.0.iter().all(|times| allowed.contains(times)));
    }

    #[test]
    fn sequential_batches_ascend_and_a_saved_plan_walks_alike(lengths in lengths(), budget in 100f64..2000.0, buckets in buckets()) {
        let plan = plan_of(&lengths, budget, buckets, Tail::Keep);
        let same = Plan::from_bytes(&plan.to_bytes().unwrap()).unwrap();
        prop_assert_eq!(plan.info(), same.info());
        prop_assert_eq!(plan.buckets(), same.buckets());
        let walk = |plan: &Plan| -> Vec<i64> {
            let mut sampler = SequentialSampler::new(plan, &SamplerOptions::new()).unwrap();
            sampler.iter_mut().flat_map(|batch| batch.unwrap().indices).collect()
        };
        let order = walk(&plan);
        let key = |index: &i64| (lengths[*index as usize], *index);
        prop_assert!(order.windows(2).all(|pair| key(&pair[0]) < key(&pair[1])));
        prop_assert_eq!(order.len(), lengths.len());
        prop_assert_eq!(walk(&same), order);
    }

    #[test]
    fn greedy_batches_follow_the_rule(lengths in vec(0f32..50.0, 0..200), most in 1f64..200.0) {
        let mut expected: Vec<Vec<i64>> = Vec::new();
        let mut total = f64::INFINITY;
        for (index, &length) in lengths.iter().enumerate() {
            let length = f64::from(length);
            if length > most {
                continue;
            }
            if total + length > most {
                expected.push(Vec::new());
                total = 0.0;
            }
            total += length;
            expected.last_mut().unwrap().push(index as i64);
        }
        let sizes = Sizes::borrowed(&lengths).unwrap();
        let mut sampler = BionemoSizeAwareSampler::new(None, &sizes, most, &SamplerOptions::new()).unwrap();
        prop_assert_eq!(sampler.skipped_count(), lengths.iter().filter(|&&length| f64::from(length) > most).count());
        let batches: Vec<_> = sampler.iter_mut().map(|batch| batch.unwrap().indices).collect();
        prop_assert_eq!(batches, expected);
    }

    #[test]
    fn bins_hold_every_token_once_in_equal_steps(
        lengths in vec(0u16..=300, 1..300), capacity in 1u64..400, method in 0u64..3, limit in 0u64..5, split in any::<bool>(),
        seed in any::<u64>(), world_size in 1u64..=6, restored in 1u64..=6, cut in 0u64..20,
    ) {
        let method = [PackMethod::BestFit, PackMethod::Histogram, PackMethod::FirstFit { window: 1 + seed % 9 }][method as usize];
        let sampler = |rank, world_size| {
            let pack = PackedOptions::new().capacity(capacity).method(method).max_sequences(limit).split(split).skip_oversize();
            PackedSampler::new(&Sizes::borrowed(&lengths).unwrap(), &pack, &SamplerOptions::new().seed(seed).rank(rank).world_size(world_size))
        };
        let fits = |length: u16| u64::from(length) <= capacity;
        if !split && !lengths.iter().any(|&length| fits(length)) {
            prop_assert!(sampler(0, 1).is_err());
            return Ok(());
        }
        let mut tokens: Vec<i64> = vec![0; lengths.len()];
        let mut take = |batch: Batch| {
            let edges = &batch.cu_seqlens.unwrap()[0];
            assert_eq!((edges[0], edges.len()), (0, batch.indices.len() + 1));
            assert!(edges[edges.len() - 1] as u64 <= capacity && (limit == 0 || batch.indices.len() as u64 <= limit));
            assert_eq!(batch.starts.as_ref().map(Vec::len), split.then_some(batch.indices.len()));
            edges.windows(2).zip(&batch.indices).for_each(|(edge, &index)| tokens[index as usize] += i64::from(edge[1] - edge[0]));
        };
        let mut state = None;
        for rank in 0..world_size {
            let mut sampler = sampler(rank, world_size).unwrap();
            let steps = cut.min(sampler.batch_count());
            (0..steps).for_each(|_| take(sampler.next_batch().unwrap().unwrap()));
            let own = sampler.state();
            prop_assert_eq!(state.get_or_insert_with(|| own.clone()), &own);
        }
        for rank in 0..restored {
            let mut sampler = sampler(rank, restored).unwrap();
            sampler.restore(state.as_ref().unwrap()).unwrap();
            sampler.iter_mut().for_each(|batch| take(batch.unwrap()));
        }
        let kept = |&length: &u16| if split || fits(length) { i64::from(length) } else { 0 };
        prop_assert_eq!(tokens, lengths.iter().map(kept).collect::<Vec<_>>());
        let info = sampler(0, 1).unwrap().info();
        prop_assert!(info.lower_bound <= info.bins && info.fill <= 1.0);
        prop_assert_eq!(info.skipped as usize, sampler(0, 1).unwrap().skipped().unwrap().len());
    }
}

/// The table of decision 3: what a second loop over a sampler gives.
#[test]
fn a_second_loop_is_the_next_epoch_or_the_same_one_from_its_start() {
    let lengths: Vec<u16> = (0..60).map(|i| 1 + i * 7 % 30).collect();
    let plan = plan_of(&lengths, 100.0, BucketRule::Auto, Tail::Keep);
    let fresh = || BucketSampler::new(&plan, &SamplerOptions::new().seed(3)).unwrap();
    let epoch = |number| {
        let mut sampler = fresh();
        sampler.set_epoch(number).unwrap();
        sampler.iter_mut().map(|batch| batch.unwrap().indices).collect::<Vec<_>>()
    };
    let pass = |sampler: &mut BucketSampler, count: usize| {
        sampler.iter_mut().take(count).map(|batch| batch.unwrap().indices).collect::<Vec<_>>()
    };
    let (first, second) = (epoch(0), epoch(1));
    assert!(first.len() > 4 && first != second);

    // Nothing was taken; the last pass was finished.
    let mut sampler = fresh();
    assert_eq!(pass(&mut sampler, 0), Vec::<Vec<i64>>::new());
    assert_eq!(pass(&mut sampler, usize::MAX), first);
    assert!(sampler.next_batch().is_none());
    assert_eq!(pass(&mut sampler, usize::MAX), second);

    // It was broken off.
    let mut sampler = fresh();
    assert_eq!(pass(&mut sampler, 2), first[..2]);
    let middle = sampler.state();
    assert_eq!(pass(&mut sampler, usize::MAX), first);
    let ended = sampler.state();

    // A state was restored, its end had not been reported; then it is an ordinary pass.
    let mut sampler = fresh();
    sampler.restore(&middle).unwrap();
    assert_eq!(pass(&mut sampler, 1), first[2..3]);
    assert_eq!(pass(&mut sampler, usize::MAX), first);
    sampler.restore(&middle).unwrap();
    assert_eq!(pass(&mut sampler, usize::MAX), first[2..]);
    assert_eq!(pass(&mut sampler, usize::MAX), second);

    // Nothing may be left.
    let mut sampler = fresh();
    (0..first.len()).for_each(|_| drop(sampler.next_batch().unwrap().unwrap()));
    let all = sampler.state();
    sampler.restore(&all).unwrap();
    assert_eq!(pass(&mut sampler, usize::MAX), Vec::<Vec<i64>>::new());
    assert_eq!(pass(&mut sampler, usize::MAX), second);

    // Its end had been reported.
    sampler.restore(&ended).unwrap();
    assert_eq!(pass(&mut sampler, usize::MAX), second);
}

#[test]
fn a_sampler_tells_what_it_supports() {
    let plan = plan_of(&[3, 4, 5], 100.0, BucketRule::Auto, Tail::Keep);
    let can = BucketSampler::new(&plan, &SamplerOptions::new()).unwrap().capabilities();
    assert!(can.batch_count && can.random_access && can.budget && can.schedule);
    let can = BionemoSizeAwareStream::from_fn(8.0, |_, _| None).unwrap().capabilities();
    assert!(!can.batch_count && !can.random_access && !can.budget && !can.schedule);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocks_are_the_batches(
        lengths in lengths(), most in 1usize..20, world_size in 1u64..4, seed in any::<u64>(),
    ) {
        let options = SamplerOptions::new().seed(seed).world_size(world_size);
        let plan = plan_of(&lengths, 400.0, BucketRule::Auto, Tail::Keep);
        let mut sampler = BucketSampler::new(&plan, &options).unwrap();
        let mut other = BucketSampler::new(&plan, &options).unwrap();
        while let Some(block) = sampler.next_block(most) {
            let block = block.unwrap();
            prop_assert!((1..=most).contains(&block.len()));
            for i in 0..block.len() {
                let batch = other.next_ref().unwrap().unwrap();
                prop_assert_eq!(block.samples(i), batch.indices);
                let numbers = (block.longest[i], block.total[i]);
                prop_assert_eq!(numbers, (batch.longest[0], batch.total[0]));
                prop_assert_eq!(block.step[i], batch.step);
                prop_assert_eq!(block.bucket[i], batch.bucket.map_or(-1, |bucket| bucket as i64));
            }
        }
        prop_assert!(other.next_ref().is_none());
        sampler.set_epoch(0).unwrap();
        prop_assert!(matches!(sampler.next_block(0), Some(Err(libsab::Error::Argument(_)))));
        prop_assert!(sampler.next_block(1).is_some());

        let sizes = Sizes::borrowed(&lengths).unwrap();
        let pack = PackedOptions::new().capacity(100);
        let mut rows = PackedSampler::new(&sizes, &pack, &options).unwrap();
        let mut others = PackedSampler::new(&sizes, &pack, &options).unwrap();
        while let Some(block) = rows.next_block(most) {
            let block = block.unwrap();
            for i in 0..block.len() {
                let batch = others.next_ref().unwrap().unwrap();
                let begin = block.offsets[i] as usize + i;
                let lengths = &block.cu_seqlens.unwrap()[0][begin..=begin + batch.indices.len()];
                prop_assert_eq!(lengths, batch.cu_seqlens.unwrap()[0]);
            }
        }
    }
}
