//! What a conversion or quantization shows while it runs: notes and warnings as lines, and on a terminal a bar with
//! the rate and the time left. In a pipe there is no bar.

use std::io::IsTerminal as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::display::printable;
use gristmill_convert::Event;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The bar on the terminal, for an end that comes from outside.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Takes the bar off the terminal; false if there was none.
pub fn clear() -> bool {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).take();
    let bar = shown.filter(|bar| !bar.is_hidden() && !bar.is_finished());
    bar.map(|bar| bar.finish_and_clear()).is_some()
}

fn remember(bar: &ProgressBar) {
    *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
}

/// Shows the events of one run on standard error.
pub struct ProgressLog {
    bar: ProgressBar,
    /// Whether to print a line per tensor.
    verbose: bool,
    n_tensors: usize,
}

impl ProgressLog {
    /// A log that shows tensors one by one if it is `verbose`.
    pub fn new(verbose: bool) -> Self {
        ProgressLog {
            bar: ProgressBar::hidden(),
            verbose,
            n_tensors: 0,
        }
    }

    /// Shows one event.
    pub fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Warning(_) | Event::Measuring { index: 0, .. } => self.log(event),
            Event::Start { n_tensors, bytes } => self.start(*n_tensors, *bytes),
            Event::Tensor { index, name, .. } => {
                if self.verbose {
                    self.log(event);
                }
                let position = format!("[{:>4}/{:>4}]", index + 1, self.n_tensors);
                self.bar
                    .set_message(printable(&format!("{position} {name}")).into_owned());
            }
            Event::Flushed { .. } if self.verbose => self.log(event),
            Event::Written { bytes } => self.bar.inc(*bytes),
            _ => {}
        }
    }

    fn start(&mut self, n_tensors: usize, bytes: u64) {
        self.n_tensors = n_tensors;
        self.bar = bar(bytes);
    }

    /// Shows an event as a line, above the bar.
    fn log(&self, event: &Event<'_>) {
        let text = event.line(self.n_tensors).unwrap_or_default();
        if self.bar.is_hidden() {
            say!("{text}");
        } else {
            self.bar.println(printable(&text));
        }
    }
}

/// A bar over bytes that are read or written, on a terminal only.
pub struct ByteBar {
    bar: ProgressBar,
}

impl ByteBar {
    /// Does some work under a bar, which shows itself when the work begins and is gone when it ends.
    pub fn during<T>(work: impl FnOnce(gristmill_gguf::Progress<'_>) -> T) -> T {
        let mut bar = ByteBar {
            bar: ProgressBar::hidden(),
        };
        work(&mut |event| bar.event(event))
    }

    fn event(&mut self, event: gristmill_gguf::Event<'_>) {
        use gristmill_gguf::Event;
        match event {
            Event::Start { bytes } => self.bar = bar(bytes),
            Event::File { path } => {
                let path = path.display().to_string();
                self.bar.set_message(printable(&path).into_owned());
            }
            Event::Done { bytes } => self.bar.inc(bytes),
            _ => {}
        }
    }
}

impl Drop for ByteBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A bar over so many bytes, with room for a message.
pub fn bar(bytes: u64) -> ProgressBar {
    let bar = ProgressBar::new(bytes).with_style(style(
        "{bar:30} {bytes}/{total_bytes} {bytes_per_sec}, {eta} left {wide_msg}",
    ));
    remember(&bar);
    bar
}

/// A bar over so many windows of a text.
pub fn windows(n: usize) -> ProgressBar {
    let bar = ProgressBar::new(n as u64).with_style(style(
        "{bar:30} {pos}/{len} windows {per_sec}, {eta} left {wide_msg}",
    ));
    remember(&bar);
    bar
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constant and valid; were they not, the default style would do.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// A bar over the tokens of a prompt, on a terminal only, and only where the prompt takes longer than [`PromptBar::PATIENCE`].
pub struct PromptBar {
    bar: ProgressBar,
    /// Dropped with the bar, so that a bar that nobody waited for is never shown.
    _over: Sender<()>,
}

impl PromptBar {
    const PATIENCE: Duration = Duration::from_secs(1);
    /// How often the time that has passed is shown.
    const TICK: Duration = Duration::from_millis(200);

    /// A bar over so many tokens, of which none is computed.
    pub fn new(n_tokens: usize) -> Self {
        // The first part may take long, and no rate is known before its end.
        let bar =
            ProgressBar::with_draw_target(Some(n_tokens as u64), ProgressDrawTarget::hidden())
                .with_style(style("prompt: {len} tokens, {elapsed}"));
        let (over, wait) = channel();
        let late = bar.clone();
        let show = move || {
            if wait.recv_timeout(Self::PATIENCE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            late.set_draw_target(ProgressDrawTarget::stderr());
            remember(&late);
            while wait.recv_timeout(Self::TICK) == Err(RecvTimeoutError::Timeout) {
                late.tick();
            }
        };
        if std::io::stderr().is_terminal() {
            // Where no thread can be made the prompt is computed without a bar.
            let _ = std::thread::Builder::new()
                .name("prompt bar".into())
                .spawn(show);
        }
        PromptBar { bar, _over: over }
    }

    /// Shows how many tokens are computed.
    pub fn set(&self, n_computed: usize) {
        if n_computed > 0 {
            let rate = n_computed as f64 / self.bar.elapsed().as_secs_f64();
            self.bar.set_style(style(
                "prompt: {bar:30} {pos}/{len} tokens, {msg}, {eta} left",
            ));
            self.bar.set_message(format!("{rate:.1} t/s"));
        }
        self.bar.set_position(n_computed as u64);
    }
}

impl Drop for PromptBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for ProgressLog {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
