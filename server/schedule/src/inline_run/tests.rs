//! Running on the calling task, alone and with others of its thread.

use backend::{BackendError, Batch, Instance, NamedTensor, Shape, Tensor};
use tokio::task::JoinHandle;

use std::sync::Mutex;

use super::*;
use crate::{
    admission::LongestStay,
    cost::CostTable,
    learn::RunTimes,
    pack::RunBounds,
    packing::Packing,
    policy::BatchPolicy,
    queue::QueuePolicy,
    row_check::RowCheck,
    run_context::RunContext,
    scheduler::{Extent, Scheduler, Submission},
    settings::{NICENESS, QueueSettings},
    slot::MakeInstance,
};
use telemetry::metrics::{Metrics, MetricsSettings};

/// Jobs until a task that has always been alone lets others join.
const ALONE: usize = 15;

/// Gives back its input and remembers the rows of its batches.
struct Echo(Arc<Mutex<Vec<usize>>>);

impl Instance for Echo {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        self.0.lock().unwrap().push(batch.rows);
        let tensor = Tensor::concat([&batch.inputs[0].tensor]).unwrap();
        Ok(vec![NamedTensor { name: "y".into(), tensor }])
    }
}

struct Fast {
    metrics: Metrics,
    scheduler: Arc<Scheduler>,
    batches: Arc<Mutex<Vec<usize>>>,
}

impl Fast {
    /// One instance whose runs are known to take `took`, in batches of up to 4 rows.
    fn new(took: Duration) -> Fast {
        Fast::packed(took, None)
    }

    /// The same, whose rows run together as this says.
    fn packed(took: Duration, packing: Option<Packing>) -> Fast {
        let batches = Arc::new(Mutex::new(Vec::new()));
        let echo = batches.clone();
        let make: Arc<MakeInstance> = Arc::new(move || Ok(Box::new(Echo(echo.clone()))));
        let mut slot = Slot::empty(make);
        slot.fill().unwrap();
        let settings = QueueSettings {
            model: "m".into(),
            batching: BatchPolicy::eager(4),
            queue_policies: vec![QueuePolicy::default()],
            default_level: 0,
            preserve_ordering: false,
            hold: 0,
            longest_stay: LongestStay::Unbounded,
            // Far above what a run takes on the busiest machine.
            caller_runs_below: Duration::from_secs(10),
            time_follows: crate::TimeFollows::Rows,
            spin: Duration::ZERO,
            row_check: RowCheck::Off,
            packing,
            keep_costs: None,
            run_limit: crate::RunLimit::Auto,
            watchdog: Arc::default(),
            busy: crate::Busy::default(),
            niceness: NICENESS,
        };
        let mut times = RunTimes::default();
        // Often enough that the runs of this test do not change the mean much.
        for rows in [1, 2, 4] {
            (0..100).for_each(|_| times.record(rows, took));
        }
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
        let scheduler = Scheduler::new(settings, context, vec![slot], times, model);
        Fast { metrics, scheduler: Arc::new(scheduler), batches }
    }

    /// Submits one row in a task of its own; the answer's value.
    fn spawn(&self, value: f32) -> JoinHandle<Result<f32, Error>> {
        self.spawn_as(value, 0, Extent::Whole)
    }

    fn spawn_as(
        &self,
        value: f32,
        length: usize,
        extent: Extent,
    ) -> JoinHandle<Result<f32, Error>> {
        let scheduler = self.scheduler.clone();
        tokio::spawn(async move { submit(&scheduler, value, length, extent).await })
    }

    /// The first job after which the others of its thread are waited for.
    async fn become_likely(&self) {
        for _ in 0..ALONE {
            self.spawn(0.0).await.unwrap().unwrap();
        }
        self.batches.lock().unwrap().clear();
    }

    fn batches(&self) -> Vec<usize> {
        self.batches.lock().unwrap().clone()
    }

    /// Runs that were made in place.
    fn in_place(&self) -> String {
        let page = self.metrics.render();
        let page = std::str::from_utf8(&page).unwrap();
        let count =
            page.lines().find(|it| it.contains("muster_batches_total{") && it.contains("in_place"));
        count.unwrap_or_default().to_owned()
    }

    /// Runs a row of that length: in place?
    async fn runs_in_place(&self, length: usize) -> bool {
        let before = self.in_place();
        submit(&self.scheduler, 1.0, length, Extent::Made).await.unwrap();
        before != self.in_place()
    }
}

/// Submits one row; the answer's value.
async fn submit(
    scheduler: &Scheduler,
    value: f32,
    length: usize,
    extent: Extent,
) -> Result<f32, Error> {
    let tensor = Tensor::from_vec(Shape::new(&[1]), vec![value]).unwrap();
    let inputs = vec![NamedTensor { name: "x".into(), tensor }];
    let work =
        Work { about: None, parts: None, signature: 0, inputs, outputs: vec!["y".into()], rows: 1 };
    let submission = Submission {
        is_alone: false,
        work,
        accepted: Instant::now(),
        shape_key: 0,
        length,
        priority: 0,
        queue_timeout: None,
        deadline: None,
        extent,
    };
    let done = scheduler.submit(submission).await?;
    let bytes = done.outputs[0].tensor.to_bytes();
    Ok(f32::from_le_bytes(bytes[..4].try_into().unwrap()))
}

#[tokio::test]
async fn requests_that_a_thread_has_before_it_run_as_batches_without_leaving_it() {
    let fast = Fast::new(Duration::from_micros(20));
    fast.become_likely().await;
    let answers: Vec<_> = (0..10).map(|it| fast.spawn(it as f32)).collect();
    for (expected, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.await.unwrap().unwrap(), expected as f32);
    }
    assert_eq!(fast.batches(), [4, 4, 2]);
    assert_eq!(fast.scheduler.shared.lock().threads, 0);
}

#[tokio::test]
async fn a_run_that_is_shorter_than_a_turn_of_the_thread_waits_for_no_other_request() {
    let fast = Fast::new(Duration::from_nanos(300));
    fast.become_likely().await;
    let answers: Vec<_> = (0..10).map(|it| fast.spawn(it as f32)).collect();
    for answer in answers {
        answer.await.unwrap().unwrap();
    }
    assert_eq!(fast.batches(), [1; 10]);
}

#[tokio::test]
async fn requests_merged_with_one_whose_client_left_are_answered() {
    let fast = Fast::new(Duration::from_micros(20));
    fast.become_likely().await;
    let leading = fast.spawn(1.0);
    let joining = fast.spawn(2.0);
    // After one yield: the first leads, the second has joined.
    tokio::task::yield_now().await;
    leading.abort();
    assert!(leading.await.unwrap_err().is_cancelled());
    assert_eq!(joining.await.unwrap().unwrap(), 2.0);
    assert_eq!(fast.batches(), [1]);
    let counted = fast.metrics.render();
    let counted = std::str::from_utf8(&counted).unwrap();
    assert!(counted.contains("reason=\"CANCELED\",version=\"1\"} 1"), "{counted}");
    // The instance is idle again.
    assert_eq!(fast.spawn(3.0).await.unwrap().unwrap(), 3.0);
}

#[tokio::test]
async fn one_that_leads_for_somebody_who_counts_it_is_not_counted_when_its_client_leaves() {
    let fast = Fast::new(Duration::from_micros(20));
    fast.become_likely().await;
    let leading = fast.spawn_as(1.0, 0, Extent::Made);
    let joining = fast.spawn(2.0);
    tokio::task::yield_now().await;
    leading.abort();
    assert!(leading.await.unwrap_err().is_cancelled());
    assert_eq!(joining.await.unwrap().unwrap(), 2.0);
    assert_eq!(fast.batches(), [1]);
    let counted = fast.metrics.render();
    let counted = std::str::from_utf8(&counted).unwrap();
    assert!(!counted.contains("reason=\"CANCELED\",version=\"1\"} 1"), "{counted}");
}

#[tokio::test]
async fn a_client_that_leaves_before_the_run_takes_its_row_along() {
    let fast = Fast::new(Duration::from_micros(20));
    fast.become_likely().await;
    let leading = fast.spawn(1.0);
    let joining = fast.spawn(2.0);
    let leaving = fast.spawn(3.0);
    // Runs right after them on the same thread.
    tokio::spawn(async move { leaving.abort() });
    assert_eq!(leading.await.unwrap().unwrap(), 1.0);
    assert_eq!(joining.await.unwrap().unwrap(), 2.0);
    assert_eq!(fast.batches().iter().sum::<usize>(), 2);
}

#[tokio::test]
async fn a_row_of_a_text_runs_in_place_where_one_of_its_length_is_fast() {
    let costs = |seconds: u64| {
        let mut costs = CostTable::default();
        costs.record(1, 8, Duration::from_millis(1));
        costs.record(1, 512, Duration::from_secs(seconds));
        let packing = Packing::new(RunBounds { rows: 8, tokens: 4096 });
        Fast::packed(Duration::from_secs(100), Some(packing.knowing(costs)))
    };
    let workers = |fast: &Fast| fast.scheduler.shared.lock().threads;
    let fast = costs(100);
    // What others cost tells nothing of a length that has not run yet.
    for length in [8, 9, 512] {
        assert!(!fast.runs_in_place(length).await, "{length} tokens");
    }
    for (length, expected) in [(8, true), (9, true), (20, false)] {
        assert_eq!(fast.runs_in_place(length).await, expected, "{length} tokens");
    }
    // Each run teaches what the next one takes.
    let runs = |it: &Fast| it.scheduler.shared.lock().queue.packing().unwrap().costs().runs();
    assert!(2 < runs(&fast));
    // Nothing is known.
    let packing = Packing::new(RunBounds { rows: 8, tokens: 4096 });
    let fast = Fast::packed(Duration::from_millis(1), Some(packing));
    fast.spawn_as(1.0, 8, Extent::Made).await.unwrap().unwrap();
    assert_eq!(workers(&fast), 1);
    // Parts never run in place.
    let fast = costs(1);
    fast.spawn_as(1.0, 8, Extent::FirstPart).await.unwrap().unwrap();
    assert_eq!(workers(&fast), 1);
}

#[tokio::test]
async fn requests_run_together_in_place_only_where_runs_of_their_number_have_been_fast() {
    let fast = Fast::new(Duration::from_micros(20));
    // As if no run of more than one row had been made yet.
    let mut times = RunTimes::default();
    (0..100).for_each(|_| times.record(1, Duration::from_micros(20)));
    fast.scheduler.shared.lock().times = times;
    fast.become_likely().await;
    let answers: Vec<_> = (0..4).map(|it| fast.spawn(it as f32)).collect();
    for answer in answers {
        answer.await.unwrap().unwrap();
    }
    assert!(0 < fast.scheduler.shared.lock().threads, "the others go to a worker");
}
