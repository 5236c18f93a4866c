//! Requests: whom the token is shown to, which redirects are followed, what a status means, and when to try again.

use std::ops::Range;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use ureq::http::{HeaderMap, Response, StatusCode};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

use crate::error::HubError;
use crate::settings::Settings;
use crate::{Event, Report, Result};

const N_REDIRECTS_MAX: usize = 10;
/// Attempts in a row that may fail.
pub(crate) const N_ATTEMPTS: u32 = 5;
/// The longest pause that a server may ask for; longer, and the error says so at once.
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// A server that sends nothing for so long has gone.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The largest description of a repository that is read.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// Makes requests for one caller.
pub(crate) struct Client {
    agent: Agent,
    /// The hub's scheme, host and port.
    origin: String,
    token: Option<String>,
    pause: Duration,
}

/// A reply that is no failure.
pub(crate) struct Reply {
    /// The address that replied.
    pub url: String,
    response: Response<Body>,
}

impl Client {
    pub fn new(settings: &Settings) -> Result<Client> {
        let origin = origin(&settings.endpoint)?;
        let tls = match &settings.certificates {
            Some(path) => TlsConfig::builder().root_certs(read_certificates(path)?),
            None => TlsConfig::builder(),
        };
        let agent = Agent::config_builder()
            .tls_config(tls.build())
            .http_status_as_error(false)
            // Followed here, where the token can be left out for any other origin.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("gristmill/", env!("CARGO_PKG_VERSION")))
            // Ranges count bytes of the file itself.
            .accept_encoding("identity")
            .timeout_connect(Some(Duration::from_secs(30)))
            .timeout_per_read(Some(SILENCE_MAX))
            .build();
        Ok(Client {
            agent: agent.into(),
            origin,
            token: settings.token.clone(),
            pause: settings.pause,
        })
    }

    /// One request, with its redirects.
    ///
    /// # Errors
    /// What the status or the network says.
    pub fn get(&self, url: &str, range: Option<Range<u64>>) -> Result<Reply> {
        let mut url = url.to_owned();
        for _ in 0..N_REDIRECTS_MAX {
            let own = origin(&url)? == self.origin;
            let mut request = self.agent.get(&url);
            if let (true, Some(token)) = (own, &self.token) {
                request = request.header("Authorization", format!("Bearer {token}"));
            }
            if let Some(range) = &range {
                let last = range.end.saturating_sub(1);
                request = request.header("Range", format!("bytes={}-{last}", range.start));
            }
            let response = request.call().map_err(|source| transport(&url, source))?;
            match response.status().as_u16() {
                200 | 206 => return Ok(Reply { url, response }),
                301 | 302 | 303 | 307 | 308 => url = redirected(&url, response.headers())?,
                _ => return Err(self.failure(&url, &response)),
            }
        }
        Err(HubError::Redirect {
            url: shown(&url).to_owned(),
            reason: "it redirects again and again",
        })
    }

    /// A whole text, tried again where that may help.
    pub fn text(&self, url: &str, report: Report<'_>) -> Result<Vec<u8>> {
        let mut n_failures = 0;
        loop {
            let read = |reply: Reply| {
                let mut body = reply.response.into_body();
                let limited = body.with_config().limit(TEXT_BYTES_MAX).read_to_vec();
                limited.map_err(|source| transport(url, source))
            };
            match self.get(url, None).and_then(read) {
                Ok(text) => return Ok(text),
                Err(error) => self.pause_after(error, &mut n_failures, report)?,
            }
        }
    }

    /// Waits before another attempt.
    ///
    /// # Errors
    /// The error itself, where another attempt would not help.
    pub fn pause_after(
        &self,
        error: HubError,
        n_failures: &mut u32,
        report: Report<'_>,
    ) -> Result<()> {
        *n_failures += 1;
        let asked = error.retry_after();
        if !error.is_transient()
            || *n_failures >= N_ATTEMPTS
            || asked.is_some_and(|asked| asked > PAUSE_MAX)
        {
            return Err(error);
        }
        let pause = asked.unwrap_or_else(|| self.pause * 2u32.pow(*n_failures - 1));
        report(Event::Waiting {
            seconds: pause.as_secs_f64(),
            reason: error.to_string(),
        });
        sleep(pause);
        Ok(())
    }

    /// What a status means.
    fn failure(&self, url: &str, response: &Response<Body>) -> HubError {
        let header = |name| header(response.headers(), name).unwrap_or_default();
        let what = || self.named(url);
        let with_token = self.token.is_some();
        let retry_after = retry_after(response.headers());
        match response.status() {
            StatusCode::UNAUTHORIZED if header("x-error-code") != "GatedRepo" => {
                HubError::Unauthorized {
                    repo: what(),
                    with_token,
                }
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => HubError::Forbidden {
                repo: what(),
                with_token,
                reason: header("x-error-message").chars().take(300).collect(),
            },
            StatusCode::NOT_FOUND | StatusCode::GONE => HubError::NotFound {
                kind: match header("x-error-code") {
                    "RepoNotFound" => "repository",
                    "RevisionNotFound" => "revision",
                    "EntryNotFound" => "file",
                    _ => "file or repository",
                },
                what: what(),
            },
            StatusCode::TOO_MANY_REQUESTS => HubError::TooManyRequests {
                url: shown(url).to_owned(),
                retry_after,
            },
            status => HubError::Status {
                url: shown(url).to_owned(),
                status: status.as_u16(),
                retry_after,
            },
        }
    }

    /// An address of the hub as what it stands for: a repository, or a file in it.
    fn named(&self, url: &str) -> String {
        let path = shown(url).strip_prefix(&self.origin);
        let path = path.map(|path| path.trim_start_matches('/'));
        let Some(path) = path else {
            return shown(url).to_owned();
        };
        let path = path.strip_prefix("api/models/").unwrap_or(path);
        if let Some((repo, revision)) = path.split_once("/revision/") {
            return match revision {
                "main" => repo.to_owned(),
                revision => format!("{repo} at {revision}"),
            };
        }
        match path.split_once("/resolve/") {
            Some((repo, rest)) => match rest.split_once('/') {
                Some((_, file)) => format!("{repo}/{file}"),
                None => repo.to_owned(),
            },
            None => shown(url).to_owned(),
        }
    }
}

impl Reply {
    /// Whether the server sends the range that was asked for, and not the whole file.
    pub fn is_partial(&self) -> bool {
        self.response.status() == StatusCode::PARTIAL_CONTENT
    }

    /// The first byte of the range, and the length of the whole file where the server knows it.
    pub fn range(&self) -> Option<(u64, Option<u64>)> {
        let text = self.header("content-range")?.strip_prefix("bytes ")?;
        let (range, whole) = text.split_once('/')?;
        let first = range.split_once('-')?.0.trim().parse().ok()?;
        Some((first, whole.trim().parse().ok()))
    }

    /// The length of what comes.
    pub fn length(&self) -> Option<u64> {
        self.header("content-length")?.trim().parse().ok()
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(self.response.headers(), name)
    }

    /// What comes.
    pub fn into_reader(self) -> impl std::io::Read {
        self.response.into_body().into_reader()
    }
}

/// An address without its query, which may hold a signature.
pub(crate) fn shown(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or(url)
}

/// The error of a request that no answer came to.
pub(crate) fn transport(url: &str, source: ureq::Error) -> HubError {
    HubError::Transport {
        url: shown(url).to_owned(),
        source: Box::new(source),
    }
}

/// Scheme, host and port of an address.
pub(crate) fn origin(url: &str) -> Result<String> {
    let wrong = |reason| HubError::BadUrl {
        url: shown(url).to_owned(),
        reason,
    };
    let (scheme, rest) = url
        .split_once("://")
        .ok_or_else(|| wrong("it is no address"))?;
    if !["http", "https"].contains(&scheme) {
        return Err(wrong("it is no address of the web"));
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = rest[..end].to_ascii_lowercase();
    match host.is_empty() || host.contains('@') {
        true => Err(wrong("it names no host, or a user beside it")),
        false => Ok(format!("{scheme}://{host}")),
    }
}

/// Where a redirect leads.
fn redirected(from: &str, headers: &HeaderMap) -> Result<String> {
    let wrong = |reason| HubError::Redirect {
        url: shown(from).to_owned(),
        reason,
    };
    let to = header(headers, "location").ok_or_else(|| wrong("it redirects to nowhere"))?;
    let base = origin(from)?;
    let to = match to {
        to if to.starts_with("//") => format!("{}:{to}", base.split(':').next().unwrap_or("https")),
        to if to.starts_with('/') => base.clone() + to,
        to if to.contains("://") => to.to_owned(),
        _ => {
            return Err(wrong(
                "it redirects to a place beside it, which no hub does",
            ));
        }
    };
    match base.starts_with("https:") && !origin(&to)?.starts_with("https:") {
        true => Err(wrong("it redirects to an address that is not encrypted")),
        false => Ok(to),
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// How long a server asks to wait: by `Retry-After` in seconds, or by what is left of the time that it counts requests for.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let of_limit = || {
        let fields = header(headers, "ratelimit")?.split(';');
        fields
            .filter_map(|field| field.trim().strip_prefix("t="))
            .next()
    };
    let seconds = header(headers, "retry-after").or_else(of_limit)?;
    Some(Duration::from_secs(seconds.trim().parse().ok()?))
}

fn read_certificates(path: &std::path::Path) -> Result<RootCerts> {
    let wrong = || HubError::Certificates {
        path: path.to_owned(),
    };
    let pem = std::fs::read(path).map_err(|_| wrong())?;
    let certificates = parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<_> = certificates.collect();
    match certificates.is_empty() {
        true => Err(wrong()),
        false => Ok(RootCerts::Specific(Arc::new(certificates))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_port_is_another_origin() {
        let of = |url: &str| origin(url).unwrap();
        assert_eq!(of("https://Hub.example/a?b"), "https://hub.example");
        assert_ne!(of("http://127.0.0.1:80/"), of("http://127.0.0.1:81/"));
        for wrong in [
            "",
            "hub.example/a",
            "file:///a",
            "https://",
            "https://u:p@h/",
        ] {
            assert!(origin(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn redirects_do_not_leave_encryption() {
        let to = |from: &str, to: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("location", to.parse().unwrap());
            redirected(from, &headers).ok()
        };
        let from = "https://h/a";
        assert_eq!(to(from, "/b?c").as_deref(), Some("https://h/b?c"));
        assert_eq!(to(from, "//i/b").as_deref(), Some("https://i/b"));
        assert_eq!(to(from, "https://i/b").as_deref(), Some("https://i/b"));
        assert_eq!(to(from, "http://h/b"), None);
        assert_eq!(to(from, "file:///etc/passwd"), None);
        assert_eq!(to(from, "b"), None);
    }
}
