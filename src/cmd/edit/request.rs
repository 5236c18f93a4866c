//! From the flags of `edit` to edits.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use gristmill_gguf::Value;
use gristmill_gguf::edit::Edit;
use serde_json::Value as Json;

use super::input::{read_text, read_utf8};
use super::template::TemplateFlags;
use super::value::Target;
use super::{json, tokens};

/// The forms of arguments.
const RENAME: &str = "--rename OLD=NEW";
const SET: &str = "--set KEY=[TYPE:]VALUE";
const SET_ARRAY: &str = "--set-array KEY=[TYPE:]JSON";
const SET_FILE: &str = "--set-file KEY=FILE";
const ADD: &str = "--add KEY=TYPE:VALUE";

/// What to change. Entries are removed first, then renamed, then set. Every flag is a list, so that one that is given
/// twice is two edits, of which neither is dropped in silence.
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
    general_name: Vec<String>,
    /// Description of the model
    #[arg(long, value_name = "TEXT")]
    general_description: Vec<String>,
    #[command(flatten)]
    template: TemplateFlags,
    /// Name of the pre-tokenizer
    #[arg(long, value_name = "NAME")]
    pre_tokenizer: Vec<String>,
    /// The token that begins a text, by its text in the vocabulary
    #[arg(long, value_name = "TOKEN")]
    bos: Vec<String>,
    /// The token that ends a text
    #[arg(long, value_name = "TOKEN")]
    eos: Vec<String>,
    /// The token that ends a turn
    #[arg(long, value_name = "TOKEN")]
    eot: Vec<String>,
    /// The token that fills up
    #[arg(long, value_name = "TOKEN")]
    pad: Vec<String>,
    /// The token for what is not in the vocabulary
    #[arg(long, value_name = "TOKEN")]
    unk: Vec<String>,
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
            && self.texts().next().is_none()
            && self.tokens().next().is_none()
            && self.template.is_empty()
    }

    /// Flags that set a key to their text.
    fn texts(&self) -> impl Iterator<Item = (&'static str, &String)> {
        each([
            ("general.name", &self.general_name),
            ("general.description", &self.general_description),
            ("tokenizer.ggml.pre", &self.pre_tokenizer),
        ])
    }

    /// Flags that name a special token.
    fn tokens(&self) -> impl Iterator<Item = (&'static str, &String)> {
        each([
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
            tokens::special_key(&pair[0])?;
        }
        for pair in self.special_token_by_id.chunks_exact(2) {
            tokens::special_key(&pair[0])?;
            tokens::id(&pair[1])?;
        }
        Ok(())
    }

    /// The edits that the flags mean for this file.
    pub fn edits(&self, target: Target) -> anyhow::Result<Vec<Edit>> {
        let mut edits = Vec::new();
        for key in &self.remove {
            target.key(key).require()?;
            edits.push(Edit::Remove { key: key.clone() });
        }
        for argument in &self.rename {
            let (from, to) = split(argument, RENAME)?;
            target.key(from).require()?;
            target.key(to).warn_of_near();
            let (from, to) = (from.to_owned(), to.to_owned());
            edits.push(Edit::Rename { from, to });
        }
        for argument in &self.set_json {
            edits.extend(from_json(argument, target)?);
        }
        for argument in &self.set {
            let (key, text) = split(argument, SET)?;
            target.key(key).warn_of_near();
            edits.push(set(key, target.key(key).value(text)?));
        }
        for argument in &self.set_array {
            let (key, text) = split(argument, SET_ARRAY)?;
            target.key(key).warn_of_near();
            edits.push(set(key, target.key(key).array(text)?));
        }
        for argument in &self.set_file {
            let (key, path) = split(argument, SET_FILE)?;
            target.key(key).warn_of_near();
            edits.push(set(key, read_utf8(Path::new(path))?));
        }
        for argument in &self.add {
            let (key, text) = split(argument, ADD)?;
            target.key(key).warn_of_near();
            let value = target.key(key).value(text)?;
            let key = key.to_owned();
            edits.push(Edit::Add { key, value });
        }
        edits.extend(self.texts().map(|(key, text)| set(key, text.as_str())));
        edits.extend(self.template.edits(target)?);
        for (name, text) in self.tokens() {
            edits.push(tokens::by_text(name, text, target)?);
        }
        for pair in self.special_token.chunks_exact(2) {
            edits.push(tokens::by_text(&pair[0], &pair[1], target)?);
        }
        for pair in self.special_token_by_id.chunks_exact(2) {
            edits.push(tokens::by_id(&pair[0], &pair[1], target)?);
        }
        Ok(edits)
    }
}

/// Every argument of these flags, each with its flag's name.
fn each<'a, const N: usize>(
    flags: [(&'static str, &'a Vec<String>); N],
) -> impl Iterator<Item = (&'static str, &'a String)> {
    let arguments = |(name, list): (&'static str, &'a Vec<String>)| {
        list.iter().map(move |argument| (name, argument))
    };
    flags.into_iter().flat_map(arguments)
}

/// An edit that gives a key a value.
pub(super) fn set(key: &str, value: impl Into<Value>) -> Edit {
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

/// The entries of a JSON object, which stands in the argument or in a file of this name.
fn from_json(argument: &str, target: Target) -> anyhow::Result<Vec<Edit>> {
    let text = match argument.trim_start().starts_with(['{', '[', '"']) {
        true => argument.to_owned(),
        false => read_text(Path::new(argument))?,
    };
    let object: json::Entries = serde_json::from_str(&text)
        .context("--set-json: no JSON object, as in {\"general.name\": \"My model\"}")?;
    let edit = |(key, json): &(String, Json)| {
        target.key(key).warn_of_near();
        Ok(set(key, target.key(key).json(json)?))
    };
    object.0.iter().map(edit).collect()
}
