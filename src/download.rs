//! Downloads as the command line sees them: the flags that all have, and what is shown while they run.

use std::sync::{Mutex, MutexGuard, PoisonError};

use gristmill_hub::{Event, HubError, Plan, Pulled, Settings};
use indicatif::ProgressBar;

use crate::display::{printable, size};
use crate::{interrupt, progress};

/// Flags of every command that fetches files.
#[derive(clap::Args)]
pub struct DownloadFlags {
    /// Access token of the hub, in place of HF_TOKEN and of a login's file
    #[arg(long, value_name = "TOKEN")]
    hf_token: Option<String>,
    /// Fetch nothing: take what the cache has
    #[arg(long)]
    offline: bool,
}

impl DownloadFlags {
    /// Where the hub is and who asks: by the environment and these flags.
    pub fn settings(&self) -> Result<Settings, HubError> {
        let settings = Settings::from_environment(|name| std::env::var(name).ok())?;
        let mut settings = settings.with_token(self.hf_token.as_deref())?;
        settings.offline |= self.offline;
        Ok(settings)
    }
}

/// Shows the events of downloads on standard error: on a terminal a bar with rate and time left, else a line per file.
pub struct DownloadLog {
    bar: Mutex<ProgressBar>,
}

impl DownloadLog {
    /// A log without a bar yet.
    pub fn new() -> Self {
        let bar = Mutex::new(ProgressBar::hidden());
        DownloadLog { bar }
    }

    /// Fetches what a plan lacks, under a bar over all of it.
    pub fn fetch(&self, plan: &Plan) -> Result<Pulled, HubError> {
        let bytes = plan.missing_bytes();
        if bytes > 0 {
            *self.bar() = progress::bar(bytes);
        }
        self.during(|| plan.fetch(&|event| self.event(event)))
    }

    /// Does work that goes on later where it is interrupted.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        interrupt::resumable(true);
        let done = work();
        interrupt::resumable(false);
        self.bar().finish_and_clear();
        done
    }

    /// Shows one event.
    pub fn event(&self, event: Event<'_>) {
        let bar = self.bar();
        let line = |text: String| match bar.is_hidden() {
            true => say!("{text}"),
            false => bar.println(printable(&text)),
        };
        match event {
            Event::Start {
                file,
                bytes,
                present,
            } => {
                bar.set_message(printable(file).into_owned());
                if bar.is_hidden() {
                    let rest = match present {
                        0 => String::new(),
                        present => format!(", of which {} are here", size(present)),
                    };
                    line(format!("fetching {file}: {}{rest}", size(bytes)));
                }
            }
            Event::Received { bytes } if bytes >= 0 => bar.inc(bytes.unsigned_abs()),
            Event::Received { bytes } => bar.dec(bytes.unsigned_abs()),
            Event::Checking { file } => {
                bar.set_message(format!("checking {}", printable(file)));
            }
            Event::Locked { file } => line(format!(
                "another download of {file} is running; waiting for its end"
            )),
            Event::Waiting { seconds, reason } => {
                line(format!("{reason}; the next attempt is in {seconds} s"));
            }
            Event::Warning(text) => line(format!("warning: {text}")),
            _ => {}
        }
    }

    fn bar(&self) -> MutexGuard<'_, ProgressBar> {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
