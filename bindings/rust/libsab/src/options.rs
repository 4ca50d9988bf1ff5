//! The one pattern of all option structs: private fields, defaults read from the library, setters
//! by value, used by reference. So they can be used several times, and grow.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use sab_sys as sys;

use crate::error::BoxError;
use crate::plan::{Cost, CostTerm};
use crate::raw::CostFn;

/// Defines an option struct over one of the library, with more fields for what this points to.
macro_rules! options {
    (
        $(#[$meta:meta])*
        pub struct $name:ident $(<$life:lifetime>)?: $raw:ident {
            $($field:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone)]
        #[must_use]
        pub struct $name $(<$life>)? {
            pub(crate) raw: $crate::raw::Numbers<sab_sys::$raw>,
            $(pub(crate) $field: $type,)*
        }

        impl $(<$life>)? Default for $name $(<$life>)? {
            fn default() -> Self {
                $name {
                    raw: Default::default(),
                    $($field: Default::default(),)*
                }
            }
        }

        impl $(<$life>)? $name $(<$life>)? {
            /// The defaults of the library.
            pub fn new() -> Self {
                Self::default()
            }
        }

        impl $(<$life>)? std::fmt::Debug for $name $(<$life>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("options", &*self.raw)
                    $(.field(stringify!($field), &self.$field))*
                    .finish()
            }
        }
    };
}

/// Setters of fields of the library's struct.
macro_rules! setters {
    ($($(#[$meta:meta])* $setter:ident($argument:ident: $type:ty) => $field:ident = $value:expr;)*) => {$(
        $(#[$meta])*
        pub fn $setter(mut self, $argument: $type) -> Self {
            self.raw.$field = $value;
            self
        }
    )*};
}

/// The setter of a progress closure.
macro_rules! progress_setter {
    ($life:lifetime) => {
        /// Calls `progress(done, total)` now and then; it may stop the call:
        /// [`Error::Cancelled`](crate::Error::Cancelled).
        pub fn progress(
            mut self,
            progress: impl FnMut(u64, u64) -> std::ops::ControlFlow<()> + $life,
        ) -> Self {
            self.progress =
                $crate::options::Hook::of(std::rc::Rc::new(std::cell::RefCell::new(progress)));
            self
        }
    };
}

/// The setters of a cost: a formula, or a closure with these arguments.
macro_rules! cost_setters {
    (
        $life:lifetime,
        $(#[$cost:meta])* cost,
        $(#[$function:meta])* cost_fn($($argument:ident: $type:ty),*),
        $(#[$fallible:meta])* try_cost_fn
    ) => {
        $(#[$cost])*
        pub fn cost(mut self, cost: $crate::Cost) -> Self {
            self.cost.set(cost);
            self
        }

        $(#[$function])*
        pub fn cost_fn(self, mut cost: impl FnMut($($type),*) -> f64 + $life) -> Self {
            self.try_cost_fn(move |$($argument),*| Ok(cost($($argument),*)))
        }

        $(#[$fallible])*
        pub fn try_cost_fn(
            mut self,
            mut cost: impl FnMut($($type),*) -> Result<f64, $crate::BoxError> + $life,
        ) -> Self {
            self.cost.set_function(move |_count, length| {
                $crate::options::cost_arguments!(_count, length, $($argument),*);
                cost($($argument),*)
            });
            self
        }
    };
}

/// Names the arguments of a cost closure: count and length, or the length alone.
macro_rules! cost_arguments {
    ($count_value:ident, $length_value:ident, $count:ident, $length:ident) => {
        let ($count, $length) = ($count_value, $length_value);
    };
    ($count_value:ident, $length_value:ident, $length:ident) => {
        let $length = $length_value;
    };
}

/// The numbers by which the library knows the variants of an enum.
macro_rules! constants {
    ($($name:ident { $($variant:ident = $constant:ident,)* })*) => {$(
        impl $name {
            pub(crate) const fn raw(self) -> i32 {
                match self {
                    $($name::$variant => sab_sys::$constant,)*
                }
            }
        }
    )*};
}

pub(crate) use {constants, cost_arguments, cost_setters, options, progress_setter, setters};

/// An optional closure of options. Options are used by reference, and may be used several times, so
/// that calls share it.
pub(crate) struct Hook<F: ?Sized>(Option<Rc<RefCell<F>>>);

impl<F: ?Sized> Hook<F> {
    pub(crate) fn of(function: Rc<RefCell<F>>) -> Self {
        Hook(Some(function))
    }

    pub(crate) fn get(&self) -> Option<&RefCell<F>> {
        self.0.as_deref()
    }

    /// The closure for a handle that goes on using it.
    pub(crate) fn shared(&self) -> Option<Rc<RefCell<F>>> {
        self.0.clone()
    }
}

impl<F: ?Sized> Default for Hook<F> {
    fn default() -> Self {
        Hook(None)
    }
}

impl<F: ?Sized> Clone for Hook<F> {
    fn clone(&self) -> Self {
        Hook(self.0.clone())
    }
}

impl<F: ?Sized> fmt::Debug for Hook<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "a closure" } else { "none" })
    }
}

/// An optional closure of options that a handle goes on using, maybe in other threads.
pub(crate) struct KeptHook<F: ?Sized>(pub(crate) Option<Arc<F>>);

impl<F: ?Sized> Default for KeptHook<F> {
    fn default() -> Self {
        KeptHook(None)
    }
}

impl<F: ?Sized> Clone for KeptHook<F> {
    fn clone(&self) -> Self {
        KeptHook(self.0.clone())
    }
}

impl<F: ?Sized> fmt::Debug for KeptHook<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "a closure" } else { "none" })
    }
}

/// The cost that options ask for.
#[derive(Clone, Debug, Default)]
pub(crate) struct CostOption<'f> {
    /// `None`: the library's default.
    pub(crate) kind: Option<sys::sab_cost>,
    pub(crate) coefficients: Vec<f64>,
    pub(crate) terms: Vec<sys::sab_cost_term>,
    pub(crate) function: Hook<CostFn<'f>>,
}

impl<'f> CostOption<'f> {
    pub(crate) fn set(&mut self, cost: Cost) {
        *self = Self::default();
        self.kind = Some(match cost {
            Cost::Padded => sys::SAB_COST_PADDED,
            Cost::Quadratic => sys::SAB_COST_QUADRATIC,
            Cost::Polynomial(coefficients) => {
                self.coefficients = coefficients;
                sys::SAB_COST_POLYNOMIAL
            }
            Cost::Terms(terms) => {
                self.terms = terms.iter().map(CostTerm::raw).collect();
                sys::SAB_COST_TERMS
            }
        });
    }

    pub(crate) fn set_function(
        &mut self,
        function: impl FnMut(u64, f64) -> Result<f64, BoxError> + 'f,
    ) {
        *self = Self::default();
        self.kind = Some(sys::SAB_COST_CALLBACK);
        self.function = Hook::of(Rc::new(RefCell::new(function)));
    }
}
