//! A row beside company that none of the trial's rows is: floats that are no numbers or huge, and whole numbers as
//! large as the model takes them. What mixes rows may show it only there, such as infinity times zero, a threshold, or
//! a switch by the largest position of a run.
//!
//! A row that stays is compared with itself alone. Where it differs it is compared with itself at the same place of a
//! run of the same shape, so that rounding makes no difference. What a model does not take alone is no company. All of
//! this is tried for however long it takes; only what makes it more thorough is left out for want of time.

use std::{cell::OnceCell, iter, time::Instant};

use backend::BackendError;

use super::{
    company::{FEW_ROWS, between, by_values, is_large, several},
    evidence::Answers,
    trial::{Kind, LONGER, LONGEST_EXTREME, TrialFailure, Tried},
};
use crate::load::special_rows::{HUGE, NO_NUMBERS, Special, float_inputs, with_floats};
use schedule::{
    apart::{Apart, Beside},
    work::Work,
};

/// So many special rows are in one run beside the row that stays.
const TOGETHER: usize = 3;

/// A row that no trial has made otherwise.
pub(super) struct Guest {
    pub(super) work: Work,
    /// What it is of.
    pub(super) of: String,
}

/// A run of ordinary rows, the last of which stays. It is made where a row seems to be answered otherwise than alone.
pub(super) struct Usual {
    /// So many rows stand before that.
    company: usize,
    answers: OnceCell<Answers>,
}

impl Usual {
    pub(super) fn of(company: usize) -> Usual {
        Usual { company, answers: OnceCell::new() }
    }
}

/// What a model does with special rows.
pub(super) enum Met {
    /// It takes them, and answers so.
    Taken(Answers),
    /// It does not take one of them alone either.
    Refused,
    /// It was stopped.
    Endless,
}

impl Tried<'_> {
    /// Compares an ordinary row with itself beside special ones. Those of whole numbers are left out on a GPU, whose
    /// use an index that is too large ends.
    pub(super) fn special_company(
        &mut self,
        kind: &Kind,
        is_on_gpu: bool,
    ) -> Result<(), TrialFailure> {
        let began = Instant::now();
        let mut met = self.beside_floats(kind);
        if met.is_ok() && !is_on_gpu {
            met = self.beside_whole(kind);
        }
        self.unbudgeted += began.elapsed();
        met
    }

    fn beside_floats(&mut self, kind: &Kind) -> Result<(), TrialFailure> {
        let row = &kind.rows[1].1;
        let inputs = float_inputs(row);
        if inputs.is_empty() {
            return Ok(());
        }
        let most = if is_large(row) { FEW_ROWS } else { TOGETHER + 1 };
        let company = most.min(self.config.max_batch_size).max(2) - 1;
        let usual = Usual::of(company);
        let mut grows = kind.grows;
        for (group, is_huge) in [(HUGE, true), (NO_NUMBERS, false)] {
            // Numbers that say how much there is to do are no larger than they have been.
            let is_made = |it: &&Special| !grows || !(is_huge || **it == Special::Infinity);
            let specials: Vec<Special> = group.iter().filter(is_made).copied().collect();
            let mut guests = made(row, &inputs, &specials);
            // Floats of two bytes have but one that is huge.
            guests.dedup_by(|a, b| is_same(&a.1.work, &b.1.work));
            for guests in guests.chunks(company) {
                grows |= self.beside_each(kind, &usual, &inputs, guests)?;
            }
        }
        Ok(())
    }

    /// Has these rows as company, all together and each by itself: that, where all were taken together, only as long as
    /// there is time. Was one of them stopped?
    fn beside_each(
        &mut self,
        kind: &Kind,
        usual: &Usual,
        inputs: &[usize],
        guests: &[(Special, Guest)],
    ) -> Result<bool, TrialFailure> {
        let all: Vec<&Guest> = guests.iter().map(|it| &it.1).cycle().take(usual.company).collect();
        let whole = match self.meet(kind, usual, &all)? {
            Met::Taken(whole) => Some(whole),
            Met::Endless if guests.len() == 1 => return Ok(true),
            Met::Refused | Met::Endless => None,
        };
        if whole.is_some() && guests.len() == 1 {
            return Ok(false);
        }
        for (place, (special, guest)) in guests.iter().enumerate() {
            if whole.is_some() && self.is_over() {
                break;
            }
            let like = vec![guest; usual.company];
            match (self.meet(kind, usual, &like)?, &whole) {
                (Met::Taken(answers), Some(whole)) => {
                    let works = [&*behind(kind, &all), &*behind(kind, &like)];
                    self.is_the_same(works, [whole, &answers], place, guest)?;
                }
                (Met::Taken(_), None) => (),
                (Met::Endless, _) => return Ok(true),
                (Met::Refused, _) if inputs.len() < 2 => (),
                // One of its inputs may take it.
                (Met::Refused, _) => {
                    for at in inputs {
                        for (_, guest) in made(&kind.rows[1].1, &[*at], &[*special]) {
                            let like = vec![&guest; usual.company];
                            if let Met::Endless = self.meet(kind, usual, &like)? {
                                return Ok(true);
                            }
                        }
                    }
                }
            }
        }
        Ok(false)
    }

    /// Runs a row that stays behind these, and compares it with itself behind ordinary ones.
    pub(super) fn meet(
        &mut self,
        kind: &Kind,
        usual: &Usual,
        guests: &[&Guest],
    ) -> Result<Met, TrialFailure> {
        self.check_time()?;
        let rows = LONGER.saturating_mul(usual.company as u32 + 1);
        let limit = self.limit.at_most(kind.usual.saturating_mul(rows) + LONGEST_EXTREME);
        let limit = limit.map_err(TrialFailure::Engine)?;
        let whole = match self.run_within(&behind(kind, guests), &limit) {
            Ok(whole) => whole,
            Err(failure) if ends_all(&failure) => return Err(failure),
            Err(TrialFailure::Engine(_)) if limit.check().is_err() => return Ok(Met::Endless),
            Err(TrialFailure::Engine(error)) => {
                for guest in guests {
                    match self.run_within(&[&guest.work], &limit) {
                        Ok(_) => (),
                        Err(failure) if ends_all(&failure) => return Err(failure),
                        Err(_) => return Ok(Met::Refused),
                    }
                }
                return Err(several(TrialFailure::Engine(error)));
            }
            // Of other rows it does answer as many.
            Err(TrialFailure::NoBatch(reason)) => return Err(TrialFailure::Dependent(reason)),
            Err(failure) => return Err(failure),
        };
        let place = usual.company;
        if between(&kind.alone[0], 0, &whole, place, Beside::Itself).is_none() {
            return Ok(Met::Taken(whole));
        }
        let beside = ordinary(kind, place);
        let answers = match usual.answers.get() {
            Some(answers) => answers,
            None => {
                let answers = self.run(&beside).map_err(several)?;
                usual.answers.get_or_init(|| answers)
            }
        };
        match self.confirmed([&beside, &behind(kind, guests)], [answers, &whole], place)? {
            None => Ok(Met::Taken(whole)),
            Some(found) => {
                let mut of: Vec<&str> = guests.iter().map(|it| &*it.of).collect();
                of.dedup();
                let (says, of) = (by_values(&found), of.join(", "));
                Err(TrialFailure::Dependent(format!("{says}, beside rows of {of}")))
            }
        }
    }

    /// Was a special row answered alike at that place of both runs, which are of one shape?
    pub(super) fn is_the_same(
        &mut self,
        works: [&[&Work]; 2],
        answers: [&Answers; 2],
        place: usize,
        guest: &Guest,
    ) -> Result<(), TrialFailure> {
        match self.confirmed(works, answers, place)? {
            None => Ok(()),
            Some(found) => {
                let says = by_values(&found);
                Err(TrialFailure::Dependent(format!("{says}, in a row of {}", guest.of)))
            }
        }
    }

    /// How far the answers of two runs are apart at a place, if that is not by chance: what differs when the same rows
    /// are run again says nothing.
    fn confirmed(
        &mut self,
        works: [&[&Work]; 2],
        answers: [&Answers; 2],
        place: usize,
    ) -> Result<Option<Apart>, TrialFailure> {
        let [one, other] = answers;
        let apart = |beside| between(one, place, other, place, beside);
        if apart(Beside::Itself).is_none() {
            return Ok(None);
        }
        let mut again = Vec::new();
        for works in works {
            again.push(self.run(works).map_err(several)?);
        }
        let is_steady = |beside: &Beside| {
            let mut runs = answers.iter().zip(&again);
            runs.all(|(first, again)| between(first, place, again, place, *beside).is_none())
        };
        Ok([Beside::Itself, Beside::Largest].into_iter().find(is_steady).and_then(apart))
    }
}

/// The row with one of these in all of its inputs of floats.
fn made(row: &Work, inputs: &[usize], specials: &[Special]) -> Vec<(Special, Guest)> {
    let guest = |special: &Special| {
        let work = with_floats(row, inputs, *special)?;
        Some((*special, Guest { work, of: special.name() }))
    };
    specials.iter().filter_map(guest).collect()
}

fn is_same(one: &Work, other: &Work) -> bool {
    let mut inputs = one.inputs.iter().zip(&other.inputs);
    inputs.all(|(one, other)| one.tensor.to_bytes() == other.tensor.to_bytes())
}

/// So many ordinary rows, and the one that stays.
fn ordinary(kind: &Kind, company: usize) -> Vec<&Work> {
    let (stays, other) = (&kind.rows[0].1, &kind.rows[1].1);
    iter::repeat_n(other, company).chain([stays]).collect()
}

/// These rows, and the one that stays.
pub(super) fn behind<'a>(kind: &'a Kind, guests: &[&'a Guest]) -> Vec<&'a Work> {
    guests.iter().map(|it| &it.work).chain([&kind.rows[0].1]).collect()
}

/// Would nothing else be answered either?
pub(super) fn ends_all(failure: &TrialFailure) -> bool {
    matches!(failure, TrialFailure::Engine(BackendError::Device(_) | BackendError::Crashed(_)))
}
