//! A request of more rows than a run has: cut into parts that run side by side, and put together again, or sent on one
//! by one where the client takes them so.
//!
//! Requests are cut above the queue, so that the rules of the queue need not know of parts. Requests of others come
//! between them.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use backend::{BackendError, CallAnswer, NamedTensor, NotSent, Parameters, PartSender, Tensor};

use crate::infer::next::next;
use inference::{boxed::BoxFuture, error::Error, timings::Timings};
use schedule::{
    Extent, ReplySlot, RequestQueue, Scheduler, Submission,
    work::{Done, Parts, Work},
};

/// Runs a request in parts of at most `most_rows` rows. It is one request to the statistics, and one to the order of
/// replies. No more parts are on their way than there are instances, and one that waits for the next of them, so that
/// the requests of others come between. With `sender`, answers to parts are sent on in their order, and the whole is
/// empty; the next is sent once those before it are taken, and not many run ahead.
///
/// # Errors
/// Those of the first part that fails. The others are withdrawn then.
///
/// # Cancel safety
/// Dropping the future withdraws all parts.
pub(super) fn run<'a>(
    scheduler: &'a Scheduler,
    submission: Submission,
    most_rows: usize,
    slot: Option<ReplySlot>,
    sender: Option<&'a PartSender>,
) -> BoxFuture<'a, Result<Done, Error>> {
    Box::pin(async move {
        // A client that takes its parts slowly holds up the replies to no other.
        let slot = match sender {
            Some(_) => Some(ReplySlot::unordered()),
            None => slot.or_else(|| scheduler.reply_slot()),
        };
        let leaving = Leaving::new(scheduler, submission.accepted);
        let answer = in_parts(scheduler, &submission, most_rows, sender).await;
        leaving.end();
        if let Some(slot) = slot {
            slot.wait_for_earlier().await;
        }
        scheduler.count_parts(answer, submission.accepted)
    })
}

/// Counts a request of several parts whose client leaves before it is answered.
pub(super) struct Leaving<'a> {
    scheduler: &'a Scheduler,
    accepted: Instant,
    is_over: bool,
}

impl Leaving<'_> {
    /// Of a request that was accepted then.
    pub(super) fn new(scheduler: &Scheduler, accepted: Instant) -> Leaving<'_> {
        Leaving { scheduler, accepted, is_over: false }
    }

    /// It has been answered.
    pub(super) fn end(mut self) {
        self.is_over = true;
    }
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
    sender: Option<&PartSender>,
) -> Result<Done, Error> {
    let uneven = || Error::Internal("a request cannot be cut".to_owned());
    let mut parts = Parts::of(&whole.work).ok_or_else(uneven)?;
    let part = async |from: usize, work: Work| {
        let (accepted, extent) = match from {
            0 => (whole.accepted, Extent::FirstPart),
            // It waits from now on.
            _ => (Instant::now(), Extent::LaterPart),
        };
        let submission = Submission { work, accepted, extent, ..*whole };
        scheduler.submit_with_slot(submission, Some(ReplySlot::unordered())).await
    };
    let mut starts = (0..whole.work.rows).step_by(most_rows.max(1)).enumerate();
    let side_by_side = scheduler.instances().saturating_add(1);
    let mut running = Vec::with_capacity(side_by_side);
    let mut joined = Joined::default();
    loop {
        // What is done early waits for those before it, and there is not to be much of that.
        while running.len() < side_by_side && joined.early.len() < AHEAD * side_by_side {
            let Some((number, from)) = starts.next() else { break };
            let rows = most_rows.min(whole.work.rows.saturating_sub(from));
            let work = parts.next(rows).ok_or_else(uneven)?;
            running.push((number, Box::pin(part(from, work))));
        }
        if running.is_empty() {
            return joined.finish();
        }
        let (number, answer) = next(&mut running).await;
        match sender {
            None => joined.add(number, answer?)?,
            Some(sender) => {
                for done in joined.in_turn(number, answer?) {
                    joined.note(done.timings);
                    send(sender, done).await?;
                }
            }
        }
    }
}

/// Sends the answer to a part on, once those before it are taken.
async fn send(sender: &PartSender, done: Done) -> Result<(), Error> {
    let Done { outputs, parameters, .. } = done;
    sender.read().await;
    match sender.send(CallAnswer { outputs, parameters, again: false }) {
        // Who has left drops this future, too.
        Ok(()) | Err(NotSent::Left) => Ok(()),
        Err(NotSent::Ended | NotSent::Full) => {
            Err(Error::Internal("a part of the answer was not taken".to_owned()))
        }
    }
}

/// Answers to parts, put together in their order. Those of few bytes are copied into one piece, so that a request of
/// many small rows takes little more memory than its answer has.
#[derive(Default)]
struct Joined {
    /// How many parts are in it.
    parts: usize,
    /// Answers to later parts, by their number.
    early: BTreeMap<usize, Done>,
    outputs: Vec<Column>,
    parameters: Parameters,
    timings: Option<Timings>,
}

/// One output.
struct Column {
    name: Arc<str>,
    pieces: Vec<Tensor>,
    /// From there on pieces have been added one by one.
    settled: usize,
}

/// Times as many answers as parts run wait at most for an earlier one.
const AHEAD: usize = 4;

/// So many pieces are looked at together.
const PIECES: usize = 256;

/// Pieces of fewer bytes on average are copied.
const SMALL: usize = 4096;

impl Joined {
    fn add(&mut self, number: usize, done: Done) -> Result<(), Error> {
        self.in_turn(number, done).into_iter().try_for_each(|it| self.append(it))
    }

    /// With that answer: those whose turn it is.
    fn in_turn(&mut self, number: usize, done: Done) -> Vec<Done> {
        self.early.insert(number, done);
        let mut those = Vec::new();
        while let Some(done) = self.early.remove(&self.parts) {
            self.parts += 1;
            those.push(done);
        }
        those
    }

    fn note(&mut self, timings: Timings) {
        self.timings = Some(self.timings.map_or(timings, |sum| sum.beside(timings)));
    }

    fn append(&mut self, done: Done) -> Result<(), Error> {
        let Done { outputs, parameters, timings, .. } = done;
        if self.outputs.is_empty() {
            let column =
                |it: &NamedTensor| Column { name: it.name.clone(), pieces: Vec::new(), settled: 0 };
            self.outputs = outputs.iter().map(column).collect();
        }
        self.parameters.extend(parameters);
        for (column, output) in self.outputs.iter_mut().zip(outputs) {
            column.add(output.tensor)?;
        }
        self.note(timings);
        Ok(())
    }

    fn finish(self) -> Result<Done, Error> {
        let lost = || Error::Internal("a request without parts".to_owned());
        let timings = self.timings.ok_or_else(lost)?;
        let outputs = self.outputs.into_iter().map(|column| {
            let tensor = column.concat(0)?;
            Ok(NamedTensor { name: column.name, tensor })
        });
        let outputs = outputs.collect::<Result<_, Error>>()?;
        Ok(Done { outputs, parameters: self.parameters, timings, again: false })
    }
}

impl Column {
    fn add(&mut self, piece: Tensor) -> Result<(), Error> {
        self.pieces.push(piece);
        if self.settled + PIECES <= self.pieces.len() {
            let whole = self.concat(self.settled)?;
            if whole.byte_len() < PIECES * SMALL {
                let (dtype, shape) = (whole.dtype(), whole.shape().clone());
                let copied = Tensor::new(dtype, shape, whole.to_bytes());
                self.pieces.truncate(self.settled);
                self.pieces.push(copied.map_err(|it| Error::Internal(it.to_string()))?);
            }
            self.settled = self.pieces.len();
        }
        Ok(())
    }

    /// The pieces from there on, one below the other.
    fn concat(&self, from: usize) -> Result<Tensor, Error> {
        let pieces = self.pieces.get(from..).unwrap_or_default();
        Tensor::concat(pieces).ok_or_else(|| {
            let problem = format!(
                "output '{}' differs in shape between parts of the request: send fewer rows at once",
                self.name
            );
            Error::Backend(BackendError::Execute(problem))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::Shape;

    fn done(value: i32, rows: usize, width: usize) -> Done {
        let tensor = Tensor::from_vec(Shape::new(&[rows, width]), vec![value; rows * width]);
        let outputs = vec![NamedTensor { name: "y".into(), tensor: tensor.unwrap() }];
        let timings = Timings::starting_at(Instant::now());
        Done { outputs, parameters: Vec::new(), timings, again: false }
    }

    #[test]
    fn many_small_answers_become_few_pieces_in_their_order() {
        let mut joined = Joined::default();
        let parts = 100 * PIECES;
        for number in 0..parts {
            // Two by two the other way round.
            let number = number ^ 1;
            joined.add(number, done(number as i32, 1, 1)).unwrap();
            assert!(joined.early.len() <= 1);
        }
        assert!(joined.outputs[0].pieces.len() <= 100 + PIECES);
        let whole = joined.finish().unwrap().outputs.remove(0).tensor;
        let values: Vec<i32> =
            whole.to_bytes().as_chunks().0.iter().map(|it| i32::from_le_bytes(*it)).collect();
        assert!(values.iter().enumerate().all(|(at, it)| at as i32 == *it));
        assert_eq!(values.len(), parts);
    }

    #[test]
    fn answers_of_other_shapes_are_no_answer() {
        let mut joined = Joined::default();
        joined.add(0, done(1, 1, 2)).unwrap();
        joined.add(1, done(1, 1, 3)).unwrap();
        let error = joined.finish().err().unwrap().to_string();
        assert!(error.contains("output 'y' differs in shape"), "{error}");
    }
}
