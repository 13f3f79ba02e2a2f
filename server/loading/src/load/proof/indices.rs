//! A row beside company of large whole numbers: positions or indices up to the largest that the model takes, which is
//! found by trying them. And beside negative ones, which often stand for what is left out.

use std::{ops::Range, time::Instant};

use super::{
    company::several,
    special::{Guest, Met, Usual, behind, ends_all},
    trial::{Kind, LONGER, LONGEST_EXTREME, MUCH, TrialFailure, Tried, has_shape_of},
};
use crate::load::special_rows::{
    NEGATIVE, largest, largest_of, least_of, whole_inputs, with_whole,
};

/// How the largest number is looked for that a model takes.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// The first that is tried is one less than this, as tables are of such lengths.
    first: u64,
    /// Each is so many times the one before. That a number says how much there is to do is noticed before it is too
    /// much.
    step: u64,
    /// The largest is found to one part in so many.
    precision: u64,
}

/// Where there is time.
const THOROUGH: Pace = Pace { first: 64, step: 4, precision: u64::MAX };

/// Where there is none.
const COARSE: Pace = Pace { first: 256, step: 16, precision: 4 };

/// The same row is run up to so often until it is believed that it takes longer than others: it may have waited for a
/// processor.
const TURNS: usize = 3;

/// What a model does with a special row alone.
enum Alone {
    Taken,
    /// It does, and took much longer, or answered in another shape.
    Longer,
    Refused,
    Endless,
}

/// An input of whole numbers.
#[derive(Debug, Clone, Copy)]
struct Index {
    at: usize,
    /// The largest that it has had.
    shown: u64,
    /// The largest that is tried.
    most: u64,
}

/// The largest row that has been taken so far.
#[derive(Default)]
struct Largest {
    guest: Option<Guest>,
    /// What came of it as company, if it has been.
    met: Option<Met>,
}

impl Tried<'_> {
    /// Compares an ordinary row with itself beside rows of large indices.
    pub(super) fn beside_whole(&mut self, kind: &Kind) -> Result<(), TrialFailure> {
        let index = |at: usize| {
            let tensors = kind.rows.iter().filter_map(|it| Some(&it.1.inputs.get(at)?.tensor));
            let most = tensors.clone().map(|it| largest_of(it.dtype())).max()?;
            Some(Index { at, shown: tensors.map(largest).max()?, most })
        };
        let row = &kind.rows[1].1;
        let all: Vec<Index> = whole_inputs(row).into_iter().filter_map(index).collect();
        let usual = Usual::of(1);
        let is_signed = |it: &&Index| least_of(row.inputs[it.at].tensor.dtype()) < 0;
        let signed: Vec<Index> = all.iter().filter(is_signed).copied().collect();
        for value in NEGATIVE {
            self.beside_negative(kind, &usual, &signed, value)?;
        }
        let inputs: Vec<Index> = all.into_iter().filter(|it| it.shown < it.most).collect();
        if inputs.is_empty() {
            return Ok(());
        }
        let first = self.pace().first - 1;
        self.climb(kind, &usual, &inputs, first)
    }

    /// Has that negative number as company in all of these inputs. Where the model does not take it so, in each.
    fn beside_negative(
        &mut self,
        kind: &Kind,
        usual: &Usual,
        inputs: &[Index],
        value: i64,
    ) -> Result<(), TrialFailure> {
        let guest = guest_of(kind, inputs, value).filter(|_| !inputs.is_empty());
        let Some(guest) = guest else { return Ok(()) };
        match self.meet(kind, usual, &[&guest])? {
            Met::Refused if 1 < inputs.len() => {
                inputs.chunks(1).try_for_each(|it| self.beside_negative(kind, usual, it, value))
            }
            met => self.settle(kind, usual, Largest { guest: Some(guest), met: Some(met) }),
        }
    }

    /// Has as company the largest whole numbers that these inputs take, all of them the same, from that one on. Where
    /// not all take a number, half of them each climb on.
    fn climb(
        &mut self,
        kind: &Kind,
        usual: &Usual,
        inputs: &[Index],
        from: u64,
    ) -> Result<(), TrialFailure> {
        let most = inputs.iter().map(|it| it.most).max().unwrap_or(0);
        let mut taken = inputs.iter().map(|it| it.shown).min().unwrap_or(0);
        let mut last = Largest::default();
        let mut value = from.min(most);
        while taken < most {
            if value <= taken {
                value = self.next(value, most);
                continue;
            }
            let Some(guest) = guest_of(kind, inputs, value as i64) else { break };
            match self.takes(kind, &guest)? {
                Alone::Taken => {
                    self.reach(kind, usual, &mut last, guest)?;
                    taken = value;
                    value = self.next(value, most);
                }
                Alone::Longer => {
                    self.reach(kind, usual, &mut last, guest)?;
                    break;
                }
                Alone::Refused if inputs.len() == 1 => {
                    self.refine(kind, usual, inputs, &mut last, taken..value)?;
                    break;
                }
                Alone::Refused => {
                    self.settle(kind, usual, last)?;
                    let shown = |it: &Index| Index { shown: it.shown.max(taken), ..*it };
                    let inputs: Vec<Index> = inputs.iter().map(shown).collect();
                    let (left, right) = inputs.split_at(inputs.len() / 2);
                    self.climb(kind, usual, left, value)?;
                    return self.climb(kind, usual, right, value);
                }
                Alone::Endless => break,
            }
        }
        self.settle(kind, usual, last)
    }

    /// Looks for the largest number that is taken, between one that is and one that is not.
    fn refine(
        &mut self,
        kind: &Kind,
        usual: &Usual,
        inputs: &[Index],
        last: &mut Largest,
        between: Range<u64>,
    ) -> Result<(), TrialFailure> {
        let (mut taken, mut refused) = (between.start, between.end);
        loop {
            let apart = refused - taken;
            if apart <= 1.max(taken / self.pace().precision) {
                return Ok(());
            }
            let value = taken + apart / 2;
            let Some(guest) = guest_of(kind, inputs, value as i64) else { return Ok(()) };
            match self.takes(kind, &guest)? {
                Alone::Taken => {
                    self.reach(kind, usual, last, guest)?;
                    taken = value;
                }
                Alone::Longer => return self.reach(kind, usual, last, guest),
                Alone::Refused => refused = value,
                Alone::Endless => return Ok(()),
            }
        }
    }

    fn pace(&self) -> Pace {
        if self.is_over() { COARSE } else { THOROUGH }
    }

    /// The number that is tried behind that one.
    fn next(&self, value: u64, most: u64) -> u64 {
        ((value + 1) * self.pace().step - 1).min(most)
    }

    /// The model takes that row. It is company now where there is time, and else if none is larger.
    fn reach(
        &mut self,
        kind: &Kind,
        usual: &Usual,
        last: &mut Largest,
        guest: Guest,
    ) -> Result<(), TrialFailure> {
        last.met = match self.is_over() {
            true => None,
            false => Some(self.meet(kind, usual, &[&guest])?),
        };
        last.guest = Some(guest);
        Ok(())
    }

    /// Has the largest row as company if it has not been. Where there is time it is compared with itself beside nothing
    /// but itself.
    fn settle(&mut self, kind: &Kind, usual: &Usual, last: Largest) -> Result<(), TrialFailure> {
        let Largest { guest: Some(guest), met } = last else { return Ok(()) };
        let met = match met {
            Some(met) => met,
            None => self.meet(kind, usual, &[&guest])?,
        };
        let Met::Taken(answers) = met else { return Ok(()) };
        if self.is_over() {
            return Ok(());
        }
        let like = [&guest.work; 2];
        let beside = self.run(&like).map_err(several)?;
        self.is_the_same([&behind(kind, &[&guest]), &like], [&answers, &beside], 0, &guest)
    }

    /// Runs a special row alone.
    fn takes(&mut self, kind: &Kind, guest: &Guest) -> Result<Alone, TrialFailure> {
        self.check_time()?;
        let usual = kind.usual;
        let limit = self.limit.at_most(usual.saturating_mul(LONGER) + LONGEST_EXTREME);
        let limit = limit.map_err(TrialFailure::Engine)?;
        for _ in 0..TURNS {
            let started = Instant::now();
            let answers = match self.run_within(&[&guest.work], &limit) {
                Ok(answers) => answers,
                Err(failure) if ends_all(&failure) => return Err(failure),
                Err(_) if limit.check().is_err() => return Ok(Alone::Endless),
                Err(_) => return Ok(Alone::Refused),
            };
            if !has_shape_of(&answers, kind.alone.first()) {
                return Ok(Alone::Longer);
            }
            if started.elapsed() <= usual.saturating_mul(LONGER) + MUCH {
                return Ok(Alone::Taken);
            }
        }
        Ok(Alone::Longer)
    }
}

/// An ordinary row with nothing but that number in these inputs.
fn guest_of(kind: &Kind, inputs: &[Index], value: i64) -> Option<Guest> {
    let places: Vec<usize> = inputs.iter().map(|it| it.at).collect();
    let work = with_whole(&kind.rows[1].1, &places, value)?;
    Some(Guest { work, of: format!("the index {value}") })
}
