//! The scheduler with its threads, over an engine that adds up, fails and panics on request.

use std::sync::{
    Condvar,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use backend::{BackendError, Batch, Instance, NamedTensor, RerunPolicy, Shape, Tensor};

use super::*;
use crate::{
    policy::BatchPolicy,
    scheduler::Extent,
    sequence::settings::{DirectPolicy, ImplicitState, Wiring},
    watchdog::WatchedRuns as _,
    work::Work,
};
use telemetry::metrics::{Metrics, MetricsSettings};

/// Says when runs may go on, and counts them.
#[derive(Default)]
struct Gate {
    closed: Mutex<bool>,
    changed: Condvar,
    runs: AtomicUsize,
    /// Panics the next instance that goes?
    breaks: AtomicBool,
}

impl Gate {
    fn set(&self, closed: bool) {
        *self.closed.lock().unwrap() = closed;
        self.changed.notify_all();
    }

    /// Waits until so many runs have begun.
    fn wait_runs(&self, runs: usize) {
        while self.runs.load(Ordering::SeqCst) < runs {
            std::thread::yield_now();
        }
    }
}

/// A run of this value heeds its stop.
const STOPPABLE: i32 = 1000;

/// `sum` is `x` and what was carried; 13 fails, 666 panics.
struct Adder(Arc<Gate>);

fn number(tensor: &Tensor) -> i32 {
    i32::from_le_bytes(tensor.to_bytes()[..4].try_into().unwrap())
}

fn tensor(value: i32) -> Tensor {
    Tensor::from_vec(Shape::new(&[1]), vec![value]).unwrap()
}

impl Instance for Adder {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        self.0.runs.fetch_add(1, Ordering::SeqCst);
        let mut closed = self.0.closed.lock().unwrap();
        while *closed {
            if number(&batch.inputs[0].tensor) == STOPPABLE && batch.stop.is_stopped() {
                return Err(BackendError::Execute("stopped".into()));
            }
            closed = self.0.changed.wait_timeout(closed, Duration::from_millis(1)).unwrap().0;
        }
        drop(closed);
        let (x, carried) = (number(&batch.inputs[0].tensor), number(&batch.inputs[1].tensor));
        assert!(x != 666, "the number of the beast");
        if x == 13 {
            return Err(BackendError::Execute("unlucky".into()));
        }
        let output = |name: &str| NamedTensor { name: name.into(), tensor: tensor(x + carried) };
        Ok(vec![output("sum"), output("kept_out")])
    }
}

impl Drop for Adder {
    fn drop(&mut self) {
        assert!(!self.0.breaks.swap(false, Ordering::SeqCst), "it goes with a bang");
    }
}

fn settings() -> SequenceSettings {
    let state =
        ImplicitState { input: "kept_in".into(), output: "kept_out".into(), initial: tensor(0) };
    let (controls, hashes) = Default::default();
    SequenceSettings {
        model: "m".into(),
        strategy: Strategy::Direct(DirectPolicy {
            max_delay: Duration::ZERO,
            min_utilization: 0.0,
        }),
        idle: Duration::from_secs(60),
        longest_backlog: None,
        wiring: Wiring { batches: false, controls, states: vec![state], hashes },
        seats: 1,
        run_limit: crate::RunLimit::Auto,
        watchdog: Arc::default(),
        busy: crate::Busy::default(),
        niceness: 0,
        rerun: Default::default(),
        engine_keeps_state: false,
        answers_calls: false,
        iterates: false,
        hold: 0,
        hold_backlog: 0,
    }
}

/// A scheduler with instances that are made when they are needed.
fn scheduler(instances: usize, settings: SequenceSettings) -> (Arc<SequenceScheduler>, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let slot = |_| {
        let gate = gate.clone();
        Slot::empty(Arc::new(move || Ok(Box::new(Adder(gate.clone())))))
    };
    let metrics = Metrics::new(MetricsSettings::default()).model("m", 1, &Default::default());
    let slots = (0..instances).map(slot).collect();
    (Arc::new(SequenceScheduler::new(settings, slots, metrics)), gate)
}

const START: (bool, bool) = (true, false);
const NEXT: (bool, bool) = (false, false);
const END: (bool, bool) = (false, true);

fn submission(value: i32) -> Submission {
    let inputs = vec![NamedTensor { name: "x".into(), tensor: tensor(value) }];
    Submission {
        is_alone: false,
        work: Work {
            about: None,
            parts: None,
            signature: 0,
            inputs,
            outputs: vec!["sum".into()],
            rows: 1,
        },
        accepted: Instant::now(),
        shape_key: 0,
        length: 0,
        priority: 0,
        queue_timeout: None,
        deadline: None,
        extent: Extent::Whole,
    }
}

async fn send(
    scheduler: &SequenceScheduler,
    id: u64,
    (start, end): (bool, bool),
    submission: Submission,
) -> Result<i32, Error> {
    let sequence = Sequence { id: SequenceId::Number(id), start, end };
    let done = scheduler.submit(submission, Some(&sequence)).await?;
    Ok(number(&done.outputs[0].tensor))
}

/// The same, on a task of its own.
fn spawn(
    scheduler: &Arc<SequenceScheduler>,
    id: u64,
    place: (bool, bool),
    value: i32,
) -> tokio::task::JoinHandle<Result<i32, Error>> {
    let scheduler = scheduler.clone();
    tokio::spawn(async move { send(&scheduler, id, place, submission(value)).await })
}

#[tokio::test]
async fn what_is_held_begins_once_enough_requests_wait_of_them_enough_without_a_seat() {
    let held = SequenceSettings { hold: 2, hold_backlog: 1, ..settings() };
    let (scheduler, _) = scheduler(1, held);
    let hold = || scheduler.shared.state.lock().unwrap().hold;
    let seated = [spawn(&scheduler, 1, START, 5), spawn(&scheduler, 1, END, 1)];
    tokio::task::yield_now().await;
    assert_eq!(hold(), 2, "both have a seat");
    let unseated = spawn(&scheduler, 2, (true, true), 7);
    tokio::task::yield_now().await;
    assert_eq!(hold(), 0);
    for (answer, sum) in seated.into_iter().zip([5, 6]) {
        assert_eq!(answer.await.unwrap(), Ok(sum));
    }
    assert_eq!(unseated.await.unwrap(), Ok(7));
}

#[tokio::test]
async fn a_panic_costs_its_own_request_and_the_state_lives_on() {
    let (scheduler, _) = scheduler(1, settings());
    assert_eq!(send(&scheduler, 1, START, submission(5)).await, Ok(5));
    let error = send(&scheduler, 1, NEXT, submission(666)).await.unwrap_err();
    assert!(error.to_string().contains("the engine panicked"), "{error}");
    assert_eq!(send(&scheduler, 1, NEXT, submission(1)).await, Ok(6));
}

#[tokio::test]
async fn a_panic_of_the_thread_itself_ends_its_sequences_and_others_get_another_thread() {
    let (scheduler, gate) = scheduler(1, settings());
    assert_eq!(send(&scheduler, 1, START, submission(5)).await, Ok(5));
    gate.set(true);
    // The run panics, and then the instance as it is dropped, which nothing catches but the thread.
    gate.breaks.store(true, Ordering::SeqCst);
    let runs = spawn(&scheduler, 1, NEXT, 666);
    tokio::task::yield_now().await;
    gate.wait_runs(2);
    let (waits, unseated) = (spawn(&scheduler, 1, NEXT, 1), spawn(&scheduler, 2, START, 7));
    tokio::task::yield_now().await;
    gate.set(false);
    for lost in [runs, waits] {
        let error = lost.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Internal(_)), "{error}");
    }
    assert_eq!(unseated.await.unwrap(), Ok(7));
    let error = send(&scheduler, 1, NEXT, submission(1)).await.unwrap_err();
    assert!(error.to_string().contains("sequence 1 to model"), "{error}");
    scheduler.close();
    assert_eq!(scheduler.wait_closed(Duration::from_secs(30)), 0);
}

#[tokio::test]
async fn an_engine_that_keeps_state_loses_its_sequences_with_the_instance() {
    let strategy =
        Strategy::Oldest { batching: BatchPolicy::one_by_one(), preserve_ordering: false };
    let settings = SequenceSettings { engine_keeps_state: true, seats: 2, strategy, ..settings() };
    let (scheduler, _) = scheduler(1, settings);
    assert_eq!(send(&scheduler, 1, START, submission(5)).await, Ok(5));
    assert_eq!(send(&scheduler, 2, START, submission(7)).await, Ok(7));
    assert!(send(&scheduler, 2, NEXT, submission(666)).await.is_err());
    check_lost(send(&scheduler, 1, NEXT, submission(1)).await);
    // A mere failure loses nothing.
    assert_eq!(send(&scheduler, 1, START, submission(5)).await, Ok(5));
    assert!(send(&scheduler, 1, NEXT, submission(13)).await.is_err());
    assert_eq!(send(&scheduler, 1, NEXT, submission(1)).await, Ok(6));
}

#[tokio::test]
async fn what_waits_for_a_seat_keeps_no_answer_back_where_answers_leave_in_order() {
    let strategy =
        Strategy::Oldest { batching: BatchPolicy::one_by_one(), preserve_ordering: true };
    let (scheduler, _) = scheduler(1, SequenceSettings { strategy, ..settings() });
    assert_eq!(send(&scheduler, 1, START, submission(5)).await, Ok(5));
    let unseated = spawn(&scheduler, 2, START, 7);
    tokio::task::yield_now().await;
    let seated = send(&scheduler, 1, END, submission(1));
    assert_eq!(tokio::time::timeout(Duration::from_secs(30), seated).await, Ok(Ok(6)));
    assert_eq!(unseated.await.unwrap(), Ok(7));
}

#[tokio::test]
async fn a_sequence_that_waited_for_the_seat_of_a_lost_instance_gets_it() {
    let settings = SequenceSettings { engine_keeps_state: true, ..settings() };
    let (scheduler, gate) = scheduler(1, settings);
    assert_eq!(send(&scheduler, 1, START, submission(5)).await, Ok(5));
    gate.set(true);
    let breaks = spawn(&scheduler, 1, END, 666);
    tokio::task::yield_now().await;
    gate.wait_runs(2);
    let waits = spawn(&scheduler, 2, START, 7);
    tokio::task::yield_now().await;
    gate.set(false);
    assert!(breaks.await.unwrap().is_err());
    assert_eq!(waits.await.unwrap(), Ok(7));
}

/// An adder in a process that dies at 911, and at the first 112, with all that it keeps.
struct Mortal {
    adder: Adder,
    /// Processes that have ended.
    deaths: Arc<AtomicUsize>,
    /// Those that had when it was made.
    born: usize,
}

impl Instance for Mortal {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let deaths = self.deaths.load(Ordering::SeqCst);
        let x = number(&batch.inputs[0].tensor);
        if x == 911 || x == 112 && deaths == 0 {
            self.deaths.fetch_add(1, Ordering::SeqCst);
        }
        match self.has_lost_state() {
            true => Err(BackendError::Crashed("the process ended".into())),
            false => self.adder.execute(batch),
        }
    }

    fn has_lost_state(&self) -> bool {
        self.born < self.deaths.load(Ordering::SeqCst)
    }
}

/// One instance with so many seats, and how many of its processes have ended.
fn mortal(seats: usize) -> (Arc<SequenceScheduler>, Arc<AtomicUsize>) {
    mortal_of(seats, RerunPolicy::default())
}

fn mortal_of(seats: usize, rerun: RerunPolicy) -> (Arc<SequenceScheduler>, Arc<AtomicUsize>) {
    let strategy =
        Strategy::Oldest { batching: BatchPolicy::one_by_one(), preserve_ordering: false };
    let settings =
        SequenceSettings { engine_keeps_state: true, seats, strategy, rerun, ..settings() };
    let deaths = Arc::new(AtomicUsize::new(0));
    let (gate, counted) = (Arc::default(), deaths.clone());
    let slot = Slot::empty(Arc::new(move || {
        let born = counted.load(Ordering::SeqCst);
        Ok(Box::new(Mortal { adder: Adder(Arc::clone(&gate)), deaths: counted.clone(), born }))
    }));
    let metrics = Metrics::new(MetricsSettings::default()).model("m", 1, &Default::default());
    (Arc::new(SequenceScheduler::new(settings, vec![slot], metrics)), deaths)
}

#[track_caller]
fn check_lost(answer: Result<i32, Error>) {
    let error = answer.unwrap_err();
    assert!(error.to_string().contains(LOST), "{error}");
}

const LOST: &str = "the instance that held its state was lost; begin it again with sequence_start";

#[tokio::test]
async fn a_start_after_its_process_died_idle_is_served_and_what_had_state_there_is_lost() {
    let (scheduler, deaths) = mortal(2);
    assert_eq!(send(&scheduler, 1, START, submission(5)).await, Ok(5));
    deaths.fetch_add(1, Ordering::SeqCst);
    assert_eq!(send(&scheduler, 2, START, submission(7)).await, Ok(7));
    check_lost(send(&scheduler, 1, NEXT, submission(1)).await);
    assert_eq!(send(&scheduler, 2, NEXT, submission(1)).await, Ok(8));
    // The same sequence may begin anew, on the instance that it has lost its state with.
    deaths.fetch_add(1, Ordering::SeqCst);
    assert_eq!(send(&scheduler, 2, START, submission(3)).await, Ok(3));
    assert_eq!(send(&scheduler, 2, NEXT, submission(1)).await, Ok(4));
}

#[tokio::test]
async fn a_sequence_whose_process_died_idle_does_not_go_on_with_another_state() {
    let (scheduler, deaths) = mortal(1);
    assert_eq!(send(&scheduler, 1, START, submission(5)).await, Ok(5));
    deaths.fetch_add(1, Ordering::SeqCst);
    // Each time, until it begins anew.
    for _ in 0..2 {
        check_lost(send(&scheduler, 1, NEXT, submission(1)).await);
    }
    assert_eq!(send(&scheduler, 1, START, submission(2)).await, Ok(2));
    assert_eq!(send(&scheduler, 1, END, submission(2)).await, Ok(4));
    let error = send(&scheduler, 1, NEXT, submission(1)).await.unwrap_err();
    assert!(error.to_string().contains("sequence 1 to model"), "it has ended in order: {error}");
}

#[tokio::test]
async fn a_start_in_whose_run_the_process_dies_is_run_once_more_and_no_other_request_is() {
    let (scheduler, deaths) = mortal(2);
    assert_eq!(send(&scheduler, 1, START, submission(5)).await, Ok(5));
    assert_eq!(send(&scheduler, 2, START, submission(112)).await, Ok(112));
    check_lost(send(&scheduler, 1, NEXT, submission(1)).await);
    assert_eq!(send(&scheduler, 2, NEXT, submission(1)).await, Ok(113));
    let error = send(&scheduler, 2, NEXT, submission(911)).await.unwrap_err();
    assert!(error.to_string().contains("the state of its sequence is lost with it"), "{error}");
    assert_eq!(deaths.load(Ordering::SeqCst), 2);
    assert!(send(&scheduler, 2, NEXT, submission(1)).await.is_err());
    assert!(send(&scheduler, 3, START, submission(911)).await.is_err());
    assert_eq!(deaths.load(Ordering::SeqCst), 4);
    // Nothing has begun there.
    assert!(send(&scheduler, 3, NEXT, submission(1)).await.is_err());
}

#[tokio::test]
async fn a_start_that_is_not_to_be_run_again_gets_the_end_of_its_process() {
    let (scheduler, deaths) = mortal_of(2, RerunPolicy::Never);
    assert_eq!(send(&scheduler, 1, START, submission(5)).await, Ok(5));
    let error = send(&scheduler, 2, START, submission(112)).await.unwrap_err();
    assert!(error.to_string().contains("as parameter 'RERUN' is 'never'"), "{error}");
    assert_eq!(deaths.load(Ordering::SeqCst), 1);
    check_lost(send(&scheduler, 1, NEXT, submission(1)).await);
    assert_eq!(send(&scheduler, 2, START, submission(112)).await, Ok(112));
}

/// What the watchdog does, when that much time has passed.
fn look(scheduler: &SequenceScheduler, hours: u64) {
    let later = Instant::now() + Duration::from_secs(hours * 3600);
    scheduler.shared.clone().end_overdue(later);
}

fn is_overdue(answer: &Result<i32, Error>) -> bool {
    matches!(answer, Err(Error::RunTimeout { .. }))
}

#[tokio::test]
async fn a_run_that_lasts_too_long_is_stopped_and_its_sequence_goes_on() {
    let (scheduler, gate) = scheduler(1, settings());
    assert_eq!(send(&scheduler, 1, START, submission(5)).await, Ok(5));
    gate.set(true);
    let hangs = spawn(&scheduler, 1, NEXT, STOPPABLE);
    tokio::task::yield_now().await;
    gate.wait_runs(2);
    look(&scheduler, 1);
    assert!(is_overdue(&hangs.await.unwrap()));
    gate.set(false);
    assert_eq!(send(&scheduler, 1, NEXT, submission(1)).await, Ok(6));
    assert_eq!(scheduler.trouble(), None);
}

#[tokio::test]
async fn an_instance_that_cannot_be_stopped_is_lost_with_its_sequences_until_it_is_back() {
    let (scheduler, gate) = scheduler(1, settings());
    gate.set(true);
    let (hangs, waits) = (spawn(&scheduler, 1, START, 5), spawn(&scheduler, 1, NEXT, 1));
    tokio::task::yield_now().await;
    gate.wait_runs(1);
    look(&scheduler, 1);
    look(&scheduler, 2);
    assert!(is_overdue(&hangs.await.unwrap()));
    assert!(waits.await.unwrap().unwrap_err().to_string().contains("was cancelled"));
    assert!(scheduler.trouble().is_some());
    gate.set(false);
    while scheduler.trouble().is_some() {
        look(&scheduler, 0);
    }
    assert_eq!(send(&scheduler, 1, START, submission(7)).await, Ok(7));
}

#[tokio::test]
async fn each_instance_runs_the_sequences_that_sit_there() {
    let (scheduler, gate) = scheduler(2, settings());
    gate.set(true);
    let (first, second) = (spawn(&scheduler, 1, START, 1), spawn(&scheduler, 2, START, 2));
    tokio::task::yield_now().await;
    gate.wait_runs(2);
    gate.set(false);
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (Ok(1), Ok(2)));
}

#[tokio::test]
async fn a_request_that_runs_goes_on_when_its_client_leaves() {
    let (scheduler, gate) = scheduler(1, settings());
    assert_eq!(send(&scheduler, 1, START, submission(5)).await, Ok(5));
    gate.set(true);
    let left = spawn(&scheduler, 1, NEXT, 10);
    tokio::task::yield_now().await;
    gate.wait_runs(2);
    left.abort();
    assert!(left.await.is_err());
    gate.set(false);
    assert_eq!(send(&scheduler, 1, END, submission(1)).await, Ok(16));
}

#[tokio::test]
async fn a_deadline_that_passes_in_the_backlog_ends_the_sequence() {
    let (scheduler, _) = scheduler(1, settings());
    assert_eq!(send(&scheduler, 1, START, submission(5)).await, Ok(5));
    let mut late = submission(1);
    late.deadline = Some(late.accepted + Duration::from_millis(30));
    let late_too = spawn(&scheduler, 2, START, 1);
    tokio::task::yield_now().await;
    let error = send(&scheduler, 2, NEXT, late).await.unwrap_err();
    assert!(matches!(error, Error::DeadlineExceeded { .. }), "{error}");
    let error = late_too.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("the deadline of one of its requests passed"), "{error}");
}

#[tokio::test]
async fn without_a_timeout_of_its_own_the_backlog_is_bounded_by_the_servers() {
    let longest_backlog = Some(Duration::from_millis(20));
    let (scheduler, _) = scheduler(1, SequenceSettings { longest_backlog, ..settings() });
    assert_eq!(send(&scheduler, 1, START, submission(5)).await, Ok(5));
    let error = send(&scheduler, 2, START, submission(1)).await.unwrap_err();
    assert!(matches!(error, Error::SequenceTimeout { .. }), "{error}");
}

#[tokio::test]
async fn closing_runs_what_waits_and_ends_the_threads() {
    let (scheduler, gate) = scheduler(1, settings());
    assert_eq!(send(&scheduler, 1, START, submission(5)).await, Ok(5));
    gate.set(true);
    let running = spawn(&scheduler, 1, NEXT, 1);
    tokio::task::yield_now().await;
    gate.wait_runs(2);
    let waiting = spawn(&scheduler, 2, START, 7);
    tokio::task::yield_now().await;
    scheduler.close();
    assert_eq!(scheduler.admit(), Err(Error::ShuttingDown));
    assert_eq!(send(&scheduler, 1, NEXT, submission(1)).await, Err(Error::ShuttingDown));
    gate.set(false);
    assert_eq!((running.await.unwrap(), waiting.await.unwrap()), (Ok(6), Ok(7)));
    assert_eq!(scheduler.wait_closed(Duration::from_secs(30)), 0);
}

#[tokio::test]
async fn an_instance_that_cannot_be_made_is_the_error_of_its_sequences() {
    let slot = Slot::empty(Arc::new(|| Err(BackendError::OutOfMemory("no room".into()))));
    let metrics = Metrics::new(MetricsSettings::default()).model("m", 1, &Default::default());
    let scheduler = SequenceScheduler::new(settings(), vec![slot], metrics);
    let error = send(&scheduler, 1, START, submission(1)).await.unwrap_err();
    assert_eq!(error.to_string(), "no room");
}
