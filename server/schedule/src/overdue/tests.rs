//! Runs that last too long, over an engine that ends them and over one that does not.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use backend::{BackendError, Batch, Device, Instance, NamedTensor, Shape, Tensor};
use tokio::task::JoinHandle;

use super::*;
use crate::{
    admission::LongestStay,
    learn::RunTimes,
    policy::BatchPolicy,
    queue::QueuePolicy,
    ratelimit::{Limits, Need, RateLimiter},
    request_queue::RequestQueue,
    row_check::RowCheck,
    run_context::RunContext,
    scheduler::{Extent, Scheduler, Submission},
    settings::{NICENESS, QueueSettings},
    slot::{MakeInstance, Slot},
    test_process::processes,
    watchdog::RunLimit,
    work::Work,
};
use telemetry::metrics::{Metrics, MetricsSettings};

/// A run of this value ends when it is asked to. Once one was, others end at once.
const HANGS: f32 = 66.0;

/// A run of this value ends once the engine hears again.
const DEAF: f32 = 77.0;

/// A run of this value ends itself, without a result, once it is of no use any more.
const ENDS: f32 = 88.0;

/// So much later every run of these tests has lasted too long.
const LATER: Duration = Duration::from_secs(36_000);

/// What the engine has done, and whether it hears.
#[derive(Default)]
struct Engine {
    hears: AtomicBool,
    entered: AtomicUsize,
    ended: AtomicBool,
    stopped: Mutex<usize>,
}

struct Echo(Arc<Engine>);

impl Instance for Echo {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let engine = &*self.0;
        let bytes = batch.inputs[0].tensor.to_bytes();
        let values: Vec<f32> =
            bytes.chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().unwrap())).collect();
        engine.entered.fetch_add(1, Ordering::SeqCst);
        while values.contains(&DEAF) && !engine.hears.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        if values.contains(&ENDS) {
            while !batch.stop.is_over() {
                thread::sleep(Duration::from_millis(1));
            }
            engine.ended.store(true, Ordering::SeqCst);
            return Err(BackendError::Execute("its time is over".into()));
        }
        let was_stopped = 0 < *engine.stopped.lock().unwrap();
        while values.contains(&HANGS) && !was_stopped {
            if batch.stop.is_stopped() {
                *engine.stopped.lock().unwrap() += 1;
                return Err(BackendError::Execute("stopped".into()));
            }
            thread::sleep(Duration::from_millis(1));
        }
        let tensor = Tensor::concat([&batch.inputs[0].tensor]).unwrap();
        Ok(vec![NamedTensor { name: "y".into(), tensor }])
    }
}

struct Model {
    engine: Arc<Engine>,
    scheduler: Arc<Scheduler>,
    metrics: Metrics,
}

impl Model {
    /// One that is known to be fast runs in place.
    fn new(instances: usize, caller_runs_below: Duration) -> Model {
        Model::with(instances, caller_runs_below, |slot| slot)
    }

    /// One whose instance waits for a resource that there is once.
    fn limited() -> Model {
        let limiter = Arc::new(RateLimiter::new(Vec::new()));
        let need = Need { name: "R".into(), count: 1, global: true };
        let limits = Limits { needs: vec![need], priority: 1 };
        let limited = limiter.register(&limits, Device::Cpu).unwrap();
        let mut limited = Some(limited);
        Model::with(1, Duration::ZERO, |slot| slot.limited(limited.take().unwrap()))
    }

    fn with(
        instances: usize,
        caller_runs_below: Duration,
        mut finish: impl FnMut(Slot) -> Slot,
    ) -> Model {
        let engine = Arc::new(Engine::default());
        let echo = engine.clone();
        let make: Arc<MakeInstance> = Arc::new(move || Ok(Box::new(Echo(echo.clone()))));
        let settings = QueueSettings {
            model: "m".into(),
            batching: BatchPolicy::eager(4),
            queue_policies: vec![QueuePolicy::default()],
            default_level: 0,
            preserve_ordering: false,
            hold: 0,
            longest_stay: LongestStay::Unbounded,
            caller_runs_below,
            time_follows: crate::TimeFollows::Rows,
            spin: Duration::ZERO,
            row_check: RowCheck::Off,
            packing: None,
            keep_costs: None,
            run_limit: RunLimit::Fixed(Duration::from_secs(3600)),
            watchdog: Arc::default(),
            busy: crate::Busy::default(),
            niceness: NICENESS,
        };
        let slots = (0..instances).map(|_| {
            let mut slot = Slot::empty(make.clone());
            slot.fill().unwrap();
            finish(slot)
        });
        let mut times = RunTimes::default();
        (0..100).for_each(|_| times.record(1, Duration::from_micros(20)));
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
        let metrics = Metrics::new(MetricsSettings::default());
        let model = metrics.model("m", 1, &Default::default());
        let scheduler = Scheduler::new(settings, context, slots.collect(), times, model);
        Model { engine, scheduler: Arc::new(scheduler), metrics }
    }

    fn spawn(&self, value: f32) -> JoinHandle<Result<f32, Error>> {
        self.spawn_until(value, None)
    }

    fn spawn_until(&self, value: f32, deadline: Option<Instant>) -> JoinHandle<Result<f32, Error>> {
        let scheduler = self.scheduler.clone();
        tokio::spawn(async move {
            let tensor = Tensor::from_vec(Shape::new(&[1]), vec![value]).unwrap();
            let inputs = vec![NamedTensor { name: "x".into(), tensor }];
            let submission = Submission {
                is_alone: false,
                work: Work {
                    about: None,
                    parts: None,
                    signature: 0,
                    inputs,
                    outputs: vec!["y".into()],
                    rows: 1,
                },
                accepted: Instant::now(),
                shape_key: 0,
                length: 0,
                priority: 0,
                queue_timeout: None,
                deadline,
                extent: Extent::Whole,
            };
            let done = scheduler.submit(submission).await?;
            let bytes = done.outputs[0].tensor.to_bytes();
            Ok(f32::from_le_bytes(bytes[..4].try_into().unwrap()))
        })
    }

    async fn value(&self, value: f32) -> Result<f32, Error> {
        self.spawn(value).await.unwrap()
    }

    /// Waits until so many runs have begun.
    async fn entered(&self, runs: usize) {
        while self.engine.entered.load(Ordering::SeqCst) < runs {
            tokio::task::yield_now().await;
            thread::yield_now();
        }
    }

    /// What the watchdog does, when that much time has passed.
    fn look(&self, later: Duration) {
        self.scheduler.shared.clone().end_overdue(Instant::now() + later);
    }

    /// Has the runs abandoned that do not end.
    fn abandon(&self) {
        self.look(LATER);
        self.look(LATER * 2);
    }

    #[track_caller]
    fn counted(&self, outcome: &str, runs: usize) {
        let page = self.metrics.render();
        let page = std::str::from_utf8(&page).unwrap();
        let line = format!("outcome=\"{outcome}\",version=\"1\"}} {runs}");
        assert!(page.contains(&line), "{page}");
    }
}

fn late() -> Error {
    Error::RunTimeout { model: "m".into(), limit: Duration::from_secs(3600) }
}

#[tokio::test]
async fn a_run_that_lasts_too_long_is_stopped_and_its_requests_told_so() {
    let model = Model::new(1, Duration::ZERO);
    let hanging = model.spawn(HANGS);
    model.entered(1).await;
    let behind = model.spawn(1.0);
    model.look(Duration::ZERO);
    assert!(!hanging.is_finished());
    model.look(LATER);
    assert_eq!(hanging.await.unwrap().unwrap_err(), late());
    assert_eq!(behind.await.unwrap().unwrap(), 1.0);
    model.counted("stopped", 1);
}

#[tokio::test]
async fn an_instance_that_cannot_be_stopped_is_replaced() {
    let model = Model::new(1, Duration::ZERO);
    let deaf = model.spawn(DEAF);
    model.entered(1).await;
    let behind = model.spawn(1.0);
    model.abandon();
    assert_eq!(deaf.await.unwrap().unwrap_err(), late());
    assert_eq!(behind.await.unwrap().unwrap(), 1.0);
    model.counted("abandoned", 1);
    assert_eq!(model.scheduler.trouble(), None);
    // Its thread is not one that the end waits for.
    model.scheduler.close();
    assert_eq!(model.scheduler.wait_closed(Duration::from_secs(10)), 0);
    model.engine.hears.store(true, Ordering::SeqCst);
}

/// The same in a process of its model's own.
fn apart(slot: Slot) -> Slot {
    slot.apart(processes(&[Device::Cpu]))
}

#[tokio::test]
async fn a_run_in_a_process_of_its_own_is_answered_at_its_limit_though_it_goes_on() {
    let model = Model::with(1, Duration::ZERO, apart);
    let deaf = model.spawn(DEAF);
    model.entered(1).await;
    model.look(LATER);
    assert_eq!(deaf.await.unwrap().unwrap_err(), late());
    assert!(model.scheduler.shared.lock().runs.has_batch());
    model.look(LATER * 2);
    model.counted("abandoned", 1);
    model.engine.hears.store(true, Ordering::SeqCst);
}

#[tokio::test]
async fn a_run_in_a_process_of_its_own_that_nobody_waits_for_is_given_up_after_ten_seconds() {
    // The first three runs of an instance have all of their time.
    for (is_apart, earlier, is_given_up) in [(true, 3, true), (true, 2, false), (false, 3, false)] {
        let place = |slot: Slot| if is_apart { apart(slot) } else { slot };
        let model = Model::with(1, Duration::ZERO, place);
        for _ in 0..earlier {
            model.spawn(1.0).await.unwrap().unwrap();
        }
        let deaf = model.spawn(DEAF);
        model.entered(earlier + 1).await;
        deaf.abort();
        assert!(deaf.await.unwrap_err().is_cancelled());
        let second = Duration::from_secs(1);
        model.look(9 * second);
        model.look(60 * second);
        assert!(model.scheduler.shared.lock().runs.has_batch());
        model.look(62 * second);
        assert_eq!(model.scheduler.shared.lock().runs.has_batch(), !is_given_up);
        model.engine.hears.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_run_that_is_given_up_leaves_its_resources_to_others() {
    let model = Model::limited();
    let deaf = model.spawn(DEAF);
    model.entered(1).await;
    let behind = model.spawn(1.0);
    model.abandon();
    assert_eq!(deaf.await.unwrap().unwrap_err(), late());
    let behind = tokio::time::timeout(Duration::from_secs(30), behind).await.unwrap();
    assert_eq!(behind.unwrap().unwrap(), 1.0);
    model.engine.hears.store(true, Ordering::SeqCst);
}

#[tokio::test]
async fn a_run_that_ends_itself_at_the_deadline_is_late_and_no_failure_of_the_model() {
    let model = Model::new(1, Duration::ZERO);
    // Long enough that the run begins before that, on a busy machine too.
    let deadline = Instant::now() + Duration::from_secs(1);
    let ending = model.spawn_until(ENDS, Some(deadline));
    // Its answer is there before this thread has looked at the clock.
    model.entered(1).await;
    while !model.engine.ended.load(Ordering::SeqCst)
        || model.scheduler.shared.lock().runs.has_batch()
    {
        thread::yield_now();
    }
    let error = ending.await.unwrap().unwrap_err();
    assert_eq!(error, Error::DeadlineExceeded { model: "m".into() });
}

#[tokio::test]
async fn a_model_is_not_ready_while_too_many_instances_are_lost_and_ready_when_one_is_back() {
    let model = Model::new(1, Duration::ZERO);
    for lost in 1..=5 {
        let deaf = model.spawn(DEAF);
        model.entered(lost).await;
        model.abandon();
        assert_eq!(deaf.await.unwrap().unwrap_err(), late());
        assert_eq!(model.scheduler.trouble().is_some(), lost == 5, "{lost}");
    }
    let stuck = model.value(1.0).await.unwrap_err();
    assert!(matches!(stuck, Error::ModelNotReady { .. }), "{stuck}");
    assert!(matches!(model.scheduler.admit(), Err(Error::ModelNotReady { .. })));
    model.engine.hears.store(true, Ordering::SeqCst);
    while model.scheduler.trouble().is_some() {
        thread::yield_now();
    }
    assert_eq!(model.value(1.0).await.unwrap(), 1.0);
}

#[tokio::test]
async fn what_waits_for_the_last_instance_is_answered_when_it_is_lost() {
    let model = Model::new(1, Duration::ZERO);
    for lost in 1..5 {
        let deaf = model.spawn(DEAF);
        model.entered(lost).await;
        model.abandon();
        deaf.await.unwrap().unwrap_err();
    }
    let last = model.spawn(DEAF);
    model.entered(5).await;
    let behind = model.spawn(1.0);
    while model.scheduler.queued() == 0 {
        tokio::task::yield_now().await;
    }
    model.abandon();
    assert_eq!(last.await.unwrap().unwrap_err(), late());
    assert!(matches!(behind.await.unwrap().unwrap_err(), Error::ModelNotReady { .. }));
    model.engine.hears.store(true, Ordering::SeqCst);
}

/// Looks once the first run has begun, from another thread: this one is the one that runs.
fn look_from_outside(model: &Model) -> thread::JoinHandle<()> {
    let (engine, shared) = (model.engine.clone(), model.scheduler.shared.clone());
    let began = engine.entered.load(Ordering::SeqCst);
    thread::spawn(move || {
        while engine.entered.load(Ordering::SeqCst) == began {
            thread::yield_now();
        }
        shared.end_overdue(Instant::now() + Duration::from_secs(60));
    })
}

#[tokio::test]
async fn a_run_in_place_that_keeps_its_thread_is_made_again_by_a_worker() {
    let model = Model::new(1, Duration::from_secs(10));
    let looks = look_from_outside(&model);
    assert_eq!(model.value(HANGS).await.unwrap(), HANGS);
    looks.join().unwrap();
    model.counted("moved", 1);
    assert_eq!(model.scheduler.shared.lock().threads, 1);
    assert_eq!(model.value(1.0).await.unwrap(), 1.0);
}

#[tokio::test]
async fn so_are_those_that_have_joined_it() {
    let model = Model::new(1, Duration::from_secs(10));
    // Until the first task of a turn lets the others join.
    for _ in 0..15 {
        model.value(1.0).await.unwrap();
    }
    let looks = look_from_outside(&model);
    let answers: Vec<_> = [HANGS, 1.0, 2.0, 3.0, 4.0].map(|it| model.spawn(it)).into();
    for (answer, expected) in answers.into_iter().zip([HANGS, 1.0, 2.0, 3.0, 4.0]) {
        assert_eq!(answer.await.unwrap().unwrap(), expected);
    }
    looks.join().unwrap();
    model.counted("moved", 1);
}
