//! Texts to tokens and tokens to texts, for those who ask the tokenizer and not the model.

use crate::{
    error::RowError,
    parts::Parts,
    text::{Detail, Encode},
};

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

/// The tokens of a text, which is not cut. Their places are those in the text with its prompt.
///
/// # Errors
/// When the text has too many bytes, no prompt has this name, or the tokenizer fails.
pub(crate) fn tokenize(
    parts: &Parts,
    text: &str,
    how: &Tokenizing<'_>,
) -> Result<Vec<TextToken>, RowError> {
    let text = parts.limits.whole(text)?;
    let prompt = parts.task.prompts.find(how.prompt_name)?.unwrap_or_default();
    let text = format!("{prompt}{text}");
    let how = Encode {
        add_special_tokens: how.add_special_tokens,
        detail: Detail::Bytes,
        truncation: None,
    };
    let mut encoding = parts.tokenizer.encode(&text, None, &how)?;
    let window = encoding.windows.swap_remove(0);
    let tokens = window.ids.iter().zip(&window.is_special).zip(&window.offsets);
    let token = |((&id, is_special), &(from, to)): ((&u32, &bool), &(usize, usize))| {
        let part = text.as_bytes().get(from..to).filter(|_| !is_special);
        match part {
            // A token may be a part of a character.
            Some(part) => {
                let text = String::from_utf8_lossy(part).into_owned();
                TextToken { id, text, place: Some((from, to)) }
            }
            None => {
                let text = parts.tokenizer.token(id).unwrap_or_default();
                TextToken { id, text, place: None }
            }
        }
    };
    Ok(tokens.map(token).collect())
}
