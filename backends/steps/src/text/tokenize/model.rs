//! Words to tokens by a model of the crate `tokenizers`, and the words that a byte-pair model has seen.
//!
//! The crate remembers words in each thread by the number of their model, for as long as the thread lives: a model
//! that is dropped leaves its words behind. Here they go with their model, and there are at most [`SLOTS`] of them.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    path::{Path, PathBuf},
    sync::Mutex,
};

use serde::{Deserialize, Deserializer};
use tokenizers::{Model, Token, models::ModelWrapper};

/// A probability that no random number is below. With it a byte-pair model merges as without one, and asks no memory
/// of the thread.
const NEVER: f32 = -1.0;

/// Words that are remembered. A word takes the slot of another one.
const SLOTS: usize = 1 << 13;

/// Bytes of a word that is remembered. A longer one is hardly seen again.
const LONGEST: usize = 64;

/// What makes tokens of words.
#[derive(Debug)]
pub(super) struct WordModel {
    model: ModelWrapper,
    /// Of a byte-pair model that does not draw at random.
    seen: Option<Seen>,
    /// A word of the vocabulary is one token, whether merges lead to it or not. The crate does not look at that where
    /// it has a probability.
    ignores_merges: bool,
}

impl WordModel {
    fn new(mut model: ModelWrapper) -> WordModel {
        let (seen, ignores_merges) = match &mut model {
            ModelWrapper::BPE(pairs) if pairs.dropout.is_none_or(|it| it == 0.0) => {
                pairs.dropout = Some(NEVER);
                (Some(Seen::new()), pairs.ignore_merges)
            }
            _ => (None, false),
        };
        WordModel { model, seen, ignores_merges }
    }

    /// The model of the crate.
    pub(super) fn kind(&self) -> &ModelWrapper {
        &self.model
    }

    /// The token of the crate from what is remembered of it.
    fn token(&self, &Part { id, begin, end }: &Part) -> Option<Token> {
        Some(Token::new(id, self.model.id_to_token(id)?, (begin.into(), end.into())))
    }
}

impl<'de> Deserialize<'de> for WordModel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WordModel, D::Error> {
        ModelWrapper::deserialize(deserializer).map(WordModel::new)
    }
}

impl Model for WordModel {
    type Trainer = <ModelWrapper as Model>::Trainer;

    fn tokenize(&self, word: &str) -> tokenizers::Result<Vec<Token>> {
        if self.ignores_merges
            && !word.is_empty()
            && let Some(id) = self.model.token_to_id(word)
        {
            return Ok(vec![Token::new(id, word.to_owned(), (0, word.len()))]);
        }
        let Some(seen) = self.seen.as_ref().filter(|_| word.len() <= LONGEST) else {
            return self.model.tokenize(word);
        };
        let slot = seen.slot(word);
        let known =
            seen.tokens(slot, word, |parts| parts.iter().map(|it| self.token(it)).collect());
        if let Some(tokens) = known {
            return Ok(tokens);
        }
        let tokens = self.model.tokenize(word)?;
        seen.remember(slot, word, &tokens);
        Ok(tokens)
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.model.token_to_id(token)
    }

    fn id_to_token(&self, id: u32) -> Option<String> {
        self.model.id_to_token(id)
    }

    fn get_vocab(&self) -> HashMap<String, u32> {
        self.model.get_vocab()
    }

    fn get_vocab_size(&self) -> usize {
        self.model.get_vocab_size()
    }

    fn save(&self, folder: &Path, prefix: Option<&str>) -> tokenizers::Result<Vec<PathBuf>> {
        self.model.save(folder, prefix)
    }

    fn get_trainer(&self) -> Self::Trainer {
        self.model.get_trainer()
    }
}

/// The last words and their tokens, of all threads. A thread that finds a slot locked does without it.
#[derive(Debug)]
struct Seen {
    hasher: RandomState,
    slots: Box<[Mutex<Option<Box<Word>>>]>,
}

#[derive(Debug)]
struct Word {
    text: Box<str>,
    parts: Box<[Part]>,
}

/// A token: its id, and the bytes of the word that it is.
#[derive(Debug)]
struct Part {
    id: u32,
    begin: u8,
    end: u8,
}

impl Seen {
    fn new() -> Seen {
        let slots = (0..SLOTS).map(|_| Mutex::default()).collect();
        Seen { hasher: RandomState::new(), slots }
    }

    fn slot(&self, word: &str) -> &Mutex<Option<Box<Word>>> {
        &self.slots[self.hasher.hash_one(word) as usize % SLOTS]
    }

    fn tokens(
        &self,
        slot: &Mutex<Option<Box<Word>>>,
        word: &str,
        tokens: impl FnOnce(&[Part]) -> Option<Vec<Token>>,
    ) -> Option<Vec<Token>> {
        let known = slot.try_lock().ok()?;
        known.as_ref().filter(|it| &*it.text == word).and_then(|it| tokens(&it.parts))
    }

    fn remember(&self, slot: &Mutex<Option<Box<Word>>>, word: &str, tokens: &[Token]) {
        let part = |it: &Token| {
            let (begin, end) = (it.offsets.0.try_into().ok()?, it.offsets.1.try_into().ok()?);
            Some(Part { id: it.id, begin, end })
        };
        let Some(parts) = tokens.iter().map(part).collect() else { return };
        let word = Box::new(Word { text: word.into(), parts });
        if let Ok(mut known) = slot.try_lock() {
            *known = Some(word);
        }
    }
}

#[cfg(test)]
mod tests;
