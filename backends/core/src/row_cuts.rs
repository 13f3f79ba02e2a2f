//! The rows of a tensor cut off from its front, part by part.

use bytes::Bytes;
use smallvec::SmallVec;

use crate::{shape::Shape, strings::Strings, tensor::Tensor};

/// Parts of a tensor, one behind the other. All of them together take O(bytes): [`Tensor::slice_rows`] looks for each
/// of them from the first row on.
#[derive(Debug)]
pub struct RowCuts<'a> {
    tensor: &'a Tensor,
    /// Elements of a row.
    per_row: usize,
    /// Rows that are left.
    left: usize,
    /// The strings that are left.
    strings: Strings<'a>,
    /// Segments that are left.
    segments: &'a [Bytes],
    /// Bytes of the first of them that are used up.
    used: usize,
}

impl<'a> RowCuts<'a> {
    /// All rows of that tensor. `None` where it is a scalar.
    pub fn of(tensor: &'a Tensor) -> Option<RowCuts<'a>> {
        // With a zero among them the other dimensions may be of any size: no byte is taken for a row then.
        let per_row = match tensor.elements() {
            0 => 0,
            _ => Shape::new(tensor.shape().inner()).elements()?,
        };
        Some(RowCuts {
            tensor,
            per_row,
            left: tensor.shape().rows()?,
            strings: tensor.strings(),
            segments: tensor.segments(),
            used: 0,
        })
    }

    /// The next so many rows, which share the tensor's buffers. `None` where fewer are left.
    pub fn next(&mut self, rows: usize) -> Option<Tensor> {
        self.left = self.left.checked_sub(rows)?;
        let elements = rows.checked_mul(self.per_row)?;
        let bytes = match self.tensor.dtype().size() {
            Some(size) => elements.checked_mul(size)?,
            None => self.strings.by_ref().take(elements).map(|it| it.len() + 4).sum(),
        };
        let (dtype, shape) = (self.tensor.dtype(), self.tensor.shape().with_rows(rows));
        Some(Tensor::of_segments(dtype, shape, self.bytes(bytes)))
    }

    /// The next so many bytes. At least one segment, which may be empty.
    fn bytes(&mut self, mut missing: usize) -> SmallVec<[Bytes; 1]> {
        let mut parts = SmallVec::new();
        while 0 < missing {
            let Some((first, rest)) = self.segments.split_first() else { break };
            let end = first.len().min(self.used.saturating_add(missing));
            if self.used < end {
                parts.push(first.slice(self.used..end));
                missing -= end - self.used;
            }
            self.used = end;
            if end == first.len() {
                (self.segments, self.used) = (rest, 0);
            }
        }
        if parts.is_empty() {
            parts.push(Bytes::new());
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::DataType;
    use proptest::prelude::*;

    #[track_caller]
    fn check(whole: &Tensor, parts: &[usize]) {
        let (mut cuts, mut start) = (RowCuts::of(whole).unwrap(), 0);
        for &rows in parts {
            let part = cuts.next(rows);
            let slice = whole.slice_rows(start, rows);
            let shown = |it: &Option<Tensor>| {
                it.as_ref().map(|it| (it.dtype(), it.shape().clone(), it.to_bytes()))
            };
            assert_eq!(shown(&part), shown(&slice));
            if part.is_none() {
                break;
            }
            start += rows;
        }
    }

    proptest! {
        #[test]
        fn parts_are_slices(
            pieces in prop::collection::vec(prop::collection::vec(any::<[u8; 3]>(), 0..5), 1..5),
            parts in prop::collection::vec(0_usize..5, 1..8),
        ) {
            let strings = pieces.iter().map(|rows| {
                let strings = rows.iter().flatten().map(|it| vec![b'a'; usize::from(*it)]);
                Tensor::from_strings(Shape::new(&[rows.len(), 3]), strings).unwrap()
            });
            check(&Tensor::concat(&strings.collect::<Vec<_>>()).unwrap(), &parts);
            let numbers = pieces.iter().map(|rows| {
                let numbers = rows.as_flattened().iter().map(|it| u16::from(*it)).collect();
                Tensor::from_vec(Shape::new(&[rows.len(), 3]), numbers).unwrap()
            });
            check(&Tensor::concat(&numbers.collect::<Vec<_>>()).unwrap(), &parts);
        }
    }

    #[test]
    fn rows_without_elements_are_parts_and_scalars_have_none() {
        for dims in [[3, 1 << 40, 1 << 40, 0].as_slice(), &[3, 0], &[0, 1 << 40, 1 << 40]] {
            let tensor = Tensor::new(DataType::Fp32, Shape::new(dims), Bytes::new()).unwrap();
            let rows = tensor.shape().rows().unwrap();
            let part = RowCuts::of(&tensor).unwrap().next(rows).unwrap();
            assert_eq!(part.shape(), tensor.shape());
        }
        let scalar = Tensor::from_vec(Shape::new(&[]), vec![1_u8]).unwrap();
        assert!(RowCuts::of(&scalar).is_none());
    }

    #[test]
    fn many_strings_are_cut_in_one_walk() {
        let strings = vec![""; 200_000];
        let tensor = Tensor::from_strings(Shape::new(&[strings.len()]), strings).unwrap();
        let begin = Instant::now();
        let mut cuts = RowCuts::of(&tensor).unwrap();
        assert_eq!(std::iter::from_fn(|| cuts.next(1)).count(), 200_000);
        // To walk from the first string for each part would be 20 billion steps.
        assert!(begin.elapsed() < Duration::from_secs(20));
    }
}
