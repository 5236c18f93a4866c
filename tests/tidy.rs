//! The rules of the house as a test: which crate may use which, where `unsafe` stands, sizes, registries, names, and
//! no way to panic without a proof. Each rule is also tried on a planted violation.

#[path = "tidy/architecture_names.rs"]
mod architecture_names;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/measures.rs"]
mod measures;
#[path = "tidy/repeats.rs"]
mod repeats;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/type_lists.rs"]
mod type_lists;

use std::path::{Path, PathBuf};

use architecture_names::ARCHITECTURE_NAMES;
use source::{Source, sources};

/// The crates of ours that a crate may use.
const ALLOWED_EDGES: &[(&str, &[&str])] = &[
    ("compute", &["kernels", "quant"]),
    (
        "convert",
        &["gguf", "kernels", "model", "quant", "tokenizer"],
    ),
    (
        "engine",
        &[
            "compute",
            "gguf",
            "kernels",
            "model",
            "quant",
            "template",
            "tokenizer",
        ],
    ),
    ("gguf", &["quant"]),
    // Data for tests: others may use it in theirs only.
    ("golden", &[]),
    ("hub", &[]),
    ("kernels", &["quant"]),
    (
        "measure",
        &["convert", "engine", "gguf", "model", "quant", "tokenizer"],
    ),
    ("model", &["compute", "gguf", "quant"]),
    ("pipeline", &["convert", "engine", "gguf"]),
    ("quant", &[]),
    ("template", &[]),
    ("tokenizer", &["gguf"]),
];

/// Where `unsafe` may stand.
const UNSAFE_PLACES: &[&str] = &["crates/kernels/src/", "crates/gguf/src/mapping.rs"];

/// A folder whose files are entries of a registry, and the file that holds the registry: there an entry of `q4_k.rs`
/// is `q4_k::…` or `…::Q4_K`. Last the files that entries share, which are no entries.
const REGISTRIES: &[(&str, &str, &[&str])] = &[
    (
        "crates/convert/src/recipe",
        "mod.rs",
        &["family", "mix", "plan", "tensor_kind"],
    ),
    ("crates/engine/src/reply/family", "mod.rs", &["harmony"]),
    (
        "crates/engine/src/sampling",
        "mod.rs",
        &["candidates", "draw"],
    ),
    ("crates/kernels/src/avx2", "mod.rs", &["encode"]),
    ("crates/measure/src/check/group", "mod.rs", &[]),
    ("crates/model/src/arch", "mod.rs", &[]),
    ("crates/quant/src/types", "mod.rs", &[]),
    ("crates/tokenizer/src/pre", "mod.rs", &[]),
    ("src/cmd", "mod.rs", &[]),
];

/// Functions that may be longer than [`FUNCTION_LINES_MAX`]: tables and graph builders only, each with its reason.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[];

const FUNCTION_LINES_MAX: usize = 70;
/// Tests may be tables of cases.
const TEST_LINES_MAX: usize = 150;
const FILE_LINES_MAX: usize = 800;
const VAGUE_NAMES: &[&str] = &[
    "utils", "util", "helpers", "helper", "common", "manager", "misc",
];
const UNFINISHED: &[&str] = &["todo!", "unimplemented!", "dbg!"];
const PANICKING: &[&str] = &[
    ".unwrap()",
    ".expect(",
    ".unwrap_err()",
    ".expect_err(",
    "panic!",
    "unreachable!",
];

/// How far above a line its comment may begin.
const COMMENT_REACH: usize = 6;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a rule on every file of the workspace.
fn check(rule: impl Fn(&Source) -> Vec<String>) {
    report(sources(&root()).iter().flat_map(rule).collect());
}

fn report(violations: Vec<String>) {
    assert!(
        violations.is_empty(),
        "{} violations:\n{}",
        violations.len(),
        violations.join("\n")
    );
}

/// Asserts that a rule finds `n` violations in a planted file.
fn planted(rule: impl Fn(&Source) -> Vec<String>, path: &str, text: &str, n: usize) {
    let found = rule(&Source::new(path, text));
    assert_eq!(found.len(), n, "in {path}:\n{text}\nfound {found:?}");
}

// Edges between crates.

fn edges(name: &str, manifest: &str) -> Vec<String> {
    let allowed = ALLOWED_EDGES
        .iter()
        .find(|(from, _)| *from == name)
        .map(|(_, to)| *to);
    let Some(allowed) = allowed else {
        return vec![format!("crates/{name}: not in ALLOWED_EDGES")];
    };
    let mut section = "";
    let mut violations = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line.trim();
        }
        let used = line
            .strip_prefix("gristmill-")
            .and_then(|rest| rest.split(['.', ' ', '=']).next());
        if let (Some(used), "[dependencies]" | "[build-dependencies]") = (used, section)
            && !allowed.contains(&used)
        {
            violations.push(format!("crates/{name} uses {used}; allowed: {allowed:?}"));
        }
    }
    if !manifest.contains("[lints]\nworkspace = true") {
        violations.push(format!(
            "crates/{name}: the workspace's lints are not turned on"
        ));
    }
    violations
}

#[test]
fn crates_use_only_what_lies_below() {
    let crates = std::fs::read_dir(root().join("crates")).expect("the workspace has crates");
    let mut violations = Vec::new();
    for entry in crates.flatten() {
        let manifest = std::fs::read_to_string(entry.path().join("Cargo.toml"))
            .expect("a crate has a manifest");
        violations.extend(edges(&entry.file_name().to_string_lossy(), &manifest));
    }
    report(violations);
}

#[test]
fn a_wrong_edge_is_found() {
    let lints = "[lints]\nworkspace = true\n";
    assert_eq!(
        edges(
            "gguf",
            &format!("{lints}[dependencies]\ngristmill-quant.workspace = true\n")
        )
        .len(),
        0
    );
    assert_eq!(
        edges(
            "gguf",
            &format!("{lints}[dependencies]\ngristmill-model.workspace = true\n")
        )
        .len(),
        1
    );
    assert_eq!(
        edges(
            "gguf",
            &format!("{lints}[dev-dependencies]\ngristmill-model.workspace = true\n")
        )
        .len(),
        0
    );
    assert_eq!(edges("gguf", "[dependencies]\n").len(), 1);
    assert_eq!(edges("new", lints).len(), 1);
}

// `unsafe`.

fn unsafe_place(source: &Source) -> Vec<String> {
    if UNSAFE_PLACES
        .iter()
        .any(|place| source.path.starts_with(place))
        || source.path.starts_with("crates/kernels/")
    {
        return Vec::new();
    }
    let found = source.words("unsafe").into_iter();
    found
        .map(|at| {
            format!(
                "{}:{}: unsafe outside {UNSAFE_PLACES:?}",
                source.path,
                source.line(at)
            )
        })
        .collect()
}

fn unsafe_reason(source: &Source) -> Vec<String> {
    let is_block = |at: &usize| {
        let after = source.code[at + "unsafe".len()..].trim_start();
        after.starts_with('{') || after.starts_with("impl")
    };
    let found = source
        .words("unsafe")
        .into_iter()
        .filter(is_block)
        .map(|at| source.line(at));
    found
        .filter(|line| !source.has_comment(*line, "SAFETY:", 10))
        .map(|line| format!("{}:{line}: no SAFETY comment", source.path))
        .collect()
}

#[test]
fn unsafe_stands_where_it_may() {
    check(unsafe_place);
}

#[test]
fn unsafe_has_its_reason() {
    check(unsafe_reason);
}

#[test]
fn misplaced_unsafe_is_found() {
    planted(
        unsafe_place,
        "crates/quant/src/lib.rs",
        "fn f() { unsafe { g() } }",
        1,
    );
    planted(
        unsafe_place,
        "crates/kernels/src/avx2/q4_k.rs",
        "fn f() { unsafe { g() } }",
        0,
    );
    planted(
        unsafe_place,
        "src/main.rs",
        "// unsafe\nfn f() { let unsafely = \"unsafe\"; }",
        0,
    );
    planted(
        unsafe_reason,
        "crates/kernels/src/a.rs",
        "fn f() {\n    unsafe { g() }\n}",
        1,
    );
    planted(
        unsafe_reason,
        "crates/kernels/src/a.rs",
        "fn f() {\n    // SAFETY: checked.\n    unsafe { g() }\n}",
        0,
    );
    planted(
        unsafe_reason,
        "crates/kernels/src/a.rs",
        "// SAFETY: a;\nlet a = 1;\nlet b = unsafe { g() };",
        1,
    );
}

// Output.

/// The macros that panic where standard output or standard error cannot be written.
fn panicking_output(source: &Source) -> Vec<String> {
    let shipped = |path: &str| path.starts_with("src/") || path.contains("/src/");
    // What only tests call may print as they do.
    let for_tests = |path: &str| path.starts_with("crates/golden/") || path.contains("/tests");
    if !shipped(&source.path) || for_tests(&source.path) {
        return Vec::new();
    }
    let tests = source
        .code
        .find("#[cfg(test)]")
        .unwrap_or(source.code.len());
    let macros = ["print", "println", "eprint", "eprintln"];
    let found = macros.iter().flat_map(|name| source.words(name));
    found
        .filter(|at| *at < tests)
        .filter(|at| {
            let after = source.code[*at..].trim_start_matches(char::is_alphabetic);
            after.starts_with('!')
        })
        .map(|at| {
            format!(
                "{}:{}: use `say!`, or `writeln!` with an error",
                source.path,
                source.line(at)
            )
        })
        .collect()
}

/// Uses of standard output beside the module that keeps the exit code where the reader has gone.
fn direct_output(source: &Source) -> Vec<String> {
    if !source.path.starts_with("src/") || source.path == "src/stdout.rs" {
        return Vec::new();
    }
    let found = source.words("stdout").into_iter();
    found
        .filter(|at| {
            source.code[..*at].ends_with("io::") || source.code[*at..].starts_with("stdout()")
        })
        .map(|at| {
            format!(
                "{}:{}: use `stdout::lock()`, or `stdout::stream()` for text without end",
                source.path,
                source.line(at)
            )
        })
        .collect()
}

#[test]
fn standard_output_has_one_way() {
    check(direct_output);
    let path = "src/cmd/check.rs";
    planted(direct_output, path, "let out = io::stdout().lock();", 1);
    planted(direct_output, path, "let out = stdout::lock();", 0);
}

#[test]
fn no_output_panics() {
    check(panicking_output);
}

#[test]
fn panicking_output_is_found() {
    let path = "src/cmd/run.rs";
    planted(
        panicking_output,
        path,
        "fn f() { eprintln!(\"x\"); print!(\"y\") }",
        2,
    );
    planted(
        panicking_output,
        path,
        "fn f() { say!(\"eprintln!\") } // println!",
        0,
    );
    planted(
        panicking_output,
        "tests/a.rs",
        "fn f() { eprintln!(\"x\") }",
        0,
    );
    planted(
        panicking_output,
        path,
        "#[cfg(test)]\nmod tests { fn f() { println!(\"x\") } }",
        0,
    );
}

// Sizes.

fn function_length(source: &Source) -> Vec<String> {
    let allowed = |name: &str| {
        LONG_FUNCTIONS
            .iter()
            .any(|(path, long, _)| *path == source.path && *long == name)
    };
    let functions = source.functions().into_iter();
    functions
        .filter(|function| {
            function.n_lines
                > if function.is_test {
                    TEST_LINES_MAX
                } else {
                    FUNCTION_LINES_MAX
                }
        })
        .filter(|function| !allowed(&function.name))
        .map(|f| {
            format!(
                "{}:{}: `{}` has {} lines",
                source.path, f.line, f.name, f.n_lines
            )
        })
        .collect()
}

fn file_length(source: &Source) -> Vec<String> {
    let n_lines = source.code.lines().count();
    let violation = format!("{}: {n_lines} lines", source.path);
    if n_lines > FILE_LINES_MAX {
        vec![violation]
    } else {
        Vec::new()
    }
}

#[test]
fn functions_are_short() {
    check(function_length);
}

#[test]
fn files_are_short() {
    check(file_length);
}

#[test]
fn long_things_are_found() {
    let long = |n: usize| {
        format!(
            "fn f<T>(x: [u8; 4]) -> Vec<(u8, T)>\nwhere\n    T: Copy,\n{{\n{}}}\n",
            "x();\n".repeat(n)
        )
    };
    planted(function_length, "src/a.rs", &long(65), 0);
    planted(function_length, "src/a.rs", &long(66), 1);
    planted(
        function_length,
        "src/a.rs",
        &format!(
            "trait T {{\nfn f();\n{}\n}}",
            "const A: u8 = 1;\n".repeat(80)
        ),
        0,
    );
    planted(function_length, "tests/a.rs", &long(145), 0);
    planted(function_length, "tests/a.rs", &long(146), 1);
    planted(file_length, "src/a.rs", &"\n".repeat(800), 0);
    planted(file_length, "src/a.rs", &"\n".repeat(801), 1);
}

// Registries.

/// Files of a registry folder that their registry does not name, but for those that entries share.
fn unregistered(folder: &Path, registry: &str, shared: &[&str]) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let (modules, registry_source) = (
        read_source(&folder.join("mod.rs")),
        read_source(&folder.join(registry)),
    );
    let paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let mut violations = Vec::new();
    for path in &paths {
        let Some(name) = path
            .file_stem()
            .map(|stem| stem.to_string_lossy().to_string())
        else {
            continue;
        };
        if name == "mod" || name == "tests" {
            continue;
        }
        let declared = modules.code.contains(&format!("mod {name};"));
        let entry = [format!("{name}::"), format!("::{}", name.to_uppercase())];
        let registered = entry
            .iter()
            .any(|entry| !registry_source.words(entry).is_empty());
        let shared = shared.contains(&&*name);
        if !declared || !(registered || shared) {
            violations.push(format!("{}: not registered in {registry}", path.display()));
        }
    }
    violations
}

fn read_source(path: &Path) -> Source {
    Source::new(
        &path.to_string_lossy(),
        &std::fs::read_to_string(path).unwrap_or_default(),
    )
}

/// Rust files that no `mod` line names: they would not even be compiled.
fn orphans(sources: &[Source]) -> Vec<String> {
    let mut violations = Vec::new();
    for source in sources.iter().filter(|source| source.path.contains("src/")) {
        let path = Path::new(&source.path);
        let (Some(folder), Some(stem)) = (path.parent(), path.file_stem()) else {
            continue;
        };
        let (folder, stem) = (folder.to_string_lossy(), stem.to_string_lossy());
        if matches!(&*stem, "main" | "lib") || folder.ends_with("/bin") {
            continue;
        }
        let (home, name) = match &*stem {
            "mod" => folder.rsplit_once('/').unwrap_or(("", &*folder)),
            _ => (&*folder, &*stem),
        };
        let parents = ["/mod.rs", "/lib.rs", "/main.rs", ".rs"].map(|end| format!("{home}{end}"));
        let declared = sources
            .iter()
            .filter(|other| parents.contains(&other.path))
            .any(|other| {
                other.words("mod").iter().any(|at| {
                    let rest = other.code[at + 3..].trim_start();
                    rest.strip_prefix(name)
                        .is_some_and(|rest| rest.trim_start().starts_with(';'))
                })
            });
        if !declared {
            violations.push(format!("{}: no `mod {name};` names it", source.path));
        }
    }
    violations
}

#[test]
fn every_entry_is_registered() {
    let all = REGISTRIES.iter().flat_map(|(folder, registry, shared)| {
        unregistered(&root().join(folder), registry, shared)
    });
    report(all.collect());
}

#[test]
fn every_file_is_compiled() {
    report(orphans(&sources(&root())));
}

#[test]
fn an_unregistered_file_is_found() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("it can be written")
    };
    write("q4_k.rs", "");
    write("q5_k.rs", "use super::lanes;");
    write("lanes.rs", "");
    write(
        "mod.rs",
        "mod lanes;\nmod q4_k;\nmod q5_k;\nconst ALL: &[Format] = &[q4_k::FORMAT];\n// q5_k::FORMAT",
    );
    let found = unregistered(folder.path(), "mod.rs", &["lanes"]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("q5_k.rs"), "{found:?}");
    // That an entry uses another does not register that one.
    write("q4_k.rs", "use super::q5_k;");
    assert_eq!(unregistered(folder.path(), "mod.rs", &["lanes"]).len(), 1);
    assert_eq!(unregistered(folder.path(), "mod.rs", &[]).len(), 2);
    write(
        "registry.rs",
        "static ALL: &[TensorType] = &[types::Q4_K, types::Q5_K];",
    );
    let found = unregistered(folder.path(), "registry.rs", &["lanes"]);
    assert_eq!(found.len(), 1, "the registry itself: {found:?}");

    let sources = [
        ("src/lib.rs", "mod a;\npub mod c;"),
        ("src/a.rs", ""),
        ("src/b.rs", ""),
        ("src/c/mod.rs", ""),
    ];
    let found = orphans(&sources.map(|(path, text)| Source::new(path, text)));
    assert_eq!(found, ["src/b.rs: no `mod b;` names it"]);
}

// Names of architectures.

/// Names in quotes outside the files that may have them: what one architecture does stands in its own file.
fn named_architectures(source: &Source, names: &[String]) -> Vec<String> {
    let may = |name: &str| {
        let mut places = ARCHITECTURE_NAMES.iter();
        source.path.ends_with(&format!("/arch/{name}.rs"))
            || places.any(|(path, _)| source.path.starts_with(path))
    };
    let quoted = source
        .literals
        .iter()
        .filter(|(at, _)| !source.is_test(*at));
    quoted
        .filter_map(|(at, text)| {
            let name = names.iter().find(|name| *name == text)?;
            (!may(name)).then(|| {
                let (path, line) = (&source.path, source.line(*at));
                let places = ARCHITECTURE_NAMES.map(|(path, _)| path).join(", ");
                format!(
                    "{path}:{line}: names the architecture `{name}`; only its own file and {places} may"
                )
            })
        })
        .collect()
}

/// The stems of the files of architectures, which are their names.
fn architectures() -> Vec<String> {
    let folder = std::fs::read_dir(root().join("crates/model/src/arch"));
    let files = folder.expect("there are architectures").flatten();
    let stems = files.filter_map(|file| Some(file.path().file_stem()?.to_str()?.to_owned()));
    stems.filter(|stem| stem != "mod").collect()
}

#[test]
fn no_architecture_is_named_outside_its_file() {
    let names = architectures();
    assert!(names.len() > 3, "{names:?}");
    check(|source| named_architectures(source, &names));
}

#[test]
fn a_named_architecture_is_found() {
    let names = ["qwen9".to_owned()];
    let rule = |source: &Source| named_architectures(source, &names);
    let text = "fn f(name: &str) -> bool { name == \"qwen9\" }";
    planted(rule, "crates/model/src/decoder.rs", text, 1);
    planted(
        rule,
        "crates/model/src/decoder.rs",
        &text.replace("\"qwen9", "r\"qwen9"),
        1,
    );
    planted(rule, "crates/model/src/arch/qwen9.rs", text, 0);
    planted(rule, "crates/model/tests/registry.rs", text, 0);
    planted(
        rule,
        "src/a.rs",
        "// \"qwen9\"\nfn f() { g(\"qwen9 and more\") }",
        0,
    );
}

// Names.

fn vague_names(source: &Source) -> Vec<String> {
    let parts = source.path.trim_end_matches(".rs").split('/');
    let mut found: Vec<String> = parts
        .filter(|part| VAGUE_NAMES.contains(part))
        .map(String::from)
        .collect();
    for at in source.words("mod") {
        let name = source.code[at + 3..]
            .trim_start()
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .next();
        found.extend(
            name.filter(|name| VAGUE_NAMES.contains(name))
                .map(String::from),
        );
    }
    found
        .into_iter()
        .map(|name| format!("{}: `{name}` says nothing", source.path))
        .collect()
}

#[test]
fn names_say_something() {
    check(vague_names);
}

#[test]
fn vague_names_are_found() {
    planted(vague_names, "src/utils.rs", "", 1);
    planted(vague_names, "src/helpers/names.rs", "", 1);
    planted(vague_names, "src/a.rs", "mod common { }\nmod manager;", 2);
    planted(vague_names, "src/a.rs", "mod commonplace;", 0);
}

// Panics.

fn unfinished(source: &Source) -> Vec<String> {
    let found = UNFINISHED
        .iter()
        .flat_map(|word| source.words(word).into_iter().map(move |at| (word, at)));
    found
        .map(|(word, at)| format!("{}:{}: {word}", source.path, source.line(at)))
        .collect()
}

fn panics(source: &Source) -> Vec<String> {
    let found = PANICKING.iter().flat_map(|word| {
        let method = word.starts_with('.');
        let places = source.code.match_indices(word).map(|(at, _)| at);
        let places: Vec<usize> = if method {
            places.collect()
        } else {
            source.words(word)
        };
        places.into_iter().map(move |at| (word, at))
    });
    found
        .filter(|(_, at)| {
            !source.is_test(*at) && !source.has_comment(source.line(*at), "//", COMMENT_REACH)
        })
        .map(|(word, at)| {
            format!(
                "{}:{}: {word} without a comment that proves it",
                source.path,
                source.line(at)
            )
        })
        .collect()
}

#[test]
fn nothing_is_unfinished() {
    check(unfinished);
}

#[test]
fn nothing_panics_without_a_proof() {
    check(panics);
}

#[test]
fn unproved_panics_are_found() {
    planted(
        unfinished,
        "src/a.rs",
        "fn f() { todo!() }\nfn g() { dbg!(1); }\n// todo!()",
        2,
    );
    planted(
        panics,
        "src/a.rs",
        "fn f() {\n    a();\n    x.unwrap();\n}",
        1,
    );
    planted(
        panics,
        "src/a.rs",
        "fn f() {\n    // Never empty: made above.\n    x.unwrap();\n    y.expect(\"y\");\n}",
        1,
    );
    planted(
        panics,
        "src/a.rs",
        "fn f() {\n    // Never empty.\n    x\n        .first()\n        .unwrap();\n}",
        0,
    );
    planted(
        panics,
        "src/a.rs",
        "fn f() {\n    panic!(\"no\");\n    unreachable!();\n}",
        2,
    );
    planted(
        panics,
        "src/a.rs",
        "fn f() { x.unwrap_or(1); }\n#[cfg(test)]\nmod tests {\n fn g() { x.unwrap(); }\n}",
        0,
    );
    planted(
        panics,
        "crates/quant/tests/main.rs",
        "fn f() { x.unwrap(); }",
        0,
    );
    planted(
        panics,
        "src/a.rs",
        "fn f<'a>(c: &'a str) { g('\"', r#\"x.unwrap()\"#, \"\\\"x.unwrap()\"); }",
        0,
    );
}
