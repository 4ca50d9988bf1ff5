//! Every method that takes a closure, called without a type annotation: closures that cannot fail,
//! and closures that use `?` on different errors.

use std::ops::ControlFlow;

use libsab::memory::{
    find_max_batch, grow_batch_size, step_in_chunks, CollectOptions, GuardOptions, MaxBatchOptions,
    MemoryGuard, Peaks, Probe, StepError, StepOptions,
};
use libsab::{
    find_thresholds, BaguaOptions, BalancedOptions, BionemoOptions, BucketRule, Budget, Cost,
    Error, Plan, PlanOptions, Sampler, SamplerOptions, Sizes, ThresholdsOptions,
};

const TEXTS: [&str; 4] = ["3", "1", "4", "2"];

fn sizes() -> Sizes<'static> {
    Sizes::from_vec(vec![3u8, 1, 4, 2]).unwrap()
}

fn plan() -> Plan {
    let rule = BucketRule::Boundaries(vec![0.0, 9.0]);
    Plan::new(&sizes(), &PlanOptions::new().bucket_rule(rule).batch_size(2)).unwrap()
}

#[test]
fn closures_of_sizes() {
    assert_eq!(Sizes::from_fn(4, |i| i as f64).unwrap().len(), 4);
    let parsed = Sizes::try_from_fn(4, |i| Ok(TEXTS.get(i).ok_or("none")?.parse()?)).unwrap();
    assert_eq!(parsed.get(2).unwrap(), 4.0);
    let followed =
        Sizes::try_from_fn_with_progress(4, |_| Ok(1.0), |_, _| ControlFlow::Continue(()));
    assert_eq!(followed.unwrap().len(), 4);
}

#[test]
fn closures_of_options() {
    let total = Cost::from_fn(|count, length| count as f64 * length);
    let options = PlanOptions::new().budget(Budget::new(8.0).cost(total));
    assert_eq!(Plan::new(&sizes(), &options).unwrap().info().samples, 4);
    let parsed = Cost::try_from_fn(|count, length| Ok(length * count.to_string().parse::<f64>()?));
    let options = PlanOptions::new().budget(Budget::new(8.0).cost(parsed));
    assert_eq!(Plan::new(&sizes(), &options).unwrap().info().samples, 4);

    let balance = Cost::try_from_fn(|_, length| Ok(length + 1.0));
    let balanced = BalancedOptions::new().budget(9.0).balance(balance);
    Sampler::balanced(&sizes(), &balanced, &SamplerOptions::new()).unwrap();
    let cost = Cost::from_fn(|count, length| count as f64 * length);
    let thresholds = ThresholdsOptions::new().cost(cost);
    find_thresholds(&sizes(), 1, &thresholds).unwrap();

    let torch = BionemoOptions::new().budget(4.0, |i| [3.0, 1.0, 4.0, 2.0][i]);
    assert!(Sampler::bionemo(&plan(), &torch).unwrap().iter_mut().count() > 1);
    let torch = BionemoOptions::new().try_budget(4.0, |i| Ok(TEXTS[i].parse()?));
    assert!(Sampler::bionemo(&plan(), &torch).unwrap().iter_mut().all(|batch| batch.is_ok()));
}

#[test]
fn closures_of_samplers() {
    let stream = Sampler::bionemo_size_aware_stream(4.0, |_, position| {
        Ok((position < 3).then_some((7, 2.0)))
    });
    assert_eq!(stream.unwrap().iter_mut().count(), 2);
    let texts = Sampler::bionemo_size_aware_stream(4.0, |_, position| {
        let Some(text) = TEXTS.get(usize::try_from(position)?) else { return Ok(None) };
        Ok(Some((7, text.parse()?)))
    });
    assert_eq!(texts.unwrap().iter_mut().count(), 3);

    let (balancing, options) = (BaguaOptions::new(), SamplerOptions::new());
    let pairs = Sampler::bagua_batch(&sizes(), &balancing, &options, |samples| {
        let size = "2".parse()?;
        Ok(samples.chunks(size).map(<[i64]>::to_vec).collect())
    });
    assert_eq!(pairs.unwrap().iter_mut().count(), 2);

    let plan = PlanOptions::new().budget(8.0);
    let sharded = Sampler::sharded(&sizes(), &plan, &options, |mine, all| {
        all.copy_from_slice(mine);
        Ok(())
    });
    sharded
        .unwrap()
        .check_ranks(0, 1, |mine, all| {
            all.get_mut(..mine.len()).ok_or("too short")?.copy_from_slice(mine);
            Ok(())
        })
        .unwrap();
}

#[test]
fn closures_of_steps() {
    let mut probe = Probe::new("host").unwrap();
    let fitted =
        step_in_chunks(&mut probe, 4, &StepOptions::new().begin(|| Ok(())), |_, count, _| {
            if count > 2 {
                return Err(StepError::OutOfMemory);
            }
            "1".parse::<u32>()?;
            u8::try_from(count)?;
            Ok(())
        });
    assert_eq!(fitted.unwrap(), 2);
    let failed = step_in_chunks(&mut probe, 4, &StepOptions::new(), |_, _, _| {
        "x".parse::<u32>()?;
        Ok(())
    });
    assert!(matches!(failed, Err(Error::Callback(error)) if error.is::<std::num::ParseIntError>()));

    let mut peaks = Peaks::new().unwrap();
    let options = CollectOptions::new().cleanup(|| Ok(())).collect_garbage(|| Ok(()));
    peaks.collect(&mut probe, TEXTS, &options, |text| Ok(vec![text.parse()?])).unwrap();
    assert_eq!(peaks.get(0).unwrap().features, [3.0]);

    let limits = MaxBatchOptions::new().budget(1 << 40).max_batch_size(2).reduce(|_| Ok(()));
    assert_eq!(find_max_batch(&mut probe, &limits, |_, _| Ok(())).unwrap().batch_size, 2);
    assert_eq!(grow_batch_size(|_, current| Ok(i64::try_from(current)?), 0, 4, 9).unwrap(), 8);
    plan().verify(&mut probe, 1, |_| Ok(())).unwrap();

    let sampler = Sampler::bucket(&plan(), &SamplerOptions::new()).unwrap();
    let limit = GuardOptions::new().budget(1 << 40).reduce(|_| Ok(()));
    if let Ok(mut guard) = MemoryGuard::new(&probe, sampler, &limit) {
        let batch = guard.next_batch().unwrap().unwrap();
        guard.step(&batch, &StepOptions::new(), |_, _, _| Ok(())).unwrap();
    }
}

#[cfg(feature = "cache")]
#[test]
fn closures_of_caches() {
    let cache = libsab::Cache::open("memory:", &libsab::CacheOptions::new()).unwrap();
    let value = cache.get_or_load("k", || Ok(String::from_utf8(vec![b'7'])?.into_bytes()));
    assert_eq!(&value.unwrap()[..], b"7");
}

#[cfg(feature = "stream")]
#[test]
fn closures_of_streams() {
    use libsab::stream::{ListOptions, Made, ReadaheadOptions, Stream};

    let texts = || Stream::list(TEXTS, &ListOptions::new()).unwrap();
    let count = |stream: Result<Stream, Error>| stream.unwrap().owned().map(Result::unwrap).count();
    assert_eq!(count(texts().map(|_| Made::same().sized(1.0))), 4);
    assert_eq!(count(texts().map_parallel(2, |record| Made::same().sized(record.size()))), 4);
    assert_eq!(count(texts().recurrent("", |_, _| (Made::same(), Made::same()))), 4);
    assert_eq!(count(texts().random_map(1, |random, _| Made::same().sized(random.real()))), 4);
    let size = |bytes: &[u8]| -> f64 { std::str::from_utf8(bytes).unwrap().parse().unwrap() };
    assert_eq!(
        count(texts().try_map(move |record| Ok(Made::same().sized(size(record.bytes()?))))),
        4
    );
    assert_eq!(
        count(texts().try_map_parallel(2, |record| {
            let text = std::str::from_utf8(record.bytes()?)?;
            Ok(Made::same().sized(text.parse()?))
        })),
        4
    );
    assert_eq!(
        count(texts().try_recurrent("0", |state, record| {
            let sum: u32 = std::str::from_utf8(state)?.parse()?;
            Ok((Made::bytes(sum.to_string()), Made::bytes(record.bytes()?)))
        })),
        4
    );
    assert_eq!(count(texts().try_random_map(1, |_, record| Ok(Made::bytes(record.bytes()?)))), 4);
    assert_eq!(
        count(texts().select(|record| Ok(Some(Stream::list(
            [record.bytes()?, b"x"],
            &ListOptions::new()
        )?)))),
        8
    );
    let limits = ReadaheadOptions::new().batch_size_fn(|_| 2).boundary_key_fn(|_| 0);
    assert_eq!(count(texts().readahead(&limits)), 2);
    let parsed = ReadaheadOptions::new()
        .try_batch_size_fn(|record| Ok(std::str::from_utf8(record.bytes()?)?.parse()?))
        .try_boundary_key_fn(|_| Ok(u64::try_from(1i64)?));
    assert!(count(texts().readahead(&parsed)) >= 1);
}
