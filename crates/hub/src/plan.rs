//! From a name to files: what is to be fetched, known before a byte of it comes, and then the fetching.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use hf_hub::{Repo, RepoType};

use crate::cache::RepoCache;
use crate::download::{Transfer, present_bytes};
use crate::error::HubError;
use crate::http::{Client, transport};
use crate::listing::{Listing, RemoteFile};
use crate::name::{ModelName, encoded, is_revision, is_safe_path};
use crate::select::{self, Selection};
use crate::settings::Settings;
use crate::{Event, Report, Result};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The repository, and the quantization for [`Wanted::Model`].
    pub name: ModelName,
    /// A branch, a tag or a commit.
    pub revision: String,
    /// Which of its files.
    pub wanted: Wanted,
    /// Take what the cache has where the hub cannot be reached.
    pub or_cached: bool,
}

/// Files of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A model in GGUF, with all of its shards.
    Model,
    /// A file by its path; of a set of shards, the whole set.
    File(String),
    /// A checkpoint: what `gristmill convert` reads.
    Checkpoint,
}

/// What a request comes to.
pub struct Plan {
    /// The repository.
    pub repo: String,
    /// The commit that its files are of.
    pub commit: String,
    /// The files.
    pub files: Vec<PlannedFile>,
    /// Projectors that go with the model and are not fetched, since nothing here reads them.
    pub left: Vec<String>,
    settings: Settings,
    cache: RepoCache,
    whole_folder: bool,
    /// Whether all of it comes from the cache, without a word from the hub.
    is_cached: bool,
}

/// A file of a plan.
#[derive(Clone, Debug)]
pub struct PlannedFile {
    /// What the hub says of it.
    pub file: RemoteFile,
    /// Whether it is here already.
    pub is_here: bool,
    /// What an earlier run left of it, in bytes.
    pub present: u64,
}

/// What was asked for, on the disk.
#[derive(Clone, Debug)]
pub struct Pulled {
    /// The files, the first shard first.
    pub files: Vec<PathBuf>,
    /// What to give to other commands: the first file, or the folder of a checkpoint.
    pub path: PathBuf,
}

impl Plan {
    /// Asks the hub (or the cache, where that is all there may be) which files a request means.
    ///
    /// # Errors
    /// What the hub says, and a request that none of its files answers.
    pub fn new(settings: &Settings, request: &Request, report: Report<'_>) -> Result<Plan> {
        if !is_revision(&request.revision) {
            return Err(HubError::BadRevision {
                revision: request.revision.clone(),
            });
        }
        let repo = &request.name.repo;
        let cache = RepoCache::new(&settings.cache, repo, &request.revision);
        let cached =
            || Some(cached_listing(&cache)?).filter(|listing| chosen(listing, request).is_ok());
        let (listing, is_cached) = if settings.offline {
            let name = request.name.to_string();
            // Without anything of the repository that is the message; else what is wrong with the choice.
            let listing = cached_listing(&cache).ok_or(HubError::Offline { name })?;
            (listing, true)
        } else {
            match listing(settings, request, report) {
                Ok(listing) => (listing, false),
                Err(error) if request.or_cached && error.is_unreachable() => match cached() {
                    Some(listing) => {
                        report(Event::Warning(format!(
                            "{error}; what the cache has of {repo} is taken, whether there is a newer one or not"
                        )));
                        (listing, true)
                    }
                    None => return Err(error),
                },
                Err(error) => return Err(error),
            }
        };
        let chosen = chosen(&listing, request)?;
        let planned = |index: &usize| {
            let file = listing.files[*index].clone();
            if !is_safe_path(&file.path) {
                return Err(HubError::UnsafeName {
                    repo: repo.clone(),
                    file: file.path,
                });
            }
            let is_here = is_cached || cache.has(&listing.commit, &file);
            let present = match is_here {
                true => file.bytes,
                false => present_bytes(&cache.blob(&file.digest), file.bytes),
            };
            Ok(PlannedFile {
                file,
                is_here,
                present,
            })
        };
        let files: Result<Vec<PlannedFile>> = chosen.files.iter().map(planned).collect();
        let left = chosen
            .left
            .iter()
            .map(|&index| listing.files[index].path.clone());
        Ok(Plan {
            repo: repo.clone(),
            files: files?,
            left: left.collect(),
            commit: listing.commit,
            settings: settings.clone(),
            cache,
            whole_folder: request.wanted == Wanted::Checkpoint,
            is_cached,
        })
    }

    /// Bytes that are still to come.
    pub fn missing_bytes(&self) -> u64 {
        let missing = |file: &PlannedFile| file.file.bytes - file.present;
        self.files.iter().map(missing).fold(0, u64::saturating_add)
    }

    /// Fetches what is missing, checks it and gives it its place in the cache.
    ///
    /// # Errors
    /// What the server, the network or the disk says.
    pub fn fetch(&self, report: Report<'_>) -> Result<Pulled> {
        let missing = self.missing_bytes();
        check_space(&self.settings.cache, missing)?;
        let mut client = None;
        let mut files = Vec::with_capacity(self.files.len());
        for PlannedFile { file, .. } in &self.files {
            if self.is_cached {
                files.push(self.cache.snapshot(&self.commit).join(&file.path));
                continue;
            }
            if !self.cache.has(&self.commit, file) {
                let client = match &mut client {
                    Some(client) => client,
                    none => none.insert(Client::new(&self.settings)?),
                };
                self.fetch_file(client, file, report)?;
            }
            files.push(self.cache.link(&self.commit, file)?);
        }
        if !self.is_cached {
            self.cache.set_commit(&self.commit)?;
        }
        let path = match (self.whole_folder, files.first()) {
            (false, Some(first)) => first.clone(),
            _ => self.cache.snapshot(&self.commit),
        };
        Ok(Pulled { files, path })
    }

    /// Whether the cache has all of it.
    pub fn is_here(&self) -> bool {
        self.files.iter().all(|file| file.is_here)
    }

    /// The first bytes of one of its files, as the hub sends them: no hash is of a part, and nothing of it is kept.
    ///
    /// # Errors
    /// What the server or the network says.
    pub fn first_bytes(
        &self,
        file: &RemoteFile,
        n_bytes: u64,
        report: Report<'_>,
    ) -> Result<Vec<u8>> {
        let client = Client::new(&self.settings)?;
        let (url, n_bytes) = (self.url(file), n_bytes.min(file.bytes));
        let mut n_failures = 0;
        loop {
            match first_bytes(&client, &url, file, n_bytes) {
                Ok(bytes) => return Ok(bytes),
                Err(error) => client.pause_after(error, &mut n_failures, report)?,
            }
        }
    }

    fn url(&self, file: &RemoteFile) -> String {
        format!(
            "{}/{}/resolve/{}/{}",
            self.settings.endpoint,
            self.repo,
            self.commit,
            encoded(&file.path)
        )
    }

    fn fetch_file(&self, client: &Client, file: &RemoteFile, report: Report<'_>) -> Result<()> {
        let _lock = self.cache.lock(file, report)?;
        if self.cache.has(&self.commit, file) {
            // Another one fetched it meanwhile.
            return Ok(());
        }
        let url = self.url(file);
        let transfer = Transfer {
            client,
            settings: &self.settings,
            url: &url,
            name: &file.path,
            bytes: file.bytes,
            digest: Some(&file.digest),
            identity: file.digest.hex(),
            report,
        };
        transfer.run(&self.cache.blob(&file.digest))
    }
}

/// One request for the beginning of a file. A server without ranges sends all of it, of which no more is read.
fn first_bytes(client: &Client, url: &str, file: &RemoteFile, n_bytes: u64) -> Result<Vec<u8>> {
    let reply = client.get(url, Some(0..n_bytes))?;
    if reply.is_partial() && reply.range().is_none_or(|(first, _)| first != 0) {
        return Err(HubError::WrongRange {
            file: file.path.clone(),
        });
    }
    let url = reply.url.clone();
    let mut bytes = Vec::new();
    reply
        .into_reader()
        .take(n_bytes)
        .read_to_end(&mut bytes)
        .map_err(|error| transport(&url, error.into()))?;
    match n_bytes - bytes.len() as u64 {
        0 => Ok(bytes),
        missing => Err(HubError::Cut {
            file: file.path.clone(),
            missing,
        }),
    }
}

/// What the hub has.
fn listing(settings: &Settings, request: &Request, report: Report<'_>) -> Result<Listing> {
    let (name, revision) = (request.name.repo.clone(), request.revision.clone());
    let repo = Repo::with_revision(name, RepoType::Model, revision);
    let url = format!("{}/api/{}?blobs=true", settings.endpoint, repo.api_url());
    let text = Client::new(settings)?.text(&url, report)?;
    Listing::parse(&request.name.repo, &text)
}

/// What the cache has, where it has anything.
fn cached_listing(cache: &RepoCache) -> Option<Listing> {
    let commit = cache.commit()?;
    let files = cache.files(&commit);
    (!files.is_empty()).then_some(Listing { commit, files })
}

fn chosen(listing: &Listing, request: &Request) -> Result<Selection> {
    let paths: Vec<&str> = listing.files.iter().map(|file| &*file.path).collect();
    let repo = &request.name.repo;
    match &request.wanted {
        Wanted::Model => select::model(repo, &paths, request.name.quantization.as_deref()),
        Wanted::File(file) => select::file(repo, &paths, file),
        Wanted::Checkpoint => select::checkpoint(repo, &paths),
    }
}

/// Refuses what the disk has no room for.
#[cfg(unix)]
pub(crate) fn check_space(folder: &Path, needed: u64) -> Result<()> {
    // The cache may not be there yet. A file system that cannot tell is no reason to refuse.
    let existing = folder.ancestors().find(|folder| folder.exists());
    let Some(about) = existing.and_then(|folder| rustix::fs::statvfs(folder).ok()) else {
        return Ok(());
    };
    let available = about.f_bavail.saturating_mul(about.f_frsize);
    match needed > available && about.f_blocks > 0 {
        true => Err(HubError::NoSpace {
            path: folder.to_owned(),
            needed,
            available,
        }),
        false => Ok(()),
    }
}

#[cfg(not(unix))]
pub(crate) fn check_space(_: &Path, _: u64) -> Result<()> {
    Ok(())
}
