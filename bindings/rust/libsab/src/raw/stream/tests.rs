//! Owners, trampolines and records without the library: nothing here calls C, so that Miri can run
//! it (bindings/rust/miri.sh).

use std::mem::align_of;
use std::sync::atomic::AtomicUsize;

use super::*;
use crate::raw::compat::{index_trampoline, IndexFn};
use crate::stream::{Content, Record};

#[test]
fn only_the_same_major_version_and_no_older_minor_one_will_do() {
    let needed = sys::ABI_VERSION;
    for found in [needed, needed + 1, needed / 1000 * 1000 + 999] {
        check_abi(found).unwrap();
    }
    for found in [needed - 1, needed + 1000, needed / 1000 * 1000 + 1000] {
        assert!(
            matches!(check_abi(found), Err(Error::Unsupported(message)) if message.text().contains("must be"))
        );
    }
}

/// Counts how often it is dropped, and may panic in that.
struct Counted {
    count: Arc<AtomicUsize>,
    panics: bool,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        assert!(!self.panics, "the destructor");
    }
}

fn counted(panics: bool) -> (Arc<AtomicUsize>, Counted) {
    let count = Arc::new(AtomicUsize::new(0));
    (count.clone(), Counted { count, panics })
}

/// A context on its way to another thread.
#[derive(Clone, Copy)]
struct Context(*mut c_void);

// SAFETY: what it points to is Send, and used by one thread at a time or shared where it is Sync.
unsafe impl Send for Context {}

impl Context {
    fn get(self) -> *mut c_void {
        self.0
    }
}

#[test]
fn a_closure_is_freed_here_unless_c_made_a_stage_of_it() {
    let failures = Arc::default();
    let (count, own) = counted(false);
    Offered::new(own, &failures).take_if_made(null_mut::<u8>());
    assert_eq!(count.load(Ordering::SeqCst), 1);

    let (count, own) = counted(false);
    let offered = Offered::new(own, &failures);
    let context = offered.context();
    offered.take_if_made(NonNull::<u8>::dangling().as_ptr());
    assert_eq!(count.load(Ordering::SeqCst), 0);
    let context = Context(context);
    // SAFETY: the stage made above, as C would free it, from a thread of its own.
    std::thread::spawn(move || unsafe { release::<Counted>(context.get()) }).join().unwrap();
    assert_eq!((count.load(Ordering::SeqCst), Arc::strong_count(&failures)), (1, 1));
}

#[test]
fn a_panic_in_a_destructor_waits_for_the_call_to_come_back() {
    let failures = Arc::default();
    for _ in 0..2 {
        let (count, own) = counted(true);
        let offered = Offered::new(own, &failures);
        let context = offered.context();
        offered.take_if_made(NonNull::<u8>::dangling().as_ptr());
        // SAFETY: the stage made above, as C would free it.
        unsafe { release::<Counted>(context) };
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }
    let panicked = catch_unwind(|| check(sys::SAB_OK).map(drop)).unwrap_err();
    assert_eq!(*panicked.downcast_ref::<&str>().unwrap(), "the destructor");
    check(sys::SAB_OK).unwrap(); // only the first one counts
}

/// A record and what a closure made of it, as C calls it.
fn mapped(
    function: Box<MapFn>,
    record: &sys::sab_record,
) -> (i32, sys::sab_record, Vec<u8>, Option<Failure>) {
    let failures = Arc::default();
    let offered = Offered::new(function, &failures);
    let mut made = *record;
    // SAFETY: the closure given with its trampoline; the records are alive. The bytes made are
    // copied before another closure runs.
    let (code, bytes) = unsafe {
        let code = map_trampoline(offered.context(), record, &mut made);
        (code, slice(made.data.cast::<u8>(), made.length).to_vec())
    };
    (code, made, bytes, failures.take(code))
}

#[test]
fn a_map_fills_in_bytes_or_a_size_or_how_it_failed() {
    let record = of_bytes(b"abc");
    let (code, made, bytes, _) =
        mapped(Box::new(|record| Ok(Made::bytes(record.bytes()?.repeat(2)))), &record);
    assert_eq!((code, made.size, bytes), (sys::SAB_OK, 6.0, b"abcabc".to_vec()));
    let (code, made, bytes, _) = mapped(Box::new(|_| Ok(Made::same().sized(9.0))), &record);
    assert_eq!(
        (code, made.size, made.data, bytes),
        (sys::SAB_OK, 9.0, record.data, b"abc".to_vec())
    );
    let (code, _, _, failure) = mapped(Box::new(|_| Err("no such word".into())), &record);
    assert!(code > CLOSURE_FAILED);
    assert!(matches!(failure, Some(Failure::Error(error)) if error.to_string() == "no such word"));
    let (code, _, _, failure) = mapped(Box::new(|_| panic!("on the way")), &record);
    assert!(code > CLOSURE_FAILED && matches!(failure, Some(Failure::Panic(_))));
}

#[test]
fn a_parallel_map_is_shared_by_threads() {
    let failures = Arc::default();
    let sum = Arc::new(AtomicUsize::new(0));
    let seen = sum.clone();
    let function: Box<ParallelMapFn> = Box::new(move |record| {
        let bytes = record.bytes()?;
        seen.fetch_add(bytes.len(), Ordering::Relaxed);
        Ok(Made::bytes(bytes))
    });
    let offered = Offered::new(function, &failures);
    let context = Context(offered.context());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(move || {
                let record = of_bytes(b"abcd");
                let mut made = record;
                // SAFETY: the closure given with its trampoline, which lives longer than these
                // threads.
                let code = unsafe { parallel_map_trampoline(context.get(), &record, &mut made) };
                assert_eq!(code, sys::SAB_OK);
            });
        }
    });
    assert_eq!(sum.load(Ordering::Relaxed), 12);
}

struct Words {
    given: u8,
}

impl Source for Words {
    fn next(&mut self) -> Result<Option<Made>, BoxError> {
        self.given += 1;
        Ok((self.given <= 2).then(|| Made::bytes(vec![self.given; 3])))
    }
    fn rewind(&mut self) -> Result<(), BoxError> {
        self.given = 0;
        Ok(())
    }
    fn state(&self) -> Result<Vec<u8>, BoxError> {
        Ok(vec![self.given; 4])
    }
    fn restore(&mut self, state: &[u8]) -> Result<(), BoxError> {
        self.given = *state.first().ok_or("empty")?;
        Ok(())
    }
}

#[test]
fn the_bytes_of_a_source_outlive_those_of_other_closures() {
    let offered =
        Offered::new(Sourcing { source: Words { given: 0 }, made: Vec::new() }, &Arc::default());
    let context = offered.context();
    let (mut record, mut size, mut state) = (empty_record(), 0, [0u8; 4]);
    // SAFETY: the source given with its trampolines; the rest is alive, and as large as is said.
    unsafe {
        assert_eq!(next_trampoline::<Words>(context, &mut record), sys::SAB_OK);
        mapped(Box::new(|_| Ok(Made::bytes("other"))), &of_bytes(b"x"));
        assert_eq!(slice(record.data.cast::<u8>(), record.length), [1, 1, 1]);
        assert_eq!(
            state_save_trampoline::<Words>(context, state.as_mut_ptr().cast(), 3, &mut size),
            sys::SAB_OK
        );
        assert_eq!((size, state), (4, [0; 4]));
        assert_eq!(
            state_save_trampoline::<Words>(context, state.as_mut_ptr().cast(), 4, &mut size),
            sys::SAB_OK
        );
        assert_eq!((size, state), (4, [1; 4]));
        assert_eq!(next_trampoline::<Words>(context, &mut record), sys::SAB_OK);
        assert_eq!(next_trampoline::<Words>(context, &mut record), sys::SAB_END);
        assert_eq!(
            state_restore_trampoline::<Words>(context, state.as_ptr().cast(), 4),
            sys::SAB_OK
        );
        assert_eq!(next_trampoline::<Words>(context, &mut record), sys::SAB_OK);
        assert_eq!(slice(record.data.cast::<u8>(), record.length), [2, 2, 2]);
        assert_eq!(rewind_trampoline::<Words>(context), sys::SAB_OK);
        assert!(state_restore_trampoline::<Words>(context, null(), 0) > CLOSURE_FAILED);
    }
}

#[test]
fn recurrent_steps_fill_in_state_and_record() {
    let function: Box<RecurFn> = Box::new(|state, record| {
        Ok((Made::bytes(state.repeat(2)), Made::bytes([state, record.bytes()?].concat())))
    });
    let offered = Offered::new(function, &Arc::default());
    let (state, record) = (of_bytes(b"s"), of_bytes(b"r"));
    let (mut next, mut made) = (state, record);
    // SAFETY: the closure given with its trampoline; the records are alive.
    unsafe {
        assert_eq!(
            recur_trampoline(offered.context(), &state, &record, &mut next, &mut made),
            sys::SAB_OK
        );
        assert_eq!(slice(next.data.cast::<u8>(), next.length), b"ss");
        assert_eq!(slice(made.data.cast::<u8>(), made.length), b"sr");
    }
}

#[test]
fn limits_are_asked_each_by_its_own_trampoline() {
    let limits = Limits {
        batch_size: Some(Arc::new(|record| Ok(record.size() as u64))),
        boundary_key: Some(Arc::new(|_| Ok(7))),
        ..Limits::default()
    };
    let offered = Offered::new(limits, &Arc::default());
    let mut number = 0;
    // SAFETY: the closures given with their trampolines; the record is alive.
    unsafe {
        assert_eq!(
            batch_size_trampoline(offered.context(), &of_bytes(b"abc"), &mut number),
            sys::SAB_OK
        );
        assert_eq!(number, 3);
        assert_eq!(
            boundary_key_trampoline(offered.context(), &of_bytes(b"abc"), &mut number),
            sys::SAB_OK
        );
        assert_eq!(number, 7);
    }
}

#[test]
fn records_have_the_layout_of_those_of_c() {
    assert_eq!(size_of::<RecordView<'_>>(), size_of::<sys::sab_record>());
    assert_eq!(align_of::<RecordView<'_>>(), align_of::<sys::sab_record>());
    let inner = [of_bytes(b"a"), of_bytes(b""), of_bytes(b"bcd")];
    let list = sys::sab_record {
        kind: sys::SAB_RECORD_LIST,
        size: 4.0,
        data: inner.as_ptr().cast(),
        length: 3,
    };
    // SAFETY: alive as long as `inner`.
    let record: RecordRef<'_> = unsafe { seen(&list) };
    assert!(matches!(record.content(), Content::List(records) if records.len() == 3));
    let lengths: Vec<usize> =
        record.records().unwrap().map(|record| record.bytes().unwrap().len()).collect();
    assert_eq!(lengths, [1, 0, 3]);
    assert!(
        matches!(record.to_record(), Record::List { records, size } if records.len() == 3 && size == 4.0)
    );
}

#[test]
fn failures_move_to_the_stream_that_takes_another() {
    let (inner, outer): (Arc<Failures>, Arc<Failures>) = Default::default();
    let early = inner.run(|| Err("early".into()));
    inner.join(&outer);
    let late = inner.run(|| Err("late".into()));
    assert_ne!(early, late);
    for (code, words) in [(late, "late"), (early, "early")] {
        assert!(
            matches!(outer.take(code), Some(Failure::Error(error)) if error.to_string() == words)
        );
    }
    assert!(inner.take(early).is_none());
    let stale = outer.run(|| Err("stale".into()));
    inner.forget();
    assert!(outer.take(stale).is_none());
}

#[test]
fn closures_kept_beside_a_handle_keep_how_they_failed() {
    let calls = Cell::new(0);
    let mut asked = 0;
    let source: Box<IndexFn<'_>> = Box::new(|epoch, position| {
        asked += 1;
        match position {
            0 => Ok(Some((asked, epoch as f64))),
            1 => Err("gone".into()),
            _ => Ok(None),
        }
    });
    let (kept, context) = KeptBox::of(Guarded::new(source));
    let (mut index, mut size) = (0, 0.0);
    // SAFETY: the closure given with its trampoline; room for two numbers; no call is under way
    // when the failure is taken.
    unsafe {
        assert_eq!(index_trampoline(context, 5, 0, &mut index, &mut size), sys::SAB_OK);
        assert_eq!((index, size), (1, 5.0));
        assert_eq!(index_trampoline(context, 5, 1, &mut index, &mut size), CLOSURE_FAILED);
        assert!(matches!(kept.take_failure(), Some(Failure::Error(_))));
        assert_eq!(index_trampoline(context, 5, 2, &mut index, &mut size), sys::SAB_END);
        assert!(kept.take_failure().is_none());
    }
    let cost: &RefCell<CostFn<'_>> = &RefCell::new(|count, lengths: &[f64], _: &[f64]| {
        calls.set(calls.get() + 1);
        Ok(count as f64 * lengths[0])
    });
    let (kept, context) = Shared::new(Guarded::new(cost));
    let (length, mut answer) = (4.0, 0.0);
    // SAFETY: as above.
    unsafe {
        assert_eq!(cost_trampoline(context, 3, &length, &length, 1, &mut answer), sys::SAB_OK);
        assert!(kept.take_failure().is_none());
    }
    assert_eq!((answer, calls.get()), (12.0, 1));
}

#[test]
fn errors_have_their_source() {
    let error = Failure::Error("why".into()).into_error();
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "why");
    assert_eq!(error.to_string(), "the caller's closure failed");
    assert!(
        matches!(path_text("a\0b".as_ref()), Err(Error::Argument(message)) if message.text().contains("NUL"))
    );
}
