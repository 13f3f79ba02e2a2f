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

/// Pairs of places in a text.
///
/// # Errors
/// When one is negative.
pub(super) fn offsets(values: &[i64]) -> Result<Vec<(usize, usize)>, BackendError> {
    let place = |it: i64| {
        usize::try_from(it).map_err(|_| invalid("offsets", &format!("{it} is no place in a text")))
    };
    let pairs = values.as_chunks::<2>().0.iter();
    pairs.map(|[from, to]| Ok((place(*from)?, place(*to)?))).collect()
}
