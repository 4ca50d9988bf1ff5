#![doc = include_str!("../README.md")]
//!
//! What each item means is in the headers, `sab.h` and `sab/*.h`. Constants are plain numbers, not
//! Rust enums, so that a value from a newer library is not undefined behaviour.
#![no_std]
#![allow(non_camel_case_types, non_upper_case_globals)]
#![allow(rustdoc::all)]
#![allow(clippy::unreadable_literal)] // numbers are written as C has them

include!("bindings.rs");

/// The binary interface that is declared here, as `sab_abi_version()` says it: 1000 * major +
/// minor.
pub const ABI_VERSION: u32 = 1;
