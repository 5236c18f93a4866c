//! Downloads from a local server that plays the hub, faults included.

#[path = "main/server.rs"]
mod server;

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use gristmill_hub::{
    CachedModel, Event, HubError, Plan, Pulled, Request, Settings, UrlRequest, Wanted, fetch_url,
};
use server::{Asked, COMMIT, Fault, Files, Server};

const MODEL: &str = "user/model";
const Q4: &str = "user/model/Model-Q4_K_M.gguf";

/// Bytes that differ from place to place.
fn noise(n_bytes: usize) -> Vec<u8> {
    (0..n_bytes as u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

fn files() -> Files {
    let names = [
        ("Model-BF16-00001-of-00002.gguf", 1000),
        ("Model-BF16-00002-of-00002.gguf", 3000),
        ("Model-Q4_K_M.gguf", 300_000),
        ("config.json", 20),
        ("mmproj-Model-F16.gguf", 500),
        ("sub dir/Model-Q8_0.gguf", 100),
    ];
    let file = |(name, bytes): (&str, usize)| (format!("{MODEL}/{name}"), noise(bytes));
    names.into_iter().map(file).collect()
}

fn settings(server: &Server, cache: &Path) -> Settings {
    Settings {
        endpoint: server.address.clone(),
        cache: cache.join("hub"),
        url_cache: cache.join("urls"),
        token: Some("hf_secret".to_owned()),
        offline: false,
        connections: 3,
        part_bytes: 40_000,
        pause: Duration::from_millis(1),
        certificates: None,
    }
}

fn request(name: &str) -> Request {
    Request {
        name: name.parse().expect("it is a name"),
        revision: "main".to_owned(),
        wanted: Wanted::Model,
        or_cached: false,
    }
}

fn pull(settings: &Settings, request: &Request) -> Result<Pulled, HubError> {
    Plan::new(settings, request, &|_| {})?.fetch(&|_| {})
}

/// A server with faults in the transfer of files, and what comes of fetching a model from it.
fn pulled_with(
    fault: impl Fn(&Asked) -> Option<Fault> + Send + Sync + 'static,
) -> (tempfile::TempDir, Server, Result<Pulled, HubError>) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let of_files = move |asked: &Asked| match asked.path.contains("/resolve/") {
        true => fault(asked),
        false => None,
    };
    let server = Server::start(files(), of_files);
    let pulled = pull(&settings(&server, folder.path()), &request(MODEL));
    (folder, server, pulled)
}

#[test]
fn a_model_comes_in_parts_into_the_shared_cache() {
    let (folder, server, pulled) = pulled_with(|_| None);
    let pulled = pulled.expect("it is there");
    let repo = folder.path().join("hub/models--user--model");
    let snapshot = repo.join("snapshots").join(COMMIT);
    assert_eq!(pulled.path, snapshot.join("Model-Q4_K_M.gguf"));
    assert_eq!(
        std::fs::read(&pulled.path).expect("it is there"),
        files()[Q4]
    );
    // The layout that huggingface_hub and llama.cpp read.
    let target = std::fs::read_link(&pulled.path).expect("it is a link");
    assert!(target.starts_with("../../blobs"), "{target:?}");
    let commit = std::fs::read_to_string(repo.join("refs/main")).expect("it is there");
    assert_eq!(commit, COMMIT);
    let blobs = std::fs::read_dir(repo.join("blobs")).expect("it is there");
    assert_eq!(blobs.count(), 1, "nothing but the file is left");
    // 300,000 bytes in parts of 40,000.
    assert_eq!(server.asked_for("/resolve/").len(), 8);
    // What is there is not fetched again, but the hub is asked for a newer one.
    pull(&settings(&server, folder.path()), &request(MODEL)).expect("it is there");
    assert_eq!(server.asked_for("/resolve/").len(), 8);
    assert_eq!(server.asked_for("/api/").len(), 2);
}

#[test]
fn shards_come_together_and_names_with_spaces_are_escaped() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let server = Server::start(files(), |asked| {
        // The name as the server would get it.
        let name = format!("/user/model/resolve/{COMMIT}/sub%20dir/Model-Q8_0.gguf");
        (asked.path == name).then_some(Fault::Redirect(
            "/user/model/sub dir/Model-Q8_0.gguf".replace(' ', "%20"),
        ))
    });
    let settings = settings(&server, folder.path());
    let pulled = pull(&settings, &request("user/model:bf16")).expect("they are there");
    assert_eq!(pulled.files.len(), 2);
    assert!(pulled.path.ends_with("Model-BF16-00001-of-00002.gguf"));
    let missing = pull(&settings, &request("user/model:q8_0"));
    assert!(
        matches!(missing, Err(HubError::NotFound { .. })),
        "{missing:?}"
    );
    assert_eq!(server.asked_for("sub%20dir").len(), 2);
}

#[test]
fn a_cut_connection_goes_on_where_it_was_cut() {
    let (_folder, server, pulled) =
        pulled_with(|asked| (asked.n_before < 3).then_some(Fault::Cut(15_000)));
    let pulled = pulled.expect("it goes on");
    assert_eq!(
        std::fs::read(pulled.path).expect("it is there"),
        files()[Q4]
    );
    let again = server.asked_for("/resolve/").into_iter();
    assert!(again.into_iter().any(|asked| {
        asked
            .range
            .is_some_and(|(first, _)| first % 40_000 == 15_000)
    }));
}

#[test]
fn what_came_is_kept_for_the_next_run() {
    let (folder, server, pulled) = pulled_with(|asked| {
        let range = asked.range.expect("a range is asked for");
        (range.0 >= 200_000).then(|| Fault::Status(503, Vec::new()))
    });
    let error = pulled.expect_err("the end is not to be had");
    assert!(
        matches!(error, HubError::Status { status: 503, .. }),
        "{error}"
    );
    let repo = folder.path().join("hub/models--user--model");
    assert!(!repo.join("snapshots").exists());
    let n_before = server.asked_for("/resolve/").len();
    let good = Server::start(files(), |_| None);
    let settings = settings(&good, folder.path());
    let plan = Plan::new(&settings, &request(MODEL), &|_| {}).expect("the hub answers");
    assert_eq!(plan.files[0].present, 200_000);
    assert_eq!(plan.missing_bytes(), 100_000);
    let pulled = plan.fetch(&|_| {}).expect("the rest comes");
    assert_eq!(
        std::fs::read(pulled.path).expect("it is there"),
        files()[Q4]
    );
    assert_eq!(good.asked_for("/resolve/").len(), 3);
    assert!(n_before > 5);
    // A file that others take for its beginning was never there.
    let blobs = std::fs::read_dir(repo.join("blobs"))
        .expect("it is there")
        .flatten();
    assert!(blobs.into_iter().all(|entry| entry.file_name().len() == 64));
}

#[test]
fn a_server_without_ranges_sends_the_whole_file() {
    let (_folder, server, pulled) = pulled_with(|_| Some(Fault::NoRanges));
    assert_eq!(
        std::fs::read(pulled.expect("it comes").path).expect("it is there"),
        files()[Q4]
    );
    assert_eq!(server.asked_for("/resolve/").len(), 1);
}

#[test]
fn a_wrong_length_is_refused() {
    let (_folder, _server, pulled) = pulled_with(|_| Some(Fault::Longer(7)));
    let error = pulled.expect_err("it is not what the hub states");
    assert!(
        matches!(
            error,
            HubError::WrongLength {
                expected: 300_000,
                found: 300_007,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_wrong_hash_leaves_nothing() {
    let (folder, _server, pulled) = pulled_with(|_| Some(Fault::Spoilt));
    let error = pulled.expect_err("it is not what the hub states");
    assert!(
        matches!(
            error,
            HubError::WrongHash {
                kind: "SHA-256",
                ..
            }
        ),
        "{error}"
    );
    let repo = folder.path().join("hub/models--user--model");
    assert_eq!(
        std::fs::read_dir(repo.join("blobs"))
            .expect("it is there")
            .count(),
        0
    );
    assert!(!repo.join("snapshots").exists() && !repo.join("refs").exists());
}

#[test]
fn small_files_are_checked_by_gits_hash() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let pull_config = |server: &Server, cache: &str| {
        let wanted = Wanted::File("config.json".to_owned());
        let request = Request {
            wanted,
            ..request(MODEL)
        };
        pull(&settings(server, &folder.path().join(cache)), &request)
    };
    let good = Server::start(files(), |_| None);
    pull_config(&good, "good").expect("it is sound");
    let bad = Server::start(files(), |asked| {
        asked.path.contains("/resolve/").then_some(Fault::Spoilt)
    });
    let error = pull_config(&bad, "bad").expect_err("it is not what the hub states");
    assert!(
        matches!(
            error,
            HubError::WrongHash {
                kind: "git hash",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn the_token_is_shown_to_the_hub_alone() {
    let other = Server::start(files(), |_| None);
    let to = format!("{}/{Q4}?signature=x", other.address);
    let (_folder, server, pulled) = pulled_with(move |_| Some(Fault::Redirect(to.clone())));
    pulled.expect("it comes from elsewhere");
    let token = |asked: &Asked| asked.headers.get("authorization").cloned();
    assert!(
        server
            .asked()
            .iter()
            .all(|asked| token(asked).as_deref() == Some("Bearer hf_secret"))
    );
    assert!(!other.asked().is_empty());
    assert!(other.asked().iter().all(|asked| token(asked).is_none()));
}

#[test]
fn redirects_in_a_circle_end() {
    let (_folder, server, pulled) = pulled_with(|asked| Some(Fault::Redirect(asked.path.clone())));
    assert!(
        matches!(pulled, Err(HubError::Redirect { .. })),
        "{pulled:?}"
    );
    assert_eq!(server.asked_for("/resolve/").len(), 10);
}

#[test]
fn statuses_say_what_is_wrong() {
    let error_of = |status: u16, headers: Vec<(&'static str, String)>| {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let server = Server::start(files(), move |_| {
            Some(Fault::Status(status, headers.clone()))
        });
        let error = pull(&settings(&server, folder.path()), &request(MODEL));
        (error.expect_err("it is refused"), server)
    };
    let code = |code: &str| vec![("X-Error-Code", code.to_owned())];
    let (error, server) = error_of(401, code("RepoNotFound"));
    assert_eq!(
        error.to_string(),
        "user/model: the hub has no such repository, or does not show it"
    );
    assert_eq!(server.asked().len(), 1);
    assert!(!format!("{error:?}").contains("hf_secret"));
    let (error, _) = error_of(403, code("GatedRepo"));
    assert_eq!(error.to_string(), "user/model: the hub refuses access");
    assert!(
        error
            .hint()
            .expect("there is one")
            .contains("ask for access")
    );
    let (error, _) = error_of(404, code("RevisionNotFound"));
    assert_eq!(
        error.to_string(),
        "user/model: the hub has no such revision"
    );
    let (error, server) = error_of(500, Vec::new());
    assert!(
        matches!(error, HubError::Status { status: 500, .. }),
        "{error}"
    );
    assert_eq!(server.asked().len(), 5);
    // A pause longer than anyone would sit through is no pause.
    let (error, server) = error_of(429, vec![("Retry-After", "86400".to_owned())]);
    assert!(matches!(error, HubError::TooManyRequests { .. }), "{error}");
    assert_eq!(server.asked().len(), 1);
    let (error, _) = error_of(200, Vec::new());
    assert!(matches!(error, HubError::Listing { .. }), "{error}");
}

#[test]
fn a_pause_that_the_hub_asks_for_is_made() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let server = Server::start(files(), |asked| {
        let retry = vec![("Retry-After", "1".to_owned())];
        (asked.n_before == 0 && asked.path.starts_with("/api/"))
            .then_some(Fault::Status(429, retry))
    });
    let pauses = Mutex::new(Vec::new());
    let report = |event: Event<'_>| {
        if let Event::Waiting { seconds, .. } = event {
            pauses.lock().expect("nothing panics").push(seconds);
        }
    };
    let plan = Plan::new(&settings(&server, folder.path()), &request(MODEL), &report);
    assert_eq!(plan.expect("it answers the second time").files.len(), 1);
    assert_eq!(*pauses.lock().expect("nothing panics"), [1.0]);
}

#[test]
fn no_file_leaves_its_folder() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    for name in [
        "../../evil-Q4_K_M.gguf",
        "/etc/evil-Q4_K_M.gguf",
        "a/./b-Q4_K_M.gguf",
    ] {
        let hash = "a".repeat(64);
        let text = format!(
            r#"{{"sha":"{COMMIT}","siblings":[{{"rfilename":"{name}","lfs":{{"sha256":"{hash}","size":4}}}}]}}"#
        );
        let server = Server::start(files(), move |_| Some(Fault::Text(text.clone())));
        let error = pull(&settings(&server, folder.path()), &request(MODEL));
        assert!(
            matches!(error, Err(HubError::UnsafeName { .. })),
            "{error:?}"
        );
    }
    assert_eq!(
        std::fs::read_dir(folder.path())
            .expect("it is there")
            .count(),
        0
    );
}

#[test]
fn a_revision_is_pinned_and_offline_takes_what_is_there() {
    let (folder, server, pulled) = pulled_with(|_| None);
    pulled.expect("it is there");
    let online = settings(&server, folder.path());
    let pinned = Request {
        revision: COMMIT.to_owned(),
        ..request(MODEL)
    };
    pull(&online, &pinned).expect("it is the same commit");
    let asked = server.asked_for("/api/");
    assert!(
        asked[1]
            .path
            .ends_with(&format!("/revision/{COMMIT}?blobs=true")),
        "{asked:?}"
    );
    let offline = Settings {
        offline: true,
        ..online
    };
    let n_asked = server.asked().len();
    for request in [request(MODEL), pinned, request("user/model:q4_k_m")] {
        let pulled = pull(&offline, &request).expect("it is in the cache");
        assert!(pulled.path.ends_with("Model-Q4_K_M.gguf"));
    }
    let other = pull(&offline, &request("user/model:q8_0"));
    assert!(
        matches!(other, Err(HubError::NoQuantization { .. })),
        "{other:?}"
    );
    let other = pull(&offline, &request("user/other"));
    assert!(matches!(other, Err(HubError::Offline { .. })), "{other:?}");
    assert_eq!(server.asked().len(), n_asked);
    let bad = Request {
        revision: "../main".to_owned(),
        ..request(MODEL)
    };
    assert!(matches!(
        pull(&offline, &bad),
        Err(HubError::BadRevision { .. })
    ));
}

#[test]
fn the_cache_stands_in_for_a_hub_that_is_not_there() {
    let (folder, server, pulled) = pulled_with(|_| None);
    pulled.expect("it is there");
    let settings = Settings {
        endpoint: "http://127.0.0.1:9".to_owned(),
        ..settings(&server, folder.path())
    };
    let strict = pull(&settings, &request(MODEL));
    assert!(
        matches!(strict, Err(HubError::Transport { .. })),
        "{strict:?}"
    );
    let lenient = Request {
        or_cached: true,
        ..request(MODEL)
    };
    pull(&settings, &lenient).expect("the cache has it");
}

#[test]
fn two_pulls_at_once_fetch_once() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let server = Server::start(files(), |_| {
        std::thread::sleep(Duration::from_millis(20));
        None
    });
    let settings = settings(&server, folder.path());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| pull(&settings, &request(MODEL)).expect("it comes"));
        }
    });
    assert_eq!(server.asked_for("/resolve/").len(), 8);
}

#[test]
fn what_is_cached_is_listed() {
    let (folder, server, pulled) = pulled_with(|_| None);
    pulled.expect("it is there");
    let settings = settings(&server, folder.path());
    pull(&settings, &request("user/model:bf16")).expect("it is there");
    let address = UrlRequest {
        url: format!("{}/{Q4}", server.address),
        output: None,
    };
    fetch_url(&settings, &address, &|_| {}).expect("it is there");
    let models = CachedModel::all(&settings);
    let of = |model: &CachedModel| (model.repo.clone(), model.quantization.clone(), model.bytes);
    let found: Vec<_> = models.iter().map(of).collect();
    let repo = Some(MODEL.to_owned());
    let tag = |tag: &str| Some(tag.to_owned());
    assert_eq!(
        found,
        [
            (repo.clone(), tag("BF16"), 4000),
            (repo, tag("Q4_K_M"), 300_000),
            (None, tag("Q4_K_M"), 300_000)
        ]
    );
    assert_eq!(models[0].files.len(), 2);
    assert_eq!(models[0].revision.as_deref(), Some("main"));
}

#[test]
fn a_file_by_its_address_is_fetched_once() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let server = Server::start(files(), |_| None);
    let settings = settings(&server, folder.path());
    let fetch = |address: &str, output: Option<&str>| {
        let output = output.map(|output| folder.path().join(output));
        let url = format!("{}{address}", server.address);
        fetch_url(&settings, &UrlRequest { url, output }, &|_| {})
    };
    let path = fetch(&format!("/{Q4}?download=true"), None).expect("it is there");
    assert_eq!(path, folder.path().join("urls/Model-Q4_K_M.gguf"));
    assert_eq!(std::fs::read(&path).expect("it is there"), files()[Q4]);
    let n_asked = server.asked().len();
    fetch(&format!("/{Q4}?download=true"), None).expect("it is there");
    assert_eq!(
        server.asked().len(),
        n_asked + 1,
        "only the version is asked for"
    );
    // A file that was named is taken as it is.
    std::fs::write(folder.path().join("mine.gguf"), "mine").expect("it can be written");
    let path = fetch(&format!("/{Q4}"), Some("mine.gguf")).expect("it is there");
    assert_eq!(std::fs::read(path).expect("it is there"), b"mine");
    // The hub's own addresses go through its cache, where the hash is known.
    let path = fetch("/user/model/resolve/main/Model-Q4_K_M.gguf", None).expect("it is there");
    assert!(path.starts_with(&settings.cache), "{path:?}");
    for wrong in ["/", "", "/a/.."] {
        assert!(
            matches!(fetch(wrong, None), Err(HubError::BadUrl { .. })),
            "{wrong}"
        );
    }
}
