//! Is what a model answers for a row the same whatever else is in its run? Only then are requests merged.
//!
//! What differs is told apart by where it comes from. The order in which an engine adds depends on the *shape* of a
//! run, so rounding differs between one row alone and the same row among three, and by little. What an engine computes
//! for a row at one place of a run of one shape depends on the *values* of the other rows only where the model mixes
//! rows. So a row is compared with itself alone, and with itself at the same place among rows that are a hundred times
//! larger: a mean over the batch, a softmax over it, or a scale of quantisation that the whole batch shares then
//! changes by much, and rounding not at all.

use std::{
    ops::Range,
    path::Path,
    time::{Duration, Instant},
};

use backend::{BackendError, Batch, Instance, NamedTensor, Tensor, distance};

use crate::{
    config::model::{ModelConfig, Scheduling},
    load::{
        run_limit::RunLimit,
        sample_rows::{Recipe, made_up},
        warmup::sample_work,
    },
};
use inference::signature::Signature;
use schedule::work::Work;

/// No further sizes once the comparisons have taken so long. The first, of one row with two and three, are always made.
const BUDGET: Duration = Duration::from_millis(20);

/// Rows that are tried in turn, and those that the first comparisons take.
const ROWS: u32 = 5;
const FEW_ROWS: u32 = 3;

/// Sizes of runs beside those that the configuration prefers.
const SIZES: [usize; 3] = [2, 3, 5];

/// No run of more rows is made, as the memory that it takes would stay with the engine.
const MOST_ROWS: usize = 16;

/// Where other values in other rows change nothing, a row alone may differ by so much: a graph that rounds inside, such
/// as one that is quantised, makes a step of a difference in the last bit.
const ROUNDED: f64 = 0.05;

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
    let recipes = given.chain(made_up(signature, is_on_gpu));
    let (mut accepted, mut refusal) = (0, None);
    for recipe in recipes {
        let compared = tried.compare(&recipe);
        limit.check()?;
        match compared {
            Ok(()) => accepted += 1,
            Err(Failure::Dependent(reason)) => return Ok(Proof::Lacking(reason)),
            Err(Failure::NoBatch(reason)) => return Ok(Proof::NoBatch(reason)),
            Err(Failure::Engine(error @ BackendError::Device(_))) => return Err(error),
            Err(Failure::Engine(error)) => drop(refusal.get_or_insert(error.to_string())),
            Err(Failure::NoRow) => (),
        }
        // Numbers of two kinds are enough.
        if 2 <= accepted || (0 < accepted && tried.is_over()) {
            return Ok(Proof::Independent);
        }
    }
    let refusal = refusal.unwrap_or_else(|| "its rows are too large".to_owned());
    Ok(match accepted {
        // There is no company to differ in.
        0 if config.max_batch_size == 1 => Proof::Independent,
        0 => {
            Proof::Lacking(format!("it takes none of the inputs that it was tried with: {refusal}"))
        }
        _ => Proof::Independent,
    })
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
    /// There are no rows: an output's first dimension is something else; a sentence.
    NoBatch(String),
    /// The engine did not take them.
    Engine(BackendError),
    /// They could not be made.
    NoRow,
}

/// The rows of one run that matter, as it answered them.
struct Answers(Vec<NamedTensor>);

/// How far the answers to one row are apart, and in which output most so.
struct Apart {
    distance: f64,
    /// Is it more than the order of sums explains?
    is_real: bool,
    output: String,
}

/// An instance, and rows to try it with.
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

    fn row(&self, recipe: &Recipe, number: u32, is_extreme: bool) -> Result<Work, Failure> {
        let row = recipe.row(number, is_extreme, self.signature, self.config);
        row.ok_or(Failure::NoRow)
    }

    /// Compares rows of that recipe, alone and in company.
    fn compare(&mut self, recipe: &Recipe) -> Result<(), Failure> {
        let rows = |numbers: Range<u32>, is_extreme| -> Result<Vec<Work>, Failure> {
            numbers.map(|it| self.row(recipe, it, is_extreme)).collect()
        };
        let (mut plain, mut extreme) = (rows(0..FEW_ROWS, false)?, rows(0..FEW_ROWS, true)?);
        let (p, x) = (|it: usize| &plain[it], |it: usize| &extreme[it]);

        // One row at the beginning of two and, among extreme ones, at the end of three.
        let alone = self.run(&[p(0)])?;
        if self.config.max_batch_size == 1 {
            return Ok(());
        }
        let two = self.run(&[p(0), p(1)]).map_err(several)?;
        let among = [x(1), x(2), p(0)];
        let mut company = if self.config.max_batch_size == 2 { &among[1..] } else { &among };
        let last = company.len() - 1;
        let plain_company = [p(1), p(2), p(0)];
        let three = match self.run(company) {
            Ok(three) => three,
            // A model may check its inputs.
            Err(_) => {
                company = &plain_company[2 - last..];
                self.run(company).map_err(several)?
            }
        };
        let first = self.apart(&alone, 0, &two, 0);
        let second = self.apart(&alone, 0, &three, last);
        if first.is_real || second.is_real {
            let worse = if first.distance < second.distance { second } else { first };
            let ordinary = &plain_company[2 - last..];
            self.judge(
                &worse,
                &[(&[p(0), p(1)], &two, &[p(0), x(2)], 0), (company, &three, ordinary, last)],
            )?;
        }

        if self.is_over() {
            return Ok(());
        }
        for number in FEW_ROWS..ROWS {
            plain.push(self.row(recipe, number, false)?);
            extreme.push(self.row(recipe, number, true)?);
        }
        let (p, x) =
            (|it: usize| &plain[it % plain.len()], |it: usize| &extreme[it % extreme.len()]);
        let mut alone = vec![alone];
        for rows in self.sizes() {
            if self.is_over() {
                break;
            }
            // Each row at another place than before.
            let at = |place: usize| place + rows;
            let ordinary: Vec<&Work> = (0..rows).map(|it| p(at(it))).collect();
            let whole = self.run(&ordinary).map_err(several)?;
            for parity in 0..2 {
                let mixed: Vec<&Work> = (0..rows)
                    .map(|it| if it % 2 == parity { p(at(it)) } else { x(at(it)) })
                    .collect();
                let Ok(beside) = self.run(&mixed) else { continue };
                for place in (parity..rows).step_by(2) {
                    let apart = self.apart(&whole, place, &beside, place);
                    if apart.is_real {
                        self.judge(&apart, &[(&ordinary, &whole, &mixed, place)])?;
                    }
                }
            }
            while alone.len() < plain.len() {
                let next = self.run(&[p(alone.len())]).map_err(several)?;
                alone.push(next);
            }
            for place in 0..rows {
                let apart = self.apart(&alone[at(place) % alone.len()], 0, &whole, place);
                // That the company has no part in it was just seen.
                if apart.is_real && ROUNDED < apart.distance {
                    return Err(Failure::Dependent(by_number(&apart)));
                }
            }
        }
        Ok(())
    }

    /// A difference was found: does it come from the values of other rows? Each pair of runs has the same row at that
    /// place and others beside it.
    fn judge(
        &mut self,
        found: &Apart,
        pairs: &[(&[&Work], &Answers, &[&Work], usize)],
    ) -> Result<(), Failure> {
        for (rows, answers, others, place) in pairs {
            let again = self.run(rows).map_err(several)?;
            if self.apart(answers, *place, &again, *place).is_real {
                let reason = "its answers to the same rows differ from run to run";
                return Err(Failure::Dependent(reason.to_owned()));
            }
            let beside = self.run(others).map_err(several)?;
            let apart = self.apart(answers, *place, &beside, *place);
            if apart.is_real {
                let Apart { output, .. } = &apart;
                let by = part(apart.distance);
                return Err(Failure::Dependent(format!(
                    "what it answers for a row depends on the other rows of the run (output '{output}', by {by})"
                )));
            }
        }
        match found.distance <= ROUNDED {
            true => Ok(()),
            false => Err(Failure::Dependent(by_number(found))),
        }
    }

    /// How far the answers to a row are apart, at its place in one run and in another.
    fn apart(&self, one: &Answers, at: usize, other: &Answers, place: usize) -> Apart {
        let mut apart = Apart { distance: 0.0, is_real: false, output: String::new() };
        for (a, b) in one.0.iter().zip(&other.0) {
            let row = |of: &Tensor, at| of.slice_rows(at, 1);
            let distance = match (row(&a.tensor, at), row(&b.tensor, place)) {
                (Some(a), Some(b)) => distance::distance(&a, &b),
                _ => f64::INFINITY,
            };
            if apart.distance < distance {
                let is_real = apart.is_real || distance::noise(a.tensor.dtype()) < distance;
                apart = Apart { distance, is_real, output: a.name.to_string() };
            }
        }
        apart
    }

    /// Further sizes of runs.
    fn sizes(&self) -> Vec<usize> {
        let preferred: &[usize] = match &self.config.scheduling {
            Scheduling::Dynamic(batching) => &batching.preferred_batch_sizes,
            Scheduling::Plain | Scheduling::Sequences(_) => &[self.config.max_batch_size],
        };
        let most = self.config.max_batch_size.min(MOST_ROWS);
        let mut sizes: Vec<usize> = SIZES.iter().chain(preferred).copied().collect();
        sizes.retain(|it| (2..=most).contains(it));
        sizes.sort_unstable();
        sizes.dedup();
        sizes
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
                let count = if given == 1 { "1 row".to_owned() } else { format!("{given} rows") };
                return Err(Failure::NoBatch(format!(
                    "its first dimension is no batch: output '{name}' has the shape {shape} for {count}"
                )));
            }
            Ok(answer.clone())
        });
        in_order.collect::<Result<_, _>>().map(Answers)
    }
}

/// Of several rows whose like it takes alone, it is of their number.
fn several(failure: Failure) -> Failure {
    match failure {
        Failure::Engine(error @ BackendError::Device(_)) => Failure::Engine(error),
        Failure::Engine(error) => {
            Failure::Dependent(format!("it takes one row and fails for several: {error}"))
        }
        other => other,
    }
}

fn by_number(apart: &Apart) -> String {
    format!(
        "what it answers for a row depends on how many are in the run (output '{}', by {})",
        apart.output,
        part(apart.distance)
    )
}

/// A distance as text.
fn part(distance: f64) -> String {
    match distance.is_finite() {
        true => format!("{:.2} %", 100.0 * distance),
        false => "an unlike value".to_owned(),
    }
}

#[cfg(test)]
mod tests;
