//! Rows beside others, and each compared with itself alone: what differs, and by what.

use backend::{BackendError, NamedTensor, Tensor, distance};

use super::{
    evidence::Answers,
    trial::{Failure, Kind, NEEDED, ROWS, Tried},
};
use crate::{config::model::Scheduling, load::sample_rows::Loudness};
use schedule::work::Work;

/// Rows of more elements are not all run together, as the memory that such a run takes would stay with the engine.
const LARGE_ROW: usize = 512 << 10;

/// So many of those are.
const FEW_ROWS: usize = 3;

/// Sizes of runs beside those that the configuration prefers.
const SIZES: [usize; 3] = [2, 3, 5];

/// No run of more rows is made, for the same reason.
const MOST_ROWS: usize = 16;

/// Where other values in other rows change nothing, a row alone may differ by so much: a graph that rounds inside, such
/// as one that is quantised, makes a step of a difference in the last bit.
const ROUNDED: f64 = 0.05;

/// How far the answers to one row are apart, and in which output most so.
struct Apart {
    distance: f64,
    /// Is it more than the order of sums explains?
    is_real: bool,
    output: String,
}

impl Tried<'_> {
    /// Compares each row of that kind with itself beside the others.
    pub(super) fn prove_by(&mut self, kind: &Kind) -> Result<(), Failure> {
        let elements = |it: &NamedTensor| it.tensor.elements();
        let row: usize = kind.rows[0].1.inputs.iter().map(elements).sum();
        let most = if LARGE_ROW < row { FEW_ROWS } else { ROWS.len() };
        let company = most.min(self.config.max_batch_size).max(2) - 1;
        // The loudest and the most silent are together, and the second ordinary one comes last.
        let special: Vec<usize> = (NEEDED..kind.rows.len()).collect();
        let pairs = special.iter().rev().zip(&special).flat_map(|(loud, quiet)| [*loud, *quiet]);
        let others: Vec<usize> = pairs.take(special.len()).chain(1..NEEDED).collect();
        for others in others.chunks(company) {
            let order: Vec<usize> = others.iter().copied().chain([0]).collect();
            self.compare(kind, &order)?;
        }
        Ok(())
    }

    /// The same in runs of other sizes, with each row at several places, as long as there is time.
    pub(super) fn further_sizes(&mut self, kind: &Kind) -> Result<(), Failure> {
        let all = kind.rows.len();
        for rows in self.sizes() {
            // Of two rows, each beside each.
            let strides = if rows == 2 { all / 2 } else { 1 };
            for stride in 1..=strides {
                for step in (0..all).step_by(if rows <= FEW_ROWS { 1 } else { 2 }) {
                    if self.is_over() {
                        return Ok(());
                    }
                    let order: Vec<usize> =
                        (0..rows).map(|place| (place * stride + step) % all).collect();
                    self.compare(kind, &order)?;
                }
            }
        }
        Ok(())
    }

    /// Runs these rows together, and compares each with itself alone.
    fn compare(&mut self, kind: &Kind, order: &[usize]) -> Result<(), Failure> {
        if self.is_late() {
            return Err(Failure::Dependent("to try its rows takes too long".to_owned()));
        }
        let rows: Vec<&Work> = order.iter().map(|it| &kind.rows[*it].1).collect();
        let whole = self.run(&rows).map_err(several)?;
        for (place, row) in order.iter().enumerate() {
            let apart = self.apart(&kind.alone[*row], 0, &whole, place);
            if apart.is_real {
                self.judge(&apart, &rows, &whole, place, kind.rows[*row].0)?;
            }
        }
        Ok(())
    }

    /// A row was answered otherwise at that place of a run than alone: does that come from the values of the others?
    fn judge(
        &mut self,
        found: &Apart,
        rows: &[&Work],
        answers: &Answers,
        place: usize,
        loudness: Loudness,
    ) -> Result<(), Failure> {
        let again = self.run(rows).map_err(several)?;
        if self.apart(answers, place, &again, place).is_real {
            let reason = "its answers to the same rows differ from run to run";
            return Err(Failure::Dependent(reason.to_owned()));
        }
        let beside = self.run(&vec![rows[place]; rows.len()]).map_err(several)?;
        let apart = self.apart(answers, place, &beside, place);
        if apart.is_real {
            let Apart { output, .. } = &apart;
            let by = part(apart.distance);
            return Err(Failure::Dependent(format!(
                "what it answers for a row depends on the other rows of the run (output '{output}', by {by})"
            )));
        }
        // What is far from ordinary may make much of a difference in the last bit.
        match found.distance <= ROUNDED || loudness != Loudness::Ordinary {
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
