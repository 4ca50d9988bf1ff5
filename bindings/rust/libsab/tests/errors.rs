//! Every way to be refused, and that the refusal says why.
#![cfg(feature = "files")]

#[macro_use]
mod common;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use common::Scratch;
use libsab::{
    create_buckets, BionemoOptions, BucketRule, Budget, Cost, Error, LastStep, Oversize, Plan,
    PlanOptions, Sampler, SamplerOptions, Sizes, SizesFileOptions,
};

fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    let padding = (64 - (10 + header.len() + 1) % 64) % 64;
    bytes.extend(((header.len() + padding + 1) as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.resize(bytes.len() + padding, b' ');
    bytes.push(b'\n');
    bytes.extend(data);
    bytes
}

fn small_plan() -> Plan {
    Plan::new(
        &Sizes::copied(&[3u8, 1, 4, 1, 5, 9, 2, 6]).unwrap(),
        &PlanOptions::new().budget(12.0),
    )
    .unwrap()
}

#[test]
fn sizes_take_every_number_type() {
    fn check<T: libsab::Element>(data: [T; 3]) {
        for sizes in [Sizes::borrowed(&data).unwrap(), Sizes::copied(&data).unwrap()] {
            assert_eq!((0..3).map(|i| sizes.get(i).unwrap()).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
            assert_eq!(sizes.values().unwrap(), [1.0, 2.0, 3.0]);
            assert_eq!((sizes.len(), sizes.is_empty()), (3, false));
        }
    }
    check([1i8, 2, 3]);
    check([1i16, 2, 3]);
    check([1i32, 2, 3]);
    check([1i64, 2, 3]);
    check([1u8, 2, 3]);
    check([1u16, 2, 3]);
    check([1u32, 2, 3]);
    check([1u64, 2, 3]);
    check([1f32, 2.0, 3.0]);
    check([1f64, 2.0, 3.0]);
    let none = Sizes::borrowed::<u8>(&[]).unwrap();
    assert!(none.is_empty() && none.values().unwrap().is_empty());
}

#[test]
fn sizes_strided_reads_a_column_with_a_ragged_end() {
    let table = [1u32, 10, 2, 20, 3];
    let sizes = Sizes::strided(&table, 2).unwrap();
    assert_eq!(
        (0..sizes.len()).map(|i| sizes.get(i).unwrap()).collect::<Vec<_>>(),
        [1.0, 2.0, 3.0]
    );
    assert_refused!(Sizes::strided(&table, 0), Argument, "step");
}

#[test]
fn sizes_that_break_a_rule_are_refused_with_index_and_value() {
    for (bad, word) in [
        (f64::NAN, "nan"),
        (f64::INFINITY, "inf"),
        (-1.0, "-1"),
        (9_007_199_254_740_994.0, "9007199254740994"),
    ] {
        let data = [1.0, bad];
        let sizes = Sizes::borrowed(&data).unwrap();
        assert_refused!(Plan::new(&sizes, &PlanOptions::new().budget(10.0)), Argument, "1", word);
        assert_refused!(sizes.get(1), Argument, word);
        assert_refused!(sizes.values(), Argument, word);
        assert_refused!(
            Sampler::ordered(None, &sizes, 10.0, &SamplerOptions::new()),
            Argument,
            word
        );
    }
    assert_refused!(Sizes::borrowed(&[1u8]).unwrap().get(1), Argument, "1");
}

#[test]
fn npy_files_are_read_or_refused() {
    fn open(path: impl AsRef<Path>) -> Result<Sizes<'static>, Error> {
        Sizes::open(path, &SizesFileOptions::new())
    }
    let file = Scratch::new("sizes.npy");
    let data: Vec<u8> = [7u16, 300].iter().flat_map(|size| size.to_le_bytes()).collect();
    fs::write(&file.0, npy("{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }", &data))
        .unwrap();
    let sizes = open(&file.0).unwrap();
    assert_eq!((sizes.len(), sizes.get(0).unwrap(), sizes.get(1).unwrap()), (2, 7.0, 300.0));
    drop(sizes);

    fs::write(&file.0, npy("{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }", &data))
        .unwrap();
    assert_refused!(open(&file.0), Format);
    fs::write(&file.0, npy("{'descr': '>u2', 'fortran_order': False, 'shape': (2,), }", &data))
        .unwrap();
    assert_refused!(open(&file.0), Format);
    fs::write(&file.0, "not numpy").unwrap();
    assert_refused!(open(&file.0), Format);
    assert_refused!(open("/nowhere/at.npy"), Io, "/nowhere/at.npy");
    assert_refused!(open("a\0b"), Argument, "NUL");
}

#[test]
fn create_buckets_gives_documented_edges_or_refuses() {
    let lengths = [1i64, 2, 2, 3, 3, 3, 4, 4, 4, 4];
    let found = create_buckets(&Sizes::borrowed(&lengths).unwrap(), 5, 10).unwrap();
    assert_eq!((found.boundaries, found.bucket_sizes), (vec![1, 5], vec![10]));
    assert_refused!(
        create_buckets(&Sizes::borrowed(&lengths).unwrap(), 0, 1),
        Argument,
        "max_width"
    );
    assert_refused!(
        create_buckets(&Sizes::borrowed(&lengths).unwrap(), 1, 0),
        Argument,
        "min_bucket_count"
    );
    assert_refused!(create_buckets(&Sizes::borrowed(&[1.5f32]).unwrap(), 1, 1), Argument);
    assert_refused!(create_buckets(&Sizes::borrowed::<i64>(&[]).unwrap(), 1, 1), Argument);
}

#[test]
fn plan_options_that_break_a_rule_are_refused() {
    let data = [3u8, 1, 4, 1, 5];
    let sizes = Sizes::borrowed(&data).unwrap();
    let new = || PlanOptions::new().budget(12.0);
    assert_refused!(Plan::new(&sizes, &PlanOptions::new()), Argument, "budget");
    assert_refused!(Plan::new(&sizes, &new().budget(-1.0)), Argument, "budget");
    assert_refused!(Plan::new(&sizes, &new().budget(f64::NAN)), Argument, "budget");
    assert_refused!(Plan::new(&sizes, &new().padding_target(1.0)), Argument, "padding_target");
    assert_refused!(
        Plan::new(&sizes, &new().bucket_rule(BucketRule::Optimal(0))),
        Argument,
        "bucket_count"
    );
    assert_refused!(
        Plan::new(&sizes, &new().bucket_rule(BucketRule::Boundaries(vec![1.0]))),
        Argument,
        "boundar"
    );
    assert_refused!(
        Plan::new(&sizes, &new().bucket_rule(BucketRule::Boundaries(vec![1.0, 9.0, 1.0]))),
        Argument,
        "boundaries"
    );
    assert_refused!(
        Plan::new(&sizes, &new().budget(Budget::new(9.0).cost(Cost::terms([])))),
        Argument,
        "count = 0"
    );
    assert_refused!(
        Plan::new(
            &sizes,
            &new().budget(Budget::new(9.0).cost(Cost::polynomial(&[1.0, 0.0, -1.0])))
        ),
        Argument,
        "terms[2].coefficient = -1"
    );
    assert_refused!(Plan::new(&sizes, &PlanOptions::new().batch_size(0)), Argument, "batch_sizes");
    assert_refused!(
        Plan::new(&sizes, &PlanOptions::new().batch_sizes([1, 2])),
        Argument,
        "batch_size"
    );
    let rule = new().bucket_rule(BucketRule::Optimal(2)).padding_target(0.1);
    assert_refused!(Plan::new(&sizes, &rule), Argument, "padding_target");
    assert_refused!(Plan::new(&sizes, &new().length_multiple(-8.0)), Argument, "length_multiple");
    assert_refused!(Plan::new(&sizes, &new().budget(4.0)), Argument, "4");
    let nan = Budget::new(9.0).cost(Cost::from_fn(|_, _| f64::NAN));
    assert_refused!(Plan::new(&sizes, &new().budget(nan)), Argument, "cost(1, 1) = nan");
    assert_refused!(Plan::new(&sizes, &new().budgets(vec![Budget::new(9.0); 9])), Argument, "9");
    assert_refused!(Plan::new(&Sizes::borrowed::<u8>(&[]).unwrap(), &new()), Argument);
}

#[test]
fn oversize_samples_are_listed_or_stand_alone() {
    let data = [3u8, 20, 4, 30, 5];
    let sizes = Sizes::borrowed(&data).unwrap();
    let skipping =
        Plan::new(&sizes, &PlanOptions::new().budget(12.0).oversize(Oversize::Skip)).unwrap();
    assert_eq!((skipping.skipped(), skipping.info().skipped), (vec![1, 3], 2));
    let single =
        Plan::new(&sizes, &PlanOptions::new().budget(12.0).oversize(Oversize::Single)).unwrap();
    assert!(single.skipped().is_empty());
    let costliest = Sampler::costliest(&single, 1).unwrap().next_batch().unwrap().unwrap();
    assert_eq!(costliest.indices, [3]);
    assert_refused!(Sampler::costliest(&single, 0), Argument, "count");
}

#[test]
fn plan_files_are_opened_or_refused() {
    let plan = small_plan();
    let file = Scratch::new("plan");
    plan.save(&file.0).unwrap();
    let opened = Plan::open(&file.0).unwrap();
    assert_eq!(
        (opened.info(), opened.to_bytes().unwrap()),
        (plan.info(), plan.to_bytes().unwrap())
    );

    let bytes = plan.to_bytes().unwrap();
    for length in [0, 1, 8, bytes.len() / 2, bytes.len() - 1] {
        assert_refused!(Plan::from_bytes(&bytes[..length]), Format);
    }
    for position in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[position] ^= 1;
        assert_refused!(Plan::from_bytes(&damaged), Format);
    }
    let truncated = Scratch::new("truncated");
    fs::write(&truncated.0, &bytes[..bytes.len() - 1]).unwrap();
    assert_refused!(Plan::open(&truncated.0), Format);
    assert_refused!(Plan::open("/nowhere/plan"), Io, "/nowhere/plan");
    assert_refused!(plan.save("/nowhere/plan"), Io, "/nowhere/plan");
    assert_refused!(plan.save("a\0b"), Argument, "NUL");
}

#[test]
fn sampler_options_that_break_a_rule_are_refused() {
    let plan = small_plan();
    let wrong = [
        SamplerOptions::new().rank(1),
        SamplerOptions::new().rank(1).world_size(0),
        SamplerOptions::new().world_size(1 << 32),
    ];
    for options in &wrong {
        assert_refused!(Sampler::bucket(&plan, options), Argument);
        assert_refused!(Sampler::sequential(&plan, options), Argument);
        assert_refused!(plan.report(options), Argument);
    }
    let sizes = Sizes::copied(&[1u8, 2]).unwrap();
    for unused in [SamplerOptions::new().seed(1), SamplerOptions::new().costliest_first(1)] {
        assert_refused!(Sampler::sequential(&plan, &unused), Argument, "= 1");
        assert_refused!(Sampler::ordered(None, &sizes, 5.0, &unused), Argument, "= 1");
    }
    let options = SamplerOptions::new();
    assert_refused!(Sampler::ordered(Some(&[2]), &sizes, 5.0, &options), Argument, "2");
    assert_refused!(Sampler::ordered(Some(&[-1]), &sizes, 5.0, &options), Argument, "-1");
    assert_refused!(Sampler::ordered(None, &sizes, -5.0, &options), Argument, "budget");
    assert_refused!(Sampler::ordered(None, &sizes, f64::INFINITY, &options), Argument, "budget");
    assert_refused!(
        Sampler::bionemo_size_aware_stream(f64::NAN, |_, _| Ok(None)),
        Argument,
        "budget"
    );
    assert_refused!(Sampler::bionemo(&plan, &BionemoOptions::new()), Argument);
}

#[test]
fn no_indices_are_no_batches() {
    let sizes = Sizes::copied(&[1u8, 2]).unwrap();
    assert_eq!(
        Sampler::ordered(Some(&[]), &sizes, 5.0, &SamplerOptions::new())
            .unwrap()
            .iter_mut()
            .count(),
        0
    );
    assert_eq!(
        Sampler::ordered(None, &sizes, 5.0, &SamplerOptions::new()).unwrap().iter_mut().count(),
        1
    );
}

#[test]
fn positions_out_of_range_are_refused_and_change_nothing() {
    let mut sampler = Sampler::bucket(&small_plan(), &SamplerOptions::new()).unwrap();
    let count = sampler.batch_count().unwrap();
    sampler.next_batch().unwrap().unwrap();
    assert_refused!(sampler.at(count), Argument, "position");
    assert_refused!(sampler.seek(count + 1), Argument, "position");
    assert_eq!(sampler.tell(), (0, 1));
    sampler.seek(count).unwrap();
    assert!(sampler.next_batch().is_none());
}

#[test]
fn foreign_and_damaged_states_are_refused_and_change_nothing() {
    let plan = small_plan();
    let mut sampler = Sampler::bucket(&plan, &SamplerOptions::new().seed(1)).unwrap();
    sampler.next_batch().unwrap().unwrap();
    let state = sampler.state().unwrap();
    assert_refused!(sampler.restore(&[]), Format);
    assert_refused!(sampler.restore(&state[..111]), Format);
    for position in 0..state.len() {
        let mut damaged = state.clone();
        damaged[position] ^= 1;
        assert_refused!(sampler.restore(&damaged), Format);
    }
    assert_eq!(sampler.tell(), (0, 1));

    let mut other_seed = Sampler::bucket(&plan, &SamplerOptions::new().seed(2)).unwrap();
    assert_refused!(other_seed.restore(&state), Mismatch, "1", "2");
    let mut other_order = Sampler::sequential(&plan, &SamplerOptions::new()).unwrap();
    assert_refused!(other_order.restore(&state), Mismatch);
    let other_plan =
        Plan::new(&Sizes::copied(&[1u8, 2]).unwrap(), &PlanOptions::new().budget(9.0)).unwrap();
    assert_refused!(
        Sampler::bucket(&other_plan, &SamplerOptions::new().seed(1)).unwrap().restore(&state),
        Mismatch
    );
}

#[test]
fn torch_generator_is_read_and_set_or_refused() {
    let options =
        PlanOptions::new().bucket_rule(BucketRule::Boundaries(vec![0.0, 5.0, 10.0])).batch_size(2);
    let plan = Plan::new(&Sizes::copied(&[3u8, 1, 4, 1, 5, 9, 2, 6]).unwrap(), &options).unwrap();
    let mut first = Sampler::bionemo(&plan, &BionemoOptions::new().seed(5)).unwrap();
    assert_eq!(first.batch_count().unwrap(), plan.info().batches);
    let mut second = Sampler::bionemo(&plan, &BionemoOptions::new().seed(6)).unwrap();
    let mut words = first.generator().unwrap();
    second.set_generator(&words).unwrap();
    assert!(first.iter_mut().map(Result::unwrap).eq(second.iter_mut().map(Result::unwrap)));
    words[624] = 625;
    assert_refused!(second.set_generator(&words), Argument, "625");
}

#[test]
fn default_options_are_those_of_the_library() {
    // With NULL the library fills in its own; the state carries what the order depends on.
    let plan = small_plan();
    let explicit = SamplerOptions::new()
        .seed(0)
        .epoch(0)
        .rank(0)
        .world_size(1)
        .last_step(LastStep::Split)
        .costliest_first(0)
        .micro_batches(1);
    let with = |options: &SamplerOptions| {
        Sampler::bucket(&plan, options).unwrap().iter_mut().map(Result::unwrap).collect::<Vec<_>>()
    };
    assert_eq!(with(&SamplerOptions::new()), with(&explicit));
}

#[test]
fn errors_speak_and_version_is_there() {
    let error = Plan::from_bytes(b"short").unwrap_err();
    assert!(!error.to_string().is_empty() && std::error::Error::source(&error).is_none());
    assert_eq!(Error::Cancelled.to_string(), "cancelled by the caller's progress closure");
    assert!(libsab::version().starts_with("0.1."));
    assert_eq!(libsab::abi_version(), sab_sys::ABI_VERSION);
}

#[test]
fn errors_name_argument_and_value() {
    let sizes = Sizes::copied(&[3u8, 1]).unwrap();
    let error = Plan::new(&sizes, &PlanOptions::new().budget(-1.0)).unwrap_err();
    assert_eq!((error.argument(), error.value()), (Some("budget"), Some("-1")));
    let error = Sizes::strided(&[1u8], 0).unwrap_err();
    assert_eq!((error.argument(), error.value()), (Some("step"), Some("0")));
    let error = Plan::new(&Sizes::copied(&[1.0, -2.0]).unwrap(), &PlanOptions::new().budget(9.0));
    let error = error.unwrap_err();
    assert_eq!((error.argument(), error.value()), (Some("sizes[1]"), Some("-2")));
    let error = Plan::from_bytes(b"short").unwrap_err();
    assert_eq!((error.argument(), error.value()), (Some("data"), None));
    let path = std::env::temp_dir().join(format!("sab_damaged_{}.plan", std::process::id()));
    std::fs::write(&path, b"short").unwrap();
    let error = Plan::open(&path).unwrap_err();
    std::fs::remove_file(&path).unwrap();
    assert_eq!((error.argument(), error.value()), (None, path.to_str()));
    assert!(error.detail().unwrap().rule().unwrap().starts_with("is not a valid plan: "));
    assert_eq!(error.detail().unwrap().text(), error.to_string());
    assert!(Error::Cancelled.detail().is_none());
}

#[test]
fn errors_of_files_keep_their_kind() {
    let kind = |error| match error {
        Error::Io(error) => error.kind(),
        other => panic!("{other:?}"),
    };
    let plan = small_plan();
    assert_eq!(kind(Plan::open("/nowhere/plan").unwrap_err()), ErrorKind::NotFound);
    assert_eq!(kind(plan.save("/nowhere/plan").unwrap_err()), ErrorKind::NotFound);
    assert_eq!(kind(plan.save("/dev/null/plan").unwrap_err()), ErrorKind::NotADirectory);
    assert_eq!(kind(Plan::open("/dev/null").unwrap_err()), ErrorKind::Other);
}
