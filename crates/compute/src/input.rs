//! The integers that are given per execution.

use crate::op::RowIndex;
use crate::{BatchShape, ComputeError};

/// Names one of the [`Inputs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Token ids, one per token.
    Tokens,
    /// Position of each token in its sequence.
    Positions,
    /// Where each token's key and value go: page id * page length + offset in the page.
    Slots,
    /// Row of the page table that each token reads.
    Sequences,
    /// Page ids, `[max_pages, n_sequences]`, the pages of one sequence contiguous.
    PageTable,
    /// Tokens whose rows [`crate::GraphBuilder::select_outputs`] keeps.
    OutputRows,
}

/// The data of one execution. Lengths follow the plan's [`BatchShape`]; inputs that the graph does not use may
/// be empty.
///
/// A token at position `p` of sequence row `s` sees positions `0..=p` (minus the window); position `q` lies in
/// page `page_table[s * max_pages + q / page_len]` at offset `q % page_len`. Entries of the page table beyond a
/// sequence's last position are not read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inputs<'a> {
    /// `[n_tokens]`
    pub tokens: &'a [i32],
    /// `[n_tokens]`
    pub positions: &'a [i32],
    /// `[n_tokens]`
    pub slots: &'a [i32],
    /// `[n_tokens]`
    pub sequences: &'a [i32],
    /// `[max_pages, n_sequences]`
    pub page_table: &'a [i32],
    /// `[n_outputs]`
    pub output_rows: &'a [i32],
}

impl<'a> Inputs<'a> {
    /// The rows that an index picks, one per token.
    pub(crate) fn rows(&self, index: RowIndex) -> &'a [i32] {
        match index {
            RowIndex::Token => self.tokens,
            RowIndex::Position => self.positions,
        }
    }
}

/// First values too large for the inputs of one graph; `None` where the graph does not read the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InputLimits {
    /// Rows of the smallest embedding table.
    pub tokens: Option<usize>,
    /// Rows of the smallest table of positions, `i32::MAX` where only rope or attention reads them.
    pub positions: Option<usize>,
    /// Slots of the smallest cache written.
    pub slots: Option<usize>,
    /// Pages of the smallest cache read, and the page length.
    pub pages: Option<usize>,
    /// Positions per page.
    pub page_len: usize,
    /// Whether output rows are selected.
    pub output_rows: bool,
}

impl InputLimits {
    /// Checks everything that an execution will index with, so that backends need not.
    pub fn check(&self, batch: &BatchShape, inputs: &Inputs<'_>) -> Result<(), ComputeError> {
        if let Some(limit) = self.tokens {
            check_entries(Input::Tokens, inputs.tokens, batch.n_tokens, limit)?;
        }
        if let Some(limit) = self.positions {
            check_entries(Input::Positions, inputs.positions, batch.n_tokens, limit)?;
        }
        if let Some(limit) = self.slots {
            check_entries(Input::Slots, inputs.slots, batch.n_tokens, limit)?;
        }
        if self.output_rows {
            check_entries(
                Input::OutputRows,
                inputs.output_rows,
                batch.n_outputs,
                batch.n_tokens,
            )?;
        }
        match self.pages {
            Some(limit) => self.check_pages(batch, inputs, limit),
            None => Ok(()),
        }
    }

    fn check_pages(
        &self,
        batch: &BatchShape,
        inputs: &Inputs<'_>,
        limit: usize,
    ) -> Result<(), ComputeError> {
        check_entries(
            Input::Sequences,
            inputs.sequences,
            batch.n_tokens,
            batch.n_sequences,
        )?;
        let n_entries = batch.max_pages * batch.n_sequences;
        check_length(Input::PageTable, inputs.page_table.len(), n_entries)?;
        let n_positions = batch.max_pages.saturating_mul(self.page_len);
        for (index, (&position, &sequence)) in
            inputs.positions.iter().zip(inputs.sequences).enumerate()
        {
            // Both are non-negative: checked above.
            let (position, sequence) = (position as usize, sequence as usize);
            if position >= n_positions {
                let value = position as i32;
                return Err(ComputeError::InputValue {
                    input: Input::Positions,
                    index,
                    value,
                    limit: n_positions,
                });
            }
            // Tokens of one sequence come in ascending order, so the longest prefix is checked once per run.
            let next = (index + 1 < inputs.sequences.len())
                .then(|| (inputs.sequences[index + 1], inputs.positions[index + 1]));
            if next.is_some_and(|(s, p)| s as usize == sequence && p as usize >= position) {
                continue;
            }
            let first = sequence * batch.max_pages;
            for (page, &value) in inputs.page_table[first..=first + position / self.page_len]
                .iter()
                .enumerate()
            {
                if value < 0 || value as usize >= limit {
                    return Err(ComputeError::InputValue {
                        input: Input::PageTable,
                        index: first + page,
                        value,
                        limit,
                    });
                }
            }
        }
        Ok(())
    }
}

fn check_length(input: Input, found: usize, expected: usize) -> Result<(), ComputeError> {
    if found != expected {
        return Err(ComputeError::InputLength {
            input,
            expected,
            found,
        });
    }
    Ok(())
}

fn check_entries(
    input: Input,
    entries: &[i32],
    expected: usize,
    limit: usize,
) -> Result<(), ComputeError> {
    check_length(input, entries.len(), expected)?;
    for (index, &value) in entries.iter().enumerate() {
        if value < 0 || value as usize >= limit {
            return Err(ComputeError::InputValue {
                input,
                index,
                value,
                limit,
            });
        }
    }
    Ok(())
}
