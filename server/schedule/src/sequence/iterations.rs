//! A request that is a sequence of its own: its model has it run again until it is done with it.

use std::sync::Arc;

use backend::{About, Parameter, SequenceFlags};

use super::scheduler::SequenceScheduler;
use crate::{request_queue::RequestQueue, scheduler::Submission, work::Done};
use inference::{
    error::Error,
    request::{Sequence, SequenceId},
};

impl SequenceScheduler {
    /// Runs one request of a sequence, after the earlier ones.
    ///
    /// # Errors
    /// When it belongs to no sequence or is none of this model. When its sequence finds no seat in time or is
    /// cancelled, when it is late, or its run fails.
    ///
    /// # Cancel safety
    /// Dropping the future of a request that does not run yet ends its sequence, whose other requests are answered with
    /// an error: a sequence with a gap is none. One that runs is finished for the sake of those that follow.
    pub async fn submit(
        &self,
        submission: Submission,
        sequence: Option<&Sequence>,
    ) -> Result<Done, Error> {
        match self.iterates() {
            true => run_to_its_end(self, submission).await,
            false => self.run_once(submission, sequence).await,
        }
    }
}

/// Runs the request to its end. It keeps its seat between runs, behind which others line up.
///
/// # Errors
/// Those of the first run that fails.
///
/// # Cancel safety
/// Dropping the future ends the sequence.
async fn run_to_its_end(
    scheduler: &SequenceScheduler,
    submission: Submission,
) -> Result<Done, Error> {
    let mut seated = Seated { scheduler, sequence: scheduler.begin_own() };
    loop {
        let once = as_part_of(&seated.sequence, &submission);
        let done = scheduler.run_once(once, Some(&seated.sequence)).await?;
        if !done.again {
            return Ok(done);
        }
        if let Some(parts) = &submission.work.parts {
            // So no more waits than one run may send.
            parts.read().await;
            if parts.has_left() || parts.has_ended() {
                return Ok(done);
            }
        }
        seated.sequence.start = false;
    }
}

/// Gives the seat back.
struct Seated<'a> {
    scheduler: &'a SequenceScheduler,
    sequence: Sequence,
}

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        self.scheduler.leave_sequence(&self.sequence.id);
    }
}

/// The request as a part of that sequence.
fn as_part_of(sequence: &Sequence, submission: &Submission) -> Submission {
    let mut once = submission.clone();
    let id = match &sequence.id {
        SequenceId::Number(number) => Parameter::Int(i64::try_from(*number).unwrap_or(i64::MAX)),
        SequenceId::Text(text) => Parameter::Text(text.clone()),
    };
    let flags = SequenceFlags { start: sequence.start, end: sequence.end };
    let about = submission.work.about.as_deref();
    let about = about.map(|it| Arc::new(About { sequence: Some((id, flags)), ..it.clone() }));
    once.work.about = about;
    once
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        sync::Mutex,
        time::{Duration, Instant},
    };

    use backend::{
        BackendError, Batch, Call, CallAnswer, CallCode, CallError, Instance, NamedTensor, Shape,
        Tensor, parts,
    };

    use super::*;
    use crate::{
        Busy, RunLimit,
        scheduler::Extent,
        sequence::settings::{DirectPolicy, SequenceSettings, Strategy, Wiring},
        slot::Slot,
        work::Work,
    };
    use telemetry::metrics::{Metrics, MetricsSettings};

    /// The sequence of each run, and its place there.
    type Runs = Arc<Mutex<Vec<(Parameter, SequenceFlags)>>>;

    /// Has each request run as often as its input says. 13 is refused in its second run.
    struct Rounds(Runs);

    impl Instance for Rounds {
        fn execute(&mut self, _: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
            Err(BackendError::Execute("it is asked for calls".to_owned()))
        }

        fn execute_calls(
            &mut self,
            batch: &Batch<'_>,
            calls: &[Call<'_>],
        ) -> Result<Vec<Result<CallAnswer, CallError>>, BackendError> {
            let bytes = batch.inputs[0].tensor.to_bytes();
            let [call] = calls else { panic!("{} calls", calls.len()) };
            let place = call.about.unwrap().sequence.clone().unwrap();
            let mut runs = self.0.lock().unwrap();
            let earlier = runs.iter().filter(|it| it.0 == place.0).count();
            runs.push(place);
            if let Some(parts) = call.parts {
                parts.send(CallAnswer::default()).unwrap();
            }
            Ok(vec![match (bytes[0], earlier) {
                (13, 1) => Err(CallError { code: CallCode::NotFound, text: "unlucky".to_owned() }),
                (times, _) => Ok(CallAnswer {
                    again: earlier + 1 < usize::from(times),
                    ..CallAnswer::default()
                }),
            }])
        }
    }

    fn scheduler() -> (SequenceScheduler, Runs) {
        let runs = Runs::default();
        let of_instance = runs.clone();
        let slot = Slot::empty(Arc::new(move || Ok(Box::new(Rounds(of_instance.clone())))));
        let direct = DirectPolicy { max_delay: Duration::ZERO, min_utilization: 0.0 };
        let hashes = Default::default();
        let settings = SequenceSettings {
            model: "m".into(),
            strategy: Strategy::Direct(direct),
            idle: Duration::from_secs(60),
            longest_backlog: None,
            wiring: Wiring { batches: false, controls: vec![], states: vec![], hashes },
            seats: 1,
            run_limit: RunLimit::Auto,
            watchdog: Arc::default(),
            busy: Busy::default(),
            niceness: 0,
            rerun: Default::default(),
            engine_keeps_state: true,
            answers_calls: true,
            iterates: true,
            hold: 0,
            hold_backlog: 0,
        };
        let metrics = Metrics::new(MetricsSettings::default()).model("m", 1, &Default::default());
        (SequenceScheduler::new(settings, vec![slot], metrics), runs)
    }

    fn submission(times: u8) -> Submission {
        let tensor = Tensor::from_vec(Shape::new(&[1]), vec![times]).unwrap();
        Submission {
            is_alone: false,
            work: Work {
                about: Some(Arc::default()),
                parts: None,
                signature: 0,
                inputs: vec![NamedTensor { name: "x".into(), tensor }],
                outputs: vec!["y".into()],
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

    #[tokio::test]
    async fn each_request_is_a_sequence_of_its_own_that_goes_on_until_it_is_answered() {
        let (scheduler, runs) = scheduler();
        let (three, one) = tokio::join!(
            scheduler.submit(submission(3), None),
            scheduler.submit(submission(1), None)
        );
        assert!(!three.unwrap().again && !one.unwrap().again);
        let place = |id, start| (Parameter::Int(id), SequenceFlags { start, end: false });
        let expected = [place(1, true), place(1, false), place(1, false), place(2, true)];
        assert_eq!(*runs.lock().unwrap(), expected);
        assert!(!scheduler.has_open_sequences());
    }

    #[tokio::test]
    async fn a_run_that_fails_is_the_last() {
        let (scheduler, runs) = scheduler();
        let error = scheduler.submit(submission(13), None).await.unwrap_err();
        assert_eq!((error, runs.lock().unwrap().len()), (Error::NotFound("unlucky".to_owned()), 2));
        assert!(!scheduler.has_open_sequences());
    }

    #[tokio::test]
    async fn the_next_run_waits_until_the_parts_of_the_last_are_read() {
        let (scheduler, runs) = scheduler();
        let (sender, mut receiver) = parts();
        let mut submission = submission(3);
        submission.work.parts = Some(sender.clone());
        let scheduler = Arc::new(scheduler);
        let running = scheduler.clone();
        let run = tokio::spawn(async move { running.submit(submission, None).await });
        for read in 1..=3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_eq!(runs.lock().unwrap().len(), read);
            poll_fn(|it| receiver.poll_next(it)).await.unwrap().unwrap();
        }
        assert!(!run.await.unwrap().unwrap().again);
        // Nobody reads the part of the first run.
        let mut submission = super::tests::submission(200);
        let (sender, receiver) = parts();
        submission.work.parts = Some(sender);
        let running = scheduler.clone();
        let run = tokio::spawn(async move { running.submit(submission, None).await });
        tokio::time::sleep(Duration::from_millis(20)).await;
        drop(receiver);
        assert!(run.await.unwrap().unwrap().again, "it is given up");
        assert!(!scheduler.has_open_sequences());
    }
}
