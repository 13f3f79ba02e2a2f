//! Rewriting a module to be faster, as long as its answers stay what they were.

use std::{path::Path, sync::Arc};

use backend::{DataType, Shape, Tensor};
use bytes::Bytes;

use crate::{
    native::{Module, Produced},
    options::Rewrite,
    probe::Sample,
    runner::{Runner, take},
};

/// The executor compiles in the first two runs, so that the third is as fast as any.
const WARM_UP: usize = 3;

/// `module`, or a rewritten form of it that gives the same answers, after some runs. Without a sample that the
/// module takes nothing can be compared, and it stays as it is.
pub(crate) fn faster(
    module: Arc<Module>,
    wanted: Rewrite,
    sample: Option<&[Sample]>,
    runner: &dyn Fn(Arc<Module>) -> Runner,
    path: &Path,
) -> Arc<Module> {
    let Some(sample) = sample else { return module };
    let examples = [example(sample, true), example(sample, false)];
    let run = |module: &Arc<Module>| answers(&mut runner(module.clone()), &examples);
    let expected = run(&module);
    for (level, name) in [(Rewrite::Inference, "optimised"), (Rewrite::Freeze, "frozen")] {
        // Where not even the module itself takes an example, or it draws lots, nothing can be compared.
        if wanted < level || expected.is_none() {
            continue;
        }
        let problem = match module.optimize(level == Rewrite::Inference).map(Arc::new) {
            Err(failure) => crate::error::useful_line(&failure.text),
            Ok(faster) => match run(&faster) {
                Some(given) if same(expected.as_deref(), &given) => return faster,
                _ => "its answers differ".to_owned(),
            },
        };
        tracing::debug!(model = %path.display(), "the module is not used {name}: {problem}");
    }
    module
}

/// All answers to the examples, run as often as makes the module warm; `None` where it takes neither.
fn answers(runner: &mut Runner, examples: &[Vec<Tensor>]) -> Option<Vec<Tensor>> {
    let mut answers = Vec::new();
    for example in examples {
        let inputs: Vec<Option<&Tensor>> = example.iter().map(Some).collect();
        let mut last = None;
        for _ in 0..WARM_UP {
            last = runner.run(&inputs).ok();
        }
        answers.extend(last.into_iter().flatten().filter_map(tensor));
    }
    (!answers.is_empty()).then_some(answers)
}

fn tensor(produced: Produced) -> Option<Tensor> {
    take(produced, "").ok()
}

/// Inputs of those types and shapes: zeros, or, for floats and truth values, numbers without a pattern.
/// Integers stay zero, as they may be numbers of rows in a table.
fn example(sample: &[Sample], zeros: bool) -> Vec<Tensor> {
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
            // The upper half of a float is a float.
            DataType::Bf16 => (0..elements)
                .flat_map(|_| {
                    let [_, _, low, high] = float().to_le_bytes();
                    [low, high]
                })
                .collect(),
            // From 0.5 to 1, which has one exponent.
            DataType::Fp16 => (0..elements)
                .flat_map(|_| (0x3800 | (next() & 0x3FF) as u16).to_le_bytes())
                .collect(),
            DataType::Bool => (0..elements).map(|_| (next() & 1) as u8).collect(),
            _ => return Tensor::zeros(it.dtype, shape).ok(),
        };
        Tensor::new(it.dtype, shape, Bytes::from(bytes)).ok()
    };
    sample.iter().filter_map(tensor).collect()
}

fn same(expected: Option<&[Tensor]>, given: &[Tensor]) -> bool {
    let Some(expected) = expected else { return false };
    expected.len() == given.len() && expected.iter().zip(given).all(|(a, b)| is_close(a, b))
}

/// Are these the same, but for the order in which sums were taken?
fn is_close(a: &Tensor, b: &Tensor) -> bool {
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
            let number = |&[low, high]: &[u8; 2]| f32::from_le_bytes([0, 0, low, high]);
            bytes.as_chunks().0.iter().map(|it| f64::from(number(it))).collect()
        }
        _ => bytes.as_chunks().0.iter().map(|it| half(u16::from_le_bytes(*it))).collect(),
    }
}

/// The number of an IEEE half.
fn half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1F), f64::from(bits & 0x3FF));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
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
    fn halves_are_read() {
        let read: Vec<f64> = [0x3C00, 0xC000, 0x0001, 0x7C00].into_iter().map(half).collect();
        assert_eq!(read, [1.0, -2.0, 2f64.powi(-24), f64::INFINITY]);
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
