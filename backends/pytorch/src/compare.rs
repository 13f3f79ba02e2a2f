//! Inputs to compare answers on, and when answers are the same. Pure.

use backend::{
    DataType, Shape, Tensor,
    distance::{distance, noise},
};
use bytes::Bytes;
use half::{bf16, f16};
use smallvec::SmallVec;

use crate::probe::Sample;

/// Inputs of those types and shapes: zeros, or, for floats and truth values, numbers without a pattern.
/// Integers stay zero, as they may be numbers of rows in a table.
pub(crate) fn example(sample: &[Sample], zeros: bool) -> Vec<Tensor> {
    let mut next = numbers_from(1);
    let tensor = |it: &Sample| {
        let shape = Shape::new(&it.dims);
        let elements = shape.elements()?;
        let bytes: Vec<u8> = match it.dtype {
            _ if zeros => return Tensor::zeros(it.dtype, shape).ok(),
            DataType::Fp32 | DataType::Fp64 | DataType::Bf16 | DataType::Fp16 => {
                (0..elements).flat_map(|_| float_bytes(it.dtype, unit(next()))).collect()
            }
            DataType::Bool => (0..elements).map(|_| (next() & 1) as u8).collect(),
            _ => return Tensor::zeros(it.dtype, shape).ok(),
        };
        Tensor::new(it.dtype, shape, Bytes::from(bytes)).ok()
    };
    sample.iter().filter_map(tensor).collect()
}

/// Numbers of 24 bits, as in "Numerical Recipes": good enough to have no two alike.
fn numbers_from(seed: u32) -> impl FnMut() -> u32 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    }
}

/// A number of 24 bits as one between minus one and one.
fn unit(number: u32) -> f32 {
    number as f32 / (1 << 23) as f32 - 1.0
}

/// As many examples there are of rows that differ.
pub(crate) const ROUNDS: u32 = 4;

/// Inputs of those types and shapes, no row of which is as the one before or after it. Floats have no pattern,
/// and each row of an even round is there with the other sign in the next. Integers, truth values and lengths
/// of strings are zero or one, as few modules take every other number: in even rounds all rows have both, in odd
/// ones a row has one of them. `None` where that cannot be addressed.
pub(crate) fn differing_rows(samples: &[Sample], round: u32) -> Option<Vec<Tensor>> {
    let sign = if round.is_multiple_of(2) { 1.0 } else { -1.0 };
    let mut next = numbers_from(1 + round / 2);
    let mut input = 2;
    let mut tensor = |it: &Sample| {
        let shape = Shape::new(&it.dims);
        let elements = shape.elements()?;
        let width: usize = it.dims.iter().skip(1).product();
        input += 1;
        let bit = |at: usize| {
            let (row, column) = (at / width.max(1), at % width.max(1));
            let mixed = round.is_multiple_of(2) && column.is_multiple_of(input);
            (row + usize::from(mixed)) % 2
        };
        let bits = 0..elements;
        let bytes: Vec<u8> = match it.dtype {
            DataType::Fp32 | DataType::Fp64 | DataType::Bf16 | DataType::Fp16 => {
                bits.flat_map(|_| float_bytes(it.dtype, sign * unit(next()))).collect()
            }
            DataType::Bytes => {
                return Tensor::from_strings(shape, bits.map(|at| ["", "a"][bit(at)])).ok();
            }
            dtype => {
                let size = dtype.size()?;
                bits.flat_map(|at| (bit(at) as u64).to_le_bytes().into_iter().take(size)).collect()
            }
        };
        Tensor::new(it.dtype, shape, Bytes::from(bytes)).ok()
    };
    samples.iter().map(&mut tensor).collect()
}

fn float_bytes(dtype: DataType, value: f32) -> SmallVec<[u8; 8]> {
    match dtype {
        DataType::Fp64 => SmallVec::from_slice(&f64::from(value).to_le_bytes()),
        DataType::Bf16 => SmallVec::from_slice(&bf16::from_f32(value).to_le_bytes()),
        DataType::Fp16 => SmallVec::from_slice(&f16::from_f32(value).to_le_bytes()),
        _ => SmallVec::from_slice(&value.to_le_bytes()),
    }
}

/// Are these the same, but for the order in which sums were taken?
pub(crate) fn is_close(a: &Tensor, b: &Tensor) -> bool {
    distance(a, b) <= noise(a.dtype())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f32]) -> Tensor {
        Tensor::from_vec(Shape::new(&[values.len()]), values.to_vec()).unwrap()
    }

    #[test]
    fn answers_are_the_same_up_to_the_order_of_sums() {
        let a = floats(&[1000.0, 0.001, f32::NAN, f32::INFINITY]);
        assert!(is_close(&a, &floats(&[1000.01, 0.002, f32::NAN, f32::INFINITY])));
        assert!(!is_close(&a, &floats(&[1001.0, 0.001, f32::NAN, f32::INFINITY])));
        assert!(!is_close(&a, &floats(&[1000.0, 0.001, 0.0, f32::INFINITY])));
        assert!(!is_close(&a, &floats(&[1000.0])));
    }

    #[test]
    fn rows_that_differ_differ_in_every_type_and_in_both_orders() {
        for dtype in DataType::ALL {
            let samples = [Sample { dtype, dims: vec![3, 5] }];
            let rows = |round| {
                let whole = differing_rows(&samples, round).unwrap().remove(0);
                [0, 1, 2].map(|at| whole.slice_rows(at, 1).unwrap().to_bytes())
            };
            for [a, b, c] in (0..ROUNDS).map(rows) {
                assert!(a != b && b != c, "{dtype}");
            }
        }
        let ids = [Sample { dtype: DataType::Int64, dims: vec![2, 1] }];
        let first = |round| differing_rows(&ids, round).unwrap()[0].to_bytes()[0];
        assert_eq!((first(0), first(1)), (1, 0));
    }

    #[test]
    fn examples_of_every_type_have_their_shape_and_floats_are_between_minus_one_and_one() {
        for dtype in DataType::ALL {
            let sample = [Sample { dtype, dims: vec![3, 5] }];
            let tensor = example(&sample, false).remove(0);
            assert_eq!((tensor.dtype(), tensor.elements()), (dtype, 15));
            if let DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64 = dtype {
                let numbers = backend::distance::floats(&tensor).unwrap();
                assert!(numbers.iter().all(|it| it.abs() <= 1.0), "{dtype}: {numbers:?}");
                assert_ne!(numbers[0], numbers[1], "{dtype}");
            }
        }
    }
}
