//! Tokens as those who ask the tokenizer, and not the model, are told them.

/// A token of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextToken {
    /// Its id.
    pub id: u32,
    /// The part of the text that it is; of a token that was added, its name.
    pub text: String,
    /// Where it stands in the text: its first byte and the one behind its last. `None` for a token that was added.
    pub place: Option<(usize, usize)>,
}

/// How a text becomes tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokenizing<'a> {
    /// Are special tokens added?
    pub add_special_tokens: bool,
    /// The name of the prompt in front of the text; `None`: the usual one, an empty name: none.
    pub prompt_name: Option<&'a str>,
}
