//! Trial runs of a module on zeros, for whoever finds out what it takes.

use std::time::{Duration, Instant};

use backend::{Shape, Tensor};

use crate::{
    compare::{example, is_close},
    native::Produced,
    outputs::Fact,
    probe::{Sample, Trial},
    runner::{Runner, take},
};

/// All trials of one model together, but for the run that passes it.
const LONGEST: Duration = Duration::from_secs(2);

pub(crate) struct ModuleTrial {
    runner: Runner,
    begun: Instant,
}

impl ModuleTrial {
    pub(crate) fn new(runner: Runner) -> ModuleTrial {
        ModuleTrial { runner, begun: Instant::now() }
    }

    fn answers(&mut self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let inputs: Vec<Option<&Tensor>> = inputs.iter().map(Some).collect();
        let produced = self.runner.run(&inputs).ok()?;
        produced.into_iter().map(|it| take(it, "").ok()).collect()
    }
}

impl Trial for ModuleTrial {
    fn run(&mut self, samples: &[Sample]) -> Result<Vec<Fact>, String> {
        let zeros = samples.iter().map(|it| Tensor::zeros(it.dtype, Shape::new(&it.dims)));
        let zeros = zeros.collect::<Result<Vec<Tensor>, _>>().map_err(|it| it.to_string())?;
        let inputs: Vec<Option<&Tensor>> = zeros.iter().map(Some).collect();
        let produced = self.runner.run(&inputs).map_err(|it| it.line())?;
        let fact =
            |it: Produced| Fact { key: it.key, dtype: it.dtype, dims: it.shape.dims().to_vec() };
        Ok(produced.into_iter().map(fact).collect())
    }

    fn rows_depend(&mut self, samples: &[Sample]) -> bool {
        let together = example(samples, false);
        let Some(whole) = self.answers(&together) else { return false };
        let rows = samples.iter().filter_map(|it| it.dims.first()).copied().min().unwrap_or(0);
        let row = |of: &[Tensor], at| of.iter().map(|it| it.slice_rows(at, 1)).collect();
        (0..rows).any(|at| {
            let alone: Option<Vec<Tensor>> = row(&together, at);
            let Some(alone) = alone.and_then(|it| self.answers(&it)) else { return false };
            let part: Option<Vec<Tensor>> = row(&whole, at);
            part.is_some_and(|it| !it.iter().zip(&alone).all(|(a, b)| is_close(a, b)))
        })
    }

    fn is_over(&self) -> bool {
        self.begun.elapsed() > LONGEST
    }
}
