//! Streams: what each stage gives, that a saved state goes on from anywhere, that closures may
//! fail, and what is refused.
#![cfg(feature = "stream")]

mod common;

use std::fmt;
use std::fs;
use std::ops::ControlFlow;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;

use common::{mine, Mine};
use libsab::stream::{
    Content, FilesOptions, Framing, ListOptions, Made, MixOptions, MixUntil, OnError,
    PackedOptions, ReadaheadOptions, Record, RecordRef, Source, Stream,
};
use libsab::{BoxError, Budget, Cost, Error};
use static_assertions::{assert_impl_all, assert_not_impl_any};

assert_impl_all!(Stream: Send);
assert_not_impl_any!(Stream: Sync, Clone);
assert_impl_all!(RecordRef<'static>: Send, Sync, Copy);
assert_impl_all!(ReadaheadOptions: Send, Sync);
assert_impl_all!(PackedOptions: Send, Sync);

/// The numbers from 0 on, as text.
fn numbers(count: usize) -> Stream {
    Stream::list((0..count).map(|number| number.to_string()), &ListOptions::new()).unwrap()
}

/// As [`numbers`]; some are made longer.
fn padded(count: usize) -> Stream {
    let text = |number: usize| "x".repeat(1 + number * 7 % 11) + &number.to_string();
    Stream::list((0..count).map(text), &ListOptions::new()).unwrap()
}

fn number_of(bytes: &[u8]) -> i64 {
    std::str::from_utf8(bytes).unwrap().trim_start_matches('x').parse().unwrap()
}

/// The numbers of a record, flat, with -1 after each list.
fn flat(record: RecordRef<'_>, out: &mut Vec<i64>) {
    match record.content() {
        Content::Bytes(bytes) => out.push(number_of(bytes)),
        Content::List(records) => {
            records.for_each(|record| flat(record, out));
            out.push(-1);
        }
    }
}

/// At most `most` records of a stream.
fn read_out(stream: &mut Stream, most: usize) -> Vec<i64> {
    let mut out = Vec::new();
    for _ in 0..most {
        let Some(record) = stream.next() else { break };
        flat(record.unwrap(), &mut out);
    }
    out
}

/// What a stream gives, twice.
fn gives(mut stream: Stream, most: usize) -> Vec<i64> {
    let got = read_out(&mut stream, most);
    stream.rewind().unwrap();
    assert_eq!(read_out(&mut stream, most), got);
    got
}

fn refusal<T>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Argument(message)) => message.to_string(),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("was taken"),
    }
}

// ---- several sizes ------------------------------------------------------------------------------

/// The sizes of [`number_of`] a record.
fn two_sizes(record: RecordRef<'_>) -> [f64; 2] {
    sizes_of(record.bytes().unwrap())
}

fn sizes_of(bytes: &[u8]) -> [f64; 2] {
    let number = number_of(bytes);
    [1 + number * 7 % 11, 5 + number * 5 % 13].map(|size| size as f64)
}

/// The numbers of all lists, sorted, where `fits` has seen the sizes of each list.
fn fitting(mut stream: Stream, fits: impl Fn(&[[f64; 2]]) -> bool) -> Vec<i64> {
    let lists: Vec<Record> = stream.owned().collect::<Result<_, _>>().unwrap();
    let mut numbers = Vec::new();
    for list in &lists {
        let records: Vec<_> =
            list.records().unwrap().iter().map(|each| each.bytes().unwrap()).collect();
        assert!(fits(&records.iter().map(|bytes| sizes_of(bytes)).collect::<Vec<_>>()));
        numbers.extend(records.iter().map(|bytes| number_of(bytes)));
    }
    numbers.sort_unstable();
    numbers
}

fn largest(sizes: &[[f64; 2]], column: usize) -> f64 {
    sizes.iter().map(|each| each[column]).fold(0.0, f64::max)
}

#[test]
fn records_have_several_sizes() {
    let all: Vec<i64> = (0..300).collect();
    let budgets = || [Budget::new(90.0), Budget::new(30.0).cost(Cost::padded(&[1.0, 0.0]))];
    let options = ReadaheadOptions::new().read_ahead(50).carry_over(true).budgets(budgets());
    let batches = numbers(300).readahead(&options.sizes_fn(two_sizes)).unwrap();
    let fits = |sizes: &[[f64; 2]]| {
        let (count, first) = (sizes.len() as f64, largest(sizes, 0));
        count * (first + largest(sizes, 1)) <= 90.0 && count * first <= 30.0
    };
    assert_eq!(fitting(batches.prefetch(4).unwrap(), fits), all); // also in a thread

    let options = PackedOptions::new().read_ahead(50).capacities([20, 40], two_sizes);
    let fits = |sizes: &[[f64; 2]]| {
        [20.0, 40.0]
            .iter()
            .enumerate()
            .all(|(j, capacity)| sizes.iter().map(|each| each[j]).sum::<f64>() <= *capacity)
    };
    assert_eq!(fitting(numbers(300).pack(&options).unwrap(), fits), all);
}

#[test]
fn several_sizes_are_refused_or_fail() {
    let many = |_: RecordRef<'_>| [1.0; 9];
    let given = ReadaheadOptions::new().budget(9.0);
    assert!(refusal(numbers(5).readahead(&given.clone().sizes_fn(many))).contains("columns = 9"));
    let packed = PackedOptions::new().capacities([9; 9], many);
    assert!(refusal(numbers(5).pack(&packed)).contains("capacities.len() = 9"));
    let two = given.sizes_fn(two_sizes);
    let closure = Budget::new(9.0).cost(Cost::from_columns_fn(|_, _, _| 1.0));
    let closures = two.clone().budgets([Budget::new(9.0), closure]);
    assert!(refusal(numbers(5).readahead(&closures)).contains("budgets[1].cost: must not be"));

    let failing = two.try_sizes_fn::<2>(|_| Err("no sizes".into()));
    match numbers(5).readahead(&failing).unwrap().next() {
        Some(Err(Error::Callback(error))) => assert_eq!(error.to_string(), "no sizes"),
        other => panic!("{other:?}"),
    }
    let panicking = PackedOptions::new().capacities([9, 9], |_| -> [f64; 2] { panic!("mine") });
    let mut lists = numbers(5).pack(&panicking).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| lists.next().is_some())).is_err());
}

// ---- orders -------------------------------------------------------------------------------------

#[test]
fn stages_give_what_they_say() {
    assert_eq!(gives(numbers(7).batch(3).unwrap(), 100), [0, 1, 2, -1, 3, 4, 5, -1, 6, -1]);
    assert_eq!(gives(numbers(5).window(3).unwrap(), 100), [0, 1, 2, -1, 1, 2, 3, -1, 2, 3, 4, -1]);
    assert_eq!(gives(numbers(7).batch(3).unwrap().flatten().unwrap(), 100), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(
        gives(Stream::zip([numbers(2), numbers(3), numbers(4)]).unwrap(), 100),
        [0, 0, 0, -1, 1, 1, 1, -1]
    );
    assert_eq!(gives(numbers(5).rank(1, 3).unwrap(), 100), [1, 4]);
    assert_eq!(
        gives(numbers(4).rank(2, 3).unwrap(), 100),
        [2, -1],
        "a rank that goes short gets an empty list"
    );
    assert_eq!(gives(numbers(5).prefetch(2).unwrap(), 100), [0, 1, 2, 3, 4]);

    let mut batch = padded(3).batch(3).unwrap();
    let Record::List { records, size } = batch.owned().next().unwrap().unwrap() else {
        panic!("not a list")
    };
    assert_eq!((records.len(), size, records[1].size()), (3, 2.0 + 9.0 + 5.0, 9.0));
    assert_eq!(records[0].bytes().unwrap(), b"x0");
    assert!(batch.next().is_none() && batch.next().is_none());

    let mut array = Stream::array(&[5.5f32, -1.0], &ListOptions::new()).unwrap();
    let record = array.next().unwrap().unwrap();
    assert_eq!((record.number::<f32>().unwrap(), record.size()), (5.5, 4.0));
    assert!(refusal(record.number::<f64>()).contains("record.len() = 4: must be 8 bytes"));

    let sized = [0.0, 1.0, 1.5, 0.0, 1.9].map(|size| Made::bytes("").sized(size));
    let control = Stream::list(sized, &ListOptions::new()).unwrap();
    assert_eq!(gives(control.multiplex([numbers(9), numbers(3)]).unwrap(), 100), [0, 0, 1, 1, 2]);
}

#[test]
fn mixes_take_proportions_windows_and_ends() {
    let twice = MixOptions::new().proportions([2.0, 1.0]);
    let mixed = |counts: [usize; 2], options: &MixOptions| {
        gives(Stream::mix(counts.map(numbers), options).unwrap(), 100)
    };
    assert_eq!(mixed([3, 2], &twice), [0, 0, 1, 2, 1]);
    assert_eq!(mixed([1, 3], &twice.clone().until(MixUntil::All)), [0, 0, 1, 2]);
    let wrong = Stream::mix([numbers(5)], &twice.window(1 << 33));
    assert!(refusal(wrong).contains("proportions.len() = 2: must be the number of sources, 1"));
}

#[test]
fn closures_of_every_kind_give_what_they_say() {
    let doubled = |record: RecordRef<'_>| {
        Made::bytes((2 * number_of(record.bytes().unwrap())).to_string()).sized(3.0)
    };
    assert_eq!(gives(numbers(5).map(doubled).unwrap(), 100), [0, 2, 4, 6, 8]);
    for threads in 0..4 {
        let mut mapped = numbers(1000).map_parallel(threads, doubled).unwrap();
        assert_eq!(mapped.next().unwrap().unwrap().size(), 3.0);
        assert_eq!(
            read_out(&mut mapped, 2000),
            (1..1000).map(|number| 2 * number).collect::<Vec<_>>()
        );
    }
    let mut same = numbers(12)
        .batch(5)
        .unwrap()
        .map(|list| Made::same().sized(list.records().unwrap().len() as f64))
        .unwrap();
    let sizes: Vec<f64> = same.owned().map(|list| list.unwrap().size()).collect();
    assert_eq!(sizes, [5.0, 5.0, 2.0]);

    let sum = |state: &[u8], record: RecordRef<'_>| {
        let sum = (number_of(state) + number_of(record.bytes().unwrap())).to_string();
        (Made::from(sum.clone()), Made::from(sum))
    };
    assert_eq!(gives(numbers(6).recurrent("0", sum).unwrap(), 100), [0, 1, 3, 6, 10, 15]);

    // random.Random(7): [r.randrange(1000) for _ in range(6)]
    let drawn =
        numbers(6).random_map(7, |random, _| Made::from(random.below(1000).to_string())).unwrap();
    assert_eq!(gives(drawn, 100), [331, 970, 154, 404, 666, 49]);
    let odd = |random: &mut libsab::stream::Random<'_>, _: RecordRef<'_>| {
        assert_eq!((random.bits(0), random.bits(65), random.below(0)), (0, 0, 0));
        assert!(random.bits(3) < 8 && random.real() < 1.0);
        Made::same()
    };
    assert_eq!(gives(numbers(3).random_map(7, odd).unwrap(), 100), [0, 1, 2]);

    assert_eq!(gives(repeated(numbers(7)), 100), [0, 1, 1, 2, 2, 2, 4, 5, 5, 6, 6, 6]);
    let deep = repeated(repeated(numbers(3)).prefetch(2).unwrap());
    assert_eq!(gives(deep, 100), [0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2]);

    let keyed = ReadaheadOptions::new()
        .read_ahead(12)
        .batch_size(4)
        .boundary_key_fn(|record: RecordRef<'_>| number_of(record.bytes().unwrap()) as u64 % 2);
    let batches = gives(padded(30).readahead(&keyed).unwrap(), 100);
    let lists: Vec<&[i64]> =
        batches.split(|number| *number == -1).filter(|list| !list.is_empty()).collect();
    assert!(
        lists.iter().all(|list| list.iter().all(|number| number % 2 == list[0] % 2)),
        "{lists:?}"
    );
}

/// One to three times itself, or not at all.
fn repeated(stream: Stream) -> Stream {
    stream
        .select(|record| {
            let count = (number_of(record.bytes().unwrap()) + 1) % 4;
            let copies = (0..count).map(|_| record.bytes().unwrap());
            Ok((count > 0).then(|| Stream::list(copies, &ListOptions::new())).transpose()?)
        })
        .unwrap()
}

#[test]
fn sources_of_closures_begin_again() {
    let begun = Arc::new(AtomicUsize::new(0));
    let count = begun.clone();
    let mut stream = Stream::from_fn(move || {
        count.fetch_add(1, Ordering::Relaxed);
        (0..30).map(|number| Made::from(number.to_string()).sized(1.0))
    })
    .unwrap();
    assert_eq!(read_out(&mut stream, 10), (0..10).collect::<Vec<_>>());
    let state = stream.state().unwrap();
    assert_eq!(read_out(&mut stream, 100), (10..30).collect::<Vec<_>>());
    assert!(stream.next().is_none());
    stream.restore(&state).unwrap();
    assert_eq!(stream.next().unwrap().unwrap().size(), 1.0);
    assert_eq!(read_out(&mut stream, 100), (11..30).collect::<Vec<_>>());
    assert_eq!(begun.load(Ordering::Relaxed), 2);

    let mut failing = Stream::try_from_fn(|| [Ok("1"), Err(Mine(2)), Ok("3")]).unwrap();
    assert_eq!(read_out(&mut failing, 1), [1]);
    assert_eq!(mine(failing.next().unwrap()), 2);
    assert_eq!(read_out(&mut failing, 2), [3]);
}

/// A source that knows where it stands.
struct Counter {
    at: u64,
    end: u64,
    fails_at: Option<u64>,
}

impl Source for Counter {
    fn next(&mut self) -> Result<Option<Made>, BoxError> {
        if self.fails_at == Some(self.at) {
            self.fails_at = None;
            return Err(Mine(self.at as usize).into());
        }
        self.at += 1;
        Ok((self.at <= self.end).then(|| (self.at - 1).to_string().into()))
    }
    fn rewind(&mut self) -> Result<(), BoxError> {
        self.at = 0;
        Ok(())
    }
    fn state(&self) -> Result<Vec<u8>, BoxError> {
        // Longer than the room that is there at first.
        Ok([&self.at.to_ne_bytes()[..], &[0; 5000]].concat())
    }
    fn restore(&mut self, state: &[u8]) -> Result<(), BoxError> {
        self.at = u64::from_ne_bytes(state[..8].try_into()?);
        if self.at == 13 {
            return Err(Mine(13).into());
        }
        Ok(())
    }
}

#[test]
fn a_source_saves_where_it_stands() {
    let stream = |end| Stream::from_source(Counter { at: 0, end, fails_at: Some(3) }).unwrap();
    let mut first = stream(50);
    assert_eq!(read_out(&mut first, 3), [0, 1, 2]);
    assert_eq!(mine(first.next().unwrap()), 3);
    assert_eq!(read_out(&mut first, 7), (3..10).collect::<Vec<_>>());
    let state = first.state().unwrap();
    let mut second = stream(50);
    second.restore(&state).unwrap();
    assert_eq!(read_out(&mut second, 100), read_out(&mut first, 100));

    first.rewind().unwrap();
    read_out(&mut first, 13);
    let state = first.state().unwrap();
    assert_eq!(mine(second.restore(&state)), 13);
}

// ---- closures that fail -------------------------------------------------------------------------

/// Fails or panics at its `at`th call, and in which thread.
#[derive(Clone)]
struct Fault {
    calls: Arc<AtomicUsize>,
    at: usize,
    panics: bool,
}

impl Fault {
    fn new(at: usize, panics: bool) -> Self {
        Fault { calls: Arc::default(), at, panics }
    }

    fn call(&self) -> Result<(), BoxError> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        match (call == self.at, self.panics) {
            (true, true) => resume_unwind(Box::new(call)), // as a panic, but that says nothing
            (true, false) => Err(Mine(call).into()),
            _ => Ok(()),
        }
    }
}

/// All that a stream gives, and what it failed with meanwhile: errors as they are, panics from 1000
/// on.
fn all_of(stream: &mut Stream) -> (Vec<i64>, Vec<usize>) {
    let (mut got, mut failures) = (Vec::new(), Vec::new());
    loop {
        let one = catch_unwind(AssertUnwindSafe(|| match stream.next()? {
            Ok(record) => {
                flat(record, &mut got);
                Some(None)
            }
            error => Some(Some(mine(error))),
        }));
        match one {
            Ok(None) => return (got, failures),
            Ok(Some(failure)) => failures.extend(failure),
            Err(payload) => failures
                .push(1000 + *payload.downcast::<usize>().expect("the payload of the closure")),
        }
    }
}

#[test]
fn closures_that_fail_are_called_again_and_nothing_is_lost() {
    let expected: [&[i64]; 6] = [
        &[0, 1, 3, 6, 10, 15],
        &[331, 970, 154, 404, 666, 49],
        &[0, 1, 1, 2, 2, 2],
        &[0, 2, 4, 6, 8, 10],
        &[0, 2, 4, 6, 8, 10],
        &[0, 1, -1, 2, 3, -1, 4, 5, -1],
    ];
    for (kind, expected) in expected.into_iter().enumerate() {
        for panics in [false, true] {
            for behind in [false, true] {
                let fault = Fault::new(3, panics);
                let source = numbers(if kind == 2 { 4 } else { 6 });
                let mut stream = match kind {
                    0 => source.try_recurrent("0", move |state, record| {
                        fault.call()?;
                        let sum =
                            (number_of(state) + number_of(record.bytes().unwrap())).to_string();
                        Ok((Made::from(sum.clone()), Made::from(sum)))
                    }),
                    1 => source.try_random_map(7, move |random, _| {
                        let drawn = random.below(1000).to_string();
                        fault.call().map(|()| Made::from(drawn))
                    }),
                    2 => source.select(move |record| {
                        fault.call()?;
                        let copies = vec![
                            record.bytes()?;
                            (number_of(record.bytes().unwrap()) as usize + 1) % 4
                        ];
                        Ok(Some(Stream::list(copies, &ListOptions::new())?))
                    }),
                    3 | 4 => {
                        let map = move |record: RecordRef<'_>| {
                            fault.call().map(|()| {
                                Made::from((2 * number_of(record.bytes().unwrap())).to_string())
                            })
                        };
                        if kind == 3 {
                            source.try_map(map)
                        } else {
                            source.try_map_parallel(2, map)
                        }
                    }
                    _ => source.readahead(
                        &ReadaheadOptions::new()
                            .read_ahead(2)
                            .shuffle(false)
                            .try_batch_size_fn(move |_| fault.call().map(|()| 2)),
                    ),
                }
                .unwrap();
                if behind {
                    stream = stream.prefetch(3).unwrap();
                }
                let failure = if panics { 1003 } else { 3 };
                assert_eq!(
                    all_of(&mut stream),
                    (expected.to_vec(), vec![failure]),
                    "kind {kind}, behind {behind}"
                );
            }
        }
    }
}

#[test]
fn failures_inside_streams_that_were_opened_or_joined_come_back() {
    for behind in [false, true] {
        let fault = Fault::new(5, false);
        let inner = fault.clone();
        let opened = numbers(3)
            .select(move |_| {
                let fault = inner.clone();
                let stream = numbers(3).try_map(move |_| fault.call().map(|()| Made::same()))?;
                Ok(Some(if behind { stream.prefetch(2)? } else { stream }))
            })
            .unwrap();
        let joined = Stream::zip([numbers(9), opened.prefetch(2).unwrap()]).unwrap();
        let mut stream = Stream::zip([joined, numbers(9)]).unwrap();
        let expected = (0..9).flat_map(|number| [number, number % 3, -1, number, -1]).collect();
        assert_eq!(all_of(&mut stream), (expected, vec![5]));
    }
}

#[test]
fn failures_that_never_came_go_with_a_rewind() {
    let held = Arc::new(());
    let error = held.clone();
    let mut stream = numbers(4)
        .try_map(move |record| {
            #[derive(Debug)]
            struct Holding {
                _held: Arc<()>,
            }
            impl fmt::Display for Holding {
                fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                    Ok(())
                }
            }
            impl std::error::Error for Holding {}
            if number_of(record.bytes().unwrap()) == 3 {
                Err(Holding { _held: error.clone() }.into())
            } else {
                Ok(Made::same())
            }
        })
        .unwrap()
        .prefetch(100)
        .unwrap();
    assert_eq!(read_out(&mut stream, 1), [0]);
    while Arc::strong_count(&held) < 3 {
        thread::yield_now(); // until the thread has failed
    }
    stream.rewind().unwrap();
    assert_eq!(Arc::strong_count(&held), 2);
    assert_eq!(read_out(&mut stream, 2), [0, 1]);
    drop(stream);
    assert_eq!(Arc::strong_count(&held), 1);
}

// ---- progress -----------------------------------------------------------------------------------

#[test]
fn progress_follows_cancels_and_goes_along() {
    let calls = Arc::new(AtomicUsize::new(0));
    let (seen, stop_at) = (calls.clone(), Arc::new(AtomicUsize::new(usize::MAX)));
    let stop = stop_at.clone();
    let mut source = numbers(50_000);
    let here = thread::current().id();
    source.set_progress(move |done, total| {
        assert!(done <= total && thread::current().id() == here);
        if seen.fetch_add(1, Ordering::Relaxed) + 1 == stop.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    let mut stream =
        source.readahead(&ReadaheadOptions::new().read_ahead(40_000).batch_size(10)).unwrap();
    stream.next().unwrap().unwrap();
    let of_a_window = calls.load(Ordering::Relaxed);
    assert!(of_a_window > 1);
    let state = stream.state().unwrap();
    stream.rewind().unwrap();
    stop_at.store(of_a_window + 2, Ordering::Relaxed);
    assert!(matches!(stream.next(), Some(Err(Error::Cancelled))));
    stream.restore(&state).unwrap();
    assert_eq!(stream.owned().count(), 4999);

    stream.set_progress(|_, _| resume_unwind(Box::new(7usize)));
    stream.rewind().unwrap();
    let payload = catch_unwind(AssertUnwindSafe(|| stream.next().is_some())).unwrap_err();
    assert_eq!(*payload.downcast::<usize>().unwrap(), 7);
    stream.clear_progress();
    assert_eq!(stream.owned().count(), 5000);
    assert_eq!(Arc::strong_count(&calls), 1);
}

// ---- files --------------------------------------------------------------------------------------

/// A folder that goes with its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sab-streams-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, contents).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn lines(files: &[PathBuf], options: FilesOptions) -> Stream {
    Stream::list(files, &ListOptions::new()).unwrap().files(&options).unwrap()
}

fn texts(stream: &mut Stream) -> Vec<String> {
    stream
        .owned()
        .map(|line| String::from_utf8(line.unwrap().bytes().unwrap().to_vec()).unwrap())
        .collect()
}

#[test]
fn files_have_lines_or_framed_records() {
    let folder = Folder::new("lines");
    let files = [folder.file("a", "one\ntwo\r\n"), folder.file("b", "three")];
    assert_eq!(texts(&mut lines(&files, FilesOptions::new())), ["one", "two", "three"]);
    let framed = folder.file("framed", b"\x03\0\0\0a\nb\0\0\0\0\x01\0\0\0c");
    assert_eq!(
        texts(&mut lines(&[framed], FilesOptions::new().framing(Framing::Length))),
        ["a\nb", "", "c"]
    );
}

#[test]
fn files_that_cannot_be_read_are_named_or_skipped() {
    let folder = Folder::new("broken");
    let missing = folder.0.join("missing");
    let files = [folder.file("a", "one\ntoo long\n"), missing.clone(), folder.file("b", "two\n")];
    let mut stream = lines(&files[1..], FilesOptions::new());
    let Some(Err(Error::Io(error))) = stream.next() else { panic!("a missing file was read") };
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(error.to_string().contains(missing.to_str().unwrap()), "{error}");
    folder.file("missing", "here\n");
    assert_eq!(texts(&mut stream), ["here", "two"]);
    fs::remove_file(&missing).unwrap();

    let mut stream = lines(&files, FilesOptions::new().max_record(4).on_error(OnError::Skip));
    assert_eq!(texts(&mut stream), ["one", "two"]);
    assert_eq!(stream.skipped(), 2);
}

// ---- refusals -----------------------------------------------------------------------------------

#[test]
fn refused_options_have_the_names_of_rust() {
    let list = |options: &ListOptions| Stream::list(["a"], options);
    let refusals = [
        (numbers(5).block_shuffle(0, 1), "size = 0"),
        (numbers(5).rank(3, 3), "rank = 3"),
        (Stream::zip([]), "count = 0"),
        (
            numbers(5).readahead(&ReadaheadOptions::new()),
            "a budget or a batch_size_fn must be given",
        ),
        (numbers(5).readahead(&ReadaheadOptions::new().budget(f64::NAN)), "budget = "),
        (list(&ListOptions::new().rank(3).world_size(3)), "rank = 3"),
        (list(&ListOptions::new().shuffle(true)), "only an infinite list is shuffled"),
    ];
    for (result, expected) in refusals {
        let message = refusal(result);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_list_is_not_bytes() {
    let mut stream = numbers(2).batch(2).unwrap();
    let list = stream.next().unwrap().unwrap();
    assert!(refusal(list.bytes()).contains("record = list: must be bytes"));
    assert!(refusal(list.number::<u8>()).contains("record = list: must be bytes"));
    let bytes = list.records().unwrap().next().unwrap();
    assert!(refusal(bytes.records()).contains("record = bytes: must be a list"));
    let owned = list.to_record();
    assert!(owned.bytes().is_err() && owned.records().unwrap()[0].records().is_err());
    assert_eq!(
        format!("{:?}", list.records().unwrap().next_back().unwrap()),
        "RecordRef { size: 1.0, content: Bytes([49]) }"
    );
}
