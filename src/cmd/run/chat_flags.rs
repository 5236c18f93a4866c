//! Flags of a chat: who says what, by which template, and what becomes of reasoning and tool calls.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use gristmill_engine::reply::ReasoningForm;
use serde_json::{Map, Value};

use crate::escapes::unescape;
use crate::failure::Hint;

#[derive(clap::Args)]
#[command(next_help_heading = "Chat")]
pub struct ChatFlags {
    /// Chat, also where the prompt could be answered alone; the default for a model with a chat template
    #[arg(long, overrides_with = "no_conversation")]
    pub conversation: bool,
    /// Continue the prompt as plain text
    #[arg(long, overrides_with = "conversation")]
    pub no_conversation: bool,
    /// End after the first answer
    #[arg(long)]
    pub single_turn: bool,
    /// Instructions to the model
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        overrides_with = "system_prompt_file"
    )]
    pub system_prompt: Option<String>,
    /// The same from a file
    #[arg(long, value_name = "FILE", overrides_with = "system_prompt")]
    pub system_prompt_file: Option<PathBuf>,
    /// Keep the conversation in a JSON file: read at the start where it exists, written after each answer
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    /// Functions that the model may call: a JSON list for the template
    #[arg(long, value_name = "FILE")]
    pub tools: Option<PathBuf>,
    /// Let control tokens in messages be parsed as such
    #[arg(long)]
    pub parse_special: bool,
    /// A string that ends an answer; may be given more than once
    #[arg(long, short, value_name = "TEXT", allow_hyphen_values = true)]
    pub reverse_prompt: Vec<String>,
    /// A message goes on over several lines, until one ends with a backslash; without this flag a backslash at the end of a
    /// line goes on in the next one
    #[arg(long)]
    pub multiline_input: bool,
    /// Read lines without an editor, also on a terminal
    #[arg(long)]
    pub simple_io: bool,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Chat template")]
pub struct TemplateFlags {
    /// Chat template: the name of a built-in one, or Jinja text
    #[arg(long, value_name = "NAME|JINJA", overrides_with = "chat_template_file")]
    pub chat_template: Option<String>,
    /// Chat template from a file
    #[arg(long, value_name = "FILE", overrides_with = "chat_template")]
    pub chat_template_file: Option<PathBuf>,
    /// Variables for the template, as a JSON object
    #[arg(long, value_name = "JSON", value_parser = json_object)]
    pub chat_template_kwargs: Option<JsonObject>,
    /// Take answers as they are: reasoning and tool calls stay in the text
    #[arg(long, overrides_with = "no_skip_chat_parsing")]
    pub skip_chat_parsing: bool,
    /// Tell reasoning and tool calls apart from the text: the default
    #[arg(long, overrides_with = "skip_chat_parsing")]
    pub no_skip_chat_parsing: bool,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Reasoning")]
pub struct ReasoningFlags {
    /// Whether the model shall think before it answers, where its template has a switch for it (`enable_thinking` or
    /// `thinking`)
    #[arg(long, value_name = "on|off|auto", default_value = "auto")]
    pub reasoning: Reasoning,
    /// What becomes of the model's reasoning: `none` leaves it in the answer, `deepseek` (as `auto`) tells it apart,
    /// `deepseek-legacy` does both
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    pub reasoning_format: ReasoningFormat,
    /// How hard the model shall think, where its template knows `reasoning_effort`: `low`, `medium`, `high` or what else
    /// the template takes; `none` is --reasoning off, `default` leaves it to the template
    #[arg(long, value_name = "LEVEL")]
    pub reasoning_effort: Option<String>,
    /// Most tokens of reasoning before it is ended; -1 for no limit, 0 for none at all
    #[arg(long, value_name = "N", default_value_t = -1, value_parser = crate::numbers::whole(-1..=i64::from(i32::MAX)))]
    pub reasoning_budget: i64,
    /// What is said at the end of reasoning that is cut off so
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        allow_hyphen_values = true
    )]
    pub reasoning_budget_message: String,
    /// Let the template keep the reasoning of earlier answers, where it knows `preserve_reasoning`
    #[arg(long, overrides_with = "no_reasoning_preserve")]
    pub reasoning_preserve: bool,
    /// Let it drop them
    #[arg(long, overrides_with = "reasoning_preserve")]
    pub no_reasoning_preserve: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Reasoning {
    On,
    Off,
    Auto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ReasoningFormat {
    Auto,
    None,
    Deepseek,
    DeepseekLegacy,
}

pub type JsonObject = Map<String, Value>;

/// Variables of templates that are true or false.
const SWITCHES: &[&str] = &["enable_thinking", "thinking", "preserve_reasoning"];

fn json_object(text: &str) -> Result<JsonObject, String> {
    let object: JsonObject = serde_json::from_str(text).map_err(|error| {
        format!("it must be a JSON object, such as {{\"enable_thinking\": false}} ({error})")
    })?;
    for name in SWITCHES {
        // A template takes every text but the empty one for true.
        if object.get(*name).is_some_and(Value::is_string) {
            return Err(format!("{name} must be true or false, without quotes"));
        }
    }
    Ok(object)
}

impl ChatFlags {
    /// The instructions; those of a file are never unescaped.
    pub fn system(&self, escape: bool) -> anyhow::Result<Option<String>> {
        if let Some(path) = &self.system_prompt_file {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("{}: cannot read the system prompt", path.display()))?;
            return Ok(Some(text.strip_suffix('\n').unwrap_or(&text).to_owned()));
        }
        let text = self.system_prompt.as_deref();
        Ok(text.map(|text| unescaped(text, escape)))
    }

    /// The strings that end an answer.
    pub fn stops(&self, escape: bool) -> impl Iterator<Item = String> {
        let given = self.reverse_prompt.iter();
        given.map(move |text| unescaped(text, escape))
    }

    /// The functions that can be called.
    pub fn tools(&self) -> anyhow::Result<Option<Value>> {
        let Some(path) = &self.tools else {
            return Ok(None);
        };
        let shown = path.display();
        let wrong = |what: String| {
            anyhow::anyhow!("{shown}: {what}").context(Hint::new(
                "give a JSON list of functions, each {\"type\": \"function\", \"function\": {\"name\": …, \"parameters\": …}}",
            ))
        };
        let tools = read_json(path)?;
        let list = tools
            .as_array()
            .ok_or_else(|| wrong("is no list of tools".into()))?;
        for (index, tool) in list.iter().enumerate() {
            let function = tool.get("function").unwrap_or(tool);
            if !function.get("name").is_some_and(Value::is_string) {
                return Err(wrong(format!("tool {index} has no name")));
            }
        }
        Ok(Some(tools).filter(|tools| tools.as_array().is_some_and(|list| !list.is_empty())))
    }

    /// Says what has no effect where a text is continued and there is no chat, and why there is none.
    pub fn note_plain(&self, cause: &str, template: &TemplateFlags, reasoning: &ReasoningFlags) {
        let has_system = self.system_prompt.is_some() || self.system_prompt_file.is_some();
        let has_template =
            template.chat_template.is_some() || template.chat_template_file.is_some();
        let preserves = reasoning.reasoning_preserve || reasoning.no_reasoning_preserve;
        let form = reasoning.reasoning_format;
        for (what, is_given) in [
            ("the system prompt", has_system),
            ("--history", self.history.is_some()),
            ("--tools", self.tools.is_some()),
            ("--single-turn", self.single_turn),
            ("--parse-special", self.parse_special),
            ("the chat template", has_template),
            (
                "--chat-template-kwargs",
                template.chat_template_kwargs.is_some(),
            ),
            ("--skip-chat-parsing", template.skip_chat_parsing),
            ("--reasoning", reasoning.reasoning != Reasoning::Auto),
            ("--reasoning-format", form != ReasoningFormat::Auto),
            ("--reasoning-effort", reasoning.reasoning_effort.is_some()),
            ("--reasoning-budget", reasoning.budget().is_some()),
            ("--reasoning-preserve", preserves),
        ] {
            if is_given {
                say!("note: {what} belongs to a chat; with {cause} it changes nothing");
            }
        }
    }

    /// Why a text is continued whatever template there is.
    pub fn plain_cause(&self) -> &'static str {
        match self.no_conversation {
            true => "--no-conversation",
            false => "text around what is typed (--in-prefix)",
        }
    }
}

/// A text of the command line, its escape sequences processed if asked for.
fn unescaped(text: &str, escape: bool) -> String {
    match escape {
        true => String::from_utf8_lossy(&unescape(text.as_bytes())).into_owned(),
        false => text.to_owned(),
    }
}

/// What to do where a file is no JSON.
pub const NO_JSON: &str = "name a file of JSON; line and column tell where it stops being that";

/// The JSON of a file.
fn read_json(path: &Path) -> anyhow::Result<Value> {
    let shown = path.display();
    let bytes = std::fs::read(path).map_err(|error| {
        let error = anyhow::Error::new(error).context(format!("{shown}: cannot read it"));
        match shown.to_string().starts_with(['[', '{']) {
            true => error.context(Hint::new("write the JSON to a file, and name that")),
            false => error,
        }
    })?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let error = anyhow::Error::new(error).context(format!("{shown}: is no JSON"));
        error.context(Hint::new(NO_JSON))
    })
}

impl ReasoningFlags {
    /// Says what has no effect.
    pub fn note(&self, skips_parsing: bool) {
        if skips_parsing && self.budget().is_some() {
            say!("note: --reasoning-budget changes nothing with --skip-chat-parsing");
        }
        if !self.reasoning_budget_message.is_empty() && self.budget().is_none() {
            say!(
                "note: --reasoning-budget-message is said where --reasoning-budget ends, which is not set"
            );
        }
    }

    /// What to do with reasoning in answers.
    pub fn form(&self) -> ReasoningForm {
        match self.reasoning_format {
            ReasoningFormat::None => ReasoningForm::Content,
            ReasoningFormat::Auto | ReasoningFormat::Deepseek => ReasoningForm::Apart,
            ReasoningFormat::DeepseekLegacy => ReasoningForm::Both,
        }
    }

    /// The variables that a template is given, over those that the user gave.
    pub fn variables(&self, given: Option<&JsonObject>, template: &str, quiet: bool) -> JsonObject {
        let mut variables = given.cloned().unwrap_or_default();
        let mut switches = vec!["enable_thinking", "thinking"];
        switches.retain(|name| template.contains(name));
        let knows_effort = template.contains("reasoning_effort");
        let mut effort = self.reasoning_effort.as_deref();
        effort = effort.filter(|effort| *effort != "default");
        // A template without a switch may know the word itself.
        let is_off = effort == Some("none") && !(switches.is_empty() && knows_effort);
        let (flag, thinks) = match self.reasoning {
            _ if is_off => ("--reasoning-effort none", Some(false)),
            Reasoning::On => ("--reasoning", Some(true)),
            Reasoning::Off => ("--reasoning", Some(false)),
            Reasoning::Auto => ("", None),
        };
        if let Some(thinks) = thinks {
            if switches.is_empty() && !quiet {
                say!("note: the template has no switch for reasoning; {flag} changes nothing");
            }
            let set = |name: &str| (name.to_owned(), thinks.into());
            variables.extend(switches.into_iter().map(set));
        }
        if let Some(effort) = effort.filter(|_| !is_off) {
            if !knows_effort && !quiet {
                say!(
                    "note: the template knows no reasoning_effort; --reasoning-effort changes nothing"
                );
            }
            variables.insert("reasoning_effort".into(), effort.into());
        }
        if self.reasoning_preserve || self.no_reasoning_preserve {
            let keeps = !self.no_reasoning_preserve;
            variables.insert("preserve_reasoning".into(), keeps.into());
        }
        variables
    }

    /// Whether the model shall not think at all, as these flags or the template's variables say.
    pub fn is_off(&self, variables: &JsonObject) -> bool {
        let is_false = |name: &&str| variables.get(*name) == Some(&Value::Bool(false));
        let switches = ["enable_thinking", "thinking"];
        self.reasoning == Reasoning::Off
            || self.reasoning_budget == 0
            || self.reasoning_effort.as_deref() == Some("none")
            || switches.iter().any(is_false)
    }

    /// Most tokens of reasoning.
    pub fn budget(&self) -> Option<usize> {
        usize::try_from(self.reasoning_budget).ok()
    }
}
