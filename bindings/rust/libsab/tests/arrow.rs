//! Sizes in Arrow arrays: the same as from memory, without a copy, owned as long as they are used.
#![cfg(feature = "arrow")]

#[macro_use]
mod common;

use std::panic::{catch_unwind, panic_any, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, DictionaryArray, FixedSizeBinaryArray,
    Float64Array, Int16Array, Int64Array, LargeStringArray, ListArray, RecordBatch,
    RecordBatchIterator, RecordBatchReader, StringArray, StringViewArray, StructArray, UInt32Array,
    UInt8Array,
};
use libsab::{
    BaguaOptions, Error, NullRule, Plan, PlanOptions, Sampler, SamplerOptions, Sizes,
    SizesArrowOptions, TextUnit,
};

fn all(sizes: &Sizes<'_>) -> Vec<f64> {
    (0..sizes.len()).map(|index| sizes.get(index).unwrap()).collect()
}

fn read(array: &dyn Array, options: &SizesArrowOptions) -> Vec<f64> {
    all(&Sizes::from_arrow(array, options).unwrap())
}

fn refused(array: &dyn Array, options: &SizesArrowOptions) -> String {
    match Sizes::from_arrow(array, options) {
        Err(Error::Argument(detail)) => detail.to_string(),
        other => panic!("{other:?}"),
    }
}

fn lengths(count: u32) -> Vec<u32> {
    (0..count).map(|i| 1 + i * 7919 % 97).collect()
}

fn batch_of(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

fn batches_of(sizes: &[u32], chunk: usize) -> Vec<RecordBatch> {
    sizes
        .chunks(chunk)
        .map(|chunk| {
            let lengths: ArrayRef = Arc::new(UInt32Array::from(chunk.to_vec()));
            let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true; chunk.len()]));
            batch_of(vec![("flag", flags), ("length", lengths)])
        })
        .collect()
}

fn reader_of(batches: Vec<RecordBatch>) -> impl RecordBatchReader + Send + 'static {
    let schema = batches[0].schema();
    RecordBatchIterator::new(batches.into_iter().map(Ok), schema)
}

#[test]
fn numbers_are_sizes_and_other_values_have_their_lengths() {
    let defaults = SizesArrowOptions::new();
    let texts = ["äb", "", "two words"];
    assert_eq!(read(&UInt8Array::from(vec![7, 200]), &defaults), [7.0, 200.0]);
    assert_eq!(read(&Int16Array::from(vec![7, 300]).slice(1, 1), &defaults), [300.0]);
    assert_eq!(read(&Float64Array::from(vec![0.5, 2.0]), &defaults), [0.5, 2.0]);
    assert_eq!(read(&StringArray::from(texts.to_vec()).slice(1, 2), &defaults), [0.0, 9.0]);
    assert_eq!(read(&LargeStringArray::from(texts.to_vec()), &defaults), [3.0, 0.0, 9.0]);
    assert_eq!(read(&StringViewArray::from(texts.to_vec()), &defaults), [3.0, 0.0, 9.0]);
    assert_eq!(read(&BinaryArray::from(vec![b"abc".as_ref(), b""]), &defaults), [3.0, 0.0]);
    let hashes = FixedSizeBinaryArray::try_from_iter([[0u8; 20]; 2].iter()).unwrap();
    assert_eq!(read(&hashes, &defaults), [20.0, 20.0]);
    let lists =
        ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1); 5]), Some(vec![])]);
    assert_eq!(read(&lists, &defaults), [5.0, 0.0]);
    let dictionary: DictionaryArray<Int32Type> = ["abc", "x", "abc"].into_iter().collect();
    assert_eq!(read(&dictionary, &defaults), [3.0, 1.0, 3.0]);
    let words = SizesArrowOptions::new().text_unit(TextUnit::Words);
    assert_eq!(read(&StringArray::from(texts.to_vec()), &words), [1.0, 0.0, 2.0]);
    assert_eq!(read(&Int64Array::from(Vec::<i64>::new()), &defaults), [0.0; 0]);
    let message = refused(&BooleanArray::from(vec![true]), &defaults);
    assert!(message.contains("Arrow format \"b\""), "{message}");
}

#[test]
fn nulls_are_refused_with_their_index_or_counted_as_zero() {
    let array = Int64Array::from(vec![Some(5), None, Some(7)]);
    let message = refused(&array, &SizesArrowOptions::new());
    assert!(message.contains("array[1]: is null"), "{message}");
    assert_eq!(read(&array, &SizesArrowOptions::new().nulls(NullRule::Zero)), [5.0, 0.0, 7.0]);
}

#[test]
fn columns_are_found_by_their_path() {
    let frames: ArrayRef = Arc::new(Int64Array::from(vec![12, 7]));
    let rates: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let audio: ArrayRef =
        Arc::new(StructArray::try_from(vec![("frames", frames.clone()), ("rate", rates)]).unwrap());
    let batch = batch_of(vec![("audio", audio.clone())]);
    let column = |name: &str| SizesArrowOptions::new().column(name);
    let read = |options: &SizesArrowOptions| Sizes::from_record_batch(&batch, options);
    assert_eq!(all(&read(&column("audio.frames")).unwrap()), [12.0, 7.0]);
    assert_eq!(all(&Sizes::from_arrow(&audio, &column("rate")).unwrap()), [1.0, 2.0]);
    let only = batch_of(vec![("length", frames)]);
    let sizes = Sizes::from_record_batch(&only, &SizesArrowOptions::new()).unwrap();
    assert_eq!(all(&sizes), [12.0, 7.0]);
    assert_refused!(read(&column("audio.bits")), Argument, "\"audio.frames\", \"audio.rate\"");
    assert_refused!(read(&column("a\0b")), Argument, "column", "NUL");
}

#[test]
fn plans_and_samplers_are_those_of_the_same_sizes_in_memory() {
    let lengths = lengths(1000);
    let options = PlanOptions::new().budget(1024.0);
    let expected = Plan::new(&Sizes::borrowed(&lengths).unwrap(), &options).unwrap();
    let seeded = SamplerOptions::new().seed(5);
    let walk = |plan: &Plan| -> Vec<_> {
        Sampler::bucket(plan, &seeded).unwrap().iter_mut().map(Result::unwrap).collect()
    };
    let reader = reader_of(batches_of(&lengths, 64));
    let column = SizesArrowOptions::new().column("length");
    let sizes = Sizes::from_record_batch_reader(reader, &column).unwrap();
    let plan = Plan::new(&sizes, &options).unwrap();
    assert_eq!(plan.info().fingerprint, expected.info().fingerprint);
    assert_eq!(walk(&plan), walk(&expected));
    // A sampler that reads the sizes in place goes on owning the arrays.
    let greedy = |sizes: &Sizes<'_>| -> Vec<_> {
        let mut sampler = Sampler::ordered(None, sizes, 500.0, &SamplerOptions::new()).unwrap();
        sampler.iter_mut().map(Result::unwrap).collect()
    };
    let mut sampler = Sampler::ordered(None, &sizes, 500.0, &SamplerOptions::new()).unwrap();
    drop(sizes);
    let seen: Vec<_> = sampler.iter_mut().map(Result::unwrap).collect();
    assert_eq!(seen, greedy(&Sizes::borrowed(&lengths).unwrap()));
}

#[test]
fn the_array_is_shared_until_the_last_user_is_dropped_in_any_thread() {
    let array = UInt32Array::from(lengths(100));
    let values = array.values().inner().clone();
    let alone = values.strong_count();
    let sizes = Sizes::from_arrow(&array, &SizesArrowOptions::new()).unwrap();
    assert!(values.strong_count() > alone); // not copied
    let joined = Sizes::join(&[&sizes, &sizes]).unwrap();
    drop(sizes);
    assert_eq!((joined.len(), joined.get(100).unwrap()), (200, 1.0));
    assert_eq!(joined.source(100).unwrap(), (1, 0));
    assert!(values.strong_count() > alone);
    std::thread::spawn(move || drop(joined)).join().unwrap();
    assert_eq!(values.strong_count(), alone);
    refused(&array, &SizesArrowOptions::new().column("length"));
    assert_eq!(values.strong_count(), alone); // a failed call keeps nothing
}

#[test]
fn a_schedule_has_the_batches_of_all_ranks_and_outlives_the_sampler() {
    let lengths = lengths(300);
    let sizes = Sizes::borrowed(&lengths).unwrap();
    let plan = Plan::new(&sizes, &PlanOptions::new().budget(512.0)).unwrap();
    let of_rank = |rank| {
        let options = SamplerOptions::new().seed(5).rank(rank).world_size(2);
        Sampler::bucket(&plan, &options).unwrap()
    };
    let mut expected = Vec::new();
    let mut samplers = [of_rank(0), of_rank(1)];
    while let Some(first) = samplers[0].next_batch() {
        let batches = [first.unwrap(), samplers[1].next_batch().unwrap().unwrap()];
        expected.extend(batches.map(|batch| (batch.padded_length[0], batch.indices)));
    }
    let sampler = of_rank(1);
    assert!(sampler.capabilities().schedule);
    let schedule = sampler.schedule().unwrap();
    drop((sampler, plan));
    let mut seen = Vec::new();
    for batch in schedule {
        let batch = batch.unwrap();
        let ranks = batch["rank"].as_primitive::<Int64Type>();
        let padded = batch["padded_length"].as_primitive::<Float64Type>();
        let indices = batch["indices"].as_list::<i32>();
        for row in 0..batch.num_rows() {
            assert_eq!(ranks.value(row), (seen.len() % 2) as i64);
            let samples = indices.value(row).as_primitive::<Int64Type>().values().to_vec();
            seen.push((padded.value(row), samples));
        }
    }
    assert_eq!(seen, expected);
}

/// A reader that fails in its own way at the third batch, and says when it is dropped.
struct Failing<F> {
    batches: Box<dyn RecordBatchReader + Send>,
    left: usize,
    fail: F,
    dropped: Arc<Mutex<usize>>,
}

impl<F: FnMut() -> Option<<Box<dyn RecordBatchReader + Send> as Iterator>::Item>> Iterator
    for Failing<F>
{
    type Item = <Box<dyn RecordBatchReader + Send> as Iterator>::Item;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return (self.fail)();
        }
        self.left -= 1;
        self.batches.next()
    }
}

impl<F> Drop for Failing<F> {
    fn drop(&mut self) {
        *self.dropped.lock().unwrap() += 1;
    }
}

/// The sizes of a reader that gives two batches, and then what `fail` gives.
fn read_failing<F>(fail: F, dropped: &Arc<Mutex<usize>>) -> Result<Sizes<'static>, Error>
where
    F: FnMut() -> Option<<Box<dyn RecordBatchReader + Send> as Iterator>::Item> + Send + 'static,
{
    let batches = batches_of(&lengths(100), 10);
    let schema = batches[0].schema();
    let dropped = dropped.clone();
    let reader = Failing { batches: Box::new(reader_of(batches)), left: 2, fail, dropped };
    let reader = RecordBatchIterator::new(reader, schema);
    Sizes::from_record_batch_reader(reader, &SizesArrowOptions::new().column("length"))
}

#[test]
fn errors_and_panics_of_a_reader_come_back_and_it_is_dropped_once() {
    let dropped = Arc::new(Mutex::new(0));
    let failed = read_failing(|| Some(Err(std::io::Error::other("disk on fire").into())), &dropped);
    let Err(Error::Callback(error)) = failed else { panic!("{failed:?}") };
    assert!(error.to_string().contains("disk on fire"), "{error}");
    assert_eq!(*dropped.lock().unwrap(), 1);

    let panicked = catch_unwind(AssertUnwindSafe(|| read_failing(|| panic_any(33usize), &dropped)));
    assert_eq!(panicked.unwrap_err().downcast_ref::<usize>(), Some(&33));
    assert_eq!(*dropped.lock().unwrap(), 2);

    let sizes = read_failing(|| None, &dropped).unwrap();
    assert_eq!(sizes.len(), 20);
    drop(sizes);
    assert_eq!(*dropped.lock().unwrap(), 3);
}

/// A value whose destructor panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic_any("dropped");
    }
}

#[test]
fn a_panic_of_a_readers_destructor_is_resumed() {
    let bomb = Bomb;
    let dropped = catch_unwind(AssertUnwindSafe(|| {
        let end = move || {
            let _kept = &bomb;
            None
        };
        drop(read_failing(end, &Arc::new(Mutex::new(0))));
    }));
    assert_eq!(dropped.unwrap_err().downcast_ref::<&str>(), Some(&"dropped"));
}

/// The samples of a schedule, in order.
fn samples_of(schedule: impl RecordBatchReader) -> Vec<i64> {
    let mut samples = Vec::new();
    for batch in schedule {
        let batch = batch.unwrap();
        let indices = batch["indices"].as_list::<i32>();
        samples.extend(indices.values().as_primitive::<Int64Type>().values());
    }
    samples
}

#[test]
fn schedules_of_borrowing_samplers_keep_what_they_read() {
    let options = SamplerOptions::new();
    let owned = Sizes::from_vec(lengths(5000)).unwrap();
    let sampler = Sampler::ordered(None, &owned, 1e9, &options).unwrap();
    let schedule = sampler.schedule().unwrap();
    drop((owned, sampler)); // the vector lives on
    assert_eq!(samples_of(schedule), (0..5000).collect::<Vec<_>>());

    let made = AtomicUsize::new(0);
    let halves = |samples: &[i64]| {
        made.fetch_add(1, Ordering::Relaxed);
        Ok(samples.chunks(2).map(<[i64]>::to_vec).collect())
    };
    let complexity = Sizes::copied(&[5u8, 1, 4, 2]).unwrap();
    let balancing = BaguaOptions::new().shuffle(false);
    let sampler = Sampler::bagua_batch(&complexity, &balancing, &options, halves).unwrap();
    let schedule = sampler.schedule().unwrap();
    drop(sampler);
    assert_eq!(samples_of(schedule), [1, 3, 2, 0]);
    assert_eq!(made.into_inner(), 1); // the schedule calls nothing
}

#[test]
fn a_schedule_of_several_columns_has_a_length_for_each() {
    let (source, target) = (Sizes::copied(&[3u8, 5]).unwrap(), Sizes::copied(&[4u8, 1]).unwrap());
    let pairs = Sizes::columns(&[("source", &source), ("target", &target)]).unwrap();
    let plan = Plan::new(&pairs, &PlanOptions::new().budget(18.0)).unwrap();
    let sampler = Sampler::bucket(&plan, &SamplerOptions::new()).unwrap();
    let batch = sampler.schedule().unwrap().next().unwrap().unwrap();
    let lengths = batch["padded_length"].as_fixed_size_list().value(0);
    assert_eq!(lengths.as_primitive::<Float64Type>().values()[..], [5.0, 4.0]);
}
