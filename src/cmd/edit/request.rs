//! From the flags of `edit` to edits.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use gristmill_gguf::edit::{
    Edit, SPECIAL_TOKENS, TokenMatch, find_token, special_token_key, value_of, value_type_of,
};
use gristmill_gguf::{
    Array, KnownType, Metadata, Text, Value, ValueType, known_key, limits, near_keys,
};
use serde_json::Value as Json;

use super::json;
use crate::failure::Hint;

pub(super) const TEMPLATE: &str = "tokenizer.chat_template";
const TEMPLATES: &str = "tokenizer.chat_templates";

/// The forms of arguments.
const RENAME: &str = "--rename OLD=NEW";
const SET: &str = "--set KEY=[TYPE:]VALUE";
const SET_ARRAY: &str = "--set-array KEY=[TYPE:]JSON";
const SET_FILE: &str = "--set-file KEY=FILE";
const ADD: &str = "--add KEY=TYPE:VALUE";

/// What to change. Entries are removed first, then renamed, then set.
#[derive(clap::Args)]
pub struct Request {
    /// Set a key; repeatable
    #[arg(long, value_name = "KEY=[TYPE:]VALUE", allow_hyphen_values = true)]
    set: Vec<String>,
    /// Add a key that is not there yet; repeatable
    #[arg(long, value_name = "KEY=TYPE:VALUE", allow_hyphen_values = true)]
    add: Vec<String>,
    /// Give an entry another key; repeatable
    #[arg(long, value_name = "OLD=NEW")]
    rename: Vec<String>,
    /// Remove an entry; repeatable
    #[arg(long, value_name = "KEY", alias = "remove-metadata")]
    remove: Vec<String>,
    /// Set a key to an array; repeatable
    #[arg(long, value_name = "KEY=[TYPE:]JSON")]
    set_array: Vec<String>,
    /// Set a key to the text of a file, byte for byte; repeatable
    #[arg(long, value_name = "KEY=FILE")]
    set_file: Vec<String>,
    /// Set the keys of a JSON object, given as text or as a file
    #[arg(long, value_name = "JSON|FILE")]
    set_json: Vec<String>,
    /// Name of the model
    #[arg(long, value_name = "TEXT")]
    general_name: Option<String>,
    /// Description of the model
    #[arg(long, value_name = "TEXT")]
    general_description: Option<String>,
    /// Chat template as text, or as a JSON list of named ones
    #[arg(long, value_name = "JINJA", group = "template")]
    chat_template: Option<String>,
    /// Chat template from a file
    #[arg(long, value_name = "FILE", group = "template")]
    chat_template_file: Option<PathBuf>,
    /// Chat template, or several, from a tokenizer_config.json
    #[arg(long, value_name = "FILE", group = "template")]
    chat_template_config: Option<PathBuf>,
    /// Name of the pre-tokenizer
    #[arg(long, value_name = "NAME")]
    pre_tokenizer: Option<String>,
    /// The token that begins a text, by its text in the vocabulary
    #[arg(long, value_name = "TOKEN")]
    bos: Option<String>,
    /// The token that ends a text
    #[arg(long, value_name = "TOKEN")]
    eos: Option<String>,
    /// The token that ends a turn
    #[arg(long, value_name = "TOKEN")]
    eot: Option<String>,
    /// The token that fills up
    #[arg(long, value_name = "TOKEN")]
    pad: Option<String>,
    /// The token for what is not in the vocabulary
    #[arg(long, value_name = "TOKEN")]
    unk: Option<String>,
    /// Any special token by name (bos, eos, sep, mask, …) and text; repeatable
    #[arg(long, num_args = 2, value_names = ["NAME", "TOKEN"], action = clap::ArgAction::Append)]
    special_token: Vec<String>,
    /// Any special token by name and id; repeatable
    #[arg(long, num_args = 2, value_names = ["NAME", "ID"], action = clap::ArgAction::Append)]
    special_token_by_id: Vec<String>,
}

impl Request {
    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        let lists = [
            &self.set,
            &self.add,
            &self.rename,
            &self.remove,
            &self.set_array,
            &self.set_file,
            &self.set_json,
            &self.special_token,
            &self.special_token_by_id,
        ];
        lists.iter().all(|list| list.is_empty())
            && self.texts().is_empty()
            && self.tokens().is_empty()
            && self.chat_template.is_none()
            && self.chat_template_file.is_none()
            && self.chat_template_config.is_none()
    }

    /// Flags that set a key to their text.
    fn texts(&self) -> Vec<(&'static str, &String)> {
        let flags = [
            ("general.name", &self.general_name),
            ("general.description", &self.general_description),
            ("tokenizer.ggml.pre", &self.pre_tokenizer),
        ];
        given(flags)
    }

    /// Flags that name a special token.
    fn tokens(&self) -> Vec<(&'static str, &String)> {
        given([
            ("bos", &self.bos),
            ("eos", &self.eos),
            ("eot", &self.eot),
            ("pad", &self.pad),
            ("unk", &self.unk),
        ])
    }

    /// Whether all arguments have the form that their flags ask for, whatever the file; the error is the message for wrong
    /// usage.
    pub fn check(&self) -> Result<(), String> {
        let pairs = [
            (&self.rename, RENAME),
            (&self.set, SET),
            (&self.set_array, SET_ARRAY),
            (&self.set_file, SET_FILE),
            (&self.add, ADD),
        ];
        for (arguments, form) in pairs {
            for argument in arguments {
                split(argument, form).map_err(|error| error.to_string())?;
            }
        }
        for pair in self.special_token.chunks_exact(2) {
            special_key(&pair[0])?;
        }
        for pair in self.special_token_by_id.chunks_exact(2) {
            special_key(&pair[0])?;
            id(&pair[1])?;
        }
        Ok(())
    }

    /// The edits that the flags mean for a file with this metadata.
    pub fn edits(&self, metadata: &Metadata) -> anyhow::Result<Vec<Edit>> {
        let mut edits = Vec::new();
        for key in &self.remove {
            require(key, metadata)?;
            edits.push(Edit::Remove { key: key.clone() });
        }
        for argument in &self.rename {
            let (from, to) = split(argument, RENAME)?;
            require(from, metadata)?;
            warn_of_near(to, metadata);
            let (from, to) = (from.to_owned(), to.to_owned());
            edits.push(Edit::Rename { from, to });
        }
        for argument in &self.set_json {
            edits.extend(from_json(argument, metadata)?);
        }
        for argument in &self.set {
            let (key, text) = split(argument, SET)?;
            warn_of_near(key, metadata);
            edits.push(set(key, typed(key, text, metadata.get(key))?));
        }
        for argument in &self.set_array {
            let (key, text) = split(argument, SET_ARRAY)?;
            warn_of_near(key, metadata);
            edits.push(set(key, typed_array(key, text, metadata.get(key))?));
        }
        for argument in &self.set_file {
            let (key, path) = split(argument, SET_FILE)?;
            warn_of_near(key, metadata);
            edits.push(set(key, Text::from_bytes(read(Path::new(path))?)));
        }
        for argument in &self.add {
            let (key, text) = split(argument, ADD)?;
            warn_of_near(key, metadata);
            let (key, value) = (key.to_owned(), typed(key, text, None)?);
            edits.push(Edit::Add { key, value });
        }
        for (key, text) in self.texts() {
            edits.push(set(key, text.as_str()));
        }
        edits.extend(self.template(metadata)?);
        for (name, text) in self.tokens() {
            edits.push(token(name, text, metadata)?);
        }
        for pair in self.special_token.chunks_exact(2) {
            edits.push(token(&pair[0], &pair[1], metadata)?);
        }
        for pair in self.special_token_by_id.chunks_exact(2) {
            edits.push(token_id(&pair[0], &pair[1], metadata)?);
        }
        Ok(edits)
    }

    fn template(&self, metadata: &Metadata) -> anyhow::Result<Vec<Edit>> {
        if let Some(text) = &self.chat_template {
            if text.starts_with('[') {
                let list = serde_json::from_str(text).context("--chat-template: no JSON list")?;
                return templates(&list);
            }
            if !text.contains('{') && Path::new(text).exists() {
                let hint =
                    "--chat-template takes the template itself; --chat-template-file reads one";
                return Err(anyhow!("{text:?} is a file, and no template").context(Hint::new(hint)));
            }
            return Ok(one_template(text, metadata));
        }
        if let Some(path) = &self.chat_template_file {
            return Ok(one_template(&read_text(path)?, metadata));
        }
        let Some(path) = &self.chat_template_config else {
            return Ok(Vec::new());
        };
        let config: Json = serde_json::from_str(&read_text(path)?)
            .with_context(|| format!("{}: no JSON", path.display()))?;
        match config.get("chat_template") {
            Some(Json::String(text)) => Ok(one_template(text, metadata)),
            Some(list @ Json::Array(_)) => templates(list),
            _ => bail!("{}: has no chat_template", path.display()),
        }
    }
}

fn given<'a, const N: usize>(
    flags: [(&'static str, &'a Option<String>); N],
) -> Vec<(&'static str, &'a String)> {
    let given = |(name, text): (&'static str, &'a Option<String>)| Some((name, text.as_ref()?));
    flags.into_iter().filter_map(given).collect()
}

fn set(key: &str, value: impl Into<Value>) -> Edit {
    Edit::Set {
        key: key.to_owned(),
        value: value.into(),
    }
}

fn split<'a>(argument: &'a str, form: &str) -> anyhow::Result<(&'a str, &'a str)> {
    argument
        .split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .ok_or_else(|| anyhow!("{argument:?} is not of the form {form}"))
}

/// The bytes of a file, which can be no more than a value may have; a device would never end.
fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let cannot = || format!("{}: cannot read the file", path.display());
    if !fs::metadata(path).with_context(cannot)?.is_file() {
        let hint = "name a file on a disk; what another command writes goes into one first";
        return Err(anyhow!("{}: is no regular file", path.display()).context(Hint::new(hint)));
    }
    let file = fs::File::open(path).with_context(cannot)?;
    let mut bytes = Vec::new();
    let limit = limits::STRING_BYTES;
    let n_read = file.take(limit + 1).read_to_end(&mut bytes);
    if n_read.with_context(cannot)? as u64 > limit {
        bail!(
            "{}: has more than the {limit} bytes that a value may have",
            path.display()
        );
    }
    Ok(bytes)
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    String::from_utf8(read(path)?).map_err(|_| anyhow!("{}: is no UTF-8 text", path.display()))
}

fn for_key(key: &str) -> impl Fn(String) -> anyhow::Error {
    move |reason| anyhow!("metadata key {key:?}: {reason}")
}

/// A type before a colon, if there is one.
fn type_prefix(text: &str) -> Option<(ValueType, &str)> {
    let (name, rest) = text.split_once(':')?;
    Some((value_type_of(name)?, rest))
}

/// The type that a key has: in the file, else everywhere.
fn type_of_key(key: &str, existing: Option<&Value>) -> Option<KnownType> {
    let known = || known_key(key).map(|known| known.ty);
    existing.map(KnownType::of).or_else(known)
}

/// The value for a key, by the type in front of it, else the type that the key has.
fn typed(key: &str, text: &str, existing: Option<&Value>) -> anyhow::Result<Value> {
    let of_key = type_of_key(key, existing);
    if let Some((ty, text_after)) = type_prefix(text) {
        // Of a key that holds an array, this is the type of its elements.
        if matches!(of_key, Some(KnownType::List(_))) && text_after.trim_start().starts_with('[') {
            return typed_array(key, text, existing);
        }
        return value_of(text_after, ty).map_err(for_key(key));
    }
    match of_key {
        Some(KnownType::List(_)) => typed_array(key, text, existing),
        Some(KnownType::One(ty)) => {
            if let Some(word) = misspelt_type(text).filter(|_| existing.is_none()) {
                return Err(no_such_type(key, word, text));
            }
            value_of(text, ty).map_err(for_key(key))
        }
        None => match misspelt_type(text) {
            Some(word) => Err(no_such_type(key, word, text)),
            None => Err(no_type(key, text)),
        },
    }
}

fn typed_array(key: &str, text: &str, existing: Option<&Value>) -> anyhow::Result<Value> {
    let (element, text) = match (type_prefix(text), type_of_key(key, existing)) {
        (Some((ty, text)), _) => (ty, text),
        (None, Some(KnownType::List(ty))) => (ty, text),
        (None, _) => return Err(no_type(key, text)),
    };
    let items: Json = serde_json::from_str(text).map_err(|error| {
        let hint = "an array is JSON: [\"a\",\"b\"] or [1,2], in quotes that the shell takes away";
        anyhow!("metadata key {key:?}: {text:?} is no JSON: {error}").context(Hint::new(hint))
    })?;
    json::array(&items, element).map_err(for_key(key))
}

fn no_type(key: &str, text: &str) -> anyhow::Error {
    let example = match text.trim_start().starts_with('[') {
        true => {
            format!("put the type of its elements in front, as in --set-array '{key}=str:{text}'")
        }
        false => format!("put a type in front of the value, as in {key}=str:text"),
    };
    anyhow!("metadata key {key:?} is new, and its type is not given").context(Hint::new(example))
}

/// Words that others use for types, and misspelt ones.
const NO_TYPES: &[&str] = &[
    "arr", "array", "boolean", "double", "float", "int", "integer", "json", "list", "number",
    "srt", "sting", "text", "tsr", "uint",
];

/// A word in front of a colon that was meant for a type.
fn misspelt_type(text: &str) -> Option<&str> {
    let (word, _) = text.split_once(':')?;
    NO_TYPES.binary_search(&word).is_ok().then_some(word)
}

fn no_such_type(key: &str, word: &str, text: &str) -> anyhow::Error {
    anyhow!("metadata key {key:?}: {word:?} is no type").context(Hint::new(format!(
        "the types are u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool str; a text that begins so is {key}=str:{text}"
    )))
}

/// Says of a key that is not there yet which one may have been meant.
fn warn_of_near(key: &str, metadata: &Metadata) {
    if metadata.contains(key) || known_key(key).is_some() {
        return;
    }
    let near = near_keys(metadata, key);
    if !near.is_empty() {
        say!(
            "warning: the key {key:?} is new; near it: {}",
            near.join(", ")
        );
    } else if key.contains(char::is_whitespace) {
        say!("warning: the key {key:?} is new, and has spaces in it");
    }
}

/// Refuses a key that is not there, and names those that may have been meant.
fn require(key: &str, metadata: &Metadata) -> anyhow::Result<()> {
    if metadata.contains(key) {
        return Ok(());
    }
    let error = anyhow!("metadata key {key:?} cannot be changed: it is not there");
    let mut near = near_keys(metadata, key);
    near.retain(|near| metadata.contains(near));
    Err(error.context(Hint::new(match near.is_empty() {
        true => "`gristmill inspect --metadata` lists the keys".to_owned(),
        false => format!("near it: {}", near.join(", ")),
    })))
}

/// The entries of a JSON object, which stands in the argument or in a file of this name.
fn from_json(argument: &str, metadata: &Metadata) -> anyhow::Result<Vec<Edit>> {
    let text = match argument.trim_start().starts_with('{') {
        true => argument.to_owned(),
        false => read_text(Path::new(argument))?,
    };
    let object: json::Entries =
        serde_json::from_str(&text).context("--set-json: no JSON object")?;
    let edit = |(key, json): &(String, Json)| {
        warn_of_near(key, metadata);
        let known = type_of_key(key, metadata.get(key));
        let value = json::value(json, known).map_err(for_key(key))?;
        Ok(set(key, value))
    };
    object.0.iter().map(edit).collect()
}

/// A template for the model; the named ones beside it stay, and are told of.
fn one_template(text: &str, metadata: &Metadata) -> Vec<Edit> {
    let is_named = |key: &str| {
        key.strip_prefix(TEMPLATE)
            .is_some_and(|rest| rest.starts_with('.'))
    };
    let named: Vec<&str> = metadata
        .iter()
        .map(|(key, _)| key)
        .filter(|key| is_named(key))
        .collect();
    if !named.is_empty() {
        say!(
            "note: other templates stay as they are: {}",
            named.join(", ")
        );
    }
    vec![set(TEMPLATE, text)]
}

/// Named templates: the one named `default` is the model's, the others have keys of their own.
fn templates(list: &Json) -> anyhow::Result<Vec<Edit>> {
    let mut edits = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for item in list.as_array().into_iter().flatten() {
        let text = |key| item.get(key).and_then(Json::as_str);
        let (Some(name), Some(template)) = (text("name"), text("template")) else {
            bail!("a template in the list lacks its \"name\" or its \"template\"");
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric();
        let name: String = name
            .chars()
            .map(|c| if is_plain(c) { c } else { '_' })
            .collect();
        if name == "default" {
            edits.push(set(TEMPLATE, template));
        } else {
            edits.push(set(&format!("{TEMPLATE}.{name}"), template));
            names.push(name);
        }
    }
    if edits.is_empty() {
        bail!("the list holds no template");
    }
    if !names.is_empty() {
        edits.push(set(TEMPLATES, Array::from(names)));
    }
    Ok(edits)
}

fn special_key(name: &str) -> Result<&'static str, String> {
    special_token_key(name).ok_or_else(|| {
        let names: Vec<&str> = SPECIAL_TOKENS.iter().map(|(name, _)| *name).collect();
        format!(
            "{name:?} is no special token; these are {}",
            names.join(", ")
        )
    })
}

fn id(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is no id of a token"))
}

/// An id in the integer type that the key has.
fn id_edit(key: &str, id: u32, metadata: &Metadata) -> anyhow::Result<Edit> {
    let ty = metadata
        .get(key)
        .map(Value::value_type)
        .filter(|ty| ty.is_integer());
    let value = value_of(&id.to_string(), ty.unwrap_or(ValueType::U32)).map_err(for_key(key))?;
    Ok(set(key, value))
}

fn token(name: &str, text: &str, metadata: &Metadata) -> anyhow::Result<Edit> {
    let key = special_key(name).map_err(anyhow::Error::msg)?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let by_id = format!("--special-token-by-id {name} {text} takes it for an id");
    match find_token(metadata, text) {
        Some(TokenMatch::Found { id, n_others }) => {
            if is_number {
                say!("note: {text:?} is the text of token {id}; {by_id}");
            }
            if n_others > 0 {
                say!(
                    "warning: {} tokens are {text:?}; {name} becomes the first, {id}",
                    n_others + 1
                );
            }
            id_edit(key, id, metadata)
        }
        Some(TokenMatch::Near(near)) => {
            let error = anyhow!("no token of the vocabulary is {text:?}");
            let near: Vec<String> = near.iter().map(|token| format!("{token:?}")).collect();
            Err(match near.is_empty() {
                _ if is_number => error.context(Hint::new(by_id)),
                true => error,
                false => error.context(Hint::new(format!("near it: {}", near.join(", ")))),
            })
        }
        None => bail!("the file has no vocabulary to find {text:?} in"),
    }
}

fn token_id(name: &str, text: &str, metadata: &Metadata) -> anyhow::Result<Edit> {
    let key = special_key(name).map_err(anyhow::Error::msg)?;
    id_edit(key, id(text).map_err(anyhow::Error::msg)?, metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_stands_before_a_colon_and_else_the_key_has_one() {
        let of = |text: &str, existing: Option<Value>| typed("k", text, existing.as_ref());
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
        assert!(NO_TYPES.is_sorted());
        // What is known of a key needs no words.
        let list: Value = vec!["x".to_owned(), "y".to_owned()].into();
        for text in [r#"["x","y"]"#, r#"str:["x","y"]"#] {
            assert_eq!(typed("general.tags", text, None).expect("good"), list);
        }
        let count = typed("general.base_model.count", "1", None);
        assert_eq!(count.expect("good"), 1u32.into());
        for text in ["srt:foo", "text:foo", "int:5"] {
            let error = typed("general.author", text, None).expect_err(text);
            assert!(format!("{error:?}").contains("is no type"), "{error:?}");
            assert!(typed("x.new", text, None).is_err());
        }
        let url = typed("general.url", "https://x", None).expect("good");
        assert_eq!(url, "https://x".into());
        let error = typed("x.new", r#"["x"]"#, None).expect_err("no type");
        assert!(format!("{error:?}").contains("--set-array"), "{error:?}");
    }
}
