//! IQ4_NL: 4.5 bits per weight, 4-bit indices into a table of 16 uneven levels, under one scale.

use bytemuck::{Pod, Zeroable};

use crate::codec::{Block, Dot, Encode};
use crate::half_float::Half;
use crate::lanes::{LANES, Lanes, sum, transpose, untranspose};
use crate::levels::pack_nibbles;
use crate::nonlinear::{dot_levels, fit_levels, level_indices, unpack_levels};
use crate::policy::{BySize, Policy};
use crate::registry::{Format, TensorType};
use crate::types::Q8_0;
use crate::types::q8_0::BlockQ8_0;

/// 32 elements in 18 bytes.
///
/// ```text
/// 0      2          18
/// | d    | qs[16]   |
///
/// qs[i]  low nibble: element i, high nibble: element i + 16
/// ```
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq4Nl {
    /// Scale.
    pub d: Half,
    /// Two table indices per byte.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<BlockIq4Nl>() == 18);

/// IQ4_NL: 4.5 bits per weight, 4-bit indices into a table of 16 uneven levels, under one scale.
pub const IQ4_NL: TensorType = TensorType(&FORMAT);

static FORMAT: Format = Format {
    activation: Some(Q8_0),
    policy: Policy {
        for_cache: true,
        by_size: BySize::ShortRows,
        ..Policy::NONE
    },
    ..Format::full::<BlockIq4Nl>(20, "iq4_nl", &[(0, 2, 1)])
};

impl Block for BlockIq4Nl {
    const LEN: usize = 32;

    #[inline(always)]
    fn decode(&self, out: &mut [f32]) {
        let d = self.d.to_f32();
        for (out, level) in out.iter_mut().zip(unpack_levels(&self.qs)) {
            *out = d * f32::from(level);
        }
    }

    fn is_finite(&self) -> bool {
        self.d.is_finite()
    }
}

impl Encode for BlockIq4Nl {
    #[inline(always)]
    fn encode_row<L: Lanes>(x: &[f32], importance: Option<&[f32]>, blocks: &mut [Self]) {
        for (i, (x, blocks)) in x
            .chunks(32 * LANES)
            .zip(blocks.chunks_mut(LANES))
            .enumerate()
        {
            let importance = importance.map(|row| &row[32 * LANES * i..][..x.len()]);
            encode::<L>(x, importance, blocks);
        }
    }
}

/// Up to eight blocks side by side.
#[inline(always)]
fn encode<L: Lanes>(x: &[f32], importance: Option<&[f32]>, blocks: &mut [BlockIq4Nl]) {
    let x = transpose::<L, 32>(x);
    let squares = x.map(|x| x * x);
    let weights = match importance {
        None => squares,
        Some(importance) => {
            let (importance, mean) = (
                transpose::<L, 32>(importance),
                sum(&squares) * L::splat(2.0 / 32.0),
            );
            std::array::from_fn(|e| importance[e] * (mean + squares[e]).sqrt())
        }
    };
    let scale = fit_levels(&x, &weights);
    let mut indices = [0; 32 * LANES];
    untranspose::<L>(&level_indices(&x, scale), &mut indices);
    for ((block, d), indices) in blocks
        .iter_mut()
        .zip(scale.store())
        .zip(indices.as_chunks().0)
    {
        *block = BlockIq4Nl {
            d: Half::from_f32(d),
            qs: pack_nibbles(indices),
        };
    }
}

impl Dot for BlockIq4Nl {
    type With = BlockQ8_0;

    fn dot(&self, with: &BlockQ8_0) -> f64 {
        f64::from(self.d.to_f32())
            * f64::from(with.d.to_f32())
            * f64::from(dot_levels(&self.qs, &with.qs))
    }
}
