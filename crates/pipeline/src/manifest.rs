//! `manifest.json`: what a model file was made from, by what and how.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use gristmill_gguf::sha256_of_file;

use crate::PipelineError;

/// The manifest of a run.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Manifest {
    /// Name of the model, as given.
    pub model_name: String,
    /// The checkpoint's folder, as given.
    pub source_hf_dir: String,
    /// SHA-256 of every file of the checkpoint, by name.
    pub source_sha256: Vec<FileHash>,
    /// Version and commit of the program.
    pub gristmill: String,
    /// The unquantized file.
    pub bf16_file: String,
    /// Its size in bytes.
    pub bf16_bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub bf16_sha256: String,
    /// Whether that file was there already and was taken as it is.
    pub bf16_reused: bool,
    /// The recipe.
    pub quant_type: String,
    /// The quantized file.
    pub quant_file: String,
    /// Its size in bytes.
    pub quant_bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub quant_sha256: String,
    /// Whether importance data was used.
    pub use_imatrix: bool,
}

impl Manifest {
    /// The manifest as the text of `manifest.json`.
    pub fn to_json(&self) -> String {
        // Strings, numbers and lists of them always have a form in JSON.
        serde_json::to_string_pretty(self).expect("a manifest can be written as JSON") + "\n"
    }
}

/// A file and its hash.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct FileHash {
    /// Name inside its folder.
    pub file: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256, in hexadecimal.
    pub sha256: String,
}

/// Size and hash of a file, read once.
pub fn hash_file(path: &Path) -> Result<FileHash, PipelineError> {
    let mut bytes = 0;
    let sha256 = sha256_of_file(path, &mut |n| bytes += n)?;
    Ok(FileHash {
        file: file_name(path),
        bytes,
        sha256,
    })
}

/// The last part of a path, as text.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// A line as `sha256sum -c` reads it. Names with line breaks or backslashes are escaped, which a backslash in front says.
pub(crate) fn checksum_line(hash: &FileHash, path: &Path) -> String {
    let name = path.display().to_string();
    let escaped = name
        .replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('\r', "\\r");
    let mark = if escaped == name { "" } else { "\\" };
    format!("{mark}{}  {escaped}\n", hash.sha256)
}

/// What an unquantized file was made from, kept beside it: only then another run may take it as it is.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct SourceRecord {
    /// The file.
    pub file: FileHash,
    /// The files of the checkpoint.
    pub source_sha256: Vec<FileHash>,
}

impl SourceRecord {
    /// The record at this path; none where nothing, or nothing that is a record, is there.
    pub fn read(path: &Path) -> Result<Option<Self>, PipelineError> {
        /// Far above the record of the largest checkpoint.
        const BYTES_MAX: u64 = 16 << 20;
        let error = |source| PipelineError::io(path, source);
        if !path.is_file() {
            return Ok(None);
        }
        let mut text = Vec::new();
        let file = File::open(path).map_err(error)?;
        file.take(BYTES_MAX).read_to_end(&mut text).map_err(error)?;
        Ok(serde_json::from_slice(&text).ok())
    }

    /// Writes the record, in place of an older one.
    pub fn write(&self, path: &Path) -> Result<(), PipelineError> {
        // Strings, numbers and lists of them always have a form in JSON.
        let text = serde_json::to_string_pretty(self).expect("a record can be written as JSON");
        let options = gristmill_gguf::WriteOptions {
            force: true,
            ..Default::default()
        };
        let mut output = gristmill_gguf::OutputFile::create(path, text.len() as u64, &options)?;
        std::io::Write::write_all(&mut output, text.as_bytes())
            .map_err(|source| PipelineError::io(path, source))?;
        Ok(output.commit()?)
    }
}

/// Hashes of the files directly inside a folder, by name. A link that leads nowhere is an error: the folder is not whole.
pub fn hash_folder(folder: &Path) -> Result<Vec<FileHash>, PipelineError> {
    let error = |source| PipelineError::io(folder, source);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(error)? {
        let path = entry.map_err(error)?.path();
        let about = std::fs::metadata(&path).map_err(|source| PipelineError::io(&path, source))?;
        if about.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    paths.iter().map(|path| hash_file(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_fips_180() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("b"), "abc").unwrap();
        std::fs::write(place.path().join("a"), "").unwrap();
        let hashes = hash_folder(place.path()).unwrap();
        assert_eq!(
            hashes[0].sha256,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(
            hashes[1].sha256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!((hashes[1].file.as_str(), hashes[1].bytes), ("b", 3));
    }

    #[test]
    fn a_link_to_nowhere_is_named() {
        let place = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("gone", place.path().join("weights")).unwrap();
        let error = hash_folder(place.path()).unwrap_err().to_string();
        assert!(error.contains("weights: "), "{error}");
    }

    #[test]
    fn lines_of_checksums_are_escaped_as_their_reader_expects() {
        let hash = FileHash {
            file: "x".into(),
            bytes: 0,
            sha256: "00ff".into(),
        };
        let line = |path: &str| checksum_line(&hash, Path::new(path));
        assert_eq!(line("a/b c.gguf"), "00ff  a/b c.gguf\n");
        assert_eq!(line("a\nb\\c"), "\\00ff  a\\nb\\\\c\n");
    }
}
