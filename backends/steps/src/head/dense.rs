//! A Dense layer on one vector.

use crate::folder::{Activation, Dense, Residual};

/// `act(W·x + b)`, and the residual; `None` where `x` has not the length that the layer takes.
pub(crate) fn dense(layer: &Dense, x: &[f32]) -> Option<Vec<f32>> {
    if x.len() != layer.inputs {
        return None;
    }
    let mut y = product(&layer.weight, x);
    y.iter_mut().zip(&layer.bias).for_each(|(it, bias)| *it += bias);
    y.iter_mut().for_each(|it| *it = activate(layer.activation, *it));
    match &layer.residual {
        Residual::None => {}
        Residual::Input => y.iter_mut().zip(x).for_each(|(it, x)| *it += x),
        Residual::Matrix(weight) => {
            y.iter_mut().zip(product(weight, x)).for_each(|(it, x)| *it += x);
        }
    }
    Some(y)
}

/// A function of one value.
pub(crate) fn activate(activation: Activation, x: f32) -> f32 {
    match activation {
        Activation::Tanh => x.tanh(),
        Activation::Identity => x,
        Activation::Relu => x.max(0.0),
        Activation::Gelu => {
            let x = f64::from(x);
            (0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2))) as f32
        }
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Silu => x / (1.0 + (-x).exp()),
    }
}

/// A matrix, one row for each output, times a vector.
fn product(weight: &[f32], x: &[f32]) -> Vec<f32> {
    weight.chunks_exact(x.len().max(1)).map(|row| dot(row, x)).collect()
}

/// Eight sums side by side: several times as fast as one, and the same on every machine.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, rest_a), (b, rest_b)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0f32; 8];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = rest_a.iter().zip(rest_b).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

/// The error function, by a series without cancellation.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    let mut n = 1.0;
    while term.abs() > 1e-17 * sum.abs() {
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
        n += 1.0;
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(residual: Residual) -> Dense {
        Dense {
            folder: String::new(),
            inputs: 2,
            outputs: 2,
            weight: vec![1.0, 2.0, 3.0, 4.0],
            bias: vec![0.5, -0.5],
            activation: Activation::Identity,
            residual,
        }
    }

    #[test]
    fn a_layer_is_its_formula() {
        assert_eq!(dense(&layer(Residual::None), &[1.0, 10.0]), Some(vec![21.5, 42.5]));
        assert_eq!(dense(&layer(Residual::Input), &[1.0, 10.0]), Some(vec![22.5, 52.5]));
        let matrix = Residual::Matrix(vec![0.0, 1.0, 1.0, 0.0]);
        assert_eq!(dense(&layer(matrix), &[1.0, 10.0]), Some(vec![31.5, 43.5]));
        assert_eq!(dense(&layer(Residual::None), &[1.0]), None);
    }

    #[test]
    fn a_product_counts_what_is_left_behind_the_eights() {
        let x: Vec<f32> = (0..19).map(|it| it as f32).collect();
        assert_eq!(dot(&x, &x), 2109.0);
    }

    #[test]
    fn activations_have_the_values_of_the_reference() {
        // From torch.nn.functional, in FP32.
        let expect = [
            (Activation::Tanh, 0.761_594_2),
            (Activation::Identity, 1.0),
            (Activation::Relu, 1.0),
            (Activation::Gelu, 0.841_344_7),
            (Activation::Sigmoid, 0.731_058_6),
            (Activation::Silu, 0.731_058_6),
        ];
        for (activation, value) in expect {
            assert!((activate(activation, 1.0) - value).abs() < 1e-6, "{activation:?}");
        }
        assert!((activate(Activation::Gelu, -3.0) + 0.004_049_694).abs() < 1e-8);
        assert_eq!(activate(Activation::Gelu, -20.0), 0.0);
        assert_eq!(activate(Activation::Relu, -1.0), 0.0);
    }

    #[test]
    fn the_error_function_is_exact_to_ten_digits() {
        for (x, value) in
            [(0.5, 0.520_499_877_813), (2.0, 0.995_322_265_019), (4.0, 0.999_999_984_583)]
        {
            assert!((erf(x) - value).abs() < 1e-11, "{x}");
            assert_eq!(erf(-x), -erf(x));
        }
    }
}
