//! Requests of a model on two devices, whose process on one of them dies in a run.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use backend::{BackendError, Batch, Device, Instance, ModelProcess, NamedTensor, RunTerms, Tensor};

use super::{
    tests::{over, over_counting, settings, spawn, submission, until},
    *,
};
use crate::{
    queue::QueuePolicy,
    ratelimit::{Limits, Need, RateLimiter},
    reply::Reply,
    slot::MakeInstance,
    test_process::{TestProcess, on, processes},
    watchdog::WatchedRuns as _,
};
use telemetry::metrics::{Metrics, MetricsSettings};

/// A run in which the process dies, whatever the device.
const KILLS: f32 = 911.0;

/// A run of so many rows on that device. Did it have the process alone?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run(Device, usize, bool);

/// What runs there have been, and whether the next one ends its process.
#[derive(Default)]
struct Engine {
    runs: Mutex<Vec<Run>>,
    /// The value of the first request of each.
    firsts: Mutex<Vec<f32>>,
    dies: AtomicBool,
    /// Those of both devices.
    processes: [Arc<TestProcess>; 2],
}

struct Echo {
    engine: Arc<Engine>,
    device: Device,
    process: Arc<TestProcess>,
    is_alone: bool,
}

impl Instance for Echo {
    fn has_lost_process(&self) -> bool {
        self.process.is_out.load(SeqCst)
    }

    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        if let Some(outage) = self.process.outage() {
            return Err(BackendError::Unavailable(outage));
        }
        self.engine.runs.lock().unwrap().push(Run(self.device, batch.rows, self.is_alone));
        let tensor = Tensor::concat([&batch.inputs[0].tensor]).unwrap();
        let bytes = tensor.to_bytes();
        let values = bytes.chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().unwrap()));
        let values: Vec<f32> = values.collect();
        self.engine.firsts.lock().unwrap().push(values[0]);
        let kills = values.contains(&KILLS);
        if self.engine.dies.swap(false, SeqCst) {
            self.process.is_out.store(true, SeqCst);
            return Err(BackendError::Crashed("the process ended".into()));
        }
        match kills {
            true => Err(BackendError::Crashed("the process ended".into())),
            false => Ok(vec![NamedTensor { name: "y".into(), tensor }]),
        }
    }

    fn expect_runs(&mut self, terms: RunTerms) {
        self.is_alone = terms.alone;
    }
}

const FIRST: Device = Device::Gpu(0);
const LAST: Device = Device::Gpu(1);

/// A scheduler over an instance on each of two devices, of which the last is preferred. `hold` requests are the first
/// run.
fn two_devices(hold: usize) -> (Arc<Scheduler>, Arc<Engine>) {
    two_devices_with(QueueSettings { hold, ..settings() })
}

fn two_devices_with(settings: QueueSettings) -> (Arc<Scheduler>, Arc<Engine>) {
    let engine = Arc::new(Engine::default());
    let processes = || [FIRST, LAST].into_iter().zip(&engine.processes);
    let all: backend::Processes = processes().map(|(device, it)| on(device, it)).collect();
    let slots = processes().map(|(device, process)| {
        let (engine, process) = (engine.clone(), process.clone());
        let make: Arc<MakeInstance> = Arc::new(move || {
            let (engine, process) = (engine.clone(), process.clone());
            Ok(Box::new(Echo { engine, device, process, is_alone: false }))
        });
        let mut slot = Slot::empty_on(device, make).apart(all.clone());
        slot.fill().unwrap();
        slot
    });
    let scheduler = over(slots.collect(), settings);
    (scheduler, engine)
}

#[tokio::test]
async fn an_instance_whose_process_has_died_is_made_anew_before_there_is_a_request() {
    let (made, has_died) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
    let (engine, process) = (Arc::<Engine>::default(), Arc::<TestProcess>::default());
    let all: backend::Processes = [on(FIRST, &process)].into_iter().collect();
    let (counted, dies) = (made.clone(), has_died.clone());
    let make: Arc<MakeInstance> = Arc::new(move || {
        counted.fetch_add(1, SeqCst);
        dies.store(false, SeqCst);
        let (engine, process) = (engine.clone(), process.clone());
        let echo = Echo { engine, device: FIRST, process, is_alone: false };
        Ok(Box::new(Mortal { echo, has_died: dies.clone() }))
    });
    let mut slot = Slot::empty_on(FIRST, make).apart(all);
    slot.fill().unwrap();
    let scheduler = over(vec![slot], settings());
    has_died.store(true, SeqCst);
    scheduler.shared.clone().end_overdue(Instant::now());
    until(|| made.load(SeqCst) == 2).await;
    assert_eq!(spawn(&scheduler, submission(1.0)).await.unwrap().unwrap(), 1.0);
    // Where nobody has looked yet, whoever comes finds one that was made anew all the same.
    has_died.store(true, SeqCst);
    assert_eq!(spawn(&scheduler, submission(2.0)).await.unwrap().unwrap(), 2.0);
    assert_eq!(made.load(SeqCst), 3);
}

#[tokio::test]
async fn who_waits_for_resources_while_another_instance_is_made_anew_hears_of_no_death() {
    let limiter = Arc::new(RateLimiter::new(Vec::new()));
    let needs = vec![Need { name: "one".to_owned(), count: 1, global: true }];
    let limits = Limits { needs, priority: 1 };
    let limited = || limiter.register(&limits, FIRST).unwrap();
    let (engine, process) = (Arc::<Engine>::default(), Arc::<TestProcess>::default());
    let all: backend::Processes = [on(FIRST, &process)].into_iter().collect();
    let is_open = Arc::new(AtomicBool::new(true));
    let slot = |has_died: &Arc<AtomicBool>| {
        let (engine, process, is_open) = (engine.clone(), process.clone(), is_open.clone());
        let dies = has_died.clone();
        let make: Arc<MakeInstance> = Arc::new(move || {
            while !is_open.load(SeqCst) {
                std::thread::yield_now();
            }
            dies.store(false, SeqCst);
            let (engine, process) = (engine.clone(), process.clone());
            let echo = Echo { engine, device: FIRST, process, is_alone: false };
            Ok(Box::new(Mortal { echo, has_died: dies.clone() }))
        });
        let mut slot = Slot::empty_on(FIRST, make).apart(all.clone()).limited(limited());
        slot.fill().unwrap();
        slot
    };
    let have_died = [Arc::<AtomicBool>::default(), Arc::default()];
    let scheduler = over(have_died.iter().map(slot).collect(), settings());
    is_open.store(false, SeqCst);
    have_died[1].store(true, SeqCst);
    scheduler.shared.clone().end_overdue(Instant::now());
    until(|| scheduler.shared.lock().filling.len() == 1).await;
    let permit = Arc::new(limited()).acquire();
    let answer = spawn(&scheduler, submission(1.0));
    until(|| scheduler.shared.lock().awaiting.len() == 1).await;
    let now = Instant::now();
    scheduler.shared.lock().note_service(now);
    let is_out = scheduler.shared.lock().is_out_of_service(now + Duration::from_secs(5));
    drop(permit);
    is_open.store(true, SeqCst);
    assert_eq!(answer.await.unwrap().unwrap(), 1.0);
    assert!(!is_out);
}

/// An instance whose process may have died while it was idle: it would open itself in the next one.
struct Mortal {
    echo: Echo,
    has_died: Arc<AtomicBool>,
}

impl Instance for Mortal {
    fn has_lost_process(&self) -> bool {
        self.has_died.load(SeqCst)
    }

    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        assert!(!self.has_lost_process(), "it is not warm");
        self.echo.execute(batch)
    }
}

#[tokio::test]
async fn requests_whose_process_has_died_are_answered_by_the_other_device_each_by_itself() {
    let (scheduler, engine) = two_devices(2);
    engine.dies.store(true, SeqCst);
    let answers = [1.0, 2.0].map(|it| spawn(&scheduler, submission(it)));
    for (answer, value) in answers.into_iter().zip([1.0, 2.0]) {
        assert_eq!(answer.await.unwrap().unwrap(), value);
    }
    let runs = engine.runs.lock().unwrap().clone();
    assert_eq!(runs, [Run(LAST, 2, false), Run(FIRST, 1, true), Run(FIRST, 1, true)]);
}

#[tokio::test]
async fn a_request_that_ends_a_process_on_each_of_two_devices_is_answered_with_that() {
    let (scheduler, engine) = two_devices(0);
    let error = spawn(&scheduler, submission(KILLS)).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Backend(BackendError::Crashed(_))), "{error:?}");
    let runs = engine.runs.lock().unwrap().clone();
    assert_eq!(runs.len(), 2, "{runs:?}");
    assert!(runs[1].2, "{runs:?}");
}

#[tokio::test]
async fn a_request_that_another_device_is_to_run_keeps_its_priority() {
    let queue_policies = vec![QueuePolicy::default(); 2];
    let (scheduler, engine) =
        two_devices_with(QueueSettings { hold: 2, queue_policies, ..settings() });
    engine.dies.store(true, SeqCst);
    let with = |priority, value| Submission { priority, ..submission(value) };
    let low = spawn(&scheduler, with(2, 1.0));
    until(|| scheduler.queued() == 1).await;
    let high = spawn(&scheduler, with(1, 2.0));
    assert_eq!([low.await.unwrap().unwrap(), high.await.unwrap().unwrap()], [1.0, 2.0]);
    assert_eq!(*engine.firsts.lock().unwrap(), [2.0, 2.0, 1.0]);
}

/// What the metrics say of requests that were to run again, by outcome.
fn reruns(metrics: &Metrics, outcome: &str) -> String {
    let text = String::from_utf8(metrics.render().to_vec()).unwrap();
    let labels = format!("model=\"m\",outcome=\"{outcome}\",version=\"1\"");
    let series = format!("muster_worker_rerun_total{{{labels}}} ");
    text.lines().find_map(|it| it.strip_prefix(&series)).unwrap().to_owned()
}

#[tokio::test]
async fn a_request_that_waits_for_another_run_and_leaves_without_one_is_counted() {
    let metrics = Metrics::new(MetricsSettings::default());
    let make: Arc<MakeInstance> = Arc::new(|| Err(BackendError::OutOfMemory("no room".into())));
    let slots = [FIRST, LAST].map(|it| Slot::empty_on(it, make.clone()));
    let scheduler = over_counting(slots.into(), QueueSettings { hold: 2, ..settings() }, &metrics);
    let shared = &scheduler.shared;
    shared.metrics.has_processes(processes(&[FIRST, LAST]));
    // A process has died in a run of each.
    let waits = || {
        let Submission { work, accepted, .. } = submission(1.0);
        let (reply, receiver) = Reply::channel(None);
        let pending =
            Pending { rows: 1, enqueued_at: accepted, shape_key: 0, length: 0, is_alone: true };
        let job = Job { has_crashed: true, ..Job::new(pending, work, None, reply, None) };
        let ticket = Some(shared.lock().queue.push_admitted(0, job));
        let (expiry, deadline, is_counted) = (None, None, true);
        Waiting { shared, ticket, receiver, accepted, expiry, deadline, is_counted }
    };
    // Its client leaves.
    drop(waits());
    assert_eq!(["late", "failed"].map(|it| reruns(&metrics, it)), ["1", "0"]);
    // No instance can be made.
    let [first, second] = [waits(), waits()];
    let woken = shared.lock().wake_needed_worker(Instant::now());
    worker::wake(shared, woken);
    assert!(first.answer().await.is_err() && second.answer().await.is_err());
    assert_eq!(["late", "failed"].map(|it| reruns(&metrics, it)), ["1", "2"]);
}

#[tokio::test]
async fn where_every_process_has_died_and_is_out_what_waits_is_answered_and_the_queue_can_close() {
    let (scheduler, engine) = two_devices(2);
    let first = spawn(&scheduler, submission(1.0));
    until(|| scheduler.queued() == 1).await;
    engine.processes.iter().for_each(|it| it.is_out.store(true, SeqCst));
    let second = spawn(&scheduler, submission(2.0));
    for answer in [first, second] {
        let error = answer.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Backend(BackendError::Unavailable(_))), "{error:?}");
    }
    scheduler.close();
    assert_eq!(scheduler.wait_closed(Duration::from_secs(60)), 0);
}
