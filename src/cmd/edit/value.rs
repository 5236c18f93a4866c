//! The keys that edits name, and the values that texts mean for them.

use std::fmt;
use std::path::Path;

use anyhow::anyhow;
use gristmill_gguf::edit::{value_of, value_type_of};
use gristmill_gguf::{FileType, KnownType, Metadata, Value, ValueType, known_key, near_keys};
use serde_json::Value as Json;

use super::json;
use crate::failure::Hint;

/// The file that is edited.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    pub path: &'a Path,
    pub metadata: &'a Metadata,
}

impl<'a> Target<'a> {
    /// A key, whether it is there or not.
    pub fn key(self, name: &'a str) -> Key<'a> {
        Key { target: self, name }
    }

    /// An error that names the file.
    pub fn error(self, reason: impl fmt::Display) -> anyhow::Error {
        anyhow!("{}: {reason}", self.path.display())
    }
}

/// A key of the file.
#[derive(Clone, Copy)]
pub struct Key<'a> {
    target: Target<'a>,
    name: &'a str,
}

impl<'a> Key<'a> {
    fn existing(self) -> Option<&'a Value> {
        self.target.metadata.get(self.name)
    }

    /// The type that the key has: in the file, else everywhere.
    fn known_type(self) -> Option<KnownType> {
        let known = || known_key(self.name).map(|known| known.ty);
        self.existing().map(KnownType::of).or_else(known)
    }

    fn error(self, reason: impl fmt::Display) -> anyhow::Error {
        let name = self.name;
        self.target
            .error(format!("metadata key {name:?}: {reason}"))
    }

    /// The value by the type in front of it, else by the type that the key has.
    pub fn value(self, text: &str) -> anyhow::Result<Value> {
        let of_key = self.known_type();
        if let Some((ty, text_after)) = type_prefix(text) {
            // Of a key that holds an array, this is the type of its elements.
            let is_list = text_after.trim_start().starts_with('[');
            if matches!(of_key, Some(KnownType::List(_))) && is_list {
                return self.array(text);
            }
            return self.scalar(text_after, ty).map_err(|error| {
                match is_list && ty != ValueType::String {
                    true => {
                        let argument = self.argument("", text);
                        error.context(Hint::new(format!("an array: --set-array {argument}")))
                    }
                    false => error,
                }
            });
        }
        match (of_key, misspelt_type(text)) {
            (Some(KnownType::List(_)), _) => self.array(text),
            (Some(KnownType::One(ty)), Some(_)) if self.existing().is_some() => {
                self.scalar(text, ty)
            }
            (_, Some(word)) => Err(self.no_such_type(word, text)),
            (Some(KnownType::One(ty)), None) => self.scalar(text, ty),
            (None, None) => Err(self.no_type(text)),
        }
    }

    fn scalar(self, text: &str, ty: ValueType) -> anyhow::Result<Value> {
        value_of(text, ty).map_err(|reason| {
            let error = self.error(reason);
            match file_type_named(text).filter(|_| self.name == "general.file_type") {
                Some(id) => error.context(Hint::new(format!("the number of {text} is {id}"))),
                None => error,
            }
        })
    }

    /// An array from JSON, with the type of its elements in front or from the key.
    pub fn array(self, text: &str) -> anyhow::Result<Value> {
        let (element, text) = match (type_prefix(text), self.known_type()) {
            (Some((ty, text)), _) => (Some(ty), text),
            (None, Some(KnownType::List(ty))) => (Some(ty), text),
            (None, _) => match misspelt_type(text) {
                Some(word) => return Err(self.no_such_type(word, text)),
                None => (None, text),
            },
        };
        let items: Json = serde_json::from_str(text).map_err(|error| {
            let hint =
                "an array is JSON: [\"a\",\"b\"] or [1,2], in quotes that the shell takes away";
            let text = self.error(format!("{text:?} is no JSON: {error}"));
            text.context(Hint::new(hint))
        })?;
        match element {
            Some(element) => json::array(&items, element).map_err(|reason| self.error(reason)),
            None => Err(self.no_type(text)),
        }
    }

    /// A value from a JSON object of keys.
    pub fn json(self, json: &Json) -> anyhow::Result<Value> {
        json::value(json, self.known_type()).map_err(|reason| self.error(reason))
    }

    /// The key is new, and no type stands in front of its value.
    fn no_type(self, text: &str) -> anyhow::Error {
        let error = anyhow!(
            "{}: metadata key {:?} is new, and its type is not given",
            self.target.path.display(),
            self.name
        );
        error.context(Hint::new(match serde_json::from_str(text) {
            Ok(Json::Array(items)) => match json::element_type(&items) {
                Ok(ty) => {
                    let argument = self.argument(&format!("{}:", short_name(ty)), text);
                    format!("put the type of its elements in front: --set-array {argument}")
                }
                Err(reason) => reason,
            },
            _ => {
                let ty = short_name(likely_type(text));
                let argument = self.argument(&format!("{ty}:"), text);
                format!("put a type in front of the value, as in {argument}")
            }
        }))
    }

    fn no_such_type(self, word: &str, text: &str) -> anyhow::Error {
        let argument = self.argument("str:", text);
        self.error(format!("{word:?} is no type"))
            .context(Hint::new(format!(
                "the types are {TYPES}; a text that begins so is {argument}"
            )))
    }

    /// An argument for this key as a shell takes it; what is too long for a message is left out.
    fn argument(self, ty: &str, text: &str) -> String {
        let text = if text.len() > 200 { "…" } else { text };
        let argument = format!("{}={ty}{text}", self.name);
        let is_plain = |c: char| c.is_alphanumeric() || "=:._-/,+@%".contains(c);
        match argument.chars().all(is_plain) {
            true => argument,
            false => format!("'{}'", argument.replace('\'', r"'\''")),
        }
    }

    /// Says of a key that is not there yet which one may have been meant.
    pub fn warn_of_near(self) {
        let (path, name) = (self.target.path.display(), self.name);
        if self.existing().is_some() || known_key(name).is_some() {
            return;
        }
        let near = near_keys(self.target.metadata, name);
        if !near.is_empty() {
            let near = near.join(", ");
            say!("warning: {path}: the key {name:?} is new; near it: {near}");
        } else if name.contains(char::is_whitespace) {
            say!("warning: {path}: the key {name:?} is new, and has spaces in it");
        }
    }

    /// Refuses a key that is not there, and names those that may have been meant.
    pub fn require(self) -> anyhow::Result<()> {
        if self.existing().is_some() {
            return Ok(());
        }
        let (path, name) = (self.target.path.display(), self.name);
        let error = anyhow!("{path}: metadata key {name:?} cannot be changed: it is not there");
        let mut near = near_keys(self.target.metadata, name);
        near.retain(|near| self.target.metadata.contains(near));
        Err(error.context(Hint::new(match near.is_empty() {
            true => "`gristmill inspect --metadata` lists the keys".to_owned(),
            false => format!("near it: {}", near.join(", ")),
        })))
    }
}

/// The short names of types.
pub(super) const TYPES: &str = "u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool str";

fn short_name(ty: ValueType) -> &'static str {
    let is_named = |name: &&str| value_type_of(name) == Some(ty);
    TYPES.split(' ').find(is_named).unwrap_or("str")
}

/// A type before a colon, if there is one.
fn type_prefix(text: &str) -> Option<(ValueType, &str)> {
    let (name, rest) = text.split_once(':')?;
    Some((value_type_of(name)?, rest))
}

/// The type that a text looks like.
fn likely_type(text: &str) -> ValueType {
    match serde_json::from_str(text) {
        Ok(json @ (Json::Bool(_) | Json::Number(_))) => {
            json::element_type(&[json]).unwrap_or(ValueType::String)
        }
        _ => ValueType::String,
    }
}

/// Words that others use for types, and misspelt ones.
const NO_TYPES: &[&str] = &[
    "arr", "array", "boolean", "double", "float", "int", "integer", "json", "list", "number",
    "srt", "sting", "text", "tsr", "uint",
];

/// A word in front of a colon that was meant for a type.
fn misspelt_type(text: &str) -> Option<&str> {
    let (word, _) = text.split_once(':')?;
    let is_meant = NO_TYPES.contains(&word.to_ascii_lowercase().as_str());
    is_meant.then_some(word)
}

/// The number of a recipe, by the name that it has on command lines.
fn file_type_named(name: &str) -> Option<u32> {
    let is_named = |ty: &FileType| {
        let known = ty.name.or(ty.label);
        known.is_some_and(|known| known.eq_ignore_ascii_case(name))
    };
    (0..64)
        .map(FileType::from_id)
        .find(is_named)
        .map(|ty| ty.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_stands_before_a_colon_and_else_the_key_has_one() {
        let typed = |key: &str, text: &str, existing: Option<Value>| {
            let mut metadata = Metadata::new();
            existing.map(|value| metadata.set(key, value));
            let target = Target {
                path: Path::new("m.gguf"),
                metadata: &metadata,
            };
            target.key(key).value(text)
        };
        let of = |text: &str, existing: Option<Value>| typed("k", text, existing);
        assert_eq!(of("u8:5", None).expect("good"), Value::U8(5));
        assert_eq!(of("str:a:b", None).expect("good"), "a:b".into());
        assert_eq!(
            of("http://x", Some("".into())).expect("good"),
            "http://x".into()
        );
        assert_eq!(of("5", Some(1i64.into())).expect("good"), Value::I64(5));
        assert_eq!(
            of("[5]", Some(vec![1u8].into())).expect("good"),
            vec![5u8].into()
        );
        assert!(of("5", None).is_err());
        assert_eq!(typed("general.name", "x", None).expect("good"), "x".into());
        // What is known of a key needs no words.
        let list: Value = vec!["x".to_owned(), "y".to_owned()].into();
        for text in [r#"["x","y"]"#, r#"str:["x","y"]"#] {
            assert_eq!(typed("general.tags", text, None).expect("good"), list);
        }
        let count = typed("general.base_model.count", "1", None);
        assert_eq!(count.expect("good"), 1u32.into());
        for text in ["srt:foo", "text:foo", "int:5", "FLOAT:3"] {
            let error = typed("general.author", text, None).expect_err(text);
            assert!(format!("{error:?}").contains("is no type"), "{error:?}");
            assert!(typed("x.new", text, None).is_err());
        }
        let url = typed("general.url", "https://x", None).expect("good");
        assert_eq!(url, "https://x".into());
    }

    /// A hint that is followed leads to the value.
    #[test]
    fn the_type_that_is_proposed_fits() {
        let metadata = Metadata::new();
        let target = Target {
            path: Path::new("m.gguf"),
            metadata: &metadata,
        };
        for (text, proposed) in [
            ("3", "u32:3"),
            ("-3", "i32:-3"),
            ("5000000000", "u64:5000000000"),
            ("0.5", "f32:0.5"),
            ("true", "bool:true"),
            ("ab", "str:ab"),
            ("[1,2]", "u32:[1,2]"),
            ("[1,-2]", "i32:[1,-2]"),
            ("[1,2.5]", "f32:[1,2.5]"),
            ("[true]", "bool:[true]"),
            (r#"["x"]"#, r#"str:["x"]"#),
        ] {
            let key = target.key("x.new");
            for error in [key.value(text), key.array(text)] {
                let error = error.expect_err("it has no type");
                let is_list = text.starts_with('[');
                let says = format!("{error:?}").contains(&format!("x.new={proposed}"));
                assert!(says || (!is_list && text == "ab"), "{text}: {error:?}");
            }
            let followed = match text.starts_with('[') {
                true => key.array(proposed),
                false => key.value(proposed),
            };
            assert!(followed.is_ok(), "{proposed}: {followed:?}");
        }
        for (text, says) in [
            ("[[1]]", "arrays of arrays"),
            ("[1,\"x\"]", "of one type"),
            ("[]", "x.new=str:[]"),
            ("u32:[1]", "--set-array 'x.new=u32:[1]'"),
            (r#"["it's"]"#, r#"--set-array 'x.new=str:["it'\''s"]'"#),
        ] {
            let error = target.key("x.new").value(text).expect_err(text);
            assert!(format!("{error:?}").contains(says), "{text}: {error:?}");
        }
    }
}
