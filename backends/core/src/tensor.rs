//! Tensors as lists of byte segments: formed, sliced and joined without touching their elements.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};

use crate::{
    DataType, Element,
    shape::{Shape, SizeMismatch},
    strings::{Strings, count_strings, encode_strings},
};

/// A type, a shape, and the elements in row-major order, spread over one or more byte buffers.
///
/// The buffers together hold exactly the elements that the shape calls for; no element is cut by the end
/// of a buffer.
#[derive(Debug, Clone)]
pub struct Tensor {
    dtype: DataType,
    shape: Shape,
    segments: SmallVec<[Bytes; 1]>,
}

impl Tensor {
    /// A tensor over `data`, which is not copied. O(1) for fixed-size types, O(bytes) for strings, whose
    /// length prefixes are all checked.
    ///
    /// # Errors
    /// When `data` is not exactly what type and shape call for.
    pub fn new(dtype: DataType, shape: Shape, data: Bytes) -> Result<Tensor, SizeMismatch> {
        let elements = shape.elements().ok_or_else(|| SizeMismatch::Overflow(shape.clone()))?;
        match dtype.size() {
            Some(size) => {
                let expected = elements
                    .checked_mul(size)
                    .ok_or_else(|| SizeMismatch::Overflow(shape.clone()))?;
                if data.len() != expected {
                    return Err(SizeMismatch::Length { dtype, shape, expected, given: data.len() });
                }
            }
            None => {
                let given = count_strings(&data)?;
                if given != elements {
                    return Err(SizeMismatch::Elements { shape, expected: elements, given });
                }
            }
        }
        Ok(Tensor { dtype, shape, segments: smallvec![data] })
    }

    /// A tensor of the elements of `values`, which is not copied.
    ///
    /// # Errors
    /// When the number of values is not the product of the dimensions.
    pub fn from_vec<T: Element + Send>(
        shape: Shape,
        values: Vec<T>,
    ) -> Result<Tensor, SizeMismatch> {
        struct Owner<T>(Vec<T>);
        impl<T: Element> AsRef<[u8]> for Owner<T> {
            fn as_ref(&self) -> &[u8] {
                bytemuck::cast_slice(&self.0)
            }
        }
        Tensor::new(T::DTYPE, shape, Bytes::from_owner(Owner(values)))
    }

    /// A BYTES tensor of these strings.
    ///
    /// # Errors
    /// When their number is not the product of the dimensions.
    pub fn from_strings<S: AsRef<[u8]>>(
        shape: Shape,
        strings: impl IntoIterator<Item = S>,
    ) -> Result<Tensor, SizeMismatch> {
        Tensor::new(DataType::Bytes, shape, encode_strings(strings))
    }

    /// A tensor without elements or of zeros (empty strings for BYTES).
    ///
    /// # Errors
    /// When the shape has more elements than can be addressed.
    pub fn zeros(dtype: DataType, shape: Shape) -> Result<Tensor, SizeMismatch> {
        let size = dtype.size().unwrap_or(4);
        let bytes = shape.elements().and_then(|it| it.checked_mul(size));
        let bytes = bytes.ok_or_else(|| SizeMismatch::Overflow(shape.clone()))?;
        // A vector of u64 is aligned for every element type.
        let words = vec![0u64; bytes.div_ceil(8)];
        let data = Tensor::from_vec(Shape::new(&[words.len()]), words)?.to_bytes().slice(..bytes);
        Tensor::new(dtype, shape, data)
    }

    /// A tensor of these segments, which together hold what type and shape call for. None of them cuts an element.
    pub(crate) fn of_segments(
        dtype: DataType,
        shape: Shape,
        segments: SmallVec<[Bytes; 1]>,
    ) -> Tensor {
        Tensor { dtype, shape, segments }
    }

    /// Element type.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Size of each dimension.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.elements().expect("checked when the tensor was made")
    }

    /// The buffers, in order.
    pub fn segments(&self) -> &[Bytes] {
        &self.segments
    }

    /// Bytes in all buffers together.
    pub fn byte_len(&self) -> usize {
        self.segments.iter().map(Bytes::len).sum()
    }

    /// The only buffer; `None` where there are several.
    pub fn contiguous(&self) -> Option<&Bytes> {
        match self.segments.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// All bytes in one buffer. Copies only when they are scattered.
    pub fn to_bytes(&self) -> Bytes {
        match self.contiguous() {
            Some(bytes) => bytes.clone(),
            None => self.segments.concat().into(),
        }
    }

    /// The same tensor, with which `what` stays until the last who has a part of its last buffer is gone.
    #[must_use]
    pub fn keeping<T: Send + 'static>(mut self, what: T) -> Tensor {
        struct Keeps<T> {
            bytes: Bytes,
            _what: T,
        }
        impl<T> AsRef<[u8]> for Keeps<T> {
            fn as_ref(&self) -> &[u8] {
                &self.bytes
            }
        }
        if let Some(last) = self.segments.last_mut() {
            *last = Bytes::from_owner(Keeps { bytes: std::mem::take(last), _what: what });
        }
        self
    }

    /// The elements in place; `None` where they are scattered, not aligned, or of another type.
    pub fn as_slice_of<T: Element>(&self) -> Option<&[T]> {
        if self.dtype != T::DTYPE {
            return None;
        }
        bytemuck::try_cast_slice(self.contiguous()?).ok()
    }

    /// The elements of a BYTES tensor, in order; of any other type, none.
    pub fn strings(&self) -> Strings<'_> {
        let segments = if self.dtype == DataType::Bytes { self.segments() } else { &[] };
        Strings::new(segments)
    }

    /// The same elements under another shape. O(1).
    ///
    /// `None` when the number of elements differs.
    pub fn reshape(&self, shape: Shape) -> Option<Tensor> {
        let same = shape.elements() == self.shape.elements();
        same.then(|| Tensor { dtype: self.dtype, shape, segments: self.segments.clone() })
    }

    /// The parts one below the other, sharing their buffers. O(parts).
    ///
    /// `None` for no parts, for scalars, or where the parts differ in anything but their first dimension.
    pub fn concat<'a>(parts: impl IntoIterator<Item = &'a Tensor>) -> Option<Tensor> {
        let mut parts = parts.into_iter();
        let mut whole = parts.next()?.clone();
        for part in parts {
            if part.dtype != whole.dtype || part.shape.inner() != whole.shape.inner() {
                return None;
            }
            let rows = whole.shape.rows()?.checked_add(part.shape.rows()?)?;
            whole.shape = whole.shape.with_rows(rows);
            whole.segments.extend(part.segments.iter().cloned());
        }
        Some(whole)
    }

    /// Rows `start..start + rows`, sharing this tensor's buffers. O(segments), for strings O(bytes).
    ///
    /// `None` when the tensor is a scalar or has fewer rows.
    pub fn slice_rows(&self, start: usize, rows: usize) -> Option<Tensor> {
        let have = self.shape.rows()?;
        let end = start.checked_add(rows).filter(|&it| it <= have)?;
        let shape = self.shape.with_rows(rows);
        if start == 0 && rows == have {
            return Some(self.clone());
        }
        // With a zero among them the other dimensions may be of any size.
        let per_row = Shape::new(self.shape.inner()).elements()?;
        let (from, to) = match self.dtype.size() {
            Some(size) => (start * per_row * size, end * per_row * size),
            None => {
                let offset = |elements: usize| -> usize {
                    self.strings().take(elements).map(|it| it.len() + 4).sum()
                };
                (offset(start * per_row), offset(end * per_row))
            }
        };
        Some(Tensor { dtype: self.dtype, shape, segments: cut(&self.segments, from, to) })
    }
}

/// A tensor and the name of the input or output that it is.
#[derive(Debug, Clone)]
pub struct NamedTensor {
    /// Name of the input or output.
    pub name: Arc<str>,
    /// Its value.
    pub tensor: Tensor,
}

/// The parts of the segments between two byte offsets. At least one segment, which may be empty.
fn cut(segments: &[Bytes], from: usize, to: usize) -> SmallVec<[Bytes; 1]> {
    let mut parts = SmallVec::new();
    let mut begin = 0;
    for segment in segments {
        let end = begin + segment.len();
        let (first, last) = (from.max(begin), to.min(end));
        if first < last {
            parts.push(segment.slice(first - begin..last - begin));
        }
        begin = end;
    }
    if parts.is_empty() {
        parts.push(Bytes::new());
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn floats(shape: &[usize], values: &[f32]) -> Tensor {
        Tensor::from_vec(Shape::new(shape), values.to_vec()).unwrap()
    }

    #[test]
    fn data_must_have_the_length_that_type_and_shape_call_for() {
        let error = Tensor::new(DataType::Fp32, Shape::new(&[2, 2]), Bytes::from_static(&[0; 12]));
        let text = error.unwrap_err().to_string();
        assert_eq!(text, "FP32 of shape [2,2] takes 16 bytes, given 12");
    }

    #[test]
    fn an_overflowing_shape_is_refused_and_a_zero_in_it_saves_it() {
        let huge = Shape::new(&[1 << 40, 1 << 40]);
        let error = Tensor::new(DataType::Uint8, huge, Bytes::new()).unwrap_err();
        assert!(matches!(error, SizeMismatch::Overflow(_)));
        let empty = Shape::new(&[1 << 40, 1 << 40, 0]);
        assert!(Tensor::new(DataType::Uint8, empty, Bytes::new()).is_ok());
        let bytes_overflow = Shape::new(&[usize::MAX / 2]);
        assert!(Tensor::new(DataType::Fp64, bytes_overflow, Bytes::new()).is_err());
    }

    #[test]
    fn rows_without_elements_are_sliced_whatever_their_other_dimensions() {
        let shape = Shape::new(&[3, 1 << 40, 1 << 40, 0]);
        let tensor = Tensor::new(DataType::Fp32, shape, Bytes::new()).unwrap();
        let slice = tensor.slice_rows(1, 2).unwrap();
        assert_eq!(slice.shape().dims(), [2, 1 << 40, 1 << 40, 0]);
        assert_eq!(slice.byte_len(), 0);
    }

    #[test]
    fn a_lying_length_prefix_is_found() {
        let data = Bytes::from_static(&[1, 0, 0, 0, b'a', 9, 0, 0, 0, b'b']);
        let error = Tensor::new(DataType::Bytes, Shape::new(&[2]), data).unwrap_err();
        assert_eq!(error, SizeMismatch::Prefix { element: 1, offset: 5, given: 10 });
    }

    #[test]
    fn strings_are_counted_against_the_shape() {
        let error = Tensor::from_strings(Shape::new(&[3]), ["a", ""]).unwrap_err();
        assert!(matches!(error, SizeMismatch::Elements { expected: 3, given: 2, .. }));
    }

    #[test]
    fn a_tensor_of_another_type_has_no_slice_and_no_strings() {
        let tensor = floats(&[2], &[1.0, 2.0]);
        assert_eq!(tensor.as_slice_of::<f32>(), Some([1.0, 2.0].as_slice()));
        assert_eq!(tensor.as_slice_of::<i32>(), None);
        assert_eq!(tensor.strings().count(), 0);
    }

    #[test]
    fn zeros_of_any_type_fit_their_shape() {
        for dtype in DataType::ALL {
            let tensor = Tensor::zeros(dtype, Shape::new(&[3, 5])).unwrap();
            assert_eq!(tensor.elements(), 15, "{dtype}");
        }
    }

    #[test]
    fn what_a_tensor_keeps_goes_with_the_last_of_its_parts() {
        let kept = Arc::new(());
        let whole = floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]).keeping(kept.clone());
        assert_eq!(whole.as_slice_of::<f32>(), Some([1.0, 2.0, 3.0, 4.0].as_slice()));
        let part = whole.slice_rows(1, 1).unwrap();
        drop(whole);
        assert_eq!(Arc::strong_count(&kept), 2);
        drop(part);
        assert_eq!(Arc::strong_count(&kept), 1);
    }

    #[test]
    fn parts_that_differ_do_not_join() {
        assert!(Tensor::concat([&floats(&[1, 2], &[0.0; 2]), &floats(&[1, 1], &[0.0])]).is_none());
        assert!(Tensor::concat([&floats(&[], &[0.0]), &floats(&[], &[0.0])]).is_none());
    }

    proptest! {
        #[test]
        fn slicing_what_was_joined_gives_the_parts(
            parts in prop::collection::vec(prop::collection::vec(any::<[f32; 3]>(), 0..4), 1..5),
        ) {
            let tensors: Vec<Tensor> =
                parts.iter().map(|rows| floats(&[rows.len(), 3], rows.as_flattened())).collect();
            let whole = Tensor::concat(&tensors).unwrap();
            let mut start = 0;
            for (part, tensor) in parts.iter().zip(&tensors) {
                let slice = whole.slice_rows(start, part.len()).unwrap();
                prop_assert_eq!(slice.shape(), tensor.shape());
                prop_assert_eq!(slice.to_bytes(), tensor.to_bytes());
                start += part.len();
            }
            prop_assert!(whole.slice_rows(start, 1).is_none());
        }

        #[test]
        fn strings_survive_joining_and_slicing(
            parts in prop::collection::vec(prop::collection::vec(any::<Vec<u8>>(), 0..4), 1..5),
        ) {
            let tensors: Vec<Tensor> = parts
                .iter()
                .map(|rows| Tensor::from_strings(Shape::new(&[rows.len()]), rows).unwrap())
                .collect();
            let whole = Tensor::concat(&tensors).unwrap();
            let all: Vec<&[u8]> = whole.strings().collect();
            prop_assert_eq!(all, parts.concat());
            let mut start = 0;
            for part in &parts {
                let slice = whole.slice_rows(start, part.len()).unwrap();
                let strings: Vec<&[u8]> = slice.strings().collect();
                prop_assert_eq!(&strings, part);
                start += part.len();
            }
        }
    }
}
