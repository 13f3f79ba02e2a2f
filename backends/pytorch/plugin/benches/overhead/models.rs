//! The models of the bench, which `tch` traces.

use std::path::Path;

use tch::{CModule, Device, Kind, Tensor};

use crate::Outcome;

/// Writes the model of that name, which takes such an input.
pub(crate) fn save(name: &str, dims: &[i64], path: &Path) -> Outcome<()> {
    tch::manual_seed(1);
    let input = weights(dims);
    let module = match name {
        "mlp" => {
            let layers = [30, 256, 256, 2].map(|it: i64| it);
            let layers: Vec<(Tensor, Tensor)> = layers
                .windows(2)
                .map(|it| (weights(&[it[1], it[0]]) / 16, weights(&[it[1]])))
                .collect();
            traced(input, |x| {
                let mut x = x.shallow_clone();
                for (at, (weight, bias)) in layers.iter().enumerate() {
                    x = x.linear(weight, Some(bias));
                    x = if at + 1 < layers.len() { x.relu() } else { x };
                }
                x
            })?
        }
        _ => {
            let (first, second) = (weights(&[16, 3, 3, 3]) / 5, weights(&[32, 16, 3, 3]) / 12);
            let last = weights(&[10, 32]) / 6;
            traced(input, |x| {
                let none = None::<&Tensor>;
                let x = x.conv2d(&first, none, [1, 1], [0, 0], [1, 1], 1).relu();
                let x = x.conv2d(&second, none, [2, 2], [0, 0], [1, 1], 1).relu();
                x.mean_dim([2i64, 3].as_slice(), false, None).linear(&last, none)
            })?
        }
    };
    Ok(module.save(path)?)
}

fn weights(dims: &[i64]) -> Tensor {
    Tensor::randn(dims, (Kind::Float, Device::Cpu))
}

fn traced(input: Tensor, forward: impl Fn(&Tensor) -> Tensor) -> Outcome<CModule> {
    let mut forward = |inputs: &[Tensor]| vec![forward(&inputs[0])];
    Ok(CModule::create_by_tracing("Model", "forward", &[input], &mut forward)?)
}
