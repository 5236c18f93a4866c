//! Files built by hand, so that any field can be wrong.

use std::path::Path;

use gristmill_gguf::{Error, File};

pub const F32: u32 = 0;
pub const Q4_0: u32 = 2;
pub const Q8_0: u32 = 8;
pub const Q4_K: u32 = 12;

/// A file in the making. The counts of the header follow what was added, unless they are set.
#[derive(Clone)]
pub struct Bytes {
    pub big: bool,
    pub version: u32,
    pub n_tensors: Option<u64>,
    pub n_entries: Option<u64>,
    pub alignment: usize,
    pub entries: Vec<Vec<u8>>,
    pub tensors: Vec<Vec<u8>>,
    pub data: Vec<u8>,
}

impl Bytes {
    pub fn new() -> Bytes {
        let (n_tensors, n_entries) = (None, None);
        let (entries, tensors, data) = (Vec::new(), Vec::new(), Vec::new());
        Bytes {
            big: false,
            version: 3,
            n_tensors,
            n_entries,
            alignment: 32,
            entries,
            tensors,
            data,
        }
    }

    pub fn big() -> Bytes {
        Bytes {
            big: true,
            ..Bytes::new()
        }
    }

    /// A bare header with these counts.
    pub fn counts(n_tensors: Option<u64>, n_entries: Option<u64>) -> Vec<u8> {
        Bytes {
            n_tensors,
            n_entries,
            ..Bytes::new()
        }
        .build()
    }

    pub fn u16(&self, value: u16) -> Vec<u8> {
        if self.big {
            value.to_be_bytes().into()
        } else {
            value.to_le_bytes().into()
        }
    }

    pub fn u32(&self, value: u32) -> Vec<u8> {
        if self.big {
            value.to_be_bytes().into()
        } else {
            value.to_le_bytes().into()
        }
    }

    pub fn u64(&self, value: u64) -> Vec<u8> {
        if self.big {
            value.to_be_bytes().into()
        } else {
            value.to_le_bytes().into()
        }
    }

    pub fn string(&self, bytes: &[u8]) -> Vec<u8> {
        [self.u64(bytes.len() as u64), bytes.to_vec()].concat()
    }

    /// An entry as raw bytes after its key: type and value.
    pub fn entry(mut self, key: &str, ty: u32, value: &[u8]) -> Bytes {
        self.entries
            .push([self.string(key.as_bytes()), self.u32(ty), value.to_vec()].concat());
        self
    }

    pub fn raw_entry(mut self, bytes: Vec<u8>) -> Bytes {
        self.entries.push(bytes);
        self
    }

    pub fn entry_u32(self, key: &str, value: u32) -> Bytes {
        let value = self.u32(value);
        self.entry(key, 4, &value)
    }

    pub fn entry_u16(self, key: &str, value: u16) -> Bytes {
        let value = self.u16(value);
        self.entry(key, 2, &value)
    }

    pub fn entry_string(self, key: &str, value: &[u8]) -> Bytes {
        let value = self.string(value);
        self.entry(key, 8, &value)
    }

    /// An array entry; `items` are the encoded elements.
    pub fn entry_array(self, key: &str, element: u32, count: u64, items: &[u8]) -> Bytes {
        let value = [self.u32(element), self.u64(count), items.to_vec()].concat();
        self.entry(key, 9, &value)
    }

    pub fn tensor(mut self, name: &str, dims: &[u64], ty: u32, offset: u64) -> Bytes {
        let dims_bytes = dims.iter().flat_map(|&dim| self.u64(dim)).collect();
        let parts = [
            self.string(name.as_bytes()),
            self.u32(dims.len() as u32),
            dims_bytes,
            self.u32(ty),
            self.u64(offset),
        ];
        self.tensors.push(parts.concat());
        self
    }

    pub fn raw_tensor(mut self, bytes: Vec<u8>) -> Bytes {
        self.tensors.push(bytes);
        self
    }

    /// The data section, after the padding.
    pub fn data(mut self, data: &[u8]) -> Bytes {
        self.data = data.to_vec();
        self
    }

    /// Everything up to the end of the directory.
    pub fn head(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.u32(self.version));
        out.extend(self.u64(self.n_tensors.unwrap_or(self.tensors.len() as u64)));
        out.extend(self.u64(self.n_entries.unwrap_or(self.entries.len() as u64)));
        out.extend(self.entries.concat());
        out.extend(self.tensors.concat());
        out
    }

    pub fn build(&self) -> Vec<u8> {
        let mut out = self.head();
        if !self.data.is_empty() {
            out.resize(out.len().next_multiple_of(self.alignment), 0);
            out.extend(&self.data);
        }
        out
    }

    pub fn open(&self) -> Result<File, Error> {
        open(&self.build())
    }

    /// The error's message, which must be there.
    pub fn error(&self) -> String {
        error(&self.build())
    }
}

pub fn open(bytes: &[u8]) -> Result<File, Error> {
    File::from_bytes(bytes, Path::new("test.gguf"))
}

pub fn error(bytes: &[u8]) -> String {
    open(bytes)
        .expect_err("this file must be refused")
        .to_string()
}

/// A good file with every kind of value, two tensors, and 128 bytes of data.
pub fn sample() -> Bytes {
    let mut file = Bytes::new()
        .entry_string("general.architecture", b"llama")
        .entry("a.u8", 0, &[200])
        .entry("a.i8", 1, &[0x80])
        .entry("a.u16", 2, &[1, 2])
        .entry("a.i16", 3, &[0xff, 0xff])
        .entry_u32("a.u32", 7)
        .entry("a.i32", 5, &(-7i32).to_le_bytes())
        .entry("a.f32", 6, &1.5f32.to_le_bytes())
        .entry("a.bool", 7, &[1])
        .entry("a.u64", 10, &u64::MAX.to_le_bytes())
        .entry("a.i64", 11, &i64::MIN.to_le_bytes())
        .entry("a.f64", 12, &(-0.25f64).to_le_bytes())
        .entry_array("b.u8", 0, 3, &[1, 2, 3])
        .entry_array("b.i8", 1, 2, &[0xfe, 2])
        .entry_array("b.u16", 2, 2, &[1, 0, 2, 0])
        .entry_array("b.i16", 3, 1, &[0xff, 0xff])
        .entry_array("b.u32", 4, 1, &9u32.to_le_bytes())
        .entry_array("b.i32", 5, 1, &(-9i32).to_le_bytes())
        .entry_array("b.f32", 6, 1, &0.5f32.to_le_bytes())
        .entry_array("b.bool", 7, 3, &[1, 0, 1])
        .entry_array("b.u64", 10, 1, &(1u64 << 40).to_le_bytes())
        .entry_array("b.i64", 11, 1, &(-1i64).to_le_bytes())
        .entry_array("b.f64", 12, 1, &2.0f64.to_le_bytes())
        .entry_array("b.none", 8, 0, &[]);
    let strings = [
        file.string(b"one"),
        file.string(b""),
        file.string("\u{2581}two".as_bytes()),
    ]
    .concat();
    file = file.entry_array("b.string", 8, 3, &strings);
    let data: Vec<u8> = (0..128).collect();
    file.tensor("one", &[8, 2], F32, 0)
        .tensor("two", &[32], Q8_0, 64)
        .data(&data)
}
