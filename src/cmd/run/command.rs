//! What a line at the terminal asks for: a message to the model, or something of the chat itself.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::failure::Hint;

const HELP: &str = "/exit        leave (as /quit and Ctrl-D)
/clear       forget the conversation
/regen       another answer to the last message
/read FILE   put a file's text before the next message
/glob NAMES  the same with every file that a pattern such as src/*.rs names
/system TEXT give other instructions; without a text, tell them
/result TEXT what the function answered that the model called
/save FILE   write the conversation to a new file, as JSON
/load FILE   go on with the conversation of a file
A line that ends with a backslash goes on in the next one; with -mli every line does, until one ends with a backslash
Ctrl-C stops an answer, and at the prompt takes back what is typed; on an empty line, twice, it leaves
Ctrl-Z suspends; a space before a slash makes the line a message";

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// To answer it.
    Message(String),
    /// To leave.
    Exit,
    /// To forget the conversation.
    Clear,
    /// Another answer.
    Regen,
    /// A file's text for the next message.
    Read(PathBuf),
    /// The texts of all files of a pattern.
    Glob(String),
    /// To tell the instructions, or to give others.
    System(String),
    /// What a called function answered.
    Result(String),
    /// To write the conversation to a file.
    Save(PathBuf),
    /// To go on with another conversation.
    Load(PathBuf),
    /// Nothing but to be told these lines.
    Say(String),
}

impl Command {
    /// The command of a line. Pasted lines are never one, nor is a line that begins with a path or a space.
    pub fn of(text: String) -> Self {
        let line = text.trim_end();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        if line.contains('\n') {
            return Command::Message(text);
        }
        if matches!(line, "exit" | "quit") {
            return Command::Say(format!(
                "/{line} leaves; a space before it makes it a message"
            ));
        }
        let is_command = |name: &str| !name.is_empty() && name.bytes().all(is_letter);
        let Some(name) = word.strip_prefix('/').filter(|name| is_command(name)) else {
            return Command::Message(text);
        };
        match (name, rest) {
            ("exit" | "quit", "") => Command::Exit,
            ("clear", "") => Command::Clear,
            ("help", _) => Command::Say(HELP.into()),
            ("regen", "") => Command::Regen,
            ("read", "") => Command::Say("/read takes the name of a file".into()),
            ("read", path) => Command::Read(path_of(path, std::env::home_dir())),
            ("glob", "") => Command::Say("/glob takes a pattern, such as src/*.rs".into()),
            ("glob", pattern) => Command::Glob(pattern.into()),
            ("system", text) => Command::System(text.into()),
            ("result", "") => Command::Say("/result takes what the function answered".into()),
            ("result", text) => Command::Result(text.into()),
            ("save" | "load", "") => Command::Say(format!("{word} takes the name of a file")),
            ("save", path) => Command::Save(path_of(path, std::env::home_dir())),
            ("load", path) => Command::Load(path_of(path, std::env::home_dir())),
            ("image" | "audio" | "video", _) => Command::Say(format!(
                "{word} is not supported: models here read text alone; a space before the slash makes the line a message"
            )),
            ("exit" | "quit" | "clear" | "regen", _) => Command::Say(format!(
                "{word} takes no words after it; a space before the slash makes the line a message"
            )),
            _ => Command::Say(format!(
                "there is no command {word}; /help lists them, and a space before the slash makes the line a message"
            )),
        }
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'-' || byte == b'_'
}

/// The path that was typed, as a shell would take it: one pair of quotes is dropped, a backslash takes the next character as
/// it is, and a tilde in front is the home folder. A file whose very name was typed goes before that.
fn path_of(typed: &str, home: Option<PathBuf>) -> PathBuf {
    if Path::new(typed).exists() {
        return typed.into();
    }
    for quote in ['\'', '"'] {
        let inside = typed.strip_prefix(quote);
        if let Some(inside) = inside.and_then(|inside| inside.strip_suffix(quote)) {
            return inside.into();
        }
    }
    // On Windows a backslash separates folders.
    let plain = match cfg!(windows) {
        true => typed.to_owned(),
        false => unescaped(typed),
    };
    match (plain.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => plain.into(),
    }
}

fn unescaped(typed: &str) -> String {
    let mut out = String::with_capacity(typed.len());
    let mut characters = typed.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => out.extend(characters.next()),
            other => out.push(other),
        }
    }
    out
}

/// The files that a pattern names, in order.
///
/// # Errors
/// A pattern that cannot be read, and one that names no file.
pub fn files_of(pattern: &str) -> anyhow::Result<Vec<PathBuf>> {
    let typed = path_of(pattern, std::env::home_dir());
    let paths = glob::glob(&typed.to_string_lossy())
        .with_context(|| format!("{pattern}: is no pattern"))?;
    let files: Vec<PathBuf> = paths.flatten().filter(|path| path.is_file()).collect();
    if files.is_empty() {
        return Err(anyhow::anyhow!("{pattern}: names no file").context(Hint::new(
            "give a pattern of files that are there, such as src/*.rs; `**` goes through folders",
        )));
    }
    Ok(files)
}

/// The text of a file.
///
/// # Errors
/// A file that cannot be read, or that is no text.
pub fn read_text(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let bytes = std::fs::read(path).with_context(|| format!("{shown}: cannot read it"))?;
    String::from_utf8(bytes).map_err(|_| {
        anyhow::anyhow!("{shown}: is no text in UTF-8")
            .context(Hint::new("give a text file; a model reads nothing else"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_unknown_command_reaches_the_model() {
        for line in ["/foo", "/foo bar", "/image cat.png", "/regen now", "exit"] {
            let Command::Say(told) = Command::of(line.into()) else {
                panic!("{line}");
            };
            assert!(told.contains("a space before"), "{told}");
        }
        for line in [
            " /foo bar",
            "/usr/bin is full",
            "/",
            "// a comment",
            "/5",
            "exit it",
            "/a\n/b",
        ] {
            assert_eq!(Command::of(line.into()), Command::Message(line.into()));
        }
        assert_eq!(Command::of("/exit ".into()), Command::Exit);
        assert_eq!(
            Command::of("/read  a b".into()),
            Command::Read("a b".into())
        );
    }

    #[cfg(unix)]
    #[test]
    fn paths_are_taken_as_a_shell_takes_them() {
        let path = |typed| path_of(typed, Some("/home/me".into()));
        assert_eq!(path("~/a"), Path::new("/home/me/a"));
        assert_eq!(path("'my file.txt'"), Path::new("my file.txt"));
        assert_eq!(path("\"it's\""), Path::new("it's"));
        assert_eq!(path("my\\ file"), Path::new("my file"));
        assert_eq!(path("a~/b c"), Path::new("a~/b c"));
    }
}
