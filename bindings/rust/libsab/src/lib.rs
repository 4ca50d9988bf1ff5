//! Batches for samples of different sizes.
//!
//! Samples of different sizes (sentences, proteins, audio, graphs) are padded to the longest of
//! their batch. That wastes much of a batch, and a batch of the longest may not fit into memory.
//! libsab sorts the samples by size once and cuts them into buckets whose batches stay under a
//! budget. Samplers walk those batches in a shuffled order that needs no memory and resumes at any
//! step. Every rank gets the same number of steps at nearly equal cost.
//!
//! ```
//! use libsab::{Plan, PlanOptions, Sampler, SamplerOptions, Sizes};
//!
//! let tokens: Vec<u32> = (0..10_000).map(|i| 1 + i * 7919 % 200).collect();    // the size of each sample
//! let sizes = Sizes::borrowed(&tokens)?;
//! let plan = Plan::new(&sizes, &PlanOptions::new().budget(4096.0))?;           // padded tokens a batch
//! println!("{:.1} % padding", 100.0 * plan.report(&SamplerOptions::new())?.padding);
//!
//! let mut sampler = Sampler::bucket(&plan, &SamplerOptions::new().seed(7).rank(0).world_size(2))?;
//! for epoch in 0..2 {
//!     sampler.set_epoch(epoch)?;
//!     for batch in &mut sampler {
//!         let batch = batch?;
//!         assert!(batch.padded_total() <= 4096.0);
//!         // batch.indices: the samples; batch.padded_length[0]: the length to pad them to
//!     }
//! }
//! # Ok::<(), libsab::Error>(())
//! ```
//!
//! A [`Sampler`] is made by one of these:
//!
//! - [`Sampler::bucket`]: padded batches of a plan, shuffled; for training.
//! - [`Sampler::sequential`]: the batches of a plan unshuffled; for evaluation.
//! - [`Sampler::costliest`]: the costliest batches of a plan, to test the memory before training.
//! - [`Sampler::packed`]: samples laid end to end in rows of a fixed length, for attention that
//!   takes cumulative lengths.
//! - [`Sampler::balanced`]: batches without padding, of nearly equal cost on all ranks and in all
//!   micro-batches.
//! - [`Sampler::sharded`]: samples that are spread over the ranks, each of which knows only its own.
//! - [`Sampler::ordered`], [`Sampler::bionemo_size_aware_stream`]: greedy batches in the order of
//!   the samples.
//! - [`Sampler::bagua`], [`Sampler::bagua_batch`], [`Sampler::bionemo`]: the orders of other
//!   libraries, seed for seed.
//!
//! Other parts:
//!
//! - [`Mixture`]: several data sets in chosen proportions, for plans and samplers.
//! - [`Histogram`] and [`Plan::locate`]: plans of data sets that are spread over several machines.
//! - [`memory`]: measures and predicts memory, finds the largest batch, and lowers the budget of a
//!   run before it fails.
//! - [`stream`]: pipelines for data that is larger than memory, or has no end.
//! - [`find_thresholds`], [`Grouping`], [`Shapes`]: batches that are run in groups of similar
//!   lengths.
//! - [`Cache`]: values that are expensive to make, made once.
//! - [`ranks_from_environment`], [`ranks_from_mesh`], and [`Sampler::check_ranks`]: ranks, and
//!   whether they agree.
//!
//! # Rules that hold everywhere
//!
//! - Sizes, lengths and totals are `f64`, in the caller's unit (tokens, residues, frames, seconds,
//!   nodes). Samples may have several sizes, such as source and target: [`Sizes::columns`]. What has
//!   a value for each of them is a [`PerColumn`], a slice: `batch.padded_length[0]`.
//! - The same sizes, options and seed give the same batches on every machine and in every language
//!   that libsab has a binding for.
//! - [`Sizes`] and [`Plan`] are immutable and may be shared between threads. A sampler is a cursor
//!   for one thread at a time: `Send`, not `Sync`. So is a [`Stream`](stream::Stream).
//! - A [`Probe`](memory::Probe) and a [`MemoryGuard`](memory::MemoryGuard) cannot leave the thread
//!   that made them.
//! - A failed call changes nothing, but for what a stream has read.
//! - Each call that returns a result may fail with [`Error::NoMemory`]. "Errors" names what else a
//!   call fails with; one that is described as another fails as that one.
//!
//! # Numbers
//!
//! - Counts (samples, batches, steps, ranks, records, threads), epochs, seeds and bytes are `u64`.
//!   Predicted bytes are `f64`.
//! - Samples in arrays are `i64`, as the library lays them out; an array is borrowed, not
//!   converted.
//! - Positions in Rust's own slices, and their lengths, are `usize`.
//!
//! # Options
//!
//! All options follow one pattern: `new` and `Default` give the library's defaults, setters take
//! and return the options by value, and calls take them by reference. So options can be used
//! several times, and later versions can add more. A call borrows a closure of its options while
//! the closure runs; it panics if the closure makes a call with the same options.
//!
//! # Closures
//!
//! A closure that may fail returns `Result<_, `[`BoxError`]`>`, so that `?` works on any error
//! without a type annotation; steps on a device return `Result<_,
//! `[`StepError`](memory::StepError)`>`. Where most closures cannot fail there are two functions:
//! [`Cost::from_fn`] takes the value itself, [`Cost::try_from_fn`] a result.
//!
//! Closures are called in the calling thread, but for those of a [`stream`] that runs in threads.
//! An error that one returns comes back as [`Error::Callback`]. A panic is resumed in the caller.
//!
//! # Features
//!
//! `files`, `stream` and `cache`, on by default, bring [`Sizes::open`], the module [`stream`], and
//! [`Cache`]. `arrow` brings `Sizes::from_arrow`, `Sizes::from_record_batch`,
//! `Sizes::from_record_batch_reader`, and `Sampler::schedule`. `system` links the installed
//! library instead of the bundled source.
#![deny(unsafe_code)]
#![warn(missing_docs)]

#[cfg(feature = "arrow")]
mod arrow;
mod balance;
mod batch;
#[cfg(feature = "cache")]
mod cache;
mod choices;
mod columns;
mod compat;
mod context;
mod cost;
mod engine;
mod error;
#[cfg(feature = "files")]
mod files;
mod group;
pub mod memory;
mod messages;
mod mixture;
mod names;
mod options;
mod pack;
mod padding;
mod plan;
mod ranks;
mod raw;
mod sampler;
mod sizes;
mod step_plan;
#[cfg(feature = "stream")]
pub mod stream;
pub mod torch;

#[cfg(feature = "arrow")]
pub use arrow::*;
pub use balance::*;
pub use batch::*;
#[cfg(feature = "cache")]
pub use cache::*;
pub use columns::*;
pub use compat::*;
pub use context::*;
pub use cost::*;
pub use engine::*;
pub use error::*;
#[cfg(feature = "files")]
pub use files::*;
pub use group::*;
pub use mixture::*;
pub use pack::*;
pub use padding::*;
pub use plan::*;
pub use ranks::*;
pub use sampler::*;
pub use sizes::*;
pub use step_plan::*;

/// The example of the README is a test too.
#[cfg(all(doctest, feature = "stream"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// Severity of a log message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LogLevel {
    /// A result that the caller may not expect, such as skipped samples.
    Warning,
    /// Information.
    Info,
}

/// Sets the log closure of the process. Without one the library writes no messages.
///
/// It is called in the thread whose call logs, so possibly in several at once. It is dropped when
/// it was replaced and no call runs it any more. A panic in a thread of a stream is ignored.
///
/// ```
/// libsab::set_log(|level, message| eprintln!("{level:?}: {message}"));
/// libsab::clear_log();
/// ```
pub fn set_log(log: impl Fn(LogLevel, &str) + Send + Sync + 'static) {
    raw::set_log(Some(std::sync::Arc::new(log)));
}

/// Makes the library silent again.
pub fn clear_log() {
    raw::set_log(None);
}

/// Version of the library that is linked, such as `"0.1.0"`.
#[must_use]
pub fn version() -> &'static str {
    raw::version()
}

/// Version of its binary interface: major * 1000 + minor.
#[must_use]
pub fn abi_version() -> u32 {
    raw::abi_version()
}
