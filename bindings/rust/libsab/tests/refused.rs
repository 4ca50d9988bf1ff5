//! The calls of tests/golden/refused/calls.txt: each error names argument and value as Rust's users
//! know them. README.md beside that folder explains the columns.
#![cfg(all(feature = "files", feature = "stream"))]

use std::fs;
use std::path::Path;

use libsab::memory::{
    measurement_points, MeasurementOptions, MemoryModel, ModelKind, ModelOptions, Probe,
};
use libsab::stream::{ListOptions, ReadaheadOptions, Stream};
use libsab::{
    partition, BalancedOptions, BucketRule, Budget, Cost, Error, Histogram, MissingRule, Mixture,
    MixtureOptions, Oversize, PackMethod, PackedOptions, PartitionOptions, Plan, PlanOptions,
    Sampler, SamplerOptions, Sizes, SizesFileOptions, Tail,
};

type Refusal = Result<(), Error>;

fn three() -> Sizes<'static> {
    Sizes::copied(&[3, 1, 2]).unwrap()
}

fn a_plan() -> Plan {
    Plan::new(&three(), &PlanOptions::new().budget(3.0)).unwrap()
}

fn plan(numbers: &[f64], options: &PlanOptions<'_>) -> Refusal {
    Plan::new(&Sizes::copied(numbers)?, options).map(drop)
}

fn sampler(options: &SamplerOptions<'_>) -> Refusal {
    Sampler::bucket(&a_plan(), options).map(drop)
}

fn packed(numbers: &[f64], capacity: u64) -> Refusal {
    packed_with(numbers, &PackedOptions::new().capacity(capacity))
}

fn best_fit() -> PackedOptions<'static> {
    PackedOptions::new().capacity(9).method(PackMethod::BestFit)
}

fn packed_with(numbers: &[f64], options: &PackedOptions<'_>) -> Refusal {
    Sampler::packed(&Sizes::copied(numbers)?, options, &SamplerOptions::new()).map(drop)
}

fn balanced(options: &BalancedOptions<'_>) -> Refusal {
    Sampler::balanced(&three(), options, &SamplerOptions::new()).map(drop)
}

fn mixture(second: &Sizes<'_>, options: &MixtureOptions) -> Refusal {
    Mixture::new(&[("a", &three()), ("b", second)], options).map(drop)
}

fn model(feature: f64, peak: f64, degree: u32) -> Refusal {
    let options = ModelOptions::new().kind(ModelKind::Polynomial).degree(degree);
    let features = [1.0, feature, 3.0, 4.0, 5.0];
    MemoryModel::fit(&features, 1, &[10.0, 20.0, peak, 40.0, 50.0], &options).map(drop)
}

fn of_plan(name: &str) -> Refusal {
    let of = PlanOptions::new;
    match name {
        "negative_budget" => plan(&[3.0], &of().budget(-1.0)),
        "second_budget" => plan(&[3.0], &of().budgets([Budget::new(9.0), Budget::new(f64::NAN)])),
        "no_budget" => plan(&[3.0], &of()),
        "padding" => plan(&[3.0], &of().budget(9.0).padding_target(1.5)),
        "negative_size" => plan(&[1.0, 2.0, -3.0], &of().budget(9.0)),
        "nan_size" => plan(&[1.0, f64::NAN], &of().batch_size(2)),
        "oversize" => plan(&[1.0, 99.0, 2.0], &of().budget(9.0)),
        "none_left" => {
            let rule = BucketRule::Boundaries(vec![10.0, 20.0]);
            let options = of().bucket_rule(rule).batch_size(2).oversize(Oversize::Skip);
            plan(&[3.0, 1.0, 2.0], &options)
        }
        "tail" => plan(&[3.0, 1.0, 2.0], &of().batch_size(4).tail(Tail::Drop)),
        "min_batch_size" => plan(&[3.0], &of().budget(9.0).min_batch_size(5).max_batch_size(3)),
        "histogram_threads" => {
            let mut histogram = Histogram::new()?;
            histogram.add(&three())?;
            Plan::of_histogram(&histogram, &of().batch_size(2).threads(2)).map(drop)
        }
        "file" => Plan::open("/no/such/plan").map(drop),
        "file_folder" => Plan::open("/").map(drop),
        "file_save" => a_plan().save("/no/such/folder/plan"),
        _ => panic!("plan_{name}"),
    }
}

fn of_sampler(name: &str) -> Refusal {
    let of = SamplerOptions::new;
    match name {
        "rank" => sampler(&of().rank(3).world_size(2)),
        "world_size" => sampler(&of().world_size(1 << 33)),
        "micro_batches" => sampler(&of().micro_batches(1 << 21)),
        "steps_per_epoch" => sampler(&of().steps_per_epoch(1 << 33)),
        "costliest" => Sampler::costliest(&a_plan(), 0).map(drop),
        "ordered" => Sampler::ordered(None, &three(), 0.5, &of()).map(drop),
        "damaged_state" => Sampler::bucket(&a_plan(), &of())?.restore(b"nothing"),
        "other_state" => {
            let state = Sampler::bucket(&a_plan(), &of())?.state()?;
            Sampler::bucket(&a_plan(), &of().seed(5))?.restore(&state)
        }
        _ => panic!("sampler_{name}"),
    }
}

fn of_sizes(name: &str) -> Refusal {
    match name {
        "callback" => Sizes::try_from_fn(3, |_| Err("no size".into())).map(drop),
        "progress" => {
            let stop = |_, _| std::ops::ControlFlow::Break(());
            Sizes::try_from_fn_with_progress(3, |_| Ok(1.0), stop).map(drop)
        }
        "columns" => Sizes::columns(&[("a", &three()), ("b", &Sizes::copied(&[1])?)]).map(drop),
        "file" => Sizes::open("/no/such/sizes.npy", &SizesFileOptions::new()).map(drop),
        "file_format" => Sizes::open(file!(), &SizesFileOptions::new().format("word")).map(drop),
        "file_missing" => {
            let options = SizesFileOptions::new().format("text").missing(MissingRule::Skip);
            Sizes::open(file!(), &options).map(drop)
        }
        _ => panic!("sizes_{name}"),
    }
}

fn call(name: &str) -> Refusal {
    if let Some(name) = name.strip_prefix("plan_") {
        return of_plan(name);
    }
    if let Some(name) = name.strip_prefix("sampler_") {
        return of_sampler(name);
    }
    if let Some(name) = name.strip_prefix("sizes_") {
        return of_sizes(name);
    }
    match name {
        "cost_transformer" => Cost::transformer(0, 2).map(drop),
        "pack_capacity" => packed(&[5.0, 3.0], 0),
        "pack_oversize" => packed(&[5.0, 3.0], 4),
        "pack_part_of_a_token" => packed(&[3.0, 2.5], 4),
        "pack_window" => packed_with(&[5.0, 3.0], &best_fit().window(7)),
        "pack_tries" => packed_with(&[5.0, 3.0], &best_fit().tries(7)),
        "balance_costliest_first" => {
            let order = SamplerOptions::new().costliest_first(2);
            Sampler::balanced(&three(), &BalancedOptions::new().samples(2), &order).map(drop)
        }
        "balance_nothing" => balanced(&BalancedOptions::new()),
        "balance_budget" => balanced(&BalancedOptions::new().budget(-1.0)),
        "partition_parts" => partition(&[1.0, 2.0], 0, &PartitionOptions::new()).map(drop),
        "partition_cost" => partition(&[1.0, f64::NAN], 2, &PartitionOptions::new()).map(drop),
        "mixture_repeats" => mixture(&three(), &MixtureOptions::new().repeats([1.0, -1.0])),
        "mixture_temperature" => mixture(&three(), &MixtureOptions::new().temperature(-1.0)),
        "mixture_no_sample" => mixture(&Sizes::copied::<i32>(&[])?, &MixtureOptions::new()),
        "model_feature" => model(f64::NAN, 30.0, 1),
        "model_peak" => model(2.0, 0.0, 1),
        "model_degree" => model(2.0, 30.0, 3),
        "memory_points" => {
            let options = MeasurementOptions::new().max_count(64).lengths(1.0, 9.0).degree(3);
            measurement_points(&options, 8).map(drop)
        }
        "memory_device" => Probe::new("nothing").map(drop),
        "stream_none_left" => {
            let options = ReadaheadOptions::new().budget(1.0).oversize(Oversize::Skip);
            let texts = Stream::list(["abc", "ab"], &ListOptions::new())?;
            let mut batches = texts.readahead(&options)?;
            let first = batches.next().unwrap();
            first.map(drop)
        }
        _ => panic!("{name}"),
    }
}

fn is_as(error: &Error, status: &str, code: i32, value: &str, words: &str) -> bool {
    match (status, error) {
        ("CALLBACK", Error::Callback(_)) | ("CANCELLED", Error::Cancelled) => return true,
        ("IO", Error::Io(error)) => {
            let system = std::io::Error::from_raw_os_error(code);
            return error.kind() == system.kind() && error.to_string().contains(value);
        }
        ("ARGUMENT", Error::Argument(_))
        | ("FORMAT", Error::Format(_))
        | ("MISMATCH", Error::Mismatch(_))
        | ("UNSUPPORTED", Error::Unsupported(_)) => {}
        _ => return false,
    }
    let (argument, value) = words.split_once(" = ").unwrap_or((words, ""));
    error.to_string().starts_with(&format!("{words}: "))
        && error.argument() == Some(argument)
        && error.value().unwrap_or_default() == value.trim_matches('"')
}

#[test]
fn refused_calls_name_argument_and_value() {
    let table =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/golden/refused/calls.txt");
    let table = fs::read_to_string(table).unwrap();
    let mut count = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<_> = line.split('|').map(str::trim).collect();
        let [name, status, code, _, value, _, words, _] = columns[..] else { panic!("{line}") };
        if words == "none" {
            continue;
        }
        let error = call(name).unwrap_err();
        assert!(is_as(&error, status, code.parse().unwrap(), value, words), "{name}: {error:?}");
        count += 1;
    }
    assert!(count >= 25);
}
