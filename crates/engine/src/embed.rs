//! Texts as vectors: the last layer's rows, pooled; or the scores of a classifier.

use std::sync::Arc;

use gristmill_model::Pooling;
use gristmill_tokenizer::EncodeOptions;

use crate::adapter::Adapters;
use crate::cache::{PAGE_LEN, SequenceId};
use crate::context::{BatchToken, Context, Output};
use crate::error::EngineError;
use crate::model::{LoadOptions, Model};

/// How to make vectors of texts.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmbedOptions {
    /// How the rows of a text become one; nothing for what the model says, and no pooling where it says nothing.
    pub pooling: Option<Pooling>,
    /// Whether a token sees no later one; nothing for what the model says.
    pub causal: Option<bool>,
}

/// Makes vectors of token sequences.
///
/// A vector does not depend on what is computed beside it.
pub struct Embedder {
    context: Context,
    pooling: Pooling,
    causal: bool,
    adapters: Adapters,
    batch: Vec<BatchToken>,
}

/// The vectors of a sequence: one, or one per token without pooling.
pub type Vectors = Vec<Vec<f32>>;

impl Embedder {
    /// Reserves the cache.
    ///
    /// Errors: as [`Context::new`]; [`EngineError::NoClassifier`] for scores of a model that gives none.
    pub fn new(
        model: Arc<Model>,
        load: &LoadOptions,
        options: &EmbedOptions,
    ) -> Result<Self, EngineError> {
        let hparams = model.hyperparameters();
        let pooling = options.pooling.or(hparams.pooling).unwrap_or(Pooling::None);
        let causal = options.causal.unwrap_or(hparams.causal);
        if pooling == Pooling::Rank && !model.network().has_classifier() {
            return Err(EngineError::NoClassifier);
        }
        let scores = pooling == Pooling::Rank;
        Ok(Embedder {
            context: Context::of(model, load, Output::Hidden { causal, scores })?,
            pooling,
            causal,
            adapters: Adapters::default(),
            batch: Vec::new(),
        })
    }

    /// Computes with these adapters from now on.
    ///
    /// Errors: adapters of another model.
    pub fn set_adapters(&mut self, adapters: &Adapters) -> Result<(), EngineError> {
        adapters.check(self.model())?;
        self.adapters = adapters.clone();
        Ok(())
    }

    /// The adapters that it computes with.
    pub fn adapters(&self) -> &Adapters {
        &self.adapters
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        self.context.model()
    }

    /// How rows are pooled.
    pub fn pooling(&self) -> Pooling {
        self.pooling
    }

    /// The most tokens of one sequence.
    pub fn n_ctx(&self) -> usize {
        self.context.n_ctx()
    }

    /// Elements of a vector.
    pub fn width(&self) -> usize {
        self.context.row_width()
    }

    /// The ids of a text as the model wants it: with its beginning and end, control tokens in it recognised. With
    /// `truncate`, tokens beyond the context are left out, but for the end.
    pub fn encode(&self, text: &[u8], truncate: bool) -> Vec<u32> {
        let tokenizer = self.model().tokenizer();
        let options = EncodeOptions {
            add_special: true,
            parse_special: true,
        };
        self.shortened(tokenizer.encode(text, options), truncate)
    }

    /// The ids of a query and a document: in the model's own form for rerankers where it has one, else one after the
    /// other with the model's tokens between them. Neither can contain control tokens. With `truncate`, what does not fit of the
    /// document is left out.
    ///
    /// Errors: [`EngineError::QueryTooLong`] where no token of a document that is too long would be left.
    pub fn encode_pair(
        &self,
        query: &[u8],
        document: &[u8],
        truncate: bool,
    ) -> Result<Vec<u32>, EngineError> {
        let n_ctx = self.n_ctx();
        let (mut ids, n_behind) = self.pair(query, document);
        if ids.len() <= n_ctx {
            return Ok(ids);
        }
        let n_tokens = self.pair(query, b"").0.len();
        if n_tokens >= n_ctx {
            let n_ctx_max = self.model().network().context_length_max();
            return Err(EngineError::QueryTooLong {
                n_tokens,
                n_ctx,
                n_ctx_max,
            });
        }
        if truncate {
            let n_behind = n_behind.min(n_ctx);
            ids.drain(n_ctx - n_behind..ids.len() - n_behind);
        }
        Ok(ids)
    }

    /// The ids of a query and a document, and how many of them stand behind the document.
    fn pair(&self, query: &[u8], document: &[u8]) -> (Vec<u32>, usize) {
        let model = self.model();
        let tokenizer = model.tokenizer();
        let Some(template) = model.template_source(Some("rerank")) else {
            let plain = |text| tokenizer.encode(text, EncodeOptions::default());
            let mut ids: Vec<u32> = tokenizer.added_first().into_iter().collect();
            ids.extend(plain(query));
            ids.extend(tokenizer.separators());
            ids.extend(plain(document));
            ids.extend(tokenizer.added_last());
            return (ids, usize::from(tokenizer.added_last().is_some()));
        };
        let options = EncodeOptions {
            add_special: false,
            parse_special: true,
        };
        let encode = |template: &str| {
            let (text, plain) = filled(template, query, document);
            tokenizer.encode_guarded(&text, options, &plain)
        };
        let ids = encode(&template);
        let behind = template.rsplit_once("{document}");
        let behind = behind.map_or_else(Vec::new, |(_, behind)| encode(behind));
        // The first tokens behind the document may be joined with its last ones.
        let same = ids.iter().rev().zip(behind.iter().rev());
        let n_behind = same.take_while(|(one, other)| one == other).count();
        (ids, n_behind)
    }

    fn shortened(&self, mut ids: Vec<u32>, truncate: bool) -> Vec<u32> {
        let n_ctx = self.n_ctx();
        if truncate && ids.len() > n_ctx {
            let end = self.model().tokenizer().added_last();
            ids.truncate(n_ctx);
            if let (Some(last), Some(end)) = (ids.last_mut(), end) {
                *last = end;
            }
        }
        ids
    }

    /// The vectors of sequences, in order. Several are computed at once, `n_batch` tokens or one sequence.
    ///
    /// Errors: [`EngineError::Item`] with the number of the sequence that cannot be computed: one that is empty or longer
    /// than the context, or has tokens outside the vocabulary; a failing backend; values that are no numbers.
    pub fn embed(
        &mut self,
        sequences: &[Vec<u32>],
        n_batch: usize,
    ) -> Result<Vec<Vectors>, EngineError> {
        for (index, ids) in sequences.iter().enumerate() {
            let checked = self.check(ids);
            checked.map_err(|error| error.of_item(index))?;
        }
        let mut vectors = Vec::with_capacity(sequences.len());
        while vectors.len() < sequences.len() {
            let start = vectors.len();
            let n_taken = self.n_that_fit(&sequences[start..], n_batch);
            self.compute(&sequences[start..start + n_taken], start, &mut vectors)?;
        }
        Ok(vectors)
    }

    fn check(&self, ids: &[u32]) -> Result<(), EngineError> {
        let (n_tokens, n_ctx) = (ids.len(), self.n_ctx());
        if ids.is_empty() {
            return Err(EngineError::NothingToEmbed);
        }
        if n_tokens > n_ctx {
            let n_ctx_max = self.model().network().context_length_max();
            return Err(EngineError::TooLongToEmbed {
                n_tokens,
                n_ctx,
                n_ctx_max,
            });
        }
        let n_vocab = self.model().n_vocab();
        match ids.iter().find(|&&id| id as usize >= n_vocab) {
            Some(&id) => Err(EngineError::TokenOutOfRange { id, n_vocab }),
            None => Ok(()),
        }
    }

    /// How many of the sequences make one batch: at least one.
    fn n_that_fit(&self, sequences: &[Vec<u32>], n_batch: usize) -> usize {
        let n_pages = self.context.n_pages();
        let (mut n_tokens, mut n_used) = (0usize, 0usize);
        let fits = |ids: &&Vec<u32>| {
            n_tokens = n_tokens.saturating_add(ids.len());
            n_used += ids.len().div_ceil(PAGE_LEN);
            n_tokens <= n_batch && n_used <= n_pages
        };
        sequences.iter().take_while(fits).count().max(1)
    }

    fn compute(
        &mut self,
        sequences: &[Vec<u32>],
        first: usize,
        vectors: &mut Vec<Vectors>,
    ) -> Result<(), EngineError> {
        self.batch.clear();
        let all = matches!(self.pooling, Pooling::None | Pooling::Mean);
        for (number, ids) in sequences.iter().enumerate() {
            // Fewer than tokens of the context.
            let sequence = SequenceId(number as u32);
            self.context.set_adapters(sequence, &self.adapters)?;
            let wanted = match self.pooling {
                Pooling::Last => ids.len() - 1,
                Pooling::Rank if self.causal => ids.len() - 1,
                _ => 0,
            };
            let tokens = ids.iter().enumerate().map(|(place, &id)| BatchToken {
                id,
                sequence,
                output: all || place == wanted,
            });
            self.batch.extend(tokens);
        }
        let decoded = self.context.decode(&self.batch);
        let mut row = 0;
        for (number, ids) in sequences.iter().enumerate() {
            if decoded.is_ok() {
                let n_rows = if all { ids.len() } else { 1 };
                let pooled = self.pooled(row..row + n_rows);
                vectors.push(pooled.map_err(|error| error.of_item(first + number))?);
                row += n_rows;
            }
            self.context
                .past_mut()
                .truncate(SequenceId(number as u32), 0);
        }
        decoded.map(drop)
    }

    fn pooled(&self, rows: std::ops::Range<usize>) -> Result<Vectors, EngineError> {
        let n_rows = rows.len();
        let mut rows: Vectors = rows.map(|row| self.context.row(row).to_vec()).collect();
        if self.pooling == Pooling::Mean {
            let mut sum = vec![0.0f64; self.width()];
            for row in &rows {
                let places = sum.iter_mut().zip(row);
                places.for_each(|(sum, value)| *sum += f64::from(*value));
            }
            let mean = sum.into_iter().map(|sum| (sum / n_rows as f64) as f32);
            rows = vec![mean.collect()];
        }
        if self.pooling == Pooling::Rank && self.model().scores_are_shares() {
            rows.iter_mut().for_each(|row| softmax(row));
        }
        let values = rows.iter().flatten();
        match values.copied().find(|value| !value.is_finite()) {
            Some(value) => Err(EngineError::VectorNotFinite { value }),
            None => Ok(rows),
        }
    }
}

/// A form with its places filled in, and where in the result the text of query or document is.
fn filled(template: &str, query: &[u8], document: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let (mut text, mut plain) = (Vec::new(), Vec::new());
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        text.extend_from_slice(before.as_bytes());
        let places = [("{query}", query), ("{document}", document)];
        let place = places.into_iter().find(|(name, _)| from.starts_with(name));
        let (name, content) = place.unwrap_or(("{", b"{"));
        if place.is_some() {
            plain.extend(text.len()..text.len() + content.len());
        }
        text.extend_from_slice(content);
        rest = &from[name.len()..];
    }
    text.extend_from_slice(rest.as_bytes());
    (text, plain)
}

fn softmax(row: &mut [f32]) {
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter_mut().for_each(|x| *x = (*x - largest).exp());
    let sum: f32 = row.iter().sum();
    row.iter_mut().for_each(|x| *x /= sum);
}

/// Scales a vector as the reference's `--embd-normalize` does: -1 leaves it, 0 makes the largest magnitude 32760, any other
/// number makes that norm 1 (2 is the usual one). A vector of zeros stays.
pub fn normalize(vector: &mut [f32], kind: i32) {
    let magnitudes = vector.iter().map(|x| f64::from(x.abs()));
    let norm = match kind {
        i32::MIN..=-1 => return,
        0 => magnitudes.fold(0.0, f64::max) / 32760.0,
        2 => magnitudes.map(|x| x * x).sum::<f64>().sqrt(),
        p => {
            let p = f64::from(p);
            magnitudes.map(|x| x.powf(p)).sum::<f64>().powf(1.0 / p)
        }
    };
    let factor = if norm > 0.0 { (1.0 / norm) as f32 } else { 0.0 };
    vector.iter_mut().for_each(|x| *x *= factor);
}

/// The cosine of the angle between two vectors. Two vectors of zeros are alike, and one is like no other.
pub fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
        products.sum()
    };
    let (aa, bb) = (dot(a, a), dot(b, b));
    match (aa == 0.0, bb == 0.0) {
        (true, true) => 1.0,
        (false, false) => (dot(a, b) / (aa.sqrt() * bb.sqrt())) as f32,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_are_those_of_the_reference() {
        let normalized = |kind| {
            let mut vector = [3.0, -4.0, 0.0];
            normalize(&mut vector, kind);
            vector
        };
        assert_eq!(normalized(-1), [3.0, -4.0, 0.0]);
        assert_eq!(normalized(0), [24570.0, -32760.0, 0.0]);
        assert_eq!(normalized(2), [0.6, -0.8, 0.0]);
        let [three, four, zero] = normalized(1);
        assert!((three - 3.0 / 7.0).abs() < 1e-6 && (four + 4.0 / 7.0).abs() < 1e-6);
        assert_eq!(zero, 0.0);
        let mut zeros = [0.0; 3];
        normalize(&mut zeros, 2);
        assert_eq!(zeros, [0.0; 3]);
    }

    #[test]
    fn a_form_is_filled_and_its_contents_are_known() {
        let (text, plain) = filled("<q>{query}</q>{x}{document}.", b"a{document}", b"b");
        assert_eq!(text, b"<q>a{document}</q>{x}b.");
        assert_eq!(plain, (3..14).chain([21]).collect::<Vec<_>>());
    }

    #[test]
    fn cosines() {
        assert_eq!(cosine(&[1.0, 0.0], &[0.0, 2.0]), 0.0);
        assert_eq!(cosine(&[1.0, 1.0], &[-2.0, -2.0]), -1.0);
        assert_eq!(cosine(&[0.0], &[0.0]), 1.0);
        assert_eq!(cosine(&[0.0], &[1.0]), 0.0);
    }
}
