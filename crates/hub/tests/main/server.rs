//! A small server that plays the hub: repositories with hashes, redirects to another host, ranges, and the faults that a
//! test asks for.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use sha1::Digest as _;

/// The commit that all repositories are at.
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub path: String,
    pub headers: BTreeMap<String, String>,
    /// First and last byte of the range that was asked for.
    pub range: Option<(usize, usize)>,
    /// How many requests for this path came before.
    pub n_before: usize,
}

/// What to do in place of a good answer.
pub enum Fault {
    /// A status with headers and no body.
    Status(u16, Vec<(&'static str, String)>),
    /// The right answer, cut after so many bytes of its body.
    Cut(usize),
    /// The right answer with the first byte of its body changed.
    Spoilt,
    /// The whole file, whatever range was asked for.
    NoRanges,
    /// The right range of a file that is so many bytes longer.
    Longer(usize),
    /// A redirect to this address.
    Redirect(String),
    /// Another body with status 200.
    Text(String),
}

type Faults = Box<dyn Fn(&Asked) -> Option<Fault> + Send + Sync>;

/// The server; it ends with the process.
pub struct Server {
    pub address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// Files of repositories: `user/repository/path`.
pub type Files = BTreeMap<String, Vec<u8>>;

impl Server {
    /// Serves files, with faults where `faults` says so.
    pub fn start(
        files: Files,
        faults: impl Fn(&Asked) -> Option<Fault> + Send + Sync + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = format!("http://{}", listener.local_addr().expect("it has one"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let hub = Arc::new(Hub {
            files,
            faults: Box::new(faults),
            asked: asked.clone(),
        });
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let hub = hub.clone();
                std::thread::spawn(move || {
                    // A client that goes away is its own matter.
                    let _ = hub.serve(stream);
                });
            }
        });
        Server { address, asked }
    }

    /// All requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no test panicked in it").clone()
    }

    /// Requests so far whose path has this in it.
    pub fn asked_for(&self, part: &str) -> Vec<Asked> {
        let asked = self.asked().into_iter();
        asked.filter(|asked| asked.path.contains(part)).collect()
    }
}

struct Hub {
    files: Files,
    faults: Faults,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// An answer before faults.
struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Hub {
    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut out = stream;
        while let Some(asked) = self.read(&mut reader)? {
            let fault = (self.faults)(&asked);
            let mut answer = self.answer(&asked, matches!(fault, Some(Fault::NoRanges)));
            let mut sent = usize::MAX;
            match fault {
                Some(Fault::Status(status, headers)) => {
                    answer = Answer {
                        status,
                        headers,
                        body: Vec::new(),
                    };
                }
                Some(Fault::Redirect(to)) => answer = redirect(to),
                Some(Fault::Text(text)) => answer.body = text.into_bytes(),
                Some(Fault::Cut(bytes)) => sent = bytes,
                Some(Fault::Spoilt) => answer.body[0] ^= 1,
                Some(Fault::Longer(bytes)) => {
                    let range = answer
                        .headers
                        .iter_mut()
                        .find(|(name, _)| *name == "Content-Range");
                    if let Some((_, range)) = range {
                        let (range_of, whole) = range.split_once('/').expect("it has a length");
                        let whole: usize = whole.parse().expect("it is a number");
                        *range = format!("{range_of}/{}", whole + bytes);
                    }
                }
                Some(Fault::NoRanges) | None => {}
            }
            let mut head = format!(
                "HTTP/1.1 {} X\r\nContent-Length: {}\r\n",
                answer.status,
                answer.body.len()
            );
            for (name, value) in answer.headers {
                head += &format!("{name}: {value}\r\n");
            }
            out.write_all((head + "\r\n").as_bytes())?;
            out.write_all(&answer.body[..answer.body.len().min(sent)])?;
            out.flush()?;
            if sent < answer.body.len() {
                return out.shutdown(std::net::Shutdown::Both);
            }
        }
        Ok(())
    }

    /// Reads a request and notes it; none at the end of the connection.
    fn read(&self, reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<Asked>> {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut headers = BTreeMap::new();
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim().split_once(": ") else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers
            .get("content-length")
            .and_then(|length| length.parse().ok());
        std::io::copy(&mut reader.take(length.unwrap_or(0)), &mut std::io::sink())?;
        let range = headers.get("range").and_then(|range: &String| {
            let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
            Some((first.parse().ok()?, last.parse().ok()?))
        });
        let mut all = self.asked.lock().expect("no test panicked in it");
        let asked = Asked {
            n_before: all.iter().filter(|other| other.path == path).count(),
            path,
            headers,
            range,
        };
        all.push(asked.clone());
        Ok(Some(asked))
    }

    fn answer(&self, asked: &Asked, whole: bool) -> Answer {
        let path = asked.path.split('?').next().unwrap_or_default();
        if let Some(rest) = path.strip_prefix("/api/models/") {
            let repo = rest.split("/revision/").next().unwrap_or_default();
            return self.describe(repo);
        }
        let name = match path.split_once(&format!("/resolve/{COMMIT}/")) {
            Some((repo, file)) => format!("{}/{file}", &repo[1..]),
            None => path[1..].to_owned(),
        };
        let Some(bytes) = self.files.get(&name) else {
            return missing("EntryNotFound");
        };
        let hash = hex(&sha2::Sha256::digest(bytes));
        let etag = ("ETag", format!("\"{hash}\""));
        match asked.range.filter(|_| !whole) {
            Some((first, last)) => {
                let last = last.min(bytes.len().saturating_sub(1));
                let range = format!("bytes {first}-{last}/{}", bytes.len());
                Answer {
                    status: 206,
                    headers: vec![("Content-Range", range), etag],
                    body: bytes[first..=last].to_vec(),
                }
            }
            None => Answer {
                status: 200,
                headers: vec![etag],
                body: bytes.clone(),
            },
        }
    }

    /// What the hub's API says of a repository: small files by git's hash, others by SHA-256.
    fn describe(&self, repo: &str) -> Answer {
        let prefix = format!("{repo}/");
        let files = self.files.iter();
        let files = files.filter_map(|(name, bytes)| Some((name.strip_prefix(&prefix)?, bytes)));
        let siblings: Vec<String> = files
            .map(|(name, bytes)| {
                let size = bytes.len();
                let git = sha1::Sha1::new().chain_update(format!("blob {size}\0"));
                let blob = hex(&git.chain_update(bytes).finalize());
                let sha256 = hex(&sha2::Sha256::digest(bytes));
                let lfs = match name.ends_with(".json") {
                    true => String::new(),
                    false => {
                        format!(r#","lfs":{{"sha256":"{sha256}","size":{size},"pointerSize":130}}"#)
                    }
                };
                format!(r#"{{"rfilename":"{name}","size":{size},"blobId":"{blob}"{lfs}}}"#)
            })
            .collect();
        if siblings.is_empty() {
            return missing("RepoNotFound");
        }
        Answer {
            status: 200,
            headers: Vec::new(),
            body: format!(
                r#"{{"sha":"{COMMIT}","siblings":[{}]}}"#,
                siblings.join(",")
            )
            .into_bytes(),
        }
    }
}

fn missing(code: &str) -> Answer {
    Answer {
        status: 404,
        headers: vec![("X-Error-Code", code.to_owned())],
        body: Vec::new(),
    }
}

fn redirect(to: String) -> Answer {
    Answer {
        status: 302,
        headers: vec![("Location", to)],
        body: Vec::new(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
