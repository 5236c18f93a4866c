//! What the x86-64 kernels share: register pieces, and the loops around products.

#![allow(
    clippy::needless_range_loop,
    reason = "one index walks several arrays of registers"
)]

pub(crate) mod float;
pub(crate) mod grid;
pub(crate) mod lanes;
pub(crate) mod panel;
pub(crate) mod unpack;
