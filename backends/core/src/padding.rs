//! Rows of unequal length as one tensor: each is filled up with a value that stands for nothing.

use bytes::Bytes;
use smallvec::SmallVec;

use crate::{DataType, Shape, Tensor};

/// Values that lie ready; a longer gap takes several such pieces.
const READY: usize = 512;

/// On which side of a row its padding stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaddingSide {
    /// Before its elements.
    Left,
    /// Behind them.
    Right,
}

/// What rows of one input are filled up with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filler {
    dtype: DataType,
    side: PaddingSide,
    /// The value, many times.
    values: Bytes,
}

impl Filler {
    /// Fills up with that value, in that type. `None` for types that hold no whole numbers of 32 or 64 bits.
    pub fn new(dtype: DataType, value: i64, side: PaddingSide) -> Option<Filler> {
        let one = match dtype {
            DataType::Int64 => value.to_le_bytes().to_vec(),
            DataType::Int32 => i32::try_from(value).ok()?.to_le_bytes().to_vec(),
            _ => return None,
        };
        Some(Filler { dtype, side, values: one.repeat(READY).into() })
    }

    /// The rows of these tensors `[rows, elements]`, one below the other, each filled up to `length` elements. Copies
    /// nothing. O(rows).
    ///
    /// `None` for no parts, and for parts that are longer than that, have other dimensions or another type.
    pub fn concat<'a>(
        &self,
        parts: impl IntoIterator<Item = &'a Tensor>,
        length: usize,
    ) -> Option<Tensor> {
        let size = self.dtype.size()?;
        let (mut rows, mut segments) = (0usize, SmallVec::new());
        for part in parts {
            let &[own_rows, own_length] = part.shape().dims() else { return None };
            let missing = length.checked_sub(own_length)?.checked_mul(size)?;
            if part.dtype() != self.dtype {
                return None;
            }
            rows = rows.checked_add(own_rows)?;
            for row in 0..own_rows {
                let row = part.slice_rows(row, 1)?;
                let own = row.segments().iter().filter(|it| !it.is_empty()).cloned();
                match self.side {
                    PaddingSide::Left => {
                        segments.extend(self.pieces(missing));
                        segments.extend(own);
                    }
                    PaddingSide::Right => {
                        segments.extend(own);
                        segments.extend(self.pieces(missing));
                    }
                }
            }
        }
        if rows == 0 {
            return None;
        }
        Some(Tensor::of_segments(self.dtype, Shape::new(&[rows, length]), segments))
    }

    /// So many bytes of padding.
    fn pieces(&self, bytes: usize) -> impl Iterator<Item = Bytes> {
        let ready = self.values.len();
        let starts = (0..bytes).step_by(ready);
        starts.map(move |from| self.values.slice(..ready.min(bytes - from)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(shape: &[usize], first: i64) -> Tensor {
        let shape = Shape::new(shape);
        let values = (first..).take(shape.elements().unwrap()).collect();
        Tensor::from_vec::<i64>(shape, values).unwrap()
    }

    fn numbers(tensor: &Tensor) -> Vec<i64> {
        let bytes = tensor.to_bytes();
        bytes.as_chunks().0.iter().map(|it| i64::from_le_bytes(*it)).collect()
    }

    #[track_caller]
    fn check(side: PaddingSide, parts: &[Tensor], length: usize, expected: &[i64]) {
        let filler = Filler::new(DataType::Int64, 9, side).unwrap();
        let whole = filler.concat(parts, length).unwrap();
        assert_eq!(whole.shape().dims()[1], length);
        assert_eq!(numbers(&whole), expected);
    }

    #[test]
    fn each_row_is_filled_up_on_its_side() {
        let parts = [rows(&[1, 2], 1), rows(&[2, 1], 5), rows(&[1, 3], 7)];
        check(PaddingSide::Right, &parts, 3, &[1, 2, 9, 5, 9, 9, 6, 9, 9, 7, 8, 9]);
        check(PaddingSide::Left, &parts, 3, &[9, 1, 2, 9, 9, 5, 9, 9, 6, 7, 8, 9]);
    }

    #[test]
    fn a_gap_may_be_longer_than_what_lies_ready() {
        let expected: Vec<i64> = [1].into_iter().chain(vec![9; 3 * READY]).collect();
        check(PaddingSide::Right, &[rows(&[1, 1], 1)], 3 * READY + 1, &expected);
    }

    #[test]
    fn what_does_not_fit_is_not_put_together() {
        let filler = Filler::new(DataType::Int64, 0, PaddingSide::Right).unwrap();
        assert!(filler.concat(&[rows(&[1, 4], 0)], 3).is_none());
        assert!(filler.concat(&[rows(&[1, 2, 2], 0)], 4).is_none());
        let other = Tensor::from_vec::<i32>(Shape::new(&[1, 2]), vec![1, 2]).unwrap();
        assert!(filler.concat(&[other], 2).is_none());
        assert!(filler.concat(&[], 2).is_none());
        assert!(Filler::new(DataType::Fp32, 0, PaddingSide::Left).is_none());
        assert!(Filler::new(DataType::Int32, i64::MAX, PaddingSide::Left).is_none());
    }

    #[test]
    fn a_padded_run_is_cut_into_rows_again() {
        let filler = Filler::new(DataType::Int64, 0, PaddingSide::Right).unwrap();
        let whole = filler.concat(&[rows(&[1, 1], 4), rows(&[1, 3], 6)], 3).unwrap();
        assert_eq!(numbers(&whole.slice_rows(1, 1).unwrap()), [6, 7, 8]);
    }
}
