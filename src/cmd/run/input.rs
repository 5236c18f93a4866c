//! Where messages come from: an editor with history on a terminal, else lines.

use std::borrow::Cow;
use std::io::{BufRead as _, IsTerminal as _, Read as _};

use anyhow::Context as _;
use reedline::{FileBackedHistory, Prompt, PromptEditMode, PromptHistorySearch, Reedline, Signal};

/// Lines that the editor remembers.
const HISTORY: usize = 1000;

/// All of standard input, if it is no terminal.
pub fn piped() -> anyhow::Result<Option<Vec<u8>>> {
    let mut stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Ok(None);
    }
    let mut text = Vec::new();
    stdin
        .read_to_end(&mut text)
        .context("cannot read standard input")?;
    if text.last() == Some(&b'\n') {
        text.pop();
    }
    Ok(Some(text))
}

/// What a person said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A message.
    Text(String),
    /// Nothing more (end of input).
    End,
    /// To stop (Ctrl-C).
    Stop,
}

/// A source of messages.
pub struct Messages {
    editor: Option<Reedline>,
    multiline: bool,
}

impl Messages {
    pub fn new(multiline: bool) -> anyhow::Result<Self> {
        let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let editor = match is_terminal {
            true => {
                let history = FileBackedHistory::new(HISTORY)?;
                let editor = Reedline::create().with_history(Box::new(history));
                // Pasted lines are one message.
                Some(editor.use_bracketed_paste(true))
            }
            false => None,
        };
        Ok(Messages { editor, multiline })
    }

    /// Whether a person sits at a terminal.
    pub fn is_terminal(&self) -> bool {
        self.editor.is_some()
    }

    /// The next message. Lines without text are passed over.
    pub fn next(&mut self) -> anyhow::Result<Said> {
        let mut message = String::new();
        loop {
            let line = match self.line(message.is_empty())? {
                Said::Text(line) => line,
                Said::End if !message.is_empty() => return Ok(Said::Text(message)),
                other => return Ok(other),
            };
            if let (true, Some(start)) = (self.multiline, line.strip_suffix('\\')) {
                message.push_str(start);
                message.push('\n');
                continue;
            }
            message.push_str(&line);
            if !message.trim().is_empty() {
                return Ok(Said::Text(message));
            }
            message.clear();
        }
    }

    fn line(&mut self, first: bool) -> anyhow::Result<Said> {
        let Some(editor) = &mut self.editor else {
            return plain_line();
        };
        loop {
            return Ok(match editor.read_line(&Sign { first })? {
                Signal::Success(line) => Said::Text(line),
                Signal::CtrlD => Said::End,
                Signal::CtrlC => Said::Stop,
                _ => continue,
            });
        }
    }
}

/// A line of standard input; bytes that are no text become U+FFFD.
fn plain_line() -> anyhow::Result<Said> {
    let mut line = Vec::new();
    let n = std::io::stdin()
        .lock()
        .read_until(b'\n', &mut line)
        .context("cannot read standard input")?;
    if n == 0 {
        return Ok(Said::End);
    }
    let text = String::from_utf8_lossy(&line);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(Said::Text(
        text.strip_suffix('\r').unwrap_or(text).to_owned(),
    ))
}

/// The sign in front of a line.
struct Sign {
    first: bool,
}

impl Prompt for Sign {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        if self.first { "> " } else { ". " }.into()
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        ". ".into()
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        format!("(search: {}) ", search.term).into()
    }
}
