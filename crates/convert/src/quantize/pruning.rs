//! Leaving out whole blocks of a model: those behind them move up.

use std::collections::BTreeMap;

use gristmill_gguf::{Array, Metadata, Value};

use crate::error::{ConvertError, Result};

/// The blocks that stay, by their old number.
pub(super) struct Pruning {
    new_numbers: BTreeMap<u32, Option<u32>>,
    n_blocks: u32,
}

/// The `N` of the first `blk.N.` in a name, with what stands before and behind the number.
fn block(name: &str) -> Option<(&str, u32, &str)> {
    let start = name.find("blk.")? + "blk.".len();
    let (number, _) = name[start..].split_once('.')?;
    let behind = &name[start + number.len()..];
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number = number.parse().ok().filter(|_| digits)?;
    Some((&name[..start], number, behind))
}

impl Pruning {
    /// Plans to leave out some blocks of a model with tensors of these names.
    ///
    /// # Errors
    /// [`ConvertError::NoSuchBlock`] for a block that is not there, [`ConvertError::NothingLeft`].
    pub fn of<'a>(pruned: &[u32], names: impl Iterator<Item = &'a str>) -> Result<Pruning> {
        let mut new_numbers: BTreeMap<u32, Option<u32>> = names
            .filter_map(block)
            .map(|(_, number, _)| (number, None))
            .collect();
        let n_blocks = new_numbers.len() as u32;
        if let Some(&block) = pruned.iter().find(|block| !new_numbers.contains_key(block)) {
            return Err(ConvertError::NoSuchBlock { block, n_blocks });
        }
        let first = pruned.iter().copied().min().unwrap_or(u32::MAX);
        let mut next = 0;
        for (&number, new) in &mut new_numbers {
            if pruned.contains(&number) {
                continue;
            }
            if number < first {
                next = number;
            }
            *new = Some(next);
            next += 1;
        }
        if next == 0 {
            return Err(ConvertError::NothingLeft);
        }
        Ok(Pruning {
            new_numbers,
            n_blocks: next,
        })
    }

    /// The name that a tensor gets; none for one that is left out.
    pub fn rename(&self, name: &str) -> Option<String> {
        match block(name) {
            None => Some(name.to_owned()),
            Some((before, number, behind)) => {
                let number = self.new_numbers.get(&number).copied().flatten()?;
                Some(format!("{before}{number}{behind}"))
            }
        }
    }

    /// Sets the number of blocks, and leaves the pruned ones out of lists with one element for each block.
    pub fn describe(&self, metadata: &mut Metadata) {
        let Some(name) = metadata.str("general.architecture").ok().flatten() else {
            return;
        };
        let prefix = format!("{name}.");
        let stays: Vec<bool> = self.new_numbers.values().map(Option::is_some).collect();
        let changed: Vec<(String, Array)> = metadata
            .iter()
            .filter(|(key, _)| key.starts_with(&prefix) && !key.contains(".rope."))
            .filter_map(|(key, value)| {
                let array = value
                    .as_array()
                    .filter(|array| array.len() == stays.len())?;
                Some((key.to_owned(), kept(array, &stays)?))
            })
            .collect();
        for (key, array) in changed {
            metadata.set(key, Value::Array(array));
        }
        let key = format!("{prefix}block_count");
        metadata.remove(&key);
        metadata.set(key, self.n_blocks);
    }
}

/// The elements that stay; none for strings, of which no model has one for each block.
fn kept(array: &Array, stays: &[bool]) -> Option<Array> {
    fn of<T: Copy>(items: &[T], stays: &[bool]) -> Vec<T> {
        let items = items.iter().zip(stays);
        items
            .filter(|(_, stays)| **stays)
            .map(|(item, _)| *item)
            .collect()
    }
    Some(match array {
        Array::U8(items) => Array::U8(of(items, stays)),
        Array::I8(items) => Array::I8(of(items, stays)),
        Array::U16(items) => Array::U16(of(items, stays)),
        Array::I16(items) => Array::I16(of(items, stays)),
        Array::U32(items) => Array::U32(of(items, stays)),
        Array::I32(items) => Array::I32(of(items, stays)),
        Array::F32(items) => Array::F32(of(items, stays)),
        Array::Bool(items) => Array::Bool(of(items, stays)),
        Array::U64(items) => Array::U64(of(items, stays)),
        Array::I64(items) => Array::I64(of(items, stays)),
        Array::F64(items) => Array::F64(of(items, stays)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_behind_a_pruned_one_move_up() {
        let names = [
            "token_embd.weight",
            "blk.0.a",
            "blk.1.a",
            "blk.2.a",
            "enc.blk.3.b",
            "blk.x.y",
        ];
        let pruning = Pruning::of(&[1], names.into_iter()).expect("it is there");
        let renamed = names.map(|name| pruning.rename(name));
        let expected = [
            "token_embd.weight",
            "blk.0.a",
            "",
            "blk.1.a",
            "enc.blk.2.b",
            "blk.x.y",
        ];
        assert_eq!(renamed.map(Option::unwrap_or_default), expected);
        let mut metadata = Metadata::new();
        metadata.set("general.architecture", "llama");
        metadata.set("llama.block_count", 4u32);
        metadata.set(
            "llama.attention.head_count_kv",
            Array::I32(vec![1, 2, 3, 4]),
        );
        metadata.set(
            "llama.rope.dimension_sections",
            Array::I32(vec![1, 2, 3, 4]),
        );
        pruning.describe(&mut metadata);
        assert_eq!(
            metadata.u32("llama.block_count").expect("a number"),
            Some(3)
        );
        let heads = metadata
            .i32s("llama.attention.head_count_kv")
            .expect("numbers");
        assert_eq!(heads, Some(vec![1, 3, 4]));
        let sections = metadata
            .i32s("llama.rope.dimension_sections")
            .expect("numbers");
        assert_eq!(sections.map(|sections| sections.len()), Some(4));
    }

    #[test]
    fn blocks_that_are_not_there() {
        let names = || ["blk.0.a", "blk.1.a"].into_iter();
        assert!(matches!(
            Pruning::of(&[2], names()),
            Err(ConvertError::NoSuchBlock {
                block: 2,
                n_blocks: 2
            })
        ));
        assert!(matches!(
            Pruning::of(&[0, 1], names()),
            Err(ConvertError::NothingLeft)
        ));
    }
}
