//! A new chat template is compiled before it is written: a broken one would be found by the first who chats.

use anyhow::anyhow;
use gristmill_engine::chat::ChatTemplate;
use gristmill_gguf::edit::Plan;

use super::request::TEMPLATE;
use crate::failure::Hint;

/// Refuses a plan that would write a template that no engine compiles; with `force` it is told of only.
pub fn check(plan: &Plan, force: bool) -> anyhow::Result<()> {
    for change in plan
        .changes()
        .iter()
        .filter(|change| is_template(&change.key))
    {
        let Some(value) = &change.after else {
            continue;
        };
        let text = value.as_text().and_then(|text| text.to_str());
        let fault = match text.map(ChatTemplate::new) {
            Some(Ok(_)) => continue,
            Some(Err(error)) => error.to_string(),
            None => format!("chat template: {} is no text", value.type_name()),
        };
        let (path, key) = (plan.path().display(), &change.key);
        if !force {
            let hint = "mend the template; `--force` writes it as it is";
            return Err(anyhow!("{path}: refused: {key:?}: {fault}").context(Hint::new(hint)));
        }
        say!("warning: {path}: {key:?}: {fault}");
    }
    Ok(())
}

/// The model's template, or a named one beside it.
fn is_template(key: &str) -> bool {
    key.strip_prefix(TEMPLATE)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
