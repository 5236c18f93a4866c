//! A session as bytes: its tokens and what was computed of them, tied to the model, the cache types and the layout of the cache.
//!
//! ```text
//! 0        8         12      44        76      80      84          92         100
//! | magic  | version | model | layout  | k     | v     | n_tokens  | n_state  | tokens, state, SHA-256 of all before |
//!   bytes    u32       32 B    32 B      u32     u32     u64         u64        u32 each, bytes, 32 B
//! ```
//!
//! Numbers are little-endian. `model` is a hash of the file's header and of samples of every tensor, and of its adapters, `layout` one of pages, arithmetic,
//! windows and rotations, `k` and `v` are the numbers of the cache types. The lengths are compared with what the context can hold before
//! anything is reserved.

use std::io::{self, Read, Write};

use gristmill_gguf as gguf;
use gristmill_quant::TensorType;
use sha2::{Digest, Sha256};

use crate::cache::PAGE_LEN;
use crate::error::EngineError;
use crate::model::Model;
use crate::session::Session;

const MAGIC: [u8; 8] = *b"gristses";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 100;
/// How the session files of llama.cpp begin: of a whole context, and of one sequence.
const FOREIGN: [[u8; 4]; 2] = [*b"nsgg", *b"qsgg"];
/// Bytes of each sample of a tensor.
const SAMPLE_BYTES: usize = 4096;

type Hash = [u8; 32];

/// Why a saved session cannot be loaded or saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SavedSessionError {
    /// Reading failed.
    #[error("cannot read the saved session")]
    Read(#[source] io::Error),
    /// Writing failed.
    #[error("cannot write the session")]
    Write(#[source] io::Error),
    /// Another kind of file.
    #[error("is no saved session")]
    Foreign,
    /// A session file of llama.cpp.
    #[error("is a session file of llama.cpp")]
    LlamaCpp,
    /// A version of another program.
    #[error(
        "is a saved session of version {found}, but only version {} is known",
        VERSION
    )]
    Version {
        /// The file's.
        found: u32,
    },
    /// The file ends early.
    #[error("the saved session ends early")]
    Cut,
    /// The bytes are not those that were written.
    #[error("the saved session is damaged: {what}")]
    Damaged {
        /// What is wrong.
        what: &'static str,
    },
    /// It belongs to another model.
    #[error("the saved session was made with another model, or with other adapters")]
    OtherModel,
    /// It belongs to a cache of other types.
    #[error("the saved session has a cache of {saved}, but this one is of {here}")]
    OtherTypes {
        /// Types of keys and values.
        saved: String,
        /// Those of this context.
        here: String,
    },
    /// It belongs to a cache of other windows, pages or rotations, or was computed in another arithmetic.
    #[error("the saved session has another layout of its cache")]
    OtherLayout,
    /// It is longer than the context.
    #[error("the saved session has {n_tokens} tokens, but the context holds {n_ctx}")]
    TooLong {
        /// Its tokens.
        n_tokens: u64,
        /// Positions of the context.
        n_ctx: usize,
    },
}

impl SavedSessionError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let anew = "give another name, or remove the file: it is then written anew";
        match self {
            SavedSessionError::Read(_) | SavedSessionError::Write(_) => None,
            SavedSessionError::Foreign
            | SavedSessionError::LlamaCpp
            | SavedSessionError::OtherModel => Some(anew.into()),
            SavedSessionError::Version { .. } => {
                Some("update gristmill, or give another name".into())
            }
            SavedSessionError::Cut | SavedSessionError::Damaged { .. } => {
                Some("remove the file: it is then written anew".into())
            }
            SavedSessionError::OtherTypes { .. } => {
                Some("give these types with -ctk and -ctv, or another name".into())
            }
            SavedSessionError::OtherLayout => Some(
                "give --swa-full, --arithmetic, the context length and flags of rotation (--rope-…, --yarn-…) as they were, or another name"
                    .into(),
            ),
            SavedSessionError::TooLong { .. } => {
                Some("give a longer context with -c, or another name".into())
            }
        }
    }
}

/// What ties a session to where it can be used.
struct Ties {
    model: Hash,
    layout: Hash,
    types: [TensorType; 2],
}

impl Session {
    /// Writes the session to be loaded again by [`Session::load`].
    ///
    /// Errors: those of the writer; a failing backend.
    pub fn save(&self, out: &mut dyn Write) -> Result<(), EngineError> {
        let state = self.context().past().save(self.sequence())?;
        let ties = self.ties()?;
        let mut head = Vec::with_capacity(HEAD_BYTES + 4 * self.tokens().len());
        head.extend(MAGIC);
        head.extend(VERSION.to_le_bytes());
        head.extend(ties.model);
        head.extend(ties.layout);
        head.extend(ties.types.iter().flat_map(|ty| ty.id().to_le_bytes()));
        head.extend((self.tokens().len() as u64).to_le_bytes());
        head.extend((state.len() as u64).to_le_bytes());
        head.extend(self.tokens().iter().flat_map(|id| id.to_le_bytes()));
        let mut hasher = Sha256::new();
        for bytes in [&head, &state] {
            hasher.update(bytes);
            out.write_all(bytes).map_err(SavedSessionError::Write)?;
        }
        let hash: Hash = hasher.finalize().into();
        out.write_all(&hash).map_err(SavedSessionError::Write)?;
        Ok(())
    }

    /// Replaces the session by a saved one and returns the number of its tokens. What cannot be loaded leaves the session as it is.
    ///
    /// Errors: [`EngineError::SavedSession`]; a failing backend.
    pub fn load(&mut self, from: &mut dyn Read) -> Result<usize, EngineError> {
        let mut reader = Reader {
            from,
            hasher: Sha256::new(),
        };
        let (tokens, state) = self.read(&mut reader)?;
        self.replace(tokens, &state)
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<(Vec<u32>, Vec<u8>), EngineError> {
        let magic: [u8; 8] = reader.array().map_err(foreign_if_cut)?;
        if FOREIGN.iter().any(|foreign| magic.starts_with(foreign)) {
            return Err(SavedSessionError::LlamaCpp.into());
        }
        if magic != MAGIC {
            return Err(SavedSessionError::Foreign.into());
        }
        let found = u32::from_le_bytes(reader.array()?);
        if found != VERSION {
            return Err(SavedSessionError::Version { found }.into());
        }
        let (model, layout): (Hash, Hash) = (reader.array()?, reader.array()?);
        let types = [reader.array()?, reader.array()?].map(u32::from_le_bytes);
        let n_tokens = u64::from_le_bytes(reader.array()?);
        let n_state = u64::from_le_bytes(reader.array()?);
        let ties = self.ties()?;
        if model != ties.model {
            return Err(SavedSessionError::OtherModel.into());
        }
        if types != ties.types.map(TensorType::id) {
            let name = |id| TensorType::from_id(id).map_or("unknown", TensorType::name);
            return Err(SavedSessionError::OtherTypes {
                saved: types.map(name).join("/"),
                here: ties.types.map(TensorType::name).join("/"),
            }
            .into());
        }
        if layout != ties.layout {
            return Err(SavedSessionError::OtherLayout.into());
        }
        let n_ctx = self.context().n_ctx();
        if n_tokens > n_ctx as u64 {
            return Err(SavedSessionError::TooLong { n_tokens, n_ctx }.into());
        }
        // Eight bytes beside the pages are the number of positions.
        if n_state > self.context().cache_bytes().saturating_add(8) {
            let what = "its state is larger than the cache";
            return Err(SavedSessionError::Damaged { what }.into());
        }
        let tokens = reader.bytes(4 * n_tokens)?;
        let tokens = tokens.as_chunks().0.iter().copied().map(u32::from_le_bytes);
        let tokens: Vec<u32> = tokens.collect();
        let state = reader.bytes(n_state)?;
        reader.check_end()?;
        let n_vocab = self.context().model().n_vocab();
        let is_ours = tokens.iter().all(|&id| (id as usize) < n_vocab)
            && state.first_chunk() == Some(&(tokens.len() as u64).to_le_bytes());
        match is_ours {
            true => Ok((tokens, state)),
            false => {
                let what = "its tokens and its state do not belong together";
                Err(SavedSessionError::Damaged { what }.into())
            }
        }
    }

    fn ties(&self) -> Result<Ties, EngineError> {
        let context = self.context();
        let types = context.cache_types();
        let mut layout = Sha256::new();
        layout.update((PAGE_LEN as u64).to_le_bytes());
        // Another arithmetic rounds otherwise, so that answers would be of neither.
        layout.update(context.model().backend_name().as_bytes());
        for window in context.cache_windows() {
            layout.update(window.map_or(0, |window| window as u64).to_le_bytes());
        }
        let rotations = context.model().rotations(context.n_ctx())?;
        for rotation in rotations.into_iter().flatten().flatten() {
            layout.update(rotation.magnitude.to_le_bytes());
            for frequency in rotation.frequencies {
                layout.update(frequency.to_le_bytes());
            }
        }
        let mut model = context.model().fingerprint();
        if let Some(adapters) = context.adapters(self.sequence()) {
            // What was computed with adapters is nothing to those who have others.
            let mut hasher = Sha256::new();
            hasher.update(model);
            adapters.identify(&mut |bytes| hasher.update(bytes));
            model = hasher.finalize().into();
        }
        Ok(Ties {
            model,
            layout: layout.finalize().into(),
            types: [types.k, types.v],
        })
    }
}

impl Model {
    /// A hash that tells this model from others: of the headers of its files, and of the beginning, the middle and the end of each
    /// tensor. So it takes no longer for a large model than for a small one.
    pub fn fingerprint(&self) -> [u8; 32] {
        fingerprint(self.file())
    }
}

/// The hash that tells a file from others.
pub(crate) fn fingerprint(file: &gguf::Model) -> Hash {
    let mut hasher = Sha256::new();
    for (index, shard) in file.shards().iter().enumerate() {
        if let Some(region) = file.region(index) {
            let bytes: &[u8] = (*region).as_ref();
            let end = usize::try_from(shard.data_offset()).unwrap_or(usize::MAX);
            hasher.update(&bytes[..end.min(bytes.len())]);
        }
    }
    for view in file.views() {
        let len = view.data.len();
        let last = len.saturating_sub(SAMPLE_BYTES);
        for start in [0, last / 2, last] {
            hasher.update(&view.data[start..len.min(start + SAMPLE_BYTES)]);
        }
    }
    hasher.finalize().into()
}

/// Reads and hashes.
struct Reader<'a> {
    from: &'a mut dyn Read,
    hasher: Sha256,
}

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], SavedSessionError> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes).map_err(cut)?;
        self.hasher.update(bytes);
        Ok(bytes)
    }

    /// So many bytes, as many of which are reserved as come.
    fn bytes(&mut self, n: u64) -> Result<Vec<u8>, SavedSessionError> {
        let mut bytes = Vec::new();
        let read = Read::take(&mut *self.from, n).read_to_end(&mut bytes);
        read.map_err(SavedSessionError::Read)?;
        if (bytes.len() as u64) < n {
            return Err(SavedSessionError::Cut);
        }
        self.hasher.update(&bytes);
        Ok(bytes)
    }

    /// What is left is the hash of all before.
    fn check_end(&mut self) -> Result<(), SavedSessionError> {
        let expected: Hash = self.hasher.clone().finalize().into();
        let found: Hash = self.array()?;
        let mut more = [0];
        let what = if found != expected {
            "its hash differs"
        } else if self.from.read(&mut more).map_err(SavedSessionError::Read)? > 0 {
            "there are bytes behind its end"
        } else {
            return Ok(());
        };
        Err(SavedSessionError::Damaged { what })
    }
}

fn cut(error: io::Error) -> SavedSessionError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => SavedSessionError::Cut,
        _ => SavedSessionError::Read(error),
    }
}

/// A file that ends within the magic is no session at all.
fn foreign_if_cut(error: SavedSessionError) -> SavedSessionError {
    match error {
        SavedSessionError::Cut => SavedSessionError::Foreign,
        error => error,
    }
}
