//! One inference that is answered in parts, from a decoded request to the last of its responses.
//!
//! The run and what comes of it are polled together: the instance may be free again long before the last part is there,
//! and the last part may be there before the instance is free.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use backend::{CallAnswer, MOST_PART_BYTES, PartReceiver, PartSender, parts};
use tokio::time::Sleep;

use super::{Answer, Inference, Ran};
use crate::{served::ServedModel, validate::present};
use inference::{
    error::Error,
    limits::{Permit, out_of_bytes},
    messages,
    request::{InferenceRequest, InferenceResponse},
    timings::Timings,
};
use schedule::{run::refused, work::in_order};
use telemetry::metrics::{FailureReason, ResponseEnd};

/// The responses to one request, as its model gives them. Dropped before the last of them, it withdraws the request or
/// tells the model that nobody waits.
pub struct Responses {
    model: Arc<ServedModel>,
    /// What all responses have in common.
    like: InferenceResponse,
    /// Of the model's signatures, the one that the request is for.
    signature: usize,
    /// Outputs, in the wanted order.
    wanted: Vec<Arc<str>>,
    accepted: Instant,
    /// When the first part was there, after the request was accepted.
    first: Option<Duration>,
    /// How many parts came, and when the last of them did.
    came: usize,
    last: Instant,
    /// `None` once it has ended.
    run: Option<Pin<Box<dyn Future<Output = Ran> + Send>>>,
    /// What came of the run, where it has succeeded.
    ran: Option<Answer>,
    /// Why the run has failed; what was sent before is still read.
    failure: Option<Error>,
    /// Dropped behind the run: a request that has not run is withdrawn, and no model hears of it.
    receiver: PartReceiver,
    /// The deadline, for the time after the run.
    deadline: Option<Pin<Box<Sleep>>>,
    is_over: bool,
    /// Covers what waits unread.
    _room: Option<Permit>,
}

impl Inference {
    /// Runs one request that is answered in parts: those that its model gives, or one for each run where a model that
    /// gives one answer runs it in several. Nothing is done before the first poll.
    ///
    /// # Errors
    /// [`Error::OutOfBudget`] where there is no room for parts that wait.
    pub fn stream(
        &self,
        model: &Arc<ServedModel>,
        request: impl Into<Box<InferenceRequest>>,
    ) -> Result<Responses, Error> {
        let mut request: Box<InferenceRequest> = request.into();
        let room = self.bytes.as_ref().map(|budget| {
            let room = budget.take(MOST_PART_BYTES);
            room.ok_or_else(|| {
                model.metrics.failure(FailureReason::Rejected);
                out_of_bytes(budget)
            })
        });
        let room = room.transpose()?;
        let (sender, receiver) = parts();
        let signature = request.signature;
        let wanted = match request.outputs.as_slice() {
            [] => model.signature.at(signature).outputs.iter().map(|it| it.name.clone()).collect(),
            wanted => wanted.to_vec(),
        };
        let like = InferenceResponse {
            model: model.signature.model.clone(),
            version: model.signature.version,
            id: request.id.clone(),
            rows: request.rows(),
            outputs: Vec::new(),
            parameters: Vec::new(),
            timings: None,
        };
        let timer = |it: Instant| Box::pin(tokio::time::sleep_until(it.into()));
        let deadline = request.deadline.map(timer);
        // It stays in the request until the run has ended: what has not run does not end the answer.
        request.parts = Some(sender);
        let (inference, running) = (self.clone(), model.clone());
        let run = Box::pin(async move {
            let sender = request.parts.clone().filter(|_| !running.streams);
            let (id, mut answer) = inference.answer(&running, None, request).await?;
            if let Some(sender) = sender {
                send_rest(&sender, &mut answer);
            }
            Ok((id, answer))
        });
        Ok(Responses {
            model: model.clone(),
            like,
            signature,
            wanted,
            accepted: Instant::now(),
            first: None,
            came: 0,
            last: Instant::now(),
            run: Some(run),
            ran: None,
            failure: None,
            receiver,
            deadline,
            is_over: false,
            _room: room,
        })
    }

    /// Runs one request on a model that answers in parts and gives one of them.
    pub(super) fn only_part<'a>(
        &'a self,
        model: &'a Arc<ServedModel>,
        request: Box<InferenceRequest>,
    ) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        Box::pin(async move {
            if model.is_decoupled {
                return Err(Error::Unimplemented(messages::takes_one_answer("the request")));
            }
            let name = &model.signature.model;
            let mut responses = self.stream(model, request)?;
            let none = || Error::Internal(format!("model '{name}' has ended without an answer"));
            let response = responses.next().await.ok_or_else(none)??;
            if let Some(another) = responses.next().await {
                another?;
                let several =
                    "gives several answers to one request; ask where they can be sent one by one";
                return Err(Error::Unimplemented(format!("model '{name}' {several}")));
            }
            let InferenceResponse { id, outputs, parameters, rows, .. } = response;
            let timings = Timings::starting_at(responses.accepted);
            let (timings, rows) = match responses.ran.take() {
                Some(it) => (it.timings, it.rows),
                None => (timings, rows.unwrap_or(1)),
            };
            Ok((id, Answer { outputs, parameters, timings, rows }))
        })
    }
}

/// What a model that knows nothing of parts has answered is one, unless its runs have sent theirs; and the answer ends.
fn send_rest(sender: &PartSender, answer: &mut Answer) {
    if !sender.has_sent() {
        let outputs = std::mem::take(&mut answer.outputs);
        let parameters = std::mem::take(&mut answer.parameters);
        // Nothing waits before it, and who has left does not miss it.
        let _ = sender.send_last(CallAnswer { outputs, parameters, again: false });
    }
    sender.end(Ok(()));
}

impl Responses {
    /// The next response; `None` behind the last.
    ///
    /// # Errors
    /// Why there is no further one, once.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<InferenceResponse, Error>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The same.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<InferenceResponse, Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Some(run) = &mut self.run
            && let Poll::Ready(ended) = run.as_mut().poll(context)
        {
            self.run = None;
            match ended {
                Ok((_, answer)) => self.ran = Some(answer),
                Err(error) => self.failure = Some(error),
            }
        }
        let error = match self.receiver.poll_next(context) {
            Poll::Ready(Ok(Some(part))) => {
                self.first.get_or_insert_with(|| self.accepted.elapsed());
                match self.response(part) {
                    Ok(response) => {
                        self.note(ResponseEnd::Success);
                        return Poll::Ready(Some(Ok(response)));
                    }
                    Err(error) => self.count_failed(error),
                }
            }
            Poll::Ready(Ok(None)) => {
                self.end();
                return Poll::Ready(None);
            }
            Poll::Ready(Err(error)) => match self.failure.take() {
                // It has been counted where it ran, and says more.
                Some(failure) => failure,
                None => {
                    // The instance may still work on others of its run.
                    self.leave_run(|_| ());
                    self.count_failed(refused(error))
                }
            },
            Poll::Pending => match self.failure.take() {
                Some(failure) => failure,
                None if self.is_late(context) => {
                    let took = self.accepted.elapsed();
                    self.model.metrics.failure_after(FailureReason::Canceled, took);
                    let model = self.like.model.to_string();
                    Error::DeadlineExceeded { model }
                }
                None => return Poll::Pending,
            },
        };
        self.note(ResponseEnd::Fail);
        self.is_over = true;
        Poll::Ready(Some(Err(error)))
    }

    /// Has the last of them been taken, where the model has ended its answer already? Then there is no other.
    pub fn is_at_end(&self) -> bool {
        self.is_over || self.receiver.is_at_end()
    }

    /// Did the model send the one that was taken last as its last?
    pub fn has_taken_last(&self) -> bool {
        self.receiver.has_taken_last()
    }

    /// Where the time of the run went, once it has ended.
    pub fn timings(&self) -> Option<&Timings> {
        self.ran.as_ref().map(|it| &it.timings)
    }

    /// A part as clients see it.
    fn response(&self, part: CallAnswer) -> Result<InferenceResponse, Error> {
        let CallAnswer { outputs, parameters, .. } = part;
        let mut outputs = in_order(&self.wanted, outputs);
        let config = self.model.config_of(self.model.signature.at(self.signature));
        outputs.iter_mut().try_for_each(|it| present(config, it))?;
        Ok(InferenceResponse { outputs, parameters, ..self.like.clone() })
    }

    /// Is the deadline over, after the run? Before that the run ends itself by it.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let Some(deadline) = self.deadline.as_mut().filter(|_| self.run.is_none()) else {
            return false;
        };
        deadline.as_mut().poll(context).is_ready()
    }

    fn count_failed(&self, error: Error) -> Error {
        let reason = match error {
            Error::Backend(_) => FailureReason::Backend,
            Error::Internal(_) => FailureReason::Other,
            _ => FailureReason::Rejected,
        };
        self.model.metrics.failure_after(reason, self.accepted.elapsed());
        error
    }

    /// The model has ended the answer. The request is counted once, with the times of its run.
    fn end(&mut self) {
        self.is_over = true;
        if !self.receiver.has_taken_last() {
            self.note(ResponseEnd::Empty);
        }
        let (first, total) = (self.first, self.accepted.elapsed());
        let metrics = self.model.metrics.clone();
        let count = move |ran: &Answer| {
            metrics.success_in_parts(ran.rows, first, total, &ran.timings);
        };
        match &self.ran {
            Some(ran) => count(ran),
            // A run that has failed was counted where it ran.
            None => self.leave_run(move |ran| count(&ran)),
        }
    }

    /// Counts the next response of a decoupled model.
    fn note(&mut self, end: ResponseEnd) {
        if !self.model.is_decoupled {
            return;
        }
        let took = self.last.elapsed();
        self.model.metrics.response(self.came, end, took);
        (self.came, self.last) = (self.came + 1, Instant::now());
    }

    /// The instance may still work on it, or on others of its run: nobody gives that up. `then` is called when it has
    /// succeeded.
    fn leave_run(&mut self, then: impl FnOnce(Answer) + Send + 'static) {
        let Some(run) = self.run.take() else { return };
        let held = self.model.clone();
        drop(tokio::spawn(async move {
            if let Ok((_, ran)) = run.await {
                then(ran);
            }
            drop(held);
        }));
    }
}

impl Drop for Responses {
    fn drop(&mut self) {
        if !self.is_over {
            self.note(ResponseEnd::Cancel);
        }
        // A request that is still queued or in its run is counted as it leaves there.
        let has_left = !self.is_over && self.run.is_none() && self.failure.is_none();
        if has_left {
            let took = self.accepted.elapsed();
            self.model.metrics.failure_after(FailureReason::Canceled, took);
        }
        self.run = None;
    }
}
