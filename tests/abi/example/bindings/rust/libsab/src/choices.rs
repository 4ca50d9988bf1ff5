// Generated from the public headers by tools/abi.py: do not edit.
//! Choices, and the numbers by which the library knows them.
#![cfg_attr(rustfmt, rustfmt_skip)]
