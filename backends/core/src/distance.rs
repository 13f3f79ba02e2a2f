//! How far two answers are from each other that should be the same.

use half::{bf16, f16};

use crate::{DataType, Shape, Tensor};

/// How far apart two tensors are: the largest difference of two elements, as a part of the largest element of both.
/// Zero for equal ones. Infinite where types or shapes differ, or elements that are no measures: strings, truth values,
/// whole numbers of more than eight bits, which may be indices.
pub fn distance(a: &Tensor, b: &Tensor) -> f64 {
    if a.dtype() != b.dtype() || a.shape() != b.shape() {
        return f64::INFINITY;
    }
    let (left, right) = (a.to_bytes(), b.to_bytes());
    if left == right {
        return 0.0;
    }
    let (Some(left), Some(right)) = (measures(a), measures(b)) else { return f64::INFINITY };
    let largest = |of: &[f64]| {
        of.iter().filter(|it| it.is_finite()).fold(0.0, |most: f64, it| most.max(it.abs()))
    };
    let scale = largest(&left).max(largest(&right));
    let apart = left.iter().zip(&right).map(|(a, b)| match a == b || (a.is_nan() && b.is_nan()) {
        true => 0.0,
        // An infinity or NaN beside a number.
        false if !(a - b).is_finite() => f64::INFINITY,
        false => (a - b).abs() / scale,
    });
    apart.fold(0.0, f64::max)
}

/// The same, but each difference as a part of the larger of its two elements. Never less than [`distance`].
pub fn of_elements(a: &Tensor, b: &Tensor) -> f64 {
    let distance = distance(a, b);
    if distance == 0.0 || distance.is_infinite() {
        return distance;
    }
    let (Some(left), Some(right)) = (measures(a), measures(b)) else { return f64::INFINITY };
    let apart = left.iter().zip(&right).map(|(a, b)| match a == b || (a.is_nan() && b.is_nan()) {
        true => 0.0,
        false => (a - b).abs() / a.abs().max(b.abs()),
    });
    apart.fold(distance, f64::max)
}

/// The distance that is explained by sums whose terms were added in another order.
pub fn noise(dtype: DataType) -> f64 {
    match dtype {
        DataType::Fp64 => 1e-9,
        DataType::Fp32 => 1e-4,
        DataType::Fp16 => 1e-2,
        DataType::Bf16 => 5e-2,
        _ => 0.0,
    }
}

/// The elements as numbers whose differences mean something; `None` where they have no such meaning.
fn measures(tensor: &Tensor) -> Option<Vec<f64>> {
    let bytes = tensor.to_bytes();
    match tensor.dtype() {
        DataType::Uint8 => Some(bytes.iter().map(|it| f64::from(*it)).collect()),
        DataType::Int8 => Some(bytes.iter().map(|it| f64::from(it.cast_signed())).collect()),
        _ => floats(tensor),
    }
}

/// The elements of a tensor of floats; `None` for any other type.
pub fn floats(tensor: &Tensor) -> Option<Vec<f64>> {
    let bytes = tensor.to_bytes();
    Some(match tensor.dtype() {
        DataType::Fp64 => bytes.as_chunks().0.iter().map(|it| f64::from_le_bytes(*it)).collect(),
        DataType::Fp32 => {
            bytes.as_chunks().0.iter().map(|it| f64::from(f32::from_le_bytes(*it))).collect()
        }
        DataType::Bf16 => {
            bytes.as_chunks().0.iter().map(|it| bf16::from_le_bytes(*it).to_f64()).collect()
        }
        DataType::Fp16 => {
            bytes.as_chunks().0.iter().map(|it| f16::from_le_bytes(*it).to_f64()).collect()
        }
        _ => return None,
    })
}

/// A tensor of floats of these values; `None` for any other type, and for another number of values than the shape has.
pub fn of_floats(dtype: DataType, shape: Shape, values: &[f64]) -> Option<Tensor> {
    let bytes: Vec<u8> = match dtype {
        DataType::Fp64 => values.iter().flat_map(|it| it.to_le_bytes()).collect(),
        DataType::Fp32 => values.iter().flat_map(|it| (*it as f32).to_le_bytes()).collect(),
        DataType::Bf16 => values.iter().flat_map(|it| bf16::from_f64(*it).to_le_bytes()).collect(),
        DataType::Fp16 => values.iter().flat_map(|it| f16::from_f64(*it).to_le_bytes()).collect(),
        _ => return None,
    };
    Tensor::new(dtype, shape, bytes.into()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f32]) -> Tensor {
        Tensor::from_vec(Shape::new(&[values.len()]), values.to_vec()).unwrap()
    }

    #[test]
    fn a_distance_is_relative_to_the_largest_element() {
        let a = floats(&[1000.0, 0.001, f32::NAN, f32::INFINITY]);
        assert_eq!(distance(&a, &a), 0.0);
        let near = distance(&a, &floats(&[1000.01, 0.002, f32::NAN, f32::INFINITY]));
        assert!(0.0 < near && near < noise(DataType::Fp32), "{near}");
        let far = distance(&a, &floats(&[1001.0, 0.001, f32::NAN, f32::INFINITY]));
        assert!((1e-4..1e-2).contains(&far), "{far}");
    }

    #[test]
    fn a_distance_of_elements_is_relative_to_each() {
        let a = floats(&[1000.0, 0.001, f32::NAN]);
        assert_eq!(of_elements(&a, &a), 0.0);
        assert_eq!(of_elements(&a, &floats(&[1000.0, 0.002, f32::NAN])), 0.5);
        assert_eq!(of_elements(&a, &floats(&[1000.0, 0.001, 1.0])), f64::INFINITY);
    }

    #[test]
    fn what_cannot_be_compared_is_infinitely_far() {
        let a = floats(&[1.0, f32::NAN]);
        assert_eq!(distance(&a, &floats(&[1.0, 2.0])), f64::INFINITY);
        assert_eq!(distance(&a, &floats(&[1.0])), f64::INFINITY);
        let index = |it: i64| Tensor::from_vec(Shape::new(&[1]), vec![it]).unwrap();
        assert_eq!(distance(&index(1000), &index(1001)), f64::INFINITY);
    }

    #[test]
    fn steps_of_a_quantised_output_are_measures() {
        let steps = |it: i8| Tensor::from_vec(Shape::new(&[2]), vec![it, -100]).unwrap();
        assert_eq!(distance(&steps(50), &steps(49)), 0.01);
    }

    #[test]
    fn floats_of_every_type_are_read_as_they_were_written() {
        for dtype in [DataType::Fp16, DataType::Bf16, DataType::Fp32, DataType::Fp64] {
            let tensor = of_floats(dtype, Shape::new(&[2]), &[0.5, -2.0]).unwrap();
            assert_eq!(super::floats(&tensor).unwrap(), [0.5, -2.0], "{dtype}");
        }
        assert!(of_floats(DataType::Int8, Shape::new(&[1]), &[1.0]).is_none());
    }
}
