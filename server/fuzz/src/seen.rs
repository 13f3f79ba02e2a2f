//! What came of an input, as a number: inputs of which something new came are worth mutating further.

use std::{
    fmt::Display,
    hash::{DefaultHasher, Hash, Hasher},
};

/// Letters of an error text that count.
const LETTERS: usize = 160;

/// What came of an input. Equal for inputs that fail with one text, whatever numbers and names are in it.
#[derive(Default)]
pub struct Seen(DefaultHasher);

impl Seen {
    /// Adds a fact.
    pub fn fact(&mut self, fact: impl Hash) {
        fact.hash(&mut self.0);
    }

    /// Adds whether it succeeded, and the sort of its error. Returns the value.
    pub fn result<T, E: Display>(&mut self, result: Result<T, E>) -> Option<T> {
        match result {
            Ok(value) => {
                self.fact(true);
                Some(value)
            }
            Err(error) => {
                self.error(&error.to_string());
                None
            }
        }
    }

    /// Adds the words of an error that are not quoted from the input.
    fn error(&mut self, text: &str) {
        let mut is_quoted = false;
        let words = text.chars().filter(|letter| {
            is_quoted ^= *letter == '\'';
            !is_quoted && letter.is_alphabetic()
        });
        words.take(LETTERS).for_each(|letter| letter.hash(&mut self.0));
    }

    /// The number.
    pub fn number(&self) -> u64 {
        self.0.finish()
    }
}
