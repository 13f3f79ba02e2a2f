//! The streaming call: several requests at the same time, answered in their order; those to decoupled models by any
//! number of responses, as they come.

use std::{
    sync::Arc,
    task::{Context as Polling, Poll, ready},
    time::Instant,
};

use h2::RecvStream;
use tokio::sync::mpsc;

use super::infer::{self, ModelInfer};
use crate::grpc::{Method, reply::Frame};
use frontend::{
    drain::Guard,
    exchange::{Failure, in_parts::Replies},
    grpc::{
        body::{Answer, Answers, Encoded, Several},
        context::{Answered, Context},
        exchanged::Times,
        failure,
        message::OneUnderWay,
        messages::encode,
        metadata,
        proto::{
            InferParameter, ModelInferResponse, ModelStreamInferResponse,
            infer_parameter::ParameterChoice,
        },
        status::Status,
    },
    net::Task,
};
use inference::error::Error;

/// Starts to answer `ModelStreamInfer`.
pub(super) fn start(context: Context, body: RecvStream) -> Answered {
    // The reply holds one answer, the queue has room for the others.
    let room = context.front.settings.grpc.stream_requests.get().saturating_sub(1).max(1);
    let (answers, queue) = mpsc::channel(usize::try_from(room).unwrap_or(1));
    let (encoding, metrics) = (context.reply_encoding(), context.front.serving.metrics.clone());
    let ends = context.timeout.and_then(|it| Instant::now().checked_add(it));
    let reader = Task::spawn(async move {
        let status = read(Arc::new(context), body, ends, &answers).await;
        // An error means that the client has left.
        let _ = answers.send(Answer::End(status)).await;
    });
    Answered::Many(Answers::new(queue, reader, metrics).until(ends), encoding)
}

/// Reads requests and starts to answer them until there are no more. Returns the status of the call's end. A call whose
/// time `ends` before is ended by its reply.
async fn read(
    context: Arc<Context>,
    body: RecvStream,
    ends: Option<Instant>,
    answers: &mpsc::Sender<Answer>,
) -> Status {
    let front = &context.front;
    let ends_at_error = metadata::errors_end_the_stream(&context.metadata);
    let mut messages = context.messages(body);
    let mut guard = front.serving.drain.guard();
    let mut closing = std::pin::pin!(guard.closing());
    loop {
        // Back pressure: requests of a client that does not read its answers are not read.
        let Ok(place) = answers.reserve().await else { return Status::OK };
        let began = front.serving.tracing.now();
        let next = tokio::select! {
            biased;
            () = closing.as_mut() => return Status::of(&Error::ShuttingDown),
            next = messages.next_arrived(false) => next,
        };
        let message = match next {
            Ok(Some(message)) => message,
            Ok(None) => return Status::OK,
            // After a broken message the start of the next one is unknown.
            Err(error) => return end(&context, Failure::from(error)),
        };
        let deadline = front.serving.deadline(None).into_iter().chain(ends).min();
        let times = Times { began, deadline };
        match infer::prepare(&context, message, times, Frame::Stream).await {
            Ok(prepared) if prepared.model().is_decoupled => {
                match infer::stream(&context, prepared, times) {
                    Ok(replies) => place.send(Answer::Several(Box::new(Parts {
                        ends_empty: replies.format().is_some_and(|it| it.ends_empty),
                        has_sent_last: false,
                        context: context.clone(),
                        replies: Some(replies),
                        ends_at_error,
                        _under_way: messages.begin_answer(),
                        _guard: front.serving.drain.guard(),
                    }))),
                    Err(failure) if ends_at_error => return end(&context, failure),
                    Err(failure) => place.send(Answer::Message(error_message(&context, &failure))),
                }
            }
            Ok(prepared) => {
                let (context, under_way) = (context.clone(), messages.begin_answer());
                place.send(Answer::Later(Task::spawn(async move {
                    let _under_way = under_way;
                    match infer::run(&context, prepared, times).await {
                        Ok(encoded) => Ok(encoded),
                        Err(failure) if ends_at_error => Err(end(&context, failure)),
                        Err(failure) => Ok(error_message(&context, &failure)),
                    }
                })));
            }
            Err(failure) if ends_at_error => return end(&context, failure),
            Err(failure) => place.send(Answer::Message(error_message(&context, &failure))),
        }
    }
}

/// The responses to a request to a decoupled model.
struct Parts {
    context: Arc<Context>,
    /// `None` once there is no further one.
    replies: Option<Replies<ModelInfer>>,
    /// Is a response without outputs owed where no part was said to be the last?
    ends_empty: bool,
    has_sent_last: bool,
    ends_at_error: bool,
    _under_way: OneUnderWay,
    /// The server does not end before it.
    _guard: Guard,
}

impl Several for Parts {
    fn poll_next(&mut self, context: &mut Polling<'_>) -> Poll<Option<Result<Encoded, Status>>> {
        let Some(replies) = &mut self.replies else { return Poll::Ready(None) };
        let next = match ready!(replies.poll_next(context)) {
            Some(Ok(answer)) => {
                self.has_sent_last = replies.has_taken_last();
                return Poll::Ready(Some(Ok(answer.into())));
            }
            Some(Err(failure)) if self.ends_at_error => Some(Err(end(&self.context, failure))),
            Some(Err(failure)) => Some(Ok(error_message(&self.context, &failure))),
            None if self.ends_empty && !self.has_sent_last => Some(Ok(empty_message(replies))),
            None => None,
        };
        self.replies = None;
        Poll::Ready(next)
    }
}

/// The response without outputs that says that there is no further one.
fn empty_message(replies: &Replies<ModelInfer>) -> Encoded {
    let signature = &replies.model().signature;
    encode(&ModelStreamInferResponse {
        error_message: String::new(),
        infer_response: Some(ModelInferResponse {
            model_name: signature.model.to_string(),
            model_version: signature.version.to_string(),
            id: replies.id().map(|it| it.to_string()).unwrap_or_default(),
            parameters: [last()].into(),
            ..ModelInferResponse::default()
        }),
    })
}

/// The parameter by which a response says that it is the last one.
fn last() -> (String, InferParameter) {
    let parameter_choice = Some(ParameterChoice::BoolParam(true));
    ("triton_final_response".to_owned(), InferParameter { parameter_choice })
}

/// A failure as the status of the call's end.
fn end(context: &Context, failure: Failure) -> Status {
    failure::log(&context.front.serving, &context.id, &Method::ModelStreamInfer, &failure);
    failure::status(&failure)
}

/// A failure as a response message.
fn error_message(context: &Context, failure: &Failure) -> Encoded {
    failure::log(&context.front.serving, &context.id, &Method::ModelStreamInfer, failure);
    encode(&ModelStreamInferResponse {
        error_message: failure::status(failure).text,
        infer_response: Some(ModelInferResponse {
            id: failure.id.as_deref().unwrap_or_default().to_owned(),
            parameters: [last()].into(),
            ..ModelInferResponse::default()
        }),
    })
}
