//! Types chosen for a size: for every tensor the error of each type is measured on a sample of its rows, and bytes are
//! spent where they remove most error.
//!
//! The error of a tensor is relative (squared differences over squared values, columns weighted by their importance), so
//! that a small matrix counts as much as a large one: each adds its noise to the same stream of activations. How much of
//! that noise reaches the answers depends on what the tensor does there ([`Sensitivity`]).

use std::fmt;

use std::cmp::Reverse;

use gristmill_gguf::{TensorView, tensor_bytes};
use gristmill_kernels::{Pool, decode_row, encode_rows, for_each_chunk};
use gristmill_quant::{BySize, SUPER_BLOCK, TensorType};

use super::sensitivity::Sensitivity;
use super::{Importance, Quality, in_kernel, row_bytes, validate};
use crate::error::{ConvertError, Result};
use crate::progress::{Event, Progress};
use crate::recipe::{Plan, SourceTensor, TensorKind, needs_importance};

/// Elements of a tensor that are measured, about.
const SAMPLE_ELEMENTS: usize = 1 << 17;

/// The size that types are to be chosen for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// Bits of tensor data per weight of the model, at most.
    BitsPerWeight(f64),
    /// Bytes of the output, all files and their headers together, at most.
    FileBytes(u64),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::BitsPerWeight(bits) => write!(f, "{bits} bits per weight"),
            Target::FileBytes(bytes) => write!(f, "{bytes} bytes for the file"),
        }
    }
}

/// Bytes that the metadata takes at most to tell of an importance matrix: four entries, two of them with cut names.
const ENTRY_BYTES: u64 = 448;

/// How many of the largest tensors are tried with every candidate.
const N_TRIED: usize = 2;

/// The types that rows of some length could get, the smallest first.
fn open_types(row_len: u64) -> Vec<TensorType> {
    let long = row_len.is_multiple_of(SUPER_BLOCK as u64);
    let is_open = |ty: &TensorType| match ty.policy().by_size {
        BySize::Never => false,
        BySize::ShortRows => !long,
        BySize::AnyRows => true,
    };
    let fits = |ty: &TensorType| row_len.is_multiple_of(ty.block_len() as u64);
    let mut types: Vec<_> = TensorType::all().filter(is_open).filter(fits).collect();
    // Where two of one size lose the same, their order decides.
    if long {
        types.reverse();
    }
    types.sort_by(|a, b| a.bits_per_weight().total_cmp(&b.bits_per_weight()));
    types
}

/// A type that a tensor could get.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    ty: TensorType,
    /// What counts against the budget.
    bytes: u64,
    /// Relative squared error times the tensor's sensitivity.
    cost: f64,
}

/// What a choice may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// What was asked for.
    pub target: Target,
    /// The same in bytes.
    pub total: u64,
    /// Bytes of what is not free: tensors with a type of their own and, where they count, headers.
    pub rest: u64,
    /// Each tensor takes a multiple of so many bytes.
    pub alignment: u64,
    /// Weights of the model.
    pub n_elements: u64,
}

impl Budget {
    /// Bytes for the tensors that are free.
    pub fn bytes(&self) -> u64 {
        self.total.saturating_sub(self.rest)
    }

    /// What to say where the free tensors take `smallest` bytes at least, and `with_importance` with importance data.
    fn too_small(&self, smallest: u64, with_importance: u64) -> ConvertError {
        ConvertError::TargetTooSmall {
            target: self.target,
            smallest: self.target_of(smallest),
            with_importance: (with_importance < smallest).then(|| self.target_of(with_importance)),
        }
    }

    /// The target that is met where the free tensors take so many bytes.
    fn target_of(&self, bytes: u64) -> Target {
        let bytes = bytes.saturating_add(self.rest);
        match self.target {
            Target::FileBytes(_) => Target::FileBytes(bytes),
            Target::BitsPerWeight(_) => {
                let bits = bytes as f64 * 8.0 / self.n_elements.max(1) as f64;
                // Rounded up, so that it can be asked for.
                Target::BitsPerWeight((bits * 1e4 + 1.0).floor() / 1e4)
            }
        }
    }
}

/// Everything that the choice looks at.
pub(super) struct Choice<'a> {
    pub views: &'a [TensorView<'a>],
    pub sources: &'a [SourceTensor],
    pub importance: Option<&'a Importance>,
    pub sensitivity: Sensitivity,
    pub pool: &'a Pool,
    pub allow_requantize: bool,
}

impl Choice<'_> {
    /// Sets the types of the tensors that `plan` leaves to the recipe, within the budget.
    ///
    /// # Errors
    /// [`ConvertError::NothingToChoose`], [`ConvertError::TargetTooSmall`], and what is wrong with the source.
    pub fn apply(&self, plan: &mut Plan, budget: Budget, progress: Progress<'_>) -> Result<()> {
        let free: Vec<usize> = (0..plan.tensors.len())
            .filter(|&index| plan.tensors[index].by_recipe)
            .collect();
        if free.is_empty() {
            return Err(ConvertError::NothingToChoose);
        }
        // The shapes alone tell what cannot be reached.
        let smallest = self.smallest(&free, budget.alignment, |covered, _| covered)?;
        // No collector counts what an embedding is looked up with.
        let collected = |covered: bool, kind| covered || kind != TensorKind::TokenEmbedding;
        let entries = match (self.importance, budget.target) {
            (None, Target::FileBytes(_)) => ENTRY_BYTES.next_multiple_of(budget.alignment),
            _ => 0,
        };
        let with_importance = self.smallest(&free, budget.alignment, collected)?;
        let with_importance = with_importance.saturating_add(entries);
        if smallest > budget.bytes() {
            return Err(budget.too_small(smallest, with_importance));
        }
        let mut candidates = Vec::with_capacity(free.len());
        for (number, &index) in free.iter().enumerate() {
            progress(Event::Measuring {
                index: number,
                n_tensors: free.len(),
                name: &self.sources[index].name,
            });
            candidates.push(self.candidates(index, budget.alignment)?);
        }
        let chosen = choose(&candidates, budget.bytes());
        let chosen = chosen.map_err(|smallest| budget.too_small(smallest, with_importance))?;
        for ((&index, candidates), chosen) in free.iter().zip(&candidates).zip(chosen) {
            let planned = &mut plan.tensors[index];
            planned.ty = candidates[chosen].ty;
            planned.fallback_from = None;
            planned.needs_importance = needs_importance(planned.ty);
        }
        Ok(())
    }

    /// Whether there is importance data for a tensor.
    fn covers(&self, tensor: &SourceTensor) -> Result<bool> {
        let covers = |importance: &Importance| importance.covers(tensor);
        self.importance.map_or(Ok(false), covers)
    }

    /// Bytes that the free tensors take at least. What has importance data is up to `has_importance`, which gets whether there
    /// is some now, and the kind.
    fn smallest(
        &self,
        free: &[usize],
        alignment: u64,
        has_importance: impl Fn(bool, TensorKind) -> bool,
    ) -> Result<u64> {
        let mut sum = 0u64;
        for tensor in free.iter().map(|&index| &self.sources[index]) {
            let kind = TensorKind::of(&tensor.name);
            let types = self.types(tensor, has_importance(self.covers(tensor)?, kind));
            let sizes = types.into_iter().chain([tensor.ty]);
            let smallest = sizes.map(|ty| stored_bytes(ty, tensor, alignment)).min();
            sum = sum.saturating_add(smallest.unwrap_or(0));
        }
        Ok(sum)
    }

    /// The types that a tensor could get in place of its own.
    fn types(&self, tensor: &SourceTensor, has_importance: bool) -> Vec<TensorType> {
        if tensor.ty.is_quantized() && !self.allow_requantize {
            return Vec::new();
        }
        let row_len = tensor.dims.first().copied().unwrap_or(0);
        let mut types = open_types(row_len);
        types.retain(|&ty| {
            let smaller = ty.bits_per_weight() < tensor.ty.bits_per_weight();
            smaller && (has_importance || !needs_importance(ty))
        });
        types
    }

    /// The types that a tensor could get, the smallest first; never none.
    fn candidates(&self, index: usize, alignment: u64) -> Result<Vec<Candidate>> {
        let tensor = &self.sources[index];
        let candidate = |ty, cost| Candidate {
            ty,
            bytes: stored_bytes(ty, tensor, alignment),
            cost,
        };
        let types = self.types(tensor, self.covers(tensor)?);
        let mut candidates = vec![candidate(tensor.ty, 0.0)];
        if !types.is_empty() {
            let errors = self.errors(index, &types)?;
            let sensitivity = self.sensitivity.of(&tensor.name);
            let measured = types.into_iter().zip(errors);
            let measured = measured.map(|(ty, error)| candidate(ty, error * sensitivity));
            candidates.extend(measured.filter(|candidate| candidate.cost.is_finite()));
        }
        candidates.sort_by(|a, b| a.bytes.cmp(&b.bytes).then(a.cost.total_cmp(&b.cost)));
        Ok(candidates)
    }

    /// The relative squared error of each type on a sample of rows, spread evenly over the tensor.
    fn errors(&self, index: usize, types: &[TensorType]) -> Result<Vec<f64>> {
        let (tensor, data) = (&self.sources[index], self.views[index].data);
        let row_len = tensor.dims.first().map_or(0, |&dim| dim as usize);
        let from_bytes = row_bytes(&tensor.name, tensor.ty, row_len)?;
        let n_rows = data.len().checked_div(from_bytes).unwrap_or(0);
        if n_rows == 0 {
            return Ok(vec![0.0; types.len()]);
        }
        let n_sampled = (SAMPLE_ELEMENTS / row_len).clamp(1, n_rows);
        let rows_per_matrix = tensor.dims.get(1).map_or(1, |&dim| dim as usize).max(1);
        let mut weights = Vec::with_capacity(types.len());
        for &ty in types {
            let of_type = self
                .importance
                .map(|importance| importance.weights(tensor, ty));
            weights.push(of_type.transpose()?.flatten());
        }
        let mut found: Vec<Result<Quality>> = Vec::new();
        found.resize_with(n_sampled * types.len(), || Ok(Quality::default()));
        for_each_chunk(self.pool, &mut found, 1, |job, out| {
            let (ty_index, sample) = (job / n_sampled, job % n_sampled);
            // The middle of each of `n_sampled` equal parts.
            let row = (2 * sample + 1) * n_rows / (2 * n_sampled);
            let first = row / rows_per_matrix * row_len;
            let weights = weights[ty_index].as_deref();
            let weights = weights.and_then(|weights| weights.get(first..first + row_len));
            let data = &data[row * from_bytes..][..from_bytes];
            out[0] = row_error(tensor, row, data, types[ty_index], weights);
        });
        let mut sums = vec![Quality::default(); types.len()];
        for (job, quality) in found.into_iter().enumerate() {
            sums[job / n_sampled].add(&quality?);
        }
        let relative = |sum: &Quality| sum.weighted_relative_error().powi(2);
        Ok(sums.iter().map(relative).collect())
    }
}

/// Bytes of a tensor's data in a type, with what follows up to the next one.
fn stored_bytes(ty: TensorType, tensor: &SourceTensor, alignment: u64) -> u64 {
    let bytes = tensor_bytes(ty, &tensor.dims).unwrap_or(u64::MAX / 2);
    bytes.next_multiple_of(alignment.max(1))
}

/// What a row of a tensor loses to a type.
fn row_error(
    tensor: &SourceTensor,
    row: usize,
    data: &[u8],
    ty: TensorType,
    weights: Option<&[f32]>,
) -> Result<Quality> {
    let name = &tensor.name;
    let kernel = |error| in_kernel(name, error);
    let row_len = tensor.dims.first().map_or(0, |&dim| dim as usize);
    validate(name, tensor.ty, data, row * row_len)?;
    let mut before = vec![0.0; row_len];
    decode_row(tensor.ty, data, &mut before).map_err(kernel)?;
    let mut encoded = vec![0; row_bytes(name, ty, row_len)?];
    encode_rows(ty, &before, row_len, weights, &mut encoded).map_err(kernel)?;
    let mut after = vec![0.0; row_len];
    decode_row(ty, &encoded, &mut after).map_err(kernel)?;
    Ok(Quality::of_row(&before, &after, weights))
}

/// For each tensor the number of its candidate: as little cost as the bytes allow. The error is the bytes that the smallest
/// candidates take.
///
/// The largest tensors are tried with every candidate: often there is less left than a step of theirs takes when its turn
/// comes, though it would be worth more than what the bytes went to before.
fn choose(candidates: &[Vec<Candidate>], budget: u64) -> Result<Vec<usize>, u64> {
    let mut best = vec![0; candidates.len()];
    let smallest = bytes_of(candidates, &best);
    if smallest > budget {
        return Err(smallest);
    }
    let largest_bytes = |&tensor: &usize| candidates[tensor].iter().map(|one| one.bytes).max();
    let mut tried: Vec<usize> = (0..candidates.len()).collect();
    tried.sort_by_key(|tensor| Reverse(largest_bytes(tensor)));
    tried.truncate(N_TRIED);
    let steps = steps(candidates);
    let mut least = f64::INFINITY;
    let n_combinations: usize = tried
        .iter()
        .map(|&tensor| candidates[tensor].len())
        .product();
    for mut number in 0..n_combinations {
        let mut chosen = vec![0; candidates.len()];
        for &tensor in &tried {
            chosen[tensor] = number % candidates[tensor].len();
            number /= candidates[tensor].len();
        }
        let Some(left) = budget.checked_sub(bytes_of(candidates, &chosen)) else {
            continue;
        };
        spend(candidates, &steps, &tried, &mut chosen, left);
        let costs = candidates.iter().zip(&chosen);
        let cost: f64 = costs
            .map(|(candidates, &index)| candidates[index].cost)
            .sum();
        if cost < least {
            (least, best) = (cost, chosen);
        }
    }
    Ok(best)
}

fn bytes_of(candidates: &[Vec<Candidate>], chosen: &[usize]) -> u64 {
    let each = candidates.iter().zip(chosen);
    each.map(|(candidates, &index)| candidates[index].bytes)
        .fold(0, u64::saturating_add)
}

/// Spends the bytes that are left on tensors that are not settled.
fn spend(
    candidates: &[Vec<Candidate>],
    steps: &[Step],
    settled: &[usize],
    chosen: &mut [usize],
    mut left: u64,
) {
    for step in steps {
        // Steps of a tensor come in order; one whose predecessor did not fit does not fit either.
        let from = &candidates[step.tensor][chosen[step.tensor]];
        let to = &candidates[step.tensor][step.to];
        let is_next = chosen[step.tensor] == step.from && !settled.contains(&step.tensor);
        if is_next && to.bytes - from.bytes <= left {
            left -= to.bytes - from.bytes;
            chosen[step.tensor] = step.to;
        }
    }
    // What is left is too little for the next step of any tensor on its hull, and perhaps enough for a smaller one.
    while let Some((tensor, to)) = best_rest(candidates, settled, chosen, left) {
        left -= candidates[tensor][to].bytes - candidates[tensor][chosen[tensor]].bytes;
        chosen[tensor] = to;
    }
}

/// A tensor going from one candidate to the next on its convex hull.
struct Step {
    tensor: usize,
    from: usize,
    to: usize,
    /// Cost that is removed per byte.
    gain: f64,
}

/// The steps of all tensors, those that gain most per byte first; equal ones in the order of tensors.
fn steps(candidates: &[Vec<Candidate>]) -> Vec<Step> {
    let mut steps = Vec::new();
    for (tensor, candidates) in candidates.iter().enumerate() {
        let mut from = 0;
        while let Some((to, gain)) = next_on_hull(candidates, from) {
            steps.push(Step {
                tensor,
                from,
                to,
                gain,
            });
            from = to;
        }
    }
    steps.sort_by(|a, b| b.gain.total_cmp(&a.gain).then(a.tensor.cmp(&b.tensor)));
    steps
}

/// The larger candidate that gains most per byte, and how much; the largest of equal ones.
fn next_on_hull(candidates: &[Candidate], from: usize) -> Option<(usize, f64)> {
    let start = candidates[from];
    let mut best: Option<(usize, f64)> = None;
    for (index, candidate) in candidates.iter().enumerate().skip(from + 1) {
        if candidate.bytes > start.bytes && candidate.cost < start.cost {
            let gain = (start.cost - candidate.cost) / (candidate.bytes - start.bytes) as f64;
            if best.is_none_or(|(_, most)| gain >= most) {
                best = Some((index, gain));
            }
        }
    }
    best
}

/// The change of one tensor that fits into what is left and gains most.
fn best_rest(
    candidates: &[Vec<Candidate>],
    settled: &[usize],
    chosen: &[usize],
    left: u64,
) -> Option<(usize, usize)> {
    let mut best: Option<(usize, usize, f64)> = None;
    for (tensor, (candidates, &from)) in candidates.iter().zip(chosen).enumerate() {
        if settled.contains(&tensor) {
            continue;
        }
        let start = candidates[from];
        for (to, candidate) in candidates.iter().enumerate() {
            let fits = candidate.bytes.saturating_sub(start.bytes) <= left;
            let larger = candidate.bytes >= start.bytes && to != from;
            let gain = start.cost - candidate.cost;
            if fits && larger && gain > best.map_or(0.0, |(_, _, gain)| gain) {
                best = Some((tensor, to, gain));
            }
        }
    }
    best.map(|(tensor, to, _)| (tensor, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(pairs: &[(u64, f64)]) -> Vec<Candidate> {
        let candidate = |&(bytes, cost)| Candidate {
            ty: gristmill_quant::Q8_0,
            bytes,
            cost,
        };
        pairs.iter().map(candidate).collect()
    }

    #[test]
    fn bytes_go_where_they_remove_most_error() {
        let tensors = [
            candidates(&[(10, 8.0), (20, 4.0), (40, 0.0)]),
            candidates(&[(10, 3.0), (30, 1.0), (50, 0.5)]),
        ];
        let chosen = |budget| choose(&tensors, budget).expect("the smallest fit");
        assert_eq!(chosen(20), [0, 0]);
        assert_eq!(chosen(29), [0, 0]);
        assert_eq!(chosen(30), [1, 0]);
        assert_eq!(chosen(50), [2, 0]);
        assert_eq!(chosen(70), [2, 1]);
        assert_eq!(chosen(1000), [2, 2]);
        assert_eq!(choose(&tensors, 19), Err(20));
    }

    /// By gain per byte the small tensors would take their steps first, and too little would be left for the large one.
    #[test]
    fn a_large_step_is_not_left_out_for_small_ones() {
        let small = || candidates(&[(10, 1.0), (20, 0.4), (30, 0.3)]);
        let tensors = [
            candidates(&[(100, 9.0), (150, 7.0)]),
            small(),
            small(),
            small(),
        ];
        assert_eq!(
            choose(&tensors, 180).expect("the smallest fit"),
            [1, 0, 0, 0]
        );
        assert_eq!(
            choose(&tensors, 210).expect("the smallest fit"),
            [1, 1, 1, 1]
        );
    }

    #[test]
    fn what_is_left_is_spent() {
        // The hull of the first tensor jumps over its middle candidate, which fits where the jump does not.
        let tensors = [candidates(&[(10, 8.0), (20, 6.0), (30, 0.0)])];
        assert_eq!(choose(&tensors, 25).expect("the smallest fit"), [1]);
        // A candidate that is larger and no better is never taken.
        let tensors = [candidates(&[(10, 1.0), (20, 1.0), (30, 2.0)])];
        assert_eq!(choose(&tensors, 100).expect("the smallest fit"), [0]);
    }
}
