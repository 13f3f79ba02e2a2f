//! What a queue knows whose rows are of unequal length: what a run may be, what runs cost, and how much waits. Plain
//! data.

use std::time::{Duration, Instant};

use crate::{cost::CostTable, pack::RunBounds};

/// A row of a typical run costs as one among so many tokens.
const TYPICAL_TOKENS: usize = 512;

/// A job that others have been preferred to becomes the first after so many times what all that waits takes.
const PATIENCE: u32 = 2;

/// All of the first so many runs teach what they cost.
const FIRST: u64 = 64;

/// Of later ones that are shorter than this, one of so many.
const SHORT: Duration = Duration::from_micros(500);
const FEW: u64 = 8;

/// Rows of unequal length in one queue.
#[derive(Debug, Clone)]
pub struct Packing {
    configured: RunBounds,
    bounds: RunBounds,
    costs: CostTable,
    /// Rows that wait, by the cell of their length.
    waiting: [usize; CostTable::LENGTHS],
    /// Runs so far.
    seen: u64,
}

impl Packing {
    /// Nothing waits, and nothing is known.
    pub fn new(bounds: RunBounds) -> Packing {
        let (costs, waiting) = (CostTable::default(), [0; CostTable::LENGTHS]);
        Packing { configured: bounds, bounds, costs, waiting, seen: 0 }
    }

    /// The same, where this is known of what runs cost.
    pub fn knowing(self, costs: CostTable) -> Packing {
        Packing { costs, ..self }
    }

    /// What a run may be.
    pub fn bounds(&self) -> RunBounds {
        self.bounds
    }

    /// Most rows of a run as configured.
    pub fn configured_rows(&self) -> usize {
        self.configured.rows
    }

    /// What runs cost.
    pub fn costs(&self) -> &CostTable {
        &self.costs
    }

    /// From now on a run has at most so many rows; as many as are configured where it is `None`.
    pub fn bound_rows(&mut self, most: Option<usize>) {
        let rows = most.unwrap_or(usize::MAX).min(self.configured.rows);
        self.bounds = RunBounds { rows, ..self.configured };
    }

    /// A row of that length has come.
    pub fn enter(&mut self, length: usize) {
        self.waiting[CostTable::cell(length)] += 1;
    }

    /// A row of that length waits no more.
    pub fn leave(&mut self, length: usize) {
        let waiting = &mut self.waiting[CostTable::cell(length)];
        *waiting = waiting.saturating_sub(1);
    }

    /// Takes in a run. Of many that are short only some: to learn from one takes microseconds.
    pub fn learn(&mut self, rows: usize, length: usize, took: Duration) {
        self.seen += 1;
        let is_due = self.seen <= FIRST || SHORT <= took || self.seen.is_multiple_of(FEW);
        if is_due {
            self.costs.record(rows, length, took);
        }
    }

    /// About how long one instance takes for all that waits. `None` before the first run.
    pub fn drain(&self) -> Option<Duration> {
        if self.costs.runs() == 0 {
            return None;
        }
        let seconds = self.waiting.iter().enumerate().filter(|(_, rows)| 0 < **rows);
        let seconds = seconds.map(|(cell, rows)| {
            let length = CostTable::length(cell);
            let together = (TYPICAL_TOKENS / length).clamp(1, self.bounds.rows.max(1));
            *rows as f32 * self.costs.seconds(together, length) / together as f32
        });
        Duration::try_from_secs_f32(seconds.sum()).ok()
    }
}

/// A job among those that wait, as [`leader`] sees it.
#[derive(Debug, Clone, Copy)]
pub struct Candidate {
    /// Its level of priority; 0 is the highest.
    pub level: usize,
    /// When its answer stops being of use.
    pub deadline: Option<Instant>,
    /// Since when later jobs have been preferred to it.
    pub passed_over: Option<Instant>,
}

/// Which job counts as the oldest, and so is in the next run? Its place among the candidates, which come in the order
/// of service. `drain` is the time that all that waits takes.
///
/// The first, unless one has been passed over for too long, or one of the same level would be late if it waited for
/// its turn.
pub fn leader(candidates: &[Candidate], drain: Option<Duration>, now: Instant) -> usize {
    let Some(drain) = drain else { return 0 };
    let patience = drain.saturating_mul(PATIENCE);
    let passed = |it: &(usize, &Candidate)| it.1.passed_over;
    let overdue = candidates.iter().enumerate().filter_map(|it| Some((passed(&it)?, it.0)));
    let overdue = overdue.min().filter(|it| patience < now.saturating_duration_since(it.0));
    if let Some((_, place)) = overdue {
        return place;
    }
    let level = candidates.first().map(|it| it.level);
    let in_level = candidates.iter().enumerate().filter(|it| Some(it.1.level) == level);
    let urgent = in_level.filter_map(|(place, it)| Some((it.deadline?, place)));
    let urgent = urgent.min().filter(|it| it.0 <= now + drain);
    urgent.map_or(0, |it| it.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Jobs by level, milliseconds from now to the deadline, and for how many milliseconds they were passed over; the
    /// one at `expected` leads where all that waits takes 10 ms.
    #[track_caller]
    fn check(jobs: &[(usize, Option<u32>, Option<u32>)], expected: usize) {
        let now = Instant::now() + MS * 1000;
        let candidates: Vec<Candidate> = jobs
            .iter()
            .map(|(level, deadline, passed)| Candidate {
                level: *level,
                deadline: deadline.map(|it| now + MS * it),
                passed_over: passed.map(|it| now - MS * it),
            })
            .collect();
        assert_eq!(leader(&candidates, Some(MS * 10), now), expected);
        assert_eq!(leader(&candidates, None, now), 0);
    }

    #[test]
    fn the_first_leads() {
        check(&[(0, None, None), (0, None, Some(5)), (1, None, None)], 0);
    }

    #[test]
    fn a_deadline_that_a_turn_would_miss_goes_before() {
        check(&[(0, None, None), (0, Some(9), None), (0, Some(8), None)], 2);
        check(&[(0, None, None), (0, Some(11), None)], 0);
    }

    #[test]
    fn a_deadline_does_not_go_before_a_higher_level() {
        check(&[(0, None, None), (1, Some(1), None)], 0);
    }

    #[test]
    fn after_twice_the_time_of_all_that_waits_any_job_goes_before() {
        check(&[(0, Some(1), None), (1, None, Some(21)), (2, None, Some(25))], 2);
        check(&[(0, None, None), (1, None, Some(19))], 0);
    }

    #[test]
    fn of_many_short_runs_one_of_eight_teaches_what_they_cost() {
        let mut packing = Packing::new(RunBounds { rows: 32, tokens: 4096 });
        let runs = |packing: &Packing| packing.costs().runs();
        (0..FIRST).for_each(|_| packing.learn(1, 8, Duration::from_micros(5)));
        assert_eq!(runs(&packing), FIRST);
        (0..80).for_each(|_| packing.learn(1, 8, Duration::from_micros(5)));
        assert_eq!(runs(&packing), FIRST + 10);
        (0..80).for_each(|_| packing.learn(1, 8, MS));
        assert_eq!(runs(&packing), FIRST + 90);
    }

    #[test]
    fn what_waits_takes_as_long_as_its_rows_in_typical_runs() {
        let mut packing = Packing::new(RunBounds { rows: 32, tokens: 4096 });
        packing.enter(64);
        assert_eq!(packing.drain(), None);
        packing.learn(8, 64, MS * 80);
        let one = packing.drain().unwrap();
        assert!((MS * 9..MS * 11).contains(&one), "{one:?}");
        (0..9).for_each(|_| packing.enter(64));
        assert!((MS * 90..MS * 110).contains(&packing.drain().unwrap()));
        (0..10).for_each(|_| packing.leave(64));
        assert_eq!(packing.drain(), Some(Duration::ZERO));
    }
}
