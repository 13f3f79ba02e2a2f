//! The vector of a text, from those of its tokens or from the graph's own.

use super::{
    classify::check_numbers,
    dense::dense,
    pool::{TokenVectors, normalize, pool},
};
use crate::{
    error::RowError,
    folder::{Link, Pooling},
    outputs::RowOutput,
};

/// How the vector of one row is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PoolWork {
    /// Tokens at the beginning that do not count.
    pub(crate) skipped: usize,
    /// Is the vector brought to length one? `None`: where the folder ends with that.
    pub(crate) normalize: Option<bool>,
    /// Keep the first dimensions only.
    pub(crate) dimensions: Option<usize>,
}

/// The vector of a row out of its token vectors.
///
/// # Errors
/// When the output has not the shape that the folder's modules take, or a value is no number.
pub(crate) fn from_tokens(
    output: &RowOutput<'_>,
    pooling: &Pooling,
    chain: &[Link],
    work: PoolWork,
) -> Result<Vec<f32>, RowError> {
    let tokens = token_vectors(output)?;
    let mut vector = pool(tokens, &pooling.modes, work.skipped);
    let (inner, ends_normalized) = match chain.split_last() {
        Some((Link::Normalize, inner)) => (inner, true),
        _ => (chain, false),
    };
    for link in inner {
        match link {
            Link::Normalize => normalize(&mut vector),
            Link::Truncate(most) => vector.truncate(*most),
            Link::Dense(layer) => {
                let given = vector.len();
                vector = dense(layer, &vector).ok_or_else(|| {
                    let problem = format!("Dense takes {} values, given {given}", layer.inputs);
                    RowError::Output { output: output.name.to_owned(), problem }
                })?;
            }
        }
    }
    finish(vector, ends_normalized, work, output.name)
}

/// The vector of a row where the graph gives it.
///
/// # Errors
/// When a value is no number, or fewer dimensions are there than asked for.
pub(crate) fn from_vector(
    output: &RowOutput<'_>,
    chain: &[Link],
    work: PoolWork,
) -> Result<Vec<f32>, RowError> {
    let mut vector = output.values.to_vec();
    vector.truncate(truncated(chain).unwrap_or(usize::MAX));
    // The graph has normalized it already, unless something was cut off.
    let was_normalized = matches!(chain.last(), Some(Link::Normalize));
    let is_cut = work.dimensions.is_some_and(|it| it < vector.len());
    let normalize = work.normalize.filter(|_| is_cut || !was_normalized);
    finish(vector, was_normalized && is_cut, PoolWork { normalize, ..work }, output.name)
}

/// Dimensions that are kept of a vector that has gone through the folder's modules; `None`: all.
pub(crate) fn truncated(chain: &[Link]) -> Option<usize> {
    chain.iter().find_map(|it| match it {
        Link::Truncate(most) => Some(*most),
        Link::Dense(_) | Link::Normalize => None,
    })
}

/// The vectors of the tokens of a row.
///
/// # Errors
/// When the output has other dimensions.
pub(crate) fn token_vectors<'a>(output: &'a RowOutput<'_>) -> Result<TokenVectors<'a>, RowError> {
    match *output.dims {
        [_, width] if width > 0 => Ok(TokenVectors { values: &output.values, width }),
        _ => {
            let problem = format!("a row has the shape {:?}, not [tokens, width]", output.dims);
            Err(RowError::Output { output: output.name.to_owned(), problem })
        }
    }
}

fn finish(
    mut vector: Vec<f32>,
    normalizes: bool,
    work: PoolWork,
    output: &str,
) -> Result<Vec<f32>, RowError> {
    if let Some(dimensions) = work.dimensions {
        check_dimensions(dimensions, vector.len())?;
        vector.truncate(dimensions);
    }
    if work.normalize.unwrap_or(normalizes) {
        normalize(&mut vector);
    }
    check_numbers(&vector, output)?;
    Ok(vector)
}

/// Fails unless a vector of that width has so many dimensions.
pub(crate) fn check_dimensions(dimensions: usize, width: usize) -> Result<(), RowError> {
    match (1..=width).contains(&dimensions) {
        true => Ok(()),
        false => Err(RowError::Parameter {
            name: "dimensions".to_owned(),
            problem: format!("it is {dimensions}, the model's vectors have {width}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(dims: &[usize], values: &'static [f32]) -> RowOutput<'static> {
        RowOutput { name: "x", dims: dims.to_vec(), values: values.into() }
    }

    #[track_caller]
    fn check(chain: &[Link], work: PoolWork, expect: &[f32]) {
        let output = output(&[2, 2], &[2.0, 5.0, 4.0, 3.0]);
        assert_eq!(from_tokens(&output, &Pooling::mean(), chain, work).unwrap(), expect);
    }

    #[test]
    fn dimensions_are_cut_before_the_last_normalization() {
        let work = PoolWork::default();
        check(&[], work, &[3.0, 4.0]);
        check(&[Link::Normalize], work, &[0.6, 0.8]);
        check(&[Link::Normalize], PoolWork { dimensions: Some(1), ..work }, &[1.0]);
        check(&[], PoolWork { normalize: Some(true), ..work }, &[0.6, 0.8]);
        check(&[Link::Normalize], PoolWork { normalize: Some(false), ..work }, &[3.0, 4.0]);
        check(&[Link::Normalize, Link::Truncate(1)], work, &[0.6]);
        check(&[Link::Truncate(3)], work, &[3.0, 4.0]);
    }

    #[test]
    fn a_vector_of_the_graph_is_taken_as_it_is_unless_it_is_cut() {
        let output = output(&[2], &[0.6, 0.8]);
        let run = |work| from_vector(&output, &[Link::Normalize], work);
        assert_eq!(run(PoolWork::default()).unwrap(), [0.6, 0.8]);
        let cut = [Link::Normalize, Link::Truncate(1)];
        assert_eq!(from_vector(&output, &cut, PoolWork::default()).unwrap(), [0.6]);
        let work = PoolWork { dimensions: Some(1), ..PoolWork::default() };
        assert_eq!(run(work).unwrap(), [1.0]);
        let work = PoolWork { dimensions: Some(3), ..PoolWork::default() };
        let text = "parameter 'dimensions': it is 3, the model's vectors have 2";
        assert_eq!(run(work).unwrap_err().to_string(), text);
    }

    #[test]
    fn what_is_no_number_or_no_list_of_vectors_is_an_error() {
        let work = PoolWork::default();
        let nan = output(&[1, 1], &[f32::NAN]);
        assert!(from_tokens(&nan, &Pooling::mean(), &[], work).is_err());
        let flat = output(&[2], &[1.0, 2.0]);
        let error = from_tokens(&flat, &Pooling::mean(), &[], work).unwrap_err().to_string();
        assert_eq!(error, "the model's output 'x': a row has the shape [2], not [tokens, width]");
    }
}
