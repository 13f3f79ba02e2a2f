//! Trial runs of a module on zeros, for whoever finds out what it takes.

use std::time::{Duration, Instant};

use backend::{Shape, Tensor};

use crate::{
    outputs::Fact,
    probe::{Sample, Trial},
    runner::{RunError, Runner},
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
}

impl Trial for ModuleTrial {
    fn run(&mut self, samples: &[Sample]) -> Result<Vec<Fact>, String> {
        let zeros = samples.iter().map(|it| Tensor::zeros(it.dtype, Shape::new(&it.dims)));
        let zeros = zeros.collect::<Result<Vec<Tensor>, _>>().map_err(|it| it.to_string())?;
        let inputs: Vec<Option<&Tensor>> = zeros.iter().map(Some).collect();
        let produced = self.runner.run(&inputs).map_err(|it: RunError| it.line())?;
        let fact = |it: crate::native::Produced| Fact {
            key: it.key,
            dtype: it.dtype,
            dims: it.shape.dims().to_vec(),
        };
        Ok(produced.into_iter().map(fact).collect())
    }

    fn is_over(&self) -> bool {
        self.begun.elapsed() > LONGEST
    }
}
