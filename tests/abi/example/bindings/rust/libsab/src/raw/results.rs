// Generated from the public headers by tools/abi.py: do not edit.
//! Results that are shown as the library gives them.
#![cfg_attr(rustfmt, rustfmt_skip)]

use super::{known, per_column, sys};
use crate::PerColumn;
