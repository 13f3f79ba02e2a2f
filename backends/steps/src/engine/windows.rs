//! The tokens of rows as steps behind a graph get them.

use backend::BackendError;

use super::call::{Numbers, invalid};

/// All of these inputs are of so many rows and tokens.
///
/// # Errors
/// When one is not.
pub(super) fn same_tokens(
    inputs: &[(&str, &Numbers<'_, i64>)],
    rows: usize,
    tokens: usize,
) -> Result<(), BackendError> {
    for (name, input) in inputs {
        if input.dims.get(..2) != Some(&[rows, tokens]) {
            let problem = format!(
                "its shape is {:?}, and the graph gives {rows} rows of {tokens} tokens",
                input.dims
            );
            return Err(invalid(name, &problem));
        }
    }
    Ok(())
}

/// Places of the tokens of a row in a text of so many characters. Of tokens that are not `of_text` they mean nothing.
///
/// # Errors
/// When one is negative, or leads past the text.
pub(super) fn offsets(
    values: &[i64],
    (row, characters): (usize, usize),
    of_text: impl Fn(usize) -> bool,
) -> Result<Vec<(usize, usize)>, BackendError> {
    let place = |(token, [from, to]): (usize, &[i64; 2])| {
        if !of_text(token) {
            return Ok((0, 0));
        }
        let pair = usize::try_from(*from).ok().zip(usize::try_from(*to).ok());
        pair.filter(|(from, to)| from <= to && *to <= characters).ok_or_else(|| {
            let problem = format!(
                "row {row}: token {token} is at {from}..{to}, and the text has {characters} characters"
            );
            invalid("offsets", &problem)
        })
    };
    values.as_chunks::<2>().0.iter().enumerate().map(place).collect()
}
