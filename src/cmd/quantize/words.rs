//! The words after the flags: `IN [OUT] TYPE [NTHREADS]`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::anyhow;

use super::usage;
use crate::failure::Hint;
use crate::numbers;

/// The words, sorted.
#[derive(Debug, PartialEq)]
pub struct Words {
    pub input: PathBuf,
    pub output: PathBuf,
    /// None where types are chosen for a size.
    pub recipe: Option<String>,
    /// 0 for one per processor.
    pub n_threads: usize,
}

impl Words {
    /// Sorts the words by the reference's rule: if the one after IN names a recipe, the output's name is derived. Paths
    /// need not be text.
    pub fn of(
        words: &[OsString],
        recipe_name: impl Fn(&str) -> Option<&'static str>,
    ) -> anyhow::Result<Words> {
        let no_type = || usage("no type given");
        let input = Path::new(words.first().ok_or_else(no_type)?);
        let second = words.get(1).ok_or_else(no_type)?;
        let (output, recipe, rest) = match second.to_str().and_then(recipe_name) {
            Some(name) => (
                input.with_file_name(format!("ggml-model-{name}.gguf")),
                second,
                &words[2..],
            ),
            None => (
                PathBuf::from(second),
                words.get(2).ok_or_else(no_type)?,
                &words[3..],
            ),
        };
        Ok(Words {
            input: input.to_owned(),
            output,
            recipe: Some(recipe.to_string_lossy().into_owned()),
            n_threads: threads(rest)?,
        })
    }

    /// Sorts words without a type: `IN OUT [NTHREADS]`.
    pub fn without_type(
        words: &[OsString],
        recipe_name: impl Fn(&str) -> Option<&'static str>,
    ) -> anyhow::Result<Words> {
        let named = words.iter().skip(1).take(2).find_map(|word| {
            let word = word.to_str()?;
            // A number is more likely one of threads.
            recipe_name(word).filter(|_| word.parse::<u32>().is_err())
        });
        if let Some(name) = named {
            return Err(
                anyhow!("a target chooses types by itself, and {name} names one")
                    .context(Hint::new("leave the type out, or the target")),
            );
        }
        let [input, output, rest @ ..] = words else {
            let problem = anyhow!("no output given, and a target derives no name for it");
            return Err(problem.context(Hint::new(
                "usage: gristmill quantize --target-bpw X (or --target-size SIZE) IN OUT [NTHREADS]",
            )));
        };
        Ok(Words {
            input: input.into(),
            output: output.into(),
            recipe: None,
            n_threads: threads(rest)?,
        })
    }
}

fn threads(rest: &[OsString]) -> anyhow::Result<usize> {
    match rest {
        [] => Ok(0),
        [n] => {
            let n = n.to_string_lossy();
            let threads = numbers::threads(&n);
            let threads = threads.map_err(|wrong| anyhow!("NTHREADS is {n:?}: {wrong}"))?;
            Ok(threads.or_zero())
        }
        [_, extra, ..] => Err(anyhow!("{extra:?} is one word too many")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe_name(word: &str) -> Option<&'static str> {
        (word.eq_ignore_ascii_case("q4_k_m") || word == "15").then_some("Q4_K_M")
    }

    fn shown(words: anyhow::Result<Words>) -> String {
        match words {
            Ok(words) => format!(
                "{} -> {} {} {}",
                words.input.display(),
                words.output.display(),
                words.recipe.unwrap_or_default(),
                words.n_threads
            ),
            Err(error) => error.root_cause().to_string(),
        }
    }

    fn split(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn sorted(line: &str) -> String {
        shown(Words::of(&split(line), recipe_name))
    }

    #[test]
    fn a_target_takes_no_type() {
        let sorted = |line: &str| shown(Words::without_type(&split(line), recipe_name));
        assert_eq!(sorted("a.gguf b.gguf"), "a.gguf -> b.gguf  0");
        assert_eq!(sorted("a.gguf b.gguf 15"), "a.gguf -> b.gguf  15");
        assert_eq!(
            sorted("a.gguf b.gguf Q4_K_M"),
            "a target chooses types by itself, and Q4_K_M names one"
        );
        assert_eq!(
            sorted("a.gguf"),
            "no output given, and a target derives no name for it"
        );
    }

    #[test]
    #[cfg(unix)]
    fn paths_need_not_be_text() {
        use std::os::unix::ffi::OsStringExt as _;
        let path = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let words = [path(b"a\xff.gguf"), path(b"b\xfe.gguf"), path(b"Q4_K_M")];
        let words = Words::of(&words, recipe_name).expect("all is there");
        assert_eq!(words.input.as_os_str(), &*path(b"a\xff.gguf"));
        assert_eq!(words.output.as_os_str(), &*path(b"b\xfe.gguf"));
    }

    #[test]
    fn the_output_is_derived_where_the_second_word_is_a_type() {
        assert_eq!(sorted("a.gguf b.gguf q4_k_m"), "a.gguf -> b.gguf q4_k_m 0");
        assert_eq!(sorted("a.gguf b.gguf 15 8"), "a.gguf -> b.gguf 15 8");
        assert_eq!(
            sorted("dir/a.gguf q4_k_m"),
            "dir/a.gguf -> dir/ggml-model-Q4_K_M.gguf q4_k_m 0"
        );
        assert_eq!(
            sorted("a.gguf 15 4"),
            "a.gguf -> ggml-model-Q4_K_M.gguf 15 4"
        );
    }

    #[test]
    fn missing_and_superfluous_words_are_named() {
        assert_eq!(sorted("a.gguf"), "no type given");
        assert_eq!(sorted("a.gguf b.gguf"), "no type given");
        assert_eq!(
            sorted("a.gguf b.gguf q4_k_m x"),
            "NTHREADS is \"x\": it must be a whole number up to 512; 0 or less takes one thread per processor"
        );
        assert_eq!(sorted("a.gguf q4_k_m 4 5"), "\"5\" is one word too many");
    }
}
