//! Histograms, and where samples are in an epoch.

use libsab::{
    Error, Histogram, Mixture, MixtureOptions, PackMethod, PackedOptions, Packing, Plan,
    PlanOptions, Sampler, SamplerOptions, Sizes,
};

fn numbers() -> Vec<u32> {
    (0..1000).map(|i| 1 + i * 7919 % 90).collect()
}

fn histogram_of(numbers: &[u32]) -> Histogram {
    let mut histogram = Histogram::new().unwrap();
    histogram.add(&Sizes::copied(numbers).unwrap()).unwrap();
    histogram
}

#[test]
fn merging_gives_the_histogram_of_all() {
    let numbers = numbers();
    let mut merged = Histogram::new().unwrap();
    for part in numbers.chunks(130).rev() {
        merged.merge(&histogram_of(part)).unwrap();
    }
    let whole = histogram_of(&numbers);
    assert_eq!(merged.to_bytes().unwrap(), whole.to_bytes().unwrap());
    assert_eq!((merged.samples(), merged.fingerprint()), (1000, whole.fingerprint()));
    assert_eq!(merged.total(), numbers.iter().map(|&n| f64::from(n)).sum());
    merged.subtract(&histogram_of(&numbers[..500])).unwrap();
    assert_eq!(merged.to_bytes().unwrap(), histogram_of(&numbers[500..]).to_bytes().unwrap());
    assert!(matches!(merged.subtract(&whole), Err(Error::Argument(_))));
    let read = Histogram::from_bytes(&whole.to_bytes().unwrap()).unwrap();
    assert_eq!((read.sizes(), read.counts()), (whole.sizes(), whole.counts()));
    assert!(matches!(Histogram::from_bytes(b"other"), Err(Error::Format(_))));
    assert!(Histogram::new().unwrap().sizes().is_empty());
}

#[test]
fn places_are_those_of_the_samplers() {
    let numbers = numbers();
    let mut histogram = Histogram::new().unwrap();
    let within = histogram.number(&Sizes::copied(&numbers).unwrap()).unwrap();
    let plan_options = PlanOptions::new().budget(500.0);
    let counted = Plan::of_histogram(&histogram, &plan_options).unwrap();
    let plan = Plan::new(&Sizes::copied(&numbers).unwrap(), &plan_options).unwrap();
    assert_eq!(counted.buckets(), plan.buckets());
    let sizes: Vec<f64> = numbers.iter().map(|&n| f64::from(n)).collect();
    let options = SamplerOptions::new().seed(5).world_size(3);
    let places = counted.locate(&options, None, &sizes, &within, None).unwrap();
    assert_eq!(places, plan.locate(&options, None, &sizes, &within, None).unwrap());
    let mut sampler = Sampler::bucket(&plan, &options.clone().rank(2)).unwrap();
    assert_eq!(places.batch_count, sampler.batch_count().unwrap());
    for (slot, &index) in sampler.at(1).unwrap().indices.iter().enumerate() {
        let index = index as usize;
        let found = (places.ranks[index], places.batches[index], places.slots[index]);
        assert_eq!(found, (2, 1, slot as i64));
    }
    assert!(matches!(counted.locate(&options, None, &sizes, &[], None), Err(Error::Argument(_))));
}

#[test]
fn columns_keep_their_names() {
    let (numbers, mut histogram) = (Sizes::copied(&numbers()).unwrap(), Histogram::new().unwrap());
    histogram.add(&Sizes::columns(&[("a", &numbers), ("b", &numbers)]).unwrap()).unwrap();
    assert_eq!(histogram.column_names(), [Some("a".to_owned()), Some("b".to_owned())]);
}

#[test]
fn sources_of_a_mixture_are_kept_apart() {
    let parts = [Sizes::copied(&[3u8, 5]).unwrap(), Sizes::copied(&[5u8]).unwrap()];
    let sources = [("a", &parts[0]), ("b", &parts[1])];
    let mut histogram = Histogram::new().unwrap();
    histogram.add(&Mixture::new(&sources, &MixtureOptions::new()).unwrap()).unwrap();
    assert_eq!(histogram.sources(), Some(&[0, 0, 1][..]));
    let plan = Plan::of_histogram(&histogram, &PlanOptions::new().budget(50.0));
    assert!(matches!(plan, Err(Error::Unsupported(_))));
}

#[test]
fn packings_and_their_places_are_those_of_the_sampler() {
    let numbers = numbers();
    let mut histogram = Histogram::new().unwrap();
    let within = histogram.number(&Sizes::copied(&numbers).unwrap()).unwrap();
    let pack = PackedOptions::new().capacity(200).max_sequences(9).method(PackMethod::Histogram);
    let packing = Packing::new(&histogram, &pack).unwrap();
    let patterns = packing.patterns();
    assert_eq!(patterns.bins.iter().sum::<u64>(), packing.info().bins);
    assert_eq!(patterns.begins.last(), Some(&(patterns.lengths.len() as u64)));
    assert_eq!(patterns.sequences.len(), patterns.lengths.len());
    let sizes: Vec<f64> = numbers.iter().map(|&n| f64::from(n)).collect();
    let options = SamplerOptions::new().seed(5).world_size(3);
    let places = packing.locate(&options, &sizes, &within, None).unwrap();
    let source = Sizes::copied(&numbers).unwrap();
    let mut sampler = Sampler::packed(&source, &pack, &options).unwrap();
    assert_eq!(sampler.packed_info().unwrap().bins, packing.info().bins);
    for (slot, &index) in sampler.at(4).unwrap().indices.iter().enumerate() {
        let index = index as usize;
        let found = (places.ranks[index], places.batches[index], places.slots[index]);
        assert_eq!(found, (0, 4, slot as i64));
    }
}

#[test]
fn an_epoch_of_a_mixture_has_the_places_that_c_gives() {
    let sizes = [3u32, 5, 3, 9, 5, 3, 7, 9, 3, 5];
    let parts = [Sizes::copied(&sizes[..5]).unwrap(), Sizes::copied(&sizes[5..]).unwrap()];
    let sources = [("a", &parts[0]), ("b", &parts[1])];
    let mut histogram = Histogram::new().unwrap();
    let within =
        histogram.number(&Mixture::new(&sources, &MixtureOptions::new()).unwrap()).unwrap();
    let of_epoch = histogram.epoch(&[1.0, 1.4], 1, 7).unwrap();
    let plan = Plan::of_histogram(&of_epoch, &PlanOptions::new().budget(18.0)).unwrap();
    let (sizes, source_of) = (sizes.map(f64::from), [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]);
    let options = SamplerOptions::new().seed(5).epoch(1);
    let places = plan.locate(&options, Some(&source_of), &sizes, &within, None).unwrap();
    assert_eq!(places.counts, [1, 1, 1, 1, 1, 1, 1, 2, 2, 1]);
    assert_eq!(places.batches, [3, 3, 0, 2, 0, 1, 2, 4, 0, 1]);
    assert_eq!(places.slots, [1, 0, 1, 0, 0, 0, 1, 1, 2, 1]);
    for sources in [None, Some(&source_of[..3])] {
        let places = plan.locate(&options, sources, &sizes, &within, None);
        assert!(matches!(places, Err(Error::Argument(_))));
    }
    assert!(matches!(histogram.epoch(&[1.0], 0, 0), Err(Error::Argument(_))));
}
