//! Files by their address, on any server.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cache::lock;
use crate::download::Transfer;
use crate::error::HubError;
use crate::http::{Client, Reply, origin, shown};
use crate::listing::Digest;
use crate::name::{ModelName, is_hex, is_safe_path};
use crate::plan::{Plan, Request, Wanted, check_space};
use crate::settings::Settings;
use crate::{Report, Result};

/// A file by its address.
#[derive(Clone, Debug)]
pub struct UrlRequest {
    /// The address.
    pub url: String,
    /// Where to put it; without a place, the cache of the settings.
    pub output: Option<PathBuf>,
}

/// What a server says of a file.
struct Found {
    bytes: u64,
    /// Tells this version of the file from others.
    etag: String,
}

/// Fetches a file by its address, with the other files of its set, unless it is here already. An address of the hub's own is
/// treated as the file of its repository.
///
/// # Errors
/// What the server, the network or the disk says.
pub fn fetch_url(settings: &Settings, request: &UrlRequest, report: Report<'_>) -> Result<PathBuf> {
    let url = &*request.url;
    if let Some(output) = request.output.as_deref().filter(|output| output.exists()) {
        return Ok(output.to_owned());
    }
    if let (None, Some(request)) = (&request.output, on_hub(settings, url)) {
        return Ok(Plan::new(settings, &request, report)?.fetch(report)?.path);
    }
    let name = shown(url).rsplit('/').next().unwrap_or_default();
    if !is_safe_path(name) || shown(url).matches('/').count() < 3 {
        return Err(HubError::BadUrl {
            url: shown(url).to_owned(),
            reason: "it does not end with the name of a file",
        });
    }
    let cached = || settings.url_cache.join(name);
    let target = request.output.clone().unwrap_or_else(cached);
    fetch_one(settings, url, &target, report).map_err(of_server)?;
    for (url, target) in further_shards(url, name, &target) {
        fetch_one(settings, &url, &target, report).map_err(of_server)?;
    }
    Ok(target)
}

/// What a server that is no hub means by its answer.
fn of_server(error: HubError) -> HubError {
    match error {
        HubError::NotFound { what, .. } => HubError::NoSuchAddress { url: what },
        HubError::Unauthorized { repo, with_token } => HubError::Refused {
            url: repo,
            with_token,
        },
        HubError::Forbidden {
            repo, with_token, ..
        } => HubError::Refused {
            url: repo,
            with_token,
        },
        error => error,
    }
}

/// An address of the hub as a request for a file of a repository.
fn on_hub(settings: &Settings, url: &str) -> Option<Request> {
    let rest = shown(url).strip_prefix(&*settings.endpoint)?;
    let parts: Vec<&str> = rest.strip_prefix('/')?.splitn(5, '/').collect();
    let [user, repo, "resolve" | "blob", revision, file] = parts[..] else {
        return None;
    };
    // Escaped names are left to the server.
    let is_plain = !file.contains('%');
    is_plain.then_some(Request {
        name: format!("{user}/{repo}").parse::<ModelName>().ok()?,
        revision: revision.to_owned(),
        wanted: Wanted::File(file.to_owned()),
        or_cached: true,
    })
}

/// The other files of the set that the first one belongs to, with their addresses.
fn further_shards(url: &str, name: &str, target: &Path) -> Vec<(String, PathBuf)> {
    const FIRST: &str = "-00001-of-";
    let count = name
        .split_once(FIRST)
        .and_then(|(_, rest)| rest.strip_suffix(".gguf"));
    let count = count.filter(|count| count.len() == 5 && count.bytes().all(|b| b.is_ascii_digit()));
    let n_files = count.and_then(|count| count.parse().ok()).unwrap_or(1);
    let at = shown(url).len() - name.len();
    let shard = |number: u32| {
        let other = name.replacen(FIRST, &format!("-{number:05}-of-"), 1);
        let address = format!("{}{other}{}", &url[..at], &url[shown(url).len()..]);
        (address, target.with_file_name(other))
    };
    (2..=n_files).map(shard).collect()
}

fn fetch_one(settings: &Settings, url: &str, target: &Path, report: Report<'_>) -> Result<()> {
    let name = target
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if settings.offline {
        return match target.exists() {
            true => Ok(()),
            false => Err(HubError::Offline {
                name: shown(url).to_owned(),
            }),
        };
    }
    // The version is noted beside the file, as llama.cpp does.
    let note = target.with_file_name(format!("{name}.etag"));
    let lock_path = settings
        .url_cache
        .join(".locks")
        .join(format!("{name}.lock"));
    let client = Client::new(settings)?;
    let found = match probe(&client, url, &name, report) {
        Ok(found) => found,
        Err(error) if error.is_unreachable() && target.exists() => {
            report(crate::Event::Warning(format!(
                "{error}; {} is taken, whether there is a newer one or not",
                target.display()
            )));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let _lock = lock(&lock_path, &name, report)?;
    let is_same = fs::metadata(target).is_ok_and(|about| about.len() == found.bytes)
        && fs::read_to_string(&note).unwrap_or_default().trim() == found.etag;
    if is_same {
        return Ok(());
    }
    check_space(target.parent().unwrap_or(target), found.bytes)?;
    let digest = Some(found.etag.trim_matches('"')).filter(|etag| is_hex(etag, 64));
    let digest = digest.map(|hex| Digest::Sha256(hex.to_ascii_lowercase()));
    let transfer = Transfer {
        client: &client,
        settings,
        url,
        name: &name,
        bytes: found.bytes,
        digest: digest.as_ref(),
        identity: &found.etag,
        report,
    };
    transfer.run(target)?;
    fs::write(&note, &found.etag).map_err(HubError::io(&note, "write"))
}

/// Asks for one byte of a file.
fn probe(client: &Client, url: &str, name: &str, report: Report<'_>) -> Result<Found> {
    origin(url)?;
    let mut n_failures = 0;
    let reply: Reply = loop {
        match client.get(url, Some(0..1)) {
            Ok(reply) => break reply,
            Err(error) => client.pause_after(error, &mut n_failures, report)?,
        }
    };
    let bytes = match reply.is_partial() {
        true => reply.range().and_then(|(_, whole)| whole),
        false => reply.length(),
    };
    let etag = reply.header("etag").unwrap_or_default();
    Ok(Found {
        bytes: bytes.ok_or_else(|| HubError::WrongRange {
            file: name.to_owned(),
        })?,
        etag: etag.chars().filter(|c| !c.is_control()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_have_addresses_beside_the_first() {
        let url = "https://h/a/m-00001-of-00003.gguf?k=v";
        let shards = further_shards(
            url,
            "m-00001-of-00003.gguf",
            Path::new("/c/m-00001-of-00003.gguf"),
        );
        assert_eq!(shards.len(), 2);
        assert_eq!(shards[1].0, "https://h/a/m-00003-of-00003.gguf?k=v");
        assert_eq!(shards[1].1, Path::new("/c/m-00003-of-00003.gguf"));
        assert!(further_shards("https://h/m.gguf", "m.gguf", Path::new("/c/m.gguf")).is_empty());
    }
}
