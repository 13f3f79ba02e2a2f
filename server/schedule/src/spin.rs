//! Does it pay to look for the next job for a moment instead of going to sleep? To sleep and be woken on
//! another processor takes tens of microseconds; to look takes a processor for as long as it lasts. Pure.

use std::time::{Duration, Instant};

/// Decides for the workers of one model. They look only after runs that had no company, while work has lately come
/// within the limit, and where it was tried and is faster. So an idle model costs nothing, and neither does a busy one:
/// where requests meet, the processors have other things to do, and a wake-up is shared.
#[derive(Debug)]
pub struct Spin {
    /// Longest look; zero for none.
    limit: Duration,
    /// Mean time from running out of work until there was more, in seconds.
    gap: f64,
    /// When the model ran out of work last.
    since: Option<Instant>,
    /// When its last run began.
    began: Option<Instant>,
    /// So many runs in a row had no company, up to [`ALONE`].
    alone: u32,
    trial: Trial,
}

/// Weight of the last gap in the mean.
const STEP: f64 = 0.25;

/// A long gap counts as so many limits: after it, some ten short ones bring looking back.
const LONGEST: u32 = 8;

/// Workers look after so many runs that had no company.
const ALONE: u32 = 8;

impl Spin {
    /// Looks for no longer than `limit`, and not before it has seen that this is enough.
    pub fn new(limit: Duration) -> Spin {
        let trial = Trial::default();
        Spin { limit, gap: f64::MAX, since: None, began: None, alone: 0, trial }
    }

    /// There is no work: until when to look for some; `None` to sleep at once. `is_idle` says that no other run is
    /// made.
    pub fn spin_until(&mut self, now: Instant, is_idle: bool) -> Option<Instant> {
        let since = *self.since.get_or_insert(now);
        // Of a long run a wake-up is a small part.
        let is_long = self.began.is_none_or(|it| self.limit < since.saturating_duration_since(it));
        if is_long || !is_idle {
            self.has_company();
        }
        let until = since + self.limit;
        (self.expects_work() && self.trial.looks() && now < until).then_some(until)
    }

    /// There is work: a run begins, of one request and as the only one if it `is_alone`.
    pub fn found(&mut self, now: Instant, is_alone: bool) {
        let began = self.began.replace(now);
        let (Some(since), true) = (self.since.take(), is_alone) else {
            self.has_company();
            return;
        };
        if self.expects_work()
            && let Some(began) = began
        {
            let cycle = now.saturating_duration_since(began).min(self.limit * LONGEST);
            self.trial.took(cycle);
        }
        self.alone = ALONE.min(self.alone + 1);
        let gap = now.saturating_duration_since(since).min(self.limit * LONGEST).as_secs_f64();
        let mean = self.gap.min((self.limit * LONGEST).as_secs_f64());
        self.gap = mean + STEP * (gap - mean);
    }

    fn has_company(&mut self) {
        self.alone = 0;
        self.trial.begin_again();
    }

    /// Does work come one by one, and soon?
    fn expects_work(&self) -> bool {
        self.alone == ALONE && self.gap <= self.limit.as_secs_f64()
    }
}

/// Runs without looks and with them, in turns, and then the better of both for a while.
#[derive(Debug, Default)]
struct Trial {
    /// Runs of this block so far; of the outcome, once there is one.
    runs: u32,
    /// Blocks that are through; as many as there are once there is an outcome.
    blocks: u32,
    /// Time from run to run, all runs without looks together, and all with them.
    without: Duration,
    with: Duration,
    /// Was it faster to look?
    pays: bool,
}

/// Runs of a block.
const BLOCK: u32 = 64;

/// Blocks of a trial, every other with looks.
const BLOCKS: u32 = 8;

/// Runs until there is another trial: 2 % of all are made in the way that is slower.
const KEPT: u32 = 200 * BLOCK;

/// To look takes a processor: it pays where it saves one part in so many.
const GAIN: u32 = 20;

impl Trial {
    fn looks(&self) -> bool {
        if self.blocks < BLOCKS { self.blocks % 2 == 1 } else { self.pays }
    }

    /// From one run to the next it took so long.
    fn took(&mut self, cycle: Duration) {
        self.runs += 1;
        if self.blocks == BLOCKS {
            if KEPT <= self.runs {
                *self = Trial::default();
            }
            return;
        }
        // What went before the first of a block was a run of the other kind.
        if 1 < self.runs {
            match self.looks() {
                false => self.without += cycle,
                true => self.with += cycle,
            }
        }
        if BLOCK <= self.runs {
            self.runs = 0;
            self.blocks += 1;
            self.pays = self.with + self.without / GAIN < self.without;
        }
    }

    /// What was seen of a trial that is not through is of other circumstances.
    fn begin_again(&mut self) {
        if self.blocks < BLOCKS {
            *self = Trial::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(50);
    const SOON: Duration = Duration::from_micros(20);
    const NONE: Duration = Duration::ZERO;
    /// Runs until there is an outcome.
    const TRIAL: usize = (BLOCK * BLOCKS + ALONE + 10) as usize;

    /// A model of runs that take so long, whose next request comes so soon, or sooner by `saved` where somebody looks
    /// for it.
    struct Model {
        spin: Spin,
        now: Instant,
        took: Duration,
        gap: Duration,
        saved: Duration,
    }

    impl Model {
        fn new() -> Model {
            let now = Instant::now();
            let mut spin = Spin::new(LIMIT);
            spin.spin_until(now, true);
            Model { spin, now, took: NONE, gap: SOON, saved: SOON / 2 }
        }

        /// Makes `times` runs, each followed by a time without work. Returns how often there was a look for more.
        fn runs(&mut self, times: usize, is_alone: bool) -> usize {
            let looks = (0..times).filter(|_| {
                self.spin.found(self.now, is_alone);
                self.now += self.took;
                let looks = self.spin.spin_until(self.now, true).is_some();
                self.now += if looks { self.gap - self.saved } else { self.gap };
                looks
            });
            looks.count()
        }

        /// One that has found out that it pays to look.
        fn looking() -> Model {
            let mut model = Model::new();
            model.runs(TRIAL, true);
            assert_eq!(model.runs(100, true), 100);
            model
        }
    }

    #[test]
    fn it_looks_once_work_has_been_coming_soon_and_stops_when_it_does_not() {
        let mut model = Model::new();
        assert_eq!(model.runs(BLOCK as usize, true), 0, "the trial begins without looks");
        model.runs(TRIAL, true);
        assert_eq!(model.runs(100, true), 100);
        // One long gap is enough: the next look is not before work has been coming soon again.
        model.gap = Duration::from_secs(1);
        assert!(model.runs(100, true) <= 2);
        model.gap = SOON;
        assert!((80..100).contains(&model.runs(100, true)));
    }

    #[test]
    fn it_does_not_look_where_that_is_not_faster() {
        let mut model = Model::new();
        model.saved = NONE;
        let tried = model.runs(TRIAL, true);
        assert!((200..=256).contains(&tried), "{tried}");
        assert_eq!(model.runs(KEPT as usize - 100, true), 0);
        // Another time it is.
        model.saved = SOON / 2;
        model.runs(100 + TRIAL, true);
        assert_eq!(model.runs(100, true), 100);
    }

    #[test]
    fn it_does_not_look_after_a_run_that_had_company_or_was_long() {
        let mut model = Model::looking();
        assert_eq!(model.runs(100, false), 0);
        assert!(90 <= model.runs(100, true));
        model.took = LIMIT * 2;
        assert_eq!(model.runs(100, true), 0);
        model.took = NONE;
        assert!(90 <= model.runs(100, true));
        let (spin, now) = (&mut model.spin, model.now);
        spin.found(now, true);
        assert_eq!(spin.spin_until(now, false), None, "another run is made");
        spin.found(now, true);
        assert_eq!(spin.spin_until(now, true), None, "one without company says little");
    }

    #[test]
    fn it_does_not_look_after_a_run_that_had_to_wait_for_another() {
        let Model { mut spin, now, .. } = Model::looking();
        spin.found(now, true);
        spin.found(now, true);
        assert_eq!(spin.spin_until(now, true), None);
    }

    #[test]
    fn a_trial_that_is_disturbed_begins_again() {
        let mut model = Model::new();
        model.runs(TRIAL - 100, true);
        model.runs(1, false);
        assert_eq!(model.runs(BLOCK as usize, true), 0);
    }

    #[test]
    fn a_look_has_an_end() {
        let Model { mut spin, now, .. } = Model::looking();
        spin.found(now, true);
        assert_eq!(spin.spin_until(now, true), Some(now + LIMIT));
        assert_eq!(spin.spin_until(now + LIMIT, true), None);
    }

    #[test]
    fn without_a_limit_it_never_looks() {
        let mut model = Model::new();
        model.spin = Spin::new(NONE);
        model.gap = NONE;
        model.saved = NONE;
        assert_eq!(model.runs(2 * TRIAL, true), 0);
    }
}
