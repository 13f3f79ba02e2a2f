//! Decoding of tensors whose elements came in a typed field. Pure.

use backend::{DataType, Shape, Tensor};
use bytes::Bytes;
use prost::Message;

use frontend::grpc::proto::InferTensorContents;

/// Decodes the parts of a message, which add up; `None` where they hold no elements at all. A list of numbers that has
/// as many `elements` as its shape says does not grow, which would take three times the memory.
///
/// # Errors
/// A sentence: why the message is malformed.
pub fn decode(
    parts: &[Bytes],
    dtype: DataType,
    elements: Option<usize>,
) -> Result<Option<InferTensorContents>, String> {
    // An element takes a byte at least.
    let most = parts.iter().map(Bytes::len).sum();
    let mut contents = with_capacity(dtype, elements.unwrap_or(0).min(most));
    for part in parts {
        contents.merge(part.clone()).map_err(|error| format!("contents: {error}"))?;
    }
    Ok(Some(contents).filter(|it| !is_empty(it)))
}

/// Empty contents with room for so many numbers of this type.
fn with_capacity(dtype: DataType, elements: usize) -> InferTensorContents {
    let mut contents = InferTensorContents::default();
    match dtype {
        DataType::Bool => contents.bool_contents.reserve_exact(elements),
        DataType::Int8 | DataType::Int16 | DataType::Int32 => {
            contents.int_contents.reserve_exact(elements);
        }
        DataType::Int64 => contents.int64_contents.reserve_exact(elements),
        DataType::Uint8 | DataType::Uint16 | DataType::Uint32 => {
            contents.uint_contents.reserve_exact(elements);
        }
        DataType::Uint64 => contents.uint64_contents.reserve_exact(elements),
        DataType::Fp32 => contents.fp32_contents.reserve_exact(elements),
        DataType::Fp64 => contents.fp64_contents.reserve_exact(elements),
        DataType::Bytes | DataType::Fp16 | DataType::Bf16 => {}
    }
    contents
}

/// Are all typed fields empty?
fn is_empty(contents: &InferTensorContents) -> bool {
    given(contents).is_empty()
}

/// The tensor.
///
/// # Errors
/// A sentence: the field is not that of the type, the number of elements is not that of the shape, or the type cannot
/// hold an element.
pub fn tensor(
    dtype: DataType,
    shape: Shape,
    contents: InferTensorContents,
) -> Result<Tensor, String> {
    let Some(field) = field_of(dtype) else {
        return Err(format!("{dtype} has no typed contents; expected raw_input_contents"));
    };
    let found = given(&contents);
    if let Some(other) = found.iter().find(|it| **it != field) {
        return Err(format!("expected {field} for {dtype}, given {other}"));
    }
    let elements = shape.elements();
    let elements = elements.ok_or_else(|| format!("the shape {shape} has too many elements"))?;
    let count = |given: usize| match given == elements {
        true => Ok(()),
        false => Err(format!("shape {shape} has {elements} elements, {field} has {given}")),
    };
    let InferTensorContents {
        bool_contents,
        int_contents,
        int64_contents,
        uint_contents,
        uint64_contents,
        fp32_contents,
        fp64_contents,
        bytes_contents,
    } = contents;
    let made = match dtype {
        DataType::Bool => {
            count(bool_contents.len())?;
            let bytes: Vec<u8> = bool_contents.into_iter().map(u8::from).collect();
            Tensor::new(dtype, shape, bytes.into())
        }
        DataType::Int8 => {
            count(int_contents.len())?;
            Tensor::from_vec(shape, narrow::<_, i8>(dtype, &int_contents)?)
        }
        DataType::Int16 => {
            count(int_contents.len())?;
            Tensor::from_vec(shape, narrow::<_, i16>(dtype, &int_contents)?)
        }
        DataType::Int32 => {
            count(int_contents.len())?;
            Tensor::from_vec(shape, int_contents)
        }
        DataType::Int64 => {
            count(int64_contents.len())?;
            Tensor::from_vec(shape, int64_contents)
        }
        DataType::Uint8 => {
            count(uint_contents.len())?;
            Tensor::from_vec(shape, narrow::<_, u8>(dtype, &uint_contents)?)
        }
        DataType::Uint16 => {
            count(uint_contents.len())?;
            Tensor::from_vec(shape, narrow::<_, u16>(dtype, &uint_contents)?)
        }
        DataType::Uint32 => {
            count(uint_contents.len())?;
            Tensor::from_vec(shape, uint_contents)
        }
        DataType::Uint64 => {
            count(uint64_contents.len())?;
            Tensor::from_vec(shape, uint64_contents)
        }
        DataType::Fp32 => {
            count(fp32_contents.len())?;
            Tensor::from_vec(shape, fp32_contents)
        }
        DataType::Fp64 => {
            count(fp64_contents.len())?;
            Tensor::from_vec(shape, fp64_contents)
        }
        DataType::Bytes => {
            count(bytes_contents.len())?;
            Tensor::from_strings(shape, bytes_contents)
        }
        // Types without a field were refused above.
        DataType::Fp16 | DataType::Bf16 => Tensor::zeros(dtype, shape),
    };
    made.map_err(|error| error.to_string())
}

/// The field that holds elements of this type.
fn field_of(dtype: DataType) -> Option<&'static str> {
    Some(match dtype {
        DataType::Bool => "bool_contents",
        DataType::Int8 | DataType::Int16 | DataType::Int32 => "int_contents",
        DataType::Int64 => "int64_contents",
        DataType::Uint8 | DataType::Uint16 | DataType::Uint32 => "uint_contents",
        DataType::Uint64 => "uint64_contents",
        DataType::Fp32 => "fp32_contents",
        DataType::Fp64 => "fp64_contents",
        DataType::Bytes => "bytes_contents",
        DataType::Fp16 | DataType::Bf16 => return None,
    })
}

/// The fields that have elements.
fn given(contents: &InferTensorContents) -> Vec<&'static str> {
    let fields = [
        ("bool_contents", contents.bool_contents.is_empty()),
        ("int_contents", contents.int_contents.is_empty()),
        ("int64_contents", contents.int64_contents.is_empty()),
        ("uint_contents", contents.uint_contents.is_empty()),
        ("uint64_contents", contents.uint64_contents.is_empty()),
        ("fp32_contents", contents.fp32_contents.is_empty()),
        ("fp64_contents", contents.fp64_contents.is_empty()),
        ("bytes_contents", contents.bytes_contents.is_empty()),
    ];
    fields.into_iter().filter(|it| !it.1).map(|it| it.0).collect()
}

/// The same numbers in a type with fewer bits.
fn narrow<T, U>(dtype: DataType, values: &[T]) -> Result<Vec<U>, String>
where
    T: Copy + std::fmt::Display,
    U: TryFrom<T>,
{
    let element = |(index, &value): (usize, &T)| {
        U::try_from(value)
            .map_err(|_| format!("element {index} is {value}, which {dtype} cannot hold"))
    };
    values.iter().enumerate().map(element).collect()
}
