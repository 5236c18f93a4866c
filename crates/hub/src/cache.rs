//! The cache on the disk, in the layout of Hugging Face's own library: a folder for each repository, with `blobs` named by
//! their hash, `snapshots` of a commit that link to them, and `refs` that say which commit a branch is at.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use hf_hub::{Cache, Repo, RepoType};

use crate::error::HubError;
use crate::listing::{Digest, RemoteFile};
use crate::name::{is_hex, is_revision, is_safe_path};
use crate::{Event, Report, Result, select};

/// Folders below a snapshot that are looked into.
const DEPTH_MAX: usize = 8;

/// What the cache has, or will have, of one repository.
pub(crate) struct RepoCache {
    cache: Cache,
    repo: Repo,
}

/// A model that is on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedModel {
    /// `user/repository`; none of a file that was fetched by its address.
    pub repo: Option<String>,
    /// The branches and tags that are at this commit, else the commit.
    pub revision: Option<String>,
    /// Its quantization, by its name.
    pub quantization: Option<String>,
    /// Its files, the first shard first.
    pub files: Vec<PathBuf>,
    /// Their bytes together.
    pub bytes: u64,
}

impl RepoCache {
    pub fn new(root: &Path, repo: &str, revision: &str) -> Self {
        RepoCache {
            cache: Cache::new(root.to_owned()),
            repo: Repo::with_revision(repo.to_owned(), RepoType::Model, revision.to_owned()),
        }
    }

    fn folder(&self) -> PathBuf {
        self.cache.path().join(self.repo.folder_name())
    }

    /// The folder with the files of a commit.
    pub fn snapshot(&self, commit: &str) -> PathBuf {
        self.cache.repo(self.repo.clone()).pointer_path(commit)
    }

    /// Where the bytes of a file lie.
    pub fn blob(&self, digest: &Digest) -> PathBuf {
        self.cache.repo(self.repo.clone()).blob_path(digest.hex())
    }

    /// The commit that the revision was at when something of it was fetched last.
    pub fn commit(&self) -> Option<String> {
        let revision = self.repo.revision();
        if is_hex(revision, 40) {
            return Some(revision.to_ascii_lowercase());
        }
        let text = fs::read_to_string(self.folder().join("refs").join(revision)).ok()?;
        Some(text.trim().to_owned()).filter(|commit| is_hex(commit, 40))
    }

    /// The files of a commit that are here, by path.
    pub fn files(&self, commit: &str) -> Vec<RemoteFile> {
        let folder = self.snapshot(commit);
        let mut paths = Vec::new();
        walk(&folder, "", DEPTH_MAX, &mut paths);
        let file = |path: String| {
            let bytes = fs::metadata(folder.join(&path)).ok()?.len();
            // Nothing is compared with it: what is here was checked when it came.
            let digest = Digest::GitBlob(String::new());
            Some(RemoteFile {
                path,
                bytes,
                digest,
            })
        };
        paths.into_iter().filter_map(file).collect()
    }

    /// Whether a file of a commit is here, whole.
    pub fn has(&self, commit: &str, file: &RemoteFile) -> bool {
        let whole = |path: &Path| {
            fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() == file.bytes)
        };
        whole(&self.snapshot(commit).join(&file.path)) || whole(&self.blob(&file.digest))
    }

    /// Takes the lock of a blob, which Hugging Face's library takes too; waits for another holder. Where the file system has
    /// no locks there is none.
    pub fn lock(&self, file: &RemoteFile, report: Report<'_>) -> Result<Option<File>> {
        let folder = self
            .cache
            .path()
            .join(".locks")
            .join(self.repo.folder_name());
        let path = folder.join(format!("{}.lock", file.digest.hex()));
        lock(&path, &file.path, report)
    }

    /// Makes a complete blob appear under its name in a commit.
    pub fn link(&self, commit: &str, file: &RemoteFile) -> Result<PathBuf> {
        let path = self.snapshot(commit).join(&file.path);
        let blob = self.blob(&file.digest);
        let is_there = fs::canonicalize(&path).is_ok_and(|found| {
            let same = fs::canonicalize(&blob).is_ok_and(|blob| blob == found);
            // Without links, the blob itself got the name.
            same || !blob.exists()
        });
        if is_there {
            return Ok(path);
        }
        make_parent(&path)?;
        let up = "../".repeat(2 + file.path.matches('/').count());
        let target = format!("{up}blobs/{}", file.digest.hex());
        let temporary = temporary(&path, "link");
        let _ = fs::remove_file(&temporary);
        let made = match symlink(&target, &temporary) {
            Ok(()) => fs::rename(&temporary, &path),
            // A disk without links: then the file has no other name, as in Hugging Face's library.
            Err(_) => fs::rename(&blob, &path),
        };
        made.map_err(HubError::io(&path, "give the file its name"))?;
        Ok(path)
    }

    /// Notes which commit the revision is at.
    pub fn set_commit(&self, commit: &str) -> Result<()> {
        let revision = self.repo.revision();
        if is_hex(revision, 40) {
            return Ok(());
        }
        let path = self.folder().join("refs").join(revision);
        make_parent(&path)?;
        let temporary = temporary(&path, "ref");
        let written = fs::write(&temporary, commit).and_then(|()| fs::rename(&temporary, &path));
        written.map_err(HubError::io(&path, "note the commit"))
    }
}

/// A name beside a file for what will take its place; pulls of one process have names of their own too.
fn temporary(path: &Path, ending: &str) -> PathBuf {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    path.with_file_name(format!(".{}-{number}.{ending}", std::process::id()))
}

/// Makes the folder of a file, with those above it.
pub(crate) fn make_parent(path: &Path) -> Result<()> {
    let Some(folder) = path.parent() else {
        return Ok(());
    };
    fs::create_dir_all(folder).map_err(HubError::io(folder, "make the folder"))
}

/// Takes a lock by its file; waits for another holder.
pub(crate) fn lock(path: &Path, name: &str, report: Report<'_>) -> Result<Option<File>> {
    make_parent(path)?;
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path);
    let file = file.map_err(HubError::io(path, "open the lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            report(Event::Locked { file: name });
            Ok(file.lock().is_ok().then_some(file))
        }
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// The paths of all files below a folder, sorted, with `/` between their parts. Links that lead nowhere are left out.
fn walk(folder: &Path, prefix: &str, depth: usize, paths: &mut Vec<String>) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    for name in names {
        let path = format!("{prefix}{name}");
        match fs::metadata(folder.join(&name)) {
            Ok(about) if about.is_dir() && depth > 0 => {
                walk(&folder.join(&name), &format!("{path}/"), depth - 1, paths);
            }
            Ok(about) if about.is_file() && is_safe_path(&path) => paths.push(path),
            _ => {}
        }
    }
}

impl CachedModel {
    /// All models of the cache, by name, then those that were fetched by their address.
    pub fn all(settings: &crate::Settings) -> Vec<CachedModel> {
        let folders = fs::read_dir(&settings.cache)
            .into_iter()
            .flatten()
            .flatten();
        let mut names: Vec<String> = folders
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.starts_with("models--"))
            .collect();
        names.sort_unstable();
        let mut models: Vec<CachedModel> = names
            .iter()
            .flat_map(|name| of_repo(&settings.cache, name))
            .collect();
        // Where both are one folder, the repositories are folders in it, which this does not enter.
        let mut paths = Vec::new();
        walk(&settings.url_cache, "", 0, &mut paths);
        models.extend(models_of(&settings.url_cache, &paths));
        models
    }
}

/// The models of one repository. Of a file that several commits share, the commit of a branch has it, else the one whose
/// digits come first.
fn of_repo(root: &Path, folder: &str) -> Vec<CachedModel> {
    let name = folder.strip_prefix("models--").unwrap_or(folder);
    let repo = name.replace("--", "/");
    let cache = RepoCache::new(root, &repo, "main");
    let mut refs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut names = Vec::new();
    walk(&cache.folder().join("refs"), "", DEPTH_MAX, &mut names);
    for name in names.into_iter().filter(|name| is_revision(name)) {
        if let Some(commit) = RepoCache::new(root, &repo, &name).commit() {
            refs.entry(commit).or_default().push(name);
        }
    }
    let snapshots = fs::read_dir(cache.folder().join("snapshots"));
    let commits = snapshots.into_iter().flatten().flatten();
    let mut commits: Vec<String> = commits
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_hex(name, 40))
        .collect();
    commits.sort_by_key(|commit| (!refs.contains_key(commit), commit.clone()));
    let mut seen = Vec::new();
    let mut models = Vec::new();
    for commit in commits {
        let snapshot = cache.snapshot(&commit);
        let mut paths = Vec::new();
        walk(&snapshot, "", DEPTH_MAX, &mut paths);
        for model in models_of(&snapshot, &paths) {
            let blob = fs::canonicalize(&model.files[0]).ok();
            if seen.contains(&blob) {
                continue;
            }
            seen.push(blob);
            let names = refs.get(&commit).map(|names| names.join(", "));
            models.push(CachedModel {
                repo: Some(repo.clone()),
                revision: Some(names.unwrap_or_else(|| commit.clone())),
                ..model
            });
        }
    }
    models
}

/// The models among files of a folder; incomplete sets are none.
fn models_of(folder: &Path, paths: &[String]) -> Vec<CachedModel> {
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let model = |path: &&&str| {
        let chosen = select::file("", &paths, path).ok()?;
        let files = chosen.files.iter().map(|&index| folder.join(paths[index]));
        let files: Vec<PathBuf> = files.collect();
        let sizes = files.iter().filter_map(|file| fs::metadata(file).ok());
        Some(CachedModel {
            repo: None,
            revision: None,
            quantization: select::quantization(path),
            bytes: sizes.map(|about| about.len()).sum(),
            files,
        })
    };
    let models = paths.iter().filter(|path| select::is_model(path));
    models.filter_map(|path| model(&path)).collect()
}

#[cfg(unix)]
fn symlink(target: &str, path: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

#[cfg(windows)]
fn symlink(target: &str, path: &Path) -> std::io::Result<()> {
    std::os::windows::fs::symlink_file(target.replace('/', "\\"), path)
}
