//! Products of decoded rows, and 8-bit activations.

use crate::activations::{ActivationGroup, GROUP};
use crate::plain::vector::dot_f32;
use crate::split::RowTile;
use crate::table::Product;

/// Decodes each row once and multiplies it with the values of every column.
pub(crate) fn product(product: &Product<'_>, tile: &mut RowTile<'_>) {
    let n = product.n;
    let columns = tile.columns();
    let mut values = vec![0.0; n * columns.len()];
    for (column, values) in columns.clone().zip(values.chunks_exact_mut(n)) {
        let column = product.activation_column(column);
        product.activations.values(column, values);
    }
    let mut weights = vec![0.0; n];
    for (index, row) in tile.rows().enumerate() {
        let decoded = product.ty.decode(product.rows(row..row + 1), &mut weights);
        debug_assert!(
            decoded.is_ok(),
            "the type was checked to have a decoder, and the lengths fit"
        );
        for (column, values) in columns.clone().zip(values.chunks_exact(n)) {
            tile.column(column)[index] = dot_f32(&weights, values);
        }
    }
}

/// Rounds to 8-bit codes, ties to even.
pub(crate) fn quantize(x: &[f32], groups: &mut [ActivationGroup]) {
    for (x, group) in x.chunks_exact(GROUP).zip(groups) {
        // Compared as integers, NaN is the largest of all: it must not vanish.
        let largest = f32::from_bits(
            x.iter()
                .map(|x| x.to_bits() & 0x7fff_ffff)
                .max()
                .unwrap_or(0),
        );
        let (scale, inverse) = scale_of(largest);
        for (code, &x) in group.codes.iter_mut().zip(x) {
            // `as` takes NaN to 0.
            *code = (x * inverse).round_ties_even() as i8;
        }
        for (sum, codes) in group
            .sums
            .iter_mut()
            .zip(group.codes.chunks_exact(GROUP / 2))
        {
            *sum = codes.iter().map(|&code| i16::from(code)).sum();
        }
        group.scale = scale;
        group.scaled_sum = scale * f32::from(group.sums[0] + group.sums[1]);
    }
}

/// Scale of a group with this largest magnitude, and what its values are multiplied with.
///
/// Magnitudes below 1e-30 count as zero (the factor would overflow); an infinity or a NaN becomes the scale, with codes
/// of zero, and so makes the product NaN.
pub(crate) fn scale_of(largest: f32) -> (f32, f32) {
    if largest < 1e-30 {
        (0.0, 0.0)
    } else if largest.is_finite() {
        (largest / 127.0, 127.0 / largest)
    } else {
        (largest, 0.0)
    }
}
