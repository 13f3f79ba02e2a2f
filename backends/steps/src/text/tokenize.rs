//! The tokenizer of a folder. Only this file and what lies below it know the crate `tokenizers`.
//!
//! One tokenizer serves all threads: the crate's own truncation and padding would need `&mut`, so both are off, and
//! its post-processor is held apart. A text is encoded bare, cut, and then gets its special tokens, in the order in
//! which the crate does the same.

mod expression;
mod model;
mod normalizer;
mod splitter;

use std::{any::Any, panic::catch_unwind};

use serde::de::IgnoredAny;
use tokenizers::{
    AddedToken, Decoder, DecoderWrapper, EncodeInput, Encoding as Tokens, Normalizer as _,
    PostProcessor, PostProcessorWrapper, Token, TokenizerImpl, models::ModelWrapper,
    utils::truncation::TruncationDirection,
};

use self::{model::WordModel, normalizer::Normalizer, splitter::Splitter};

use super::{
    encoded::{Detail, Encode, Encoded, Encoding},
    template,
    truncate::{Truncation, pieces, too_many_windows},
};
use crate::{
    error::{FolderError, RowError},
    side::Side,
};

/// The crate's tokenizer, with expressions that do not give up in silence and words that go with their model.
type Bare = TokenizerImpl<WordModel, Normalizer, Splitter, PostProcessorWrapper, DecoderWrapper>;

/// A tokenizer: immutable, shared by all threads.
#[derive(Debug)]
pub struct Tokenizer {
    /// Without post-processor, truncation and padding.
    bare: Bare,
    /// What adds special tokens.
    post: Option<PostProcessorWrapper>,
    /// Ids from zero on, added tokens included.
    vocabulary: usize,
}

/// Fewest and most bytes of a text that are split at once to count its tokens.
const SHORTEST_PIECE: usize = 4096;
const LONGEST_PIECE: usize = 1 << 16;

/// Tokens that a piece may have by being cut from its text.
const TOKENS_OF_A_CUT: usize = 8;

/// The first text of several pairs, split.
#[derive(Debug, Clone)]
pub struct FirstOfPairs(Beginning);

/// The tokens of a text that may stay, and how many more it has.
#[derive(Debug, Clone)]
struct Beginning {
    tokens: Tokens,
    lost: usize,
}

/// A text as the crate splits it, for what is wanted of it.
fn encode(bare: &Bare, text: &str, detail: Detail) -> Result<Tokens, tokenizers::Error> {
    // The crate passes over an error of a normalizer.
    if let Some(normalizer) = bare.get_normalizer().filter(|it| it.may_give_up()) {
        normalizer.normalize(&mut text.into())?;
    }
    let input = EncodeInput::Single(text.into());
    match detail {
        Detail::Ids => bare.encode_fast(input, false),
        Detail::Characters => bare.encode_char_offsets(input, false),
        Detail::Bytes => bare.encode(input, false),
    }
}

impl Tokenizer {
    /// From the bytes of `tokenizer.json`; `file` is its name in errors. With `lower_case` texts are made lower-case
    /// first, unless the tokenizer does so itself.
    ///
    /// # Errors
    /// When the crate cannot read it, or would panic with each text.
    pub fn from_bytes(
        bytes: &[u8],
        file: &str,
        lower_case: bool,
    ) -> Result<Tokenizer, FolderError> {
        // Editors put a byte order mark in front.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        // The crate panics with what is no JSON, and with some values that it does not know.
        serde_json::from_slice::<IgnoredAny>(bytes)
            .map_err(|error| FolderError::file(file, format!("it is no JSON: {error}")))?;
        let read = catch_unwind(|| {
            serde_json::from_slice::<Bare>(bytes).map_err(|error| error.to_string())
        });
        let read = read.unwrap_or_else(|panic| Err(sentence(&*panic)));
        let wrong = |error| FolderError::file(file, format!("it is no tokenizer: {error}"));
        let mut bare = read.map_err(|error| wrong(error.into()))?;
        let post = bare.get_post_processor().cloned();
        let written = post.as_ref().and_then(|it| serde_json::to_value(it).ok());
        if let Some((key, problem)) = written.as_ref().and_then(template::problem) {
            return Err(FolderError::key(file, format!("post_processor.{key}"), problem));
        }
        bare.with_post_processor(None::<PostProcessorWrapper>);
        bare.with_padding(None);
        bare.with_truncation(None).map_err(wrong)?;
        if lower_case && !bare.get_normalizer().is_some_and(Normalizer::lowers) {
            let lower_case = Normalizer::lower_case(bare.get_normalizer().cloned());
            bare.with_normalizer(Some(lower_case)).map_err(wrong)?;
        }
        let vocabulary = bare.get_vocab(true).into_values().max().map_or(0, |it| it as usize + 1);
        Ok(Tokenizer { bare, post, vocabulary })
    }

    /// The tokens of a text, or of a pair.
    ///
    /// # Errors
    /// When the crate fails, or the text cannot be cut as asked.
    pub fn encode(
        &self,
        text: &str,
        pair: Option<&str>,
        how: &Encode,
    ) -> Result<Encoding, RowError> {
        let failed = |error: tokenizers::Error| RowError::Tokenizer(error.to_string());
        for text in std::iter::once(text).chain(pair) {
            self.check_windows(text, how)?;
        }
        let tokens = encode(&self.bare, text, how.detail).map_err(failed)?;
        let second = pair.map(|it| encode(&self.bare, it, how.detail)).transpose();
        self.finish(Beginning { tokens, lost: 0 }, second.map_err(failed)?, how)
    }

    /// A text that is encoded with several others in turn, and is split only once. Tokens that no pair keeps are
    /// dropped at once, so that no pair copies them.
    ///
    /// # Errors
    /// When the crate fails.
    pub fn first_of_pairs(&self, text: &str, how: &Encode) -> Result<FirstOfPairs, RowError> {
        let tokens = encode(&self.bare, text, how.detail);
        let mut tokens = tokens.map_err(|error| RowError::Tokenizer(error.to_string()))?;
        let given = tokens.len();
        if let Some(truncation) = how.truncation.filter(|it| it.stride.is_none()) {
            cut(&mut tokens, truncation.max_length.min(given), &truncation);
        }
        let lost = given - tokens.len();
        Ok(FirstOfPairs(Beginning { tokens, lost }))
    }

    /// The tokens of such a text with another one. `how` is the same.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode`].
    pub fn encode_pair(
        &self,
        first: &FirstOfPairs,
        second: &str,
        how: &Encode,
    ) -> Result<Encoding, RowError> {
        self.check_windows(second, how)?;
        let second = encode(&self.bare, second, how.detail);
        let second = second.map_err(|error| RowError::Tokenizer(error.to_string()))?;
        self.finish(first.0.clone(), Some(second), how)
    }

    /// Refuses a text with more windows than are taken after as much of it as shows that. A text that is taken
    /// although it is long is split twice.
    fn check_windows(&self, text: &str, how: &Encode) -> Result<(), RowError> {
        let most = how.truncation.and_then(|it| it.most_in_windows());
        // A token has at least a byte.
        let Some(most) = most.filter(|it| *it < text.len()) else { return Ok(()) };
        let mut tokens: usize = 0;
        for piece in pieces(text, most.clamp(SHORTEST_PIECE, LONGEST_PIECE)) {
            let split = encode(&self.bare, piece, Detail::Ids);
            let split = split.map_err(|error| RowError::Tokenizer(error.to_string()))?;
            // Where a text is cut, tokens may be there that the whole text has not.
            tokens = tokens.saturating_add(split.len().saturating_sub(TOKENS_OF_A_CUT));
            if most < tokens {
                return Err(too_many_windows());
            }
        }
        Ok(())
    }

    /// The tokens that these ids are. Special ones are added where none is there.
    ///
    /// # Errors
    /// When an id is beyond the vocabulary, or there are too many.
    pub fn encode_ids(&self, ids: &[u32], how: &Encode) -> Result<Encoding, RowError> {
        self.check_ids(ids)?;
        let has_special = ids.iter().any(|&it| self.is_special(it));
        let add_special_tokens = how.add_special_tokens && !has_special;
        // A token takes many times the memory of its id: of those that are cut off none is made.
        let most = how.truncation.map_or(ids.len(), |it| it.max_length.min(ids.len()));
        let lost = ids.len() - most;
        let kept = match how.truncation.map(|it| it.side) {
            Some(Side::Left) => &ids[lost..],
            Some(Side::Right) | None => &ids[..most],
        };
        let tokens: Vec<Token> =
            kept.iter().map(|&id| Token::new(id, String::new(), (0, 0))).collect();
        let how = Encode { add_special_tokens, ..*how };
        self.finish(Beginning { tokens: Tokens::from_tokens(tokens, 0), lost }, None, &how)
    }

    fn finish(
        &self,
        Beginning { tokens: mut first, lost }: Beginning,
        mut second: Option<Tokens>,
        how: &Encode,
    ) -> Result<Encoding, RowError> {
        let failed = |error: tokenizers::Error| RowError::Tokenizer(error.to_string());
        let special = if how.add_special_tokens { self.special(second.is_some()) } else { 0 };
        if let Some(second) = &mut second {
            // Before it is cut, so that further windows have it, too.
            second.set_type_ids(vec![1; second.len()]);
        }
        let lengths = (first.len() + lost, second.as_ref().map(Tokens::len));
        let given = lengths.0 + lengths.1.unwrap_or(0) + special;
        let mut wants_windows = false;
        if let Some(truncation) = &how.truncation {
            let kept = truncation.keep(lengths, special)?;
            wants_windows = truncation.stride.is_some();
            cut(&mut first, kept.0, truncation);
            if let Some((second, kept)) = second.as_mut().zip(kept.1) {
                cut(second, kept, truncation);
            }
        }
        let mut whole = match &self.post {
            Some(post) => post.process(first, second, how.add_special_tokens).map_err(failed)?,
            None => joined(first, second),
        };
        let others = whole.take_overflowing();
        let mut windows = vec![encoded(&whole, how.detail)];
        if wants_windows {
            windows.extend(others.iter().map(|it| encoded(it, how.detail)));
        }
        Ok(Encoding { windows, given })
    }

    /// Special tokens that are added to a text, or to a pair.
    pub fn special(&self, is_pair: bool) -> usize {
        self.post.as_ref().map_or(0, |it| it.added_tokens(is_pair))
    }

    /// Ids to text.
    ///
    /// # Errors
    /// When the crate fails.
    pub fn decode(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String, RowError> {
        let text = self.bare.decode(ids, skip_special_tokens);
        text.map_err(|error| RowError::Tokenizer(error.to_string()))
    }

    /// The same where ids may be those of another tokenizer.
    ///
    /// # Errors
    /// Also when an id is beyond the vocabulary.
    pub fn decode_known(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String, RowError> {
        self.check_ids(ids)?;
        self.decode(ids, skip_special_tokens)
    }

    fn check_ids(&self, ids: &[u32]) -> Result<(), RowError> {
        match ids.iter().find(|it| self.bare.id_to_token(**it).is_none()) {
            Some(&id) => Err(RowError::UnknownId { id, size: self.vocabulary }),
            None => Ok(()),
        }
    }

    /// Tokens to text.
    ///
    /// # Errors
    /// When the crate fails.
    pub fn join(&self, tokens: Vec<String>) -> Result<String, RowError> {
        match self.bare.get_decoder() {
            Some(decoder) => {
                let text = decoder.decode(tokens);
                text.map_err(|error| RowError::Tokenizer(error.to_string()))
            }
            None => Ok(tokens.join(" ")),
        }
    }

    /// The id of a token.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.bare.token_to_id(token)
    }

    /// The token of an id.
    pub fn token(&self, id: u32) -> Option<String> {
        self.bare.id_to_token(id)
    }

    /// Is the token of this id a special one?
    pub fn is_special(&self, id: u32) -> bool {
        let special = self.bare.get_added_vocabulary().get_added_tokens_decoder().get(&id);
        special.is_some_and(|it: &AddedToken| it.special)
    }

    /// Ids from zero on: each id is below.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// What stands in front of a piece that continues a word, where the model writes it so.
    pub fn continuing_prefix(&self) -> Option<&str> {
        let prefix = match self.bare.get_model().kind() {
            ModelWrapper::WordPiece(model) => Some(&*model.continuing_subword_prefix),
            ModelWrapper::BPE(model) => model.continuing_subword_prefix.as_deref(),
            ModelWrapper::WordLevel(_) | ModelWrapper::Unigram(_) => None,
        };
        prefix.filter(|it| !it.is_empty())
    }

    /// The kind of its model, for logs.
    pub fn kind(&self) -> &'static str {
        match self.bare.get_model().kind() {
            ModelWrapper::BPE(_) => "BPE",
            ModelWrapper::WordPiece(_) => "WordPiece",
            ModelWrapper::WordLevel(_) => "WordLevel",
            ModelWrapper::Unigram(_) => "Unigram",
        }
    }
}

/// What a panic said.
fn sentence(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

fn cut(tokens: &mut Tokens, kept: usize, how: &Truncation) {
    let side = match how.side {
        Side::Left => TruncationDirection::Left,
        Side::Right => TruncationDirection::Right,
    };
    tokens.truncate(kept, how.stride.unwrap_or(0), side);
    if how.stride.is_none() {
        tokens.take_overflowing();
    }
}

/// What the crate does for a tokenizer without a post-processor.
fn joined(mut first: Tokens, second: Option<Tokens>) -> Tokens {
    if let Some(mut second) = second {
        first.set_sequence_id(0);
        second.set_sequence_id(1);
        first.merge_with(second, false);
    }
    first
}

fn encoded(tokens: &Tokens, detail: Detail) -> Encoded {
    let has_details = detail != Detail::Ids;
    let wanted = |yes: bool| if yes { tokens.len() } else { 0 };
    Encoded {
        ids: tokens.get_ids().to_vec(),
        type_ids: tokens.get_type_ids().to_vec(),
        is_special: tokens.get_special_tokens_mask().iter().map(|&it| it != 0).collect(),
        offsets: tokens.get_offsets()[..wanted(has_details)].to_vec(),
        words: tokens.get_word_ids()[..wanted(has_details)].to_vec(),
        sequences: if has_details { tokens.get_sequence_ids() } else { Vec::new() },
    }
}

#[cfg(test)]
mod tests;
