//! The values of inputs, from the messages in which files have them. Pure.

use backend::{DataType, Shape, Tensor, encode_strings};

use super::{error::Defect, proto::TensorValue};
use crate::native::from_element;

/// The tensor of that message. Where it has fewer elements than its shape, the last one stands for the rest, as in
/// TensorFlow.
///
/// # Errors
/// A type that cannot be served, or elements that do not fit the shape: what follows the words "has a value".
pub(super) fn tensor_of(value: &TensorValue) -> Result<Tensor, Defect> {
    let dtype = from_element(value.dtype)
        .ok_or_else(|| Defect::new(format_args!("of TensorFlow's type {}", value.dtype)))?;
    let dims = value.shape.iter().flat_map(|it| &it.dims);
    let shape: Option<Shape> = dims.map(|it| usize::try_from(it.size).ok()).collect();
    let count = shape.as_ref().and_then(Shape::elements).filter(|it| *it <= MOST);
    let (shape, count) =
        shape.zip(count).ok_or_else(|| Defect::new("of no shape, or of a vast one"))?;
    let bytes = match dtype {
        DataType::Bytes => {
            let texts = filled(&value.texts, count).ok_or_else(few)?;
            encode_strings(texts)
        }
        _ if !value.content.is_empty() => value.content.clone().into(),
        _ => numbers(value, dtype, count).ok_or_else(few)?.into(),
    };
    Tensor::new(dtype, shape, bytes).map_err(|it| Defect::new(format_args!("that is none: {it}")))
}

/// Elements of such a value.
const MOST: usize = 16 << 20;

fn few() -> Defect {
    Defect::new("without elements")
}

/// The numbers of that type, as bytes.
fn numbers(value: &TensorValue, dtype: DataType, count: usize) -> Option<Vec<u8>> {
    let halves = |it: &i32| (*it as u16).to_le_bytes();
    match dtype {
        DataType::Bool => bytes(&value.truths, count, |it| [u8::from(*it)]),
        DataType::Uint8 => bytes(&value.integers, count, |it| (*it as u8).to_le_bytes()),
        DataType::Int8 => bytes(&value.integers, count, |it| (*it as i8).to_le_bytes()),
        DataType::Uint16 => bytes(&value.integers, count, halves),
        DataType::Int16 => bytes(&value.integers, count, |it| (*it as i16).to_le_bytes()),
        DataType::Int32 => bytes(&value.integers, count, |it| it.to_le_bytes()),
        DataType::Int64 => bytes(&value.long_integers, count, |it| it.to_le_bytes()),
        DataType::Uint32 => bytes(&value.unsigned, count, |it| it.to_le_bytes()),
        DataType::Uint64 => bytes(&value.long_unsigned, count, |it| it.to_le_bytes()),
        DataType::Fp16 | DataType::Bf16 => bytes(&value.halves, count, halves),
        DataType::Fp32 => bytes(&value.floats, count, |it| it.to_le_bytes()),
        DataType::Fp64 => bytes(&value.doubles, count, |it| it.to_le_bytes()),
        DataType::Bytes => None,
    }
}

fn bytes<T, const N: usize>(
    given: &[T],
    count: usize,
    bytes: impl Fn(&T) -> [u8; N],
) -> Option<Vec<u8>> {
    Some(filled(given, count)?.into_iter().flat_map(bytes).collect())
}

/// So many elements, the last of those that are given for all that are not. `None` where none are given, or too many.
fn filled<T>(given: &[T], count: usize) -> Option<Vec<&T>> {
    if count < given.len() {
        return None;
    }
    let mut all: Vec<&T> = given.iter().collect();
    if let Some(last) = given.last() {
        all.resize(count, last);
    }
    (all.len() == count).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved_model::proto::{Dim, TensorShape};

    fn value(dtype: i32, dims: &[i64]) -> TensorValue {
        let dims = dims.iter().map(|&size| Dim { size }).collect();
        let shape = Some(TensorShape { dims, unknown_rank: false });
        TensorValue { dtype, shape, ..TensorValue::default() }
    }

    #[test]
    fn the_last_element_stands_for_those_that_are_not_written() {
        let floats = TensorValue { floats: vec![1.0, 2.0], ..value(1, &[4]) };
        let tensor = tensor_of(&floats).unwrap();
        let expected: Vec<u8> =
            [1f32, 2.0, 2.0, 2.0].iter().flat_map(|it| it.to_le_bytes()).collect();
        assert_eq!((tensor.dtype(), tensor.to_bytes().as_ref()), (DataType::Fp32, &*expected));
    }

    #[test]
    fn elements_may_be_bytes_and_texts() {
        let content = TensorValue { content: vec![1, 0, 2, 0], ..value(5, &[2]) };
        assert_eq!(tensor_of(&content).unwrap().to_bytes().as_ref(), [1, 0, 2, 0]);
        let texts = TensorValue { texts: vec![b"a\0".to_vec()], ..value(7, &[]) };
        let tensor = tensor_of(&texts).unwrap();
        assert_eq!(tensor.strings().collect::<Vec<_>>(), [b"a\0"]);
    }

    #[test]
    fn what_does_not_fit_its_shape_is_no_default() {
        assert!(tensor_of(&value(1, &[2])).is_err());
        assert!(tensor_of(&value(1, &[0])).is_ok());
        assert!(tensor_of(&value(1, &[-1])).is_err());
        assert!(tensor_of(&value(1, &[i64::MAX, i64::MAX])).is_err());
        assert!(tensor_of(&TensorValue { floats: vec![1.0, 2.0], ..value(1, &[1]) }).is_err());
        assert!(tensor_of(&TensorValue { content: vec![0; 5], ..value(1, &[1]) }).is_err());
        assert!(tensor_of(&value(8, &[])).is_err());
    }
}
