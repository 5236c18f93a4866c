//! Where the hub and its cache are, and who asks: from the environment, by the variables that Hugging Face's library and
//! llama.cpp read.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Result;
use crate::error::HubError;

const ENDPOINT: &str = "https://huggingface.co";

/// How to reach a hub, and where to keep what comes from it.
#[derive(Clone)]
pub struct Settings {
    /// The hub's address, without a slash at the end.
    pub endpoint: String,
    /// The folder with a folder for each repository.
    pub cache: PathBuf,
    /// The folder for files that are fetched by their address.
    pub url_cache: PathBuf,
    /// What shows who asks. Sent to the hub's own address only.
    pub token: Option<String>,
    /// Take what is in the cache and fetch nothing.
    pub offline: bool,
    /// Parts of a file that are fetched at once.
    pub connections: usize,
    /// The size of such a part in bytes.
    pub part_bytes: u64,
    /// The pause before the second attempt; each further one takes twice as long.
    pub pause: Duration,
    /// Certificates to trust in place of those that are built in.
    pub certificates: Option<PathBuf>,
}

impl Settings {
    /// Parts of a file that are fetched at once.
    pub const CONNECTIONS: usize = 4;
    const PART_BYTES: u64 = 16 << 20;

    /// The settings of the environment, of which `variable` gives the values.
    ///
    /// # Errors
    /// `NoCache`, `BadToken`.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let endpoint = variable("MODEL_ENDPOINT").or_else(|| variable("HF_ENDPOINT"));
        let endpoint = endpoint.unwrap_or_else(|| ENDPOINT.to_owned());
        let home = variable("HOME")
            .or_else(|| variable("USERPROFILE"))
            .map(PathBuf::from);
        let system = variable("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(home?.join(".cache")));
        let hf_home = variable("HF_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(system.as_ref()?.join("huggingface")));
        let named = ["LLAMA_CACHE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"];
        let cache = named
            .iter()
            .find_map(|name| variable(name))
            .map(PathBuf::from);
        let cache = cache.or_else(|| Some(hf_home.as_ref()?.join("hub")));
        let cache = cache.ok_or(HubError::NoCache)?;
        let llama = variable("LLAMA_CACHE").map(PathBuf::from);
        let url_cache = llama.or_else(|| Some(system?.join("llama.cpp")));
        let is_on = |name: &str| {
            let value = variable(name).map(|value| value.to_ascii_lowercase());
            value.is_some_and(|value| ["1", "on", "yes", "true"].contains(&&*value))
        };
        let token_file = variable("HF_TOKEN_PATH")
            .map(PathBuf::from)
            .or_else(|| Some(hf_home?.join("token")));
        let token = match variable("HF_TOKEN").or_else(|| variable("HUGGING_FACE_HUB_TOKEN")) {
            Some(token) => Some(checked_token(&token)?),
            None if is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN") => None,
            None => read_token(token_file.as_deref())?,
        };
        Ok(Settings {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            url_cache: url_cache.unwrap_or_else(|| cache.clone()),
            cache,
            token,
            offline: is_on("HF_HUB_OFFLINE") || is_on("LLAMA_ARG_OFFLINE"),
            connections: Self::CONNECTIONS,
            part_bytes: Self::PART_BYTES,
            pause: Duration::from_millis(500),
            certificates: variable("SSL_CERT_FILE").map(PathBuf::from),
        })
    }

    /// The same with a token that was given by hand.
    ///
    /// # Errors
    /// `BadToken`.
    pub fn with_token(mut self, token: Option<&str>) -> Result<Self> {
        if let Some(token) = token {
            self.token = Some(checked_token(token)?);
        }
        Ok(self)
    }
}

/// A token that can stand in a header and nothing beside it.
fn checked_token(token: &str) -> Result<String> {
    let token = token.trim();
    match !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(token.to_owned()),
        false => Err(HubError::BadToken),
    }
}

/// The token that a login left; one that cannot be read is none.
fn read_token(path: Option<&Path>) -> Result<Option<String>> {
    let text = path.and_then(|path| std::fs::read_to_string(path).ok());
    let token = text.filter(|text| !text.trim().is_empty());
    token.map(|token| checked_token(&token)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Settings> {
        Settings::from_environment(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    /// The order in which llama.cpp b11434 and huggingface_hub 1.0 look for their cache.
    #[test]
    fn the_cache_is_where_others_look_for_it() {
        let cache = |variables: &[(&str, &str)]| of(variables).unwrap().cache;
        let home = ("HOME", "/home/a");
        assert_eq!(cache(&[home]), Path::new("/home/a/.cache/huggingface/hub"));
        let xdg = ("XDG_CACHE_HOME", "/x");
        assert_eq!(cache(&[home, xdg]), Path::new("/x/huggingface/hub"));
        let hf_home = ("HF_HOME", "/h");
        assert_eq!(cache(&[home, xdg, hf_home]), Path::new("/h/hub"));
        let hub = ("HF_HUB_CACHE", "/c");
        assert_eq!(cache(&[home, hf_home, hub]), Path::new("/c"));
        assert_eq!(cache(&[home, hub, ("LLAMA_CACHE", "/l")]), Path::new("/l"));
        assert!(matches!(of(&[]), Err(HubError::NoCache)));
    }

    #[test]
    fn the_token_comes_from_the_environment_or_the_file_of_a_login() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "hf_file\n").unwrap();
        let home = ("HF_HOME", &*folder.path().to_string_lossy().into_owned());
        let token = |variables: &[(&str, &str)]| of(variables).unwrap().token;
        assert_eq!(token(&[home]).as_deref(), Some("hf_file"));
        let named = [home, ("HF_TOKEN", "hf_named")];
        assert_eq!(token(&named).as_deref(), Some("hf_named"));
        assert_eq!(token(&[home, ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]), None);
        let broken = of(&[home, ("HF_TOKEN", "a\r\nHost: b")]);
        assert!(matches!(broken, Err(HubError::BadToken)));
    }
}
