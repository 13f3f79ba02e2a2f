//! Rows of unequal length from the queue to their answers.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use backend::{
    BackendError, Batch, DataType, Filler, Instance, NamedTensor, PaddingSide, Shape, Tensor,
};

use super::*;
use crate::{
    KeepCosts, NICENESS, QueueSettings, RunLimit, admission::LongestStay, learn::RunTimes,
    pack::RunBounds, packing::Packing, padding::Padding, policy::BatchPolicy, queue::QueuePolicy,
    row_check::RowCheck, run_context::RunContext, slot::Slot, work::Work,
};
use telemetry::metrics::{Metrics, MetricsSettings};

/// Gives back its input, which it writes down; fails for the number 13.
struct Echo(Arc<Mutex<Vec<Vec<i64>>>>);

impl Instance for Echo {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let tensor = &batch.inputs[0].tensor;
        let bytes = tensor.to_bytes();
        let numbers: Vec<i64> =
            bytes.as_chunks().0.iter().map(|it| i64::from_le_bytes(*it)).collect();
        self.0.lock().unwrap().push(numbers.clone());
        if numbers.contains(&13) {
            return Err(BackendError::Execute("unlucky".into()));
        }
        let tensor = Tensor::new(DataType::Int64, tensor.shape().clone(), bytes).unwrap();
        Ok(vec![NamedTensor { name: "y".into(), tensor }])
    }
}

fn scheduler(runs: &Arc<Mutex<Vec<Vec<i64>>>>) -> Scheduler {
    scheduler_that_keeps(runs, None)
}

fn scheduler_that_keeps(
    runs: &Arc<Mutex<Vec<Vec<i64>>>>,
    keep_costs: Option<KeepCosts>,
) -> Scheduler {
    let settings = QueueSettings {
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
        packing: Some(Packing::new(RunBounds { rows: 8, tokens: 64 })),
        keep_costs,
        run_limit: RunLimit::Auto,
        watchdog: Arc::default(),
        busy: crate::Busy::default(),
        niceness: NICENESS,
    };
    let filler = Filler::new(DataType::Int64, 9, PaddingSide::Right).unwrap();
    let context = RunContext {
        answers_calls: false,
        others: Vec::new(),
        batches: true,
        outputs: vec!["y".into()],
        rerun: Default::default(),
        splits: Default::default(),
        ragged: None,
        padding: Some(Arc::new(Padding { inputs: vec![("x".into(), filler)] })),
    };
    let runs = runs.clone();
    let slot = Slot::empty(Arc::new(move || Ok(Box::new(Echo(runs.clone())))));
    let metrics = Metrics::new(MetricsSettings::default()).model("m", 1, &Default::default());
    Scheduler::new(settings, context, vec![slot], RunTimes::default(), metrics)
}

/// A row of these numbers.
fn row(numbers: &[i64], extent: Extent) -> Submission {
    let shape = Shape::new(&[1, numbers.len()]);
    let tensor = Tensor::from_vec::<i64>(shape, numbers.to_vec()).unwrap();
    let inputs = vec![NamedTensor { name: "x".into(), tensor }];
    Submission {
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
        shape_key: 7,
        length: numbers.len(),
        priority: 0,
        queue_timeout: None,
        deadline: None,
        extent,
    }
}

fn rows(of: &[&[i64]]) -> Vec<Submission> {
    let extents = [Extent::FirstPart].into_iter().chain(std::iter::repeat(Extent::LaterPart));
    of.iter().zip(extents).map(|(numbers, extent)| row(numbers, extent)).collect()
}

#[tokio::test]
async fn the_rows_of_a_request_run_together_and_filled_up() {
    let runs = Arc::default();
    let scheduler = scheduler(&runs);
    let queued = scheduler.submit_together(rows(&[&[1], &[2, 3, 4], &[5, 6]])).unwrap();
    let mut answers = Vec::new();
    for row in queued {
        let tensor = row.answer().await.unwrap().outputs.remove(0).tensor;
        let shape = tensor.shape().dims().to_vec();
        answers.push((shape, tensor.to_bytes().as_chunks::<8>().0[0][0]));
    }
    assert_eq!(*runs.lock().unwrap(), [vec![1, 9, 9, 2, 3, 4, 5, 6, 9]]);
    assert_eq!(answers, [(vec![1, 3], 1), (vec![1, 3], 2), (vec![1, 3], 5)]);
}

#[tokio::test]
async fn only_the_row_that_fails_has_the_error_and_others_are_no_longer_than_their_run() {
    let runs = Arc::default();
    let scheduler = scheduler(&runs);
    let queued = scheduler.submit_together(rows(&[&[1], &[2], &[13, 0, 0], &[4]])).unwrap();
    let mut answers = Vec::new();
    for row in queued {
        answers.push(row.answer().await.is_ok());
    }
    assert_eq!(answers, [true, true, false, true]);
    assert_eq!(runs.lock().unwrap()[1], [1, 2]);
}

#[tokio::test]
async fn rows_whose_request_is_dropped_leave_the_queue() {
    let scheduler = scheduler(&Arc::default());
    // Nothing runs before ten have come.
    scheduler.shared.lock().queue = crate::queue::Queue::new(BatchPolicy::eager(4), vec![], 0, 10);
    let queued = scheduler.submit_together(rows(&[&[1], &[2], &[3]])).unwrap();
    assert_eq!(scheduler.queued(), 3);
    drop(queued);
    assert_eq!(scheduler.queued(), 0);
}

#[tokio::test]
async fn a_closed_queue_takes_no_row() {
    use crate::RequestQueue;
    let scheduler = scheduler(&Arc::default());
    scheduler.close();
    let refused = scheduler.submit_together(vec![row(&[1], Extent::LaterPart)]).err();
    assert!(matches!(refused, Some(Error::ShuttingDown)));
}

#[tokio::test]
async fn what_runs_cost_is_kept_once_when_the_queue_closes() {
    use crate::RequestQueue;
    let kept: Arc<Mutex<Vec<u64>>> = Arc::default();
    let keep = kept.clone();
    let keep = KeepCosts(Arc::new(move |it| keep.lock().unwrap().push(it.runs())));
    let scheduler = scheduler_that_keeps(&Arc::default(), Some(keep));
    for queued in scheduler.submit_together(rows(&[&[1], &[2, 3]])).unwrap() {
        queued.answer().await.unwrap();
    }
    assert!(kept.lock().unwrap().is_empty());
    scheduler.close();
    drop(scheduler);
    assert_eq!(*kept.lock().unwrap(), [1]);
}
