//! What shape a client meant, where its format leaves a choice: rows or one row, `[3]` or `[3,1]`.

use std::borrow::Cow;

use backend::{NamedTensor, Shape, Tensor};

use inference::{
    request::InferenceResponse,
    signature::{Port, Signature},
};

/// The tensor, whose first dimension counts rows, in the shape that the input has.
///
/// A list of scalars is taken for an input of `[1]`, or of any number of ones or open dimensions. A list of lists of
/// one is taken for an input without dimensions. The only row of a list is taken for an input of a model that does not
/// batch. Whatever fits nothing keeps its shape: the check against the signature has the better words. So does
/// everything for a model whose graph looks at shapes itself.
pub fn as_rows(signature: &Signature, port: &Port, tensor: Tensor) -> Tensor {
    let given = tensor.shape().dims();
    let meant: Option<Shape> = match (signature.batches(), given) {
        _ if signature.graph_checks_shapes => None,
        (true, [_, inner @ ..]) if port.takes(inner) => None,
        (true, [rows]) if scalar(port) => Some(one_in_front(*rows, port)),
        (true, [rows, 1]) if port.dims.is_empty() => Some(Shape::new(&[*rows])),
        (true, _) => None,
        (false, given) if port.takes(given) => None,
        (false, [1, inner @ ..]) if port.takes(inner) => Some(Shape::new(inner)),
        (false, _) => None,
    };
    meant.and_then(|it| tensor.reshape(it)).unwrap_or(tensor)
}

/// The tensor as the only row of an input; `None` where it is not one row, or the model does not batch.
pub fn as_one_row(signature: &Signature, port: &Port, tensor: &Tensor) -> Option<Tensor> {
    let given = tensor.shape().dims();
    if !signature.batches() {
        return None;
    }
    if port.takes(given) {
        let dims = std::iter::once(1).chain(given.iter().copied());
        return tensor.reshape(dims.collect());
    }
    let lone = given.is_empty() && scalar(port);
    lone.then(|| tensor.reshape(one_in_front(1, port))).flatten()
}

/// The tensor of a list that may be one row or several: one row where it has the shape of one.
pub fn as_rows_or_one(signature: &Signature, port: &Port, tensor: Tensor) -> Tensor {
    match as_one_row(signature, port, &tensor) {
        Some(row) => row,
        None => as_rows(signature, port, tensor),
    }
}

/// Takes the brackets off the only row of an input, where the input takes the row and not the list of it.
pub fn without_brackets(signature: &Signature, input: &mut NamedTensor) {
    let Some(port) = signature.input(&input.name) else { return };
    let given = input.tensor.shape().dims();
    let inner = match given {
        [1, inner @ ..] if !signature.batches() && !port.takes(given) && port.takes(inner) => inner,
        _ => return,
    };
    if let Some(row) = input.tensor.reshape(Shape::new(inner)) {
        input.tensor = row;
    }
}

/// Takes the brackets off the fields of a single column, for an input of which nobody knows how many dimensions it has:
/// so TensorFlow Serving's container sends them.
pub fn without_columns(signature: &Signature, input: &mut NamedTensor) {
    let is_open = signature.input(&input.name).is_some_and(|it| it.any_rank);
    if let [rows, 1] = *input.tensor.shape().dims()
        && is_open
        && !signature.batches()
        && let Some(list) = input.tensor.reshape(Shape::new(&[rows]))
    {
        input.tensor = list;
    }
}

/// The response with `[rows]` in place of `[rows,1]`, and without a batch a number in place of `[1]`, where the model
/// itself has no such dimension: what TensorFlow Serving answers, and every format that follows it.
pub fn with_scalars<'r>(
    signature: &Signature,
    response: &'r InferenceResponse,
) -> Cow<'r, InferenceResponse> {
    let is_scalar = |name: &str| signature.output(name).is_some_and(|it| it.scalar);
    if !response.outputs.iter().any(|it| is_scalar(&it.name)) {
        return Cow::Borrowed(response);
    }
    let mut flat = response.clone();
    for output in flat.outputs.iter_mut().filter(|it| is_scalar(&it.name)) {
        let own = match *output.tensor.shape().dims() {
            [rows, 1] if signature.batches() => Shape::new(&[rows]),
            [1] if !signature.batches() => Shape::new(&[]),
            _ => continue,
        };
        if let Some(tensor) = output.tensor.reshape(own) {
            output.tensor = tensor;
        }
    }
    Cow::Owned(flat)
}

/// May one row of this input hold exactly one element, whatever its rank?
pub fn scalar(port: &Port) -> bool {
    port.dims.iter().all(|it| it.is_none_or(|size| size == 1))
}

fn one_in_front(rows: usize, port: &Port) -> Shape {
    std::iter::once(rows).chain(port.dims.iter().map(|_| 1)).collect()
}

/// The dimensions of one row of `columns` values without any nesting; `None` where they do not fit.
///
/// At most one dimension of any size is deduced.
pub fn flat(dims: &[Option<usize>], columns: usize) -> Option<Vec<usize>> {
    let known = dims.iter().flatten().try_fold(1usize, |product, it| product.checked_mul(*it))?;
    let deduced = match dims.iter().filter(|it| it.is_none()).count() {
        0 if known == columns => 0,
        1 if known > 0 && columns.is_multiple_of(known) => columns / known,
        _ => return None,
    };
    Some(dims.iter().map(|it| it.unwrap_or(deduced)).collect())
}

/// The shape of `rows` rows of `columns` values each, without any nesting; `None` where they do not fit.
///
/// A model that does not batch takes one row, or all rows as the matrix that its only input is.
pub fn of_rows(signature: &Signature, port: &Port, rows: usize, columns: usize) -> Option<Shape> {
    match (signature.batches(), flat(&port.dims, columns)) {
        (false, _) if port.any_rank => Some(Shape::new(&[rows, columns])),
        (true, Some(row)) => Some(std::iter::once(rows).chain(row).collect()),
        (false, Some(row)) if rows == 1 => Some(Shape::new(&row)),
        (false, _) if signature.inputs.len() == 1 => {
            let matrix = [rows, columns];
            // A single column may as well be a list.
            let list = matrix.get(..1).filter(|_| columns == 1);
            let whole = Some(matrix.as_slice()).into_iter().chain(list);
            whole.into_iter().find(|it| port.takes(it)).map(Shape::new)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::DataType;

    fn model(max_batch_size: usize, dims: &[Option<usize>]) -> Signature {
        let port = Port {
            name: "x".into(),
            dtype: DataType::Uint8,
            dims: dims.to_vec(),
            any_rank: false,
            scalar: false,
            optional: false,
            labels: Default::default(),
            text_codes: Default::default(),
        };
        Signature {
            named: None,
            graph_checks_shapes: false,
            takes_missing: false,
            model: "m".into(),
            version: 1,
            max_batch_size,
            most_rows: None,
            inputs: vec![port],
            outputs: vec![],
            on_request: Vec::new(),
            pipeline: None,
        }
    }

    #[track_caller]
    fn check(signature: Signature, given: &[usize], rows: &[usize], either: &[usize]) {
        let port = &signature.inputs[0];
        let tensor = Tensor::zeros(DataType::Uint8, Shape::new(given)).unwrap();
        assert_eq!(as_rows(&signature, port, tensor.clone()).shape().dims(), rows);
        assert_eq!(as_rows_or_one(&signature, port, tensor).shape().dims(), either);
    }

    #[test]
    fn rows_keep_their_shape_and_one_row_gains_a_dimension() {
        check(model(8, &[Some(3)]), &[2, 3], &[2, 3], &[2, 3]);
        check(model(8, &[Some(3)]), &[3], &[3], &[1, 3]);
        check(model(8, &[None]), &[3], &[3, 1], &[1, 3]);
    }

    #[test]
    fn scalars_may_be_wrapped_in_a_list_or_not() {
        check(model(8, &[Some(1)]), &[2], &[2, 1], &[2, 1]);
        check(model(8, &[Some(1)]), &[], &[], &[1, 1]);
        check(model(8, &[]), &[2, 1], &[2], &[2]);
        check(model(8, &[]), &[2], &[2], &[2]);
        check(model(8, &[]), &[], &[], &[1]);
    }

    #[test]
    fn a_model_that_does_not_batch_takes_the_whole_or_the_only_row() {
        check(model(0, &[Some(3)]), &[3], &[3], &[3]);
        check(model(0, &[Some(3)]), &[1, 3], &[3], &[3]);
        check(model(0, &[Some(3)]), &[2, 3], &[2, 3], &[2, 3]);
    }

    #[test]
    fn columns_fill_the_dimensions_and_one_size_is_deduced() {
        assert_eq!(flat(&[Some(1), Some(8), Some(8)], 64), Some(vec![1, 8, 8]));
        assert_eq!(flat(&[Some(2), None], 6), Some(vec![2, 3]));
        assert_eq!(flat(&[], 1), Some(vec![]));
        assert_eq!(flat(&[Some(2), None], 5), None);
        assert_eq!(flat(&[None, None], 4), None);
        assert_eq!(flat(&[Some(0), None], 0), None);
    }
}
