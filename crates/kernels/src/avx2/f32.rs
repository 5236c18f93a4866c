//! F32 weights.

use crate::table::ProductKernel;
use crate::x86::float;

pub(super) const PRODUCT: ProductKernel = float::kernel::<float::Single>(gristmill_quant::F32);
