//! The model of a command: a file by `-m` or as a word of its own, or one of the hub or of another server, which is fetched
//! first.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::Arg;
use gristmill_gguf::Model;
use gristmill_hub::{ModelName, Plan, Request, UrlRequest, Wanted, fetch_url};

use crate::download::{DownloadFlags, DownloadLog};
use crate::failure::Hint;
use crate::remote_header;

/// Names the model; flatten it into a command that reads one, and call [`ModelPath::fetch`] before [`ModelPath::path`].
#[derive(clap::Args)]
pub struct ModelPath {
    /// A GGUF file, or any shard of a set
    #[arg(long, short, value_name = "FILE")]
    model: Option<PathBuf>,
    /// The same without the flag
    #[arg(value_name = "MODEL", id = WORD, conflicts_with = "model")]
    word: Option<PathBuf>,
    /// A model on the hub, fetched into the cache where it is not there; without QUANT its Q4_K_M, else its Q8_0, else its first file
    #[arg(long, value_name = "USER/REPO[:QUANT]", conflicts_with_all = ["model", WORD])]
    hf_repo: Option<ModelName>,
    /// The file of that repository, by its path there
    #[arg(long, value_name = "FILE")]
    hf_file: Option<String>,
    /// Branch, tag or commit of that repository [default: main]
    #[arg(long, value_name = "REVISION", conflicts_with_all = ["model", "model_url", WORD])]
    revision: Option<String>,
    /// The address of a model, fetched into the cache, or to the path that --model names
    #[arg(long, value_name = "URL", conflicts_with_all = ["hf_repo", "hf_file", WORD])]
    model_url: Option<String>,
    #[command(flatten)]
    download: DownloadFlags,
    #[arg(skip)]
    fetched: OnceLock<PathBuf>,
    /// Whether the header is all that is needed.
    #[arg(skip)]
    header_alone: bool,
    /// That of a model which is not here.
    #[arg(skip)]
    header: OnceLock<(Model, PathBuf)>,
}

/// The id of the word without a flag.
const WORD: &str = "model_word";

/// Flags that name a model, any of which is enough.
const SOURCES: [&str; 3] = ["model", "hf_repo", "model_url"];

/// Variables of the reference that stand for these flags, where none of them is given.
pub const VARIABLES: [&str; 5] = [
    "LLAMA_ARG_MODEL",
    "LLAMA_ARG_HF_REPO",
    "LLAMA_ARG_HF_FILE",
    "LLAMA_ARG_MODEL_URL",
    "LLAMA_ARG_OFFLINE",
];

/// A variable of the environment that says anything.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Makes the parser ask for a model, unless the environment names one.
pub fn required(argument: Arg) -> Arg {
    let names_one = |name: &&str| !["LLAMA_ARG_HF_FILE", "LLAMA_ARG_OFFLINE"].contains(name);
    let by_environment = VARIABLES
        .iter()
        .filter(|name| names_one(name))
        .any(|name| variable(name).is_some());
    match argument.get_id() == WORD && !by_environment {
        true => argument.required_unless_present_any(SOURCES),
        false => argument,
    }
}

impl ModelPath {
    /// The path of the model.
    pub fn path(&self) -> &Path {
        let fetched = self.fetched.get().map(PathBuf::as_path);
        let path = fetched.or(self.model.as_deref()).or(self.word.as_deref());
        // The parser asks for a model, and what is not a file was fetched, so there is a path.
        path.unwrap_or(Path::new(""))
    }

    /// Fetches the model, where it is not named by a path.
    pub fn fetch(&self) -> anyhow::Result<()> {
        let text = |name| variable(name).map(|value| value.to_string_lossy().into_owned());
        let is_given = self.model.is_some() || self.word.is_some() || self.hf_repo.is_some();
        let by_environment = |name| text(name).filter(|_| !is_given);
        let url = self.model_url.clone();
        if let Some(url) = url.or_else(|| by_environment("LLAMA_ARG_MODEL_URL")) {
            return self.fetch_address(url);
        }
        let repo = match (&self.hf_repo, by_environment("LLAMA_ARG_HF_REPO")) {
            (Some(repo), _) => Some(repo.clone()),
            (None, Some(name)) => Some(name.parse()?),
            (None, None) => None,
        };
        let file = self.hf_file.clone().or_else(|| text("LLAMA_ARG_HF_FILE"));
        match (repo, by_environment("LLAMA_ARG_MODEL")) {
            (Some(name), _) => self.fetch_from_hub(name, file),
            (None, _) if self.hf_file.is_some() => {
                Err(without_repository("--hf-file names a file"))
            }
            (None, _) if self.revision.is_some() => {
                Err(without_repository("--revision names a state"))
            }
            (None, Some(path)) => {
                self.keep(path.into());
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }

    fn fetch_from_hub(&self, name: ModelName, file: Option<String>) -> anyhow::Result<()> {
        let log = DownloadLog::new();
        let plan = self.plan(name, file, self.revision.as_deref(), &log)?;
        match self.header_alone && !plan.is_here() {
            true => {
                let header = remote_header::open(&plan, &log)?;
                // It is asked for once.
                let _ = self.header.set(header);
            }
            false => self.keep(log.fetch(&plan)?.path),
        }
        Ok(())
    }

    /// Fetches another model of the hub, and gives its path.
    pub fn fetch_another(
        &self,
        name: &ModelName,
        revision: Option<&str>,
    ) -> anyhow::Result<PathBuf> {
        let log = DownloadLog::new();
        let plan = self.plan(name.clone(), None, revision, &log)?;
        Ok(log.fetch(&plan)?.path)
    }

    fn plan(
        &self,
        name: ModelName,
        file: Option<String>,
        revision: Option<&str>,
        log: &DownloadLog,
    ) -> anyhow::Result<Plan> {
        let request = Request {
            name,
            revision: revision.unwrap_or("main").to_owned(),
            wanted: file.map_or(Wanted::Model, Wanted::File),
            or_cached: true,
        };
        let plan = Plan::new(&self.download.settings()?, &request, &|event| {
            log.event(event);
        })?;
        note_left(&plan);
        Ok(plan)
    }

    /// The header of the model, of which no more is fetched than that where it is named by its repository.
    pub fn open_header(&mut self) -> anyhow::Result<(Model, PathBuf)> {
        self.header_alone = true;
        self.fetch()?;
        if let Some(header) = self.header.take() {
            return Ok(header);
        }
        let path = self.path().to_owned();
        if path.as_os_str().is_empty() {
            return Err(anyhow::anyhow!("no model is named").context(Hint::new(
                "name a GGUF file, or give sizes with --params-b, --bpw, --layers, --ctx-size, --kv-heads and --head-dim",
            )));
        }
        Ok((Model::open_header(&path)?, path))
    }

    fn fetch_address(&self, url: String) -> anyhow::Result<()> {
        let log = DownloadLog::new();
        let request = UrlRequest {
            url,
            output: self.model.clone(),
        };
        let settings = self.download.settings()?;
        let path = log.during(|| fetch_url(&settings, &request, &|event| log.event(event)))?;
        self.keep(path);
        Ok(())
    }

    fn keep(&self, path: PathBuf) {
        // A model is fetched once.
        let _ = self.fetched.set(path);
    }
}

fn without_repository(what: &str) -> anyhow::Error {
    anyhow::anyhow!("{what} of a repository, and no repository is named")
        .context(Hint::new("name it with --hf-repo user/repository"))
}

/// Names the projectors that go with a model and are not fetched.
pub fn note_left(plan: &Plan) {
    if !plan.left.is_empty() {
        say!(
            "note: left out, since images and sound are not supported yet: {}",
            plan.left.join(", ")
        );
    }
}
