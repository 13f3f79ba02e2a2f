//! Which runs may be made on the thread of the one that asked: runs of a kind whose own runs have been fast, of a model
//! that has not surprised of late. Plain data.
//!
//! A run also takes long where its thread waits for a processor: in a container of few, the system stops all threads
//! for most of a tenth of a second now and then. That says nothing of the model. So of a model whose runs are
//! computed by the thread that makes them, what counts is how long that has computed.

use std::time::{Duration, Instant};

use super::{
    cost::CostTable,
    in_place_runs::LONGEST_IN_PLACE,
    learn::{Bucket, RunTimes, size_class},
    policy::Pending,
    thread_time::RunTime,
    work::Work,
};

/// What the time of a run of a model may depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeFollows {
    /// On the number of rows only: every input has a fixed shape. Runs at load tell how long those of clients take.
    Rows,
    /// On rows, shapes and lengths: a size that no client has sent yet may take any time.
    Shapes,
    /// On what is in the inputs, as in a loop: a run that looks like a fast one may take any time.
    Values,
}

/// Kinds of runs that a model remembers. Beyond that the one that was seen least lately is forgotten.
const KINDS: usize = 64;

/// A run of a kind that is fast is slow where it takes so many times what a run in place may take. Turns of the
/// system's scheduler make runs slow that are not, now and then.
const SLOW: u32 = 20;

/// A run holds its thread where it takes so many times what a run in place may take: a client would notice.
const HOLDS: u32 = 400;

/// After a slow run so many fast ones are wanted before one is made in place again. As many again, up to the most, each
/// time that the next slow run comes within so many times as many runs.
const FIRST_WANTED: u32 = 32;
const MOST_WANTED: u32 = 4096;
const CALM: u32 = 16;

/// After a run that holds its thread none is made in place for so many times as long: so runs hold it for one part in
/// so many of the time.
const PAUSE: u32 = 100;
/// The pause grows so many times where the next such run comes within ten times the last pause, up to the longest.
const PAUSE_GROWS: u32 = 4;
const PAUSE_RECALLED: u32 = 10;
const LONGEST_PAUSE: u32 = 1000;
const MOST_PAUSE: Duration = Duration::from_secs(3600);

/// A run that was slow is no reason for doubt any more after so long without another.
const FADES: Duration = Duration::from_secs(60);

/// Of fast runs one in so many is looked at, for how much of it is computed by its thread.
const LOOKS: u32 = 64;

/// Runs are computed by the thread that makes them where it does so for that part of them, on the mean.
const COMPUTED: f32 = 0.7;

/// Weight of a look in the mean.
const LOOK_STEP: f32 = 0.125;

/// What runs have in common that take about the same time, if their time does not follow values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunKind {
    /// Doublings of rows.
    rows: u8,
    /// Doublings of the bytes of a row, of the largest one: of texts and ragged inputs no shape tells.
    bytes: u8,
    /// The cell of its length in tokens.
    length: u8,
    shape_key: u64,
}

impl RunKind {
    /// Of a run of so many rows, of these requests, whose shapes are equal; `length` in tokens, or 0.
    pub(crate) fn of<'a>(
        rows: usize,
        (shape_key, length): (u64, usize),
        works: impl IntoIterator<Item = &'a Work>,
    ) -> RunKind {
        let bytes_of_a_row = |work: &Work| {
            let bytes: usize = work.inputs.iter().map(|it| it.tensor.byte_len()).sum();
            bytes.div_ceil(work.rows.max(1))
        };
        let bytes = works.into_iter().map(bytes_of_a_row).max().unwrap_or(0);
        let length = if length == 0 { 0 } else { 1 + CostTable::cell(length) };
        RunKind {
            rows: size_class(rows) as u8,
            bytes: bytes.checked_ilog2().map_or(0, |it| it as u8 + 1),
            length: length as u8,
            shape_key,
        }
    }

    /// Of a job that would run alone.
    pub(crate) fn of_job(pending: Pending, work: &Work) -> RunKind {
        RunKind::of(pending.rows, (pending.shape_key, pending.length), [work])
    }

    /// The same of a run of so many such rows.
    pub(crate) fn with_rows(self, rows: usize) -> RunKind {
        RunKind { rows: size_class(rows) as u8, ..self }
    }

    /// Do both differ in their number of rows at most?
    pub(crate) fn is_like(self, other: RunKind) -> bool {
        RunKind { rows: other.rows, ..self } == other
    }
}

/// What is known of the runs of one kind.
#[derive(Debug, Clone, Copy)]
struct KnownRuns {
    kind: RunKind,
    times: Bucket,
    /// Is one run all that is known? The first of a shape often takes longer than those that follow.
    is_first: bool,
}

/// What is known of how fast the runs of one model are.
#[derive(Debug, Clone)]
pub(crate) struct FastRuns {
    /// Runs of a kind that are shorter may be made in place. Zero: none may.
    limit: Duration,
    follows: TimeFollows,
    /// At most [`KINDS`], those that were seen lately in front.
    known: Vec<KnownRuns>,
    doubt: Doubt,
    /// Which part of a fast run its thread computes, on the mean.
    computed: Option<f32>,
    /// Runs until the next look at that.
    unseen: u32,
}

impl FastRuns {
    pub(crate) fn new(limit: Duration, follows: TimeFollows) -> FastRuns {
        let limit = if follows == TimeFollows::Values { Duration::ZERO } else { limit };
        FastRuns {
            limit,
            follows,
            known: Vec::new(),
            doubt: Doubt::default(),
            computed: None,
            unseen: 0,
        }
    }

    /// May a run of that kind be made on the thread of the one that asks? `times` has the runs at load, too.
    pub(crate) fn may_run(
        &self,
        kind: RunKind,
        rows: usize,
        times: &RunTimes,
        now: Instant,
    ) -> bool {
        !self.limit.is_zero() && !self.doubt.holds(now) && self.is_fast(kind, rows, times)
    }

    /// Are runs of that kind known to be fast? Never by those of another kind.
    fn is_fast(&self, kind: RunKind, rows: usize, times: &RunTimes) -> bool {
        match (self.known.iter().find(|it| it.kind == kind), self.follows) {
            (Some(known), _) => known.times.is_below(self.limit),
            (None, TimeFollows::Rows) => times.of_size_are_below(rows, self.limit),
            (None, TimeFollows::Shapes | TimeFollows::Values) => false,
        }
    }

    /// Is it worth a look how long the thread of a run that took so long has computed?
    pub(crate) fn is_worth_a_look(&self, took: Duration) -> bool {
        !self.limit.is_zero() && (self.unseen == 0 || self.limit * SLOW <= took)
    }

    /// How long a run took, without what its thread may have waited for a processor.
    fn own_time(&mut self, time: RunTime) -> Duration {
        let RunTime { took, computed } = time;
        let Some(computed) = computed.map(|it| it.min(took)) else {
            self.unseen = self.unseen.saturating_sub(1);
            return took;
        };
        if took < self.limit * SLOW {
            let part = computed.as_secs_f32() / took.as_secs_f32().max(f32::MIN_POSITIVE);
            let mean = self.computed.unwrap_or(part);
            self.computed = Some(mean + LOOK_STEP * (part - mean));
            self.unseen = LOOKS;
            return took;
        }
        // One that is stopped for it holds its thread in any case.
        let is_computed = self.computed.is_some_and(|it| COMPUTED <= it);
        if is_computed && took < LONGEST_IN_PLACE { computed } else { took }
    }

    /// Takes in a run of that kind on a thread of the model. A slow one tells as much as if it had been made in place.
    pub(crate) fn record(&mut self, kind: RunKind, time: impl Into<RunTime>, now: Instant) {
        let took = self.own_time(time.into());
        if self.learn(kind, took) {
            self.doubt.record(took, self.limit, now);
        }
    }

    /// Takes in runs of that kind, by rows and time, which have held the thread of the one that asked for so long in
    /// all, whatever became of them.
    pub(crate) fn record_in_place(
        &mut self,
        kind: RunKind,
        runs: impl IntoIterator<Item = (usize, Duration)>,
        held: impl Into<RunTime>,
        now: Instant,
    ) {
        let held = self.own_time(held.into());
        for (rows, took) in runs {
            self.learn(kind.with_rows(rows), took.min(held));
        }
        self.doubt.record(held, self.limit, now);
    }

    /// Takes in a time of that kind. Were such runs fast as a rule before?
    fn learn(&mut self, kind: RunKind, took: Duration) -> bool {
        if self.limit.is_zero() {
            return false;
        }
        let Some(at) = self.known.iter().position(|it| it.kind == kind) else {
            self.known.truncate(KINDS - 1);
            let times = Bucket::new(took.as_secs_f64());
            self.known.insert(0, KnownRuns { kind, times, is_first: true });
            return false;
        };
        let known = &mut self.known[at];
        let was_fast = known.times.is_usually_below(self.limit);
        match std::mem::take(&mut known.is_first) && took.as_secs_f64() < known.times.mean() {
            true => known.times = Bucket::new(took.as_secs_f64()),
            false => known.times.record(took.as_secs_f64()),
        }
        if 0 < at {
            self.known.swap(at, at - 1);
        }
        was_fast
    }
}

/// How a model has surprised: runs of a kind that is fast that were slow.
#[derive(Debug, Clone, Copy, Default)]
struct Doubt {
    /// Fast runs that are wanted before one is made in place again.
    wanted: u32,
    /// As many were wanted after the last slow run.
    penalty: u32,
    /// Runs since then, and when that was.
    since: u32,
    slow_at: Option<Instant>,
    /// None is made in place until then.
    until: Option<Instant>,
    /// Length of the last pause.
    pause: Duration,
}

impl Doubt {
    fn holds(&self, now: Instant) -> bool {
        let is_recent = self.slow_at.is_some_and(|it| now < it + FADES);
        (0 < self.wanted && is_recent) || self.until.is_some_and(|it| now < it)
    }

    fn record(&mut self, took: Duration, limit: Duration, now: Instant) {
        if took < limit * SLOW {
            self.since = self.since.saturating_add(1);
            self.wanted = self.wanted.saturating_sub(1);
            return;
        }
        self.penalty = match self.since < self.penalty * CALM {
            true => (2 * self.penalty).min(MOST_WANTED),
            false => FIRST_WANTED,
        };
        (self.wanted, self.since, self.slow_at) = (self.penalty, 0, Some(now));
        if took < limit * HOLDS {
            return;
        }
        let recalled = |it: Instant| now < it + self.pause * PAUSE_RECALLED;
        let grown = match self.until.is_some_and(recalled) {
            true => self.pause * PAUSE_GROWS,
            false => Duration::ZERO,
        };
        let times = |times| took.saturating_mul(times);
        self.pause = grown.clamp(times(PAUSE), times(LONGEST_PAUSE)).min(MOST_PAUSE);
        self.until = Some(now + self.pause).max(self.until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(50);
    const FAST: Duration = Duration::from_micros(10);
    const SECOND: Duration = Duration::from_secs(1);

    fn kind(rows: usize, shape_key: u64) -> RunKind {
        RunKind::of(rows, (shape_key, 0), [])
    }

    /// A model whose runs are of one kind, each a millisecond after the other.
    struct Model {
        runs: FastRuns,
        now: Instant,
        /// Slow runs that were made in place.
        held: usize,
    }

    impl Model {
        fn new() -> Model {
            let runs = FastRuns::new(LIMIT, TimeFollows::Shapes);
            Model { runs, now: Instant::now(), held: 0 }
        }

        fn may_run(&self) -> bool {
            self.runs.may_run(kind(1, 0), 1, &RunTimes::default(), self.now)
        }

        fn run(&mut self, took: Duration) {
            self.run_computed(took, None);
        }

        fn run_computed(&mut self, took: Duration, computed: Option<Duration>) {
            self.held += usize::from(LIMIT * SLOW <= took && self.may_run());
            let computed = computed.filter(|_| self.runs.is_worth_a_look(took));
            self.runs.record(kind(1, 0), RunTime { took, computed }, self.now);
            self.now += Duration::from_millis(1);
        }
    }

    #[test]
    fn a_kind_that_was_not_seen_never_runs_in_place_whatever_others_take() {
        let (mut runs, now, times) =
            (FastRuns::new(LIMIT, TimeFollows::Shapes), Instant::now(), RunTimes::default());
        (0..1000).for_each(|_| runs.record(kind(1, 7), FAST, now));
        let may = |kind| runs.may_run(kind, 1, &times, now);
        assert!(may(kind(1, 7)));
        assert_eq!([kind(2, 7), kind(1, 8)].map(may), [false; 2]);
    }

    #[test]
    fn texts_and_ragged_inputs_that_are_longer_are_of_another_kind() {
        let work = |text: &str| {
            let tensor = backend::Tensor::from_strings(backend::Shape::new(&[1]), [text]).unwrap();
            let input = backend::NamedTensor { name: "x".into(), tensor };
            Work {
                inputs: vec![input],
                outputs: Vec::new(),
                rows: 1,
                signature: 0,
                about: None,
                parts: None,
            }
        };
        let kind = |text: &str| RunKind::of(1, (0, 0), [&work(text)]);
        assert_eq!(kind("a horse"), kind("a mouse"));
        assert_ne!(kind("a horse"), kind(&"a horse ".repeat(100)));
    }

    #[test]
    fn runs_at_load_tell_of_runs_of_their_size_where_shapes_are_fixed() {
        let (now, mut times) = (Instant::now(), RunTimes::default());
        times.record(1, FAST);
        let may =
            |follows, rows| FastRuns::new(LIMIT, follows).may_run(kind(rows, 0), rows, &times, now);
        assert!(may(TimeFollows::Rows, 1));
        assert!(!may(TimeFollows::Rows, 8) && !may(TimeFollows::Shapes, 1));
    }

    #[test]
    fn a_model_whose_time_follows_values_never_runs_in_place() {
        let (now, mut times) = (Instant::now(), RunTimes::default());
        let mut runs = FastRuns::new(LIMIT, TimeFollows::Values);
        (0..1000).for_each(|_| times.record(1, FAST));
        (0..1000).for_each(|_| runs.record(kind(1, 0), FAST, now));
        assert!(!runs.may_run(kind(1, 0), 1, &times, now));
    }

    #[test]
    fn a_first_run_that_was_slow_is_forgotten_with_the_second() {
        let mut model = Model::new();
        model.run(SECOND);
        assert!(!model.may_run());
        model.run(FAST);
        assert!(model.may_run());
    }

    #[test]
    fn one_run_that_holds_its_thread_keeps_the_model_off_it_for_a_hundred_times_as_long() {
        let mut model = Model::new();
        (0..10_000).for_each(|_| model.run(FAST));
        assert!(model.may_run());
        model.run(SECOND);
        (0..95_000).for_each(|_| model.run(FAST));
        assert!(!model.may_run());
        (0..10_000).for_each(|_| model.run(FAST));
        assert!(model.may_run());
        // And four times as long when it comes again.
        model.run(SECOND);
        (0..390_000).for_each(|_| model.run(FAST));
        assert!(!model.may_run());
        assert_eq!(model.held, 2);
    }

    #[test]
    fn a_run_that_holds_its_thread_counts_also_where_it_fails() {
        let mut model = Model::new();
        (0..10).for_each(|_| model.run(FAST));
        model.runs.record_in_place(kind(1, 0), [], SECOND, model.now);
        (0..10_000).for_each(|_| model.run(FAST));
        assert!(!model.may_run());
    }

    #[test]
    fn a_model_of_which_one_run_in_fifty_is_slow_is_soon_off_the_thread_for_good() {
        for slow in [Duration::from_millis(2), Duration::from_millis(30), SECOND] {
            let mut model = Model::new();
            for number in 1..=100_000 {
                model.run(if number % 50 == 0 { slow } else { FAST });
            }
            assert!(model.held < 20, "{slow:?}: {}", model.held);
            assert!(!model.may_run());
        }
    }

    #[test]
    fn a_turn_of_the_systems_scheduler_now_and_then_keeps_a_fast_model_off_its_thread_for_little() {
        let mut model = Model::new();
        let mut in_place = 0;
        for number in 1..=100_000 {
            in_place += usize::from(model.may_run());
            model.run(if number % 2000 == 0 { Duration::from_millis(4) } else { FAST });
        }
        assert!(90_000 < in_place, "{in_place}");
    }

    #[test]
    fn a_thread_that_waits_for_a_processor_in_one_run_of_twenty_is_no_reason_for_doubt() {
        let stopped = Duration::from_millis(80);
        let in_place = |computed: Duration| {
            let (mut model, mut in_place) = (Model::new(), 0);
            for number in 1..=10_000 {
                in_place += usize::from(model.may_run());
                let took = if number % 20 == 0 { stopped } else { FAST };
                model.run_computed(took, Some(computed.min(took)));
            }
            in_place
        };
        assert!(9_900 < in_place(FAST), "{}", in_place(FAST));
        // One that sleeps, or computes, for so long.
        for computed in [Duration::ZERO, stopped] {
            assert!(in_place(computed) < 100, "{computed:?}: {}", in_place(computed));
        }
    }

    #[test]
    fn a_run_that_is_stopped_for_holding_its_thread_counts_whatever_was_computed() {
        let mut model = Model::new();
        (0..100).for_each(|_| model.run_computed(FAST, Some(FAST)));
        assert!(model.may_run());
        model.run_computed(LONGEST_IN_PLACE, Some(FAST));
        assert!(!model.may_run());
    }

    #[test]
    fn a_doubt_fades_with_time_also_of_a_model_with_few_runs() {
        let mut model = Model::new();
        (0..100).for_each(|_| model.run(FAST));
        model.run(LIMIT * SLOW);
        (0..20).for_each(|_| model.run(FAST));
        assert!(!model.may_run());
        model.now += FADES;
        assert!(model.may_run());
    }

    #[test]
    fn the_kinds_that_are_remembered_are_bounded_and_those_in_use_stay() {
        let (mut runs, now) = (FastRuns::new(LIMIT, TimeFollows::Shapes), Instant::now());
        for other in 1..1000 {
            (0..2).for_each(|_| runs.record(kind(1, 0), FAST, now));
            runs.record(kind(1, other), FAST, now);
        }
        assert_eq!(runs.known.len(), KINDS);
        assert!(runs.may_run(kind(1, 0), 1, &RunTimes::default(), now));
        assert!(!runs.may_run(kind(1, 1), 1, &RunTimes::default(), now));
    }
}
