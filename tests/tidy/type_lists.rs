//! No list of tensor types stands outside `quant`: what is known of a type stands in its own file.

use std::collections::BTreeSet;

use super::{Source, check, planted, root};

/// Every type.
const ALL: &[&str] = &["*"];

/// Where types may be named outside `quant`, with the reason.
const PLACES: &[(&str, &[&str], &str)] = &[
    (
        "crates/convert/src/export/weights.rs",
        &["BF16", "F16", "F32"],
        "the types that a checkpoint's tensors have",
    ),
    (
        "crates/convert/src/output.rs",
        &["BF16", "F16", "F32", "Q8_0"],
        "the output types that the reference's conversion has",
    ),
    (
        "crates/convert/src/recipe/mix.rs",
        ALL,
        "the exceptions of each recipe",
    ),
    (
        "crates/convert/src/recipe/mod.rs",
        ALL,
        "the registry of recipes with exceptions",
    ),
    (
        "crates/convert/src/recipe/plan.rs",
        &["F16", "Q3_K", "Q4_K", "Q5_K", "Q8_0"],
        "what all recipes do alike",
    ),
    (
        "crates/gguf/src/diff/values.rs",
        &["F64", "I16", "I32", "I64", "I8"],
        "plain numbers, which have no codec",
    ),
    (
        "crates/gguf/src/edit/text.rs",
        &["F32", "F64", "I16", "I32", "I64", "I8"],
        "types of metadata",
    ),
    (
        "crates/gguf/src/file_type.rs",
        ALL,
        "the numbers of recipes, most of which have a type's name",
    ),
    (
        "crates/kernels/src/llama_cpp/product.rs",
        ALL,
        "how another engine multiplies: no fact of a type, and no default path asks for it",
    ),
    (
        "crates/measure/src/check/group/metadata.rs",
        &["IQ2_S", "IQ2_XS", "IQ3_S", "MXFP4"],
        "recipes named after another type than they mostly give",
    ),
];

/// So many types are a list.
const LIST: usize = 3;

/// Types that a file of a program names though it is not theirs.
fn named_types(source: &Source, names: &[String]) -> Vec<String> {
    // `golden` is for tests only.
    let free = ["crates/quant/", "crates/golden/"];
    if free.iter().any(|folder| source.path.starts_with(folder)) {
        return Vec::new();
    }
    let may = |name: &str| {
        let mut places = PLACES.iter();
        places.any(|(path, names, _)| {
            source.path == *path && (*names == ALL || names.contains(&name))
        })
    };
    let imported = imports(source);
    let is_constant = |at: usize, name: &str| {
        let path = source.code[..at].strip_suffix("::");
        let path = path.and_then(|path| {
            path.rsplit(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
        });
        matches!(path, Some("gristmill_quant" | "q")) || imported.contains(name)
    };
    let in_code = names.iter().filter(|name| {
        let found = source.words(name);
        let mut found = found.into_iter().filter(|&at| !source.is_test(at));
        found.any(|at| is_constant(at, name))
    });
    let in_text = names.iter().filter(|name| {
        let mut texts = source.literals.iter();
        texts.any(|(at, text)| !source.is_test(*at) && text.eq_ignore_ascii_case(name))
    });
    let found: BTreeSet<&str> = in_code.chain(in_text).map(|name| &**name).collect();
    let found: Vec<&str> = found.into_iter().filter(|name| !may(name)).collect();
    if found.len() < LIST {
        return Vec::new();
    }
    vec![format!(
        "{}: lists types: {}",
        source.path,
        found.join(", ")
    )]
}

/// The names in the braces of `use gristmill_quant::{…}`.
fn imports(source: &Source) -> BTreeSet<&str> {
    let groups = source.code.split("gristmill_quant::{").skip(1);
    let names = groups
        .filter_map(|rest| rest.split_once('}'))
        .flat_map(|(group, _)| group.split(','));
    names.map(str::trim).collect()
}

/// The stems of the files of types, which are their names.
fn types() -> Vec<String> {
    let folder = std::fs::read_dir(root().join("crates/quant/src/types"));
    let files = folder.expect("there are types").flatten();
    let stems = files.filter_map(|file| Some(file.path().file_stem()?.to_str()?.to_uppercase()));
    stems.filter(|stem| stem != "MOD").collect()
}

#[test]
fn no_list_of_types_stands_outside_quant() {
    let names = types();
    assert!(names.len() > 30, "{names:?}");
    check(|source| named_types(source, &names));
}

#[test]
fn a_list_of_types_is_found() {
    let names = ["Q4_K", "Q5_K", "Q9_X"].map(str::to_owned);
    let rule = |source: &Source| named_types(source, &names);
    let path = "crates/convert/src/quantize/a.rs";
    let list = "const NEWEST: &[TensorType] = &[q::Q4_K, q::Q5_K, gristmill_quant::Q9_X];";
    planted(rule, path, list, 1);
    planted(rule, "src/a.rs", list, 1);
    let imported =
        "use gristmill_quant::{Q4_K, Q5_K, Q9_X};\nconst A: &[TensorType] = &[Q4_K, Q5_K, Q9_X];";
    planted(rule, path, imported, 1);
    let text = "const A: &[&str] = &[\"q4_K\", \"Q5_K\", \"q9_x\"];";
    planted(rule, path, text, 1);
    planted(rule, "crates/convert/src/recipe/mix.rs", list, 0);
    // Two of these may stand there.
    planted(rule, "crates/convert/src/recipe/plan.rs", list, 0);
    planted(rule, "crates/quant/src/a.rs", list, 0);
    planted(rule, "crates/convert/src/recipe/tests.rs", list, 0);
    planted(
        rule,
        path,
        "fn f() { g(q::Q4_K, q::Q5_K, Other::Q9_X) } // Q9_X",
        0,
    );
}
