//! What can go wrong between a name and a file on the disk.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Errors of this crate; [`HubError::hint`] gives the remedy where one is known. None holds a token, and addresses stand
/// without their query, which may hold a signature.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// No name of a model on the hub.
    #[error("{name:?} is no name on the hub: {reason}")]
    BadName {
        /// What was given.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A revision that could not be part of an address, or would lead out of the cache.
    #[error("{revision:?} is no revision")]
    BadRevision {
        /// What was given.
        revision: String,
    },
    /// An address that nothing can be fetched from.
    #[error("{url}: {reason}")]
    BadUrl {
        /// The address.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A token with characters that no token has.
    #[error("the token for the hub has characters that no token has")]
    BadToken,
    /// Certificates that were named and cannot be used.
    #[error("{}: no certificates can be read from it", .path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
    },
    /// No folder for the cache is known.
    #[error("there is no folder for the cache: neither HF_HOME nor HOME is set")]
    NoCache,
    /// The hub does not know the repository, or not for this caller.
    #[error("{repo}: the hub has no such repository, or does not show it{}", without_token(*.with_token))]
    Unauthorized {
        /// The repository or address.
        repo: String,
        /// Whether a token was sent.
        with_token: bool,
    },
    /// The repository is closed to this caller.
    #[error("{repo}: the hub refuses access{}{}", without_token(*.with_token), because(.reason))]
    Forbidden {
        /// The repository or address.
        repo: String,
        /// Whether a token was sent.
        with_token: bool,
        /// What the hub says about it.
        reason: String,
    },
    /// Nothing is there.
    #[error("{what}: the hub has no such {kind}")]
    NotFound {
        /// The repository, revision or file.
        what: String,
        /// Which of these it is.
        kind: &'static str,
    },
    /// A server that is no hub has nothing at an address.
    #[error("{url}: the server has nothing there")]
    NoSuchAddress {
        /// The address.
        url: String,
    },
    /// A server that is no hub does not give what is at an address.
    #[error("{url}: the server does not give it{}", without_token(*.with_token))]
    Refused {
        /// The address.
        url: String,
        /// Whether a token was sent.
        with_token: bool,
    },
    /// The hub asks for fewer requests.
    #[error("{url}: the hub asks for fewer requests (status 429)")]
    TooManyRequests {
        /// The address.
        url: String,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
    },
    /// Another status that means failure.
    #[error("{url}: the server answers with status {status}")]
    Status {
        /// The address.
        url: String,
        /// The status.
        status: u16,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
    },
    /// A redirect that is not followed.
    #[error("{url}: {reason}")]
    Redirect {
        /// The address that redirects.
        url: String,
        /// Why it is not followed.
        reason: &'static str,
    },
    /// The network or the server failed.
    #[error("{url}: {source}")]
    Transport {
        /// The address.
        url: String,
        /// What went wrong.
        source: Box<ureq::Error>,
    },
    /// A connection that ended too early, again and again.
    #[error("{file}: the connection was cut, the last time {missing} bytes before the end")]
    Cut {
        /// The file.
        file: String,
        /// Bytes that were still to come.
        missing: u64,
    },
    /// A server that sends a file of another length than the hub states.
    #[error("{file}: the server has {found} bytes of it, the hub states {expected}")]
    WrongLength {
        /// The file.
        file: String,
        /// What the hub states.
        expected: u64,
        /// What the server has.
        found: u64,
    },
    /// A server that sends other bytes of a file than were asked for.
    #[error("{file}: the server sends another range of it than was asked for")]
    WrongRange {
        /// The file.
        file: String,
    },
    /// What came is not what the hub states.
    #[error("{file}: its {kind} is {found}, the hub states {expected}; what came was removed")]
    WrongHash {
        /// The file.
        file: String,
        /// The name of the hash.
        kind: &'static str,
        /// What the hub states.
        expected: String,
        /// What came.
        found: String,
    },
    /// A list of files that cannot be understood.
    #[error("{repo}: the hub's description of it cannot be read: {reason}")]
    Listing {
        /// The repository.
        repo: String,
        /// What is wrong.
        reason: String,
    },
    /// A file whose name would lead out of the folder of its repository.
    #[error("{repo}: it has a file named {file:?}, which is not safe to make here")]
    UnsafeName {
        /// The repository.
        repo: String,
        /// The file.
        file: String,
    },
    /// A repository without the kind of file that was asked for.
    #[error("{repo}: it has no {what}")]
    NothingThere {
        /// The repository.
        repo: String,
        /// What was looked for.
        what: &'static str,
    },
    /// A repository without this quantization.
    #[error("{repo}: it has no GGUF file for {quantization}")]
    NoQuantization {
        /// The repository.
        repo: String,
        /// What was asked for.
        quantization: String,
        /// What there is.
        available: Vec<String>,
    },
    /// A repository without this file.
    #[error("{repo}: it has no file {file}")]
    NoFile {
        /// The repository.
        repo: String,
        /// What was asked for.
        file: String,
        /// The GGUF files that there are.
        available: Vec<String>,
    },
    /// A set of shards of which some are not in the repository.
    #[error("{repo}: {file} is one of {n_files} files, of which the repository has {n_found}")]
    IncompleteSet {
        /// The repository.
        repo: String,
        /// A file that is there.
        file: String,
        /// How many there must be.
        n_files: usize,
        /// How many there are.
        n_found: usize,
    },
    /// Nothing of it is in the cache, and nothing may be fetched.
    #[error("{name}: it is not in the cache, and --offline forbids to fetch it")]
    Offline {
        /// What was asked for.
        name: String,
    },
    /// The disk is too small.
    #[error("{}: {needed} bytes are to be fetched, but the disk has {available} free", .path.display())]
    NoSpace {
        /// The folder.
        path: PathBuf,
        /// Bytes that are needed.
        needed: u64,
        /// Bytes that are free.
        available: u64,
    },
    /// The system refused an operation on a file.
    #[error("{}: cannot {action}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried, as in "cannot {action}".
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

fn without_token(with_token: bool) -> &'static str {
    match with_token {
        true => "",
        false => " without a token",
    }
}

fn because(reason: &str) -> String {
    match reason.is_empty() {
        true => String::new(),
        false => format!(": {reason}"),
    }
}

impl HubError {
    /// An [`HubError::Io`] for this file, as in "cannot {action}".
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> HubError {
        let path = path.to_owned();
        move |source| HubError::Io {
            path,
            action,
            source,
        }
    }

    /// Whether another attempt may do better.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            HubError::Transport { source, .. } => !matches!(
                **source,
                ureq::Error::HostNotFound
                    | ureq::Error::BadUri(_)
                    | ureq::Error::Http(_)
                    | ureq::Error::Tls(_)
                    | ureq::Error::Rustls(_)
                    | ureq::Error::InvalidProxyUrl
            ),
            HubError::TooManyRequests { .. } | HubError::Cut { .. } => true,
            HubError::Status { status, .. } => matches!(status, 408 | 500 | 502..=504),
            _ => false,
        }
    }

    /// Whether the hub could not be reached, so that what is in the cache is the best there is.
    pub(crate) fn is_unreachable(&self) -> bool {
        matches!(self, HubError::Transport { .. }) || self.is_transient()
    }

    /// How long the server asks to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            HubError::TooManyRequests { retry_after, .. }
            | HubError::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// What to do about it, where a remedy is known: one sentence for a `hint:` line.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            HubError::BadName { .. } => {
                "a name is user/repository, with the quantization behind a colon where one is wanted: user/repository:Q4_K_M"
            }
            HubError::BadRevision { .. } => "give a branch, a tag or the 40 digits of a commit",
            HubError::BadUrl { .. } => "give an address that begins with https://",
            HubError::BadToken => {
                "look at --hf-token, HF_TOKEN and the file that the token is kept in"
            }
            HubError::Certificates { .. } => {
                "SSL_CERT_FILE names a file of certificates in PEM form"
            }
            HubError::NoCache => "set HF_HUB_CACHE to the folder that downloads are kept in",
            HubError::Unauthorized { with_token, .. } => match with_token {
                true => "check the name, and whether the token may read the repository",
                false => {
                    "check the name; for a private repository give a token with HF_TOKEN or --hf-token"
                }
            },
            HubError::Forbidden { with_token, .. } => match with_token {
                true => {
                    "ask for access on the repository's page, and give a token that may read it"
                }
                false => {
                    "ask for access on the repository's page, then give a token with HF_TOKEN or --hf-token"
                }
            },
            HubError::NoSuchAddress { .. } => "check the address, in a browser for example",
            HubError::Refused { .. } => "check the address, and whether it asks for a login",
            HubError::NotFound { .. } => "check the name on the repository's page",
            HubError::TooManyRequests { .. } => {
                "wait some minutes; with a token (HF_TOKEN) the hub allows more. The same command goes on from here"
            }
            HubError::Status { .. } | HubError::Cut { .. } | HubError::WrongRange { .. } => {
                "try again later; the same command goes on from here"
            }
            HubError::Transport { .. } => {
                "check the connection (HTTPS_PROXY and HF_ENDPOINT are read); the same command goes on from here, and --offline takes what is in the cache"
            }
            HubError::WrongLength { .. } | HubError::WrongHash { .. } => {
                "give the same command again; if that fails too, the server's copy is damaged or was replaced on the way"
            }
            HubError::UnsafeName { .. } => {
                "choose another file of the repository with --hf-file, or another repository"
            }
            HubError::NothingThere { .. } => {
                "look at the repository's page: --hf-file takes any file of it by name, --checkpoint all that `gristmill convert` reads"
            }
            HubError::NoQuantization { available, .. } => return Some(listed("it has", available)),
            HubError::NoFile { available, .. } => {
                return Some(listed("its GGUF files are", available));
            }
            HubError::Offline { .. } => {
                "leave --offline and HF_HUB_OFFLINE out once, or see `gristmill list`"
            }
            HubError::NoSpace { .. } => {
                "free some space, or set HF_HUB_CACHE to a folder on another disk"
            }
            HubError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free some space, or set HF_HUB_CACHE to a folder on another disk; the same command goes on from here"
            }
            HubError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "set HF_HUB_CACHE to a folder that you may write to"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// Names that could be meant, the first of many.
fn listed(begin: &str, names: &[String]) -> String {
    const N_NAMES: usize = 20;
    let shown: Vec<&str> = names.iter().take(N_NAMES).map(String::as_str).collect();
    match (shown.is_empty(), names.len().saturating_sub(N_NAMES)) {
        (true, _) => "it has no GGUF file at all".to_owned(),
        (false, 0) => format!("{begin} {}", shown.join(", ")),
        (false, more) => format!("{begin} {} and {more} more", shown.join(", ")),
    }
}
