//! Every kernel of every instruction set against its plain twin.

mod attention;
mod encode;
mod experts;
mod llama_cpp;
mod matmul;
mod pool;
mod vector;

use crate::Isa;
use crate::table::{Kernels, table_of};

/// Uniform numbers in -1..1 from a seed.
pub(crate) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn float(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub fn floats(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.float()).collect()
    }
}

/// The kernel tables that this machine can run.
pub(crate) fn tables() -> impl Iterator<Item = &'static Kernels> {
    Isa::supported().filter_map(table_of)
}
