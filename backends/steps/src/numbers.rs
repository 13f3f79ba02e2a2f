//! Elements of tensors as numbers, whatever their type.

use std::borrow::Cow;

use backend::{DataType, Tensor};
use half::{bf16, f16};

/// The elements of a tensor of floating-point numbers, borrowed where they are FP32 and lie in one piece; `None` of
/// another type.
pub(crate) fn floats(tensor: &Tensor) -> Option<Cow<'_, [f32]>> {
    let owned = || elements(tensor).into_iter().map(Number::as_f32).collect();
    match tensor.dtype() {
        DataType::Fp32 => match tensor.as_slice_of::<f32>() {
            Some(values) => Some(Cow::Borrowed(values)),
            None => Some(Cow::Owned(owned())),
        },
        DataType::Fp16 | DataType::Bf16 | DataType::Fp64 => Some(Cow::Owned(owned())),
        _ => None,
    }
}

/// A number, without loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Whole(i128),
    Real(f64),
}

impl Number {
    fn as_f64(self) -> f64 {
        match self {
            Number::Whole(value) => value as f64,
            Number::Real(value) => value,
        }
    }

    fn as_f32(self) -> f32 {
        match self {
            Number::Whole(value) => value as f32,
            Number::Real(value) => value as f32,
        }
    }

    /// Without what stands behind the point.
    fn as_whole(self) -> i128 {
        match self {
            Number::Whole(value) => value,
            Number::Real(value) => value as i128,
        }
    }

    fn is_zero(self) -> bool {
        matches!(self, Number::Whole(0)) || self == Number::Real(0.0)
    }
}

/// The elements of a tensor of numbers; none of one of texts.
pub(crate) fn elements(tensor: &Tensor) -> Vec<Number> {
    use Number::{Real, Whole};
    let bytes = tensor.to_bytes();
    match tensor.dtype() {
        DataType::Fp32 => read(&bytes, |it| Real(f32::from_le_bytes(it).into())),
        DataType::Fp16 => read(&bytes, |it| Real(f16::from_le_bytes(it).into())),
        DataType::Bf16 => read(&bytes, |it| Real(bf16::from_le_bytes(it).into())),
        DataType::Fp64 => read(&bytes, |it| Real(f64::from_le_bytes(it))),
        DataType::Int64 => read(&bytes, |it| Whole(i64::from_le_bytes(it).into())),
        DataType::Int32 => read(&bytes, |it| Whole(i32::from_le_bytes(it).into())),
        DataType::Int16 => read(&bytes, |it| Whole(i16::from_le_bytes(it).into())),
        DataType::Int8 => read(&bytes, |it| Whole(i8::from_le_bytes(it).into())),
        DataType::Uint64 => read(&bytes, |it| Whole(u64::from_le_bytes(it).into())),
        DataType::Uint32 => read(&bytes, |it| Whole(u32::from_le_bytes(it).into())),
        DataType::Uint16 => read(&bytes, |it| Whole(u16::from_le_bytes(it).into())),
        DataType::Uint8 => read(&bytes, |it| Whole(u8::from_le_bytes(it).into())),
        DataType::Bool => read(&bytes, |[it]: [u8; 1]| Whole(i128::from(it != 0))),
        DataType::Bytes => Vec::new(),
    }
}

fn read<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> Number) -> Vec<Number> {
    bytes.as_chunks::<N>().0.iter().map(|it| number(*it)).collect()
}

/// The bytes of these numbers as elements of another type. Whole numbers lose what stands behind the point; what is
/// too large for a type is its largest number.
pub(crate) fn of_type(dtype: DataType, numbers: &[Number]) -> Vec<u8> {
    let whole = |size: usize, least: i128, most: i128| -> Vec<u8> {
        // The low bytes of a number within the bounds of a type are that number in it.
        let bytes = |it: &Number| it.as_whole().clamp(least, most).to_le_bytes();
        numbers.iter().flat_map(|it| bytes(it).into_iter().take(size)).collect()
    };
    match dtype {
        DataType::Fp32 => numbers.iter().flat_map(|it| it.as_f32().to_le_bytes()).collect(),
        DataType::Fp64 => numbers.iter().flat_map(|it| it.as_f64().to_le_bytes()).collect(),
        DataType::Fp16 => {
            numbers.iter().flat_map(|it| f16::from_f64(it.as_f64()).to_le_bytes()).collect()
        }
        DataType::Bf16 => {
            numbers.iter().flat_map(|it| bf16::from_f64(it.as_f64()).to_le_bytes()).collect()
        }
        DataType::Int64 => whole(8, i64::MIN.into(), i64::MAX.into()),
        DataType::Int32 => whole(4, i32::MIN.into(), i32::MAX.into()),
        DataType::Int16 => whole(2, i16::MIN.into(), i16::MAX.into()),
        DataType::Int8 => whole(1, i8::MIN.into(), i8::MAX.into()),
        DataType::Uint64 => whole(8, u64::MIN.into(), u64::MAX.into()),
        DataType::Uint32 => whole(4, u32::MIN.into(), u32::MAX.into()),
        DataType::Uint16 => whole(2, u16::MIN.into(), u16::MAX.into()),
        DataType::Uint8 => whole(1, u8::MIN.into(), u8::MAX.into()),
        DataType::Bool => numbers.iter().map(|it| u8::from(!it.is_zero())).collect(),
        DataType::Bytes => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::Shape;

    #[track_caller]
    fn check(to: DataType, expect: &[u8]) {
        let values = vec![1.5f32, -2.0, 300.0];
        let tensor = Tensor::from_vec(Shape::new(&[3]), values).unwrap();
        assert_eq!(of_type(to, &elements(&tensor)), expect);
    }

    #[test]
    fn numbers_are_cut_to_what_a_type_can_hold() {
        check(DataType::Int8, &[1, 0xfe, 127]);
        check(DataType::Uint8, &[1, 0, 255]);
        check(DataType::Bool, &[1, 1, 1]);
        check(DataType::Fp16, &[0x00, 0x3e, 0x00, 0xc0, 0xb0, 0x5c]);
    }

    #[test]
    fn whole_numbers_of_64_bits_stay_what_they_are() {
        let values = vec![i64::MAX, i64::MIN];
        let tensor = Tensor::from_vec(Shape::new(&[2]), values.clone()).unwrap();
        let bytes: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
        assert_eq!(of_type(DataType::Int64, &elements(&tensor)), bytes);
    }

    #[test]
    fn floats_of_every_type_are_read() {
        let halves = vec![f16::from_f32(1.5), f16::from_f32(-2.0)];
        let tensor = Tensor::from_vec(Shape::new(&[2]), halves).unwrap();
        assert_eq!(*floats(&tensor).unwrap(), [1.5, -2.0]);
        let whole = Tensor::from_vec(Shape::new(&[1]), vec![1i64]).unwrap();
        assert!(floats(&whole).is_none());
    }
}
