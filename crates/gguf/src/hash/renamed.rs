//! A list of hashes for files whose names it does not have: by the names of tensors alone.

use std::collections::{BTreeMap, HashMap};

use super::manifest::{FILE_SHA256, Manifest, Outcome, parts};

/// The hashes of one model, whatever its files are called and however it is divided into them.
#[derive(Debug)]
pub struct RenamedManifest<'a> {
    /// By kind and tensor, which is empty for all tensor data.
    hashes: HashMap<(&'static str, &'a str), &'a str>,
    /// The hashes of whole files, by name.
    files: BTreeMap<&'a str, &'a str>,
    first_file: &'a str,
}

impl<'a> RenamedManifest<'a> {
    /// The list without the names of files; nothing where they are needed, since its lines contradict each other then.
    pub fn of(manifest: &'a Manifest) -> Option<RenamedManifest<'a>> {
        let mut renamed = RenamedManifest {
            hashes: HashMap::new(),
            files: BTreeMap::new(),
            first_file: "",
        };
        for (kind, name, hash) in manifest.entries() {
            let (file, tensor) = parts(name);
            if renamed.first_file.is_empty() {
                renamed.first_file = file;
            }
            if kind == FILE_SHA256 {
                renamed.files.insert(name, hash);
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

    /// What the list says of the hash of one of the `n_files` whole files of a model.
    pub fn file_outcome(&self, hash: &str, n_files: usize) -> Outcome {
        let mut listed = self.files.values();
        if listed.any(|listed| listed.eq_ignore_ascii_case(hash)) {
            return Outcome::Equal;
        }
        // As many files with other hashes are other files; of more or fewer, none tells which one was meant.
        match self.files.len() == n_files {
            true => Outcome::Different,
            false => Outcome::Absent,
        }
    }

    /// What the list says of a hash of tensor data.
    pub fn outcome(&self, kind: &'static str, name: &str, hash: &str) -> Outcome {
        let is_equal = |listed: &&str| listed.eq_ignore_ascii_case(hash);
        match self.hashes.get(&(kind, parts(name).1)) {
            None => Outcome::Absent,
            Some(listed) if is_equal(listed) => Outcome::Equal,
            Some(_) => Outcome::Different,
        }
    }
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
        let outcome = |name, hash| renamed.outcome("sha1", name, hash);
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
        assert_eq!(renamed.file_outcome(&two, 1), Outcome::Equal);
        assert_eq!(renamed.file_outcome(&three, 1), Outcome::Absent);
        assert_eq!(renamed.file_outcome(&three, 2), Outcome::Different);
    }
}
