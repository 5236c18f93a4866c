//! Where messages come from: an editor with history on a terminal, else lines.

use std::borrow::Cow;
use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};

use anyhow::Context as _;
use reedline::{
    EditCommand, Emacs, FileBackedHistory, KeyCode, KeyModifiers, Prompt, PromptEditMode,
    PromptHistorySearch, Reedline, ReedlineEvent, Signal, default_emacs_keybindings,
};

use super::command::Command;
use crate::interrupt;

/// Lines that the editor remembers.
const HISTORY: usize = 1000;

/// What Ctrl-C stands for in the editor.
const INTERRUPT: &str = "interrupt";
/// What Ctrl-Z stands for in the editor.
const SUSPEND: &str = "suspend";

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
    /// Nothing more: the end of input, or Ctrl-C twice where nothing is typed.
    End,
}

/// What the editor, or a pipe, gives next.
enum Line {
    Text(String),
    End,
    Interrupt,
}

/// A source of messages.
pub struct Messages {
    editor: Option<Reedline>,
    is_terminal: bool,
    rules: LineRules,
}

/// How lines become messages.
#[derive(Clone, Copy, Debug, Default)]
struct LineRules {
    /// Whether a line that ends with a backslash ends the message, in place of going on.
    multiline: bool,
    /// Whether a backslash at the end of a line means anything.
    marks: bool,
    /// Whether a first line may be a command, which is whole without a mark.
    commands: bool,
}

impl Messages {
    pub fn new(multiline: bool, simple: bool) -> anyhow::Result<Self> {
        let is_terminal = std::io::stdin().is_terminal() && crate::stdout::is_terminal();
        let editor = match is_terminal && !simple {
            true => {
                let history = FileBackedHistory::new(HISTORY)?;
                let editor = Reedline::create()
                    .with_history(Box::new(history))
                    .with_edit_mode(Box::new(edit_mode()));
                // Pasted lines are one message.
                Some(editor.use_bracketed_paste(true))
            }
            false => None,
        };
        Ok(Messages {
            editor,
            is_terminal,
            rules: LineRules {
                multiline,
                // Through a pipe a backslash is what it is, unless several lines are asked for.
                marks: multiline || is_terminal,
                commands: false,
            },
        })
    }

    /// Of which those typed at a terminal may be commands.
    pub fn with_commands(mut self) -> Self {
        self.rules.commands = self.is_terminal;
        self
    }

    /// Whether a person sits at a terminal.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// The next message.
    pub fn next(&mut self) -> anyhow::Result<Said> {
        let rules = self.rules;
        rules.message(|first| self.line(first))
    }

    fn line(&mut self, first: bool) -> anyhow::Result<Line> {
        let Some(editor) = &mut self.editor else {
            if self.is_terminal {
                let mut out = crate::stdout::stream();
                write!(out, "{}", if first { "> " } else { ". " })?;
                out.flush()?;
            }
            return plain_line();
        };
        loop {
            return Ok(match editor.read_line(&Sign { first })? {
                Signal::Success(line) => Line::Text(line),
                Signal::CtrlD => Line::End,
                Signal::CtrlC => Line::Interrupt,
                Signal::HostCommand(command) if command == SUSPEND => {
                    interrupt::suspend();
                    continue;
                }
                Signal::HostCommand(command) if command == INTERRUPT => {
                    let is_empty = editor.current_buffer_contents().is_empty();
                    editor.run_edit_commands(&[EditCommand::Clear]);
                    // Only here the editor leaves the cursor inside the line.
                    writeln!(crate::stdout::stream())?;
                    if !is_empty {
                        continue;
                    }
                    Line::Interrupt
                }
                _ => continue,
            });
        }
    }
}

impl LineRules {
    /// The message that lines make. Lines without text are passed over. Ctrl-C takes back what was typed; where that is nothing,
    /// the second one in a row leaves, so that one press too many loses no conversation.
    fn message(self, mut line: impl FnMut(bool) -> anyhow::Result<Line>) -> anyhow::Result<Said> {
        let mut message = String::new();
        let mut was_warned = false;
        loop {
            let line = match line(message.is_empty())? {
                Line::Text(line) => line,
                Line::End if !message.is_empty() => return Ok(Said::Text(message)),
                Line::End => return Ok(Said::End),
                Line::Interrupt if !message.is_empty() => {
                    message.clear();
                    continue;
                }
                Line::Interrupt if was_warned => return Ok(Said::End),
                Line::Interrupt => {
                    was_warned = true;
                    say!("Ctrl-C once more leaves, as Ctrl-D does");
                    continue;
                }
            };
            was_warned = false;
            let marked = line.strip_suffix('\\').filter(|_| self.marks);
            let is_command = self.commands
                && self.multiline
                && message.is_empty()
                && line.starts_with('/')
                && !matches!(Command::of(line.clone()), Command::Message(_));
            message.push_str(marked.unwrap_or(&line));
            if marked.is_some() != self.multiline && !is_command {
                message.push('\n');
                continue;
            }
            if !message.trim().is_empty() {
                return Ok(Said::Text(message));
            }
            message.clear();
        }
    }
}

/// The usual keys, but Ctrl-C tells apart whether something is typed, and Ctrl-Z suspends as it does elsewhere.
fn edit_mode() -> Emacs {
    let mut keys = default_emacs_keybindings();
    let mut bind = |key, command: &str| {
        let event = ReedlineEvent::ExecuteHostCommand(command.into());
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char(key), event);
    };
    bind('c', INTERRUPT);
    if interrupt::CAN_SUSPEND {
        bind('z', SUSPEND);
    }
    Emacs::new(keys)
}

/// A line of standard input; bytes that are no text become U+FFFD.
fn plain_line() -> anyhow::Result<Line> {
    let mut line = Vec::new();
    let n = std::io::stdin()
        .lock()
        .read_until(b'\n', &mut line)
        .context("cannot read standard input")?;
    if n == 0 {
        return Ok(Line::End);
    }
    let text = String::from_utf8_lossy(&line);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(Line::Text(
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What a person says with these lines; `^C` stands for Ctrl-C.
    fn said(rules: LineRules, lines: &[&str]) -> Vec<Said> {
        let mut lines = lines.iter();
        let mut next = |_| {
            Ok(match lines.next() {
                None => Line::End,
                Some(&"^C") => Line::Interrupt,
                Some(line) => Line::Text((*line).to_owned()),
            })
        };
        let mut all = Vec::new();
        loop {
            match rules.message(&mut next).expect("nothing fails") {
                Said::End => return all,
                text => all.push(text),
            }
        }
    }

    fn texts(texts: &[&str]) -> Vec<Said> {
        let texts = texts.iter().map(|text| Said::Text((*text).to_owned()));
        texts.collect()
    }

    const TYPED: LineRules = LineRules {
        multiline: false,
        marks: true,
        commands: true,
    };

    #[test]
    fn a_second_interrupt_where_nothing_is_typed_ends_the_input() {
        let behind = ["^C", "^C", "never read"];
        assert_eq!(said(TYPED, &behind), []);
        let between = ["^C", "a", "^C", "b\\", "^C", "c", "^C", "^C", "d"];
        assert_eq!(said(TYPED, &between), texts(&["a", "c"]));
    }

    #[test]
    fn several_lines_end_by_a_mark_and_commands_need_none() {
        let lines = ["/clear", "a", "/exit", "b\\", "/usr/bin", "c\\", "/exit\\"];
        let several = LineRules {
            multiline: true,
            ..TYPED
        };
        let expected = ["/clear", "a\n/exit\nb", "/usr/bin\nc", "/exit"];
        assert_eq!(said(several, &lines), texts(&expected));
        // Without commands a line that looks like one is a part of the text.
        let plain = LineRules {
            commands: false,
            ..several
        };
        assert_eq!(
            said(plain, &lines)[0],
            Said::Text("/clear\na\n/exit\nb".to_owned())
        );
        assert_eq!(said(TYPED, &["a\\", "b"]), texts(&["a\nb"]));
    }
}
