//! What texts go through before they are split, as the crate does it, but that an expression which gives up is an
//! error.

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;
use tokenizers::{
    NormalizedString, NormalizerWrapper,
    normalizers::{Lowercase, Replace},
};

use super::expression::{Expression, may_give_up};

/// A normalizer.
#[derive(Debug, Clone)]
pub(super) enum Normalizer {
    /// What an expression finds becomes a text.
    Replace { expression: Expression, content: String },
    /// One after the other.
    Chain(Vec<Normalizer>),
    /// Without an expression that could give up.
    Plain(NormalizerWrapper),
}

impl Normalizer {
    fn new(wrapper: NormalizerWrapper) -> Result<Normalizer, tokenizers::Error> {
        Ok(match wrapper {
            NormalizerWrapper::Sequence(chain) => {
                let parts = chain.into_iter().map(Normalizer::new);
                Normalizer::Chain(parts.collect::<Result<_, _>>()?)
            }
            NormalizerWrapper::Replace(replace) => match expression(&replace)? {
                Some(expression) => Normalizer::Replace { expression, content: replace.content },
                None => Normalizer::Plain(NormalizerWrapper::Replace(replace)),
            },
            other => Normalizer::Plain(other),
        })
    }

    /// Texts in lower case, before what was done with them otherwise.
    pub(super) fn lower_case(rest: Option<Normalizer>) -> Normalizer {
        let first = Normalizer::Plain(NormalizerWrapper::Lowercase(Lowercase));
        Normalizer::Chain([Some(first), rest].into_iter().flatten().collect())
    }

    /// Has it an expression that may give up? The crate passes over the errors of normalizers.
    pub(super) fn may_give_up(&self) -> bool {
        match self {
            Normalizer::Replace { .. } => true,
            Normalizer::Chain(parts) => parts.iter().any(Normalizer::may_give_up),
            Normalizer::Plain(_) => false,
        }
    }

    /// Does it make texts lower-case?
    pub(super) fn lowers(&self) -> bool {
        match self {
            Normalizer::Plain(NormalizerWrapper::Lowercase(_)) => true,
            Normalizer::Plain(NormalizerWrapper::BertNormalizer(bert)) => bert.lowercase,
            Normalizer::Chain(parts) => parts.iter().any(Normalizer::lowers),
            Normalizer::Plain(_) | Normalizer::Replace { .. } => false,
        }
    }
}

/// The expression of a replacement, where it may give up. The crate keeps it to itself but in JSON.
fn expression(replace: &Replace) -> Result<Option<Expression>, tokenizers::Error> {
    let json = serde_json::to_value(replace)?;
    let text = json.pointer("/pattern/Regex").and_then(Value::as_str);
    text.filter(|it| may_give_up(it)).map(Expression::new).transpose()
}

impl<'de> Deserialize<'de> for Normalizer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Normalizer, D::Error> {
        let wrapper = NormalizerWrapper::deserialize(deserializer)?;
        Normalizer::new(wrapper).map_err(D::Error::custom)
    }
}

impl tokenizers::Normalizer for Normalizer {
    fn normalize(&self, text: &mut NormalizedString) -> tokenizers::Result<()> {
        match self {
            Normalizer::Replace { expression, content } => text.replace(expression, content),
            Normalizer::Chain(parts) => parts.iter().try_for_each(|it| it.normalize(text)),
            Normalizer::Plain(wrapper) => wrapper.normalize(text),
        }
    }
}
