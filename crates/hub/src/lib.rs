//! Models from a hub: what a repository holds, which of its files a name means, downloads that resume and are checked
//! against the hashes that the hub states, and the cache, in the layout that Hugging Face's own library and llama.cpp share.
//!
//! The addresses of a hub and the layout of its cache come from `hf-hub`. Its transfers are not used: they keep a cut
//! file's length only, compare no hash, send the token to whatever host a redirect names, and panic on a reply without the headers that they expect.

mod cache;
mod download;
mod error;
mod http;
mod listing;
mod name;
mod plan;
mod select;
mod settings;
mod url;

pub use cache::CachedModel;
pub use error::HubError;
pub use listing::{Digest, RemoteFile};
pub use name::ModelName;
pub use plan::{Plan, PlannedFile, Pulled, Request, Wanted};
pub use select::quantization;
pub use settings::Settings;
pub use url::{UrlRequest, fetch_url};

/// The result of this crate's functions.
pub(crate) type Result<T, E = HubError> = std::result::Result<T, E>;

/// What happens while files are fetched. Several threads report at once.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The transfer of a file begins.
    Start {
        /// Its path in the repository.
        file: &'a str,
        /// Its size.
        bytes: u64,
        /// What an earlier run left of it.
        present: u64,
    },
    /// So many bytes came; fewer than none where an earlier part has to come again.
    Received {
        /// The bytes.
        bytes: i64,
    },
    /// All bytes of a file are there, and its hash is being worked out.
    Checking {
        /// Its path in the repository.
        file: &'a str,
    },
    /// A file is complete and has its name.
    Done {
        /// Its path in the repository.
        file: &'a str,
    },
    /// Another run, or another program that shares the cache, is fetching the file; its end is waited for.
    Locked {
        /// Its path in the repository.
        file: &'a str,
    },
    /// The hub, or the network, is given some time before the next attempt.
    Waiting {
        /// How long.
        seconds: f64,
        /// What went wrong.
        reason: String,
    },
    /// Something to know that stops nothing.
    Warning(String),
}

/// Takes the events of a run.
pub type Report<'a> = &'a (dyn Fn(Event<'_>) + Sync);
