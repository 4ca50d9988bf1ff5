//! Calls of `cost.h`, and what options point to during a call.

use super::*;
use crate::cost::{Budget, Cost, CostKind, CostTerm, MAX_COLUMNS};

/// Owns a `sab_cost`.
pub(crate) struct CostHandle(Owned<sys::sab_cost>);

impl CostHandle {
    fn padded(weights: &[f64]) -> Result<Self, Error> {
        // SAFETY: as many weights as the length, read during the call. Not NULL, whatever its
        // length.
        make(|cost| unsafe { sys::sab_cost_padded_new(weights.as_ptr(), weights.len(), cost) })
            .map(CostHandle)
    }

    fn of_terms(terms: &[CostTerm]) -> Result<Self, Error> {
        let terms: Vec<_> = terms
            .iter()
            .map(|term| sys::sab_cost_term {
                coefficient: term.coefficient,
                count_power: term.count_power,
                column_count: MAX_COLUMNS as u32,
                length_powers: term.length_powers.as_ptr(),
                reserved: [0; 2],
            })
            .collect();
        // SAFETY: as many terms as the length, read during the call.
        make(|cost| unsafe { sys::sab_cost_terms_new(terms.as_ptr(), terms.len(), cost) })
            .map(CostHandle)
    }

    pub(crate) fn transformer(hidden: u64, layers: u64) -> Result<Self, Error> {
        // SAFETY: an address for the handle.
        make(|cost| unsafe { sys::sab_cost_transformer_new(hidden, layers, cost) }).map(CostHandle)
    }

    pub(super) fn of_model(model: &ModelHandle) -> Result<Self, Error> {
        // SAFETY: a live handle.
        make(|cost| unsafe { sys::sab_memory_model_cost_new(model.pointer(), cost) })
            .map(CostHandle)
    }
}

pub(super) unsafe extern "C" fn cost_trampoline(
    context: *mut c_void,
    count: u64,
    lengths: *const f64,
    totals: *const f64,
    columns: usize,
    cost: *mut f64,
) -> i32 {
    // SAFETY: `context` is the Guarded closure given with this trampoline, alive and used by nobody
    // else during the call.
    let guarded = unsafe { &mut *context.cast::<Guarded<&RefCell<CostFn<'_>>>>() };
    guarded.run(|function| {
        // SAFETY: a length and a total for each column.
        let (lengths, totals) = unsafe { (slice(lengths, columns), slice(totals, columns)) };
        let answer = (function.borrow_mut())(count, lengths, totals)?;
        // SAFETY: room for one number.
        unsafe { cost.write(answer) };
        Ok(sys::SAB_OK)
    })
}

/// The costs, budgets and progress closure of options during a call. They must outlive it.
pub(super) struct InCall<'a, 'f> {
    // In the order in which they are dropped: a handle before the closure that it uses.
    costs: Vec<CostHandle>,
    functions: Vec<Shared<Guarded<&'a RefCell<CostFn<'f>>>>>,
    budgets: Vec<sys::sab_budget>,
    balance: Vec<*const sys::sab_cost>,
    progress: Option<Guarded<Progress<'a, 'f>>>,
}

impl<'a, 'f> InCall<'a, 'f> {
    pub(super) fn new(progress: &'a Hook<ProgressFn<'f>>) -> Self {
        InCall { progress: progress.get().map(Guarded::new), ..Self::without_progress() }
    }

    pub(super) fn without_progress() -> Self {
        InCall {
            costs: Vec::new(),
            functions: Vec::new(),
            budgets: Vec::new(),
            balance: Vec::new(),
            progress: None,
        }
    }

    /// The handle of a cost.
    pub(super) fn cost(&mut self, cost: &'a Cost<'f>) -> Result<*const sys::sab_cost, Error> {
        let made = match &cost.0 {
            CostKind::Handle(handle) => return Ok(handle.0.pointer()),
            CostKind::Padded(weights) => CostHandle::padded(weights)?,
            CostKind::Terms(terms) => CostHandle::of_terms(terms)?,
            CostKind::Function(function) => {
                let (kept, context) = Shared::new(Guarded::new(&**function));
                self.functions.push(kept);
                // SAFETY: the context fits its trampoline and outlives the handle.
                CostHandle(make(|cost| unsafe {
                    sys::sab_cost_callback_new(Some(cost_trampoline), context, None, cost)
                })?)
            }
        };
        let pointer = made.0.pointer();
        self.costs.push(made);
        Ok(pointer)
    }

    /// The handle of an optional cost, NULL for none.
    pub(super) fn optional_cost(
        &mut self,
        cost: Option<&'a Cost<'f>>,
    ) -> Result<*const sys::sab_cost, Error> {
        cost.map_or(Ok(null()), |cost| self.cost(cost))
    }

    pub(super) fn budget(&mut self, budget: &'a Budget<'f>) -> Result<sys::sab_budget, Error> {
        let cost = self.optional_cost(budget.cost.as_ref())?;
        Ok(sys::sab_budget { cost, limit: budget.limit, reserved: [0; 2] })
    }

    /// The array of budgets, and their number.
    pub(super) fn budgets(
        &mut self,
        budgets: &'a [Budget<'f>],
    ) -> Result<(*const sys::sab_budget, usize), Error> {
        self.budgets = budgets.iter().map(|each| self.budget(each)).collect::<Result<_, _>>()?;
        Ok(counted(&self.budgets))
    }

    /// The array of costs to even out, and their number.
    pub(super) fn balance(
        &mut self,
        balance: impl IntoIterator<Item = &'a Cost<'f>>,
    ) -> Result<(*const *const sys::sab_cost, usize), Error>
    where
        'f: 'a,
    {
        self.balance = balance.into_iter().map(|cost| self.cost(cost)).collect::<Result<_, _>>()?;
        Ok(counted(&self.balance))
    }

    pub(super) fn progress(&mut self) -> (sys::sab_progress_fn, *mut c_void) {
        progress_parts(&mut self.progress)
    }

    /// How the closures failed.
    pub(super) fn failures(self) -> Vec<Option<Failure>> {
        // SAFETY: no call of C is under way that could use them.
        let functions = self.functions.iter().map(|each| unsafe { each.take_failure() });
        functions.chain([failure_of(self.progress)]).collect()
    }
}

pub(crate) fn evaluate_cost(cost: &Cost<'_>, count: u64, lengths: &[f64]) -> Result<f64, Error> {
    let mut call = InCall::without_progress();
    let handle = call.cost(cost)?;
    let mut value = 0.0;
    // SAFETY: a live handle, as many lengths as columns, NULL for their totals, and room for a
    // number.
    let status = unsafe {
        sys::sab_cost_evaluate(handle, count, lengths.as_ptr(), null(), lengths.len(), &mut value)
    };
    check_with(status, call.failures())?;
    Ok(value)
}
