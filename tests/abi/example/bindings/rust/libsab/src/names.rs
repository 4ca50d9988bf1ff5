// Generated from the public headers by tools/abi.py: do not edit.
//! Names in messages of the library, and what they are in Rust.
#![cfg_attr(rustfmt, rustfmt_skip)]

pub(crate) const CHOICES: &[(&str, &str)] = &[
    ("SAB_LID_OPEN", "Lid::Open"),
    ("SAB_LID_NOT_LOCKED", "Lid::NotLocked"),
];
pub(crate) const OPTIONS: &[&str] = &[];
pub(crate) const COUNTED: &[(&str, &str)] = &[
];
