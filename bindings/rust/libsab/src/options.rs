//! The one pattern of all option structs: private fields, defaults that are zero in the library,
//! setters by value, used by reference. So they can be used several times, and grow.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

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

/// Setters of arrays beside the library's struct.
macro_rules! array_setters {
    ($($(#[$meta:meta])* $setter:ident: $type:ty;)*) => {$(
        $(#[$meta])*
        pub fn $setter(mut self, $setter: impl Into<Vec<$type>>) -> Self {
            self.$setter = $setter.into();
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

/// The setters of budgets, after which nothing exceeds them.
macro_rules! budget_setters {
    ($life:lifetime, $(#[$meta:meta])*) => {
        $(#[$meta])*
        pub fn budget(self, budget: impl Into<$crate::Budget<$life>>) -> Self {
            self.budgets([budget.into()])
        }

        /// Several budgets, at most 8, of which all hold.
        pub fn budgets(
            mut self,
            budgets: impl IntoIterator<Item = $crate::Budget<$life>>,
        ) -> Self {
            self.budgets = budgets.into_iter().collect();
            self
        }
    };
}

/// The setter of a cost that is a field beside the library's struct.
macro_rules! cost_setter {
    ($life:lifetime, $(#[$meta:meta])* $setter:ident) => {
        $(#[$meta])*
        pub fn $setter(mut self, cost: $crate::Cost<$life>) -> Self {
            self.$setter = Some(cost);
            self
        }
    };
}

pub(crate) use {array_setters, budget_setters, cost_setter, options, progress_setter, setters};

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
