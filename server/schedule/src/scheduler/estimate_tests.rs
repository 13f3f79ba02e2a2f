//! What a scheduler learns of how long its batches take, and that a wrong estimate does not last.

use std::{
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use backend::{BackendError, Batch, Instance, NamedTensor, Tensor};
use inference::error::Error;

use super::{
    Scheduler,
    tests::{over, scheduler, settings, spawn, submission, until},
};
use crate::{
    admission::{ExpectedWait, LongestStay},
    policy::BatchPolicy,
    settings::QueueSettings,
    slot::Slot,
};

/// How long a batch of one row is expected to occupy an instance.
fn expected(scheduler: &Scheduler) -> Duration {
    scheduler.shared.lock().load(1, Instant::now()).own_mean
}

/// A request that finds an instance idle is taken whatever is expected, and teaches how long a run takes.
#[tokio::test]
async fn an_estimate_that_refuses_all_that_would_wait_heals_by_itself() {
    let longest_stay = LongestStay::Fixed(Duration::from_secs(100));
    let (scheduler, gate) = scheduler(1, QueueSettings { longest_stay, ..settings() });
    gate.open();
    scheduler.shared.lock().learn_occupancy(1, Duration::from_secs(3600));
    let would_wait = || scheduler.admit_after(ExpectedWait::default(), 1, None);
    assert!(matches!(would_wait(), Err(Error::Overloaded { .. })));
    let mut runs = 0;
    while would_wait().is_err() {
        scheduler.submit(submission(1.0)).await.unwrap();
        runs += 1;
    }
    assert!(runs < 200, "{runs}");
}

/// The last request of a burst is run by one thread while the other has seen it wait, too.
#[tokio::test]
async fn time_in_which_nothing_waits_is_not_taken_for_work() {
    let batching = BatchPolicy::one_by_one();
    let pause = Duration::from_millis(200);
    let mut longest = Duration::ZERO;
    for _ in 0..5 {
        let (scheduler, gate) =
            scheduler(2, QueueSettings { batching: batching.clone(), ..settings() });
        let began = Instant::now();
        let answers: Vec<_> = (0..3).map(|_| spawn(&scheduler, submission(1.0))).collect();
        until(|| gate.entered.load(Ordering::SeqCst) == 2 && scheduler.queued() == 1).await;
        gate.open();
        for answer in answers {
            answer.await.unwrap().unwrap();
        }
        longest = longest.max(began.elapsed());
        thread::sleep(pause);
        for _ in 0..2 {
            let began = Instant::now();
            let answers = [1.0, 2.0].map(|it| spawn(&scheduler, submission(it)));
            for answer in answers {
                answer.await.unwrap().unwrap();
            }
            longest = longest.max(began.elapsed());
        }
        assert!(expected(&scheduler) <= longest, "{:?}, {longest:?}", expected(&scheduler));
    }
}

/// Fails where a row is 13, and ends its process once where one is 112.
#[derive(Default)]
struct Failing {
    has_died: bool,
}

impl Instance for Failing {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let bytes = batch.inputs[0].tensor.to_bytes();
        let rows = bytes.chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().unwrap()));
        let rows: Vec<f32> = rows.collect();
        if rows.contains(&13.0) {
            return Err(BackendError::Execute("unlucky".into()));
        }
        if rows.contains(&112.0) && !std::mem::replace(&mut self.has_died, true) {
            return Err(BackendError::Crashed("the process ended".into()));
        }
        let tensor = Tensor::concat([&batch.inputs[0].tensor]).unwrap();
        Ok(vec![NamedTensor { name: "y".into(), tensor }])
    }
}

/// Runs these together: how long a row is expected to take then.
async fn expected_after(rows: &[f32]) -> Duration {
    let mut slot = Slot::empty(Arc::new(|| Ok(Box::<Failing>::default())));
    slot.fill().unwrap();
    let scheduler = over(vec![slot], QueueSettings { hold: rows.len(), ..settings() });
    let answers: Vec<_> = rows.iter().map(|it| spawn(&scheduler, submission(*it))).collect();
    for answer in answers {
        // Some of them fail.
        let _ = answer.await.unwrap();
    }
    expected(&scheduler)
}

#[tokio::test]
async fn a_batch_in_which_something_was_run_again_does_not_teach_how_long_one_takes() {
    assert!(Duration::ZERO < expected_after(&[1.0]).await);
    assert_eq!(expected_after(&[1.0, 13.0]).await, Duration::ZERO);
    assert_eq!(expected_after(&[112.0]).await, Duration::ZERO);
}
