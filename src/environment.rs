//! Environment variables of the reference, which stand for its flags there.

/// Says which of the reference's variables are set, since they count for nothing here.
pub fn note() {
    let mut names: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| name.starts_with("LLAMA_ARG_"))
        .filter(|name| !crate::model_path::VARIABLES.contains(&&**name))
        .collect();
    names.sort_unstable();
    if !names.is_empty() {
        say!(
            "note: {} of the environment is not read; give the flags themselves",
            names.join(", ")
        );
    }
}
