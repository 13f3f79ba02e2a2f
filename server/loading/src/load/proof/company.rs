//! Rows beside others, and each compared with itself alone: what differs, and by what.

use backend::{BackendError, NamedTensor};

use super::{
    evidence::Answers,
    trial::{Kind, NEEDED, ROWS, TrialFailure, Tried},
};
use crate::load::sample_rows::Loudness;
use schedule::{
    apart::{Apart, Beside, NUDGES, ROUNDED, apart, is_tie, nudged, rows_of},
    work::Work,
};
use serving::config::model::Scheduling;

/// Rows of more elements are not all run together, as the memory that such a run takes would stay with the engine.
const LARGE_ROW: usize = 512 << 10;

/// So many of those are.
pub(super) const FEW_ROWS: usize = 3;

/// Sizes of runs beside those that the configuration prefers.
const SIZES: [usize; 3] = [2, 3, 5];

/// No run of more rows is made, for the same reason.
const MOST_ROWS: usize = 16;

/// Further rows that are tried in company where nothing can be changed in a row by as little as rounding changes. The
/// first number is that of none that was tried before.
const FURTHER: std::ops::Range<u32> = 100..112;

impl Tried<'_> {
    /// Compares each row of that kind with itself beside the others.
    pub(super) fn prove_by(&mut self, kind: &Kind) -> Result<(), TrialFailure> {
        let most = if is_large(&kind.rows[0].1) { FEW_ROWS } else { ROWS.len() };
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
    pub(super) fn further_sizes(&mut self, kind: &Kind) -> Result<(), TrialFailure> {
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
    fn compare(&mut self, kind: &Kind, order: &[usize]) -> Result<(), TrialFailure> {
        self.check_time()?;
        let whole = self.run(&works(kind, order)).map_err(several)?;
        let mut may_hide = false;
        for (place, row) in order.iter().enumerate() {
            let alone = &kind.alone[*row];
            match between(alone, 0, &whole, place, Beside::Largest) {
                Some(found) => self.judge(&found, kind, order, &whole, place)?,
                None => may_hide |= between(alone, 0, &whole, place, Beside::Itself).is_some(),
            }
        }
        if may_hide { self.compare_small(kind, order, &whole) } else { Ok(()) }
    }

    /// A small number of these answers differs from that of its row alone, by no more than the order of sums explains
    /// beside large ones. In two runs of the same shape, in which every second row is another, nothing is added in
    /// another order.
    fn compare_small(
        &mut self,
        kind: &Kind,
        order: &[usize],
        whole: &Answers,
    ) -> Result<(), TrialFailure> {
        for stays in [0, 1] {
            let is_kept = |place: usize| place % 2 == stays;
            let other = |row: usize| (row + 1) % kind.rows.len();
            let others: Vec<usize> = order
                .iter()
                .enumerate()
                .map(|(place, row)| if is_kept(place) { *row } else { other(*row) })
                .collect();
            let beside = self.run(&works(kind, &others)).map_err(several)?;
            let kept = (0..order.len()).filter(|place| is_kept(*place));
            let found = kept
                .filter_map(|place| between(whole, place, &beside, place, Beside::Itself))
                .next();
            let Some(found) = found else { continue };
            // By chance it may be as much.
            let again = self.run(&works(kind, order)).map_err(several)?;
            let by_chance = |place| between(whole, place, &again, place, Beside::Itself);
            if !(0..order.len()).any(|it| by_chance(it).is_some()) {
                return Err(TrialFailure::Dependent(by_values(&found)));
            }
        }
        Ok(())
    }

    /// A row was answered otherwise at that place of a run than alone: does that come from the values of the others?
    fn judge(
        &mut self,
        found: &Apart,
        kind: &Kind,
        order: &[usize],
        answers: &Answers,
        place: usize,
    ) -> Result<(), TrialFailure> {
        let again = self.run(&works(kind, order)).map_err(several)?;
        if between(answers, place, &again, place, Beside::Largest).is_some() {
            let reason = "its answers to the same rows differ from run to run";
            return Err(TrialFailure::Dependent(reason.to_owned()));
        }
        let row = order[place];
        let beside = self.run(&works(kind, &vec![row; order.len()])).map_err(several)?;
        if let Some(found) = between(answers, place, &beside, place, Beside::Largest) {
            return Err(TrialFailure::Dependent(by_values(&found)));
        }
        // What is far from ordinary may make much of a difference in the last bit.
        let is_usual = matches!(kind.rows[row].0, Loudness::Ordinary | Loudness::Sparse);
        let is_little = found.distance <= ROUNDED || !is_usual;
        match is_little || self.is_tie(kind, row, answers, place, order.len())? {
            true => Ok(()),
            false => Err(TrialFailure::Dependent(by_number(found))),
        }
    }

    /// A row was answered far otherwise at that place of a run than alone, whatever the other rows are. Has rounding
    /// decided between numbers that are nearly equal? Then changes of the row that are as little change the answer
    /// alike. Where there are none, other rows are answered alone as they are among as many.
    fn is_tie(
        &mut self,
        kind: &Kind,
        row: usize,
        answers: &Answers,
        place: usize,
        rows: usize,
    ) -> Result<bool, TrialFailure> {
        let (work, alone) = (&kind.rows[row].1, &kind.alone[row].0);
        let Some(other) = rows_of(&answers.0, place, 1) else { return Ok(false) };
        let mut nudges = Vec::new();
        for inputs in (0..NUDGES).map_while(|turn| nudged(&work.inputs, turn)) {
            let work =
                Work { inputs, outputs: work.outputs.clone(), about: None, parts: None, ..*work };
            nudges.push(self.run(&[&work])?.0);
            if is_tie(alone, &other, &nudges) {
                return Ok(true);
            }
        }
        if !nudges.is_empty() {
            return Ok(false);
        }
        for number in FURTHER {
            if self.is_late() {
                return Ok(false);
            }
            let (signature, config) = (self.signature, self.config);
            let further = kind.recipe.row(number, Loudness::Ordinary, signature, config);
            let further = further.ok_or(TrialFailure::NoRow)?;
            let alone = self.run(&[&further])?;
            let whole = self.run(&vec![&further; rows]).map_err(several)?;
            let found = between(&alone, 0, &whole, place, Beside::Largest);
            if found.is_some_and(|it| ROUNDED < it.distance) {
                return Ok(false);
            }
        }
        Ok(true)
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

/// Is one such row too large to run many together?
pub(super) fn is_large(row: &Work) -> bool {
    let elements = |it: &NamedTensor| it.tensor.elements();
    LARGE_ROW < row.inputs.iter().map(elements).sum()
}

/// The rows of that kind with these numbers.
fn works<'a>(kind: &'a Kind, order: &[usize]) -> Vec<&'a Work> {
    order.iter().map(|it| &kind.rows[*it].1).collect()
}

/// How far the answers to a row are apart, at its place in one run and in another, if by more than rounding explains.
pub(super) fn between(
    one: &Answers,
    at: usize,
    other: &Answers,
    place: usize,
    beside: Beside,
) -> Option<Apart> {
    let row = |of: &Answers, at| rows_of(&of.0, at, 1).unwrap_or_default();
    apart(&row(one, at), &row(other, place), beside)
}

/// Of several rows whose like it takes alone, it is of their number.
pub(super) fn several(failure: TrialFailure) -> TrialFailure {
    match failure {
        TrialFailure::Engine(error @ BackendError::Device(_)) => TrialFailure::Engine(error),
        TrialFailure::Engine(error) => {
            TrialFailure::Dependent(format!("it takes one row and fails for several: {error}"))
        }
        other => other,
    }
}

pub(super) fn by_values(apart: &Apart) -> String {
    format!(
        "what it answers for a row depends on the other rows of the run (output '{}', by {})",
        apart.output,
        part(apart.distance)
    )
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
