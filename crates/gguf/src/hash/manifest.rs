//! Lists of hashes, as this crate, the reference and `sha256sum` write them.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;

use super::HashKind;
use crate::error::{Error, Result};

/// The most bytes of a list: far more than a line for each tensor of any model takes.
const BYTES_MAX: u64 = 64 << 20;
/// The name of a whole file's SHA-256 in our lists; other tools pass over it.
pub const FILE_SHA256: &str = "file-sha256";

/// A list of hashes.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    text: String,
    /// In the order of [`Manifest::key`], and where that is equal, of the text.
    lines: Vec<Line>,
}

/// Where the parts of a line stand in the text: a list may have millions of lines.
#[derive(Clone, Debug)]
struct Line {
    kind: Kind,
    hash: Range<u32>,
    name: Range<u32>,
    /// In the text that was read, from 1.
    number: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    File,
    /// The place in [`HashKind::ALL`].
    Data(usize),
}

impl Kind {
    fn from_name(name: &str) -> Option<Kind> {
        if name == FILE_SHA256 {
            return Some(Kind::File);
        }
        let mut known = HashKind::ALL.into_iter();
        known.position(|kind| kind.name() == name).map(Kind::Data)
    }
}

/// What a list says of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is the one in the list.
    Equal,
    /// The list has another one.
    Different,
    /// The list has none.
    Absent,
}

impl Manifest {
    /// Reads a list: lines of kind, hash and name, or those of `sha256sum`. Other lines are passed over.
    ///
    /// # Errors
    /// What the system says, [`Error::NotRegular`] for what is no file, [`Error::ListTooLong`], [`Error::ListDamaged`],
    /// [`Error::ListContradicts`], [`Error::NoManifest`] for a file that holds nothing of the kind.
    pub fn read(path: &Path) -> Result<Manifest> {
        let manifest = Manifest::of_text(&Manifest::read_text(path)?, path)?;
        if manifest.lines.is_empty() {
            return Err(Error::NoManifest {
                path: path.to_owned(),
            });
        }
        Ok(manifest)
    }

    /// The text of a list, of whatever form.
    ///
    /// # Errors
    /// Those of [`Manifest::read`], save for the last three.
    pub fn read_text(path: &Path) -> Result<String> {
        let io = |source| Error::io(path, "read the list of hashes", source);
        // Before it is opened: to open a pipe is to wait for its writer.
        if !std::fs::metadata(path).map_err(io)?.is_file() {
            return Err(Error::NotRegular {
                path: path.to_owned(),
            });
        }
        let file = std::fs::File::open(path).map_err(io)?;
        let too_long = || Error::ListTooLong {
            path: path.to_owned(),
            limit: BYTES_MAX,
        };
        if file.metadata().map_err(io)?.len() > BYTES_MAX {
            return Err(too_long());
        }
        let mut bytes = Vec::new();
        // It may grow meanwhile.
        file.take(BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(io)?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(too_long());
        }
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// A list from the text of a file, which is only named in messages.
    ///
    /// # Errors
    /// [`Error::ListDamaged`] where a line is cut, [`Error::ListContradicts`] where a file has two hashes of one kind.
    pub fn of_text(text: &str, path: &Path) -> Result<Manifest> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let ends = text.is_empty() || text.ends_with('\n');
        let n_lines = text.lines().count();
        let mut lines = text.lines().enumerate();
        if let Some(index) =
            lines.position(|(index, line)| is_cut(line, ends || index + 1 < n_lines))
        {
            return Err(Error::ListDamaged {
                path: path.to_owned(),
                line: index + 1,
            });
        }
        let manifest = Manifest::parse(text);
        match manifest.contradiction() {
            None => Ok(manifest),
            Some((name, first, second)) => Err(Error::ListContradicts {
                path: path.to_owned(),
                name: name.to_owned(),
                first,
                second,
            }),
        }
    }

    /// The lines of a text that are hashes; others are passed over.
    pub fn parse(text: &str) -> Manifest {
        let mut manifest = Manifest::default();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            manifest.add_line(line, index + 1);
        }
        manifest.index();
        manifest
    }

    /// A list of SHA-256 hashes of whole files, each with the file's name.
    pub fn of_files<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Manifest {
        let mut manifest = Manifest::default();
        for (index, (name, hash)) in files.into_iter().enumerate() {
            manifest.add(Kind::File, hash, name, index + 1);
        }
        manifest.index();
        manifest
    }

    fn add_line(&mut self, text: &str, number: usize) -> Option<()> {
        let text = text.trim();
        let is_sha256 =
            |hash: &str| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        // As of `sha256sum --tag`.
        if let Some((name, hash)) = text
            .strip_prefix("SHA256 (")
            .and_then(|rest| rest.rsplit_once(") = "))
        {
            return is_sha256(hash).then(|| self.add(Kind::File, hash, name, number));
        }
        let (first, rest) = text.split_once(char::is_whitespace)?;
        // `sha256sum` puts a backslash before a line in whose name it had to escape something.
        let (escaped, first) = match first.strip_prefix('\\') {
            Some(first) => (true, first),
            None => (false, first),
        };
        if is_sha256(first) {
            // And a star before the name of a file that it read as binary.
            let name = rest.trim_start();
            let name = name.strip_prefix('*').unwrap_or(name);
            match escaped {
                true => self.add(Kind::File, first, &unescaped(name), number),
                false => self.add(Kind::File, first, name, number),
            }
            return Some(());
        }
        let kind = Kind::from_name(first)?;
        let (hash, name) = rest.trim_start().split_once(char::is_whitespace)?;
        self.add(kind, hash, name.trim_start(), number);
        Some(())
    }

    fn add(&mut self, kind: Kind, hash: &str, name: &str, number: usize) {
        let mut put = |part: &str| {
            let start = self.text.len();
            self.text.push_str(part);
            // A text of more than 4 GiB is never read; were it parsed all the same, its end would be passed over.
            Some(u32::try_from(start).ok()?..u32::try_from(self.text.len()).ok()?)
        };
        if let (Some(hash), Some(name)) = (put(hash), put(name)) {
            self.lines.push(Line {
                kind,
                hash,
                name,
                number,
            });
        }
    }

    fn index(&mut self) {
        let text = &self.text;
        let key = |line: &Line| (line.kind, bare(part(text, &line.name)));
        self.lines.sort_by(|a, b| key(a).cmp(&key(b)));
    }

    /// Whether there is a hash of this kind.
    pub fn has(&self, kind: HashKind) -> bool {
        Kind::from_name(kind.name()).is_some_and(|kind| self.has_kind(kind))
    }

    /// Whether there is a hash of a whole file.
    pub fn has_files(&self) -> bool {
        self.has_kind(Kind::File)
    }

    /// The first file or tensor of which the list has two hashes of one kind that differ, with the numbers of their lines,
    /// or for a list of [`Manifest::of_files`] of its items.
    pub fn contradiction(&self) -> Option<(&str, usize, usize)> {
        let name = |line: &Line| part(&self.text, &line.name).trim_start_matches("./");
        let hash = |line: &Line| part(&self.text, &line.hash);
        let mut lines: Vec<&Line> = self.lines.iter().collect();
        lines.sort_by_key(|line| (line.kind, name(line), line.number));
        let pairs = lines.windows(2).map(|pair| (pair[0], pair[1]));
        let contradicting = pairs.filter(|(one, other)| {
            let is_same = one.kind == other.kind && name(one) == name(other);
            is_same && !hash(one).eq_ignore_ascii_case(hash(other))
        });
        let first = contradicting.min_by_key(|(_, other)| other.number);
        first.map(|(one, other)| (name(one), one.number, other.number))
    }

    fn has_kind(&self, kind: Kind) -> bool {
        let start = self.lines.partition_point(|line| line.kind < kind);
        self.lines.get(start).is_some_and(|line| line.kind == kind)
    }

    /// The hash that the list has; `kind` is [`HashKind::name`] or [`FILE_SHA256`]. Of the lines with this name of a file,
    /// whatever its folder, that one counts whose path agrees with `name` the furthest: a list often lies beside its
    /// files, or in a folder above. Of equal ones the first counts.
    pub fn hash(&self, kind: &str, name: &str) -> Option<&str> {
        let kind = Kind::from_name(kind)?;
        let wanted = (kind, bare(name));
        let key = |line: &Line| (line.kind, bare(part(&self.text, &line.name)));
        let start = self.lines.partition_point(|line| key(line) < wanted);
        let same = self.lines[start..]
            .iter()
            .take_while(|line| key(line) == wanted);
        let nearest = same.min_by_key(|line| {
            let other = part(&self.text, &line.name);
            (other != name, Reverse(n_common(other, name)), other.len())
        });
        nearest.map(|line| part(&self.text, &line.hash))
    }

    /// Kind, name and hash of every line; the kind as in [`Manifest::hash`].
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'static str, &str, &str)> {
        self.lines.iter().map(|line| {
            let kind = match line.kind {
                Kind::File => FILE_SHA256,
                Kind::Data(place) => HashKind::ALL[place].name(),
            };
            (
                kind,
                part(&self.text, &line.name),
                part(&self.text, &line.hash),
            )
        })
    }

    /// The first name of a tensor of which the list has a hash of this kind, in one of the files whose names, without their
    /// folders, are chosen, and which is none of `tensors`.
    pub fn other_tensor(
        &self,
        kind: &str,
        tensors: &HashSet<&str>,
        is_chosen: impl Fn(&str) -> bool,
    ) -> Option<&str> {
        let names = self
            .entries()
            .filter(|entry| entry.0 == kind)
            .map(|entry| entry.1);
        let mut names = names.filter(|name| {
            let (file, tensor) = parts(bare(name));
            !tensor.is_empty() && !tensors.contains(tensor) && is_chosen(file)
        });
        names.next()
    }

    /// What the list says of a hash; see [`Manifest::hash`].
    pub fn outcome(&self, kind: &str, name: &str, hash: &str) -> Outcome {
        match self.hash(kind, name) {
            None => Outcome::Absent,
            Some(listed) if listed.eq_ignore_ascii_case(hash) => Outcome::Equal,
            Some(_) => Outcome::Different,
        }
    }
}

/// Digits by which a word is a hash, or the rest of one, and no word of a text.
const N_DIGITS: usize = 8;

/// Whether a line is the rest of one with a hash, for certain; `ends` where a line break follows.
fn is_cut(line: &str, ends: bool) -> bool {
    let is_hash = |word: &str| {
        let is_digit = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
        let has_digits = word.bytes().any(|byte| byte.is_ascii_hexdigit());
        (word.len() >= N_DIGITS || !ends) && has_digits && word.bytes().all(is_digit)
    };
    let line = line.trim();
    if let Some((_, hash)) = line
        .strip_prefix("SHA256 (")
        .and_then(|rest| rest.rsplit_once(") = "))
    {
        return is_hash(hash) && hash.len() != 64;
    }
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or_default();
    let n_digits = match Kind::from_name(first) {
        None => {
            // As long as an MD5 or SHA-1 it is a hash of another kind.
            let is_short =
                (N_DIGITS..64).contains(&first.len()) && ![32, 40].contains(&first.len());
            return !ends && words.next().is_none() && is_short && is_hash(first);
        }
        Some(Kind::File) => 64,
        Some(Kind::Data(place)) => HashKind::ALL[place].n_digits(),
    };
    match words.next() {
        None => !ends,
        Some(hash) => is_hash(hash) && (hash.len() != n_digits || words.next().is_none()),
    }
}

fn part<'a>(text: &'a str, range: &Range<u32>) -> &'a str {
    // Ranges are those of parts that were put there.
    text.get(range.start as usize..range.end as usize)
        .unwrap_or_default()
}

/// How many bytes two names have in common at their ends.
fn n_common(one: &str, other: &str) -> usize {
    let pairs = one.bytes().rev().zip(other.bytes().rev());
    pairs.take_while(|(one, other)| one == other).count()
}

/// A name without the folder of its file. Names of tensors, behind a colon, stay whole.
fn bare(name: &str) -> &str {
    let (file, _) = name.split_once(".gguf:").unwrap_or((name, ""));
    let folder = file.rfind(['/', '\\']).map_or(0, |slash| slash + 1);
    &name[folder..]
}

/// File and tensor of a name in a list; the tensor is empty where there is none.
pub(super) fn parts(name: &str) -> (&str, &str) {
    let end = name.find(".gguf:").map(|at| at + ".gguf".len());
    end.map_or((name, ""), |end| (&name[..end], &name[end + 1..]))
}

/// A name as `sha256sum` escapes it.
fn unescaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name.chars();
    while let Some(c) = rest.next() {
        out.push(match c {
            '\\' => match rest.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                other => other.unwrap_or('\\'),
            },
            c => c,
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_cut_is_damage() {
        let hash = "ab".repeat(32);
        let uuid = "d0025644-44b9-57a3-a6ae-a2b9dc8becc6";
        let md5 = "0123456789abcdef0123456789abcdef";
        // Each with what a cut inside its last hash takes.
        let whole = [
            (
                format!("sha256    {hash}  a.gguf:x\nfile-sha256  {hash}  a.gguf"),
                18,
            ),
            (format!("{hash}  a.gguf"), 18),
            (format!("SHA256 (a.gguf) = {hash}"), 10),
            // Words, a bare hash, and those of other tools.
            (format!("sha256 of all files:\n{hash}\n{md5}  a.gguf"), 18),
            (format!("uuid  {uuid}  a.gguf"), 18),
        ];
        let line = |text: &str| match Manifest::of_text(text, Path::new("list")) {
            Err(Error::ListDamaged { line, .. }) => Some(line),
            read => read.map(|_| None).expect("there is no other error"),
        };
        for (text, n_lost) in whole {
            // The line break at the end may be missing.
            assert_eq!(line(&text), None, "{text}");
            assert_eq!(line(&format!("{text}\n")), None, "{text}");
            let cut = &text[..text.len() - n_lost];
            assert_eq!(line(cut), Some(text.lines().count()), "{text}");
        }
        let middle = format!("sha1  {}\nxxh64  0123456789abcdef  a.gguf\n", &hash[..40]);
        assert_eq!(line(&middle), Some(1));
        assert_eq!(line("x\nxxh64  0123456789abcde  a.gguf\n"), Some(2));
    }

    #[test]
    fn lines_of_every_tool_are_read() {
        let hash = "ab".repeat(32);
        let text = format!(
            "# words\nsha256    {hash}  dir/a.gguf:blk.0/x\nxxh64     15fb1e2f45746371  a b.gguf\n{hash}  *c.gguf\n{hash}  d.gguf\nmd5 00 e.gguf\nSHA256 (./f.gguf) = {hash}\n\\{hash}  g\\\\\\nh.gguf\n"
        );
        let manifest = Manifest::parse(&text);
        assert_eq!(manifest.lines.len(), 6);
        assert!(manifest.has(HashKind::Xxh64) && manifest.has_files());
        assert!(!manifest.has(HashKind::Uuid) && !manifest.has(HashKind::Sha1));
        let outcome = |kind, name, hash: &str| manifest.outcome(kind, name, hash);
        assert_eq!(
            outcome("sha256", "a.gguf:blk.0/x", &hash.to_uppercase()),
            Outcome::Equal
        );
        assert_eq!(
            outcome("xxh64", "/m/a b.gguf", "15fb1e2f45746372"),
            Outcome::Different
        );
        for name in ["c.gguf", "x/f.gguf", "g\\\nh.gguf"] {
            assert_eq!(outcome(FILE_SHA256, name, &hash), Outcome::Equal, "{name}");
        }
        assert_eq!(outcome("sha256", "c.gguf", &hash), Outcome::Absent);
    }
}
