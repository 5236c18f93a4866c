//! Metadata: types, order, strings that are no text, and getters.

use gristmill_gguf::{Array, Error, Metadata, StringArray, Text, Value, ValueType};

use crate::bytes::{Bytes, sample};

#[test]
fn every_kind_of_value_is_read() {
    let file = sample().open().unwrap();
    let metadata = file.metadata();
    let value = |key: &str| metadata.get(key).unwrap().clone();
    assert_eq!(value("a.u8"), Value::U8(200));
    assert_eq!(value("a.i8"), Value::I8(-128));
    assert_eq!(value("a.u16"), Value::U16(513));
    assert_eq!(value("a.i16"), Value::I16(-1));
    assert_eq!(value("a.u32"), Value::U32(7));
    assert_eq!(value("a.i32"), Value::I32(-7));
    assert_eq!(value("a.f32"), Value::F32(1.5));
    assert_eq!(value("a.bool"), Value::Bool(true));
    assert_eq!(value("a.u64"), Value::U64(u64::MAX));
    assert_eq!(value("a.i64"), Value::I64(i64::MIN));
    assert_eq!(value("a.f64"), Value::F64(-0.25));
    assert_eq!(value("b.u8"), vec![1u8, 2, 3].into());
    assert_eq!(value("b.i8"), vec![-2i8, 2].into());
    assert_eq!(value("b.u16"), vec![1u16, 2].into());
    assert_eq!(value("b.i16"), vec![-1i16].into());
    assert_eq!(value("b.u32"), vec![9u32].into());
    assert_eq!(value("b.i32"), vec![-9i32].into());
    assert_eq!(value("b.f32"), vec![0.5f32].into());
    assert_eq!(value("b.bool"), vec![true, false, true].into());
    assert_eq!(value("b.u64"), vec![1u64 << 40].into());
    assert_eq!(value("b.i64"), vec![-1i64].into());
    assert_eq!(value("b.f64"), vec![2.0f64].into());
    assert_eq!(value("b.none"), StringArray::new().into());
    let strings = metadata.strings("b.string").unwrap().unwrap();
    assert_eq!(
        strings.iter().collect::<Vec<_>>(),
        [&b"one"[..], b"", "\u{2581}two".as_bytes()]
    );
    assert_eq!(
        (strings.get(2), strings.get(3)),
        (Some("\u{2581}two".as_bytes()), None)
    );
    let keys: Vec<&str> = metadata.iter().map(|(key, _)| key).take(3).collect();
    assert_eq!(keys, ["general.architecture", "a.u8", "a.i8"]);
}

#[test]
fn values_that_cannot_be_are_refused() {
    let cases = [
        (
            Bytes::new().entry("k", 13, &[0; 8]),
            "key \"k\": unknown value type 13",
        ),
        (
            Bytes::new().entry("k", 7, &[2]),
            "key \"k\": a BOOL of 2, neither 0 nor 1",
        ),
        (
            Bytes::new().entry_array("k", 7, 2, &[1, 3]),
            "key \"k\": a BOOL of 3",
        ),
        (
            Bytes::new().entry_array("k", 9, 1, &[0; 32]),
            "key \"k\": an array of arrays",
        ),
        (
            Bytes::new().entry_array("k", 99, 1, &[0; 32]),
            "key \"k\": unknown value type 99",
        ),
    ];
    for (file, expected) in cases {
        let message = file.error();
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn b13_text_is_shown_whole_and_invalid_bytes_are_kept() {
    let template = "{{ '\u{2581}' }}";
    let token = [8u8.to_le_bytes().to_vec()].concat();
    assert_eq!(token, [8]);
    let file = Bytes::new().entry_string("tokenizer.chat_template", template.as_bytes());
    let tokens = [file.string(b"\xa1"), file.string(b"a")].concat();
    let file = file
        .entry_array("tokenizer.ggml.tokens", 8, 2, &tokens)
        .entry_string("odd", b"x\xffy")
        .open()
        .unwrap();
    let metadata = file.metadata();
    assert_eq!(
        metadata.str("tokenizer.chat_template").unwrap(),
        Some(template)
    );
    let tokens = metadata.strings("tokenizer.ggml.tokens").unwrap().unwrap();
    assert_eq!(tokens.get(0), Some(&b"\xa1"[..]));
    let odd = metadata.text("odd").unwrap().unwrap();
    assert_eq!(odd.as_bytes(), b"x\xffy");
    assert_eq!(odd.to_str_escaped(), "x\\xffy");
    assert_eq!(odd.to_string(), "x\\xffy");
    assert_eq!(odd.to_str_lossy(), "x\u{fffd}y");
    let message = metadata.str("odd").unwrap_err().to_string();
    assert!(
        message.contains("\"odd\" must be STRING of valid UTF-8, but is STRING with invalid UTF-8"),
        "{message}"
    );
}

#[test]
fn getters_say_what_they_expected_and_found() {
    let mut metadata = Metadata::new();
    metadata.set("width", 300u16);
    metadata.set("negative", -1i32);
    metadata.set("wide", 1u64 << 40);
    metadata.set("name", "text");
    metadata.set("flags", vec![1u8, 0]);
    metadata.set("types", vec![3i64, 4]);
    assert_eq!(metadata.u32("width").unwrap(), Some(300));
    assert_eq!(metadata.u32("absent").unwrap(), None);
    assert_eq!(metadata.u32_or("absent", 5).unwrap(), 5);
    assert_eq!(metadata.bools("flags").unwrap(), Some(vec![true, false]));
    assert_eq!(metadata.i32s("types").unwrap(), Some(vec![3, 4]));
    let message = |error: Error| error.to_string();
    assert_eq!(
        message(metadata.u32("negative").unwrap_err()),
        "metadata key \"negative\" must be an integer from 0 to 4294967295, but is INT32 -1"
    );
    assert_eq!(
        message(metadata.u32("wide").unwrap_err()),
        "metadata key \"wide\" must be an integer from 0 to 4294967295, but is UINT64 1099511627776"
    );
    assert_eq!(
        message(metadata.f32s("flags").unwrap_err()),
        "metadata key \"flags\" must be ARRAY of FLOAT32, but is ARRAY of UINT8"
    );
    assert_eq!(
        message(metadata.required_str("absent").unwrap_err()),
        "metadata key \"absent\" is missing"
    );
    let named = metadata
        .required_u32("absent")
        .unwrap_err()
        .in_file("m.gguf".as_ref());
    assert_eq!(message(named), "m.gguf: metadata key \"absent\" is missing");
    assert!(metadata.required_str("name").is_ok());
    assert!(matches!(
        metadata.required_u64("absent"),
        Err(Error::MissingKey { .. })
    ));
}

#[test]
fn entries_keep_their_order_under_changes() {
    let mut metadata = Metadata::new();
    for key in ["a", "b", "c", "d"] {
        metadata.set(key, 1u32);
    }
    assert_eq!(metadata.set("b", 2u32), Some(Value::U32(1)));
    assert_eq!(metadata.remove("a"), Some(Value::U32(1)));
    assert_eq!(metadata.remove("a"), None);
    metadata.insert(0, "d", 4u32);
    metadata.insert(1, "e", 5u32);
    let keys = |metadata: &Metadata| {
        metadata
            .iter()
            .map(|(key, _)| key.to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&metadata), ["d", "e", "b", "c"]);
    assert_eq!(metadata.get("c"), Some(&Value::U32(1)));
    metadata.retain(|key, _| key != "e");
    assert_eq!(keys(&metadata), ["d", "b", "c"]);
    assert_eq!(metadata.get("b"), Some(&Value::U32(2)));
    assert!(!metadata.contains("e"));
}

#[test]
fn types_have_their_numbers_and_names() {
    for (id, ty) in ValueType::ALL.into_iter().enumerate() {
        assert_eq!(
            (ty.id(), ValueType::from_id(id as u32)),
            (id as u32, Some(ty))
        );
    }
    assert_eq!(ValueType::from_id(13), None);
    let array = Array::from(vec!["x".to_owned()]);
    assert_eq!(array.get(0), Some(Value::String(Text::from("x"))));
    assert_eq!(Value::from(array).type_name(), "ARRAY of STRING");
}

#[test]
fn a_renamed_entry_keeps_its_place_and_value() {
    let mut metadata = Metadata::new();
    for (key, value) in [("a", 1u32), ("b", 2), ("c", 3)] {
        metadata.set(key, value);
    }
    assert!(metadata.rename("b", "x.b"));
    assert!(!metadata.rename("b", "y") && !metadata.rename("a", "c"));
    let entries: Vec<(&str, u32)> = metadata
        .iter()
        .map(|(key, value)| (key, value.as_integer().unwrap() as u32))
        .collect();
    assert_eq!(entries, [("a", 1), ("x.b", 2), ("c", 3)]);
    assert_eq!(metadata.required_u32("x.b").unwrap(), 2);
    assert!(!metadata.contains("b"));
}
