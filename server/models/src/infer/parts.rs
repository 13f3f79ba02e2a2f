//! A request of more rows than a run has: cut into parts that run side by side, and put together again.

use std::time::{Duration, Instant};

use backend::{BackendError, NamedTensor, Tensor};

use crate::infer::next::next;
use inference::{error::Error, timings::Timings};
use schedule::{
    Extent, ReplySlot, RequestQueue, Scheduler, Submission,
    work::{Done, Work},
};

/// Runs a request in parts of at most `most_rows` rows. It is one request to the statistics, and one to the order of
/// replies. No more parts are on their way than there are instances, and one that waits for the next of them, so that
/// the requests of others come between.
///
/// # Errors
/// Those of the first part that fails. The others are withdrawn then.
///
/// # Cancel safety
/// Dropping the future withdraws all parts.
pub(super) async fn run(
    scheduler: &Scheduler,
    submission: Submission,
    most_rows: usize,
    slot: Option<ReplySlot>,
) -> Result<Done, Error> {
    let slot = slot.or_else(|| scheduler.reply_slot());
    let mut leaving = Leaving { scheduler, accepted: submission.accepted, is_over: false };
    let answer = in_parts(scheduler, &submission, most_rows).await;
    leaving.is_over = true;
    if let Some(slot) = slot {
        slot.wait_for_earlier().await;
    }
    scheduler.count_parts(answer, submission.accepted)
}

/// Counts a request whose client leaves before it is answered.
struct Leaving<'a> {
    scheduler: &'a Scheduler,
    accepted: Instant,
    is_over: bool,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.scheduler.count_left(self.accepted);
        }
    }
}

async fn in_parts(
    scheduler: &Scheduler,
    whole: &Submission,
    most_rows: usize,
) -> Result<Done, Error> {
    let part = async |from: usize| {
        let rows = most_rows.min(whole.work.rows.saturating_sub(from));
        let (accepted, extent) = match from {
            0 => (whole.accepted, Extent::FirstPart),
            // It waits from now on.
            _ => (Instant::now(), Extent::LaterPart),
        };
        let work = cut(&whole.work, from, rows)?;
        let submission = Submission { work, accepted, extent, ..*whole };
        scheduler.submit_with_slot(submission, Some(ReplySlot::unordered())).await
    };
    let mut starts = (0..whole.work.rows).step_by(most_rows.max(1)).enumerate();
    let side_by_side = scheduler.instances().saturating_add(1);
    let mut done: Vec<Option<Done>> = starts.clone().map(|_| None).collect();
    let start = |(number, from)| (number, Box::pin(part(from)));
    let mut running: Vec<_> = starts.by_ref().take(side_by_side).map(start).collect();
    while !running.is_empty() {
        let (number, answer) = next(&mut running).await;
        if let Some(place) = done.get_mut(number) {
            *place = Some(answer?);
        }
        running.extend(starts.next().map(start));
    }
    together(&done.into_iter().flatten().collect::<Vec<_>>())
}

/// Some rows of a request.
fn cut(whole: &Work, from: usize, rows: usize) -> Result<Work, Error> {
    let input = |it: &NamedTensor| {
        let tensor = it.tensor.slice_rows(from, rows)?;
        Some(NamedTensor { name: it.name.clone(), tensor })
    };
    let inputs = whole.inputs.iter().map(input).collect::<Option<_>>();
    let inputs = inputs.ok_or_else(|| Error::Internal("a request cannot be cut".to_owned()))?;
    Ok(Work { inputs, outputs: whole.outputs.clone(), rows })
}

/// The answers to parts, in their order, as that to the whole.
fn together(parts: &[Done]) -> Result<Done, Error> {
    let Some(first) = parts.first() else {
        return Err(Error::Internal("a request without parts".to_owned()));
    };
    let outputs = first.outputs.iter().enumerate().map(|(at, output)| {
        let rows = parts.iter().filter_map(|it| it.outputs.get(at)).map(|it| &it.tensor);
        let tensor = Tensor::concat(rows).ok_or_else(|| {
            let problem = format!(
                "output '{}' differs in shape between parts of the request: send fewer rows at once",
                output.name
            );
            Error::Backend(BackendError::Execute(problem))
        })?;
        Ok(NamedTensor { name: output.name.clone(), tensor })
    });
    let outputs = outputs.collect::<Result<_, Error>>()?;
    let sum = |of: fn(&Timings) -> Duration| parts.iter().map(|it| of(&it.timings)).sum();
    let started = parts.iter().map(|it| it.timings.started).min();
    let timings = Timings {
        started: started.unwrap_or(first.timings.started),
        queue: Duration::ZERO,
        input: sum(|it| it.input),
        infer: sum(|it| it.infer),
        output: sum(|it| it.output),
        batch_rows: parts.iter().map(|it| it.timings.batch_rows).max().unwrap_or(0),
    };
    Ok(Done { outputs, timings })
}
