//! The forms in which vectors are printed: the reference's.

use std::io::{BufWriter, Write};

use gristmill_engine::{Pooling, Vectors, cosine};

use crate::display::printable;
use crate::stdout;

/// A form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// The first numbers of each vector, and cosines.
    #[value(name = "")]
    Short,
    /// A JSON list of lists.
    Array,
    /// JSON as of OpenAI's endpoint.
    Json,
    /// The same with cosines.
    #[value(name = "json+")]
    JsonPlus,
    /// A line of numbers for each vector.
    Raw,
}

/// What is printed.
pub struct Result<'a> {
    pub texts: &'a [Vec<u8>],
    pub vectors: &'a [Vectors],
    pub pooling: Pooling,
    pub labels: &'a [String],
    pub format: Format,
    /// Numbers without a fraction.
    pub whole_numbers: bool,
}

pub fn write(result: &Result<'_>) -> anyhow::Result<()> {
    let mut out = BufWriter::new(stdout::lock());
    let rows: Vec<&[f32]> = result.vectors.iter().flatten().map(Vec::as_slice).collect();
    let numbers = if result.whole_numbers { 0 } else { 7 };
    match result.format {
        Format::Short => result.short(&rows, &mut out)?,
        Format::Array => writeln!(out, "[{}]", lists(&rows, numbers, ","))?,
        Format::Json | Format::JsonPlus => result.json(&rows, numbers, &mut out)?,
        Format::Raw => {
            for row in &rows {
                writeln!(out, "{}", list(row, numbers, " "))?;
            }
        }
    }
    Ok(out.flush()?)
}

impl Result<'_> {
    fn short(&self, rows: &[&[f32]], out: &mut impl Write) -> std::io::Result<()> {
        if self.pooling == Pooling::Rank {
            for (index, row) in rows.iter().enumerate() {
                for (place, score) in row.iter().enumerate() {
                    let label = self.labels.get(place).filter(|_| row.len() > 1);
                    let label = label.map_or(String::new(), |label| format!(" [{label}]"));
                    writeln!(
                        out,
                        "rerank score {index}: {score:8.3}{}",
                        printable(&label)
                    )?;
                }
            }
            return Ok(());
        }
        let shown = |row: &[f32]| {
            let one = |x: &f32| match self.whole_numbers {
                true => format!("{x:6.0} "),
                false => format!("{x:9.6} "),
            };
            row.iter().map(one).collect::<String>()
        };
        for (index, row) in rows.iter().enumerate() {
            let width = row.len();
            let line = match (self.pooling, rows.len()) {
                (Pooling::None, _) => {
                    let ends = (&row[..width.min(3)], &row[width.saturating_sub(3)..]);
                    format!("{} ... {}", shown(ends.0), shown(ends.1))
                }
                (_, 1) => shown(row),
                _ => shown(&row[..width.min(16)]),
            };
            writeln!(out, "embedding {index}: {line}")?;
        }
        if self.pooling == Pooling::None || rows.len() == 1 {
            return Ok(());
        }
        self.cosines(rows, out)
    }

    fn cosines(&self, rows: &[&[f32]], out: &mut impl Write) -> std::io::Result<()> {
        writeln!(out, "\ncosine similarity matrix:\n")?;
        let start = |text: &Vec<u8>, n: usize| {
            let text = String::from_utf8_lossy(text).into_owned();
            printable(&text).chars().take(n).collect::<String>()
        };
        for text in self.texts {
            write!(out, "{:>6} ", start(text, 6))?;
        }
        writeln!(out)?;
        for (row, text) in rows.iter().zip(self.texts) {
            for other in rows {
                write!(out, "{:6.2} ", cosine(row, other))?;
            }
            writeln!(out, "{}", start(text, 10))?;
        }
        Ok(())
    }

    fn json(&self, rows: &[&[f32]], digits: usize, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(out, "{{\n  \"object\": \"list\",\n  \"data\": [")?;
        for (index, row) in rows.iter().enumerate() {
            let end = if index + 1 == rows.len() { "" } else { "," };
            writeln!(
                out,
                "    {{\n      \"object\": \"embedding\",\n      \"index\": {index},\n      \"embedding\": [{}]\n    }}{end}",
                list(row, digits, ",")
            )?;
        }
        write!(out, "  ]")?;
        if self.format == Format::JsonPlus && self.texts.len() > 1 {
            let cosines = |row: &&[f32]| {
                let all = rows
                    .iter()
                    .map(|other| format!("{:6.2}", cosine(row, other)));
                format!("    [{} ]", all.collect::<Vec<_>>().join(", "))
            };
            let lines: Vec<String> = rows.iter().map(cosines).collect();
            let lines = lines.join(",\n");
            write!(out, ",\n  \"cosineSimilarity\": [\n{lines}\n  ]")?;
        }
        writeln!(out, "\n}}")
    }
}

fn list(row: &[f32], digits: usize, separator: &str) -> String {
    let numbers = row.iter().map(|x| format!("{x:.digits$}"));
    numbers.collect::<Vec<_>>().join(separator)
}

fn lists(rows: &[&[f32]], digits: usize, separator: &str) -> String {
    let lists = rows
        .iter()
        .map(|row| format!("[{}]", list(row, digits, ",")));
    lists.collect::<Vec<_>>().join(separator)
}
