//! Where names of architectures may stand.

/// Where names of architectures may stand outside their own files, with the reason.
pub const ARCHITECTURE_NAMES: [(&str, &str); 8] = [
    (
        "crates/model/src/reference.rs",
        "the list of all that the reference loads, most of which have no file",
    ),
    (
        "crates/convert/src/recipe/family.rs",
        "the one table of what quantization knows of families, most of which have no file",
    ),
    (
        "crates/convert/src/tokenizer/",
        "values of tokenizer.ggml.model and tokenizer.ggml.pre, some of which are spelled as architectures",
    ),
    ("crates/convert/src/export/tokenizer.rs", "the same values"),
    (
        "crates/measure/src/check/group/tokenizer.rs",
        "the same values",
    ),
    ("crates/tokenizer/src/", "the same values"),
    (
        "crates/engine/src/chat/builtin/",
        "names of chat templates, some of which are spelled as architectures",
    ),
    (
        "crates/engine/src/reply/family/",
        "names of forms of tool calls, some of which are spelled as architectures",
    ),
];
