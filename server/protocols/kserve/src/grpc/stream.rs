//! The streaming call: several requests at the same time, answered in their order.

use std::{sync::Arc, time::Instant};

use h2::RecvStream;
use tokio::sync::mpsc;

use super::infer;
use crate::grpc::{Method, reply::Frame};
use frontend::{
    exchange::Failure,
    grpc::{
        body::{Answer, Answers, Encoded},
        context::{Answered, Context},
        exchanged::Times,
        failure,
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

/// A failure as the status of the call's end.
fn end(context: &Context, failure: Failure) -> Status {
    failure::log(&context.front.serving, &context.id, &Method::ModelStreamInfer, &failure);
    failure::status(&failure)
}

/// A failure as a response message.
fn error_message(context: &Context, failure: &Failure) -> Encoded {
    failure::log(&context.front.serving, &context.id, &Method::ModelStreamInfer, failure);
    let last = InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(true)) };
    encode(&ModelStreamInferResponse {
        error_message: failure::status(failure).text,
        infer_response: Some(ModelInferResponse {
            id: failure.id.as_deref().unwrap_or_default().to_owned(),
            parameters: [("triton_final_response".to_owned(), last)].into(),
            ..ModelInferResponse::default()
        }),
    })
}
