//! Speed of a model: prompts of several lengths, and single tokens.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gristmill_engine::{BatchToken, Context, EngineError, LoadOptions, Model, SequenceId};

/// What to measure.
#[derive(Debug, Clone)]
pub struct SpeedOptions {
    /// Prompt lengths; each is cut to the model's context.
    pub prompts: Vec<usize>,
    /// Tokens to compute one at a time; cut to the model's context.
    pub n_decode: usize,
    /// Runs of each test, after one that warms up.
    pub n_runs: usize,
    /// Threads; none for one per processor.
    pub n_threads: Option<usize>,
}

impl Default for SpeedOptions {
    fn default() -> Self {
        SpeedOptions {
            prompts: vec![512, 2048],
            n_decode: 128,
            n_runs: 3,
            n_threads: None,
        }
    }
}

/// One test and its runs.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeedRow {
    /// `pp` for a prompt, `tg` for single tokens.
    pub kind: &'static str,
    /// Tokens asked for: several lengths, where the model's context cuts them to the same one.
    pub n_asked: Vec<usize>,
    /// Tokens computed: fewer where the model's context is shorter.
    pub n_tokens: usize,
    /// Tokens per second of each run.
    pub rates: Vec<f64>,
}

impl SpeedRow {
    /// Mean and standard deviation of the rates, in tokens per second.
    pub fn summary(&self) -> (f64, f64) {
        let n = self.rates.len().max(1) as f64;
        let mean = self.rates.iter().sum::<f64>() / n;
        let squares: f64 = self.rates.iter().map(|rate| (rate - mean).powi(2)).sum();
        (mean, (squares / (n - 1.0).max(1.0)).sqrt())
    }
}

/// Measures a model. Tests that the model's context cuts to the same length are run once.
pub fn measure_speed(
    model: &Arc<Model>,
    options: &SpeedOptions,
) -> Result<Vec<SpeedRow>, EngineError> {
    let n_context = model.hyperparameters().n_context_train.max(1);
    let cut = |n: usize| n.clamp(1, n_context);
    let longest = options
        .prompts
        .iter()
        .copied()
        .chain([options.n_decode])
        .map(cut)
        .max();
    let load = LoadOptions {
        n_ctx: longest,
        n_threads: options.n_threads,
        ..LoadOptions::default()
    };
    let mut context = Context::new(model.clone(), &load)?;
    let mut rows: Vec<SpeedRow> = Vec::new();
    let tests = options
        .prompts
        .iter()
        .map(|n| ("pp", *n))
        .chain([("tg", options.n_decode)]);
    for (kind, n_asked) in tests {
        let n_tokens = cut(n_asked);
        let same = |row: &&mut SpeedRow| row.kind == kind && row.n_tokens == n_tokens;
        if let Some(row) = rows.iter_mut().find(same) {
            row.n_asked.push(n_asked);
            continue;
        }
        let n_batch = if kind == "pp" { n_tokens } else { 1 };
        run(&mut context, n_tokens, n_batch)?;
        let mut rates = Vec::with_capacity(options.n_runs);
        for _ in 0..options.n_runs {
            rates.push(run(&mut context, n_tokens, n_batch)?);
        }
        rows.push(SpeedRow {
            kind,
            n_asked: vec![n_asked],
            n_tokens,
            rates,
        });
    }
    Ok(rows)
}

/// The least time of a run: shorter ones measure the system's noise.
const RUN_MIN: Duration = Duration::from_millis(200);

/// Computes `n_tokens` arbitrary tokens from an empty cache, in batches of `n_batch`, again until [`RUN_MIN`] is over; gives
/// tokens per second.
fn run(context: &mut Context, n_tokens: usize, n_batch: usize) -> Result<f64, EngineError> {
    const SEQUENCE: SequenceId = SequenceId(0);
    let n_vocab = context.model().n_vocab().max(1);
    // Any ids will do: a step of a large prime spreads them over the vocabulary.
    let tokens: Vec<BatchToken> = (0..n_tokens)
        .map(|index| BatchToken {
            id: ((index + 1) * 7919 % n_vocab) as u32,
            sequence: SEQUENCE,
            output: (index + 1) % n_batch == 0,
        })
        .collect();
    let start = Instant::now();
    let mut n_computed = 0;
    while n_computed == 0 || start.elapsed() < RUN_MIN {
        context.past_mut().truncate(SEQUENCE, 0);
        for batch in tokens.chunks(n_batch) {
            context.decode(batch)?;
        }
        n_computed += n_tokens;
    }
    Ok(n_computed as f64 / start.elapsed().as_secs_f64())
}

/// The rows as a table, with a line for every length that was cut.
pub fn speed_table(rows: &[SpeedRow], n_context: usize) -> String {
    let mut table = String::from("| test | t/s |\n|---|---|\n");
    for row in rows {
        let (mean, deviation) = row.summary();
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "| {}{} | {mean:.2} ± {deviation:.2} |",
            row.kind, row.n_tokens
        );
    }
    for row in rows {
        for n_asked in row.n_asked.iter().filter(|n| **n > row.n_tokens) {
            let _ = writeln!(
                table,
                "\n{}{n_asked} was cut to {} tokens: the model's context has {n_context}",
                row.kind, row.n_tokens
            );
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_lengths_are_said() {
        let row = |kind, n_asked: &[usize], n_tokens| SpeedRow {
            kind,
            n_asked: n_asked.to_vec(),
            n_tokens,
            rates: vec![1.0, 2.0, 3.0],
        };
        let table = speed_table(&[row("pp", &[512, 2048], 256), row("tg", &[128], 128)], 256);
        assert_eq!(
            table,
            "| test | t/s |\n|---|---|\n| pp256 | 2.00 ± 1.00 |\n| tg128 | 2.00 ± 1.00 |\n\n\
             pp512 was cut to 256 tokens: the model's context has 256\n\n\
             pp2048 was cut to 256 tokens: the model's context has 256\n"
        );
    }
}
