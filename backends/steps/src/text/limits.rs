//! How much text reaches the tokenizer.

use crate::{error::RowError, side::Side};

/// Bounds of one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLimits {
    /// Most bytes.
    pub bytes: usize,
    /// Tokens of the longest input, from which the most characters follow.
    pub tokens: usize,
}

/// Characters that a token is taken to have at most, on average.
const CHARACTERS_PER_TOKEN: usize = 250;

impl TextLimits {
    /// Bytes of one text where nothing else is said.
    pub const DEFAULT_BYTES: usize = 1 << 20;

    /// The part of `text` that reaches the tokenizer. With `cut` a text with too many characters loses them at
    /// that side, at a character's boundary.
    ///
    /// # Errors
    /// When it has too many bytes, or too many characters and is not to be cut. Both before anything is allocated.
    pub fn apply<'a>(&self, text: &'a str, cut: Option<Side>) -> Result<&'a str, RowError> {
        if text.len() > self.bytes {
            return Err(RowError::TooManyBytes { given: text.len(), allowed: self.bytes });
        }
        let allowed = self.tokens.saturating_mul(CHARACTERS_PER_TOKEN);
        if text.len() <= allowed {
            return Ok(text);
        }
        match cut {
            Some(Side::Right) => match text.char_indices().nth(allowed) {
                Some((end, _)) => Ok(&text[..end]),
                None => Ok(text),
            },
            Some(Side::Left) => match text.char_indices().nth_back(allowed.saturating_sub(1)) {
                Some((start, _)) => Ok(&text[start..]),
                None => Ok(text),
            },
            None => {
                let given = text.chars().count();
                match given > allowed {
                    true => {
                        Err(RowError::TooManyCharacters { given, allowed, tokens: self.tokens })
                    }
                    false => Ok(text),
                }
            }
        }
    }

    /// The text where it has few enough bytes. For windows, which take any number of tokens.
    ///
    /// # Errors
    /// When it has too many bytes.
    pub fn whole<'a>(&self, text: &'a str) -> Result<&'a str, RowError> {
        match text.len() > self.bytes {
            true => Err(RowError::TooManyBytes { given: text.len(), allowed: self.bytes }),
            false => Ok(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: TextLimits = TextLimits { bytes: 2000, tokens: 2 };

    #[test]
    fn a_long_text_is_cut_between_characters_at_the_right_side() {
        let text = format!("a{}b", "é".repeat(510));
        let right = LIMITS.apply(&text, Some(Side::Right)).unwrap();
        assert_eq!((right.chars().count(), right.starts_with('a')), (500, true));
        let left = LIMITS.apply(&text, Some(Side::Left)).unwrap();
        assert_eq!((left.chars().count(), left.ends_with('b')), (500, true));
    }

    #[test]
    fn characters_are_counted_and_not_bytes() {
        let text = "é".repeat(500);
        for cut in [None, Some(Side::Left), Some(Side::Right)] {
            assert_eq!(LIMITS.apply(&text, cut), Ok(&*text));
        }
        let error = LIMITS.apply(&"é".repeat(501), None).unwrap_err();
        let expect = RowError::TooManyCharacters { given: 501, allowed: 500, tokens: 2 };
        assert_eq!(error, expect);
    }

    #[test]
    fn bytes_are_bounded_whatever_is_cut() {
        let text = "a".repeat(2001);
        let expect = Err(RowError::TooManyBytes { given: 2001, allowed: 2000 });
        assert_eq!(LIMITS.apply(&text, Some(Side::Right)), expect);
        assert_eq!(LIMITS.whole(&text), expect);
    }
}
