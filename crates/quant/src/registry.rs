//! The tensor types: one [`Format`] each.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::codec::{Block, Codec, Dot, Encode, EncodeRows};
use crate::error::QuantError;
use crate::policy::Policy;
use crate::types::FORMATS;

/// `(start, width, count)`: `count` numbers of `width` bytes each, from byte `start` of a block.
pub(crate) type WideField = (usize, usize, usize);

/// Everything known about one tensor type.
pub struct Format {
    /// The number in the file.
    pub(crate) id: u32,
    /// The lower-case name that ggml prints.
    pub(crate) name: &'static str,
    /// Elements per block.
    pub(crate) block_len: usize,
    /// Bytes per block.
    pub(crate) block_bytes: usize,
    /// The numbers of a block that are wider than a byte, as the reference's decoder reads them: a big-endian file
    /// holds these the other way round, so that a big-endian machine decodes the same values.
    pub(crate) wide_fields: &'static [WideField],
    /// The layout that activations take in a dot product with this type.
    pub(crate) activation: Option<TensorType>,
    /// What quantization of a whole model makes of the type.
    pub(crate) policy: Policy,
    /// Absent where only the size is known.
    pub(crate) codec: Option<Codec>,
}

impl Format {
    /// A type of which only the size is known: elements that are a `T` each.
    pub(crate) const fn sized<T>(
        id: u32,
        name: &'static str,
        wide_fields: &'static [WideField],
    ) -> Self {
        Self {
            id,
            name,
            block_len: 1,
            block_bytes: size_of::<T>(),
            wide_fields,
            activation: None,
            policy: Policy::NONE,
            codec: None,
        }
    }

    /// A type whose blocks can be decoded.
    pub(crate) const fn of<B: Block>(
        id: u32,
        name: &'static str,
        wide_fields: &'static [WideField],
    ) -> Self {
        Self {
            block_len: B::LEN,
            codec: Some(Codec::of::<B>()),
            ..Self::sized::<B>(id, name, wide_fields)
        }
    }

    /// A type of weights: its blocks can be decoded, encoded, and multiplied with `activation`, which is to be set.
    pub(crate) const fn full<B: Encode + Dot>(
        id: u32,
        name: &'static str,
        wide_fields: &'static [WideField],
    ) -> Self {
        Self {
            codec: Some(Codec::full::<B>()),
            ..Self::of::<B>(id, name, wide_fields)
        }
    }
}

/// A tensor type: a cheap handle to its entry of the registry.
///
/// Compares and hashes by id; prints as ggml's lower-case name (`q4_K`).
#[derive(Clone, Copy)]
pub struct TensorType(pub(crate) &'static Format);

/// Ids that once named a type, with what to do about a file that holds one.
static REMOVED: &[(u32, &str, &str)] = &[
    (4, "q4_2", "convert the model again from its source"),
    (5, "q4_3", "convert the model again from its source"),
    (
        31,
        "q4_0_4_4",
        "use q4_0, which is repacked when it is loaded",
    ),
    (
        32,
        "q4_0_4_8",
        "use q4_0, which is repacked when it is loaded",
    ),
    (
        33,
        "q4_0_8_8",
        "use q4_0, which is repacked when it is loaded",
    ),
    (
        36,
        "iq4_nl_4_4",
        "use iq4_nl, which is repacked when it is loaded",
    ),
    (
        37,
        "iq4_nl_4_8",
        "use iq4_nl, which is repacked when it is loaded",
    ),
    (
        38,
        "iq4_nl_8_8",
        "use iq4_nl, which is repacked when it is loaded",
    ),
];

impl TensorType {
    /// The type with this number, or `None` for a hole or an unknown number.
    pub fn from_id(id: u32) -> Option<Self> {
        Self::all().find(|ty| ty.id() == id)
    }

    /// The type of this name, in any case (`Q4_K`, `q4_k`).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|ty| ty.name().eq_ignore_ascii_case(name))
    }

    /// Name and remedy of a number that was withdrawn from the format.
    pub fn removed(id: u32) -> Option<(&'static str, &'static str)> {
        REMOVED
            .iter()
            .find(|entry| entry.0 == id)
            .map(|entry| (entry.1, entry.2))
    }

    /// All types, in alphabetical order.
    pub fn all() -> impl Iterator<Item = Self> {
        FORMATS.iter().copied()
    }

    /// The number in the file.
    pub const fn id(self) -> u32 {
        self.0.id
    }

    /// The lower-case name that ggml prints.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// Elements per block.
    pub const fn block_len(self) -> usize {
        self.0.block_len
    }

    /// Bytes per block.
    pub const fn block_bytes(self) -> usize {
        self.0.block_bytes
    }

    /// Bits that one element takes.
    pub fn bits_per_weight(self) -> f64 {
        self.block_bytes() as f64 * 8.0 / self.block_len() as f64
    }

    /// Whether elements share scales (false for plain floats and integers).
    pub const fn is_quantized(self) -> bool {
        self.0.block_len > 1
    }

    /// Bytes of a row of `n` elements.
    ///
    /// # Errors
    /// `RowLength` when `n` is not a whole number of blocks, `Overflow` when the size exceeds 64 bits.
    pub fn row_bytes(self, n: u64) -> Result<u64, QuantError> {
        let block_len = self.block_len() as u64;
        if !n.is_multiple_of(block_len) {
            return Err(QuantError::RowLength {
                ty: self,
                row_len: n,
            });
        }
        (n / block_len)
            .checked_mul(self.block_bytes() as u64)
            .ok_or(QuantError::Overflow { ty: self, n })
    }

    /// Turns whole blocks from one byte order into the other: every number wider than a byte is reversed.
    ///
    /// # Errors
    /// `Length` for a part of a block.
    pub fn swap_byte_order(self, data: &mut [u8]) -> Result<(), QuantError> {
        let (found, block_bytes) = (data.len(), self.block_bytes());
        if !found.is_multiple_of(block_bytes) {
            return Err(QuantError::Length {
                ty: self,
                what: "data",
                expected: found.next_multiple_of(block_bytes),
                found,
            });
        }
        for block in data.chunks_exact_mut(block_bytes) {
            for &(start, width, count) in self.0.wide_fields {
                let numbers = &mut block[start..start + width * count];
                numbers.chunks_exact_mut(width).for_each(<[u8]>::reverse);
            }
        }
        Ok(())
    }

    /// Whether [`decode`](Self::decode) works.
    pub fn can_decode(self) -> bool {
        self.0.codec.is_some()
    }

    /// Whether [`encode`](Self::encode) works.
    pub fn can_encode(self) -> bool {
        self.0
            .codec
            .as_ref()
            .is_some_and(|codec| codec.encode.is_some())
    }

    /// Whether [`encode`](Self::encode) refuses to work without an importance matrix: with so few levels, the search for
    /// the best ones has no meaning unless it is known which elements matter. To be asked before any output is opened.
    /// The other types take an importance matrix or leave it.
    pub fn needs_importance(self) -> bool {
        self.0
            .codec
            .as_ref()
            .is_some_and(|codec| codec.needs_importance)
    }

    /// Whether an importance matrix changes what [`encode`](Self::encode) makes.
    pub fn takes_importance(self) -> bool {
        self.0
            .codec
            .as_ref()
            .is_some_and(|codec| codec.takes_importance)
    }

    /// The types that a KV cache may have, in alphabetical order.
    pub fn for_cache() -> impl Iterator<Item = Self> {
        Self::all().filter(|ty| ty.policy().for_cache)
    }

    /// Checks what [`decode`](Self::decode) checks, for a kernel of its own.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn check_decode(self, bytes: &[u8], out: &[f32]) -> Result<(), QuantError> {
        self.codec("decode")?;
        self.check_bytes("data", bytes.len(), out.len())
    }

    /// Whether blocks of this type are only ever activations: nothing is multiplied with weights of it.
    pub fn is_for_activations(self) -> bool {
        self.is_quantized()
            && self.activation().is_none()
            && Self::all().any(|ty| ty.activation() == Some(self))
    }

    /// The layout that activations take in a dot product with this type.
    pub const fn activation(self) -> Option<TensorType> {
        self.0.activation
    }

    /// What quantization of a whole model makes of the type.
    pub const fn policy(self) -> &'static Policy {
        &self.0.policy
    }

    /// Decodes whole blocks into f32 values.
    ///
    /// # Errors
    /// `NoCodec`, or `Length` when `bytes` and `out` do not hold the same whole number of blocks.
    pub fn decode(self, bytes: &[u8], out: &mut [f32]) -> Result<(), QuantError> {
        let codec = self.codec("decode")?;
        self.check_bytes("data", bytes.len(), out.len())?;
        (codec.decode)(bytes, out);
        Ok(())
    }

    /// Encodes whole rows of `row_len` elements. `importance` holds one weight per column, shared by all rows;
    /// a type whose search takes none ignores it, and one that [needs](Self::needs_importance) it refuses to work without.
    /// Non-finite input never panics; see [`validate`](Self::validate).
    ///
    /// # Errors
    /// Those of [`check_encode`](Self::check_encode).
    pub fn encode(
        self,
        x: &[f32],
        row_len: usize,
        importance: Option<&[f32]>,
        out: &mut [u8],
    ) -> Result<(), QuantError> {
        let encode = self.check_encode(x, row_len, importance, out)?;
        encode(x, row_len, importance, out);
        Ok(())
    }

    /// Checks what [`encode`](Self::encode) checks, and returns the encoder.
    ///
    /// # Errors
    /// `NoCodec`, `RowLength`, `NeedsImportance`, or `Length` when a buffer does not fit the rows.
    pub fn check_encode(
        self,
        x: &[f32],
        row_len: usize,
        importance: Option<&[f32]>,
        out: &[u8],
    ) -> Result<EncodeRows, QuantError> {
        let none = QuantError::NoCodec {
            ty: self,
            operation: "encode",
        };
        let encode = self.codec("encode")?.encode.ok_or(none)?;
        self.row_bytes(row_len as u64)?;
        if row_len == 0 || !x.len().is_multiple_of(row_len) {
            return Err(QuantError::Length {
                ty: self,
                what: "input",
                expected: row_len,
                found: x.len(),
            });
        }
        if importance.is_none() && self.needs_importance() {
            return Err(QuantError::NeedsImportance { ty: self });
        }
        if let Some(importance) = importance
            && importance.len() != row_len
        {
            let found = importance.len();
            return Err(QuantError::Length {
                ty: self,
                what: "importance",
                expected: row_len,
                found,
            });
        }
        self.check_bytes("output", out.len(), x.len())?;
        Ok(encode)
    }

    /// Dot product of `n` elements: `x` of this type, `y` of its [`activation`](Self::activation) type.
    /// Defines what faster kernels must come close to.
    ///
    /// # Errors
    /// `NoCodec`, `RowLength`, or `Length` when a buffer does not hold `n` elements.
    pub fn dot(self, n: usize, x: &[u8], y: &[u8]) -> Result<f32, QuantError> {
        let none = QuantError::NoCodec {
            ty: self,
            operation: "dot",
        };
        let dot = self.codec("dot")?.dot.ok_or(none.clone())?;
        let activation = self.activation().ok_or(none)?;
        self.check_bytes("weights", x.len(), n)?;
        activation.check_bytes("activations", y.len(), n)?;
        Ok(dot(x, y))
    }

    /// Checks that no block holds a NaN or infinite scale.
    ///
    /// # Errors
    /// `NonFinite` naming the first such block, `Length` for a partial block, `NoCodec` for a type known by size only.
    pub fn validate(self, bytes: &[u8]) -> Result<(), QuantError> {
        let codec = self.codec("validation")?;
        self.check_bytes(
            "data",
            bytes.len(),
            bytes.len() / self.block_bytes() * self.block_len(),
        )?;
        (codec.first_non_finite)(bytes).map_or(Ok(()), |block| {
            Err(QuantError::NonFinite { ty: self, block })
        })
    }

    fn codec(self, operation: &'static str) -> Result<&'static Codec, QuantError> {
        self.0.codec.as_ref().ok_or(QuantError::NoCodec {
            ty: self,
            operation,
        })
    }

    /// `n_bytes` must be exactly the size of `n` elements.
    fn check_bytes(self, what: &'static str, n_bytes: usize, n: usize) -> Result<(), QuantError> {
        let expected = self.row_bytes(n as u64)?;
        if n_bytes as u64 == expected {
            return Ok(());
        }
        let expected = usize::try_from(expected).map_err(|_| QuantError::Overflow {
            ty: self,
            n: n as u64,
        })?;
        Err(QuantError::Length {
            ty: self,
            what,
            expected,
            found: n_bytes,
        })
    }
}

impl PartialEq for TensorType {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for TensorType {}

impl PartialOrd for TensorType {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TensorType {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.id().cmp(&other.id())
    }
}

impl Hash for TensorType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl fmt::Debug for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alphabetical_and_unique() {
        let names: Vec<_> = TensorType::all()
            .map(|ty| ty.name().to_ascii_lowercase())
            .collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        for id in 0..43 {
            assert!(
                TensorType::from_id(id).is_some() != TensorType::removed(id).is_some(),
                "id {id}"
            );
        }
        assert_eq!(TensorType::from_id(u32::MAX), None);
    }

    #[test]
    fn what_multiplies_has_activations() {
        for ty in TensorType::all() {
            let dot = ty.0.codec.as_ref().and_then(|codec| codec.dot);
            assert_eq!(dot.is_some(), ty.activation().is_some(), "{ty}");
        }
    }

    #[test]
    fn names_are_found_in_any_case() {
        for ty in TensorType::all() {
            assert_eq!(TensorType::from_name(&ty.name().to_uppercase()), Some(ty));
            assert_eq!(TensorType::from_id(ty.id()), Some(ty));
        }
        assert_eq!(format!("{:>6}", crate::Q4_K), "  q4_K");
    }
}
