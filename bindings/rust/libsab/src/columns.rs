use std::fmt;
use std::ops::Deref;

use crate::cost::MAX_COLUMNS;

/// A value for each column of the sizes: a slice of 1 to 8 values.
///
/// ```
/// use libsab::{Plan, PlanOptions, Sizes};
///
/// let (source, target) = (Sizes::copied(&[3u8, 5])?, Sizes::copied(&[4u8, 1])?);
/// let pairs = Sizes::columns(&[("source", &source), ("target", &target)])?;
/// let plan = Plan::new(&pairs, &PlanOptions::new().budget(18.0))?;
/// assert_eq!(plan.buckets()[0].longest[..], [5.0, 4.0]);
/// # Ok::<(), libsab::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct PerColumn<T> {
    values: [T; MAX_COLUMNS],
    count: usize,
}

impl<T: Default> PerColumn<T> {
    /// The first values, as many as there can be columns.
    pub(crate) fn of(values: impl IntoIterator<Item = T>) -> Self {
        let mut of_columns = <[T; MAX_COLUMNS]>::default();
        let mut count = 0;
        for (place, value) in of_columns.iter_mut().zip(values) {
            *place = value;
            count += 1;
        }
        PerColumn { values: of_columns, count }
    }
}

impl<T> Deref for PerColumn<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values[..self.count]
    }
}

impl<T: PartialEq> PartialEq for PerColumn<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: fmt::Debug> fmt::Debug for PerColumn<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
