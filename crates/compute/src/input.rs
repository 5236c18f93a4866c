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
    /// Where each token's key and value go: page id * page length + offset in the page, by each page table.
    Slots,
    /// Row of the page table that each token reads.
    Sequences,
    /// Page ids, `[max_pages, n_sequences, n_tables]`, the pages of one sequence contiguous.
    PageTable,
    /// Tokens whose rows [`crate::GraphBuilder::select_outputs`] keeps.
    OutputRows,
}

/// The data of one execution. Lengths follow the plan's [`BatchShape`]; inputs that the graph does not use may
/// be empty.
///
/// A token at position `p` of sequence row `s` sees positions `0..=p` (minus the window); position `q` lies in
/// page `page_table[s * max_pages + q / page_len]` at offset `q % page_len`. Entries of the page table beyond a
/// sequence's last position, or before the window of all layers of the table, are not read. A graph whose layers read several
/// tables ([`crate::KvLayer::table`]) has them one behind the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inputs<'a> {
    /// `[n_tokens]`
    pub tokens: &'a [i32],
    /// `[n_tokens]`
    pub positions: &'a [i32],
    /// `[n_tokens, n_tables]`
    pub slots: &'a [i32],
    /// `[n_tokens]`
    pub sequences: &'a [i32],
    /// `[max_pages, n_sequences, n_tables]`
    pub page_table: &'a [i32],
    /// `[n_outputs]`
    pub output_rows: &'a [i32],
}

impl<'a> Inputs<'a> {
    /// The row that an index picks for a token of the batch.
    pub(crate) fn row(&self, index: RowIndex, token: usize) -> usize {
        let rows = match index {
            RowIndex::Token => self.tokens,
            RowIndex::Position => self.positions,
            RowIndex::First => return 0,
        };
        // The executor has checked that there is one, and that none is negative.
        rows[token] as usize
    }

    /// The slots of the batch in one page table.
    pub(crate) fn slots_of(&self, table: usize, batch: &BatchShape) -> &'a [i32] {
        part(self.slots, table, batch.n_tokens)
    }

    /// One page table.
    pub(crate) fn page_table_of(&self, table: usize, batch: &BatchShape) -> &'a [i32] {
        part(self.page_table, table, batch.max_pages * batch.n_sequences)
    }
}

/// Part `index` of parts of equal lengths; the executor has checked that it is there.
fn part(all: &[i32], index: usize, len: usize) -> &[i32] {
    all.get(index * len..(index + 1) * len).unwrap_or(&[])
}

/// First values too large for the inputs of one graph; `None` where the graph does not read the input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InputLimits {
    /// Rows of the smallest embedding table.
    pub tokens: Option<usize>,
    /// Rows of the smallest table of positions, `i32::MAX` where only rope or attention reads them.
    pub positions: Option<usize>,
    /// What the layers of each page table say.
    pub tables: Vec<TableLimits>,
    /// Whether output rows are selected.
    pub output_rows: bool,
}

/// What the layers of a page table say of its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableLimits {
    /// Slots of the smallest cache written.
    pub slots: Option<usize>,
    /// Pages of the smallest cache read, and the page length.
    pub pages: Option<usize>,
    /// Positions per page.
    pub page_len: usize,
    /// Positions that a token sees at most, its own counted.
    pub window: usize,
}

impl InputLimits {
    /// Those of a page table.
    pub fn table(&mut self, index: usize) -> &mut TableLimits {
        if self.tables.len() <= index {
            self.tables.resize(index + 1, TableLimits::default());
        }
        &mut self.tables[index]
    }

    /// Checks everything that an execution will index with, so that backends need not.
    pub fn check(&self, batch: &BatchShape, inputs: &Inputs<'_>) -> Result<(), ComputeError> {
        if let Some(limit) = self.tokens {
            check_entries(Input::Tokens, inputs.tokens, batch.n_tokens, limit)?;
        }
        if let Some(limit) = self.positions {
            check_entries(Input::Positions, inputs.positions, batch.n_tokens, limit)?;
        }
        if self.output_rows {
            check_entries(
                Input::OutputRows,
                inputs.output_rows,
                batch.n_outputs,
                batch.n_tokens,
            )?;
        }
        if self.tables.iter().any(|table| table.slots.is_some()) {
            let expected = batch.n_tokens * self.tables.len();
            check_length(Input::Slots, inputs.slots.len(), expected)?;
        }
        if self.tables.iter().any(|table| table.pages.is_some()) {
            let expected = batch.max_pages * batch.n_sequences * self.tables.len();
            check_length(Input::PageTable, inputs.page_table.len(), expected)?;
            let sequences = inputs.sequences;
            check_entries(
                Input::Sequences,
                sequences,
                batch.n_tokens,
                batch.n_sequences,
            )?;
        }
        for (index, table) in self.tables.iter().enumerate() {
            if let Some(limit) = table.slots {
                let slots = inputs.slots_of(index, batch);
                check_entries(Input::Slots, slots, batch.n_tokens, limit)?;
            }
            if let Some(limit) = table.pages {
                let pages = inputs.page_table_of(index, batch);
                table.check_pages(batch, inputs, pages, limit)?;
            }
        }
        Ok(())
    }
}

impl TableLimits {
    fn check_pages(
        &self,
        batch: &BatchShape,
        inputs: &Inputs<'_>,
        page_table: &[i32],
        limit: usize,
    ) -> Result<(), ComputeError> {
        let n_positions = batch.max_pages.saturating_mul(self.page_len);
        let mut start = usize::MAX;
        for (index, (&position, &sequence)) in
            inputs.positions.iter().zip(inputs.sequences).enumerate()
        {
            // Both are non-negative: checked before.
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
            start = start.min((position + 1).saturating_sub(self.window));
            // Tokens of one sequence come in ascending order, so what they see together is checked once per run.
            let next = (index + 1 < inputs.sequences.len())
                .then(|| (inputs.sequences[index + 1], inputs.positions[index + 1]));
            if next.is_some_and(|(s, p)| s as usize == sequence && p as usize >= position) {
                continue;
            }
            let first = sequence * batch.max_pages;
            for page in start / self.page_len..=position / self.page_len {
                let value = page_table[first + page];
                if value < 0 || value as usize >= limit {
                    return Err(ComputeError::InputValue {
                        input: Input::PageTable,
                        index: first + page,
                        value,
                        limit,
                    });
                }
            }
            start = usize::MAX;
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
