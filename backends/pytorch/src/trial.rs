//! Trial runs of a module, which show what inputs it takes.

use std::time::{Duration, Instant};

use backend::{DataType, Shape, Tensor};

use crate::{
    compare::{ROUNDS, differing_rows, is_close},
    error::TrialError,
    interface::ParameterKind,
    native::Produced,
    outputs::Fact,
    probe::{Sample, Trial},
    runner::{Runner, take},
};

/// All trials of one model together, but for the run that passes it.
const LONGEST: Duration = Duration::from_secs(2);

/// So many examples of rows are compared in any case, if the module takes them.
const LEAST: u32 = 2;

/// The values that a run gave; `None` for one that cannot be served.
type Answers = Vec<Option<Tensor>>;

pub(crate) struct ModuleTrial {
    runner: Runner,
    begun: Instant,
}

impl ModuleTrial {
    pub(crate) fn new(runner: Runner) -> ModuleTrial {
        ModuleTrial { runner, begun: Instant::now() }
    }

    fn answers(&mut self, inputs: &[Tensor]) -> Option<Answers> {
        let inputs: Vec<Option<&Tensor>> = inputs.iter().map(Some).collect();
        let produced = self.runner.run(&inputs).ok()?;
        Some(produced.into_iter().map(|it| take(it, "").ok()).collect())
    }

    /// Is each row of `whole`, the answers to `together`, what the row would get alone?
    fn compare(
        &mut self,
        together: &[Tensor],
        whole: &Answers,
        rows: usize,
        outputs: &[usize],
    ) -> Result<(), TrialError> {
        let given = |of: &Answers, at: usize, rows| {
            let answer = of.get(at).cloned().flatten();
            answer.filter(|it| it.shape().rows() == Some(rows))
        };
        for row in 0..rows {
            let alone: Option<Vec<Tensor>> =
                together.iter().map(|it| it.slice_rows(row, 1)).collect();
            let Some(alone) = alone.and_then(|it| self.answers(&it)) else {
                return Err(TrialError::new(
                    "it takes several rows, and does not take one of them alone",
                ));
            };
            for &at in outputs {
                let (Some(whole), Some(alone)) = (given(whole, at, rows), given(&alone, at, 1))
                else {
                    return Err(TrialError::new(
                        "how many rows it answers depends on the numbers in them",
                    ));
                };
                if !whole.slice_rows(row, 1).is_some_and(|it| is_close(&it, &alone)) {
                    return Err(TrialError::new(
                        "what it answers for a row depends on the other rows, or on chance",
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Trial for ModuleTrial {
    fn run(&mut self, samples: &[Sample]) -> Result<Vec<Fact>, TrialError> {
        let given = samples.iter().zip(self.runner.inputs()).map(|(sample, input)| {
            let shape = Shape::new(&sample.dims);
            // A number is often a count or a divisor, for which zero says little.
            match input.kind {
                ParameterKind::Int => Tensor::from_vec(shape, vec![1_i64]),
                ParameterKind::Float if sample.dtype == DataType::Fp32 => {
                    Tensor::from_vec(shape, vec![1_f32])
                }
                ParameterKind::Float => Tensor::from_vec(shape, vec![1_f64]),
                _ => Tensor::zeros(sample.dtype, shape),
            }
        });
        let given = given.collect::<Result<Vec<Tensor>, _>>().map_err(TrialError::new)?;
        let inputs: Vec<Option<&Tensor>> = given.iter().map(Some).collect();
        let produced = self.runner.run(&inputs).map_err(|it| TrialError::new(it.line()))?;
        let fact =
            |it: Produced| Fact { key: it.key, dtype: it.dtype, dims: it.shape.dims().to_vec() };
        Ok(produced.into_iter().map(fact).collect())
    }

    fn rows_are_apart(&mut self, samples: &[Sample], outputs: &[usize]) -> Result<(), TrialError> {
        let rows = samples.iter().filter_map(|it| it.dims.first()).copied().min().unwrap_or(0);
        let mut compared = 0;
        for round in 0..ROUNDS {
            // What a batch is must not depend on how busy the machine is.
            if compared >= LEAST && self.is_over() {
                break;
            }
            // Of numbers that it does not take nothing follows.
            let together = differing_rows(samples, round);
            let Some((together, whole)) = together.and_then(|it| {
                let whole = self.answers(&it)?;
                Some((it, whole))
            }) else {
                continue;
            };
            self.compare(&together, &whole, rows, outputs)?;
            compared += 1;
        }
        match compared {
            0 => Err(TrialError::new(
                "it does not take rows that differ (of numbers between -1 and 1, or of zeros and \
                 ones), so that it cannot be told whether they depend on each other",
            )),
            _ => Ok(()),
        }
    }

    fn is_over(&self) -> bool {
        self.begun.elapsed() > LONGEST
    }

    fn is_long_over(&self) -> bool {
        self.begun.elapsed() > LONGEST * 5
    }
}
