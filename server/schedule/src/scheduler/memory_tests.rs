//! What a scheduler does where the memory of a device does not suffice for a batch.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use backend::{BackendError, Batch, Instance, NamedTensor, Shape, Tensor};
use inference::error::Error;
use telemetry::metrics::{Metrics, MetricsSettings};

use crate::{
    Extent, NICENESS, QueueSettings, Scheduler, Submission,
    admission::LongestStay,
    learn::RunTimes,
    policy::BatchPolicy,
    queue::QueuePolicy,
    row_check::RowCheck,
    run_context::RunContext,
    slot::Slot,
    work::{Done, Work},
};

/// Memory for that many rows. Notes each run: its rows, and whether they fitted.
struct Small {
    fits: usize,
    runs: Arc<Mutex<Vec<(usize, bool)>>>,
}

impl Instance for Small {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let fits = batch.rows <= self.fits;
        self.runs.lock().unwrap().push((batch.rows, fits));
        if !fits {
            return Err(BackendError::OutOfMemory("no room".into()));
        }
        let tensor = Tensor::concat([&batch.inputs[0].tensor]).unwrap();
        Ok(vec![NamedTensor { name: "y".into(), tensor }])
    }
}

struct Setup {
    scheduler: Scheduler,
    runs: Arc<Mutex<Vec<(usize, bool)>>>,
}

/// One instance with memory for that many rows, of batches of up to 8, whose first batch waits for `hold` requests.
fn setup(fits: usize, hold: usize, splits: bool, in_place: bool) -> Setup {
    let runs = Arc::<Mutex<Vec<_>>>::default();
    let mut slot = Slot::empty(Arc::new({
        let runs = runs.clone();
        move || Ok(Box::new(Small { fits, runs: runs.clone() }))
    }));
    slot.fill().unwrap();
    let settings = QueueSettings {
        model: "m".into(),
        batching: BatchPolicy::eager(8),
        queue_policies: vec![QueuePolicy::default()],
        default_level: 0,
        preserve_ordering: false,
        hold,
        longest_stay: LongestStay::Unbounded,
        caller_runs_below: if in_place { Duration::from_secs(1) } else { Duration::ZERO },
        time_follows: crate::TimeFollows::Rows,
        spin: Duration::ZERO,
        row_check: RowCheck::StopMerging,
        packing: None,
        keep_costs: None,
        run_limit: crate::RunLimit::Auto,
        watchdog: Arc::default(),
        busy: crate::Busy::default(),
        niceness: NICENESS,
    };
    let context = RunContext {
        answers_calls: false,
        others: Vec::new(),
        batches: true,
        outputs: vec!["y".into()],
        rerun: Default::default(),
        splits: Arc::new(splits.into()),
        ragged: None,
        padding: None,
    };
    let mut times = RunTimes::default();
    for rows in 1..=8 {
        times.record(rows, Duration::from_micros(1));
    }
    let metrics = Metrics::new(MetricsSettings::default()).model("m", 1, &Default::default());
    Setup { scheduler: Scheduler::new(settings, context, vec![slot], times, metrics), runs }
}

fn submission(values: &[f32]) -> Submission {
    let tensor = Tensor::from_vec(Shape::new(&[values.len()]), values.to_vec()).unwrap();
    let inputs = vec![NamedTensor { name: "x".into(), tensor }];
    let work = Work {
        about: None,
        parts: None,
        signature: 0,
        inputs,
        outputs: vec!["y".into()],
        rows: values.len(),
    };
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

fn values(done: &Done) -> Vec<f32> {
    let bytes = done.outputs[0].tensor.to_bytes();
    bytes.as_chunks().0.iter().map(|it| f32::from_le_bytes(*it)).collect()
}

impl Setup {
    fn runs(&self) -> Vec<(usize, bool)> {
        std::mem::take(&mut *self.runs.lock().unwrap())
    }

    /// Asks for single rows at once; each must be answered with itself.
    async fn ask(&self, rows: usize) {
        let asked = (0..rows).map(|it| self.scheduler.submit(submission(&[it as f32])));
        let answers = futures(asked.collect()).await;
        for (at, answer) in answers.iter().enumerate() {
            assert_eq!(values(answer.as_ref().unwrap()), [at as f32]);
        }
    }
}

/// Polls all of them on this task.
async fn futures<T>(all: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut all: Vec<_> = all.into_iter().map(|it| (Box::pin(it), None)).collect();
    std::future::poll_fn(|context| {
        for (future, answer) in &mut all {
            if answer.is_none()
                && let std::task::Poll::Ready(it) = future.as_mut().poll(context)
            {
                *answer = Some(it);
            }
        }
        match all.iter().all(|it| it.1.is_some()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    all.into_iter().filter_map(|it| it.1).collect()
}

#[tokio::test]
async fn a_batch_that_does_not_fit_is_halved_and_the_half_is_remembered() {
    let setup = setup(4, 8, true, false);
    setup.ask(8).await;
    assert_eq!(setup.runs(), [(8, false), (4, true), (4, true)]);
    for _ in 0..3 {
        setup.ask(8).await;
        let runs = setup.runs();
        assert!(runs.iter().all(|(rows, fits)| *fits && *rows <= 4), "{runs:?}");
    }
    assert_eq!(setup.scheduler.memory_rows(), Some(4));
}

#[tokio::test]
async fn one_request_that_does_not_fit_is_run_in_halves() {
    for in_place in [false, true] {
        let setup = setup(3, 0, true, in_place);
        let rows: Vec<f32> = (0..8).map(|it| it as f32).collect();
        let done = setup.scheduler.submit(submission(&rows)).await.unwrap();
        assert_eq!(values(&done), rows, "in place: {in_place}");
        assert_eq!(setup.scheduler.memory_rows(), Some(2), "in place: {in_place}");
    }
}

#[tokio::test]
async fn rows_that_depend_on_each_other_are_not_run_apart() {
    let setup = setup(3, 0, false, false);
    let error = setup.scheduler.submit(submission(&[0.0; 8])).await.unwrap_err();
    assert!(matches!(error, Error::Backend(BackendError::OutOfMemory(_))), "{error}");
    assert_eq!(setup.runs(), [(8, false)]);
}

#[tokio::test]
async fn a_row_that_never_fits_bounds_no_other() {
    let setup = setup(0, 8, true, false);
    let asked = (0..8).map(|it| setup.scheduler.submit(submission(&[it as f32])));
    for answer in futures(asked.collect()).await {
        let error = answer.unwrap_err();
        assert!(matches!(error, Error::Backend(BackendError::OutOfMemory(_))), "{error}");
    }
    assert_eq!(setup.scheduler.memory_rows(), None);
}
