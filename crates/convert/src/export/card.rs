//! The model card: what `general.…` says of the model's origin, as front matter that conversion reads again.

use gristmill_gguf::{Array, Metadata, Value};

use crate::authorship::{CARD_KEYS, ORIGIN_KEYS};

/// Keys that conversion would fill from the folder's name where nothing is said.
const FROM_FOLDER: [&str; 6] = [
    "name",
    "organization",
    "basename",
    "finetune",
    "version",
    "size_label",
];

/// The text of `README.md`.
pub(super) fn card(metadata: &Metadata) -> String {
    let text = |key: &str| {
        let value = metadata.get(&format!("general.{key}"))?.as_text()?;
        value.to_str().map(str::to_owned)
    };
    let mut out = String::from("---\n");
    let mut seen = Vec::new();
    for (key, card_key) in CARD_KEYS {
        if seen.contains(key) {
            continue;
        }
        seen.push(*key);
        match text(key) {
            Some(value) => out += &format!("{card_key}: {}\n", quoted(&value)),
            // Said to be nothing, so that the folder's name is not taken for it.
            None if FROM_FOLDER.contains(key) => out += &format!("{card_key}: \"\"\n"),
            None => {}
        }
    }
    for (kind, card_key) in [("base_model", "base_model"), ("dataset", "datasets")] {
        out += &origins(metadata, kind, card_key);
    }
    for (key, card_key) in [("tags", "tags"), ("languages", "language")] {
        out += &list(metadata, key, card_key);
    }
    out += "---\n";
    let name = text("name").unwrap_or_else(|| "Model".to_owned());
    let name: String = name.chars().filter(|c| !c.is_control()).collect();
    out + &format!("\n# {name}\n\nExported from a GGUF file by gristmill.\n")
}

fn list(metadata: &Metadata, key: &str, card_key: &str) -> String {
    let stated = metadata
        .get(&format!("general.{key}"))
        .and_then(Value::as_array);
    let Some(items) = stated.and_then(Array::as_strings) else {
        return String::new();
    };
    let items = items
        .iter()
        .map(|item| format!("- {}\n", quoted(&String::from_utf8_lossy(item))));
    format!("{card_key}:\n{}", items.collect::<String>())
}

/// Base models or data sets, entry by entry.
fn origins(metadata: &Metadata, kind: &str, card_key: &str) -> String {
    // Counted by what is there: the number itself may be anything.
    let text = |index: usize, key: &str| {
        let value = metadata
            .get(&format!("general.{kind}.{index}.{key}"))?
            .as_text()?;
        Some(format!("{key}: {}\n", quoted(value.to_str()?)))
    };
    let mut out = String::new();
    for index in 0.. {
        let entries: Vec<String> = ORIGIN_KEYS
            .iter()
            .filter_map(|key| text(index, key))
            .collect();
        if entries.is_empty() {
            break;
        }
        out += &format!("- {}", entries.join("  "));
    }
    match out.is_empty() {
        true => out,
        false => format!("{card_key}:\n{out}"),
    }
}

/// A text in double quotes, on one line.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
