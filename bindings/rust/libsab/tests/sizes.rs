//! Sizes of files and joined sizes.
#![cfg(feature = "files")]

#[macro_use]
mod common;

use std::fs;
use std::ops::ControlFlow;
use std::panic::{catch_unwind, panic_any, AssertUnwindSafe};

use common::Scratch;
use libsab::{Error, MissingRule, Sampler, SamplerOptions, Sizes, SizesFileOptions, TextUnit};

fn all(sizes: &Sizes<'_>) -> Vec<f64> {
    (0..sizes.len()).map(|index| sizes.get(index).unwrap()).collect()
}

/// Megatron's index of sequences with these lengths, in one document.
fn megatron(lengths: &[i32]) -> Vec<u8> {
    let mut bytes = b"MMIDIDX\0\0".to_vec();
    bytes.extend(1u64.to_le_bytes());
    bytes.push(4);
    bytes.extend((lengths.len() as u64).to_le_bytes());
    bytes.extend(1u64.to_le_bytes());
    lengths.iter().for_each(|length| bytes.extend(length.to_le_bytes()));
    (0..lengths.len() as u64).for_each(|i| bytes.extend((4 * i).to_le_bytes()));
    bytes.extend(0u64.to_le_bytes());
    bytes
}

#[test]
fn formats_are_detected_and_described() {
    let file = Scratch::new("sizes.any");
    for (content, expected, description) in [
        (megatron(&[5, 0, 7]), vec![5.0, 0.0, 7.0], "Megatron .idx: 3 sequences"),
        (b"5\n2.5\n".to_vec(), vec![5.0, 2.5], "lines of numbers: 2 sizes"),
        (b"one\ntwo lines\n".to_vec(), vec![3.0, 9.0], "lines of text, sizes in bytes: 2 lines"),
        (b">a\nAC\nGT\n".to_vec(), vec![4.0], "FASTA, sizes in residues: 1 record"),
    ] {
        fs::write(&file.0, content).unwrap();
        let sizes = Sizes::open(&file.0, &SizesFileOptions::new()).unwrap();
        assert_eq!((all(&sizes), &*sizes.description()), (expected.clone(), description));
        // SAFETY: the file is overwritten when the sizes are dropped.
        #[allow(unsafe_code)]
        let mapped = unsafe { Sizes::map(&file.0, &SizesFileOptions::new()) }.unwrap();
        assert_eq!((all(&mapped), &*mapped.description()), (expected, description));
    }
}

#[test]
fn options_choose_column_format_unit_and_what_is_missing() {
    let file = Scratch::new("sizes.jsonl");
    fs::write(&file.0, "{\"text\": \"a b\"}\n{\"other\": 1}\n{\"text\": \"c\"}\n").unwrap();
    let column = || SizesFileOptions::new().column("text");
    assert_refused!(Sizes::open(&file.0, &column()), Format, "line 2");
    let words = column().text_unit(TextUnit::Words).missing(MissingRule::Skip);
    assert_eq!(all(&Sizes::open(&file.0, &words).unwrap()), [2.0, 1.0]);
    let text = SizesFileOptions::new().format("text");
    assert_eq!(Sizes::open(&file.0, &text).unwrap().get(1).unwrap(), 12.0);
    assert_refused!(Sizes::open(&file.0, &SizesFileOptions::new().format("csv")), Argument, "csv");
    assert_refused!(Sizes::open(&file.0, &column().format("a\0b")), Argument, "format", "NUL");
    assert_refused!(Sizes::open("/nowhere/at.idx", &column()), Io, "/nowhere/at.idx");
    assert_refused!(Sizes::open("a\0b", &column()), Argument, "path", "NUL");
}

#[test]
fn an_opened_file_may_change() {
    let file = Scratch::new("sizes.idx");
    fs::write(&file.0, megatron(&[5, 6])).unwrap();
    let sizes = Sizes::open(&file.0, &SizesFileOptions::new()).unwrap();
    let mut sampler = Sampler::ordered(None, &sizes, 100.0, &SamplerOptions::new()).unwrap();
    fs::write(&file.0, "").unwrap();
    assert_eq!(all(&sizes), [5.0, 6.0]);
    drop(sizes);
    assert_eq!(sampler.iter_mut().next().unwrap().unwrap().indices, [0, 1]);
}

#[test]
fn progress_may_stop_reading_and_its_panic_is_resumed() {
    let file = Scratch::new("sizes.txt");
    fs::write(&file.0, "5\n").unwrap();
    let stop = SizesFileOptions::new().progress(|_, _| ControlFlow::Break(()));
    let stopped = Sizes::open(&file.0, &stop);
    assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
    let panicking = SizesFileOptions::new().progress(|_, _| panic_any(33usize));
    let panicked = catch_unwind(AssertUnwindSafe(|| Sizes::open(&file.0, &panicking)));
    assert_eq!(panicked.unwrap_err().downcast_ref::<usize>(), Some(&33));
}

#[test]
fn joined_sizes_know_part_and_row_and_keep_what_the_parts_own() {
    let borrowed = [12u16, 7];
    let (first, second) =
        (Sizes::borrowed(&borrowed).unwrap(), Sizes::from_vec(vec![3.5f32; 1000]).unwrap());
    let joined = Sizes::join(&[&first, &second, &first]).unwrap();
    drop((first, second));
    assert_eq!((joined.len(), joined.get(1001).unwrap()), (1004, 3.5));
    assert_eq!(joined.source(1).unwrap(), (0, 1));
    assert_eq!(joined.source(1003).unwrap(), (2, 1));
    assert_refused!(joined.source(1004), Argument, "1004");
    let twice = Sizes::join(&[&joined, &joined]).unwrap();
    let options = SamplerOptions::new();
    let mut sampler = Sampler::ordered(None, &twice, 1e9, &options).unwrap();
    drop((joined, twice));
    assert_eq!(sampler.iter_mut().next().unwrap().unwrap().indices.len(), 2008);
    assert!(Sizes::join(&[]).unwrap().is_empty());
}
