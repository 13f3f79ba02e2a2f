//! Which tokens of a row are no padding.

use std::borrow::Cow;

use backend::BackendError;

use super::call::{Call, invalid};

/// The input that says it.
pub(super) const MASK: &str = "attention_mask";

/// The places of the tokens of each row that are no padding.
pub(super) struct Kept(Vec<Vec<usize>>);

impl Kept {
    /// As the attention mask says; all of `tokens`, where there is none.
    ///
    /// # Errors
    /// When the mask is not of `rows` and `tokens`.
    pub(super) fn of(call: &Call<'_>, rows: usize, tokens: usize) -> Result<Kept, BackendError> {
        let Some(mask) = call.optional_integers(MASK)? else {
            return Ok(Kept(vec![(0..tokens).collect(); rows]));
        };
        if mask.dims != [rows, tokens] {
            let problem = format!("its shape is {:?}, expected {:?}", mask.dims, [rows, tokens]);
            return Err(invalid(MASK, &problem));
        }
        let kept = |row: usize| {
            let mask = mask.row(row).iter().enumerate();
            mask.filter(|(_, it)| **it != 0).map(|(at, _)| at).collect()
        };
        Ok(Kept((0..rows).map(kept).collect()))
    }

    /// Tokens of a row.
    pub(super) fn count(&self, row: usize) -> usize {
        self.0.get(row).map_or(0, Vec::len)
    }

    /// The values of the tokens of a row, `width` for each. Borrowed where the tokens stand together.
    pub(super) fn select<'v, T: Clone>(
        &self,
        row: usize,
        values: &'v [T],
        width: usize,
    ) -> Cow<'v, [T]> {
        let places = self.0.get(row).map(Vec::as_slice).unwrap_or_default();
        let (Some(&first), Some(&last)) = (places.first(), places.last()) else {
            return Cow::Borrowed(&[]);
        };
        let token = |at: usize| values.get(at * width..(at + 1) * width).unwrap_or_default();
        match last + 1 - first == places.len() {
            true => {
                Cow::Borrowed(values.get(first * width..(last + 1) * width).unwrap_or_default())
            }
            false => Cow::Owned(places.iter().flat_map(|it| token(*it)).cloned().collect()),
        }
    }
}
