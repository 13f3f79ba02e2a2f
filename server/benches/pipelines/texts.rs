//! Texts of given lengths: each word is one token of the tokenizer of the models that are measured.

use std::fmt;

use serde_json::Value;

use crate::support::Outcome;

/// Tokens in front of a text and behind it.
const SPECIAL: usize = 2;

/// Longest text, in tokens.
pub const LONGEST: usize = 512;

/// A mix of lengths. Those of queries and passages are log-normal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// A sentence of nine tokens, always.
    Sentence,
    /// Of nine tokens in the median.
    Queries,
    /// Of eighty.
    Passages,
    /// Half of each.
    Mixed,
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mix::Sentence => "sentence",
            Mix::Queries => "queries",
            Mix::Passages => "passages",
            Mix::Mixed => "mixed",
        })
    }
}

impl Mix {
    /// So many lengths in tokens, special ones included; the same in every run.
    pub fn lengths(self, count: usize) -> Vec<usize> {
        let mut random = Random(7);
        let log_normal = |median: f64, sigma: f64, random: &mut Random| {
            let length = median * (sigma * random.normal()).exp();
            (length.round() as usize).clamp(SPECIAL + 1, LONGEST)
        };
        let length = |number: usize| match self {
            Mix::Sentence => 9,
            Mix::Queries => log_normal(9.0, 0.5, &mut random),
            Mix::Passages => log_normal(80.0, 0.7, &mut random),
            Mix::Mixed if number.is_multiple_of(2) => log_normal(9.0, 0.5, &mut random),
            Mix::Mixed => log_normal(80.0, 0.7, &mut random),
        };
        let mut lengths: Vec<usize> = (0..count).map(length).collect();
        random.shuffle(&mut lengths);
        lengths
    }
}

/// Makes texts.
pub struct Writer {
    words: Vec<String>,
    random: Random,
}

impl Writer {
    /// With the words that are one token each to this `tokenizer.json`.
    ///
    /// # Errors
    /// When it has none.
    pub fn new(tokenizer: &Value) -> Outcome<Writer> {
        let vocabulary = tokenizer["model"]["vocab"].as_object().ok_or("no vocabulary")?;
        let is_word = |it: &&String| it.len() > 2 && it.bytes().all(|it| it.is_ascii_lowercase());
        let words: Vec<String> = vocabulary.keys().filter(is_word).cloned().collect();
        match words.is_empty() {
            true => Err("the vocabulary has no whole words".into()),
            false => Ok(Writer { words, random: Random(11) }),
        }
    }

    /// A text of so many tokens, special ones included.
    pub fn text(&mut self, tokens: usize) -> String {
        let count = tokens.saturating_sub(SPECIAL);
        let word = |_| self.words[self.random.below(self.words.len())].as_str();
        (0..count).map(word).collect::<Vec<_>>().join(" ")
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// In `(0, 1]`.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// With mean 0 and variance 1, after Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// Puts them into another order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}
