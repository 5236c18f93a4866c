//! The tokenizer of a model.

use std::sync::Arc;

use gristmill_gguf::{Metadata, StringArray};

use crate::bpe::Bpe;
use crate::decode::{Pieces, Spelling, Utf8Stream, clean_spaces};
use crate::error::TokenizerError;
use crate::pre::{self, Name};
use crate::roles::Roles;
use crate::special::{Fragment, Special, SpecialFinder};
use crate::spm::{ESCAPED_SPACE, Spm};
use crate::vocabulary::{Attributes, Vocabulary, key};
use crate::word_piece::{Normalizer, WordPiece};

/// How a text becomes ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Put the beginning and end tokens around the text, where the model wants them.
    pub add_special: bool,
    /// Recognise control tokens by their text. Leave it off for text from users: it then cannot contain
    /// any, whatever it says.
    pub parse_special: bool,
}

/// Text to ids and back.
pub struct Tokenizer {
    vocabulary: Vocabulary,
    model: Model,
    pieces: Pieces,
    roles: Roles,
    pre: Option<&'static Name>,
    /// User-defined tokens, which are always recognised.
    added: SpecialFinder,
    /// These, and control and unknown tokens.
    special: SpecialFinder,
    /// The tokens that encoding with `add_special` puts before and after a text.
    first: Option<u32>,
    last: Option<u32>,
    /// Those between two texts of a pair.
    between: Vec<u32>,
    add_space_prefix: bool,
    warnings: Vec<String>,
    notes: Vec<String>,
}

enum Model {
    Bpe(Bpe),
    Spm(Spm),
    WordPiece(WordPiece),
}

/// What the kind of tokenizer, and the pre-tokenizer's name, imply where the file says nothing.
struct Defaults {
    roles: Roles,
    kind: Kind,
    add_bos: bool,
    add_space_prefix: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Bpe(&'static pre::PreTokenizer, &'static Name),
    Spm,
    WordPiece,
}

impl Tokenizer {
    /// The tokenizer that a file's metadata describes.
    ///
    /// # Errors
    /// If an entry is missing, has the wrong type, length or value, or names something unknown; the error
    /// names the key.
    pub fn from_metadata(metadata: &Metadata) -> Result<Tokenizer, TokenizerError> {
        let (mut warnings, mut notes) = (Vec::new(), Vec::new());
        let defaults = Defaults::read(metadata, &mut warnings)?;
        let mut vocabulary = Vocabulary::from_metadata(metadata)?;
        let roles = Roles::read(
            metadata,
            &mut vocabulary,
            defaults.roles,
            (&mut warnings, &mut notes),
        )?;
        let model = defaults.kind.model(metadata, &vocabulary, &roles)?;
        let between = between(metadata, defaults.kind, &roles)?;
        let (first, last) = ends(metadata, defaults.kind, defaults.add_bos, &roles)?;
        let pre = match defaults.kind {
            Kind::Bpe(_, name) => Some(name),
            Kind::Spm | Kind::WordPiece => None,
        };
        let spelling = match model {
            Model::Bpe(_) => Spelling::ByteLevel,
            Model::Spm(_) | Model::WordPiece(_) => Spelling::EscapedSpaces,
        };
        let pieces = Pieces::new(&vocabulary, spelling);
        set_strips(metadata, pre, &mut vocabulary)?;
        let always = Attributes::USER_DEFINED;
        let by_request = always.with(Attributes::CONTROL).with(Attributes::UNKNOWN);
        Ok(Tokenizer {
            added: finder(
                &vocabulary,
                always,
                Attributes::CONTROL.with(Attributes::UNKNOWN),
            ),
            special: finder(&vocabulary, by_request, Attributes::default()),
            pieces,
            model,
            roles,
            pre,
            first,
            last,
            between,
            add_space_prefix: metadata.bool_or(key::ADD_SPACE_PREFIX, defaults.add_space_prefix)?,
            vocabulary,
            warnings,
            notes,
        })
    }

    /// The ids of a text. Any bytes are accepted.
    pub fn encode(&self, text: impl AsRef<[u8]>, options: EncodeOptions) -> Vec<u32> {
        self.encode_guarded(text, options, &[])
    }

    /// As [`Tokenizer::encode`], but no special or added token is seen at the byte offsets `plain_starts` (rising):
    /// for a text that was put together from parts, some of which only spell such tokens.
    pub fn encode_guarded(
        &self,
        text: impl AsRef<[u8]>,
        options: EncodeOptions,
        plain_starts: &[usize],
    ) -> Vec<u32> {
        let text = text.as_ref();
        let mut ids = Vec::with_capacity(text.len() / 4 + 2);
        if options.add_special {
            ids.extend(self.first);
        }
        let finder = if options.parse_special {
            &self.special
        } else {
            &self.added
        };
        // SentencePiece puts a space before text at the start and after a special token.
        let mut after_special = true;
        for fragment in finder.split_guarded(text, plain_starts) {
            match fragment {
                Fragment::Token(id) => {
                    ids.push(id);
                    after_special = true;
                }
                Fragment::Text { start, end } => {
                    self.encode_text(&text[start..end], after_special, &mut ids);
                    after_special = false;
                }
            }
        }
        if options.add_special {
            ids.extend(self.last);
        }
        ids
    }

    /// How many tokens a text of so many bytes has at least: none covers more text than the longest piece has. For
    /// a vocabulary that passes over some text this is 0.
    pub fn fewest_tokens(&self, n_bytes: usize) -> usize {
        let strips = Attributes::STRIP_LEFT.with(Attributes::STRIP_RIGHT);
        let ids = 0..self.n_tokens() as u32;
        let drops_text = match &self.model {
            Model::Bpe(bpe) => !bpe.has_all_bytes(),
            Model::Spm(spm) => !spm.has_all_bytes(),
            // A word of any length may be one unknown token.
            Model::WordPiece(_) => true,
        };
        if drops_text || ids.clone().any(|id| self.vocabulary.has(id, strips)) {
            return 0;
        }
        let longest = ids.map(|id| self.pieces.get(id).len()).max();
        // Four bytes are a character that is unknown as a whole.
        n_bytes / longest.unwrap_or(0).max(4)
    }

    fn encode_text(&self, text: &[u8], after_special: bool, ids: &mut Vec<u32>) {
        match &self.model {
            Model::Bpe(bpe) => bpe.encode(text, ids),
            Model::WordPiece(model) => model.encode(text, ids),
            Model::Spm(spm) => {
                let mut escaped = Vec::with_capacity(text.len() + text.len() / 2 + 3);
                if self.add_space_prefix && after_special {
                    escaped.extend_from_slice(ESCAPED_SPACE);
                }
                for &byte in text {
                    match byte {
                        b' ' => escaped.extend_from_slice(ESCAPED_SPACE),
                        _ => escaped.push(byte),
                    }
                }
                spm.encode(&self.vocabulary.texts, &escaped, ids);
            }
        }
    }

    /// The bytes of one token. With `special` false, control and unknown tokens have none; an id outside
    /// the vocabulary has none either.
    pub fn piece(&self, id: u32, special: bool) -> &[u8] {
        let hidden = Attributes::CONTROL.with(Attributes::UNKNOWN);
        if !special && self.vocabulary.has(id, hidden) {
            return &[];
        }
        self.pieces.get(id)
    }

    /// The bytes of a sequence: its pieces, one after another. A SentencePiece text begins with the space
    /// that encoding put there; [`Tokenizer::detokenize`] takes it away.
    pub fn decode(&self, ids: &[u32], special: bool) -> Vec<u8> {
        ids.iter()
            .flat_map(|&id| self.piece(id, special))
            .copied()
            .collect()
    }

    /// The bytes of a whole text as the reference's detokenizer gives them: without the space that
    /// encoding put in front, and for some vocabularies without the space before punctuation.
    pub fn detokenize(&self, ids: &[u32], special: bool) -> Vec<u8> {
        let mut text = Vec::new();
        for (i, &id) in ids.iter().enumerate() {
            let piece = self.piece(id, special);
            let strip = i == 0 && self.add_space_prefix;
            let stripped = piece.strip_prefix(b" ").filter(|_| strip);
            text.extend_from_slice(stripped.unwrap_or(piece));
        }
        let cleans = match self.model {
            Model::Bpe(_) => self.pre.is_some_and(|name| name.clean_spaces),
            Model::Spm(_) => false,
            Model::WordPiece(_) => true,
        };
        if cleans {
            clean_spaces(&mut text);
        }
        text
    }

    /// A decoder that gives out text as ids come, never a part of a character. With `special` false,
    /// control tokens give no text.
    pub fn stream(self: &Arc<Tokenizer>, special: bool) -> StreamDecoder {
        StreamDecoder {
            tokenizer: Arc::clone(self),
            special,
            utf8: Utf8Stream::new(),
        }
    }

    /// The number of tokens; ids are below it.
    pub fn n_tokens(&self) -> usize {
        self.vocabulary.len()
    }

    /// The number of merges that can apply; 0 where there are none.
    pub fn n_merges(&self) -> usize {
        match &self.model {
            Model::Bpe(bpe) => bpe.n_merges(),
            Model::Spm(_) | Model::WordPiece(_) => 0,
        }
    }

    /// The text of a token as the file has it; empty for an id outside the vocabulary.
    pub fn text(&self, id: u32) -> &[u8] {
        self.vocabulary.texts.text(id as usize)
    }

    /// The token whose text in the file is exactly this, for example `<|im_end|>`.
    pub fn token(&self, text: impl AsRef<[u8]>) -> Option<u32> {
        self.vocabulary.texts.find(text.as_ref())
    }

    /// What a token is; nothing for an id outside the vocabulary.
    pub fn attributes(&self, id: u32) -> Attributes {
        self.vocabulary
            .attributes
            .get(id as usize)
            .copied()
            .unwrap_or_default()
    }

    /// The score of a token; 0 where the file has none.
    pub fn score(&self, id: u32) -> f32 {
        self.vocabulary
            .scores
            .get(id as usize)
            .copied()
            .unwrap_or(0.0)
    }

    /// The tokens with a role.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// The token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.roles.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.roles.eos
    }

    /// The token that ends a turn.
    pub fn eot(&self) -> Option<u32> {
        self.roles.eot
    }

    /// True if the token ends a generation.
    pub fn is_eog(&self, id: u32) -> bool {
        self.roles.end_of_generation.binary_search(&id).is_ok()
    }

    /// True if encoding with `add_special` begins with [`Tokenizer::bos`].
    pub fn add_bos(&self) -> bool {
        self.first.is_some()
    }

    /// The token that encoding with `add_special` puts before a text.
    pub fn added_first(&self) -> Option<u32> {
        self.first
    }

    /// The tokens that stand between the two texts of a pair, such as a query and a document: an end, a separator.
    pub fn separators(&self) -> &[u32] {
        &self.between
    }

    /// The token that encoding with `add_special` puts after a text: the end, or the separator of WordPiece.
    pub fn added_last(&self) -> Option<u32> {
        self.last
    }

    /// True if encoding puts a space before text at the start and after special tokens.
    pub fn add_space_prefix(&self) -> bool {
        self.add_space_prefix
    }

    /// The kind, in the words of the field: `byte-level BPE`, `SentencePiece BPE` or `WordPiece`.
    pub fn kind(&self) -> &'static str {
        match self.model {
            Model::Bpe(_) => "byte-level BPE",
            Model::Spm(_) => "SentencePiece BPE",
            Model::WordPiece(_) => "WordPiece",
        }
    }

    /// The name of the pre-tokenizer; only byte-level BPE has one.
    pub fn pre_tokenizer(&self) -> Option<&'static str> {
        self.pre.map(|name| name.name)
    }

    /// What is odd about the vocabulary but does not keep it from being used, for the user to read.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What is odd about the vocabulary and changes no text and no answer: for who examines the file.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

impl Defaults {
    fn read(metadata: &Metadata, warnings: &mut Vec<String>) -> Result<Defaults, TokenizerError> {
        let kind = metadata.required_str(key::MODEL)?;
        match kind {
            "llama" => Ok(Defaults {
                roles: Roles {
                    bos: Some(1),
                    eos: Some(2),
                    unknown: Some(0),
                    ..Roles::default()
                },
                kind: Kind::Spm,
                add_bos: true,
                add_space_prefix: true,
            }),
            "bert" => Ok(Defaults {
                roles: Roles {
                    bos: Some(101),
                    unknown: Some(100),
                    separator: Some(102),
                    padding: Some(0),
                    mask: Some(103),
                    ..Roles::default()
                },
                kind: Kind::WordPiece,
                add_bos: true,
                add_space_prefix: false,
            }),
            "gpt2" => Defaults::of_bpe(metadata.str(key::PRE)?, warnings),
            "none" | "no_vocab" => Err(TokenizerError::NoVocabulary {
                kind: kind.to_owned(),
            }),
            _ => Err(TokenizerError::UnsupportedKind {
                kind: kind.to_owned(),
            }),
        }
    }

    fn of_bpe(name: Option<&str>, warnings: &mut Vec<String>) -> Result<Defaults, TokenizerError> {
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| {
            warnings.push(
                "tokenizer.ggml.pre is missing: the default pre-tokenizer is used, and GENERATION QUALITY WILL BE DEGRADED; convert the model again"
                    .to_owned(),
            );
            "default"
        });
        let (pre, name) =
            pre::by_name(name).ok_or_else(|| TokenizerError::UnknownPreTokenizer {
                name: name.to_owned(),
                nearest: pre::nearest_name(name),
            })?;
        let bos = name.has_default_bos.then_some(11);
        Ok(Defaults {
            roles: Roles {
                bos,
                eos: Some(11),
                ..Roles::default()
            },
            kind: Kind::Bpe(pre, name),
            add_bos: name.add_bos,
            add_space_prefix: false,
        })
    }
}

impl Kind {
    fn model(
        self,
        metadata: &Metadata,
        vocabulary: &Vocabulary,
        roles: &Roles,
    ) -> Result<Model, TokenizerError> {
        let texts = &vocabulary.texts;
        Ok(match self {
            Kind::Bpe(pre, name) => Model::Bpe(read_bpe(metadata, vocabulary, pre, name)?),
            Kind::Spm => Model::Spm(Spm::new(texts, &vocabulary.scores, roles.unknown)),
            Kind::WordPiece => {
                let lowercase = metadata.bool_or(key::LOWERCASE, true)?;
                let normalizer = Normalizer {
                    lowercase,
                    strip_accents: metadata.bool_or(key::STRIP_ACCENTS, lowercase)?,
                };
                Model::WordPiece(WordPiece::new(texts, roles.unknown, normalizer))
            }
        })
    }
}

/// The tokens before and after a text. WordPiece has both whatever the file says, as in the reference.
fn ends(
    metadata: &Metadata,
    kind: Kind,
    add_bos: bool,
    roles: &Roles,
) -> Result<(Option<u32>, Option<u32>), TokenizerError> {
    let asked_bos = metadata.bool_or(key::ADD_BOS, add_bos)?;
    let asked_eos = metadata.bool_or(key::ADD_EOS, false)?;
    let bos_key = "tokenizer.ggml.bos_token_id";
    if matches!(kind, Kind::WordPiece) {
        let first = added(true, roles.bos, key::ADD_BOS, bos_key)?;
        let separator_key = "tokenizer.ggml.seperator_token_id";
        let last = added(true, roles.separator, key::ADD_SEP, separator_key)?;
        return Ok((first, last));
    }
    Ok((
        added(asked_bos, roles.bos, key::ADD_BOS, bos_key)?,
        added(
            asked_eos,
            roles.eos,
            key::ADD_EOS,
            "tokenizer.ggml.eos_token_id",
        )?,
    ))
}

fn read_bpe(
    metadata: &Metadata,
    vocabulary: &Vocabulary,
    pre: &'static pre::PreTokenizer,
    name: &Name,
) -> Result<Bpe, TokenizerError> {
    let none = StringArray::default();
    let merges = match metadata.strings(key::MERGES)? {
        Some(merges) => merges,
        None if name.merges_optional => &none,
        None => metadata.required_strings(key::MERGES)?,
    };
    let texts = (0..vocabulary.len()).map(|id| vocabulary.texts.text(id));
    Bpe::new(texts, merges, pre, name.ignore_merges)
}

fn between(metadata: &Metadata, kind: Kind, roles: &Roles) -> Result<Vec<u32>, TokenizerError> {
    let add_eos = metadata.bool_or(key::ADD_EOS, false)?;
    let add_sep = metadata.bool_or(key::ADD_SEP, matches!(kind, Kind::WordPiece))?;
    let end = roles.eos.or(roles.separator).filter(|_| add_eos);
    let separator = roles.separator.filter(|_| add_sep);
    Ok(end.into_iter().chain(separator).collect())
}

/// The token to add, where it is wanted.
fn added(
    wanted: bool,
    id: Option<u32>,
    key: &'static str,
    id_key: &'static str,
) -> Result<Option<u32>, TokenizerError> {
    if wanted && id.is_none() {
        return Err(TokenizerError::NoTokenToAdd { key, id_key });
    }
    Ok(id.filter(|_| wanted))
}

/// Which tokens take white space beside them. Files do not say; the reference knows it from the pre-tokenizer's name or
/// the model's.
fn set_strips(
    metadata: &Metadata,
    pre: Option<&Name>,
    vocabulary: &mut Vocabulary,
) -> Result<(), TokenizerError> {
    // It only describes: a value that is no text is no reason to refuse the file.
    let model = metadata.text("general.name").ok().flatten();
    let model = model.map(|text| text.to_str_lossy().to_ascii_lowercase());
    let named = MODEL_STRIPS
        .iter()
        .find(|(part, _)| model.as_ref().is_some_and(|model| model.contains(part)));
    let strip = match (pre, named) {
        (Some(name), _) if name.mask_strips_left => Some(Strip::LeftOf("<mask>")),
        (_, named) => named.map(|(_, strip)| *strip),
    };
    match strip {
        None => {}
        Some(Strip::RightOfSpecial) => strip_right_of_special(vocabulary),
        Some(Strip::LeftOf(token)) => {
            if let Some(id) = vocabulary.find(token) {
                let attributes = &mut vocabulary.attributes[id as usize];
                *attributes = attributes.with(Attributes::STRIP_LEFT);
            }
        }
    }
    Ok(())
}

/// Which tokens of a model take white space beside them.
#[derive(Clone, Copy)]
enum Strip {
    /// This token takes what is before it.
    LeftOf(&'static str),
    /// Special tokens take what is after them.
    RightOfSpecial,
}

/// By a part of `general.name`, in lower case; the first that is found counts.
const MODEL_STRIPS: &[(&str, Strip)] = &[
    ("phi-3", Strip::RightOfSpecial),
    ("phi3", Strip::RightOfSpecial),
    ("modern-bert", Strip::LeftOf("[MASK]")),
];

fn strip_right_of_special(vocabulary: &mut Vocabulary) {
    let special = Attributes::CONTROL
        .with(Attributes::USER_DEFINED)
        .with(Attributes::UNKNOWN);
    let closing = vocabulary.find("</s>");
    for (id, attributes) in vocabulary.attributes.iter_mut().enumerate() {
        if attributes.has(special) || closing == Some(id as u32) {
            *attributes = attributes.with(Attributes::STRIP_RIGHT);
        }
    }
    for text in ["<unk>", "<s>", "<|endoftext|>"] {
        if let Some(id) = vocabulary.find(text) {
            let attributes = &mut vocabulary.attributes[id as usize];
            *attributes = attributes.without(Attributes::STRIP_RIGHT);
        }
    }
}

/// Finds tokens with any attribute of `wanted` and none of `unwanted`.
fn finder(vocabulary: &Vocabulary, wanted: Attributes, unwanted: Attributes) -> SpecialFinder {
    let chosen = vocabulary.attributes.iter().enumerate();
    let chosen = chosen.filter(|(_, found)| found.has(wanted) && !found.has(unwanted));
    SpecialFinder::new(chosen.map(|(id, attributes)| Special {
        id: id as u32, // at most i32::MAX tokens
        text: vocabulary.texts.text(id),
        strip_left: attributes.has(Attributes::STRIP_LEFT),
        strip_right: attributes.has(Attributes::STRIP_RIGHT),
    }))
}

/// Decodes ids one by one.
#[derive(Clone)]
pub struct StreamDecoder {
    tokenizer: Arc<Tokenizer>,
    special: bool,
    utf8: Utf8Stream,
}

impl StreamDecoder {
    /// Takes the next id and returns the characters that are complete now; often empty. Bytes that belong
    /// to no character become U+FFFD.
    pub fn push(&mut self, id: u32) -> String {
        self.push_as(id, self.special)
    }

    /// The same, with or without the text of this token where it is a control token.
    pub fn push_as(&mut self, id: u32, special: bool) -> String {
        self.utf8.push(self.tokenizer.piece(id, special))
    }

    /// The end: a character that was not completed becomes one U+FFFD.
    pub fn finish(&mut self) -> String {
        self.utf8.finish()
    }
}
