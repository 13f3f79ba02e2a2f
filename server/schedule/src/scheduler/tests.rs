//! The scheduler as a whole, over instances made for the purpose.

use std::{
    sync::{
        Condvar,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use backend::{BackendError, Batch, Device, Instance, NamedTensor, RunTerms, Shape, Tensor};

use super::*;
use crate::{
    admission::LongestStay, crowd::FEW, policy::BatchPolicy, queue::QueuePolicy,
    row_check::RowCheck, settings::NICENESS, slot::MakeInstance,
};
use telemetry::metrics::{Metrics, MetricsSettings};

/// Gives back its input, but only once the gate is open; remembers the batches it ran.
#[derive(Default)]
pub(super) struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
    batches: Mutex<Vec<usize>>,
    pub(super) entered: AtomicUsize,
    stopped: AtomicUsize,
    /// Which runs might have taken all processors.
    wide: Mutex<Vec<bool>>,
}

impl Gate {
    pub(super) fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }

    fn batches(&self) -> Vec<usize> {
        self.batches.lock().unwrap().clone()
    }
}

struct Echo(Arc<Gate>);

impl Instance for Echo {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let gate = self.0.clone();
        gate.entered.fetch_add(1, Ordering::SeqCst);
        let mut open = gate.open.lock().unwrap();
        while !*open && !batch.stop.is_stopped() {
            open = gate.changed.wait_timeout(open, Duration::from_millis(1)).unwrap().0;
        }
        if batch.stop.is_stopped() {
            gate.stopped.fetch_add(1, Ordering::SeqCst);
            return Err(BackendError::Execute("stopped".into()));
        }
        gate.batches.lock().unwrap().push(batch.rows);
        let tensor = Tensor::concat([&batch.inputs[0].tensor]).unwrap();
        Ok(vec![NamedTensor { name: "y".into(), tensor }])
    }

    fn expect_runs(&mut self, terms: RunTerms) {
        self.0.wide.lock().unwrap().push(terms.wide);
    }
}

pub(super) fn settings() -> QueueSettings {
    QueueSettings {
        model: "m".into(),
        batching: BatchPolicy::eager(4),
        queue_policies: vec![QueuePolicy::default()],
        default_level: 0,
        preserve_ordering: false,
        hold: 0,
        longest_stay: LongestStay::Unbounded,
        caller_runs_below: Duration::ZERO,
        time_follows: crate::TimeFollows::Rows,
        spin: Duration::ZERO,
        row_check: RowCheck::Off,
        packing: None,
        keep_costs: None,
        run_limit: crate::RunLimit::Auto,
        watchdog: Arc::default(),
        busy: crate::Busy::default(),
        niceness: NICENESS,
    }
}

/// A scheduler over `instances` echoes behind one gate, all made beforehand.
pub(super) fn scheduler(instances: usize, settings: QueueSettings) -> (Arc<Scheduler>, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let slots = (0..instances).map(|_| {
        let mut slot = Slot::empty(make_echo(&gate));
        slot.fill().unwrap();
        slot
    });
    (over(slots.collect(), settings), gate)
}

fn make_echo(gate: &Arc<Gate>) -> Arc<MakeInstance> {
    let gate = gate.clone();
    Arc::new(move || Ok(Box::new(Echo(gate.clone()))))
}

pub(super) fn over(slots: Vec<Slot>, settings: QueueSettings) -> Arc<Scheduler> {
    over_counting(slots, settings, &Metrics::new(MetricsSettings::default()))
}

pub(super) fn over_counting(
    slots: Vec<Slot>,
    settings: QueueSettings,
    metrics: &Metrics,
) -> Arc<Scheduler> {
    let context = RunContext {
        answers_calls: false,
        others: Vec::new(),
        batches: true,
        outputs: vec!["y".into()],
        rerun: Default::default(),
        splits: Default::default(),
        ragged: None,
        padding: None,
    };
    let metrics = metrics.model("m", 1, &Default::default());
    Arc::new(Scheduler::new(settings, context, slots, RunTimes::default(), metrics))
}

pub(super) fn submission(value: f32) -> Submission {
    let tensor = Tensor::from_vec(Shape::new(&[1]), vec![value]).unwrap();
    let inputs = vec![NamedTensor { name: "x".into(), tensor }];
    let work =
        Work { about: None, parts: None, signature: 0, inputs, outputs: vec!["y".into()], rows: 1 };
    Submission {
        is_alone: false,
        work,
        accepted: Instant::now(),
        shape_key: 0,
        length: 0,
        priority: 0,
        queue_timeout: None,
        deadline: None,
        extent: Extent::Whole,
    }
}

fn value(done: &Done) -> f32 {
    let bytes = done.outputs[0].tensor.to_bytes();
    f32::from_le_bytes(bytes[..4].try_into().unwrap())
}

/// Submits in a task of its own; the answer's value or error.
pub(super) fn spawn(
    scheduler: &Arc<Scheduler>,
    submission: Submission,
) -> tokio::task::JoinHandle<Result<f32, Error>> {
    let scheduler = scheduler.clone();
    tokio::spawn(async move { scheduler.submit(submission).await.map(|it| value(&it)) })
}

pub(super) async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
        thread::yield_now();
    }
}

#[tokio::test]
async fn what_waits_while_an_instance_is_busy_runs_as_one_batch() {
    let (scheduler, gate) = scheduler(1, settings());
    let mut answers = vec![spawn(&scheduler, submission(0.0))];
    until(|| gate.entered.load(Ordering::SeqCst) == 1).await;
    answers.extend((1..4).map(|it| spawn(&scheduler, submission(it as f32))));
    until(|| scheduler.queued() == 3).await;
    gate.open();
    for (expected, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.await.unwrap().unwrap(), expected as f32);
    }
    assert_eq!(gate.batches(), [1, 3]);
}

#[tokio::test]
async fn as_many_batches_run_at_once_as_there_are_instances() {
    let (scheduler, gate) =
        scheduler(3, QueueSettings { batching: BatchPolicy::one_by_one(), ..settings() });
    let answers: Vec<_> = (0..5).map(|_| spawn(&scheduler, submission(1.0))).collect();
    until(|| gate.entered.load(Ordering::SeqCst) == 3 && scheduler.queued() == 2).await;
    gate.open();
    for answer in answers {
        answer.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn those_that_stay_run_where_they_are_of_a_preferred_size_without_one_that_leaves() {
    let hour = Duration::from_secs(3600);
    let batching = BatchPolicy { max_rows: 8, preferred_rows: vec![4, 8], max_delay: hour };
    let (scheduler, gate) = scheduler(1, QueueSettings { batching, ..settings() });
    gate.open();
    let of_rows = |rows: usize| {
        let tensor = Tensor::from_vec(Shape::new(&[rows]), vec![0.0f32; rows]).unwrap();
        let inputs = vec![NamedTensor { name: "x".into(), tensor }];
        let it = submission(0.0);
        Submission { work: Work { inputs, rows, ..it.work }, ..it }
    };
    let leaves = spawn(&scheduler, of_rows(1));
    let stay = [2, 2].map(|rows| spawn(&scheduler, of_rows(rows)));
    until(|| scheduler.queued() == 3).await;
    leaves.abort();
    for answer in stay {
        let answer = tokio::time::timeout(Duration::from_secs(10), answer).await;
        answer.expect("they run").unwrap().unwrap();
    }
    assert_eq!(gate.batches(), [4]);
}

#[tokio::test]
async fn a_dropped_call_never_reaches_the_model() {
    let (scheduler, gate) = scheduler(1, settings());
    let running = spawn(&scheduler, submission(1.0));
    until(|| gate.entered.load(Ordering::SeqCst) == 1).await;
    let queued = spawn(&scheduler, submission(2.0));
    until(|| scheduler.queued() == 1).await;
    queued.abort();
    until(|| scheduler.queued() == 0).await;
    gate.open();
    running.await.unwrap().unwrap();
    assert_eq!(gate.batches(), [1]);
}

#[tokio::test]
async fn a_batch_is_stopped_once_no_client_waits_for_it() {
    let (scheduler, gate) = scheduler(1, QueueSettings { hold: 2, ..settings() });
    let (one, two) = (spawn(&scheduler, submission(1.0)), spawn(&scheduler, submission(2.0)));
    until(|| gate.entered.load(Ordering::SeqCst) == 1).await;
    one.abort();
    assert!(one.await.unwrap_err().is_cancelled());
    assert_eq!(gate.stopped.load(Ordering::SeqCst), 0);
    two.abort();
    until(|| gate.stopped.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn a_late_request_is_answered_on_time_though_every_instance_is_busy() {
    let (scheduler, gate) = scheduler(1, settings());
    let running = spawn(&scheduler, submission(1.0));
    until(|| gate.entered.load(Ordering::SeqCst) == 1).await;
    let deadline = Some(Instant::now() + Duration::from_millis(5));
    let late = spawn(&scheduler, Submission { deadline, ..submission(2.0) });
    let error = late.await.unwrap().unwrap_err();
    assert_eq!(error, Error::DeadlineExceeded { model: "m".into() });
    assert_eq!(scheduler.queued(), 0);
    gate.open();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_queue_timeout_rejects_what_waits_and_never_what_runs() {
    let policy = QueuePolicy { allow_timeout_override: true, ..QueuePolicy::default() };
    let (scheduler, gate) =
        scheduler(1, QueueSettings { queue_policies: vec![policy], ..settings() });
    let within = |value, timeout| Submission { queue_timeout: Some(timeout), ..submission(value) };
    // Time enough for a thread to start, on any machine.
    let longest = Duration::from_secs(1);
    let running = spawn(&scheduler, within(1.0, longest));
    until(|| gate.entered.load(Ordering::SeqCst) == 1).await;
    let waiting = spawn(&scheduler, within(2.0, Duration::from_millis(5)));
    assert!(matches!(waiting.await.unwrap(), Err(Error::QueueTimeout { .. })));
    tokio::time::sleep(longest).await;
    gate.open();
    assert_eq!(running.await.unwrap(), Ok(1.0));
}

#[tokio::test]
async fn a_full_queue_refuses_at_once() {
    let policy = QueuePolicy { max_size: Some(1), ..QueuePolicy::default() };
    let (scheduler, gate) =
        scheduler(1, QueueSettings { queue_policies: vec![policy], ..settings() });
    let running = spawn(&scheduler, submission(1.0));
    until(|| gate.entered.load(Ordering::SeqCst) == 1).await;
    let waiting = spawn(&scheduler, submission(2.0));
    until(|| scheduler.queued() == 1).await;
    assert!(matches!(scheduler.submit(submission(3.0)).await, Err(Error::Overloaded { .. })));
    gate.open();
    assert!(running.await.unwrap().is_ok() && waiting.await.unwrap().is_ok());
}

#[tokio::test]
async fn what_could_not_be_answered_in_time_is_refused_at_once() {
    let longest_stay = LongestStay::Fixed(Duration::from_secs(100));
    let (scheduler, gate) = scheduler(1, QueueSettings { longest_stay, ..settings() });
    scheduler.shared.lock().learn_occupancy(1, Duration::from_secs(80));
    let running = spawn(&scheduler, submission(1.0));
    until(|| gate.entered.load(Ordering::SeqCst) == 1).await;
    // Some 80 s of the running batch are left, and its own 80 s come on top.
    let refused = scheduler.submit(submission(2.0)).await.unwrap_err();
    assert!(matches!(refused, Error::Overloaded { .. }), "{refused}");
    assert!(scheduler.admit().is_err());
    gate.open();
    running.await.unwrap().unwrap();
    scheduler.submit(submission(3.0)).await.unwrap();
}

#[tokio::test]
async fn what_waits_before_it_is_queued_waits_as_long_in_all() {
    let longest_stay = LongestStay::Fixed(Duration::from_secs(100));
    let (scheduler, _gate) = scheduler(1, QueueSettings { longest_stay, ..settings() });
    let after = |whole| {
        let wait = ExpectedWait { whole: Duration::from_secs(whole), ..ExpectedWait::default() };
        scheduler.admit_after(wait, 1, None)
    };
    assert_eq!(after(60), Ok(()));
    scheduler.shared.lock().learn_occupancy(1, Duration::from_secs(40));
    assert!(matches!(after(60), Err(Error::Overloaded { .. })));
    assert_eq!(after(40), Ok(()));
    let wait = ExpectedWait { whole: Duration::from_secs(40), ..ExpectedWait::default() };
    let deadline = Some(Instant::now() + Duration::from_secs(60));
    assert!(matches!(scheduler.admit_after(wait, 1, deadline), Err(Error::Overloaded { .. })));
}

#[tokio::test]
async fn slow_work_may_wait_for_longer_unless_a_time_is_set() {
    let (scheduler, _gate) =
        scheduler(1, QueueSettings { longest_stay: LongestStay::Auto, ..settings() });
    let after = |whole, piece, requests| {
        let (whole, piece) = (Duration::from_secs(whole), Duration::from_secs(piece));
        scheduler.admit_after(ExpectedWait { whole, piece, requests }, 1, None)
    };
    assert_eq!(after(10, 0, FEW - 1), Ok(()));
    let refused = after(10, 0, FEW).unwrap_err();
    assert!(matches!(refused, Error::Overloaded { .. }));
    assert!(refused.to_string().contains("--max-queue-wait-ms"), "{refused}");
    assert_eq!(after(10, 1, FEW), Ok(()));
}

#[tokio::test]
async fn few_requests_of_a_slow_model_all_wait_and_those_of_a_crowd_do_not() {
    let longest_stay = LongestStay::Auto;
    let batching = BatchPolicy::one_by_one();
    let (scheduler, gate) = scheduler(1, QueueSettings { longest_stay, batching, ..settings() });
    scheduler.shared.lock().learn_occupancy(1, Duration::from_secs(80));
    let running = spawn(&scheduler, submission(1.0));
    until(|| gate.entered.load(Ordering::SeqCst) == 1).await;
    let waiting: Vec<_> = (0..FEW).map(|it| spawn(&scheduler, submission(it as f32))).collect();
    until(|| scheduler.queued() == FEW).await;
    let refused = scheduler.submit(submission(2.0)).await.unwrap_err().to_string();
    assert!(refused.contains("--max-queue-wait-ms"), "{refused}");
    assert!(scheduler.admit().is_err());
    gate.open();
    running.await.unwrap().unwrap();
    for answer in waiting {
        answer.await.unwrap().unwrap();
    }
    // A request that finds an instance idle ends the crowd.
    scheduler.submit(submission(3.0)).await.unwrap();
    assert!(scheduler.shared.lock().crowd.admits(FEW - 1, Instant::now()));
}

#[tokio::test]
async fn a_request_of_few_is_refused_all_the_same_where_its_own_deadline_is_too_near() {
    let longest_stay = LongestStay::Auto;
    let (scheduler, gate) = scheduler(1, QueueSettings { longest_stay, ..settings() });
    scheduler.shared.lock().learn_occupancy(1, Duration::from_secs(80));
    let running = spawn(&scheduler, submission(1.0));
    until(|| gate.entered.load(Ordering::SeqCst) == 1).await;
    let deadline = Some(Instant::now() + Duration::from_secs(30));
    let late = Submission { deadline, ..submission(2.0) };
    let refused = scheduler.submit(late).await.unwrap_err().to_string();
    assert!(refused.contains("deadline"), "{refused}");
    gate.open();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_time_before_a_request_is_queued_is_no_time_in_the_queue() {
    let policy =
        QueuePolicy { default_timeout: Some(Duration::from_secs(100)), ..QueuePolicy::default() };
    let (scheduler, gate) =
        scheduler(1, QueueSettings { queue_policies: vec![policy], ..settings() });
    let running = spawn(&scheduler, submission(1.0));
    until(|| gate.entered.load(Ordering::SeqCst) == 1).await;
    // It took long to prepare, or the thread that read it was held.
    let Some(accepted) = Instant::now().checked_sub(Duration::from_secs(200)) else { return };
    let waiting = spawn(&scheduler, Submission { accepted, ..submission(2.0) });
    let part = Submission { accepted, extent: Extent::FirstPart, ..submission(3.0) };
    let rows = scheduler.submit_together(vec![part]).unwrap();
    until(|| scheduler.queued() == 2).await;
    gate.open();
    running.await.unwrap().unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), 2.0);
    for row in rows {
        row.answer().await.unwrap();
    }
}

#[tokio::test]
async fn a_fast_model_runs_on_the_calling_thread() {
    let caller_runs_below = Duration::from_secs(1);
    let (scheduler, gate) = scheduler(1, QueueSettings { caller_runs_below, ..settings() });
    gate.open();
    // Before anything is learned it goes the long way.
    scheduler.submit(submission(1.0)).await.unwrap();
    assert_eq!(scheduler.shared.lock().threads, 1);
    let before = gate.entered.load(Ordering::SeqCst);
    let done = scheduler.submit(submission(2.0));
    // A future that never waits is ready at its first poll.
    let done = std::pin::pin!(done);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(matches!(done.poll(&mut context), std::task::Poll::Ready(Ok(_))));
    assert_eq!(gate.entered.load(Ordering::SeqCst), before + 1);
}

#[tokio::test]
async fn a_batch_waits_for_company_no_longer_than_its_delay() {
    // What comes is held until all are there, so that they share a batch however long that takes.
    let together = async |requests: usize, max_delay: Duration| {
        let batching = BatchPolicy { max_rows: 4, preferred_rows: vec![4], max_delay };
        let (scheduler, gate) =
            scheduler(1, QueueSettings { batching, hold: requests, ..settings() });
        gate.open();
        let started = Instant::now();
        let answers: Vec<_> =
            (0..requests).map(|it| spawn(&scheduler, submission(it as f32))).collect();
        for answer in answers {
            answer.await.unwrap().unwrap();
        }
        (gate.batches(), started.elapsed())
    };
    let delay = Duration::from_millis(20);
    let (batches, took) = together(3, delay).await;
    assert_eq!(batches, [3]);
    assert!(delay <= took, "{took:?}");
    let (batches, took) = together(4, Duration::from_secs(3600)).await;
    assert_eq!(batches, [4]);
    assert!(took < Duration::from_secs(3600), "{took:?}");
}

#[tokio::test]
async fn instances_beyond_the_first_are_made_when_there_is_work_for_them() {
    let gate = Arc::new(Gate::default());
    let slots = vec![Slot::empty(make_echo(&gate)), Slot::empty(make_echo(&gate))];
    let batching = BatchPolicy::one_by_one();
    let scheduler = over(slots, QueueSettings { batching, ..settings() });
    let answers: Vec<_> = (0..2).map(|it| spawn(&scheduler, submission(it as f32))).collect();
    until(|| gate.entered.load(Ordering::SeqCst) == 2).await;
    gate.open();
    for answer in answers {
        answer.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_model_whose_instances_cannot_be_made_answers_with_the_reason() {
    let make: Arc<MakeInstance> = Arc::new(|| Err(BackendError::OutOfMemory("no room".into())));
    let scheduler = over(vec![Slot::empty(make)], settings());
    let error = scheduler.submit(submission(1.0)).await.unwrap_err();
    assert_eq!(error.to_string(), "no room");
}

#[tokio::test]
async fn an_instance_that_could_not_be_made_is_tried_again_for_a_request_that_waits() {
    let (gate, tries) = (Arc::new(Gate::default()), AtomicUsize::new(0));
    gate.open();
    let make: Arc<MakeInstance> = {
        let make = make_echo(&gate);
        Arc::new(move || match tries.fetch_add(1, Ordering::SeqCst) {
            0 => Err(BackendError::OutOfMemory("no room".into())),
            _ => make(),
        })
    };
    let scheduler = over(vec![Slot::empty(make)], settings());
    assert!(scheduler.submit(submission(1.0)).await.is_err());
    let second = scheduler.submit(submission(2.0));
    let done = tokio::time::timeout(Duration::from_secs(10), second).await.unwrap();
    assert_eq!(value(&done.unwrap()), 2.0);
}

#[tokio::test]
async fn a_request_that_waits_does_not_hear_of_a_process_that_dies_while_its_instance_is_made() {
    let (gate, tries) = (Arc::new(Gate::default()), AtomicUsize::new(0));
    gate.open();
    let make: Arc<MakeInstance> = {
        let make = make_echo(&gate);
        Arc::new(move || match tries.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => Err(BackendError::Crashed("ended by SIGKILL".into())),
            _ => make(),
        })
    };
    let scheduler = over(vec![Slot::empty(make)], settings());
    assert_eq!(value(&scheduler.submit(submission(1.0)).await.unwrap()), 1.0);
}

#[tokio::test]
async fn a_slow_model_takes_requests_while_its_instance_is_yet_to_be_made() {
    let gate = Arc::new(Gate::default());
    gate.open();
    let longest_stay = LongestStay::Fixed(Duration::from_millis(100));
    let scheduler =
        over(vec![Slot::empty(make_echo(&gate))], QueueSettings { longest_stay, ..settings() });
    scheduler.shared.lock().learn_occupancy(1, Duration::from_secs(1));
    scheduler.submit(submission(1.0)).await.unwrap();
}

#[tokio::test]
async fn waiting_for_the_end_takes_no_wake_up_from_a_worker() {
    let (scheduler, gate) = scheduler(1, settings());
    let first = spawn(&scheduler, submission(1.0));
    until(|| gate.entered.load(Ordering::SeqCst) == 1).await;
    let waiter = {
        let scheduler = scheduler.clone();
        thread::spawn(move || scheduler.wait_closed(Duration::from_secs(30)))
    };
    // There is no way to see that the waiter waits already. If it does not, this test proves less.
    thread::sleep(Duration::from_millis(50));
    gate.open();
    first.await.unwrap().unwrap();
    until(|| scheduler.shared.lock().is_any_parked()).await;
    let second = scheduler.submit(submission(2.0));
    tokio::time::timeout(Duration::from_secs(10), second).await.unwrap().unwrap();
    scheduler.close();
    assert_eq!(waiter.join().unwrap(), 0);
}

#[tokio::test]
async fn a_request_that_comes_after_its_deadline_never_runs() {
    let caller_runs_below = Duration::from_secs(1);
    let (scheduler, gate) = scheduler(1, QueueSettings { caller_runs_below, ..settings() });
    gate.open();
    scheduler.shared.lock().times.record(1, Duration::from_micros(1));
    let deadline = Some(Instant::now());
    let late = scheduler.submit(Submission { deadline, ..submission(1.0) }).await;
    assert_eq!(late.unwrap_err(), Error::DeadlineExceeded { model: "m".into() });
    assert_eq!(gate.entered.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_failure_is_counted_once_wherever_it_is_noticed_first() {
    let metrics = Metrics::new(MetricsSettings::default());
    let gate = Arc::new(Gate::default());
    let scheduler = over_counting(vec![Slot::empty(make_echo(&gate))], settings(), &metrics);
    let running = spawn(&scheduler, submission(1.0));
    until(|| gate.entered.load(Ordering::SeqCst) == 1).await;
    // Long enough that it comes before that, on a busy machine too.
    let deadline = Instant::now() + Duration::from_millis(300);
    {
        let late = scheduler.submit(Submission { deadline: Some(deadline), ..submission(2.0) });
        let mut late = std::pin::pin!(late);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(late.as_mut().poll(&mut context).is_pending());
        thread::sleep(deadline.saturating_duration_since(Instant::now()));
        gate.open();
        // The worker throws it out for being late, and then its client leaves without having looked.
        until(|| scheduler.queued() == 0).await;
    }
    running.await.unwrap().unwrap();
    let text = String::from_utf8(metrics.render().to_vec()).unwrap();
    let failures = text.lines().filter(|it| it.starts_with("nv_inference_request_failure{"));
    let count = |line: &str| line.rsplit(' ').next().and_then(|it| it.parse::<f64>().ok()).unwrap();
    assert_eq!(failures.map(count).sum::<f64>(), 1.0, "{text}");
}

/// Gives back its input; the value 0 only once 49 other batches have run.
struct ZeroLast(Arc<Gate>);

impl Instance for ZeroLast {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let tensor = batch.inputs[0].tensor.clone();
        let is_zero = tensor.to_bytes().iter().all(|it| *it == 0);
        while is_zero && self.0.batches().len() < 49 {
            thread::yield_now();
        }
        self.0.batches.lock().unwrap().push(batch.rows);
        Ok(vec![NamedTensor { name: "y".into(), tensor }])
    }
}

#[tokio::test]
async fn replies_leave_in_order_of_arrival_where_that_is_asked() {
    let gate = Arc::new(Gate::default());
    let make: Arc<MakeInstance> = {
        let gate = gate.clone();
        Arc::new(move || Ok(Box::new(ZeroLast(gate.clone()))))
    };
    let slots = vec![Slot::empty(make.clone()), Slot::empty(make)];
    let batching = BatchPolicy::one_by_one();
    // All of them wait before the first one runs, so that the order of arrival is known.
    let scheduler =
        over(slots, QueueSettings { batching, preserve_ordering: true, hold: 50, ..settings() });
    let order = Arc::new(Mutex::new(Vec::new()));
    let calls: Vec<_> = (0..50)
        .map(|it| {
            let (scheduler, order) = (scheduler.clone(), order.clone());
            async move {
                scheduler.submit(submission(it as f32)).await.unwrap();
                order.lock().unwrap().push(it);
            }
        })
        .map(tokio::spawn)
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert!(order.lock().unwrap().is_sorted());
}

#[tokio::test]
async fn a_closed_scheduler_finishes_what_waits_and_takes_nothing_more() {
    let (scheduler, gate) = scheduler(1, settings());
    let running = spawn(&scheduler, submission(1.0));
    until(|| gate.entered.load(Ordering::SeqCst) == 1).await;
    let waiting = spawn(&scheduler, submission(2.0));
    until(|| scheduler.queued() == 1).await;
    scheduler.close();
    assert!(matches!(scheduler.submit(submission(3.0)).await, Err(Error::ShuttingDown)));
    gate.open();
    assert!(running.await.unwrap().is_ok() && waiting.await.unwrap().is_ok());
    assert_eq!(scheduler.wait_closed(Duration::from_secs(10)), 0);
}

#[tokio::test]
async fn statistics_tell_runs_by_size_and_what_failures_cost() {
    let (scheduler, gate) = scheduler(1, settings());
    let first = spawn(&scheduler, submission(0.0));
    until(|| gate.entered.load(Ordering::SeqCst) == 1).await;
    let waiting: Vec<_> = (1..4).map(|it| spawn(&scheduler, submission(it as f32))).collect();
    until(|| scheduler.queued() == 3).await;
    let long_ago = Instant::now() - Duration::from_millis(5);
    let late = Submission { accepted: long_ago, deadline: Some(long_ago), ..submission(9.0) };
    scheduler.submit(late).await.unwrap_err();
    gate.open();
    first.await.unwrap().unwrap();
    for answer in waiting {
        answer.await.unwrap().unwrap();
    }
    let statistics = scheduler.shared.metrics.statistics();
    assert_eq!(statistics.execution_count, 2);
    let sizes: Vec<(u64, u64)> =
        statistics.batches.iter().map(|it| (it.rows, it.compute_infer.count)).collect();
    assert_eq!(sizes, [(1, 1), (3, 1)]);
    assert_eq!(statistics.fail.count, 1);
    assert!(5_000_000 <= statistics.fail.ns, "{statistics:?}");
}

#[tokio::test]
async fn instances_are_added_and_taken_away_while_requests_run() {
    let (scheduler, gate) =
        scheduler(1, QueueSettings { batching: BatchPolicy::one_by_one(), ..settings() });
    let held = spawn(&scheduler, submission(1.0));
    until(|| gate.entered.load(Ordering::SeqCst) == 1).await;
    assert!(scheduler.resize(&[(Device::Cpu, 3)]).unwrap());
    let second = spawn(&scheduler, submission(2.0));
    // It runs beside the first one, which still holds the only instance that there was.
    until(|| gate.entered.load(Ordering::SeqCst) == 2).await;
    assert_eq!(scheduler.instances(), 3);
    assert!(scheduler.resize(&[(Device::Cpu, 1)]).unwrap());
    assert_eq!(scheduler.instances(), 1);
    assert!(!scheduler.resize(&[(Device::Gpu(0), 1)]).unwrap());
    let third = spawn(&scheduler, submission(3.0));
    gate.open();
    for (expected, answer) in [(1.0, held), (2.0, second), (3.0, third)] {
        assert_eq!(answer.await.unwrap().unwrap(), expected);
    }
    // The last one may have ended, too, where nothing has come for a while.
    until(|| scheduler.shared.lock().threads <= 1).await;
    let state = scheduler.shared.lock();
    assert!(state.surplus.is_empty() && state.idle.len() == 1);
}

#[tokio::test]
async fn a_run_may_take_all_processors_where_no_model_runs_another_and_nothing_waits() {
    let busy = crate::Busy::default();
    let settings =
        || QueueSettings { batching: BatchPolicy::one_by_one(), busy: busy.clone(), ..settings() };
    let (one, one_gate) = scheduler(1, settings());
    let (other, other_gate) = scheduler(1, settings());
    let first = spawn(&one, submission(1.0));
    until(|| one_gate.entered.load(Ordering::SeqCst) == 1).await;
    let beside = spawn(&other, submission(1.0));
    until(|| other_gate.entered.load(Ordering::SeqCst) == 1).await;
    let waiting: Vec<_> = (0..2).map(|_| spawn(&one, submission(1.0))).collect();
    until(|| one.queued() == 2).await;
    other_gate.open();
    beside.await.unwrap().unwrap();
    one_gate.open();
    first.await.unwrap().unwrap();
    for answer in waiting {
        answer.await.unwrap().unwrap();
    }
    let wide = |gate: &Gate| gate.wide.lock().unwrap().clone();
    // Behind the second run of the one the third has waited.
    assert_eq!((wide(&one_gate), wide(&other_gate)), (vec![true, false, true], vec![false]));
}
