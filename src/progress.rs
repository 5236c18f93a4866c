//! What a conversion or quantization shows while it runs: notes and warnings as lines, and on a terminal a bar with
//! the rate and the time left. In a pipe there is no bar.

use crate::display::{harmless, printable};
use gristmill_convert::Event;
use indicatif::{ProgressBar, ProgressStyle};

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
            Event::Warning(text) => self.line(&format!("warning: {}", printable(text))),
            Event::Start { n_tensors, bytes } => self.start(*n_tensors, *bytes),
            Event::Tensor {
                index,
                name,
                dims,
                from,
                to,
            } => {
                let name = printable(name);
                let position = format!("[{:>4}/{:>4}]", index + 1, self.n_tensors);
                if self.verbose {
                    self.line(&format!("{position} {name} {dims:?}: {from} -> {to}"));
                }
                self.bar.set_message(format!("{position} {name}"));
            }
            Event::Written { bytes } => self.bar.inc(*bytes),
            _ => {}
        }
    }

    fn start(&mut self, n_tensors: usize, bytes: u64) {
        self.n_tensors = n_tensors;
        self.bar = bar(bytes);
    }

    fn line(&self, text: &str) {
        if self.bar.is_hidden() {
            say!("{text}");
        } else {
            self.bar.println(harmless(text));
        }
    }
}

/// A bar over bytes that are read or written, on a terminal only.
pub struct ByteBar {
    bar: ProgressBar,
}

impl ByteBar {
    /// A bar that shows itself when the work begins.
    pub fn new() -> Self {
        ByteBar {
            bar: ProgressBar::hidden(),
        }
    }

    /// Shows one event.
    pub fn event(&mut self, event: gristmill_gguf::Event<'_>) {
        use gristmill_gguf::Event;
        match event {
            Event::Start { bytes } => self.bar = bar(bytes),
            Event::File { path } => self.bar.set_message(path.display().to_string()),
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

fn bar(bytes: u64) -> ProgressBar {
    let template = "{bar:30} {bytes}/{total_bytes} {bytes_per_sec}, {eta} left {wide_msg}";
    // The template is constant and valid; were it not, the default style would do.
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(bytes).with_style(style)
}

impl Drop for ProgressLog {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
