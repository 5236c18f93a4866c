//! The arithmetic of llama.cpp's CPU backend on AVX2 with FMA, operation by operation: how it rounds activations, in which
//! order it adds, where it fuses a product with a sum. Results are those of build b11549, bit for bit where the platform's
//! exponentials, sines and cosines are the same, so that a difference between two engines can be told from rounding.
//!
//! The order is fixed by construction: `Lanes` are the eight floats of a register, `mul_add` is a fused operation, and
//! everything else rounds after each step. So the bits are the same on every machine; where it has AVX2 and FMA the code is
//! compiled for them (`wide`).

mod attention;
mod columns;
mod floats;
mod product;
mod rows;
mod super_blocks;

pub use attention::{AttentionForm, attention};
pub use columns::Columns;
pub use product::{matmul, round_columns, supports};
pub use rows::{gelu, gelu_mul, rms_norm, rotate_neox, rotate_normal, silu, silu_mul};

/// Eight partial sums that run beside each other.
type Lanes = [f32; 8];

/// Adds `factor * x` to each lane, with one rounding.
#[inline(always)]
fn add_scaled(sums: &mut Lanes, factor: f32, x: &[i32; 8]) {
    for (sum, &x) in sums.iter_mut().zip(x) {
        *sum = factor.mul_add(x as f32, *sum);
    }
}

/// The sum of the lanes: the upper half onto the lower until one is left.
#[inline(always)]
fn sum_lanes([a, b, c, d, e, f, g, h]: Lanes) -> f32 {
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// Declares functions whose bodies are compiled for AVX2 and FMA too, and run so where the processor has them. What they
/// call must be inlined to profit.
macro_rules! wide {
    ($($(#[$doc:meta])* $visible:vis fn $name:ident $(<$B:ident: $bound:path>)? ($($argument:ident: $ty:ty),* $(,)?) $(-> $result:ty)? $body:block)*) => {$(
        $(#[$doc])*
        $visible fn $name $(<$B: $bound>)? ($($argument: $ty),*) $(-> $result)? {
            #[inline(always)]
            fn body $(<$B: $bound>)? ($($argument: $ty),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                #[target_feature(enable = "avx2,fma")]
                fn compiled_wide $(<$B: $bound>)? ($($argument: $ty),*) $(-> $result)? {
                    body $(::<$B>)? ($($argument),*)
                }
                // SAFETY: the processor has AVX2 and FMA.
                return unsafe { compiled_wide $(::<$B>)? ($($argument),*) };
            }
            body $(::<$B>)? ($($argument),*)
        }
    )*};
}
use wide;
