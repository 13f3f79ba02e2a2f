//! An instance, and rows to try it with: each is run alone, and what came of that is kept.

use std::time::{Duration, Instant};

use backend::{BackendError, Batch, Instance, NamedTensor, Tensor};

use super::evidence::{Answers, Evidence, evidence};
use crate::load::{
    run_limit::RunLimit,
    sample_rows::{Loudness, Recipe},
};
use inference::signature::Signature;
use schedule::work::Work;
use serving::config::model::ModelConfig;

/// No further sizes and no numbers of another kind once the runs have taken so long. The first proof takes its time.
pub(super) const BUDGET: Duration = Duration::from_millis(20);

/// The rows that are tried.
pub(super) const ROWS: [Loudness; 7] = [
    Loudness::Ordinary,
    Loudness::Ordinary,
    Loudness::Silent,
    Loudness::Quiet,
    Loudness::Sparse,
    Loudness::Loud,
    Loudness::Extreme,
];

/// Rows that a recipe has to have, and that are looked at first: they are ordinary.
pub(super) const NEEDED: usize = 2;

/// Where a row that is so much louder takes so many times longer, what it says is how much there is to do. No row that
/// is louder still is made.
pub(super) const LONGER: u32 = 8;
pub(super) const MUCH: Duration = Duration::from_millis(2);

/// The loudest row is ended after so much longer than others have taken: times are a guess, and a row that says how
/// much there is to do may run for ever.
pub(super) const LONGEST_EXTREME: Duration = Duration::from_millis(500);

/// Why rows have not been found to be independent.
pub(super) enum TrialFailure {
    /// They are not; a sentence.
    Dependent(String),
    /// There are no rows: an output's first dimension is something else; a sentence.
    NoBatch(String),
    /// The engine did not take them.
    Engine(BackendError),
    /// They could not be made.
    NoRow,
}

/// Rows of one recipe, and how each was answered alone.
pub(super) struct Kind {
    pub(super) recipe: Recipe,
    pub(super) rows: Vec<(Loudness, Work)>,
    pub(super) alone: Vec<Answers>,
    pub(super) evidence: Evidence,
    /// How long a row of no large numbers took alone, at least.
    pub(super) usual: Duration,
    /// Did a louder row take much longer, or have answers of another shape? Then its numbers say how much there is to
    /// do.
    pub(super) grows: bool,
}

/// An instance, and what its rows are tried with.
pub(super) struct Tried<'a> {
    pub(super) instance: &'a mut dyn Instance,
    pub(super) signature: &'a Signature,
    pub(super) config: &'a ModelConfig,
    pub(super) limit: &'a RunLimit,
    pub(super) started: Instant,
    /// Has the loudest row of a recipe been ended before its time? Then no other is made.
    pub(super) is_endless: bool,
    /// What the rows have taken that are tried for however long it takes.
    pub(super) unbudgeted: Duration,
}

impl Tried<'_> {
    /// Have the runs taken so long that the load itself might end? A model whose rows are not proved by then serves.
    pub(super) fn is_late(&self) -> bool {
        self.limit.part(2) < self.started.elapsed()
    }

    /// Ends the trial where it is late.
    pub(super) fn check_time(&self) -> Result<(), TrialFailure> {
        match self.is_late() {
            true => Err(TrialFailure::Dependent("to try its rows takes too long".to_owned())),
            false => Ok(()),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        BUDGET + self.unbudgeted < self.started.elapsed()
    }

    /// Runs each row of that recipe alone. The first ones have to be taken; others that are not are left out.
    pub(super) fn alone(&mut self, recipe: Recipe) -> Result<Kind, TrialFailure> {
        let (mut rows, mut alone): (Vec<(Loudness, Work)>, Vec<Answers>) = Default::default();
        let (mut usual, mut is_longer) = (Duration::MAX, self.is_endless);
        let (mut longest, mut grows) = (Duration::ZERO, self.is_endless);
        for (number, loudness) in (0..).zip(ROWS) {
            if loudness == Loudness::Extreme && is_longer {
                continue;
            }
            let row = recipe.row(number, loudness, self.signature, self.config);
            let answered = row.ok_or(TrialFailure::NoRow).and_then(|row| {
                if loudness == Loudness::Extreme {
                    let most = longest.saturating_mul(LONGER) + LONGEST_EXTREME;
                    let limit = self.limit.at_most(most).map_err(TrialFailure::Engine)?;
                    let answers = self.run_within(&[&row], &limit);
                    self.is_endless = limit.check().is_err();
                    grows |= self.is_endless;
                    return Ok((row, answers?));
                }
                let started = Instant::now();
                let answers = self.run(&[&row])?;
                let mut took = started.elapsed();
                longest = longest.max(took);
                if loudness == Loudness::Loud {
                    let is_much = |took: Duration| usual.saturating_mul(LONGER) + MUCH < took;
                    if is_much(took) {
                        // It may have waited for a processor.
                        let started = Instant::now();
                        self.run(&[&row])?;
                        took = started.elapsed().min(took);
                    }
                    is_longer = is_much(took) || !has_shape_of(&answers, alone.first());
                    grows |= is_longer;
                } else {
                    usual = usual.min(took);
                }
                Ok((row, answers))
            });
            match answered {
                Ok((row, answers)) => {
                    rows.push((loudness, row));
                    alone.push(answers);
                }
                // Others would end the next process as well.
                Err(TrialFailure::Engine(
                    error @ (BackendError::Device(_) | BackendError::Crashed(_)),
                )) => return Err(TrialFailure::Engine(error)),
                Err(failure) if rows.len() < NEEDED => return Err(failure),
                Err(_) => is_longer |= loudness == Loudness::Loud,
            }
            // They do not get better by more rows, if the first are no numbers.
            if rows.len() == NEEDED && evidence(&alone, NEEDED).is_of_no_numbers() {
                break;
            }
        }
        let evidence = evidence(&alone, NEEDED);
        Ok(Kind { recipe, rows, alone, evidence, usual, grows })
    }

    /// Runs these rows together: as many rows of every output.
    pub(super) fn run(&mut self, rows: &[&Work]) -> Result<Answers, TrialFailure> {
        self.run_within(rows, self.limit)
    }

    /// The same within a limit of its own.
    pub(super) fn run_within(
        &mut self,
        rows: &[&Work],
        limit: &RunLimit,
    ) -> Result<Answers, TrialFailure> {
        let outputs = rows.first().map(|it| it.outputs.as_slice()).unwrap_or_default();
        let columns = rows.first().map(|it| it.inputs.as_slice()).unwrap_or_default();
        let column = |(at, input): (usize, &NamedTensor)| {
            let parts = rows.iter().filter_map(|it| it.inputs.get(at)).map(|it| &it.tensor);
            let tensor = Tensor::concat(parts)?;
            Some(NamedTensor { name: input.name.clone(), tensor })
        };
        let inputs: Option<Vec<NamedTensor>> = columns.iter().enumerate().map(column).collect();
        let inputs = &inputs.ok_or(TrialFailure::NoRow)?;
        let batch = Batch {
            inputs,
            outputs,
            rows: rows.len(),
            signature: self.signature.index(),
            stop: limit.stop(),
        };
        let answers = self.instance.execute(&batch);
        // One that was stopped may have answered something.
        limit.check().map_err(TrialFailure::Engine)?;
        let answers = answers.map_err(TrialFailure::Engine)?;
        let in_order = outputs.iter().map(|name| {
            let answer = answers.iter().find(|it| it.name == *name);
            let answer = answer.ok_or(TrialFailure::NoRow)?;
            if answer.tensor.shape().rows() != Some(rows.len()) {
                let (shape, given) = (answer.tensor.shape(), rows.len());
                let count = if given == 1 { "1 row".to_owned() } else { format!("{given} rows") };
                return Err(TrialFailure::NoBatch(format!(
                    "its first dimension is no batch: output '{name}' has the shape {shape} for {count}"
                )));
            }
            Ok(answer.clone())
        });
        in_order.collect::<Result<_, _>>().map(Answers)
    }
}

/// Have both outputs of the same shapes?
pub(super) fn has_shape_of(one: &Answers, other: Option<&Answers>) -> bool {
    let shapes =
        |it: &Answers| -> Vec<_> { it.0.iter().map(|it| it.tensor.shape().clone()).collect() };
    other.is_none_or(|it| shapes(it) == shapes(one))
}
