use gristmill_quant::{F16, TensorType};

use super::{Random, tables};
use crate::attention::attention_with;
use crate::table::Kernels;
use crate::{AttentionBatch, AttentionShape, CacheView, KernelError, Pool};

/// Two sequences of different lengths whose pages are scattered over a cache of random keys and values.
struct Case {
    shape: AttentionShape,
    q: Vec<f32>,
    positions: Vec<i32>,
    sequences: Vec<i32>,
    page_table: Vec<i32>,
    max_pages: usize,
    ty: TensorType,
    k: Vec<u8>,
    v: Vec<u8>,
}

impl Case {
    fn new(shape: AttentionShape, lengths: [usize; 2], ty: TensorType) -> Self {
        let mut random = Random::new(17);
        let max_pages = lengths.iter().max().unwrap().div_ceil(shape.page_len);
        let n_pages = 2 * max_pages + 1;
        let mut cache = |dim: usize| {
            let x: Vec<f32> = random.floats(dim * shape.page_len * shape.n_head_kv * n_pages);
            let mut bytes = vec![0; x.len() / ty.block_len() * ty.block_bytes()];
            ty.encode(&x, x.len(), None, &mut bytes).unwrap();
            bytes
        };
        let (k, v) = (cache(shape.key_dim), cache(shape.value_dim));
        let (mut positions, mut sequences) = (Vec::new(), Vec::new());
        for (sequence, &length) in lengths.iter().enumerate() {
            positions.extend(0..length as i32);
            sequences.extend(vec![sequence as i32; length]);
        }
        let q = random
            .floats(shape.key_dim * shape.n_head * positions.len())
            .iter()
            .map(|x| x * 2.0)
            .collect();
        let page_table = (0..2 * max_pages as i32)
            .map(|page| (page * 3 + 1) % (2 * max_pages as i32 + 1))
            .collect();
        let mut case = Self {
            shape,
            q,
            positions,
            sequences,
            page_table,
            max_pages,
            ty,
            k,
            v,
        };
        case.poison(lengths);
        case
    }

    /// Fills the slots that no position has with NaN: nothing may come from them.
    fn poison(&mut self, lengths: [usize; 2]) {
        let shape = self.shape;
        let mut used = std::collections::HashSet::new();
        for (sequence, &length) in lengths.iter().enumerate() {
            used.extend((0..length).map(|position| {
                let page = self.page_table[sequence * self.max_pages + position / shape.page_len];
                (page as usize, position % shape.page_len)
            }));
        }
        for (bytes, dim) in [(&mut self.k, shape.key_dim), (&mut self.v, shape.value_dim)] {
            let rows = bytes.chunks_exact_mut(dim / self.ty.block_len() * self.ty.block_bytes());
            for (index, row) in rows.enumerate() {
                let page = index / (shape.page_len * shape.n_head_kv);
                if !used.contains(&(page, index % shape.page_len)) {
                    row.fill(0xff);
                }
            }
        }
    }

    fn run(
        &self,
        kernels: &Kernels,
        pool: &Pool,
        tokens: std::ops::Range<usize>,
    ) -> Result<Vec<f32>, KernelError> {
        let query_len = self.shape.key_dim * self.shape.n_head;
        let page_table = self.without_what_nobody_sees(tokens.clone());
        let batch = AttentionBatch {
            q: &self.q[tokens.start * query_len..tokens.end * query_len],
            positions: &self.positions[tokens.clone()],
            sequences: &self.sequences[tokens.clone()],
            page_table: &page_table,
            max_pages: self.max_pages,
        };
        let mut out = vec![f32::NAN; self.shape.value_dim * self.shape.n_head * tokens.len()];
        let view = |bytes| CacheView { ty: self.ty, bytes };
        attention_with(
            kernels,
            pool,
            &self.shape,
            &batch,
            view(&self.k),
            view(&self.v),
            &mut out,
        )?;
        Ok(out)
    }

    /// The page table, where pages before the windows of these tokens are gone.
    fn without_what_nobody_sees(&self, tokens: std::ops::Range<usize>) -> Vec<i32> {
        let mut page_table = self.page_table.clone();
        let Some(window) = self.shape.window else {
            return page_table;
        };
        for (sequence, pages) in page_table.chunks_mut(self.max_pages).enumerate() {
            let mine = tokens
                .clone()
                .filter(|&token| self.sequences[token] == sequence as i32);
            let starts =
                mine.map(|token| (self.positions[token] as usize + 1).saturating_sub(window));
            let first = starts.min().unwrap_or(0) / self.shape.page_len;
            pages[..first].fill(-1);
        }
        page_table
    }

    /// The definition, in f64.
    fn exact(&self, token: usize, head: usize) -> Vec<f64> {
        let shape = &self.shape;
        let (mut k, mut v) = (
            vec![0.0; self.k.len() / self.ty.block_bytes() * self.ty.block_len()],
            vec![0.0; self.v.len() / self.ty.block_bytes() * self.ty.block_len()],
        );
        self.ty.decode(&self.k, &mut k).unwrap();
        self.ty.decode(&self.v, &mut v).unwrap();
        let position = self.positions[token] as usize;
        let end = if shape.causal {
            position + 1
        } else {
            self.sequences
                .iter()
                .filter(|s| **s == self.sequences[token])
                .count()
        };
        let start = shape
            .window
            .map_or(0, |window| (position + 1).saturating_sub(window));
        let slot = |position: usize| {
            let page = self.page_table
                [self.sequences[token] as usize * self.max_pages + position / shape.page_len]
                as usize;
            (page * shape.n_head_kv + head / (shape.n_head / shape.n_head_kv)) * shape.page_len
                + position % shape.page_len
        };
        let q = &self.q[(token * shape.n_head + head) * shape.key_dim..][..shape.key_dim];
        let weights: Vec<f64> = (start..end)
            .map(|position| {
                let key = &k[slot(position) * shape.key_dim..][..shape.key_dim];
                let score = q
                    .iter()
                    .zip(key)
                    .map(|(&q, &k)| f64::from(q) * f64::from(k))
                    .sum::<f64>()
                    * f64::from(shape.scale);
                shape
                    .softcap
                    .map_or(score, |cap| {
                        f64::from(cap) * (score / f64::from(cap)).tanh()
                    })
                    .exp()
            })
            .collect();
        let sum: f64 = weights.iter().sum();
        (0..shape.value_dim)
            .map(|index| {
                let values = (start..end)
                    .map(|position| f64::from(v[slot(position) * shape.value_dim + index]));
                weights
                    .iter()
                    .zip(values)
                    .map(|(weight, value)| weight / sum * value)
                    .sum()
            })
            .collect()
    }
}

fn shapes() -> Vec<AttentionShape> {
    let base = AttentionShape {
        n_head: 9,
        n_head_kv: 3,
        key_dim: 64,
        value_dim: 64,
        page_len: 16,
        scale: 0.125,
        softcap: None,
        window: None,
        causal: true,
    };
    vec![
        base,
        AttentionShape {
            n_head: 4,
            n_head_kv: 1,
            key_dim: 256,
            value_dim: 256,
            page_len: 32,
            window: Some(11),
            ..base
        },
        AttentionShape {
            n_head: 2,
            n_head_kv: 2,
            key_dim: 10,
            value_dim: 6,
            page_len: 5,
            softcap: Some(2.0),
            ..base
        },
        AttentionShape {
            n_head: 3,
            n_head_kv: 1,
            key_dim: 24,
            value_dim: 40,
            page_len: 7,
            causal: false,
            ..base
        },
        AttentionShape {
            n_head: 32,
            n_head_kv: 4,
            key_dim: 80,
            value_dim: 80,
            page_len: 64,
            ..base
        },
    ]
}

#[test]
fn attention_is_right_and_does_not_depend_on_the_batch() {
    let pools = [Pool::new(1), Pool::new(3)];
    for shape in shapes() {
        for ty in TensorType::for_cache() {
            if !shape.key_dim.is_multiple_of(ty.block_len())
                || !shape.value_dim.is_multiple_of(ty.block_len())
            {
                continue;
            }
            let case = Case::new(shape, [45, 38], ty);
            for kernels in tables() {
                let out = case.run(kernels, &pools[0], 0..83).unwrap();
                let head_len = shape.value_dim;
                for (index, out) in out.chunks_exact(head_len).enumerate() {
                    for (found, expected) in out
                        .iter()
                        .zip(case.exact(index / shape.n_head, index % shape.n_head))
                    {
                        assert!(
                            (f64::from(*found) - expected).abs() < 2e-6,
                            "{} {shape:?} {index}: {found} {expected}",
                            kernels.isa
                        );
                    }
                }
                assert_eq!(out, case.run(kernels, &pools[1], 0..83).unwrap());
                if shape.causal {
                    let singles: Vec<f32> = (0..83)
                        .flat_map(|t| case.run(kernels, &pools[1], t..t + 1).unwrap())
                        .collect();
                    assert_eq!(out, singles, "{} {shape:?}", kernels.isa);
                }
            }
        }
    }
}

#[test]
fn indices_outside_are_refused() {
    let pool = Pool::new(1);
    for kernels in tables() {
        let case = |change: fn(&mut Case)| {
            let mut case = Case::new(shapes()[0], [20, 20], F16);
            change(&mut case);
            case.run(kernels, &pool, 0..40)
        };
        assert!(case(|_| ()).is_ok());
        let refused = |what: &str, result| matches!(result, Err(KernelError::Index { what: found, .. }) if found == what);
        assert!(refused("page", case(|case| case.page_table[1] = 1000)));
        assert!(refused("page", case(|case| case.page_table[1] = -1)));
        assert!(refused("position", case(|case| case.positions[3] = 64)));
        assert!(refused("position", case(|case| case.positions[3] = -2)));
        assert!(refused("sequence", case(|case| case.sequences[5] = 2)));
        assert!(refused("sequence", case(|case| case.sequences[5] = -1)));
        // A page between the windows of the tokens before.
        let mut between = Case::new(shapes()[2], [20, 20], F16);
        between.shape.window = Some(1);
        between.positions[1] = 19;
        between.page_table[1] = -1;
        assert!(refused("page", between.run(kernels, &pool, 0..40)));
    }
}
