//! What is printed: the reference's rows, or one JSON object.

use std::io::{self, Write as _};
use std::path::PathBuf;

use gristmill_measure::perplexity::{Divergence, Interval, Perplexity, Progress, Spread};
use serde_json::{Map, Value, json};

use crate::stdout;

/// Shares of the positions, and what the reference calls them.
const KLD_SHARES: [(&str, f64); 11] = [
    ("Maximum", 1.0),
    ("99.9%  ", 0.999),
    ("99.0%  ", 0.99),
    ("95.0%  ", 0.95),
    ("90.0%  ", 0.9),
    ("Median ", 0.5),
    ("10.0%  ", 0.1),
    (" 5.0%  ", 0.05),
    (" 1.0%  ", 0.01),
    (" 0.1%  ", 0.001),
    ("Minimum", 0.0),
];

/// The same of Δp, which has quarters too.
const DELTA_SHARES: [(&str, f64); 13] = [
    ("Maximum", 1.0),
    ("99.9%  ", 0.999),
    ("99.0%  ", 0.99),
    ("95.0%  ", 0.95),
    ("90.0%  ", 0.9),
    ("75.0%  ", 0.75),
    ("Median ", 0.5),
    ("25.0%  ", 0.25),
    ("10.0%  ", 0.1),
    (" 5.0%  ", 0.05),
    (" 1.0%  ", 0.01),
    (" 0.1%  ", 0.001),
    ("Minimum", 0.0),
];

/// Of what the figures are.
pub struct Subject {
    pub model: PathBuf,
    pub tokenizer: &'static str,
    pub pre_tokenizer: Option<&'static str>,
    pub adds_bos: bool,
    pub n_ctx: usize,
    pub n_chunks: usize,
}

impl Subject {
    /// Says it on standard error, since figures of other windows or tokenizers do not compare.
    pub fn tell(&self) {
        let pre = self
            .pre_tokenizer
            .map_or(String::new(), |name| format!(", {name}"));
        let bos = if self.adds_bos { "with" } else { "without" };
        say!(
            "{} window{} of {} tokens, tokenizer {}{pre}, each {bos} a beginning-of-text token",
            self.n_chunks,
            if self.n_chunks == 1 { "" } else { "s" },
            self.n_ctx,
            self.tokenizer
        );
    }

    fn json(&self) -> Map<String, Value> {
        let Value::Object(fields) = json!({
            "model": self.model.display().to_string(),
            "tokenizer": self.tokenizer,
            "pre_tokenizer": self.pre_tokenizer,
            "add_bos": self.adds_bos,
            "n_ctx": self.n_ctx,
            "n_chunks": self.n_chunks,
        }) else {
            return Map::new();
        };
        fields
    }
}

/// Prints rows while the work goes on, and the end.
pub struct Rows {
    json: bool,
    /// Whether rows have position, mean and error.
    wide: bool,
    is_empty: bool,
}

impl Rows {
    pub fn new(json: bool, wide: bool) -> Rows {
        Rows {
            json,
            wide,
            is_empty: true,
        }
    }

    pub fn perplexity(&mut self, done: &Progress<Perplexity>, n_ctx: usize) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        let mut out = stdout::stream();
        let ppl = done.value.value();
        match self.wide {
            false => write!(out, "[{}]{ppl:.4},", done.n_done)?,
            true => writeln!(
                out,
                "{:8}  {ppl:.4}  {:.6}  {:.6}",
                (done.n_done - 1) * n_ctx,
                done.value.nll,
                done.value.nll_error.unwrap_or(0.0)
            )?,
        }
        out.flush()
    }

    pub fn end_of_perplexity(&self, subject: &Subject, found: &Perplexity) -> anyhow::Result<()> {
        let mut out = stdout::lock();
        if self.json {
            let mut fields = subject.json();
            fields.insert("n_scored".to_owned(), json!(found.n_scored));
            fields.insert("ppl".to_owned(), number(found.value()));
            fields.insert("ppl_error".to_owned(), json!(found.error()));
            fields.insert("nll".to_owned(), number(found.nll));
            fields.insert("nll_error".to_owned(), json!(found.nll_error));
            writeln!(out, "{}", serde_json::to_string_pretty(&fields)?)?;
            return Ok(out.flush()?);
        }
        let error = found
            .error()
            .map_or(String::new(), |error| format!(" +/- {error:.5}"));
        writeln!(out, "\nFinal estimate: PPL = {:.4}{error}", found.value())?;
        Ok(out.flush()?)
    }

    pub fn divergence(&mut self, done: &Progress<Divergence>) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        let mut out = stdout::stream();
        if std::mem::take(&mut self.is_empty) {
            writeln!(
                out,
                "\nchunk             PPL               ln(PPL(Q)/PPL(base))          KL Divergence              Δp RMS            Same top p"
            )?;
        }
        let value = &done.value;
        let wide = |x: Interval, digits: usize, width: usize| {
            format!("{:width$.digits$} ± {:width$.digits$}", x.value, x.error)
        };
        writeln!(
            out,
            "{:4}    {}    {}    {}    {} %    {} %",
            done.n_done,
            wide(value.ppl, 4, 9),
            wide(value.ln_ratio, 5, 10),
            wide(value.kld, 5, 10),
            wide(percent(value.delta_p_rms), 3, 6),
            wide(percent(value.same_top), 3, 6),
        )?;
        out.flush()
    }

    pub fn end_of_divergence(&self, subject: &Subject, found: &Divergence) -> anyhow::Result<()> {
        let mut out = io::BufWriter::new(stdout::lock());
        if self.json {
            let mut fields = subject.json();
            fields.extend(divergence_json(found));
            writeln!(out, "{}", serde_json::to_string_pretty(&fields)?)?;
            return Ok(out.flush()?);
        }
        let line = |name: &str, x: Interval| format!("{name}: {:10.6} ± {:10.6}", x.value, x.error);
        writeln!(out, "\n====== Perplexity statistics ======")?;
        writeln!(out, "{}", line("Mean PPL(Q)                   ", found.ppl))?;
        writeln!(
            out,
            "{}",
            line("Mean PPL(base)                ", found.ppl_base)
        )?;
        let correlation = 100.0 * found.correlation;
        writeln!(out, "Cor(ln(PPL(Q)), ln(PPL(base))): {correlation:6.2}%")?;
        writeln!(
            out,
            "{}",
            line("Mean ln(PPL(Q)/PPL(base))     ", found.ln_ratio)
        )?;
        writeln!(
            out,
            "{}",
            line("Mean PPL(Q)/PPL(base)         ", found.ratio)
        )?;
        writeln!(
            out,
            "{}",
            line("Mean PPL(Q)-PPL(base)         ", found.difference)
        )?;
        writeln!(out, "\n====== KL divergence statistics ======")?;
        writeln!(out, "{}", line("Mean    KLD", found.kld))?;
        for (name, share) in KLD_SHARES {
            writeln!(
                out,
                "{name} KLD: {:10.6}",
                found.kld_spread.percentile(share)
            )?;
        }
        writeln!(out, "\n====== Token probability statistics ======")?;
        let narrow = |x: Interval| {
            let x = percent(x);
            format!("{:6.3} ± {:5.3} %", x.value, x.error)
        };
        writeln!(out, "Mean    Δp: {}", narrow(found.delta_p))?;
        for (name, share) in DELTA_SHARES {
            let value = 100.0 * found.delta_p_spread.percentile(share);
            writeln!(out, "{name} Δp: {value:6.3}%")?;
        }
        writeln!(out, "RMS Δp    : {}", narrow(found.delta_p_rms))?;
        writeln!(out, "Same top p: {}", narrow(found.same_top))?;
        Ok(out.flush()?)
    }
}

fn percent(x: Interval) -> Interval {
    Interval {
        value: 100.0 * x.value,
        error: 100.0 * x.error,
    }
}

/// A number; null where JSON has none for it.
fn number(value: f64) -> Value {
    json!(value)
}

fn divergence_json(found: &Divergence) -> Map<String, Value> {
    let interval = |x: Interval| json!({ "value": x.value, "error": x.error });
    let spread = |spread: &Spread, shares: &[(&str, f64)]| {
        let fields = shares.iter().map(|(name, share)| {
            let name = name.trim().to_lowercase();
            (name, json!(spread.percentile(*share)))
        });
        Value::Object(fields.collect())
    };
    let fields = [
        ("n_scored", json!(found.n_scored)),
        ("ppl", interval(found.ppl)),
        ("ppl_base", interval(found.ppl_base)),
        ("ppl_correlation", json!(found.correlation)),
        ("ln_ppl_ratio", interval(found.ln_ratio)),
        ("ppl_ratio", interval(found.ratio)),
        ("ppl_difference", interval(found.difference)),
        ("kld", interval(found.kld)),
        ("kld_percentiles", spread(&found.kld_spread, &KLD_SHARES)),
        ("delta_p", interval(found.delta_p)),
        (
            "delta_p_percentiles",
            spread(&found.delta_p_spread, &DELTA_SHARES),
        ),
        ("delta_p_rms", interval(found.delta_p_rms)),
        ("same_top", interval(found.same_top)),
    ];
    fields
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect()
}
