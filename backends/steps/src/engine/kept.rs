//! Which tokens of a row are no padding.

use std::borrow::Cow;

use backend::BackendError;

use super::call::{Call, invalid};

/// The input that says it.
pub(super) const MASK: &str = "attention_mask";

/// The tokens of each row that are no padding.
pub(super) enum Kept {
    /// All of so many. Nothing is held for them.
    All(usize),
    /// Those in these places.
    Places(Vec<Vec<usize>>),
}

impl Kept {
    /// As the attention mask says; all tokens of the input of that name, where there is none.
    ///
    /// # Errors
    /// When its rows have no tokens, or the mask is not of `rows` and `tokens`.
    pub(super) fn of(
        call: &Call<'_>,
        name: &str,
        [rows, tokens]: [usize; 2],
    ) -> Result<Kept, BackendError> {
        if rows > 0 && tokens == 0 {
            return Err(invalid(name, &format!("its {rows} rows have no tokens")));
        }
        let Some(mask) = call.optional_integers(MASK)? else { return Ok(Kept::All(tokens)) };
        if mask.dims != [rows, tokens] {
            let problem = format!("its shape is {:?}, expected {:?}", mask.dims, [rows, tokens]);
            return Err(invalid(MASK, &problem));
        }
        let kept = |row: usize| {
            let mask = mask.row(row).iter().enumerate();
            mask.filter(|(_, it)| **it != 0).map(|(at, _)| at).collect()
        };
        Ok(Kept::Places((0..rows).map(kept).collect()))
    }

    /// Tokens of a row.
    pub(super) fn count(&self, row: usize) -> usize {
        match self {
            Kept::All(tokens) => *tokens,
            Kept::Places(rows) => rows.get(row).map_or(0, Vec::len),
        }
    }

    /// The values of the tokens of a row, `width` for each. Borrowed where the tokens stand together.
    pub(super) fn select<'v, T: Clone>(
        &self,
        row: usize,
        values: &'v [T],
        width: usize,
    ) -> Cow<'v, [T]> {
        let of_tokens = |from: usize, to: usize| {
            values.get(from.saturating_mul(width)..to.saturating_mul(width)).unwrap_or_default()
        };
        let places = match self {
            Kept::All(tokens) => return Cow::Borrowed(of_tokens(0, *tokens)),
            Kept::Places(rows) => rows.get(row).map(Vec::as_slice).unwrap_or_default(),
        };
        let (Some(&first), Some(&last)) = (places.first(), places.last()) else {
            return Cow::Borrowed(&[]);
        };
        match last + 1 - first == places.len() {
            true => Cow::Borrowed(of_tokens(first, last + 1)),
            false => {
                Cow::Owned(places.iter().flat_map(|it| of_tokens(*it, it + 1)).cloned().collect())
            }
        }
    }
}
