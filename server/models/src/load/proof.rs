//! Is what a model answers for a row the same whatever else is in its run? Only then are requests merged.
//!
//! Rows prove something only where they have different answers, all of them numbers: of answers that are alike nobody
//! sees whose they are. See [`evidence`].
//!
//! What differs is told apart by where it comes from. The order in which an engine adds depends on the *shape* of a
//! run, so rounding differs between one row alone and the same row among others, and by little. What an engine computes
//! for a row at one place of a run of one shape depends on the *values* of the other rows only where the model mixes
//! rows. So a row is compared with itself alone, and with itself at the same place of a run of nothing but itself. Its
//! company is silent, much quieter, as loud, louder and much louder, and each of these rows is compared so: a mean over
//! the batch, its largest number, or a scale of quantisation that the whole batch shares then changes by much, and
//! rounding not at all.

mod company;
mod evidence;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use backend::{BackendError, Batch, Instance, NamedTensor, Tensor};

use self::evidence::{Evidence, evidence};
use crate::{
    config::model::{ModelConfig, Scheduling},
    load::{
        run_limit::RunLimit,
        sample_rows::{Loudness, Recipe, made_up},
        warmup::sample_work,
    },
};
use inference::signature::Signature;
use schedule::work::Work;

/// No further sizes and no numbers of another kind once the runs have taken so long. The first proof takes its time.
const BUDGET: Duration = Duration::from_millis(20);

/// The rows that are tried.
const ROWS: [Loudness; 6] = [
    Loudness::Ordinary,
    Loudness::Ordinary,
    Loudness::Silent,
    Loudness::Quiet,
    Loudness::Loud,
    Loudness::Extreme,
];

/// Rows that a recipe has to have, and that are looked at first: they are ordinary.
const NEEDED: usize = 2;

/// So many kinds of numbers that the model takes are tried for a proof. A model that answers none of them with different
/// numbers will hardly answer others so.
const MOST_KINDS: usize = 24;

/// The search for a proof is to leave time for everything else that is run before the model serves.
const PART_OF_LIMIT: u32 = 4;

/// Where a row that is so much louder takes so many times longer, what it says is how much there is to do, and no row
/// that is louder still is made.
const LONGER: u32 = 8;
const MUCH: Duration = Duration::from_millis(2);

/// What is known of the rows of a model's runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Each is answered as it is alone.
    Independent,
    /// Not so, or it cannot be told; a sentence.
    Lacking(String),
    /// An output has other rows than its run: every such request would fail; a sentence.
    NoBatch(String),
}

/// Can the rows of that model be tried? Not where the configuration has taken over what a run consists of.
pub(crate) fn is_due(config: &ModelConfig) -> bool {
    let is_plain = !matches!(config.scheduling, Scheduling::Sequences(_));
    0 < config.max_batch_size && is_plain && config.ragged.is_none()
}

/// Tries the rows of the model on one of its instances. `dir` is the model's directory, `limit` bounds the runs.
///
/// # Errors
/// When the device cannot be used, or the runs take too long.
pub(crate) fn prove(
    instance: &mut dyn Instance,
    signature: &Signature,
    config: &ModelConfig,
    dir: &Path,
    is_on_gpu: bool,
    limit: &RunLimit,
) -> Result<Proof, BackendError> {
    let mut tried = Tried { instance, signature, config, limit, started: Instant::now() };
    let given = config.warmups.iter().filter_map(|it| {
        let work = sample_work(it, signature, config, dir).ok()?;
        Some(Recipe::Given(first_row(&work)?))
    });
    let mut recipes = given.chain(made_up(signature, is_on_gpu));
    let best = match tried.search(&mut recipes)? {
        Search::Found(best) => best,
        Search::Nothing(reason) => return Ok(Proof::Lacking(reason)),
        // What is alike alone may yet differ in company, which says more.
        Search::Alike(kind, reason) => {
            let compared = tried.prove_by(&kind);
            limit.check()?;
            return Ok(Proof::Lacking(match compared {
                Err(Failure::Dependent(more)) => more,
                Ok(()) | Err(_) => reason,
            }));
        }
    };
    let mut proved = tried.prove_by(&best);
    if proved.is_ok() {
        proved = tried.further_sizes(&best);
    }
    // Numbers of a second kind, if there is time.
    while proved.is_ok() && !tried.is_over() {
        let Some(recipe) = recipes.next() else { break };
        match tried.alone(&recipe) {
            Ok(other) if other.evidence.is_proof() => {
                proved = tried.prove_by(&other);
                break;
            }
            Err(failure @ (Failure::Dependent(_) | Failure::Engine(BackendError::Device(_)))) => {
                proved = Err(failure);
            }
            Ok(_) | Err(_) => limit.check()?,
        }
    }
    limit.check()?;
    match proved {
        Ok(()) => Ok(Proof::Independent),
        Err(Failure::Dependent(reason)) => Ok(Proof::Lacking(reason)),
        Err(Failure::Engine(error @ BackendError::Device(_))) => Err(error),
        Err(Failure::Engine(error)) => {
            Ok(Proof::Lacking(format!("it fails when its rows are tried: {error}")))
        }
        Err(Failure::NoRow) => Ok(Proof::Lacking("its rows cannot be put together".to_owned())),
    }
}

/// The first row of a sample, if its elements are not all the same: moved on, they would be no other row.
fn first_row(work: &Work) -> Option<Work> {
    let differ = |it: &NamedTensor| {
        let bytes = it.tensor.to_bytes();
        bytes.iter().any(|byte| Some(byte) != bytes.first())
    };
    let row = |it: &NamedTensor| {
        let tensor = it.tensor.slice_rows(0, 1)?;
        Some(NamedTensor { name: it.name.clone(), tensor })
    };
    let inputs: Vec<NamedTensor> = work.inputs.iter().map(row).collect::<Option<_>>()?;
    let varies = inputs.iter().any(differ);
    varies.then(|| Work {
        inputs,
        outputs: work.outputs.clone(),
        rows: 1,
        signature: work.signature,
    })
}

/// Why rows have not been found to be independent.
enum Failure {
    /// They are not; a sentence.
    Dependent(String),
    /// The engine did not take them.
    Engine(BackendError),
    /// They could not be made.
    NoRow,
}

/// What came of one run.
struct Answers(Vec<NamedTensor>);

/// What came of the search for numbers that prove something.
enum Search {
    Found(Kind),
    /// The model takes numbers, of which none prove anything; a sentence.
    Alike(Kind, String),
    /// It takes none; a sentence.
    Nothing(String),
}

/// Rows of one recipe, and how each was answered alone.
struct Kind {
    rows: Vec<(Loudness, Work)>,
    alone: Vec<Answers>,
    evidence: Evidence,
}

/// An instance, and what its rows are tried with.
struct Tried<'a> {
    instance: &'a mut dyn Instance,
    signature: &'a Signature,
    config: &'a ModelConfig,
    limit: &'a RunLimit,
    started: Instant,
}

impl Tried<'_> {
    fn is_over(&self) -> bool {
        BUDGET < self.started.elapsed()
    }

    /// Looks for the numbers to which the answers differ most: the first whose ordinary rows are told apart by every
    /// output, else those with the most answers. Ends when these have been found, and not before for want of time,
    /// unless the load itself would end.
    ///
    /// # Errors
    /// When the device cannot be used, or the runs take too long.
    fn search(
        &mut self,
        recipes: &mut dyn Iterator<Item = Recipe>,
    ) -> Result<Search, BackendError> {
        let (mut kinds, mut refusal, mut says) = (0, None, None);
        let mut best: Option<Kind> = None;
        for recipe in recipes {
            let kind = self.alone(&recipe);
            self.limit.check()?;
            match kind {
                Ok(kind) => {
                    kinds += 1;
                    says = says.or_else(|| kind.evidence.lacks().map(str::to_owned));
                    if best
                        .as_ref()
                        .is_none_or(|it| it.evidence.strength() < kind.evidence.strength())
                    {
                        best = Some(kind);
                    }
                }
                Err(Failure::Dependent(reason)) => return Ok(Search::Nothing(reason)),
                Err(Failure::Engine(error @ BackendError::Device(_))) => return Err(error),
                Err(Failure::Engine(error)) => drop(refusal.get_or_insert(error.to_string())),
                Err(Failure::NoRow) => (),
            }
            let is_whole = best.as_ref().is_some_and(|it| it.evidence.is_whole());
            let is_late = self.limit.part(PART_OF_LIMIT) < self.started.elapsed();
            if is_whole || is_late || MOST_KINDS <= kinds {
                break;
            }
        }
        Ok(match best {
            Some(best) if best.evidence.is_proof() => Search::Found(best),
            Some(best) => {
                let says = says.unwrap_or_else(|| "they are alike".to_owned());
                let says = format!(
                    "its answers to the values that it was tried with prove nothing: {says}"
                );
                Search::Alike(best, says)
            }
            None => {
                let refusal = refusal.unwrap_or_else(|| "its rows are too large".to_owned());
                Search::Nothing(format!(
                    "it takes none of the inputs that it was tried with: {refusal}"
                ))
            }
        })
    }

    /// Runs each row of that recipe alone. The first ones have to be taken; others that are not are left out.
    fn alone(&mut self, recipe: &Recipe) -> Result<Kind, Failure> {
        let (mut rows, mut alone): (Vec<(Loudness, Work)>, Vec<Answers>) = Default::default();
        let (mut usual, mut is_longer) = (Duration::MAX, false);
        for (number, loudness) in (0..).zip(ROWS) {
            if loudness == Loudness::Extreme && is_longer {
                continue;
            }
            let row = recipe.row(number, loudness, self.signature, self.config);
            let answered = row.ok_or(Failure::NoRow).and_then(|row| {
                let started = Instant::now();
                let answers = self.run(&[&row])?;
                let mut took = started.elapsed();
                if loudness == Loudness::Loud {
                    let is_much = |took: Duration| usual.saturating_mul(LONGER) + MUCH < took;
                    if is_much(took) {
                        // It may have waited for a processor.
                        let started = Instant::now();
                        self.run(&[&row])?;
                        took = started.elapsed().min(took);
                    }
                    is_longer = is_much(took) || !has_shape_of(&answers, alone.first());
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
                Err(Failure::Engine(error @ BackendError::Device(_))) => {
                    return Err(Failure::Engine(error));
                }
                Err(failure) if rows.len() < NEEDED => return Err(failure),
                Err(_) => is_longer |= loudness == Loudness::Loud,
            }
            // They do not get better by more rows, if the first are no numbers.
            if rows.len() == NEEDED && evidence(&alone, NEEDED).is_of_no_numbers() {
                break;
            }
        }
        let evidence = evidence(&alone, NEEDED);
        Ok(Kind { rows, alone, evidence })
    }

    /// Runs these rows together: as many rows of every output.
    fn run(&mut self, rows: &[&Work]) -> Result<Answers, Failure> {
        let outputs = rows.first().map(|it| it.outputs.as_slice()).unwrap_or_default();
        let columns = rows.first().map(|it| it.inputs.as_slice()).unwrap_or_default();
        let column = |(at, input): (usize, &NamedTensor)| {
            let parts = rows.iter().filter_map(|it| it.inputs.get(at)).map(|it| &it.tensor);
            let tensor = Tensor::concat(parts)?;
            Some(NamedTensor { name: input.name.clone(), tensor })
        };
        let inputs: Option<Vec<NamedTensor>> = columns.iter().enumerate().map(column).collect();
        let inputs = &inputs.ok_or(Failure::NoRow)?;
        let batch = Batch {
            inputs,
            outputs,
            rows: rows.len(),
            signature: self.signature.index(),
            stop: self.limit.stop(),
        };
        let answers = self.instance.execute(&batch);
        // One that was stopped may have answered something.
        self.limit.check().map_err(Failure::Engine)?;
        let answers = answers.map_err(Failure::Engine)?;
        let in_order = outputs.iter().map(|name| {
            let answer = answers.iter().find(|it| it.name == *name);
            let answer = answer.ok_or(Failure::NoRow)?;
            if answer.tensor.shape().rows() != Some(rows.len()) {
                let (shape, given) = (answer.tensor.shape(), rows.len());
                return Err(Failure::Dependent(format!(
                    "its first dimension is no batch: output '{name}' has the shape {shape} for {given} rows"
                )));
            }
            Ok(answer.clone())
        });
        in_order.collect::<Result<_, _>>().map(Answers)
    }
}

/// Have both outputs of the same shapes?
fn has_shape_of(one: &Answers, other: Option<&Answers>) -> bool {
    let shapes =
        |it: &Answers| -> Vec<_> { it.0.iter().map(|it| it.tensor.shape().clone()).collect() };
    other.is_none_or(|it| shapes(it) == shapes(one))
}

#[cfg(test)]
mod tests;
