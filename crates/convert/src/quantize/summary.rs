//! What a quantization did, in lines: what the command prints is what the chain logs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gristmill_quant::Readers;

use super::{QuantizeReport, QuantizedTensor, Target};
use crate::summary::done;

impl QuantizeReport {
    /// Sizes before and after, types, fallbacks, and what else is to be known, one fact a line.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.n_resumed > 0 {
            lines.push(format!(
                "{} of {} tensors were done already, and are as they should be",
                self.n_resumed,
                self.tensors.len()
            ));
        }
        let size = |what, bytes: u64, bits: f64| {
            format!(
                "{what} size: {:.2} MiB ({bits:.2} bits per weight)",
                mebibytes(bytes)
            )
        };
        let (before, after) = (self.source_bits_per_weight(), self.bits_per_weight());
        lines.push(size("model", self.source_bytes(), before));
        lines.push(size("quant", self.bytes(), after));
        let types = self.histogram().into_iter();
        let types = types.map(|(ty, (n, bytes))| format!("{n} {ty} ({:.2} MiB)", mebibytes(bytes)));
        lines.push(format!("types: {}", types.collect::<Vec<_>>().join(", ")));
        lines.extend(self.plan_lines());
        let fallbacks = self.fallback_text();
        lines.extend(fallbacks.map(|text| format!("fallbacks: {text}")));
        for (ty, isas) in self.newest_formats() {
            let kernels = match &*isas {
                [] => "no instruction set has a kernel for it here: the plain one works, slowly"
                    .to_owned(),
                isas => format!("kernels here for: {}", isas.join(", ")),
            };
            let readers = match ty.policy().readers {
                Readers::All | Readers::Newest => {
                    "read by gristmill and llama.cpp b11434, but not by all older builds"
                }
                Readers::Unreleased => "read by gristmill alone",
            };
            lines.push(format!("note: {ty} is {readers}; {kernels}"));
        }
        lines.extend(self.quality_line());
        lines
    }

    /// Every tensor with the type it has and the one it gets.
    pub fn tensor_lines(&self) -> impl Iterator<Item = String> + '_ {
        let line = |tensor: &QuantizedTensor| {
            let (from, to) = (tensor.from, tensor.to);
            format!("{} {:?}: {from} -> {to}", tensor.name, tensor.dims)
        };
        self.tensors.iter().map(line)
    }

    /// Every tensor that fell back to another type.
    pub fn fallback_lines(&self) -> impl Iterator<Item = String> + '_ {
        self.tensors.iter().filter_map(|tensor| {
            let wanted = tensor.fallback_from?;
            Some(format!("  {}: {wanted} -> {}", tensor.name, tensor.to))
        })
    }

    /// A line for each file that was written, or would be.
    pub fn outputs(&self) -> Vec<String> {
        let files = self.files.iter().map(|(path, n_tensors, bytes)| {
            let (done, path, recipe) = (done(self.dry_run), path.display(), self.recipe);
            format!("{done} {path}: {recipe}, {n_tensors} tensors, {bytes} bytes")
        });
        files.collect()
    }

    /// What every tensor lost, as a table.
    pub fn losses(&self) -> String {
        let mut text = format!(
            "relative error of each tensor, in percent of its values: plain, and weighted by importance\n{} by {}\n\n",
            self.path.display(),
            self.recipe
        );
        for tensor in &self.tensors {
            if let Some(quality) = tensor.quality {
                // Writing to a string cannot fail.
                let _ = writeln!(
                    text,
                    "{:>9.4} {:>9.4}  {:<8} {}",
                    quality.relative_error() * 100.0,
                    quality.weighted_relative_error() * 100.0,
                    tensor.to.name(),
                    tensor.name.escape_debug()
                );
            }
        }
        if let Some(quality) = self.quality() {
            let (plain, weighted) = (quality.relative_error(), quality.weighted_relative_error());
            let _ = writeln!(
                text,
                "{:>9.4} {:>9.4}  all",
                plain * 100.0,
                weighted * 100.0
            );
        }
        text
    }

    /// For chosen types: how often each kind of tensor got which.
    fn plan_lines(&self) -> Vec<String> {
        let mut lines = vec![match self.target {
            None => return Vec::new(),
            Some(Target::BitsPerWeight(bits)) => {
                format!("plan for at most {bits} bits per weight:")
            }
            Some(Target::FileBytes(bytes)) => {
                format!(
                    "plan for at most {bytes} bytes ({:.2} MiB):",
                    mebibytes(bytes)
                )
            }
        }];
        let mut kinds: BTreeMap<String, BTreeMap<&str, usize>> = BTreeMap::new();
        for tensor in self.tensors.iter().filter(|tensor| tensor.dims.len() > 1) {
            let types = kinds.entry(kind(tensor)).or_default();
            *types.entry(tensor.to.name()).or_default() += 1;
        }
        for (kind, types) in kinds {
            let types = types.iter().map(|(ty, n)| format!("{n} {ty}"));
            lines.push(format!(
                "  {kind}: {}",
                types.collect::<Vec<_>>().join(", ")
            ));
        }
        lines
    }

    /// How many tensors fell back to another type, and why, in one line; nothing where none did.
    pub(super) fn fallback_text(&self) -> Option<String> {
        let kinds = self.fallback_kinds();
        let n_tensors: usize = kinds.iter().map(|kind| kind.tensors.len()).sum();
        let n_elements = kinds.iter().map(|kind| kind.n_elements);
        let n_elements = n_elements.fold(0, u64::saturating_add);
        let share = n_elements as f64 * 100.0 / self.n_elements.max(1) as f64;
        let kinds = kinds.iter().map(|kind| {
            let (n, row_len) = (kind.tensors.len(), kind.row_len);
            let first = kind.tensors.first().unwrap_or(&"");
            let which = if n == 1 { "" } else { "the first is " };
            format!(
                "{n} {} -> {} (rows of {row_len}; {which}{first})",
                kind.wanted, kind.got
            )
        });
        (n_tensors > 0).then(|| {
            format!(
                "{n_tensors} of {} tensors ({share:.1} % of the weights) fell back to another type: {}",
                self.tensors.len(),
                kinds.collect::<Vec<_>>().join(", ")
            )
        })
    }

    fn quality_line(&self) -> Option<String> {
        let quality = self.quality()?;
        let losses = self.tensors.iter();
        let losses = losses.filter_map(|tensor| Some((tensor, tensor.quality?.relative_error())));
        let worst = losses.max_by(|(_, a), (_, b)| a.total_cmp(b));
        let worst = worst
            .map(|(tensor, error)| format!("; most in {}: {:.3} %", tensor.name, error * 100.0));
        let error = quality.relative_error() * 100.0;
        Some(format!(
            "relative error: {error:.3} %{}",
            worst.unwrap_or_default()
        ))
    }
}

/// The name of a tensor without the number of its block.
fn kind(tensor: &QuantizedTensor) -> String {
    let rest = tensor.name.strip_prefix("blk.");
    match rest.and_then(|rest| rest.split_once('.')) {
        Some((_, name)) => format!("blk.*.{name}"),
        None => tensor.name.clone(),
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
