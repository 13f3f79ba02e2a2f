//! Tokens of one text or pair, and how they are asked for.

use super::truncate::Truncation;

/// How a text becomes tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encode {
    /// Are special tokens added?
    pub add_special_tokens: bool,
    /// What else is asked for.
    pub detail: Detail,
    /// How a text that is too long is cut; `None`: it is not.
    pub truncation: Option<Truncation>,
}

/// What is wanted besides ids, type ids and the mask of special tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// Nothing; the quickest.
    #[default]
    Ids,
    /// Offsets in characters, and words.
    Characters,
    /// Offsets in bytes, and words.
    Bytes,
}

/// What came of a text: one window, or several.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoding {
    /// The windows, in the order of the reference. Never empty.
    pub windows: Vec<Encoded>,
    /// Tokens before anything was cut, special ones included.
    pub given: usize,
}

impl Encoding {
    /// Was something cut off, or put into further windows?
    pub fn is_cut(&self) -> bool {
        self.windows.first().is_none_or(|it| it.ids.len() < self.given)
    }
}

/// The tokens of one window. All lists have one entry for each token; those that were not asked for are empty.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Encoded {
    /// Ids.
    pub ids: Vec<u32>,
    /// 0 in the first text, 1 in the second, or what the tokenizer has for special tokens.
    pub type_ids: Vec<u32>,
    /// Is it a special token that was added?
    pub is_special: Vec<bool>,
    /// First and behind-the-last character or byte in its own text.
    pub offsets: Vec<(usize, usize)>,
    /// The number of its word in its own text.
    pub words: Vec<Option<u32>>,
    /// Which text it is of.
    pub sequences: Vec<Option<usize>>,
}
