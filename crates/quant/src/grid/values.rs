//! The points of the grids as kernels read them: what the levels stand for, a byte per coordinate, the first one lowest.

use super::{iq1, iq2_s, iq2_xs, iq2_xxs, iq3_s, iq3_xxs};

/// IQ1_S, IQ1_M: eight times levels 0, 1, 2.
pub static IQ1_POINTS: [u64; 2048] = bytes_of(&iq1::POINTS, 8, &[0, 8, 16, 0]);
/// IQ2_S.
pub static IQ2_S_POINTS: [u64; 1024] = bytes_of(&iq2_s::POINTS, 8, &IQ2_VALUES);
/// IQ2_XS.
pub static IQ2_XS_POINTS: [u64; 512] = bytes_of(&iq2_xs::POINTS, 8, &IQ2_VALUES);
/// IQ2_XXS.
pub static IQ2_XXS_POINTS: [u64; 256] = bytes_of(&iq2_xxs::POINTS, 8, &IQ2_VALUES);
/// IQ3_S; four coordinates.
pub static IQ3_S_POINTS: [u64; 512] = bytes_of(&iq3_s::POINTS, 4, &[1, 3, 5, 7, 9, 11, 13, 15]);
/// IQ3_XXS; four coordinates.
pub static IQ3_XXS_POINTS: [u64; 256] = bytes_of(&iq3_xxs::POINTS, 4, &IQ3_XXS_VALUES);

const IQ2_VALUES: [u8; 4] = crate::types::iq2_xxs::VALUES;
const IQ3_XXS_VALUES: [u8; 8] = crate::types::iq3_xxs::VALUES;

/// `values` has a power of two entries, as many as the bits of a level count.
const fn bytes_of<const LEN: usize, const N_VALUES: usize>(
    points: &[u16; LEN],
    n_coordinates: u32,
    values: &[u8; N_VALUES],
) -> [u64; LEN] {
    let mut table = [0; LEN];
    let mut index = 0;
    while index < LEN {
        let mut i = 0;
        while i < n_coordinates {
            let level = points[index] as usize >> (N_VALUES.ilog2() * i) & (N_VALUES - 1);
            table[index] |= (values[level] as u64) << (8 * i);
            i += 1;
        }
        index += 1;
    }
    table
}
