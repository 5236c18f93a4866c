//! `diff`: what differs between two models.

mod json;

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use gristmill_gguf::{
    ArrayDiff, DataDiff, Diff as Difference, DiffOptions, EntryChange, Number, OrderDiff, Shape,
    TensorChange, Value, ValueChange, ValueDiff, diff,
};

use super::{Invocation, Run};
use crate::display::{counted, printable};
use crate::failure::{self, Exit};
use crate::numbers::{self, Threads};
use crate::progress::ByteBar;
use crate::value_text::{self, Extent};

/// How much of a value is shown.
const EXTENT: Extent = Extent {
    n_items: 6,
    n_chars: 60,
};
/// The exit code where two models differ, and where they cannot be compared, as of `diff`.
const EXIT_DIFFERENT: u8 = 1;
const EXIT_TROUBLE: u8 = 2;

/// Arguments of `diff`.
#[derive(clap::Args)]
pub struct Diff {
    /// GGUF file, or any file of a set
    #[arg(value_name = "A")]
    a: PathBuf,
    /// GGUF file, or any file of a set
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Compare no tensors
    #[arg(long)]
    metadata_only: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Threads [default: one per processor]
    #[arg(long, short, value_name = "N", default_value = "0", hide_default_value = true, value_parser = numbers::threads)]
    threads: Threads,
}

impl Run for Diff {
    const NAME: &'static str = "diff";
    const ABOUT: &'static str = "Show what differs between two models: metadata and tensors";
    const EXAMPLES: &'static str = "gristmill diff model-F16.gguf model-Q8_0.gguf
        gristmill diff --metadata-only old.gguf new.gguf
        gristmill diff --json model.gguf shards/model-00001-of-00003.gguf";

    fn more_help() -> String {
        "\n\nExit code: 0 if the models are equal, 1 if they differ, 2 if they cannot be compared. Sets of shards and \
         single files, little-endian and big-endian files compare as the models that they hold."
            .into()
    }

    fn run(self, _: &Invocation) -> anyhow::Result<()> {
        let options = DiffOptions {
            a: self.a,
            b: self.b,
            metadata_only: self.metadata_only,
            n_threads: self.threads.or_zero(),
        };
        let found = match ByteBar::during(|progress| diff(&options, progress)) {
            Ok(found) => found,
            Err(error) => {
                failure::report(&error.into());
                return Err(Exit(EXIT_TROUBLE).into());
            }
        };
        let printed = show(&found, options.metadata_only, self.json);
        let code = match printed {
            Err(error) => {
                failure::print(&error);
                EXIT_TROUBLE
            }
            Ok(()) if found.is_equal() => return Ok(()),
            Ok(()) => EXIT_DIFFERENT,
        };
        Err(Exit(code).into())
    }
}

fn show(found: &Difference, metadata_only: bool, as_json: bool) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, crate::stdout::lock());
    if as_json {
        json::write(found, &mut out)?;
    } else {
        print(found, metadata_only, &mut out)?;
    }
    Ok(out.flush()?)
}

fn print(found: &Difference, metadata_only: bool, out: &mut impl Write) -> anyhow::Result<()> {
    let (n_entries, n_tensors) = (found.n_equal_entries, found.n_equal_tensors);
    if found.is_equal() {
        let tensors = if metadata_only {
            "tensors were not compared".to_owned()
        } else {
            counted(n_tensors, "tensor")
        };
        writeln!(out, "equal: {n_entries} entries, {tensors}")?;
        return Ok(());
    }
    writeln!(
        out,
        "metadata: {} differ, {n_entries} are equal",
        found.entries.len()
    )?;
    for entry in &found.entries {
        let key = printable(&entry.key);
        match &entry.change {
            EntryChange::Added(value) => writeln!(out, "+ {key}: {}", typed(value))?,
            EntryChange::Removed(value) => writeln!(out, "- {key}: {}", typed(value))?,
            EntryChange::Changed { a, b } => {
                let (shown_a, shown_b) = value_text::show_pair(a, b, EXTENT);
                let (ty_a, ty_b) = (a.type_name(), b.type_name());
                writeln!(out, "~ {key}: {ty_a} {shown_a} -> {ty_b} {shown_b}")?;
            }
            EntryChange::Array(array) => writeln!(out, "~ {key}: {}", of_array(array))?,
        }
    }
    print_order("entries", found.entry_order.as_ref(), out)?;
    if metadata_only {
        return Ok(());
    }
    writeln!(
        out,
        "tensors: {} differ, {n_tensors} are equal",
        found.tensors.len()
    )?;
    for tensor in &found.tensors {
        let name = printable(&tensor.name);
        match &tensor.change {
            TensorChange::Added(shape) => writeln!(out, "+ {name}: {}", of_shape(shape))?,
            TensorChange::Removed(shape) => writeln!(out, "- {name}: {}", of_shape(shape))?,
            TensorChange::Changed { a, b, data } => {
                writeln!(out, "~ {name}: {}", of_tensor(a, b, data.as_ref()))?;
            }
        }
    }
    print_order("tensors", found.tensor_order.as_ref(), out)
}

fn print_order(what: &str, order: Option<&OrderDiff>, out: &mut impl Write) -> anyhow::Result<()> {
    if let Some(OrderDiff { index, a, b }) = order {
        writeln!(
            out,
            "~ order of {what}: of those in both, the first model has {} where the second has {} (number {index} from 0)",
            printable(a),
            printable(b)
        )?;
    }
    Ok(())
}

/// Type and value, shortened.
fn typed(value: &Value) -> String {
    format!("{} {}", value.type_name(), plain(value))
}

fn plain(value: &Value) -> String {
    value_text::show(value, EXTENT)
}

fn of_array(array: &ArrayDiff) -> String {
    let element = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), plain);
    let lengths = if array.len_a == array.len_b {
        format!("{} elements", array.len_a)
    } else {
        format!("{} -> {} elements", array.len_a, array.len_b)
    };
    format!(
        "{lengths}, {} differ, first number {}: {} -> {}",
        array.n_different,
        array.first,
        element(&array.a),
        element(&array.b)
    )
}

fn of_shape(shape: &Shape) -> String {
    format!("{} {:?}", shape.ty, shape.dims)
}

fn of_tensor(a: &Shape, b: &Shape, data: Option<&DataDiff>) -> String {
    let mut text = if a == b {
        of_shape(a)
    } else {
        format!("{} -> {}", of_shape(a), of_shape(b))
    };
    let Some(data) = data else { return text };
    if let Some(n_bytes) = data.n_bytes {
        text += &format!(", {n_bytes} bytes differ");
    }
    match &data.values {
        None => text += ", values cannot be decoded",
        Some(ValueDiff { n_different: 0, .. }) => text += ", all values are equal",
        Some(values) => {
            text += &format!(", {} values differ", values.n_different);
            if let Some(most) = &values.largest {
                text += &format!(", most by {} {}", number(most.difference()), of_value(most));
            }
            if let Some(first) = &values.first_not_finite {
                text += &format!(
                    ", {} are NaN or infinite in one of the two, the first {}",
                    values.n_not_finite,
                    of_value(first)
                );
            }
        }
    }
    text
}

fn of_value(change: &ValueChange) -> String {
    let ValueChange { place, a, b, .. } = change;
    format!("at {place:?}: {} -> {}", either(*a), either(*b))
}

/// A number of either kind.
fn either(value: Number) -> String {
    match value {
        Number::Float(value) => number(value),
        Number::Integer(value) => value.to_string(),
    }
}

/// A number with no more digits than it has: most are f32.
fn number(value: f64) -> String {
    let narrow = value as f32;
    if f64::from(narrow) == value {
        format!("{narrow:?}")
    } else {
        format!("{value:?}")
    }
}
