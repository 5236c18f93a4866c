//! The table of kernels of each instruction set.

use std::ops::Range;
use std::sync::OnceLock;

use gristmill_quant::encoding::{DecodeRows, EncodeRows};
use gristmill_quant::{QuantError, TensorType};

use crate::activations::{ActivationGroup, Activations};
use crate::attention::AttentionKernels;
use crate::split::RowTile;
use crate::vector::VectorKernels;
use crate::{Isa, isa, plain};

/// The kernels of one instruction set.
pub(crate) struct Kernels {
    #[cfg(test)]
    pub isa: Isa,
    /// A type without an entry takes the plain kernels.
    pub types: &'static [TypeKernels],
    /// Rounds activations to 8 bits: `x` holds [`GROUP`](crate::activations::GROUP) elements per group.
    pub quantize: fn(x: &[f32], groups: &mut [ActivationGroup]),
    pub vector: VectorKernels,
    pub attention: AttentionKernels,
}

/// The kernels of one type.
pub(crate) struct TypeKernels {
    pub ty: TensorType,
    /// Writes the rows and columns of the tile.
    pub product: fn(&Product<'_>, &mut RowTile<'_>),
    /// Rows that the product handles together: chunks are cut at multiples.
    pub row_step: usize,
    /// Encodes whole rows: `(x, row_len, importance of one row, out)`, of lengths that were checked. The bytes are those of
    /// the plain encoder, which does the work where there is none.
    pub encode: Option<EncodeRows>,
    /// Decodes whole blocks: `(blocks, out)`, of lengths that were checked. The values are those of the plain decoder, which
    /// does the work where there is none.
    pub decode: Option<DecodeRows>,
}

impl TypeKernels {
    /// Those of a product alone.
    pub const fn new(
        ty: TensorType,
        product: fn(&Product<'_>, &mut RowTile<'_>),
        row_step: usize,
    ) -> Self {
        TypeKernels {
            ty,
            product,
            row_step,
            encode: None,
            decode: None,
        }
    }

    /// With an encoder.
    pub const fn with_encoder(mut self, encode: EncodeRows) -> Self {
        self.encode = Some(encode);
        self
    }

    /// With a decoder.
    pub const fn with_decoder(mut self, decode: DecodeRows) -> Self {
        self.decode = Some(decode);
        self
    }
}

impl Kernels {
    /// The kernels of a type.
    pub fn of(&self, ty: TensorType) -> Option<&'static TypeKernels> {
        self.types.iter().find(|kernels| kernels.ty == ty)
    }

    /// Decodes whole blocks.
    pub fn decode(&self, ty: TensorType, bytes: &[u8], out: &mut [f32]) -> Result<(), QuantError> {
        match self.of(ty).and_then(|kernels| kernels.decode) {
            Some(decode) => {
                ty.check_decode(bytes, out)?;
                decode(bytes, out);
                Ok(())
            }
            None => ty.decode(bytes, out),
        }
    }
}

/// Weights and activations of one product. The lengths fit: `weights` holds rows of `row_bytes` bytes and
/// `activations` columns of `n` elements in the layout of `ty`.
pub(crate) struct Product<'a> {
    pub ty: TensorType,
    pub weights: &'a [u8],
    pub row_bytes: usize,
    pub n: usize,
    pub activations: &'a Activations,
    /// Which columns of the activations are meant, where they are not all in order.
    pub picked: Option<PickedColumns<'a>>,
}

/// Columns of activations: the product's column `c` is theirs `order[c] / sharing`.
#[derive(Clone, Copy)]
pub(crate) struct PickedColumns<'a> {
    pub order: &'a [u32],
    pub sharing: usize,
}

impl Product<'_> {
    /// The column of the activations that is the product's column `column`.
    #[inline(always)]
    pub fn activation_column(&self, column: usize) -> usize {
        match self.picked {
            None => column,
            Some(picked) => picked.order[column] as usize / picked.sharing,
        }
    }

    /// Where a row begins.
    pub fn row(&self, row: usize) -> *const u8 {
        self.rows(row..row + 1).as_ptr()
    }

    /// The bytes of some rows.
    pub fn rows(&self, rows: Range<usize>) -> &[u8] {
        &self.weights[rows.start * self.row_bytes..rows.end * self.row_bytes]
    }
}

/// Names of the instruction sets that have a kernel of their own for products with weights of a type, in this build
/// (whether or not this machine has them). Elsewhere the plain kernel does the work.
pub fn isas_with_product(ty: TensorType) -> Vec<&'static str> {
    let mut isas = Vec::new();
    #[cfg(target_arch = "x86_64")]
    if crate::avx2::has_product(ty) {
        isas.push(Isa::Avx2.name());
    }
    isas
}

/// The kernels of an instruction set, where this build has them and this CPU can run them.
pub(crate) fn table_of(isa: Isa) -> Option<&'static Kernels> {
    match isa {
        Isa::Plain => Some(&plain::KERNELS),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => crate::avx2::kernels(),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 => None,
        Isa::Avx512 | Isa::Neon => None,
    }
}

/// The kernels in use.
pub(crate) fn kernels() -> &'static Kernels {
    static KERNELS: OnceLock<&'static Kernels> = OnceLock::new();
    KERNELS.get_or_init(|| table_of(isa()).unwrap_or(&plain::KERNELS))
}
