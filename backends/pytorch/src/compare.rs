//! Inputs to compare answers on, and when answers are the same. Pure.

use backend::{DataType, Shape, Tensor};
use bytes::Bytes;
use half::{bf16, f16};

use crate::probe::Sample;

/// Inputs of those types and shapes: zeros, or, for floats and truth values, numbers without a pattern.
/// Integers stay zero, as they may be numbers of rows in a table.
pub(crate) fn example(sample: &[Sample], zeros: bool) -> Vec<Tensor> {
    let mut state = 1u32;
    // As in "Numerical Recipes": good enough to have no two elements alike.
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    };
    let tensor = |it: &Sample| {
        let shape = Shape::new(&it.dims);
        let elements = shape.elements()?;
        let mut float = || next() as f32 / (1 << 23) as f32 - 1.0;
        let bytes: Vec<u8> = match it.dtype {
            _ if zeros => return Tensor::zeros(it.dtype, shape).ok(),
            DataType::Fp32 => (0..elements).flat_map(|_| float().to_le_bytes()).collect(),
            DataType::Fp64 => {
                (0..elements).flat_map(|_| f64::from(float()).to_le_bytes()).collect()
            }
            DataType::Bf16 => {
                (0..elements).flat_map(|_| bf16::from_f32(float()).to_le_bytes()).collect()
            }
            DataType::Fp16 => {
                (0..elements).flat_map(|_| f16::from_f32(float()).to_le_bytes()).collect()
            }
            DataType::Bool => (0..elements).map(|_| (next() & 1) as u8).collect(),
            _ => return Tensor::zeros(it.dtype, shape).ok(),
        };
        Tensor::new(it.dtype, shape, Bytes::from(bytes)).ok()
    };
    sample.iter().filter_map(tensor).collect()
}

/// Are these the same, but for the order in which sums were taken?
pub(crate) fn is_close(a: &Tensor, b: &Tensor) -> bool {
    if a.dtype() != b.dtype() || a.shape() != b.shape() {
        return false;
    }
    let tolerance = match a.dtype() {
        DataType::Fp64 => 1e-9,
        DataType::Fp32 => 1e-4,
        DataType::Fp16 => 1e-2,
        DataType::Bf16 => 5e-2,
        _ => return a.to_bytes() == b.to_bytes(),
    };
    let (a, b) = (numbers(a), numbers(b));
    // What is small beside the largest is a difference of large ones, and no better than they are.
    let largest =
        a.iter().filter(|it| it.is_finite()).fold(0.0, |most: f64, it| most.max(it.abs()));
    a.iter().zip(&b).all(|(a, b)| {
        let equal = a == b || (a.is_nan() && b.is_nan());
        equal || (a - b).abs() <= tolerance * largest
    })
}

/// The elements of a tensor of floats.
fn numbers(tensor: &Tensor) -> Vec<f64> {
    let bytes = tensor.to_bytes();
    match tensor.dtype() {
        DataType::Fp64 => bytes.as_chunks().0.iter().map(|it| f64::from_le_bytes(*it)).collect(),
        DataType::Fp32 => {
            bytes.as_chunks().0.iter().map(|it| f64::from(f32::from_le_bytes(*it))).collect()
        }
        DataType::Bf16 => {
            bytes.as_chunks().0.iter().map(|it| bf16::from_le_bytes(*it).to_f64()).collect()
        }
        _ => bytes.as_chunks().0.iter().map(|it| f16::from_le_bytes(*it).to_f64()).collect(),
    }
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
    fn examples_of_every_type_have_their_shape_and_floats_are_between_minus_one_and_one() {
        for dtype in DataType::ALL {
            let sample = [Sample { dtype, dims: vec![3, 5] }];
            let tensor = example(&sample, false).remove(0);
            assert_eq!((tensor.dtype(), tensor.elements()), (dtype, 15));
            if let DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64 = dtype {
                let numbers = numbers(&tensor);
                assert!(numbers.iter().all(|it| it.abs() <= 1.0), "{dtype}: {numbers:?}");
                assert_ne!(numbers[0], numbers[1], "{dtype}");
            }
        }
    }
}
