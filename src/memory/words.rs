//! Memory in words.

use gristmill_measure::estimate::{Remedy, Setting};

use crate::display::size;

/// What to do, as it is typed where it can be.
pub fn remedy(remedy: &Remedy) -> String {
    match remedy {
        Remedy::Settings(settings) => {
            let flags: Vec<String> = settings.iter().map(setting).collect();
            flags.join(" ")
        }
        Remedy::Recipe(recipe) => {
            let matrix = match recipe.needs_importance {
                true => ", with an importance matrix",
                false => "",
            };
            format!(
                "its {} of {}{matrix}",
                recipe.recipe.name,
                size(recipe.weights)
            )
        }
        Remedy::SmallerModel => "a smaller model".to_owned(),
    }
}

fn setting(setting: &Setting) -> String {
    match setting {
        Setting::Context(n_ctx) => format!("-c {n_ctx}"),
        Setting::Sequences(n_sequences) => format!("-np {n_sequences}"),
        Setting::Batch(n_tokens) => format!("-ub {n_tokens}"),
        Setting::Cache(types) => format!("-ctk {} -ctv {}", types.k.name(), types.v.name()),
    }
}

/// All of them in one sentence.
pub fn remedies(remedies: &[Remedy]) -> String {
    let each: Vec<String> = remedies.iter().map(remedy).collect();
    format!("close other programs, or take {}", each.join(", or "))
}
