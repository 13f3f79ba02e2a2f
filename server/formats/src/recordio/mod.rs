//! Rows as AWS's algorithms send them: protobuf records in RecordIO frames.

mod frames;
pub mod record;

use std::collections::BTreeMap;

use backend::{DataType, NamedTensor, Tensor};
use half::{bf16, f16};
use prost::Message;

pub use frames::{FrameError, Frames, MAGIC};

use crate::{
    elements::ElementError,
    expansion,
    matrix::{LeftOut, Matrix, MissingValue, RowError},
    number::Excerpt,
};
use inference::{error::Error, grant::Grant, granted::Granted, signature::Signature};
use record::{Float32Tensor, Record, Value, value};

/// What rows come in, for errors.
const FORMAT: &str = "RecordIO";
/// Bytes that a decoded record takes at most for each byte of it: a position of one byte becomes eight, in a list that
/// grows by doubling; a label of seven bytes is a node of a map.
const RECORD: usize = 32;
/// The name of the feature that is the row.
const VALUES: &str = "values";

/// The inputs in a RecordIO body: each record is a row, its numbers those of the feature `values`. Labels and
/// all else are not used. What a sparse record does not name is `missing`. Where that is NaN, as XGBoost has it, rows
/// may have fewer columns than the model, as far as the last ones may be `left_out`.
///
/// # Errors
/// When a frame or a record is broken, or is a part of a larger one. When it has no such feature, one that is no
/// tensor, or another number of columns than the first: [`Error::InvalidRequest`], which names the record, counted from
/// one. When rows have not the model's columns: [`Error::InvalidInput`].
pub fn decode(
    signature: &Signature,
    missing: MissingValue,
    left_out: LeftOut,
    body: &[u8],
    grant: &Grant,
) -> Result<Vec<NamedTensor>, Error> {
    expansion::hold_ports(signature, grant)?;
    let mut matrix = Matrix::new(signature, FORMAT, body.len(), grant)?;
    let mut first = None;
    for (record, frame) in (1..).zip(Frames::new(body)) {
        let frame = frame.map_err(|it| broken(record, it))?;
        // One record after the other is decoded, by a library that does not ask.
        let decoded = frame.len().saturating_mul(RECORD);
        grant.hold(decoded)?;
        let value = read(record, frame)?;
        if let (MissingValue::Nan, Some(given)) = (missing, columns(&value)) {
            let checked = matrix.check_columns(given, left_out);
            let not_the_models = |it| format!("RecordIO record {record} {it}");
            checked.map_err(|it| Error::input(matrix.name(), not_the_models(it)))?;
            let expected = *first.get_or_insert(given);
            if given != expected {
                return Err(broken(record, RowError::Uneven { given, expected }));
            }
        }
        push(&mut matrix, missing, value).map_err(|it| broken(record, it))?;
        grant.give_back(decoded);
    }
    matrix.finish(FORMAT)
}

/// How many columns a row has: its values, or what its shape says where it is sparse. `None` where it does not say.
fn columns(value: &value::Value) -> Option<usize> {
    let (values, keys, shape) = match value {
        value::Value::Float32Tensor(it) => (it.values.len(), &it.keys, &it.shape),
        value::Value::Float64Tensor(it) => (it.values.len(), &it.keys, &it.shape),
        value::Value::Int32Tensor(it) => (it.values.len(), &it.keys, &it.shape),
        value::Value::Bytes(_) => return None,
    };
    match keys.is_empty() && 0 < values {
        true => Some(values),
        false => product(shape).map(|it| usize::try_from(it).unwrap_or(usize::MAX)),
    }
}

/// The elements that a shape has; `None` where there is none. One is as good as no shape at all: it may be larger than
/// anything.
fn product(shape: &[u64]) -> Option<u64> {
    let elements = || shape.iter().try_fold(1u64, |product, it| product.checked_mul(*it));
    (!shape.is_empty()).then(|| elements().unwrap_or(u64::MAX))
}

fn broken(record: usize, problem: impl std::fmt::Display) -> Error {
    Error::InvalidRequest(format!("RecordIO record {record}: {problem}"))
}

/// The feature that is the row. `record` is its number.
fn read(record: usize, frame: &[u8]) -> Result<value::Value, Error> {
    let mut features = Record::decode(frame)
        .map_err(|error| broken(record, format_args!("no protobuf record: {error}")))?
        .features;
    match features.remove(VALUES).and_then(|it| it.value) {
        Some(value) => Ok(value),
        None => {
            let names = features.keys().map(|it| format!("'{}'", Excerpt(it)));
            let names = names.take(5).collect::<Vec<_>>().join(", ");
            let found = if names.is_empty() { "none" } else { &names };
            Err(broken(record, format_args!("expected the feature '{VALUES}', found {found}")))
        }
    }
}

fn push(
    matrix: &mut Matrix<'_>,
    missing: MissingValue,
    value: value::Value,
) -> Result<(), RowError> {
    let number = |matrix: &mut Matrix<'_>, value: &f64| matrix.number(*value);
    match value {
        value::Value::Float32Tensor(it) => tensor(
            matrix,
            missing,
            it.values.into_iter().map(f64::from),
            &it.keys,
            &it.shape,
            number,
        ),
        value::Value::Float64Tensor(it) => {
            tensor(matrix, missing, it.values.into_iter(), &it.keys, &it.shape, number)
        }
        value::Value::Int32Tensor(it) => tensor(
            matrix,
            missing,
            it.values.into_iter().map(f64::from),
            &it.keys,
            &it.shape,
            number,
        ),
        value::Value::Bytes(_) => Err(RowError::OfBytes(VALUES)),
    }
}

/// Adds a tensor as a row, whatever its shape: dense without keys, unless it is a sparse one without a value. `add`
/// adds one of its values.
pub fn tensor<T>(
    matrix: &mut Matrix<'_>,
    missing: MissingValue,
    values: impl ExactSizeIterator<Item = T>,
    keys: &[u64],
    shape: &[u64],
    mut add: impl FnMut(&mut Matrix<'_>, &T) -> Result<(), ElementError>,
) -> Result<(), RowError> {
    let width = product(shape);
    if keys.is_empty() && (values.len() > 0 || width.is_none()) {
        if let Some(width) = width.filter(|&it| it != values.len() as u64) {
            return Err(RowError::OtherShape { given: values.len(), shape: width });
        }
        values.into_iter().try_for_each(|it| add(matrix, &it))?;
        return match missing {
            MissingValue::Nan => matrix.end_short_row(LeftOut::Any),
            MissingValue::Zero => matrix.end_row(),
        };
    }
    if keys.len() != values.len() {
        return Err(RowError::OtherKeys { values: values.len(), keys: keys.len() });
    }
    let model = matrix.width().map(|it| it as u64);
    let width = match (missing, width, model) {
        // What it leaves out at its end is missing, too.
        (MissingValue::Nan, Some(width), Some(model)) => Some(width.max(model)),
        _ => width,
    };
    let width = width.or(model).ok_or(RowError::NoShape)?;
    let row = usize::try_from(width).unwrap_or(usize::MAX);
    let place = |key: u64| usize::try_from(key).unwrap_or(usize::MAX);
    let mut entries = Granted::new(matrix.grant());
    entries.reserve(keys.len())?;
    for (key, value) in keys.iter().zip(values) {
        entries.push((place(*key), value))?;
    }
    matrix.sparse(row, missing, &mut entries, add)
}

/// Appends a record whose labels are these tensors, as 32-bit floats.
///
/// # Errors
/// When the record is too long for a frame.
pub fn write(out: &mut Vec<u8>, labels: &[(&str, Tensor)]) -> Result<(), FrameError> {
    let label = |(name, tensor): &(&str, Tensor)| {
        let tensor = Float32Tensor { values: floats(tensor), ..Float32Tensor::default() };
        (name.to_string(), Value { value: Some(value::Value::Float32Tensor(tensor)) })
    };
    let label: BTreeMap<String, Value> = labels.iter().map(label).collect();
    frames::write(out, &Record { label, ..Record::default() }.encode_to_vec())
}

/// The elements of a tensor of numbers.
pub fn floats(tensor: &Tensor) -> Vec<f32> {
    let data = tensor.to_bytes();
    match tensor.dtype() {
        DataType::Fp32 => each(&data, f32::from_le_bytes),
        DataType::Fp64 => each(&data, |it| f64::from_le_bytes(it) as f32),
        DataType::Fp16 => each(&data, |it| f16::from_le_bytes(it).to_f32()),
        DataType::Bf16 => each(&data, |it| bf16::from_le_bytes(it).to_f32()),
        DataType::Int64 => each(&data, |it| i64::from_le_bytes(it) as f32),
        DataType::Int32 => each(&data, |it| i32::from_le_bytes(it) as f32),
        DataType::Int16 => each(&data, |it| i16::from_le_bytes(it).into()),
        DataType::Int8 => each(&data, |it| i8::from_le_bytes(it).into()),
        DataType::Uint64 => each(&data, |it| u64::from_le_bytes(it) as f32),
        DataType::Uint32 => each(&data, |it| u32::from_le_bytes(it) as f32),
        DataType::Uint16 => each(&data, |it| u16::from_le_bytes(it).into()),
        DataType::Uint8 | DataType::Bool => each(&data, |it| u8::from_le_bytes(it).into()),
        // Strings are no numbers. The caller has refused them.
        DataType::Bytes => Vec::new(),
    }
}

fn each<const N: usize>(data: &[u8], read: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    data.as_chunks().0.iter().map(|it| read(*it)).collect()
}

#[cfg(test)]
mod tests;
