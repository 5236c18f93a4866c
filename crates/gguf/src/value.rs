//! The thirteen kinds of metadata value, and the packed storage of arrays.

use std::borrow::Cow;
use std::fmt;

/// The kind of a metadata value. The discriminant is the number in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ValueType {
    /// Unsigned, 8 bits.
    U8 = 0,
    /// Signed, 8 bits.
    I8 = 1,
    /// Unsigned, 16 bits.
    U16 = 2,
    /// Signed, 16 bits.
    I16 = 3,
    /// Unsigned, 32 bits.
    U32 = 4,
    /// Signed, 32 bits.
    I32 = 5,
    /// IEEE 754 single precision.
    F32 = 6,
    /// One byte, 0 or 1.
    Bool = 7,
    /// A u64 length and that many bytes, no terminator.
    String = 8,
    /// An element type, a u64 count and that many elements.
    Array = 9,
    /// Unsigned, 64 bits.
    U64 = 10,
    /// Signed, 64 bits.
    I64 = 11,
    /// IEEE 754 double precision.
    F64 = 12,
}

impl ValueType {
    /// All kinds in the order of their numbers.
    pub const ALL: [ValueType; 13] = [
        ValueType::U8,
        ValueType::I8,
        ValueType::U16,
        ValueType::I16,
        ValueType::U32,
        ValueType::I32,
        ValueType::F32,
        ValueType::Bool,
        ValueType::String,
        ValueType::Array,
        ValueType::U64,
        ValueType::I64,
        ValueType::F64,
    ];

    /// The kind with this number in the file.
    pub fn from_id(id: u32) -> Option<ValueType> {
        ValueType::ALL.get(id as usize).copied()
    }

    /// The number in the file.
    pub fn id(self) -> u32 {
        self as u32
    }

    /// The name used in messages and dumps, as the format's specification spells it.
    pub fn name(self) -> &'static str {
        match self {
            ValueType::U8 => "UINT8",
            ValueType::I8 => "INT8",
            ValueType::U16 => "UINT16",
            ValueType::I16 => "INT16",
            ValueType::U32 => "UINT32",
            ValueType::I32 => "INT32",
            ValueType::F32 => "FLOAT32",
            ValueType::Bool => "BOOL",
            ValueType::String => "STRING",
            ValueType::Array => "ARRAY",
            ValueType::U64 => "UINT64",
            ValueType::I64 => "INT64",
            ValueType::F64 => "FLOAT64",
        }
    }

    /// The fewest bytes that a value of this kind takes in a file.
    pub(crate) fn min_bytes(self) -> u64 {
        match self {
            ValueType::U8 | ValueType::I8 | ValueType::Bool => 1,
            ValueType::U16 | ValueType::I16 => 2,
            ValueType::U32 | ValueType::I32 | ValueType::F32 => 4,
            ValueType::String | ValueType::U64 | ValueType::I64 | ValueType::F64 => 8,
            ValueType::Array => 12,
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A string exactly as the file holds it: the bytes may be invalid UTF-8, and are kept.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text(Vec<u8>);

impl Text {
    /// A text of these bytes.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Text {
        Text(bytes.into())
    }

    /// The bytes as stored.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, if it is valid UTF-8.
    pub fn to_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The text for showing: each invalid sequence becomes U+FFFD.
    pub fn to_str_lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// The text for dumps: invalid bytes appear as `\xNN`, so that nothing is lost from view.
    pub fn to_str_escaped(&self) -> Cow<'_, str> {
        escape_invalid(&self.0)
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives up the bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Shows bytes as text, with every byte that is not part of valid UTF-8 written as `\xNN`.
pub fn escape_invalid(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    Cow::Owned(out)
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_str_escaped())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_str_escaped())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text(text.as_bytes().to_vec())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text(text.into_bytes())
    }
}

/// Many strings in two allocations: the bytes of all, and where each one ends.
///
/// Vocabularies hold hundreds of thousands of strings of a few bytes, so an allocation each would
/// dominate the time to open a file.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StringArray {
    bytes: Vec<u8>,
    /// `ends[i]` is where string `i` ends in `bytes`; never decreasing, last one is `bytes.len()`.
    ends: Vec<usize>,
}

impl StringArray {
    /// An array without strings.
    pub fn new() -> StringArray {
        StringArray::default()
    }

    /// An empty array with room for `n_strings` strings of `n_bytes` bytes together.
    pub fn with_capacity(n_strings: usize, n_bytes: usize) -> StringArray {
        StringArray {
            bytes: Vec::with_capacity(n_bytes),
            ends: Vec::with_capacity(n_strings),
        }
    }

    /// Adds a string at the end.
    pub fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
    }

    /// The number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes of string `index`, if there is one.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        Some(&self.bytes[start..end])
    }

    /// The strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + '_ {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let string = &self.bytes[start..end];
            start = end;
            string
        })
    }

    /// The length of all strings together, in bytes.
    pub fn n_bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl<S: AsRef<[u8]>> FromIterator<S> for StringArray {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> StringArray {
        let mut array = StringArray::new();
        for string in strings {
            array.push(string.as_ref());
        }
        array
    }
}

impl fmt::Debug for StringArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.iter().map(escape_invalid))
            .finish()
    }
}

/// An array of values of one kind. Arrays of arrays do not exist here: no writer makes them, and
/// the reference refuses them.
#[derive(Clone, Debug, PartialEq)]
pub enum Array {
    /// Elements of type [`ValueType::U8`].
    U8(Vec<u8>),
    /// Elements of type [`ValueType::I8`].
    I8(Vec<i8>),
    /// Elements of type [`ValueType::U16`].
    U16(Vec<u16>),
    /// Elements of type [`ValueType::I16`].
    I16(Vec<i16>),
    /// Elements of type [`ValueType::U32`].
    U32(Vec<u32>),
    /// Elements of type [`ValueType::I32`].
    I32(Vec<i32>),
    /// Elements of type [`ValueType::F32`].
    F32(Vec<f32>),
    /// Elements of type [`ValueType::Bool`].
    Bool(Vec<bool>),
    /// Elements of type [`ValueType::String`].
    String(StringArray),
    /// Elements of type [`ValueType::U64`].
    U64(Vec<u64>),
    /// Elements of type [`ValueType::I64`].
    I64(Vec<i64>),
    /// Elements of type [`ValueType::F64`].
    F64(Vec<f64>),
}

/// Runs one expression on the storage of whichever element type an [`Array`] has.
macro_rules! each_storage {
    ($array:expr, $items:ident => $result:expr) => {
        match $array {
            Array::U8($items) => $result,
            Array::I8($items) => $result,
            Array::U16($items) => $result,
            Array::I16($items) => $result,
            Array::U32($items) => $result,
            Array::I32($items) => $result,
            Array::F32($items) => $result,
            Array::Bool($items) => $result,
            Array::String($items) => $result,
            Array::U64($items) => $result,
            Array::I64($items) => $result,
            Array::F64($items) => $result,
        }
    };
}

impl Array {
    /// The number of elements.
    pub fn len(&self) -> usize {
        each_storage!(self, items => items.len())
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type of every element; an empty array has one too.
    pub fn element_type(&self) -> ValueType {
        match self {
            Array::U8(_) => ValueType::U8,
            Array::I8(_) => ValueType::I8,
            Array::U16(_) => ValueType::U16,
            Array::I16(_) => ValueType::I16,
            Array::U32(_) => ValueType::U32,
            Array::I32(_) => ValueType::I32,
            Array::F32(_) => ValueType::F32,
            Array::Bool(_) => ValueType::Bool,
            Array::String(_) => ValueType::String,
            Array::U64(_) => ValueType::U64,
            Array::I64(_) => ValueType::I64,
            Array::F64(_) => ValueType::F64,
        }
    }

    /// Element `index` as a value of its own.
    pub fn get(&self, index: usize) -> Option<Value> {
        Some(match self {
            Array::U8(items) => Value::U8(*items.get(index)?),
            Array::I8(items) => Value::I8(*items.get(index)?),
            Array::U16(items) => Value::U16(*items.get(index)?),
            Array::I16(items) => Value::I16(*items.get(index)?),
            Array::U32(items) => Value::U32(*items.get(index)?),
            Array::I32(items) => Value::I32(*items.get(index)?),
            Array::F32(items) => Value::F32(*items.get(index)?),
            Array::Bool(items) => Value::Bool(*items.get(index)?),
            Array::String(items) => Value::String(Text::from_bytes(items.get(index)?)),
            Array::U64(items) => Value::U64(*items.get(index)?),
            Array::I64(items) => Value::I64(*items.get(index)?),
            Array::F64(items) => Value::F64(*items.get(index)?),
        })
    }

    /// The elements in order, as values.
    pub fn iter(&self) -> impl Iterator<Item = Value> + '_ {
        (0..self.len()).map_while(|index| self.get(index))
    }

    /// The strings, if this is an array of strings.
    pub fn as_strings(&self) -> Option<&StringArray> {
        match self {
            Array::String(strings) => Some(strings),
            _ => None,
        }
    }

    /// The elements as 128-bit integers, if they are integers of any width.
    pub fn integers(&self) -> Option<impl Iterator<Item = i128> + '_> {
        self.element_type()
            .is_integer()
            .then(|| self.iter().filter_map(|value| value.as_integer()))
    }
}

impl ValueType {
    /// Whether values of this kind are integers, of any width and sign.
    pub fn is_integer(self) -> bool {
        matches!(
            self,
            ValueType::U8
                | ValueType::I8
                | ValueType::U16
                | ValueType::I16
                | ValueType::U32
                | ValueType::I32
                | ValueType::U64
                | ValueType::I64
        )
    }
}

/// A metadata value with its type, as the file has it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// See [`ValueType::U8`].
    U8(u8),
    /// See [`ValueType::I8`].
    I8(i8),
    /// See [`ValueType::U16`].
    U16(u16),
    /// See [`ValueType::I16`].
    I16(i16),
    /// See [`ValueType::U32`].
    U32(u32),
    /// See [`ValueType::I32`].
    I32(i32),
    /// See [`ValueType::F32`].
    F32(f32),
    /// See [`ValueType::Bool`].
    Bool(bool),
    /// See [`ValueType::String`].
    String(Text),
    /// See [`ValueType::Array`].
    Array(Array),
    /// See [`ValueType::U64`].
    U64(u64),
    /// See [`ValueType::I64`].
    I64(i64),
    /// See [`ValueType::F64`].
    F64(f64),
}

impl Value {
    /// The kind of this value.
    pub fn value_type(&self) -> ValueType {
        match self {
            Value::U8(_) => ValueType::U8,
            Value::I8(_) => ValueType::I8,
            Value::U16(_) => ValueType::U16,
            Value::I16(_) => ValueType::I16,
            Value::U32(_) => ValueType::U32,
            Value::I32(_) => ValueType::I32,
            Value::F32(_) => ValueType::F32,
            Value::Bool(_) => ValueType::Bool,
            Value::String(_) => ValueType::String,
            Value::Array(_) => ValueType::Array,
            Value::U64(_) => ValueType::U64,
            Value::I64(_) => ValueType::I64,
            Value::F64(_) => ValueType::F64,
        }
    }

    /// The type for messages: `UINT32`, or `ARRAY of STRING`.
    pub fn type_name(&self) -> String {
        match self {
            Value::Array(array) => format!("ARRAY of {}", array.element_type()),
            other => other.value_type().to_string(),
        }
    }

    /// The value of an integer of any width.
    pub fn as_integer(&self) -> Option<i128> {
        match *self {
            Value::U8(value) => Some(value.into()),
            Value::I8(value) => Some(value.into()),
            Value::U16(value) => Some(value.into()),
            Value::I16(value) => Some(value.into()),
            Value::U32(value) => Some(value.into()),
            Value::I32(value) => Some(value.into()),
            Value::U64(value) => Some(value.into()),
            Value::I64(value) => Some(value.into()),
            _ => None,
        }
    }

    /// The text of a string value.
    pub fn as_text(&self) -> Option<&Text> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The array of an array value.
    pub fn as_array(&self) -> Option<&Array> {
        match self {
            Value::Array(array) => Some(array),
            _ => None,
        }
    }
}

/// Makes a Rust type convertible into the [`Value`] of the same width.
macro_rules! value_from {
    ($($type:ty => $variant:ident),* $(,)?) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Value { Value::$variant(value) }
        }
        impl From<Vec<$type>> for Array {
            fn from(items: Vec<$type>) -> Array { Array::$variant(items) }
        }
        impl From<Vec<$type>> for Value {
            fn from(items: Vec<$type>) -> Value { Value::Array(Array::$variant(items)) }
        }
    )*};
}

value_from!(u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, f32 => F32,
    bool => Bool, u64 => U64, i64 => I64, f64 => F64);

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::String(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::String(text.into())
    }
}

impl From<Text> for Value {
    fn from(text: Text) -> Value {
        Value::String(text)
    }
}

impl From<Array> for Value {
    fn from(array: Array) -> Value {
        Value::Array(array)
    }
}

impl From<StringArray> for Array {
    fn from(strings: StringArray) -> Array {
        Array::String(strings)
    }
}

impl From<StringArray> for Value {
    fn from(strings: StringArray) -> Value {
        Value::Array(Array::String(strings))
    }
}

impl From<Vec<String>> for Array {
    fn from(strings: Vec<String>) -> Array {
        Array::String(strings.iter().collect())
    }
}

impl From<Vec<String>> for Value {
    fn from(strings: Vec<String>) -> Value {
        Value::Array(strings.into())
    }
}
