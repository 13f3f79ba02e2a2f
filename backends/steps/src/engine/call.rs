//! One execution of a step: its inputs as plain values, and plain values as its outputs.

use std::{borrow::Cow, sync::Arc};

use backend::{BackendError, Batch, DataType, ModelSpec, NamedTensor, Shape, SizeMismatch, Tensor};

use crate::numbers::{converted, floats};

/// A batch, and the ports of the step that runs it.
pub(super) struct Call<'a> {
    pub(super) batch: &'a Batch<'a>,
    pub(super) spec: &'a ModelSpec,
}

/// Numbers of an input.
pub(super) struct Numbers<'a, T: Clone> {
    /// Its shape.
    pub(super) dims: Vec<usize>,
    /// Its elements.
    pub(super) values: Cow<'a, [T]>,
}

impl<T: Clone> Numbers<'_, T> {
    /// Elements of one row. Of an input without elements it is 0, whatever its other dimensions are.
    pub(super) fn per_row(&self) -> usize {
        let rows = self.dims.first().copied().unwrap_or(0);
        self.values.len().checked_div(rows).unwrap_or(0)
    }

    /// The elements of a row; none of one that is not there.
    pub(super) fn row(&self, row: usize) -> &[T] {
        let width = self.per_row();
        self.values.get(row * width..(row + 1) * width).unwrap_or_default()
    }
}

impl<'a> Call<'a> {
    /// Fails where nobody waits for the batch any more.
    pub(super) fn check(&self) -> Result<(), BackendError> {
        match self.batch.stop.is_over() {
            true => Err(stopped()),
            false => Ok(()),
        }
    }

    /// Is that output wanted?
    pub(super) fn wants(&self, name: &str) -> bool {
        self.batch.outputs.iter().any(|it| &**it == name)
    }

    fn optional(&self, name: &str) -> Option<&'a Tensor> {
        self.batch.inputs.iter().find(|it| &*it.name == name).map(|it| &it.tensor)
    }

    fn required(&self, name: &str) -> Result<&'a Tensor, BackendError> {
        self.optional(name).ok_or_else(|| invalid(name, "it is missing"))
    }

    /// The texts of an input, all rows in one list.
    pub(super) fn texts(&self, name: &str) -> Result<Vec<&'a str>, BackendError> {
        texts_of(name, self.required(name)?)
    }

    /// The same of an input that may be left out.
    pub(super) fn optional_texts(&self, name: &str) -> Result<Option<Vec<&'a str>>, BackendError> {
        self.optional(name).map(|it| texts_of(name, it)).transpose()
    }

    /// The floating-point numbers of an input.
    pub(super) fn floats(&self, name: &str) -> Result<Numbers<'a, f32>, BackendError> {
        let tensor = self.required(name)?;
        let values = floats(tensor).ok_or_else(|| {
            invalid(name, &format!("it is {}, and no floating-point number", tensor.dtype()))
        })?;
        Ok(Numbers { dims: tensor.shape().dims().to_vec(), values })
    }

    /// The whole numbers of an input.
    pub(super) fn integers(&self, name: &str) -> Result<Numbers<'a, i64>, BackendError> {
        integers_of(name, self.required(name)?)
    }

    /// The same of an input that may be left out.
    pub(super) fn optional_integers(
        &self,
        name: &str,
    ) -> Result<Option<Numbers<'a, i64>>, BackendError> {
        self.optional(name).map(|it| integers_of(name, it)).transpose()
    }

    /// An input as it came, for steps that take any type.
    pub(super) fn tensor(&self, name: &str) -> Result<&'a Tensor, BackendError> {
        self.required(name)
    }

    /// An output of texts.
    pub(super) fn text_output<S: AsRef<[u8]>>(
        &self,
        name: &str,
        dims: &[usize],
        texts: impl IntoIterator<Item = S>,
    ) -> Result<NamedTensor, BackendError> {
        named(name, Tensor::from_strings(Shape::new(dims), texts))
    }

    /// An output of floating-point numbers.
    pub(super) fn float_output(
        &self,
        name: &str,
        dims: &[usize],
        values: Vec<f32>,
    ) -> Result<NamedTensor, BackendError> {
        named(name, Tensor::from_vec(Shape::new(dims), values))
    }

    /// An output of whole numbers, of the type that the port has.
    pub(super) fn integer_output(
        &self,
        name: &str,
        dims: &[usize],
        values: Vec<i64>,
    ) -> Result<NamedTensor, BackendError> {
        let shape = Shape::new(dims);
        let port = self.spec.outputs.iter().find(|it| &*it.name == name);
        match port.map(|it| it.dtype) {
            Some(DataType::Int32) => {
                // Ids, positions and lengths, all far below 2^31.
                let values: Vec<i32> = values.into_iter().map(|it| it as i32).collect();
                named(name, Tensor::from_vec(shape, values))
            }
            _ => named(name, Tensor::from_vec(shape, values)),
        }
    }
}

/// The error where nobody waits for the batch any more.
pub(super) fn stopped() -> BackendError {
    BackendError::Execute("stopped".to_owned())
}

/// The error for an input that the step cannot take.
pub(super) fn invalid(name: &str, problem: &str) -> BackendError {
    BackendError::InvalidInput(format!("input '{name}': {problem}"))
}

/// A tensor under its name.
pub(super) fn named(
    name: &str,
    tensor: Result<Tensor, SizeMismatch>,
) -> Result<NamedTensor, BackendError> {
    let tensor = tensor.map_err(|it| BackendError::Execute(format!("output '{name}': {it}")))?;
    Ok(NamedTensor { name: Arc::from(name), tensor })
}

fn texts_of<'a>(name: &str, tensor: &'a Tensor) -> Result<Vec<&'a str>, BackendError> {
    let text = |(at, bytes): (usize, &'a [u8])| {
        std::str::from_utf8(bytes).map_err(|error| {
            let offset = error.valid_up_to();
            invalid(name, &format!("element {at} is not UTF-8 at byte {offset}"))
        })
    };
    match tensor.dtype() {
        DataType::Bytes => tensor.strings().enumerate().map(text).collect(),
        other => Err(invalid(name, &format!("it is {other}, texts are BYTES"))),
    }
}

fn integers_of<'a>(name: &str, tensor: &'a Tensor) -> Result<Numbers<'a, i64>, BackendError> {
    let dims = tensor.shape().dims().to_vec();
    let values = match tensor.dtype() {
        DataType::Int64 => match tensor.as_slice_of::<i64>() {
            Some(values) => Cow::Borrowed(values),
            None => Cow::Owned(converted(tensor, i64::from_le_bytes)),
        },
        DataType::Int32 => Cow::Owned(converted(tensor, |it| i64::from(i32::from_le_bytes(it)))),
        other => return Err(invalid(name, &format!("it is {other}, expected INT64 or INT32"))),
    };
    Ok(Numbers { dims, values })
}
