//! Sessions saved and loaded.

use super::*;
use crate::Arithmetic;

fn session(name: &str, options: &LoadOptions) -> Option<(Session, Vec<u32>)> {
    let folder = golden(&format!("convert/{name}"))?;
    let model = load(&folder.join(format!("{name}-f32.gguf")));
    Some((Session::new(model, options).unwrap(), fed_ids(&folder)))
}

fn predict(session: &mut Session, ids: &[u32]) -> (Vec<f32>, usize) {
    let prediction = session.predict(ids, &mut |_, _| false).unwrap().unwrap();
    (prediction.logits.to_vec(), prediction.n_computed)
}

fn saved(session: &Session) -> Vec<u8> {
    let mut bytes = Vec::new();
    session.save(&mut bytes).unwrap();
    bytes
}

/// Case B88: behind a restore the same prompt computes one token, with the same bits.
#[test]
fn case_b88_a_loaded_session_goes_on_as_the_saved_one() {
    for name in ["llama", "gemma3_text"] {
        let options = options(CacheTypes::F16, 256, 16);
        let Some((mut first, ids)) = session(name, &options) else {
            return;
        };
        let ids: Vec<u32> = ids.iter().cycle().take(200).copied().collect();
        let expected = predict(&mut first, &ids).0;
        let bytes = saved(&first);
        let mut second = session(name, &options).unwrap().0;
        assert_eq!(second.load(&mut bytes.as_slice()).unwrap(), 200);
        assert_eq!((second.tokens(), saved(&second)), (ids.as_slice(), bytes));
        assert_eq!(predict(&mut second, &ids), (expected, 1), "{name}");
        let longer = [&ids[..], &[5, 6]].concat();
        assert_eq!(predict(&mut second, &longer), predict(&mut first, &longer));
    }
}

fn refused(session: &mut Session, bytes: &[u8]) -> String {
    let before = saved(session);
    let error = session.load(&mut &*bytes).unwrap_err();
    assert!(matches!(error, EngineError::SavedSession(_)), "{error}");
    assert!(error.hint().is_some(), "{error}");
    assert!(saved(session) == before, "{error}: the session has changed");
    error.to_string()
}

#[test]
fn a_session_of_something_else_is_refused_by_name() {
    let usual = options(CacheTypes::F16, 128, 16);
    let Some((mut first, ids)) = session("llama", &usual) else {
        return;
    };
    predict(&mut first, &ids[..30]);
    let bytes = saved(&first);
    assert_eq!(refused(&mut first, b""), "is no saved session");
    assert_eq!(
        refused(&mut first, b"GGUF\x03\0\0\0 and so on"),
        "is no saved session"
    );
    assert_eq!(
        refused(&mut first, b"nsgg\x09\0\0\0 and so on"),
        "is a session file of llama.cpp"
    );
    let mut newer = bytes.clone();
    newer[8] = 2;
    assert_eq!(
        refused(&mut first, &newer),
        "is a saved session of version 2, but only version 1 is known"
    );
    let here = |name, options| refused(&mut session(name, &options).unwrap().0, &bytes);
    assert_eq!(
        here("qwen3", usual),
        "the saved session was made with another model, or with other adapters"
    );
    assert_eq!(
        here("llama", options(CacheTypes::F32, 128, 16)),
        "the saved session has a cache of f16/f16, but this one is of f32/f32"
    );
    assert_eq!(
        here("llama", options(CacheTypes::F16, 20, 16)),
        "the saved session has 30 tokens, but the context holds 20"
    );
    let (mut windowed, _) = session("gemma3_text", &usual).unwrap();
    predict(&mut windowed, &ids[..30]);
    let all = LoadOptions {
        keeps_all: true,
        ..usual
    };
    let mut whole = session("gemma3_text", &all).unwrap().0;
    assert_eq!(
        refused(&mut whole, &saved(&windowed)),
        "the saved session has another layout of its cache"
    );
}

/// Keys that were turned otherwise, by other frequencies or with another magnitude alone, are no past, nor are those of
/// another arithmetic.
#[test]
fn a_session_of_another_rotation_or_arithmetic_is_refused() {
    let Some(folder) = golden("convert/llama") else {
        return;
    };
    let ids = fed_ids(&folder);
    let session_of = |(rope, arithmetic)| {
        let options = LoadOptions {
            rope,
            arithmetic,
            ..options(CacheTypes::F16, 128, 16)
        };
        let file = gguf::Model::open(&folder.join("llama-f32.gguf")).unwrap();
        Session::new(Model::load(file, &options).unwrap(), &options).unwrap()
    };
    let slower = RopeOverrides {
        freq_scale: Some(0.5),
        ..RopeOverrides::default()
    };
    let larger = RopeOverrides {
        magnitude: Some(1.5),
        ..RopeOverrides::default()
    };
    let own = RopeOverrides::default();
    let mut plain = session_of((own, Arithmetic::Own));
    for other in [
        (slower, Arithmetic::Own),
        (larger, Arithmetic::Own),
        (own, Arithmetic::LlamaCpp),
    ] {
        let mut turned = session_of(other);
        predict(&mut turned, &ids[..30]);
        let bytes = saved(&turned);
        assert_eq!(
            refused(&mut plain, &bytes),
            "the saved session has another layout of its cache"
        );
        assert_eq!(session_of(other).load(&mut bytes.as_slice()).unwrap(), 30);
    }
}

/// Cut anywhere, or with any byte changed, or with lengths of another planet: an error, no memory, and nothing lost.
#[test]
fn a_damaged_session_is_refused() {
    let Some((mut session, ids)) = session("llama", &options(CacheTypes::F16, 128, 16)) else {
        return;
    };
    predict(&mut session, &ids[..30]);
    let bytes = saved(&session);
    for end in (0..120).chain((120..bytes.len()).step_by(997)) {
        let message = refused(&mut session, &bytes[..end]);
        let expected = if end < 8 {
            "is no saved session"
        } else {
            "the saved session ends early"
        };
        assert_eq!(message, expected, "{end}");
    }
    for place in (0..120).chain((120..bytes.len()).step_by(997)) {
        let mut changed = bytes.clone();
        changed[place] ^= 0x11;
        refused(&mut session, &changed);
    }
    for place in [84, 92] {
        let mut hostile = bytes.clone();
        hostile[place..place + 8].fill(0xff);
        refused(&mut session, &hostile);
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(
        refused(&mut session, &longer),
        "the saved session is damaged: there are bytes behind its end"
    );
    assert_eq!(session.load(&mut bytes.as_slice()).unwrap(), 30);
}
