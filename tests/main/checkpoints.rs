//! Checkpoints at fault: what is said, and that nothing is written.

use serde_json::{Value, json};

use crate::harness::{Workplace, tiny};

/// A copy of the embedded model's checkpoint, as `source`.
fn checkpoint() -> Workplace {
    let place = Workplace::new();
    for entry in std::fs::read_dir(tiny()).expect("it can be read").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let bytes = std::fs::read(entry.path()).expect("it can be read");
        place.write(&format!("source/{name}"), bytes);
    }
    place
}

/// The same with a change to one of its JSON files.
fn with(file: &str, change: impl FnOnce(&mut Value)) -> Workplace {
    let place = checkpoint();
    let path = format!("source/{file}");
    let text = std::fs::read_to_string(place.path(&path)).expect("it is there");
    let mut json = serde_json::from_str(&text).expect("it is JSON");
    change(&mut json);
    place.write(&path, json.to_string());
    place
}

/// Converts, checks that it is refused with a hint and writes nothing, and gives the error.
fn refused(place: &Workplace) -> String {
    let before = place.files();
    let shown = place.run("gristmill convert source --outfile out.gguf");
    assert!(shown.starts_with("exit: 1"), "{shown}");
    assert_eq!(place.files(), before, "{shown}");
    assert!(
        shown.lines().any(|line| line.starts_with("hint: ")),
        "{shown}"
    );
    let error = shown.lines().find_map(|line| line.strip_prefix("error: "));
    error.expect("there is an error").to_owned()
}

#[test]
fn a_vocabulary_that_nothing_could_load_is_not_written() {
    let known = |json: &Value| {
        let vocab = json["model"]["vocab"].as_object().expect("a table");
        let found = vocab.iter().find(|(_, id)| **id == 40);
        found.expect("there is such a token").0.clone()
    };
    let twice = with("tokenizer.json", |json| {
        let token = json!({"id": 1000, "content": known(json), "special": false});
        json["added_tokens"]
            .as_array_mut()
            .expect("a list")
            .push(token);
    });
    let error = refused(&twice);
    assert!(
        error.starts_with("source/tokenizer.json: its vocabulary could not be loaded")
            && error.contains("tokens 40 and 1000 are both"),
        "{error}"
    );
    for merge in ["", "  ", "a"] {
        let place = with("tokenizer.json", |json| {
            json["model"]["merges"]
                .as_array_mut()
                .expect("a list")
                .push(merge.into());
        });
        let error = refused(&place);
        assert!(
            error.starts_with("source/tokenizer.json: ") && error.contains(&format!("{merge:?}")),
            "{error}"
        );
    }
    let none = with("tokenizer.json", |json| json["model"]["merges"] = json!([]));
    let error = refused(&none);
    assert!(error.contains("tokenizer.ggml.merges"), "{error}");
}

#[test]
fn two_tokens_with_one_id_and_an_id_that_is_none_are_named() {
    let place = with("tokenizer.json", |json| {
        json["model"]["vocab"]["zzz"] = json!(40)
    });
    let error = refused(&place);
    assert!(
        error.starts_with("source/tokenizer.json: ")
            && error.ends_with("\"zzz\" both have the id 40"),
        "{error}"
    );
    for (id, shown) in [
        (json!(-1), "-1"),
        (json!(1.5), "1.5"),
        (json!("7"), "\"7\""),
    ] {
        let place = with("tokenizer.json", |json| json["model"]["vocab"]["zzz"] = id);
        assert_eq!(
            refused(&place),
            format!(
                "source/tokenizer.json: model.vocab: token \"zzz\" has the id {shown}; ids are whole numbers from 0"
            )
        );
    }
}

#[test]
fn damaged_json_beside_the_weights_is_named() {
    for file in ["tokenizer.json", "tokenizer_config.json", "config.json"] {
        let place = checkpoint();
        place.write(&format!("source/{file}"), "{\"model\": ");
        let error = refused(&place);
        assert!(
            error.starts_with(&format!("source/{file}: EOF while parsing")),
            "{error}"
        );
    }
    // Recommendations are no part of the model, so their loss is said and the conversion goes on.
    let place = checkpoint();
    place.write("source/generation_config.json", "{\"temperature\": ");
    let shown = place.run("gristmill convert source --outfile out.gguf");
    assert!(
        shown.starts_with("exit: 0") && shown.contains("warning: source/generation_config.json: "),
        "{shown}"
    );
}

#[test]
fn parameters_of_llama3_rotation_that_mean_nothing_are_refused_by_key() {
    let cases = [
        ("factor", json!(0)),
        ("factor", json!(-8.0)),
        ("factor", json!(1e300)),
        ("high_freq_factor", json!(1.0)),
        ("original_max_position_embeddings", json!(0)),
    ];
    for (key, value) in cases {
        let place = with("config.json", |json| {
            json["rope_scaling"] = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 8192});
            json["rope_scaling"][key] = value.clone();
        });
        let error = refused(&place);
        assert!(
            error.starts_with(&format!("source: config.json: `rope_scaling.{key}` is ")),
            "{error}"
        );
    }
    let place = with("config.json", |json| json["num_attention_heads"] = json!(0));
    let shown = place.run("gristmill convert source --outfile out.gguf");
    assert!(
        shown.contains("error: source: config.json: `num_attention_heads` is 0: must be")
            && shown.contains("hint: config.json is damaged or edited"),
        "{shown}"
    );
}

#[cfg(unix)]
#[test]
fn weights_that_are_no_file_and_an_adapter_are_named() {
    let place = checkpoint();
    let weights = place.path("source/model.safetensors");
    std::fs::remove_file(&weights).expect("it is there");
    std::os::unix::fs::symlink("/nonexistent", &weights).expect("a link can be made");
    assert_eq!(
        refused(&place),
        "source/model.safetensors: is a link to a file that is not there"
    );
    std::fs::remove_file(&weights).expect("it is there");
    std::fs::create_dir(&weights).expect("a folder can be made");
    assert_eq!(refused(&place), "source/model.safetensors: is a folder");
    std::fs::remove_dir(&weights).expect("it is there");
    std::fs::remove_file(place.path("source/config.json")).expect("it is there");
    place.write("source/adapter_config.json", "{}");
    assert_eq!(
        refused(&place),
        "source: holds an adapter (adapter_config.json), not a model"
    );
}
