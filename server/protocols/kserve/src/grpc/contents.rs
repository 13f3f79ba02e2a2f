//! Decoding of tensors whose elements came in a typed field. Pure.

use backend::{DataType, Shape, Tensor};
use bytes::Bytes;
use prost::Message;

use frontend::grpc::proto::InferTensorContents;
use inference::{error::Error, signature::Port};

/// Decodes the parts of a message, which add up; `None` where they hold no elements at all. A list of numbers that has
/// as many `elements` as its shape says does not grow, which would take three times the memory.
///
/// # Errors
/// When the message is malformed.
pub fn decode(
    parts: &[Bytes],
    port: &Port,
    elements: Option<usize>,
) -> Result<Option<InferTensorContents>, Error> {
    // An element takes a byte at least.
    let most = parts.iter().map(Bytes::len).sum();
    let mut contents = with_capacity(port.dtype, elements.unwrap_or(0).min(most));
    for part in parts {
        let malformed = |error| Error::input(&*port.name, format_args!("contents: {error}"));
        contents.merge(part.clone()).map_err(malformed)?;
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

/// The tensor of an input.
///
/// # Errors
/// When the field is not that of the type, the number of elements is not that of the shape, or the type cannot
/// hold an element.
pub fn tensor(port: &Port, shape: Shape, contents: InferTensorContents) -> Result<Tensor, Error> {
    let dtype = port.dtype;
    let wrong = |problem: String| Error::input(&*port.name, problem);
    let Some(field) = field_of(dtype) else {
        return Err(wrong(format!("{dtype} has no typed contents; expected raw_input_contents")));
    };
    let found = given(&contents);
    if let Some((other, _)) = found.iter().find(|it| it.0 != field) {
        return Err(wrong(format!("expected {field} for {dtype}, given {other}")));
    }
    let elements = shape.elements();
    let too_many = || wrong(format!("the shape {shape} has too many elements"));
    let elements = elements.ok_or_else(too_many)?;
    let given = found.first().map_or(0, |it| it.1);
    if given != elements {
        let problem = format!("shape {shape} has {elements} elements, {field} has {given}");
        return Err(wrong(problem));
    }
    let made = match dtype {
        DataType::Bool => {
            let bytes: Vec<u8> = contents.bool_contents.into_iter().map(u8::from).collect();
            Tensor::new(dtype, shape, bytes.into())
        }
        DataType::Int8 => Tensor::from_vec(shape, narrow::<_, i8>(port, &contents.int_contents)?),
        DataType::Int16 => Tensor::from_vec(shape, narrow::<_, i16>(port, &contents.int_contents)?),
        DataType::Int32 => Tensor::from_vec(shape, contents.int_contents),
        DataType::Int64 => Tensor::from_vec(shape, contents.int64_contents),
        DataType::Uint8 => Tensor::from_vec(shape, narrow::<_, u8>(port, &contents.uint_contents)?),
        DataType::Uint16 => {
            Tensor::from_vec(shape, narrow::<_, u16>(port, &contents.uint_contents)?)
        }
        DataType::Uint32 => Tensor::from_vec(shape, contents.uint_contents),
        DataType::Uint64 => Tensor::from_vec(shape, contents.uint64_contents),
        DataType::Fp32 => Tensor::from_vec(shape, contents.fp32_contents),
        DataType::Fp64 => Tensor::from_vec(shape, contents.fp64_contents),
        DataType::Bytes => Tensor::from_strings(shape, contents.bytes_contents),
        // Types without a field were refused above.
        DataType::Fp16 | DataType::Bf16 => Tensor::zeros(dtype, shape),
    };
    made.map_err(|error| Error::input(&*port.name, error))
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

/// The fields that have elements, and how many.
fn given(contents: &InferTensorContents) -> Vec<(&'static str, usize)> {
    let fields = [
        ("bool_contents", contents.bool_contents.len()),
        ("int_contents", contents.int_contents.len()),
        ("int64_contents", contents.int64_contents.len()),
        ("uint_contents", contents.uint_contents.len()),
        ("uint64_contents", contents.uint64_contents.len()),
        ("fp32_contents", contents.fp32_contents.len()),
        ("fp64_contents", contents.fp64_contents.len()),
        ("bytes_contents", contents.bytes_contents.len()),
    ];
    fields.into_iter().filter(|it| 0 < it.1).collect()
}

/// The same numbers in a type with fewer bits.
fn narrow<T, U>(port: &Port, values: &[T]) -> Result<Vec<U>, Error>
where
    T: Copy + std::fmt::Display,
    U: TryFrom<T>,
{
    let element = |(index, &value): (usize, &T)| {
        let Port { name, dtype, .. } = port;
        U::try_from(value).map_err(|_| {
            let problem = format_args!("element {index} is {value}, which {dtype} cannot hold");
            Error::input(&**name, problem)
        })
    };
    values.iter().enumerate().map(element).collect()
}
