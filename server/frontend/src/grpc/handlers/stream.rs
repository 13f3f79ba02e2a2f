//! The streaming call: several requests at the same time, answered in their order.

use std::{sync::Arc, time::Instant};

use h2::RecvStream;
use tokio::sync::mpsc;

use super::{
    super::{
        body::{Answer, Answers, Encoded},
        call::{Answered, Context, Failure},
        metadata,
        proto::{
            InferParameter, ModelInferResponse, ModelStreamInferResponse,
            infer_parameter::ParameterChoice,
        },
        reply::Frame,
        status::{Code, Status},
    },
    encode, infer,
    steps::Times,
};
use crate::net::Task;
use inference::error::Error;

/// Starts to answer `ModelStreamInfer`.
pub(super) fn start(context: Context, body: RecvStream) -> Answered {
    // One is with the reply, and there is room for the others.
    let room = context.front.settings.grpc.stream_requests.get().saturating_sub(1).max(1);
    let (answers, queue) = mpsc::channel(usize::try_from(room).unwrap_or(1));
    let (packs, metrics) = (context.packs(), context.front.serving.metrics.clone());
    let reader = Task::spawn(async move {
        let status = read(Arc::new(context), body, &answers).await;
        // Who does not listen any more has left.
        let _ = answers.send(Answer::End(status)).await;
    });
    Answered::Many(Answers::new(queue, reader, metrics), packs)
}

/// Reads requests and starts to answer them until there are no more; how the call ends then.
async fn read(context: Arc<Context>, body: RecvStream, answers: &mpsc::Sender<Answer>) -> Status {
    let front = &context.front;
    let packs = context.packs();
    let ends_at_error = metadata::errors_end_the_stream(&context.metadata);
    let ends = context.timeout.and_then(|it| Instant::now().checked_add(it));
    let mut messages = context.messages(body);
    let mut guard = front.serving.drain.guard();
    let mut closing = std::pin::pin!(guard.closing());
    loop {
        // A client that does not read its answers is not read either.
        let Ok(place) = answers.reserve().await else { return Status::OK };
        let waited = front.serving.tracing.now();
        let next = tokio::select! {
            biased;
            () = closing.as_mut() => return Status::of(&Error::ShuttingDown),
            () = until(ends) => {
                let text = "the deadline of the stream passed before its end".to_owned();
                return Status { code: Code::DeadlineExceeded, text, retry_after_ms: None };
            }
            next = messages.next(false) => next,
        };
        let received = match next {
            Ok(Some(received)) => received,
            Ok(None) => return Status::OK,
            // Where the next message begins is not known.
            Err(error) => return end(&context, Failure::from(error)),
        };
        let deadline = front.serving.deadline(None).into_iter().chain(ends).min();
        match infer::understand(&context, received, Times { waited, deadline }).await {
            Ok(asked) => {
                let context = context.clone();
                place.send(Answer::Later(Task::spawn(async move {
                    let done = infer::run(&context.front, asked, Frame::Stream, packs).await;
                    match done {
                        Ok(encoded) => Ok(encoded),
                        Err(failure) if ends_at_error => Err(end(&context, failure)),
                        Err(failure) => Ok(told(&context, &failure)),
                    }
                })));
            }
            Err(failure) if ends_at_error => return end(&context, failure),
            Err(failure) => place.send(Answer::Message(told(&context, &failure))),
        }
    }
}

/// Ready at that time.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// A failure as the end of the call.
fn end(context: &Context, failure: Failure) -> Status {
    failure.log(context.method);
    failure.status()
}

/// A failure as a response.
fn told(context: &Context, failure: &Failure) -> Encoded {
    failure.log(context.method);
    let last = InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(true)) };
    encode(&ModelStreamInferResponse {
        error_message: failure.status().text,
        infer_response: Some(ModelInferResponse {
            id: failure.id.as_deref().unwrap_or_default().to_owned(),
            parameters: [("triton_final_response".to_owned(), last)].into(),
            ..ModelInferResponse::default()
        }),
    })
}
