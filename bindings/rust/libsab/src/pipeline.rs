use crate::error::Error;
use crate::options::{options, progress_setter, setters, Hook};
use crate::raw::{self, ProgressFn};

options! {
/// How a pipeline runs its micro-batches. By default 1F1B, backward passes that take twice the time
/// of forward passes, and transfers that take no time.
pub struct PipelineOptions<'f>: sab_pipeline_options {
    backward: Option<&'f [f64]>,
    progress: Hook<ProgressFn<'f>>,
}
}

impl<'f> PipelineOptions<'f> {
    setters! {
        /// Parts of the model on each rank; 1. With several, the schedule is interleaved, and the
        /// number of micro-batches is a multiple of the stages.
        chunks(chunks: u64) => chunks = chunks;
        /// Time from the end of a task to the earliest start of the task on another rank that needs
        /// its result; 0.
        transfer(time: f64) => transfer = time;
    }

    /// Time of the backward pass of each micro-batch on one rank.
    pub fn backward(mut self, times: &'f [f64]) -> Self {
        self.backward = Some(times);
        self
    }

    progress_setter!('f);
}

/// The forward or the backward pass of a micro-batch through one part of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PipelineTask {
    /// Index of the micro-batch.
    pub micro_batch: u64,
    /// Part of the model on this rank, from 0.
    pub chunk: u32,
    /// Whether it is the backward pass.
    pub is_backward: bool,
    /// When it begins.
    pub start: f64,
    /// When it ends.
    pub end: f64,
}

/// How long a pipeline takes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PipelineReport {
    /// When the last task ends; the first begins at 0.
    pub makespan: f64,
    /// No order of the micro-batches has a lower makespan.
    pub lower_bound: f64,
    /// Share of the ranks' time until then in which they wait.
    pub idle: f64,
}

/// Simulates one step of a pipeline: 1F1B, or with several chunks the interleaved schedule. Returns
/// the report, and the tasks of each rank in the order in which it runs them.
///
/// `forward` is the time of the forward pass of each micro-batch on one rank. `order` has the
/// micro-batches in the order in which they begin, each once; `None`: as given.
///
/// ```
/// use libsab::{simulate_pipeline, PipelineOptions};
///
/// let (report, tasks) = simulate_pipeline(&[1.0; 4], 2, None, &PipelineOptions::new())?;
/// assert_eq!(report.makespan, 15.0);
/// assert_eq!(tasks[1].iter().filter(|task| task.is_backward).count(), 4);
/// # Ok::<(), libsab::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Argument`] for times, an order or options that break a rule.
pub fn simulate_pipeline(
    forward: &[f64],
    stages: u64,
    order: Option<&[u32]>,
    options: &PipelineOptions<'_>,
) -> Result<(PipelineReport, Vec<Vec<PipelineTask>>), Error> {
    raw::simulate_pipeline(forward, stages, order, options)
}

/// Finds an order of the micro-batches for which the simulated makespan is low. It is never above
/// that of the orders as given, ascending and descending.
///
/// ```
/// use libsab::{find_pipeline_order, simulate_pipeline, PipelineOptions};
///
/// let (forward, options) = ([1.0, 8.0, 2.0, 4.0], PipelineOptions::new());
/// let (order, report) = find_pipeline_order(&forward, 3, &options)?;
/// assert_eq!(order, [2, 3, 1, 0]);
/// assert!(report.makespan < simulate_pipeline(&forward, 3, None, &options)?.0.makespan);
/// # Ok::<(), libsab::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Argument`] for times or options that break a rule; [`Error::Cancelled`] from the
/// progress closure.
pub fn find_pipeline_order(
    forward: &[f64],
    stages: u64,
    options: &PipelineOptions<'_>,
) -> Result<(Vec<u32>, PipelineReport), Error> {
    raw::find_pipeline_order(forward, stages, options)
}
