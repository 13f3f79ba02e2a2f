//! Elements of tensors as numbers, whatever their type.

use std::borrow::Cow;

use backend::{DataType, Tensor};
use half::{bf16, f16};

/// The elements of a tensor of floating-point numbers, borrowed where they are FP32 and lie in one piece; `None` of
/// another type. Beside the result nothing is held.
pub(crate) fn floats(tensor: &Tensor) -> Option<Cow<'_, [f32]>> {
    let owned = match tensor.dtype() {
        DataType::Fp32 => match tensor.as_slice_of::<f32>() {
            Some(values) => return Some(Cow::Borrowed(values)),
            None => converted(tensor, f32::from_le_bytes),
        },
        DataType::Fp16 => converted(tensor, |it| f16::from_le_bytes(it).to_f32()),
        DataType::Bf16 => converted(tensor, |it| bf16::from_le_bytes(it).to_f32()),
        DataType::Fp64 => converted(tensor, |it| f64::from_le_bytes(it) as f32),
        _ => return None,
    };
    Some(Cow::Owned(owned))
}

/// The elements of a tensor of elements of `N` bytes as other values. Beside the result nothing is held.
pub(crate) fn converted<T, const N: usize>(
    tensor: &Tensor,
    convert: impl Fn([u8; N]) -> T,
) -> Vec<T> {
    let mut all = Vec::with_capacity(tensor.elements());
    // No element is cut by the end of a segment.
    for segment in tensor.segments() {
        all.extend(segment.as_chunks::<N>().0.iter().map(|it| convert(*it)));
    }
    all
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

/// Calls `take` with each element of a tensor of numbers; with none of one of texts.
fn each(tensor: &Tensor, mut take: impl FnMut(Number)) {
    use Number::{Real, Whole};
    fn read<const N: usize>(
        tensor: &Tensor,
        number: impl Fn([u8; N]) -> Number,
        take: &mut impl FnMut(Number),
    ) {
        // No element is cut by the end of a segment.
        for segment in tensor.segments() {
            segment.as_chunks::<N>().0.iter().for_each(|it| take(number(*it)));
        }
    }
    let take = &mut take;
    match tensor.dtype() {
        DataType::Fp32 => read(tensor, |it| Real(f32::from_le_bytes(it).into()), take),
        DataType::Fp16 => read(tensor, |it| Real(f16::from_le_bytes(it).into()), take),
        DataType::Bf16 => read(tensor, |it| Real(bf16::from_le_bytes(it).into()), take),
        DataType::Fp64 => read(tensor, |it| Real(f64::from_le_bytes(it)), take),
        DataType::Int64 => read(tensor, |it| Whole(i64::from_le_bytes(it).into()), take),
        DataType::Int32 => read(tensor, |it| Whole(i32::from_le_bytes(it).into()), take),
        DataType::Int16 => read(tensor, |it| Whole(i16::from_le_bytes(it).into()), take),
        DataType::Int8 => read(tensor, |it| Whole(i8::from_le_bytes(it).into()), take),
        DataType::Uint64 => read(tensor, |it| Whole(u64::from_le_bytes(it).into()), take),
        DataType::Uint32 => read(tensor, |it| Whole(u32::from_le_bytes(it).into()), take),
        DataType::Uint16 => read(tensor, |it| Whole(u16::from_le_bytes(it).into()), take),
        DataType::Uint8 => read(tensor, |it| Whole(u8::from_le_bytes(it).into()), take),
        DataType::Bool => read(tensor, |[it]: [u8; 1]| Whole(i128::from(it != 0)), take),
        DataType::Bytes => {}
    }
}

/// The bytes of a tensor's numbers as elements of another type. Beside them nothing is held. Whole numbers lose what
/// stands behind the point; what is too large for a type is its largest number.
pub(crate) fn of_type(dtype: DataType, tensor: &Tensor) -> Vec<u8> {
    match dtype {
        DataType::Fp32 => written(tensor, |it| it.as_f32().to_le_bytes()),
        DataType::Fp64 => written(tensor, |it| it.as_f64().to_le_bytes()),
        DataType::Fp16 => written(tensor, |it| f16::from_f64(it.as_f64()).to_le_bytes()),
        DataType::Bf16 => written(tensor, |it| bf16::from_f64(it.as_f64()).to_le_bytes()),
        DataType::Int64 => whole::<8>(tensor, i64::MIN.into(), i64::MAX.into()),
        DataType::Int32 => whole::<4>(tensor, i32::MIN.into(), i32::MAX.into()),
        DataType::Int16 => whole::<2>(tensor, i16::MIN.into(), i16::MAX.into()),
        DataType::Int8 => whole::<1>(tensor, i8::MIN.into(), i8::MAX.into()),
        DataType::Uint64 => whole::<8>(tensor, u64::MIN.into(), u64::MAX.into()),
        DataType::Uint32 => whole::<4>(tensor, u32::MIN.into(), u32::MAX.into()),
        DataType::Uint16 => whole::<2>(tensor, u16::MIN.into(), u16::MAX.into()),
        DataType::Uint8 => whole::<1>(tensor, u8::MIN.into(), u8::MAX.into()),
        DataType::Bool => written(tensor, |it| [u8::from(!it.is_zero())]),
        DataType::Bytes => Vec::new(),
    }
}

fn written<const N: usize>(tensor: &Tensor, write: impl Fn(Number) -> [u8; N]) -> Vec<u8> {
    let mut all = Vec::with_capacity(tensor.elements() * N);
    each(tensor, |it| all.extend_from_slice(&write(it)));
    all
}

fn whole<const N: usize>(tensor: &Tensor, least: i128, most: i128) -> Vec<u8> {
    // The low bytes of a number within the bounds of a type are that number in it.
    let low = |it: Number| it.as_whole().clamp(least, most).to_le_bytes();
    written(tensor, |it| low(it).first_chunk().copied().unwrap_or([0; N]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::Shape;

    #[track_caller]
    fn check(to: DataType, expect: &[u8]) {
        let values = vec![1.5f32, -2.0, 300.0];
        let tensor = Tensor::from_vec(Shape::new(&[3]), values).unwrap();
        assert_eq!(of_type(to, &tensor), expect);
    }

    #[test]
    fn numbers_are_cut_to_what_a_type_can_hold() {
        check(DataType::Int8, &[1, 0xfe, 127]);
        check(DataType::Uint8, &[1, 0, 255]);
        check(DataType::Bool, &[1, 1, 1]);
        check(DataType::Fp16, &[0x00, 0x3e, 0x00, 0xc0, 0xb0, 0x5c]);
    }

    #[test]
    fn rows_of_several_requests_are_read_in_their_order() {
        let row = |value: f32| Tensor::from_vec(Shape::new(&[1, 1]), vec![value]).unwrap();
        let rows = [row(1.0), row(2.0), row(3.0)];
        let joined = Tensor::concat(&rows).unwrap();
        assert!(joined.contiguous().is_none());
        assert_eq!(*floats(&joined).unwrap(), [1.0, 2.0, 3.0]);
        assert_eq!(of_type(DataType::Uint8, &joined), [1, 2, 3]);
    }

    #[test]
    fn whole_numbers_of_64_bits_stay_what_they_are() {
        let values = vec![i64::MAX, i64::MIN];
        let tensor = Tensor::from_vec(Shape::new(&[2]), values.clone()).unwrap();
        let bytes: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
        assert_eq!(of_type(DataType::Int64, &tensor), bytes);
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
