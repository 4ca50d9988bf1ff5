//! Mixtures of data sets.

use std::ops::ControlFlow;

use libsab::{
    Error, Mixture, MixtureOptions, MixtureUnit, Plan, PlanOptions, Sampler, SamplerOptions, Sizes,
};

#[macro_use]
mod common;

fn sizes_of(count: usize, modulus: usize) -> Sizes<'static> {
    Sizes::from_vec((0..count).map(|i| (1 + i * 7 % modulus) as u32).collect()).unwrap()
}

fn mixture_with(options: &MixtureOptions) -> Result<Mixture<'static>, Error> {
    let sources = [sizes_of(300, 40), sizes_of(500, 60), sizes_of(41, 25)];
    Mixture::new(&[("wiki", &sources[0]), ("code", &sources[1]), ("web", &sources[2])], options)
}

fn mixture() -> Mixture<'static> {
    mixture_with(&MixtureOptions::new().repeats([1.0, 0.5, 3.0])).unwrap()
}

#[test]
fn sources_and_places_are_those_of_the_data_sets() {
    let mixture = mixture();
    let sources = mixture.sources(2);
    let names: Vec<_> = sources.iter().map(|source| source.name.as_str()).collect();
    assert_eq!(names, ["wiki", "code", "web"]);
    assert_eq!((sources[2].id, sources[2].samples, sources[2].epoch_samples), (2, 41, 123));
    assert_eq!((sources[1].repeat, mixture.source_count()), (0.5, 3));
    assert_eq!((mixture.source(299).unwrap(), mixture.source(300).unwrap()), ((0, 299), (1, 0)));
    assert_eq!(mixture.get(300).unwrap(), 1.0); // as of any sizes
    assert_refused!(mixture.source(841), Argument, "index = 841: must be below the count, 841");
    assert_eq!(format!("{mixture:?}"), "Mixture { len: 841, sources: 3 }");
}

#[test]
fn flat_mixtures_are_named_by_their_ids() {
    let sizes = sizes_of(6, 5);
    let mixture = Mixture::flat(&sizes, &[9, 2, 9, 4, 2, 9], &MixtureOptions::new()).unwrap();
    drop(sizes);
    let ids: Vec<_> = mixture.sources(0).into_iter().map(|each| (each.name, each.id)).collect();
    assert_eq!(ids, [("2".into(), 2), ("4".into(), 4), ("9".into(), 9)]);
    assert_eq!(mixture.source(5).unwrap(), (2, 2));
    let borrowed = [3u8, 4, 5];
    let sizes = Sizes::borrowed(&borrowed).unwrap();
    assert_eq!(Mixture::flat(&sizes, &[0, 1, 1], &MixtureOptions::new()).unwrap().len(), 3);
}

#[test]
fn schedules_proportions_and_temperatures_set_the_repeats() {
    let repeats = |options: &MixtureOptions, epoch| -> Vec<f64> {
        let sources = mixture_with(options).unwrap().sources(epoch);
        sources.into_iter().map(|source| source.repeat).collect()
    };
    let scheduled = MixtureOptions::new().schedule(2, [1.0, 0.0, 2.0]).schedule(5, [0.5; 3]);
    assert_eq!(repeats(&scheduled, 1), [1.0; 3]);
    assert_eq!(repeats(&scheduled, 4), [1.0, 0.0, 2.0]);
    assert_eq!(repeats(&scheduled, 5), [0.5; 3]);
    let shared = repeats(&MixtureOptions::new().proportions([1.0, 2.0, 1.0]), 0);
    assert!((shared[1] - 841.0 / 2.0 / 500.0).abs() < 1e-12);
    let of_samples = MixtureOptions::new().temperature(1e9);
    let of_sizes = MixtureOptions::new().temperature(1e9).unit(MixtureUnit::Size);
    assert_ne!(repeats(&of_samples, 0), repeats(&of_sizes, 0));
    let seeds = [0, 1].map(|seed| {
        let options = MixtureOptions::new().repeats([0.5; 3]).seed(seed);
        mixture_with(&options).unwrap().counts(0).unwrap()
    });
    assert_ne!(seeds[0], seeds[1]);
}

#[test]
fn reports_have_each_source() {
    let mixture = mixture();
    let plan = Plan::new(&mixture, &PlanOptions::new().budget(500.0)).unwrap();
    let mut sampler = Sampler::bucket(&plan, &SamplerOptions::new().world_size(2)).unwrap();
    let reports = sampler.report_sources(&mixture).unwrap();
    let samples: Vec<_> =
        reports.iter().map(|each| (each.samples, each.distinct, each.most)).collect();
    assert_eq!(samples, [(300, 300, 1), (250, 250, 1), (123, 41, 3)]);
    assert!((reports.iter().map(|each| each.proportion).sum::<f64>() - 1.0).abs() < 1e-12);
    assert!(reports.iter().all(|each| each.deviation <= 1.0 && each.padded_total >= each.total));
    assert_eq!(sampler.tell(), (0, 0));
    let stop = |_, _| ControlFlow::Break(());
    let stopped = sampler.report_sources_with_progress(&mixture, stop);
    assert!(matches!(stopped, Err(Error::Cancelled)));

    let two = Mixture::flat(&sizes_of(2, 2), &[0, 1], &MixtureOptions::new()).unwrap();
    assert_refused!(
        sampler.report_sources(&two),
        Argument,
        "count = 2: must be the number of sources"
    );
    let plain = Plan::new(&sizes_of(9, 4), &PlanOptions::new().batch_size(2)).unwrap();
    let mut sampler = Sampler::sequential(&plain, &SamplerOptions::new()).unwrap();
    assert_refused!(sampler.report_sources(&mixture), Argument, "its sizes are no mixture");
}

#[test]
fn bad_mixtures_are_refused() {
    let of = |options: MixtureOptions| mixture_with(&options);
    let new = MixtureOptions::new;
    assert_refused!(of(new().repeats([1.0, -1.0, 1.0])), Argument, "repeats[1] = -1");
    assert_refused!(of(new().repeats([0.0; 3])), Argument, "are all 0");
    assert_refused!(of(new().repeats([1.0; 2])), Argument, "must be the number of sources, 3");
    assert_refused!(of(new().schedule(1, [1.0; 2])), Argument, "schedule[0] = [1.0, 1.0]");
    assert_refused!(of(new().schedule(0, [1.0; 3])), Argument, "schedule_epochs[0] = 0");
    assert_refused!(of(new().repeats([1.0; 3]).temperature(2.0)), Argument, "only one of");
    let sizes = sizes_of(3, 3);
    assert_refused!(Mixture::new(&[("a\0", &sizes)], &new()), Argument, "NUL");
    assert_refused!(Mixture::new(&[], &new()), Argument, "count = 0");
    assert_refused!(Mixture::flat(&sizes, &[0, 1], &new()), Argument, "ids.len() = 2");
}

#[test]
fn a_shard_may_lack_sources() {
    let shard = Sizes::copied(&[5u8, 6, 7]).unwrap();
    let none = Sizes::from_vec(Vec::<u8>::new()).unwrap();
    let options = MixtureOptions::new().repeats([2.0, 0.5]).all_sources([3, 8]);
    let mixture = Mixture::new(&[("a", &none), ("b", &shard)], &options).unwrap();
    let samples: Vec<_> = mixture.sources(0).iter().map(|each| (each.id, each.samples)).collect();
    assert_eq!(samples, [(3, 0), (8, 3)]);
    let plan = PlanOptions::new().budget(10.0);
    assert_refused!(Plan::new(&mixture, &plan), Argument, "a mixture of one shard");
    assert_eq!(Mixture::flat(&none, &[], &options).unwrap().source_count(), 2);
}
