//! F32 weights.

use crate::table::TypeKernels;
use crate::x86::float;

pub(super) const KERNELS: TypeKernels = float::kernels::<float::Single>(gristmill_quant::F32);
