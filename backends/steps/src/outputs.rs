//! Outputs of a run, and the part of them that is of one row.

use std::{borrow::Cow, ops::Range, sync::Arc};

use backend::{DataType, NamedTensor, Tensor};
use half::{bf16, f16};

use crate::{error::RowError, side::Side};

/// An output of the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphOutput {
    /// Its name in the graph.
    pub name: Arc<str>,
    /// Is its first dimension behind that of the rows the one of tokens, and so padded?
    pub has_tokens: bool,
    /// Are all of its rows those of one row of a request, as vectors of the texts that stand beside one image?
    pub is_whole: bool,
}

/// What is said of an output that was taken for its shape, behind the inputs of a graph.
pub(crate) fn taken_for_its_shape(name: Option<&str>) -> String {
    name.map_or_else(String::new, |it| format!("; its output '{it}' is taken for its shape"))
}

/// One output of one row, without padding.
#[derive(Debug, Clone, PartialEq)]
pub struct RowOutput<'a> {
    /// Its name in the graph.
    pub name: &'a str,
    /// Its dimensions, without that of the rows.
    pub dims: Vec<usize>,
    /// Its values. Borrowed where the graph gives FP32.
    pub values: Cow<'a, [f32]>,
}

/// Where a row lies in the outputs of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowPlace {
    /// Its number among the rows of the run.
    pub row: usize,
    /// Its own length in tokens.
    pub tokens: usize,
    /// On which side of its tokens the padding of the run stands.
    pub padding: Side,
}

/// The outputs of one row out of those of a run, in the order of `wanted`. O(1) for FP32; other types are
/// converted.
///
/// # Errors
/// When an output is missing, is no floating-point tensor, or has too few rows or tokens.
pub fn outputs_of_row<'a>(
    wanted: &'a [GraphOutput],
    given: &'a [NamedTensor],
    place: RowPlace,
) -> Result<Vec<RowOutput<'a>>, RowError> {
    wanted.iter().map(|output| output_of_row(output, given, place)).collect()
}

fn output_of_row<'a>(
    output: &'a GraphOutput,
    given: &'a [NamedTensor],
    place: RowPlace,
) -> Result<RowOutput<'a>, RowError> {
    let error =
        |problem: String| RowError::Output { output: output.name.as_ref().to_owned(), problem };
    let found = given.iter().find(|it| it.name == output.name);
    let tensor = &found.ok_or_else(|| error("the run did not give it".to_owned()))?.tensor;
    let shape = tensor.shape();
    let mut dims = shape.inner().to_vec();
    let per_row: usize = dims.iter().product();
    if shape.rows().is_none_or(|rows| place.row >= rows) {
        return Err(error(format!("its shape {shape} has no row {}", place.row)));
    }
    if output.is_whole {
        let rows = shape.rows().unwrap_or(0);
        let dims = std::iter::once(rows).chain(dims).collect();
        let values = values_of(tensor, 0..rows * per_row).map_err(|it| error(it.to_string()))?;
        return Ok(RowOutput { name: &output.name, dims, values });
    }
    let (mut skip, mut take) = (0, per_row);
    if output.has_tokens {
        let padded = dims.first().copied().unwrap_or(0);
        if padded < place.tokens {
            return Err(error(format!("its shape {shape} has no {} tokens", place.tokens)));
        }
        let width: usize = dims[1..].iter().product();
        dims[0] = place.tokens;
        take = place.tokens * width;
        skip = match place.padding {
            Side::Right => 0,
            Side::Left => (padded - place.tokens) * width,
        };
    }
    let from = place.row * per_row + skip;
    let values = values_of(tensor, from..from + take).map_err(|it| error(it.to_string()))?;
    Ok(RowOutput { name: &output.name, dims, values })
}

/// Why a tensor has no values for a task.
#[derive(Debug, thiserror::Error)]
enum Unreadable {
    #[error("it is scattered in memory")]
    Scattered,
    #[error("it is {0}, and no floating-point number")]
    Type(DataType),
}

/// These values of a tensor as FP32; otherwise why there are none.
fn values_of(tensor: &Tensor, range: Range<usize>) -> Result<Cow<'_, [f32]>, Unreadable> {
    let bytes = tensor.contiguous().ok_or(Unreadable::Scattered)?;
    Ok(match tensor.dtype() {
        DataType::Fp32 => match tensor.as_slice_of::<f32>() {
            Some(values) => Cow::Borrowed(&values[range]),
            None => converted(bytes, range, f32::from_le_bytes),
        },
        DataType::Fp16 => converted(bytes, range, |it| f16::from_le_bytes(it).to_f32()),
        DataType::Bf16 => converted(bytes, range, |it| bf16::from_le_bytes(it).to_f32()),
        DataType::Fp64 => converted(bytes, range, |it| f64::from_le_bytes(it) as f32),
        other => return Err(Unreadable::Type(other)),
    })
}

fn converted<'a, const N: usize>(
    bytes: &[u8],
    range: Range<usize>,
    convert: impl Fn([u8; N]) -> f32,
) -> Cow<'a, [f32]> {
    let (values, _) = bytes.as_chunks::<N>();
    Cow::Owned(values[range].iter().map(|it| convert(*it)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::Shape;

    fn run(shape: &[usize]) -> Vec<NamedTensor> {
        let count: usize = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|it| it as f32).collect();
        let tensor = Tensor::from_vec(Shape::new(shape), values).unwrap();
        vec![NamedTensor { name: "x".into(), tensor }]
    }

    fn place(row: usize, tokens: usize, padding: Side) -> RowPlace {
        RowPlace { row, tokens, padding }
    }

    #[track_caller]
    fn check(has_tokens: bool, shape: &[usize], place: RowPlace, dims: &[usize], values: &[f32]) {
        let wanted = [GraphOutput { name: "x".into(), has_tokens, is_whole: false }];
        let given = run(shape);
        let found = outputs_of_row(&wanted, &given, place).unwrap();
        assert_eq!(found[0].dims, dims);
        assert_eq!(&*found[0].values, values);
    }

    #[test]
    fn padding_is_left_out_on_either_side() {
        check(false, &[2, 3], place(1, 9, Side::Right), &[3], &[3.0, 4.0, 5.0]);
        check(true, &[2, 3, 2], place(1, 2, Side::Right), &[2, 2], &[6.0, 7.0, 8.0, 9.0]);
        check(true, &[2, 3, 2], place(1, 2, Side::Left), &[2, 2], &[8.0, 9.0, 10.0, 11.0]);
        check(true, &[2, 3], place(0, 1, Side::Right), &[1], &[0.0]);
    }

    #[test]
    fn halves_are_read_as_numbers() {
        let tensor =
            Tensor::from_vec(Shape::new(&[2, 1]), vec![f16::from_f32(1.5), f16::from_f32(-2.0)]);
        let given = [NamedTensor { name: "x".into(), tensor: tensor.unwrap() }];
        let wanted = [GraphOutput { name: "x".into(), has_tokens: false, is_whole: false }];
        let found = outputs_of_row(&wanted, &given, place(1, 1, Side::Right)).unwrap();
        assert_eq!(&*found[0].values, [-2.0]);
    }

    #[test]
    fn what_is_missing_or_too_small_is_said() {
        let wanted = [GraphOutput { name: "y".into(), has_tokens: true, is_whole: false }];
        let error = outputs_of_row(&wanted, &run(&[1, 2]), place(0, 1, Side::Right)).unwrap_err();
        assert_eq!(error.to_string(), "the model's output 'y': the run did not give it");
        let wanted = [GraphOutput { name: "x".into(), has_tokens: true, is_whole: false }];
        let given = run(&[1, 2, 2]);
        let error = outputs_of_row(&wanted, &given, place(0, 3, Side::Right)).unwrap_err();
        let text = "the model's output 'x': its shape [1,2,2] has no 3 tokens";
        assert_eq!(error.to_string(), text);
        assert!(outputs_of_row(&wanted, &given, place(1, 1, Side::Right)).is_err());
    }
}
