//! Texts to the pieces that the model of a tokenizer makes tokens of, as the crate does it, but that an expression
//! which gives up is an error.

use serde::{Deserialize, Deserializer, de::Error as _};
use tokenizers::{
    PreTokenizedString, PreTokenizer, PreTokenizerWrapper, SplitDelimiterBehavior,
    pattern::Invert,
    pre_tokenizers::{
        byte_level::ByteLevel,
        split::{Split, SplitPattern},
    },
};

use super::expression::Expression;

/// The expression of GPT-2, which byte-level tokenizers have where they say no other.
const WORDS: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// What splits a text.
#[derive(Debug)]
pub(super) enum Splitter {
    /// At what an expression finds.
    At { expression: Expression, behavior: SplitDelimiterBehavior, invert: bool },
    /// At what an expression finds, with a blank in front of the text if that is wanted. Then bytes become characters.
    Bytes { expression: Expression, add_prefix_space: bool, bytes: ByteLevel },
    /// One after the other.
    Chain(Vec<Splitter>),
    /// Without an expression that could give up.
    Plain(PreTokenizerWrapper),
}

impl Splitter {
    fn new(wrapper: PreTokenizerWrapper) -> Result<Splitter, tokenizers::Error> {
        Ok(match wrapper {
            PreTokenizerWrapper::Sequence(chain) => {
                let parts = chain.into_iter().map(Splitter::new);
                Splitter::Chain(parts.collect::<Result<_, _>>()?)
            }
            PreTokenizerWrapper::Split(Split {
                pattern: SplitPattern::Regex(text),
                behavior,
                invert,
                ..
            }) => Splitter::At { expression: Expression::new(&text)?, behavior, invert },
            PreTokenizerWrapper::ByteLevel(level) if level.use_regex => Splitter::Bytes {
                expression: Expression::new(WORDS)?,
                add_prefix_space: level.add_prefix_space,
                bytes: ByteLevel::new(false, level.trim_offsets, false),
            },
            other => Splitter::Plain(other),
        })
    }
}

impl<'de> Deserialize<'de> for Splitter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Splitter, D::Error> {
        let wrapper = PreTokenizerWrapper::deserialize(deserializer)?;
        Splitter::new(wrapper).map_err(D::Error::custom)
    }
}

impl PreTokenizer for Splitter {
    fn pre_tokenize(&self, text: &mut PreTokenizedString) -> tokenizers::Result<()> {
        match self {
            Splitter::At { expression, behavior, invert: false } => {
                text.split(|_, piece| piece.split(expression, *behavior))
            }
            Splitter::At { expression, behavior, invert: true } => {
                text.split(|_, piece| piece.split(Invert(expression), *behavior))
            }
            Splitter::Bytes { expression, add_prefix_space, bytes } => {
                text.split(|_, mut piece| {
                    if *add_prefix_space && !piece.get().starts_with(' ') {
                        piece.prepend(" ");
                    }
                    piece.split(expression, SplitDelimiterBehavior::Isolated)
                })?;
                bytes.pre_tokenize(text)
            }
            Splitter::Chain(parts) => parts.iter().try_for_each(|it| it.pre_tokenize(text)),
            Splitter::Plain(wrapper) => wrapper.pre_tokenize(text),
        }
    }
}
