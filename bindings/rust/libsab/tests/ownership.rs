//! What safe code may do to memory that the library still uses: closures that drop the stream which
//! they belong to, files that change. test.sh runs it under valgrind, since much of it would only
//! read freed memory.
#![cfg(all(feature = "files", feature = "stream"))]

use std::cell::OnceCell;
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use libsab::stream::{ListOptions, Made, ReadaheadOptions, RecordRef, Source, Stream};
use libsab::{
    BoxError, Error, Plan, PlanOptions, Sampler, SamplerOptions, Sizes, SizesFileOptions,
};

const PATIENCE: Duration = Duration::from_secs(60);

fn numbers(count: usize) -> Stream {
    Stream::list((0..count).map(|i| i.to_string()), &ListOptions::new()).unwrap()
}

/// Where a closure finds its own stream.
type Slot<T> = Arc<Mutex<Option<T>>>;

/// Waits for the owner and drops it.
fn drop_owner<T>(slot: &Slot<T>) {
    loop {
        let owner = slot.lock().unwrap().take();
        match owner {
            Some(owner) => return drop(owner),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// What a closure owns: it says when it is dropped.
struct Captured {
    numbers: Vec<u64>,
    is_dropped: Sender<()>,
}

impl Captured {
    fn new() -> (Self, Receiver<()>) {
        let (is_dropped, dropped) = channel();
        (Captured { numbers: (0..1000).collect(), is_dropped }, dropped)
    }

    fn is_whole(&self) -> bool {
        self.numbers.iter().sum::<u64>() == 499_500
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        self.is_dropped.send(()).unwrap();
    }
}

/// A map that drops its own stream in the call with this number, and then uses what it owns.
fn dropping_map<T: Send + 'static>(
    slot: &Slot<T>,
    at: u64,
) -> (impl Fn(RecordRef<'_>) -> Made + Send + Sync, Receiver<bool>, Receiver<()>) {
    let (captured, dropped) = Captured::new();
    let captured = Mutex::new(captured);
    let (seen, was_whole) = channel();
    let seen = Mutex::new(seen);
    let (slot, calls) = (slot.clone(), AtomicU64::new(0));
    let own_thread = std::thread::current().id();
    let map = move |_: RecordRef<'_>| {
        // Some records of a parallel map are mapped by the caller's thread, which uses the stream
        // meanwhile.
        if std::thread::current().id() != own_thread && calls.fetch_add(1, Ordering::SeqCst) == at {
            drop_owner(&slot);
            seen.lock().unwrap().send(captured.lock().unwrap().is_whole()).unwrap();
        }
        Made::same()
    };
    (map, was_whole, dropped)
}

#[test]
fn a_closure_below_prefetch_that_drops_its_own_stream_goes_on_with_what_it_owns() {
    let slot: Slot<Stream> = Slot::default();
    let (map, was_whole, dropped) = dropping_map(&slot, 10);
    let mut stream = numbers(5000).map(map).unwrap().prefetch(16).unwrap();
    stream.next().unwrap().unwrap();
    *slot.lock().unwrap() = Some(stream);
    assert!(was_whole.recv_timeout(PATIENCE).unwrap());
    dropped.recv_timeout(PATIENCE).unwrap(); // once its thread is past it
}

#[test]
fn a_threaded_map_that_drops_its_own_stream_goes_on_with_what_it_owns() {
    let slot: Slot<Stream> = Slot::default();
    let (map, was_whole, dropped) = dropping_map(&slot, 250);
    let mut stream = numbers(50_000).map_parallel(2, map).unwrap();
    stream.next().unwrap().unwrap();
    *slot.lock().unwrap() = Some(stream);
    assert!(was_whole.recv_timeout(PATIENCE).unwrap());
    dropped.recv_timeout(PATIENCE).unwrap();
}

/// Counts to ten.
struct Counted(Captured, u64);
impl Source for Counted {
    fn next(&mut self) -> Result<Option<Made>, BoxError> {
        assert!(self.0.is_whole());
        self.1 += 1;
        Ok((self.1 <= 10).then(|| Made::bytes(self.1.to_string())))
    }
    fn rewind(&mut self) -> Result<(), BoxError> {
        self.1 = 0;
        Ok(())
    }
    fn state(&self) -> Result<Vec<u8>, BoxError> {
        Ok(self.1.to_le_bytes().to_vec())
    }
    fn restore(&mut self, state: &[u8]) -> Result<(), BoxError> {
        self.1 = u64::from_le_bytes(state.try_into()?);
        Ok(())
    }
}

type Make = fn(Captured, Stream, bool) -> Result<Stream, Error>;

/// Makes a stage of each kind; with `true`, one that is refused where the kind has options to
/// refuse.
fn stages() -> [(&'static str, Make); 8] {
    [
        ("source", |own, _, _| Stream::from_source(Counted(own, 0))),
        ("map", |own, source, _| {
            source.map(move |_| Made::same().sized(f64::from(u8::from(own.is_whole()))))
        }),
        ("map_parallel", |own, source, fails| {
            let own = Mutex::new(own);
            source.map_parallel(if fails { 1 << 40 } else { 2 }, move |_| {
                assert!(own.lock().unwrap().is_whole());
                Made::same()
            })
        }),
        ("select", |own, source, _| {
            source.select(move |_| {
                assert!(own.is_whole());
                Ok(Some(numbers(2).map(|_| Made::same())?))
            })
        }),
        ("recurrent", |own, source, _| {
            source.recurrent("", move |_, _| {
                assert!(own.is_whole());
                (Made::same(), Made::same())
            })
        }),
        ("random_map", |own, source, _| {
            source.random_map(1, move |_, _| {
                assert!(own.is_whole());
                Made::same()
            })
        }),
        ("batch_size", |own, source, fails| {
            let options = ReadaheadOptions::new().read_ahead(if fails { 0 } else { 5 });
            source.readahead(&options.batch_size_fn(move |_| u64::from(own.is_whole())))
        }),
        ("boundary_key", |own, source, fails| {
            let options =
                ReadaheadOptions::new().batch_size(2).read_ahead(if fails { 0 } else { 5 });
            source.readahead(&options.boundary_key_fn(move |_| u64::from(own.is_whole())))
        }),
    ]
}

/// Each kind of stage frees its closures once: with the stream, or when there can be no stage.
#[test]
fn closures_of_all_stages_are_dropped_once() {
    for (name, make) in stages() {
        for (uses, is_read_ahead) in [(0, false), (3, false), (100, true)] {
            let (own, dropped) = Captured::new();
            let mut stream = make(own, numbers(10), false).unwrap();
            if is_read_ahead {
                stream = stream.prefetch(4).unwrap();
            }
            for record in stream.owned().take(uses) {
                record.unwrap();
            }
            drop(stream);
            assert_eq!(dropped.iter().count(), 1, "{name}");
        }
        let (own, dropped) = Captured::new();
        if let Err(error) = make(own, numbers(10), true) {
            assert!(matches!(error, Error::Argument(_)), "{name}");
        }
        assert_eq!(dropped.iter().count(), 1, "{name}");
    }
}

/// A destructor that panics in the library's `release` does so in the caller.
#[test]
fn a_panic_in_the_destructor_of_a_closure_goes_on_where_the_stream_is_dropped() {
    struct Fuse;
    impl Drop for Fuse {
        fn drop(&mut self) {
            panic!("the destructor");
        }
    }
    let message =
        |panicked: std::thread::Result<()>| *panicked.unwrap_err().downcast_ref::<&str>().unwrap();
    let fuse = Fuse;
    let stream = numbers(3).map(move |_| {
        let _ = &fuse;
        Made::same()
    });
    let stream = stream.unwrap();
    assert_eq!(message(catch_unwind(AssertUnwindSafe(|| drop(stream)))), "the destructor");
    numbers(3).next().unwrap().unwrap(); // and only once
}

/// Bytes of a source are copied when it is asked for the next record at the latest, whatever other
/// closures of the thread make meanwhile.
#[test]
fn sources_under_other_closures_keep_their_bytes() {
    struct Ones(u64);
    impl Source for Ones {
        fn next(&mut self) -> Result<Option<Made>, BoxError> {
            self.0 += 1;
            Ok((self.0 <= 100).then(|| Made::bytes(vec![self.0 as u8; 300])))
        }
        fn rewind(&mut self) -> Result<(), BoxError> {
            self.0 = 0;
            Ok(())
        }
        fn state(&self) -> Result<Vec<u8>, BoxError> {
            Ok(self.0.to_le_bytes().to_vec())
        }
        fn restore(&mut self, state: &[u8]) -> Result<(), BoxError> {
            self.0 = u64::from_le_bytes(state.try_into()?);
            Ok(())
        }
    }
    let twice = |source: Stream| {
        source.map(|record: RecordRef<'_>| Made::bytes(record.bytes().unwrap().repeat(2))).unwrap()
    };
    let mut zip = Stream::zip([
        twice(Stream::from_source(Ones(0)).unwrap()),
        twice(Stream::from_source(Ones(0)).unwrap()),
    ])
    .unwrap();
    for (i, pair) in zip.owned().enumerate() {
        for record in pair.unwrap().records().unwrap() {
            assert_eq!(record.bytes().unwrap(), vec![i as u8 + 1; 600]);
        }
    }
}

/// A stream that is asked for its state cannot be asked again by its own source: `state` takes
/// `&mut self`.
#[test]
fn a_source_cannot_ask_its_own_stream_for_a_state_meanwhile() {
    thread_local!(static STREAM: OnceCell<std::cell::RefCell<Stream>> = const { OnceCell::new() });
    struct Asks;
    impl Source for Asks {
        fn next(&mut self) -> Result<Option<Made>, BoxError> {
            Ok(Some("x".into()))
        }
        fn rewind(&mut self) -> Result<(), BoxError> {
            Ok(())
        }
        fn state(&self) -> Result<Vec<u8>, BoxError> {
            STREAM.with(|stream| match stream.get().unwrap().try_borrow_mut() {
                Ok(mut stream) => Ok(stream.state()?),
                Err(_) => Err("is in use".into()),
            })
        }
        fn restore(&mut self, _: &[u8]) -> Result<(), BoxError> {
            Ok(())
        }
    }
    STREAM.with(|stream| {
        let _ = stream.set(std::cell::RefCell::new(Stream::from_source(Asks).unwrap()));
        let error = stream.get().unwrap().borrow_mut().state().unwrap_err();
        assert!(
            matches!(&error, Error::Callback(source) if source.to_string() == "is in use"),
            "{error:?}"
        );
    });
}

// ---- progress -----------------------------------------------------------------------------------

/// A stream that takes a while, and counts how often its progress closure was called.
fn slow(count: &Arc<AtomicU64>) -> Stream {
    let (count, is_followed) = (count.clone(), Arc::new(AtomicBool::new(false)));
    let seen = is_followed.clone();
    let wait = move |_: RecordRef<'_>| {
        while !is_followed.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Made::same()
    };
    let mut stream = Stream::list(["0", "0"], &ListOptions::new())
        .unwrap()
        .map(wait)
        .unwrap()
        .prefetch(4)
        .unwrap();
    stream.set_progress(move |_, _| {
        seen.store(true, Ordering::SeqCst);
        count.fetch_add(1, Ordering::SeqCst);
        ControlFlow::Continue(())
    });
    stream
}

/// The sources wait until they were followed, so a stage that lost the closure of one would wait
/// for ever.
#[test]
fn zip_and_multiplex_follow_all_their_sources() {
    let counts: [Arc<AtomicU64>; 3] = Default::default();
    let all_followed = || assert!(counts.iter().all(|count| count.swap(0, Ordering::SeqCst) > 0));

    let mut zip = Stream::zip(counts.iter().map(slow)).unwrap();
    zip.next().unwrap().unwrap();
    all_followed();

    let control = slow(&counts[0]).map(|_| Made::same().sized(1.0)).unwrap();
    let mut mixed = control.multiplex([slow(&counts[1]), slow(&counts[2])]).unwrap();
    mixed.next().unwrap().unwrap();
    all_followed();
}

#[test]
fn a_progress_closure_of_a_zip_takes_the_place_of_those_of_its_sources() {
    let (captured, dropped) = Captured::new();
    let captured = Mutex::new(captured);
    let mut source = numbers(3);
    source.set_progress(move |_, _| {
        assert!(captured.lock().unwrap().is_whole());
        ControlFlow::Break(())
    });
    let mut zip = Stream::zip([source, numbers(3)]).unwrap();
    assert!(dropped.try_recv().is_err());
    zip.clear_progress();
    dropped.recv().unwrap();
    assert_eq!(zip.owned().count(), 3);
}

#[test]
fn a_panic_in_a_progress_closure_of_a_source_of_a_zip_goes_on_in_the_caller() {
    let mut source = numbers(3).map(|_| {
        std::thread::sleep(Duration::from_millis(200));
        Made::same()
    });
    source = source.unwrap().prefetch(2);
    let mut source = source.unwrap();
    source.set_progress(|_, _| panic!("on the way"));
    let mut zip = Stream::zip([numbers(3), source]).unwrap();
    let panicked =
        catch_unwind(AssertUnwindSafe(|| zip.next().map(|record| record.map(drop)))).unwrap_err();
    assert_eq!(*panicked.downcast_ref::<&str>().unwrap(), "on the way");
}

// ---- files --------------------------------------------------------------------------------------

/// A file name of this process's own, removed at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Scratch(std::env::temp_dir().join(format!("sab-rust-{}-{name}", std::process::id())))
    }

    fn overwrite(&self, bytes: &[u8]) {
        let mut file = fs::OpenOptions::new().write(true).open(&self.0).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(bytes).unwrap();
    }

    fn truncate(&self) {
        fs::OpenOptions::new().write(true).open(&self.0).unwrap().set_len(0).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn npy(numbers: &[u32]) -> Vec<u8> {
    let mut header =
        format!("{{'descr': '<u4', 'fortran_order': False, 'shape': ({},), }}", numbers.len());
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    bytes
}

fn lengths(count: u32) -> Vec<u32> {
    (0..count).map(|i| 1 + i.wrapping_mul(7919) % 200).collect()
}

#[test]
fn an_npy_file_that_was_opened_may_change() {
    let file = Scratch::new("open.npy");
    let lengths = lengths(20_000);
    fs::write(&file.0, npy(&lengths)).unwrap();
    let sizes = Sizes::open(&file.0, &SizesFileOptions::new()).unwrap();
    let mut sampler = Sampler::ordered(None, &sizes, 1000.0, &SamplerOptions::new()).unwrap();
    file.truncate();
    assert_eq!(sizes.get(19_999).unwrap(), f64::from(lengths[19_999]));
    let plan = Plan::new(&sizes, &PlanOptions::new().budget(4096.0)).unwrap();
    assert_eq!(
        plan.info().fingerprint,
        Plan::new(&Sizes::borrowed(&lengths).unwrap(), &PlanOptions::new().budget(4096.0))
            .unwrap()
            .info()
            .fingerprint
    );
    assert_eq!(sampler.iter_mut().map(|batch| batch.unwrap().indices.len()).sum::<usize>(), 20_000);
}

#[test]
#[allow(unsafe_code)]
fn a_mapped_plan_file_that_is_overwritten_gives_no_index_out_of_range() {
    let file = Scratch::new("mapped.plan");
    let plan =
        Plan::new(&Sizes::borrowed(&lengths(20_000)).unwrap(), &PlanOptions::new().budget(4096.0))
            .unwrap();
    plan.save(&file.0).unwrap();
    // SAFETY: broken on purpose, which the library promises to survive where the file is as long as
    // before.
    let mapped = unsafe { Plan::map(&file.0) }.unwrap();
    assert_eq!(mapped.info(), plan.info());
    // SAFETY: as above.
    let unread = unsafe { Plan::map(&file.0) }.unwrap();
    let mut sampler = Sampler::bucket(&mapped, &SamplerOptions::new()).unwrap();
    file.overwrite(&vec![0xff; fs::metadata(&file.0).unwrap().len() as usize]);
    let Err(Error::Format(message)) = Sampler::bucket(&unread, &SamplerOptions::new()) else {
        panic!("the buckets are read with the first sampler");
    };
    assert!(message.text().contains("its section \"buckets\" is damaged"));
    let error = sampler.next_batch().unwrap().map(drop).unwrap_err();
    assert!(
        matches!(&error, Error::Format(message) if message.text().contains("have their checksum")),
        "{error:?}"
    );
    assert!(matches!(mapped.report(&SamplerOptions::new()), Err(Error::Format(_))));
}

/// A sampler goes on reading sizes that own their memory, whatever is dropped first.
#[test]
fn sizes_of_a_vector_live_as_long_as_the_sampler() {
    let lengths = lengths(20_000);
    let expected = |sizes: &Sizes<'_>| {
        let mut sampler = Sampler::ordered(None, sizes, 1000.0, &SamplerOptions::new()).unwrap();
        sampler.iter_mut().map(|batch| batch.unwrap().indices).collect::<Vec<_>>()
    };
    let expected = expected(&Sizes::borrowed(&lengths).unwrap());
    let sizes = Sizes::try_from(lengths).unwrap();
    let mut sampler = Sampler::ordered(None, &sizes, 1000.0, &SamplerOptions::new()).unwrap();
    drop(sizes);
    assert_eq!(
        sampler.iter_mut().map(|batch| batch.unwrap().indices).collect::<Vec<_>>(),
        expected
    );
}

/// Options are used by reference, so several stages share a closure; it is dropped with the last.
#[test]
fn a_closure_of_options_is_shared_by_stages() {
    let (own, dropped) = Captured::new();
    let options = ReadaheadOptions::new().batch_size_fn(move |_| 1 + u64::from(own.is_whole()));
    let mut streams = [numbers(4), numbers(6)].map(|stream| stream.readahead(&options).unwrap());
    drop(options);
    assert_eq!(streams.iter_mut().map(|stream| stream.owned().count()).sum::<usize>(), 5);
    drop(streams);
    dropped.recv().unwrap();
}

#[test]
fn steps_of_any_length_over_sizes() {
    let table = [12u64, 900, 7];
    for step in [3, 4, 1 << 40, usize::MAX / 8, usize::MAX / 8 + 1, usize::MAX] {
        let sizes = Sizes::strided(&table, step).unwrap();
        assert_eq!((sizes.len(), sizes.get(0).unwrap()), (1, 12.0), "{step}");
        assert_eq!(Sizes::strided::<u64>(&[], step).unwrap().len(), 0, "{step}");
    }
    assert_eq!(Sizes::strided(&table, 2).unwrap().get(1).unwrap(), 7.0);
}

#[test]
fn columns_keep_the_memory_of_what_they_were_made_from() {
    let columns = {
        let (first, second) = (vec![3u32; 1000], vec![5.0f64; 1000]);
        let (first, second) = (Sizes::from_vec(first).unwrap(), Sizes::from_vec(second).unwrap());
        Sizes::columns(&[("first", &first), ("second", &second)]).unwrap()
    };
    assert_eq!(columns.row(999).unwrap()[..], [3.0, 5.0]);
    let plan = Plan::new(&columns, &PlanOptions::new().budget(80.0)).unwrap();
    drop(columns);
    assert_eq!(plan.column_names()[1].as_deref(), Some("second"));
}
