//! The only words that a mask may stand for, as tokens.

use std::sync::Arc;

use super::{
    encoded::{Detail, Encode},
    limits::TextLimits,
    tokenize::Tokenizer,
};
use crate::error::RowError;

/// The tokens that are these words, or that these words begin with.
///
/// # Errors
/// When a word is too long, or none is in the vocabulary.
pub(crate) fn target_ids(
    tokenizer: &Tokenizer,
    limits: TextLimits,
    targets: &[String],
) -> Result<Arc<[u32]>, RowError> {
    let how = Encode { add_special_tokens: false, detail: Detail::Ids, truncation: None };
    let mut ids = Vec::with_capacity(targets.len());
    for target in targets {
        let text = limits.whole(target)?;
        let id = match tokenizer.id(text) {
            Some(id) => Some(id),
            None => tokenizer.encode(text, None, &how)?.windows[0].ids.first().copied(),
        };
        ids.extend(id.filter(|it| !ids.contains(it)));
    }
    match ids.is_empty() {
        true => Err(RowError::Parameter {
            name: "targets".to_owned(),
            problem: "no target is a word of the vocabulary".to_owned(),
        }),
        false => Ok(ids.into()),
    }
}
