//! IQ4_NL: see `gristmill_quant::block::BlockIq4Nl` for the layout.

use std::arch::x86_64::*;

use gristmill_quant::block::{BlockIq4Nl, NONLINEAR_LEVELS};

use crate::table::TypeKernels;
use crate::x86::panel::{self, BlockRows, Bytes, Unpack};
use crate::x86::unpack::{half_floats, nonlinear_codes, store_floats, transpose};

pub(super) const KERNELS: TypeKernels = panel::kernels::<Rows>(gristmill_quant::IQ4_NL)
    .with_encoder(super::encode::rows::<gristmill_quant::block::BlockIq4Nl>)
    .with_decoder(decode);

/// Levels by a shuffle: a table in memory would be read element by element.
fn decode(bytes: &[u8], out: &mut [f32]) {
    #[target_feature(enable = "avx2,f16c")]
    fn inner(blocks: &[BlockIq4Nl], out: &mut [[f32; 32]]) {
        for (block, out) in blocks.iter().zip(out) {
            // SAFETY: sixteen codes and levels are read, and four times eight floats written.
            unsafe {
                let levels = _mm_loadu_si128(NONLINEAR_LEVELS.as_ptr().cast());
                let codes = _mm_loadu_si128(block.qs.as_ptr().cast());
                let low = _mm_set1_epi8(15);
                let halves = [codes, _mm_srli_epi16::<4>(codes)]
                    .map(|codes| _mm_shuffle_epi8(levels, _mm_and_si128(codes, low)));
                let scale = _mm256_set1_ps(block.d.to_f32());
                for (half, levels) in halves.into_iter().enumerate() {
                    let eights = [levels, _mm_srli_si128::<8>(levels)];
                    for (eight, levels) in eights.into_iter().enumerate() {
                        let levels = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(levels));
                        let place = out.as_mut_ptr().add(16 * half + 8 * eight);
                        _mm256_storeu_ps(place, _mm256_mul_ps(scale, levels));
                    }
                }
            }
        }
    }
    // SAFETY: whoever has this kernel has it from `avx2::kernels`, so the CPU has AVX2 and F16C.
    unsafe { inner(bytemuck::cast_slice(bytes), out.as_chunks_mut().0) }
}

/// Eight rows of blocks.
struct Rows;

impl Unpack for Rows {
    type Block = gristmill_quant::block::BlockIq4Nl;
    type Group = Bytes;

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: all offsets are inside the block; the caller has the instruction set and room for the groups.
        unsafe {
            let group = &mut *out;
            nonlinear_codes(&transpose(rows, 2), &mut group.codes);
            store_floats(&mut group.scale, half_floats(rows, 0));
        }
    }
}
