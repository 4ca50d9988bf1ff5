// Generated from the public headers by tools/abi.py: do not edit.
//! Choices, and the numbers by which the library knows them.
#![cfg_attr(rustfmt, rustfmt_skip)]

#[cfg(any(feature = "arrow", feature = "files"))]
/// What the size of a text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TextUnit {
    /// Its bytes in UTF-8. Texts that are all numbers are refused: they may be sizes themselves.
    #[default]
    Bytes,
    /// Its words: runs of bytes that are not white space of ASCII.
    Words,
    /// The number that it is, such as "3.25"; other texts are refused.
    Value,
    /// Its bytes in UTF-8, also if all texts are numbers.
    AllBytes,
}

#[cfg(any(feature = "arrow", feature = "files"))]
impl TextUnit {
    pub(crate) const fn raw(self) -> i32 {
        match self {
            TextUnit::Bytes => sab_sys::SAB_TEXT_BYTES,
            TextUnit::Words => sab_sys::SAB_TEXT_WORDS,
            TextUnit::Value => sab_sys::SAB_TEXT_VALUE,
            TextUnit::AllBytes => sab_sys::SAB_TEXT_ALL_BYTES,
        }
    }
}

#[cfg(feature = "arrow")]
/// What becomes of nulls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NullRule {
    /// Refused, with the number of the row.
    #[default]
    Refuse,
    /// Counted as 0.
    Zero,
}

#[cfg(feature = "arrow")]
impl NullRule {
    pub(crate) const fn raw(self) -> i32 {
        match self {
            NullRule::Refuse => sab_sys::SAB_NULLS_REFUSE,
            NullRule::Zero => sab_sys::SAB_NULLS_ZERO,
        }
    }
}

/// How the samples of a bucket that do not fill its last batch are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tail {
    /// A smaller last batch.
    #[default]
    Keep,
    /// They are left out of this epoch (`drop_last`); each epoch leaves out other samples. A plan
    /// must keep a batch.
    Drop,
    /// The last batch is filled with samples of the same bucket that then appear twice in the
    /// epoch; a bucket of fewer samples than a batch is one smaller batch.
    Wrap,
}

impl Tail {
    pub(crate) const fn raw(self) -> i32 {
        match self {
            Tail::Keep => sab_sys::SAB_TAIL_KEEP,
            Tail::Drop => sab_sys::SAB_TAIL_DROP,
            Tail::Wrap => sab_sys::SAB_TAIL_WRAP,
        }
    }
}

/// How samples are treated that are outside the boundaries or cost more than the budget alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Oversize {
    /// The call fails; the message says how many there are and names the first.
    #[default]
    Error,
    /// They are left out, counted and listed by [`Plan::skipped`](crate::Plan::skipped); one log
    /// message says how many.
    Skip,
    /// Each is a batch of its own. Only these batches may cost more than the budget. They are
    /// padded to their own length or, under `max_shapes`, to one of the lengths chosen for such
    /// samples.
    Single,
}

impl Oversize {
    pub(crate) const fn raw(self) -> i32 {
        match self {
            Oversize::Error => sab_sys::SAB_OVERSIZE_ERROR,
            Oversize::Skip => sab_sys::SAB_OVERSIZE_SKIP,
            Oversize::Single => sab_sys::SAB_OVERSIZE_SINGLE,
        }
    }
}

/// How many shapes batches have. A shape is a pair of count and padded lengths. Compilers, CUDA
/// graphs and others build something for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ShapeRule {
    /// Any number, or the `max_shapes` that pad least. Without `max_shapes` each batch is padded to
    /// its own longest sample.
    #[default]
    Any,
    /// The fewest with which padding is at most `padding_target`; `max_shapes` at most, or 1,024.
    /// If none reach the target, the fewest that pad at most a quarter more than the least found.
    /// With `separate_by` so for each id. Numbers are tried from the fewest on, in steps of a half,
    /// then between the last two; [`Plan::shape_paddings`](crate::Plan::shape_paddings) tells what
    /// they pad. Time: that of a plan for each.
    Auto,
}

impl ShapeRule {
    pub(crate) const fn raw(self) -> i32 {
        match self {
            ShapeRule::Any => sab_sys::SAB_SHAPES_ANY,
            ShapeRule::Auto => sab_sys::SAB_SHAPES_AUTO,
        }
    }
}

/// What happens to batches that do not fill the last step of all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LastStep {
    /// Those of the last micro-batch are split so that every rank gets a share: no sample is lost
    /// or repeated. The last step may have fewer micro-batches.
    ///
    /// Under `max_shapes` or [`ShapeRule::Auto`](crate::ShapeRule::Auto) of the plan, batches of
    /// the epoch are divided into pieces of these shapes instead, so that the last step is full.
    /// Pieces may be padded to the length of another bucket, and stand anywhere in the epoch. Where
    /// the shapes do not allow so many, the last step has empty batches, as few as possible:
    /// [`Report::empty_batches`](crate::Report::empty_batches). Up to 16 batches of a bucket are
    /// divided together, into at most 63 pieces and of at most 2^22 samples; of a mixture each by
    /// itself. After a resume with another number of ranks only batches of the last step are
    /// divided, and empty ones of the rest of the epoch are not in the report.
    #[default]
    Split,
    /// They are left out of this epoch, so that all steps are full. An epoch must keep a step: the
    /// constructor, and what begins a later epoch, give [`Error::Argument`](crate::Error::Argument)
    /// otherwise.
    Drop,
    /// The step is filled with batches from the beginning of the epoch.
    Wrap,
}

impl LastStep {
    pub(crate) const fn raw(self) -> i32 {
        match self {
            LastStep::Split => sab_sys::SAB_LAST_STEP_SPLIT,
            LastStep::Drop => sab_sys::SAB_LAST_STEP_DROP,
            LastStep::Wrap => sab_sys::SAB_LAST_STEP_WRAP,
        }
    }
}

/// Which bin a sequence goes into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PackMethod {
    /// Samples in a shuffled order, chosen from a window so that they fill the row: rows that mix
    /// lengths, laid out for each epoch.
    #[default]
    Shuffled,
    /// Longest first, each into the fullest bin that has room for it: best-fit decreasing. Of
    /// equally full bins the one with the most sequences is taken.
    BestFit,
    /// Longest first, each into the emptiest bin that has room for it: shortest-pack-first
    /// histogram packing (Krell et al. 2021), which spreads lengths more evenly over the bins. A
    /// bin is opened only where none has room. Under `max_sequences` the least possible number of
    /// bins is open from the beginning, if that gives fewer bins.
    Histogram,
    /// The samples of each epoch in a shuffled order, end to end and cut at the capacity: all rows
    /// but one are full. Beginning an epoch reads all sizes once; a row is then found by a search
    /// in blocks of 256 samples. Memory: 4 bytes a sample. One column, sizes up to 2^32 - 1,
    /// without `max_sequences` and `balance`.
    Concat,
}

impl PackMethod {
    pub(crate) const fn raw(self) -> i32 {
        match self {
            PackMethod::Shuffled => sab_sys::SAB_PACK_SHUFFLED,
            PackMethod::BestFit => sab_sys::SAB_PACK_BEST_FIT,
            PackMethod::Histogram => sab_sys::SAB_PACK_HISTOGRAM,
            PackMethod::Concat => sab_sys::SAB_PACK_CONCAT,
        }
    }
}

/// The terms of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelKind {
    /// Of a batch: count, then the padded length of each column. Its terms are bytes for
    /// - 1: parameters, optimizer, what every step needs;
    /// - count: each sample;
    /// - count * length, of each column: activations of each position;
    /// - degree 2: count * length * length, of each column and each two columns: attention and
    ///   cross-attention; each length, and each product of two lengths, without the count: masks,
    ///   tables of positions.
    ///
    /// These are 2 + k terms for k columns, and (k + 1) * (k + 2) for degree 2: 6, 12 or 20 of one,
    /// two or three columns. At most 64, so degree 2 supports 6 columns. The model never decreases
    /// with the count or a length from the shortest measured lengths on. It can be the cost of a
    /// plan of as many columns.
    #[default]
    Batch,
    /// Of any features: all products of at most `degree` of them.
    Polynomial,
}

impl ModelKind {
    pub(crate) const fn raw(self) -> i32 {
        match self {
            ModelKind::Batch => sab_sys::SAB_MODEL_BATCH,
            ModelKind::Polynomial => sab_sys::SAB_MODEL_POLYNOMIAL,
        }
    }
}

/// How the bionemo sampler shuffles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BionemoShuffle {
    /// Samples of each bucket permuted, the bucket of each batch drawn.
    #[default]
    All,
    /// Buckets ascending, samples of a bucket by index.
    None,
    /// Samples of a bucket by index, the bucket of each batch drawn: for callers who permute
    /// themselves.
    Buckets,
}

impl BionemoShuffle {
    pub(crate) const fn raw(self) -> i32 {
        match self {
            BionemoShuffle::All => sab_sys::SAB_BIONEMO_SHUFFLE_ALL,
            BionemoShuffle::None => sab_sys::SAB_BIONEMO_SHUFFLE_NONE,
            BionemoShuffle::Buckets => sab_sys::SAB_BIONEMO_SHUFFLE_BUCKETS,
        }
    }
}

#[cfg(feature = "files")]
/// What is done with a record of JSON lines that does not have the field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissingRule {
    /// Refuse the file; the message has the number of the line.
    #[default]
    Refuse,
    /// Leave the record out; [`Sizes::description`](crate::Sizes::description) says how many were
    /// left out.
    Skip,
}

#[cfg(feature = "files")]
impl MissingRule {
    pub(crate) const fn raw(self) -> i32 {
        match self {
            MissingRule::Refuse => sab_sys::SAB_MISSING_REFUSE,
            MissingRule::Skip => sab_sys::SAB_MISSING_SKIP,
        }
    }
}

/// The order of the micro-batches of a rank, by cost. It is the same on all ranks, so that
/// micro-batches of similar cost run at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MicroBatchOrder {
    /// Costliest first: a step that runs out of memory does so at its beginning.
    #[default]
    Descending,
    /// Cheapest first.
    Ascending,
    /// Costliest in the middle, cheap ones at both ends, where a pipeline fills and drains.
    Bell,
}

impl MicroBatchOrder {
    pub(crate) const fn raw(self) -> i32 {
        match self {
            MicroBatchOrder::Descending => sab_sys::SAB_MICRO_BATCHES_DESCENDING,
            MicroBatchOrder::Ascending => sab_sys::SAB_MICRO_BATCHES_ASCENDING,
            MicroBatchOrder::Bell => sab_sys::SAB_MICRO_BATCHES_BELL,
        }
    }
}

/// What counts equally in the loss of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossWeighting {
    /// Each sample: its weight is 1 / samples.
    #[default]
    Sample,
    /// Each token: the weight of a sample is its tokens / those of the step.
    Token,
    /// Each group, or tree of `parents`, and in it each sample: the weight is 1 / (groups * samples
    /// of the group).
    Group,
}

impl LossWeighting {
    pub(crate) const fn raw(self) -> i32 {
        match self {
            LossWeighting::Sample => sab_sys::SAB_LOSS_BY_SAMPLE,
            LossWeighting::Token => sab_sys::SAB_LOSS_BY_TOKEN,
            LossWeighting::Group => sab_sys::SAB_LOSS_BY_GROUP,
        }
    }
}

/// How many ranks a group of a context plan may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContextGroups {
    /// 1, 2, 4, 8, ...; a group begins at a multiple of its size, so that all groups are those of a
    /// fixed hierarchy of communicators.
    #[default]
    PowersOfTwo,
    /// Any number; a group begins at any rank.
    AnyNumber,
}

impl ContextGroups {
    pub(crate) const fn raw(self) -> i32 {
        match self {
            ContextGroups::PowersOfTwo => sab_sys::SAB_CONTEXT_POWERS_OF_TWO,
            ContextGroups::AnyNumber => sab_sys::SAB_CONTEXT_ANY_NUMBER,
        }
    }
}

/// The unit of proportions and of the temperature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MixtureUnit {
    /// Of the number of samples.
    #[default]
    Samples,
    /// Of the sum of the sizes, over all columns.
    Size,
}

impl MixtureUnit {
    pub(crate) const fn raw(self) -> i32 {
        match self {
            MixtureUnit::Samples => sab_sys::SAB_MIXTURE_SAMPLES,
            MixtureUnit::Size => sab_sys::SAB_MIXTURE_SIZE,
        }
    }
}

/// Search method for the largest batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Search {
    /// By prediction: steps of growing size, each as large as the curve through the earlier ones
    /// allows. The result is the last one that fits, at most 1 % below the prediction. About six
    /// steps a length, more if memory is not linear in the count (a warning is logged if 30 are not
    /// enough). Runs out of memory only if two samples do not fit, memory suddenly grows much
    /// faster, or the blocks of a caching allocator take more than the peak.
    #[default]
    Predict,
    /// From two steps: memory(2) - memory(1) is the memory of one sample. Correct only if memory is
    /// linear in the count.
    Difference,
    /// Bisection between 1 and `max_batch_size`; runs out of memory.
    Binary,
    /// `max_batch_size`, then half of it, until it fits.
    Halve,
}

impl Search {
    pub(crate) const fn raw(self) -> i32 {
        match self {
            Search::Predict => sab_sys::SAB_SEARCH_PREDICT,
            Search::Difference => sab_sys::SAB_SEARCH_DIFFERENCE,
            Search::Binary => sab_sys::SAB_SEARCH_BINARY,
            Search::Halve => sab_sys::SAB_SEARCH_HALVE,
        }
    }
}

#[cfg(feature = "stream")]
/// How a file is divided into records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Framing {
    /// Lines, without their ends (`\n` or `\r\n`).
    #[default]
    Lines,
    /// Each after its length: 4 bytes, little-endian.
    Length,
}

#[cfg(feature = "stream")]
impl Framing {
    pub(crate) const fn raw(self) -> i32 {
        match self {
            Framing::Lines => sab_sys::SAB_FRAMING_LINES,
            Framing::Length => sab_sys::SAB_FRAMING_LENGTH,
        }
    }
}

#[cfg(feature = "stream")]
/// Policy for a file that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnError {
    /// [`Stream::next`](crate::stream::Stream::next) fails; the next call tries again.
    #[default]
    Stop,
    /// Logs a warning with the file and the byte, skips the rest of the file, and counts it in
    /// [`Stream::skipped`](crate::stream::Stream::skipped).
    Skip,
}

#[cfg(feature = "stream")]
impl OnError {
    pub(crate) const fn raw(self) -> i32 {
        match self {
            OnError::Stop => sab_sys::SAB_ON_ERROR_STOP,
            OnError::Skip => sab_sys::SAB_ON_ERROR_SKIP,
        }
    }
}

#[cfg(feature = "stream")]
/// When a mix ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MixUntil {
    /// When the source whose turn it is has ended.
    #[default]
    First,
    /// When all sources with a proportion have ended. After the end of one the others go on by
    /// their proportions, and the windows begin again.
    All,
}

#[cfg(feature = "stream")]
impl MixUntil {
    pub(crate) const fn raw(self) -> i32 {
        match self {
            MixUntil::First => sab_sys::SAB_MIX_UNTIL_FIRST,
            MixUntil::All => sab_sys::SAB_MIX_UNTIL_ALL,
        }
    }
}

/// Objective of the thresholds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ThresholdsMethod {
    /// Least total cost of the groups: exact, by dynamic programming over the distinct lengths.
    #[default]
    LeastTotal,
    /// Least cost of the costliest group, and among those the least total: exact, by bisection.
    LeastLargest,
    /// Groups of about the same cost, by the randomised greedy search of asym: the threshold
    /// between the two neighbours whose costs differ most moves by one distinct length towards the
    /// costlier one, repeatedly.
    Randomised,
}

impl ThresholdsMethod {
    pub(crate) const fn raw(self) -> i32 {
        match self {
            ThresholdsMethod::LeastTotal => sab_sys::SAB_THRESHOLDS_LEAST_TOTAL,
            ThresholdsMethod::LeastLargest => sab_sys::SAB_THRESHOLDS_LEAST_LARGEST,
            ThresholdsMethod::Randomised => sab_sys::SAB_THRESHOLDS_RANDOMISED,
        }
    }
}

/// Which positions of padded samples are valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MaskRule {
    /// Those within the sample's length along all dimensions.
    #[default]
    All,
    /// Those within it along at least one: that of asym.
    Any,
}

impl MaskRule {
    pub(crate) const fn raw(self) -> i32 {
        match self {
            MaskRule::All => sab_sys::SAB_MASK_ALL,
            MaskRule::Any => sab_sys::SAB_MASK_ANY,
        }
    }
}

#[cfg(feature = "cache")]
/// Policy if the storage fails: a server is down, hangs, refuses or is full, or a file system is
/// full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CacheFailure {
    /// Reads are misses and writes are dropped, and both are counted. The beginning and the end of
    /// an outage are logged. Retries after 0.1 s, then with growing delays up to 10 s.
    #[default]
    Degrade,
    /// Calls fail with [`Error::Io`](crate::Error::Io).
    Error,
}

#[cfg(feature = "cache")]
impl CacheFailure {
    pub(crate) const fn raw(self) -> i32 {
        match self {
            CacheFailure::Degrade => sab_sys::SAB_CACHE_DEGRADE,
            CacheFailure::Error => sab_sys::SAB_CACHE_ERROR,
        }
    }
}
