use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use sab_sys as sys;

use crate::error::{BoxError, Error};
use crate::raw::{self, CostFn, CostHandle};

/// The most sizes of a sample that a cost can refer to.
pub const MAX_COLUMNS: usize = sys::SAB_MAX_COLUMNS as usize;

/// The cost of a batch: a sum of terms, a memory model, or a closure.
///
/// In a padded batch of n samples, padded to the length L, a term is c · n^p · L^q. Samples with
/// several sizes have a length L for each column, and a term has a power of each. In a row nothing
/// is padded: a term with p = 1 is summed over the samples, each with its own length. A constant
/// counts once. A closure is called for each sample alone.
///
/// The call that uses the cost checks the terms.
///
/// ```
/// use libsab::{Budget, Cost, PlanOptions};
///
/// // 4 units for each token and one for each pair of tokens.
/// let cost = Cost::polynomial(&[0.0, 0.0, 4.0, 1.0]);
/// assert_eq!(cost.evaluate(2, 10.0)?, 280.0);
/// let options = PlanOptions::new().budget(Budget::new(1e6).cost(cost));
/// # Ok::<(), libsab::Error>(())
/// ```
#[derive(Clone)]
pub struct Cost<'f>(pub(crate) CostKind<'f>);

#[derive(Clone)]
pub(crate) enum CostKind<'f> {
    Padded(Vec<f64>),
    Terms(Vec<CostTerm>),
    Handle(Arc<CostHandle>),
    Function(Rc<RefCell<CostFn<'f>>>),
}

impl<'f> Cost<'f> {
    /// count * (w\[0\] * length\[0\] + w\[1\] * length\[1\] + ...), with a weight for each column:
    /// padded tokens; in a row the sum of the sizes. `padded(&[1.0])` is that of one column.
    ///
    /// ```
    /// use libsab::{Budget, Cost, PlanOptions};
    ///
    /// // A token of the target costs as much as 2.5 of the source.
    /// let cost = Cost::padded(&[1.0, 2.5]);
    /// assert_eq!(cost.evaluate_columns(2, &[10.0, 4.0])?, 40.0);
    /// let options = PlanOptions::new().budget(Budget::new(16384.0).cost(cost));
    /// # Ok::<(), libsab::Error>(())
    /// ```
    #[must_use]
    pub fn padded(weights: &[f64]) -> Self {
        Cost(CostKind::Padded(weights.to_vec()))
    }

    /// count * length^2: attention.
    #[must_use]
    pub fn quadratic() -> Self {
        Self::terms([CostTerm::new(1.0, 1, 2)])
    }

    /// c\[0\] + count * (c\[1\] + c\[2\] * length + c\[3\] * length^2 + ...).
    #[must_use]
    pub fn polynomial(coefficients: &[f64]) -> Self {
        let of_count = coefficients.iter().skip(1).zip(0..);
        Self::terms(
            (coefficients.iter().take(1).map(|&constant| CostTerm::new(constant, 0, 0)))
                .chain(of_count.map(|(&each, power)| CostTerm::new(each, 1, power))),
        )
    }

    /// The sum of these terms, 1 to 64.
    #[must_use]
    pub fn terms(terms: impl IntoIterator<Item = CostTerm>) -> Self {
        Cost(CostKind::Terms(terms.into_iter().collect()))
    }

    /// The time of a transformer's step, in floating-point operations of its forward pass:
    /// layers · (24 · count · length · hidden^2 + 4 · count · length^2 · hidden).
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] where a number is 0.
    pub fn transformer(hidden: u64, layers: u64) -> Result<Self, Error> {
        CostHandle::transformer(hidden, layers).map(|cost| Cost(CostKind::Handle(Arc::new(cost))))
    }

    /// What the closure returns for a count and a length: finite, not negative, never decreasing in
    /// either. It is called only during the call that the cost is given to.
    ///
    /// ```
    /// # use libsab::{Budget, Cost, Plan, PlanOptions, Sizes};
    /// let sizes = Sizes::from_fn(1000, |i| (i % 90) as f64)?;
    /// let cost = Cost::from_fn(|count, length| count as f64 * (length + 2.0));
    /// let plan = Plan::new(&sizes, &PlanOptions::new().budget(Budget::new(5000.0).cost(cost)))?;
    /// assert!(plan.buckets().iter().all(|bucket| bucket.cost <= 5000.0));
    /// # Ok::<(), libsab::Error>(())
    /// ```
    #[must_use]
    pub fn from_fn(mut cost: impl FnMut(u64, f64) -> f64 + 'f) -> Self {
        Self::try_from_fn(move |count, length| Ok(cost(count, length)))
    }

    /// As [`from_fn`](Self::from_fn), with a closure that may fail. The call that uses the cost
    /// then gives its error as [`Error::Callback`].
    #[must_use]
    pub fn try_from_fn(mut cost: impl FnMut(u64, f64) -> Result<f64, BoxError> + 'f) -> Self {
        Self::try_from_columns_fn(move |count, lengths, _| {
            match lengths {
            &[length] => cost(count, length),
            _ => Err(format!(
                "a cost of one length was given sizes of {} columns; Cost::from_columns_fn takes several",
                lengths.len()
            )
            .into()),
        }
        })
    }

    /// What the closure returns for a count, the length of each column and its total (the sum of
    /// the lengths): finite, not negative, never decreasing in count or lengths.
    ///
    /// ```
    /// # use libsab::Cost;
    /// let cost = Cost::from_columns_fn(|count, lengths, _totals| count as f64 * lengths[0].max(lengths[1]));
    /// assert_eq!(cost.evaluate_columns(3, &[5.0, 7.0])?, 21.0);
    /// # Ok::<(), libsab::Error>(())
    /// ```
    #[must_use]
    pub fn from_columns_fn(mut cost: impl FnMut(u64, &[f64], &[f64]) -> f64 + 'f) -> Self {
        Self::try_from_columns_fn(move |count, lengths, totals| Ok(cost(count, lengths, totals)))
    }

    /// As [`from_columns_fn`](Self::from_columns_fn), with a closure that may fail.
    #[must_use]
    pub fn try_from_columns_fn(
        cost: impl FnMut(u64, &[f64], &[f64]) -> Result<f64, BoxError> + 'f,
    ) -> Self {
        Cost(CostKind::Function(Rc::new(RefCell::new(cost))))
    }

    pub(crate) fn of_handle(handle: CostHandle) -> Self {
        Cost(CostKind::Handle(Arc::new(handle)))
    }

    /// The cost of a batch of `count` samples, at least 1, padded to `length`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for numbers or terms that break a rule; [`Error::Callback`] from the
    /// closure.
    pub fn evaluate(&self, count: u64, length: f64) -> Result<f64, Error> {
        self.evaluate_columns(count, &[length])
    }

    /// The cost of a batch of `count` samples, at least 1, padded to a length for each column.
    pub fn evaluate_columns(&self, count: u64, lengths: &[f64]) -> Result<f64, Error> {
        raw::evaluate_cost(self, count, lengths)
    }
}

impl fmt::Debug for Cost<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            CostKind::Padded(weights) => write!(f, "Cost(padded by {weights:?})"),
            CostKind::Terms(terms) => f.debug_tuple("Cost").field(terms).finish(),
            CostKind::Handle(_) => f.write_str("Cost(of the library)"),
            CostKind::Function(_) => f.write_str("Cost(a closure)"),
        }
    }
}

/// One term of a [`Cost`]: coefficient * `count^count_power` * `length[0]^length_powers[0]` *
/// `length[1]^length_powers[1]` * ...
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostTerm {
    /// Finite, not negative; that of the count alone (powers 1 and 0) may be negative, as long as
    /// no cost decreases with the count.
    pub coefficient: f64,
    /// At most 8.
    pub count_power: u32,
    /// One for each column; at most 8 each.
    pub length_powers: [u32; MAX_COLUMNS],
}

/// A number of powers that a term has room for.
struct Powers<const N: usize>;

impl<const N: usize> Powers<N> {
    const FIT: () = assert!(N <= MAX_COLUMNS);
}

impl CostTerm {
    /// A term of samples with one size.
    #[must_use]
    pub fn new(coefficient: f64, count_power: u32, length_power: u32) -> Self {
        Self::of_columns(coefficient, count_power, [length_power])
    }

    /// A term of samples with several sizes: height * width, summed over the samples, is
    /// `CostTerm::of_columns(1.0, 1, [1, 1])`. More than 8 powers do not compile.
    #[must_use]
    pub fn of_columns<const N: usize>(
        coefficient: f64,
        count_power: u32,
        powers: [u32; N],
    ) -> Self {
        let () = Powers::<N>::FIT;
        let mut length_powers = [0; MAX_COLUMNS];
        length_powers[..N].copy_from_slice(&powers);
        CostTerm { coefficient, count_power, length_powers }
    }
}

/// A limit on the cost of a batch. A number is a budget of the default cost.
#[derive(Clone, Debug)]
#[must_use]
pub struct Budget<'f> {
    pub(crate) limit: f64,
    pub(crate) cost: Option<Cost<'f>>,
}

impl<'f> Budget<'f> {
    /// The largest cost of a batch, above 0, of the padded total of a padded batch, or the sum of
    /// the sizes of a row.
    pub fn new(limit: f64) -> Self {
        Budget { limit, cost: None }
    }

    /// The cost that is limited.
    pub fn cost(mut self, cost: Cost<'f>) -> Self {
        self.cost = Some(cost);
        self
    }
}

impl From<f64> for Budget<'_> {
    fn from(limit: f64) -> Self {
        Budget::new(limit)
    }
}
