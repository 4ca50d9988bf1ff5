//! Every way to be refused, and that the refusal says why.
#![cfg(feature = "files")]

#[macro_use]
mod common;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use common::Scratch;
use libsab::{
    create_buckets, BionemoOptions, BucketRule, Budget, Cost, Error, Oversize, Plan, PlanOptions,
    Sampler, SamplerOptions, Sizes, SizesFileOptions,
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
    let sizes = Sizes::borrowed(&lengths).unwrap();
    assert_refused!(create_buckets(&sizes, 0, 1), Argument, "max_width");
    assert_refused!(create_buckets(&sizes, 1, 0), Argument, "min_bucket_count");
}

#[test]
fn options_that_break_a_rule_have_the_names_of_rust() {
    let sizes = Sizes::borrowed(&[3u8, 1, 4, 1, 5]).unwrap();
    let plan = |options: PlanOptions<'_>| Plan::new(&sizes, &options);
    let new = || PlanOptions::new().budget(12.0);
    let cost = |cost| new().budget(Budget::new(9.0).cost(cost));
    let boundaries = BucketRule::Boundaries(vec![1.0, 9.0, 1.0]);
    assert_refused!(plan(new().bucket_rule(BucketRule::Optimal(0))), Argument, "bucket_count");
    assert_refused!(plan(new().bucket_rule(boundaries)), Argument, "boundaries");
    assert_refused!(plan(cost(Cost::terms([]))), Argument, "count = 0");
    let negative = Cost::polynomial(&[1.0, 0.0, -1.0]);
    assert_refused!(plan(cost(negative)), Argument, "terms[2].coefficient = -1");
    let nan = Cost::from_fn(|_, _| f64::NAN);
    assert_refused!(plan(cost(nan)), Argument, "cost(1, 1) = nan");
    assert_refused!(plan(new().length_multiple(-8.0)), Argument, "length_multiple");
    assert_refused!(plan(PlanOptions::new().batch_size(0)), Argument, "batch_sizes");
    let order = SamplerOptions::new().costliest_first(1);
    assert_refused!(Sampler::ordered(None, &sizes, 5.0, &order), Argument, "costliest_first = 1");
    let options = SamplerOptions::new();
    assert_refused!(Sampler::ordered(Some(&[-1]), &sizes, 5.0, &options), Argument, "-1");
    let empty = Sampler::ordered(Some(&[]), &sizes, 5.0, &options).unwrap().iter_mut().count();
    assert_eq!(empty, 0, "no indices are not all indices");
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

    assert_refused!(Plan::from_bytes(b"short"), Format);
    assert_refused!(Plan::open("/nowhere/plan"), Io, "/nowhere/plan");
    assert_refused!(plan.save("/nowhere/plan"), Io, "/nowhere/plan");
    assert_refused!(plan.save("a\0b"), Argument, "NUL");
}

#[test]
fn foreign_and_damaged_states_are_refused_and_change_nothing() {
    let plan = small_plan();
    let mut sampler = Sampler::bucket(&plan, &SamplerOptions::new().seed(1)).unwrap();
    sampler.next_batch().unwrap().unwrap();
    let state = sampler.state().unwrap();
    assert_refused!(sampler.restore(&[]), Format);
    assert_eq!(sampler.tell(), (0, 1));

    let mut other_seed = Sampler::bucket(&plan, &SamplerOptions::new().seed(2)).unwrap();
    assert_refused!(other_seed.restore(&state), Mismatch, "1", "2");
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
