//! What a conversion or quantization shows while it runs: notes and warnings as lines, and on a terminal a bar with
//! the rate and the time left. In a pipe there is no bar.

use crate::display::printable;
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
