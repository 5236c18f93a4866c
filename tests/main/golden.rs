//! Comparisons with golden data through the binary.
