//! Which samples go into which batch when samples differ in size.
//!
//! Variable-size samples (sentences, proteins, audio, graphs) padded to the longest of their batch
//! waste much of a batch, and a batch of the longest may not fit into memory. libsab sorts the
//! samples by size once, cuts them into buckets whose batches stay under a budget, and walks those
//! batches in a shuffled order that needs no memory, resumes at any step, and gives every rank the
//! same number of steps at nearly equal cost.
//!
//! ```
//! use libsab::{BucketSampler, Plan, PlanOptions, SamplerOptions, Sizes};
//!
//! let tokens: Vec<u32> = (0..10_000).map(|i| 1 + i * 7919 % 200).collect();    // the size of each sample
//! let sizes = Sizes::borrowed(&tokens)?;
//! let plan = Plan::new(&sizes, &PlanOptions::new().budget(4096.0))?;           // padded tokens a batch
//! println!("{:.1} % padding", 100.0 * plan.report(&SamplerOptions::new())?.padding);
//!
//! let mut sampler = BucketSampler::new(&plan, &SamplerOptions::new().seed(7).rank(0).world_size(2))?;
//! for epoch in 0..2 {
//!     sampler.set_epoch(epoch)?;
//!     for batch in &mut sampler {
//!         let batch = batch?;
//!         assert!(batch.padded_total <= 4096.0);
//!         // batch.indices: the samples; batch.padded_length: the length to pad them to
//!     }
//! }
//! # Ok::<(), libsab::Error>(())
//! ```
//!
//! For attention that takes cumulative lengths, a [`PackedSampler`] lays samples end to end in rows
//! of a fixed capacity.
//!
//! How large a batch the memory of a device bears, [`memory`] measures, predicts and keeps true
//! while training. What is larger than memory, or has no end, goes through a [`stream`].
//!
//! Which sampler for what, beside [`BucketSampler`]:
//!
//! - [`SequentialSampler`]: the batches of a plan unshuffled, for evaluation;
//!   [`Plan::worst_batches`]: the costliest of them.
//! - [`PackedSampler`]: samples laid end to end in rows of a fixed length.
//! - [`BalancedSampler`]: batches without padding that cost all ranks, and all micro-batches, the
//!   same.
//! - [`ShardedSampler`]: samples that are spread over the ranks, each of which knows only its own.
//! - [`SizeAwareSampler`], [`SizeAwareStream`], [`ReadaheadSampler`]: greedy batches in the order
//!   of the samples.
//! - [`LoadBalancingSampler`], [`LoadBalancingBatchSampler`], [`TorchSampler`]: the orders of other
//!   libraries, seed for seed.
//!
//! Batches that are run in groups of like lengths: [`find_thresholds`] says where to cut,
//! [`Grouping`] which sample is in which group. [`Shapes`] stacks the samples of a group and takes
//! them apart.
//!
//! Samples that are expensive to make are made once and kept in a [`Cache`].
//!
//! Which rank this is, [`ranks_from_environment`] and [`data_rank`] say; whether all ranks agree,
//! `check_ranks` of a sampler.
//!
//! # Rules that hold everywhere
//!
//! - Sizes, lengths and totals are in the caller's unit (tokens, residues, frames, seconds, nodes).
//!   Indices are positions in the sizes, from 0.
//! - The same sizes, options and seed give the same batches on every machine and in every language
//!   that libsab has a binding for.
//! - [`Sizes`] and [`Plan`] are immutable and may be shared between threads. A sampler is a cursor
//!   for one thread at a time: `Send`, not
//!   `Sync`. So is a [`Stream`](stream::Stream).
//! - A [`Probe`](memory::Probe) and a [`MemoryGuard`](memory::MemoryGuard) belong to the thread
//!   that made them.
//! - Closures are called in the calling thread, but for those of a [`stream`] that runs in threads.
//!   An error that one returns comes back as [`Error::Callback`], a panic goes on in the caller.
//! - A failed call changes nothing, but for what a stream has read.
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod balance;
mod batch;
#[cfg(feature = "cache")]
mod cache;
mod error;
mod group;
pub mod memory;
mod options;
mod pack;
mod padding;
mod plan;
mod ranks;
mod raw;
mod sampler;
mod sizes;
#[cfg(feature = "stream")]
pub mod stream;
pub mod torch;

pub use balance::{
    partition, LoadBalancingBatchSampler, LoadBalancingOptions, LoadBalancingSampler,
    PartitionMethod, PartitionOptions,
};
pub use batch::{Batch, BatchRef};
#[cfg(feature = "cache")]
pub use cache::{Cache, CacheFailure, CacheOptions, CacheStats, CacheValue};
pub use error::{BoxError, Detail, Error};
pub use group::{find_thresholds, Grouping, Thresholds, ThresholdsMethod, ThresholdsOptions};
pub use pack::{PackInfo, PackMethod, PackOptions, PackedSampler};
pub use padding::{length_mask, MaskRule, PadOptions, Padding, Shapes};
pub use plan::{
    Bucket, Buckets, Cost, CostTerm, Oversize, Plan, PlanInfo, PlanOptions, Report, Tail,
};
pub use ranks::{
    data_rank, ranks_from_environment, BalanceReport, BalancedOptions, BalancedSampler,
    ShardedSampler,
};
pub use sampler::{
    BucketSampler, LastStep, PlanSampler, SamplerOptions, SequentialSampler, SizeAwareSampler,
    SizeAwareStream, State, TorchOptions, TorchSampler, TorchShuffle, WorstBatches, STATE_SIZE,
    TORCH_GENERATOR_WORDS,
};
pub use sizes::{create_buckets, CreatedBuckets, Element, Sizes};
#[cfg(feature = "stream")]
pub use stream::ReadaheadSampler;

/// The example of the README is a test too.
#[cfg(all(doctest, feature = "stream"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// Weight of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LogLevel {
    /// Something was left out or changed that the caller may not expect, such as skipped samples.
    Warning,
    /// A fact about a build.
    Info,
}

/// Sets the process's log closure; without one the library is silent.
///
/// It is called in the thread whose call has something to say, so possibly in several at once (a
/// panic in a thread of a [stream](stream::Stream) is let go of), and dropped when another takes
/// its place and no call is in it any more.
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
pub fn version() -> &'static str {
    raw::version()
}

/// Version of its binary interface: major * 1000 + minor.
pub fn abi_version() -> u32 {
    raw::abi_version()
}
