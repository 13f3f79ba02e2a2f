//! Texts to tokens, for those who ask the tokenizer and not the model.

use crate::{
    error::RowError,
    parts::Parts,
    text::{Detail, Encode},
    tokens::{TextToken, Tokenizing},
};

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
