//! A list of hashes for files whose names it does not have: by the names of tensors alone.

use std::collections::HashMap;

use super::manifest::{FILE_SHA256, Manifest, Outcome};

/// The hashes of one model, whatever its files are called and however it is divided into them.
#[derive(Debug)]
pub struct RenamedManifest<'a> {
    /// By kind and tensor, which is empty for all tensor data.
    hashes: HashMap<(&'static str, &'a str), &'a str>,
    /// The hashes of whole files.
    files: Vec<&'a str>,
    first_file: &'a str,
}

impl<'a> RenamedManifest<'a> {
    /// The list without the names of files; nothing where they are needed, since its lines contradict each other then.
    pub fn of(manifest: &'a Manifest) -> Option<RenamedManifest<'a>> {
        let mut renamed = RenamedManifest {
            hashes: HashMap::new(),
            files: Vec::new(),
            first_file: "",
        };
        for (kind, name, hash) in manifest.entries() {
            let (file, tensor) = parts(name);
            if renamed.first_file.is_empty() {
                renamed.first_file = file;
            }
            if kind == FILE_SHA256 {
                renamed.files.push(hash);
                continue;
            }
            let first = *renamed.hashes.entry((kind, tensor)).or_insert(hash);
            if !first.eq_ignore_ascii_case(hash) {
                return None;
            }
        }
        Some(renamed)
    }

    /// A file that the list names.
    pub fn file(&self) -> &str {
        self.first_file
    }

    /// What the list says of a hash of one of `n_files` files.
    pub fn outcome(&self, kind: &'static str, name: &str, hash: &str, n_files: usize) -> Outcome {
        let is_equal = |listed: &&str| listed.eq_ignore_ascii_case(hash);
        if kind == FILE_SHA256 {
            // One file with another hash is another file; of several, none tells which one was meant.
            return match (self.files.iter().any(is_equal), self.files.len(), n_files) {
                (true, _, _) => Outcome::Equal,
                (false, 1, 1) => Outcome::Different,
                _ => Outcome::Absent,
            };
        }
        match self.hashes.get(&(kind, parts(name).1)) {
            None => Outcome::Absent,
            Some(listed) if is_equal(listed) => Outcome::Equal,
            Some(_) => Outcome::Different,
        }
    }
}

/// File and tensor of a name in a list.
fn parts(name: &str) -> (&str, &str) {
    let end = name.find(".gguf:").map(|at| at + ".gguf".len());
    end.map_or((name, ""), |end| (&name[..end], &name[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_do_not_count_where_lines_agree() {
        let text = "sha1 aa  a.gguf:x\nsha1 bb  b.gguf:y\nsha1 cc  a.gguf\n";
        let manifest = Manifest::parse(text);
        let renamed = RenamedManifest::of(&manifest).expect("one model");
        assert_eq!(renamed.file(), "a.gguf");
        let outcome = |name, hash| renamed.outcome("sha1", name, hash, 1);
        assert_eq!(outcome("new.gguf:y", "BB"), Outcome::Equal);
        assert_eq!(outcome("new.gguf:x", "bb"), Outcome::Different);
        assert_eq!(outcome("new.gguf:z", "bb"), Outcome::Absent);
        assert_eq!(outcome("new.gguf", "cc"), Outcome::Equal);
        // Two models.
        let manifest = Manifest::parse("sha1 aa  a.gguf:x\nsha1 bb  b.gguf:x\n");
        assert!(RenamedManifest::of(&manifest).is_none());
        // Whole files, of which any may be the one.
        let [one, two, three] = ["aa", "bb", "cc"].map(|byte| byte.repeat(32));
        let manifest = Manifest::parse(&format!("{one}  a\n{two}  b\n"));
        let renamed = RenamedManifest::of(&manifest).expect("no line contradicts another");
        let outcome = |hash| renamed.outcome(FILE_SHA256, "c.gguf", hash, 1);
        assert_eq!(outcome(&two), Outcome::Equal);
        assert_eq!(outcome(&three), Outcome::Absent);
    }
}
