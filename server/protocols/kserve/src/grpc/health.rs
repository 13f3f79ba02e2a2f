//! Health of the server and its models: Triton's calls, and gRPC's own health service.

use std::time::Duration;

use h2::RecvStream;
use tokio::sync::mpsc;

use frontend::{
    exchange::Failure,
    grpc::{
        body::{Answer, Answers},
        context::{Answered, Context},
        messages::{decode, encode, version},
        proto::{
            ModelReadyRequest, ModelReadyResponse, ServerLiveRequest, ServerLiveResponse,
            ServerReadyRequest, ServerReadyResponse,
            health::{
                HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus,
            },
        },
        status::Status,
    },
    net::Task,
    serving::Serving,
};
use inference::error::Error;

/// Shortest time between two updates of a client that watches.
const LOOK: Duration = Duration::from_millis(250);

pub(super) fn live(
    serving: &Serving,
    ServerLiveRequest {}: ServerLiveRequest,
) -> Result<ServerLiveResponse, Error> {
    match serving.drain.is_serving() {
        true => Ok(ServerLiveResponse { live: true }),
        false => Err(Error::ShuttingDown),
    }
}

pub(super) fn ready(
    serving: &Serving,
    ServerReadyRequest {}: ServerReadyRequest,
) -> Result<ServerReadyResponse, Error> {
    match serving.drain.is_serving() {
        true => Ok(ServerReadyResponse { ready: serving.not_ready().is_none() }),
        false => Err(Error::ShuttingDown),
    }
}

pub(super) async fn model_ready(
    serving: &Serving,
    request: &ModelReadyRequest,
) -> Result<ModelReadyResponse, Error> {
    // A question for readiness does not load the model.
    match serving.models.own_ready(&request.name, version(&request.version)?).await {
        Ok(()) => Ok(ModelReadyResponse { ready: serving.drain.is_serving() }),
        // Clients wait for a model in a loop that ends at an error: an unknown model is one that is not ready.
        Err(_) => Ok(ModelReadyResponse { ready: false }),
    }
}

pub(super) fn check(serving: &Serving, _: &HealthCheckRequest) -> HealthCheckResponse {
    state(serving)
}

/// The state of the server, whatever service the question is about.
fn state(serving: &Serving) -> HealthCheckResponse {
    let status = match serving.not_ready() {
        None => ServingStatus::Serving,
        Some(_) => ServingStatus::NotServing,
    };
    HealthCheckResponse { status: status.into() }
}

/// Starts to send a client the state of the server.
pub(super) async fn watch(context: Context, body: RecvStream) -> Result<Answered, Failure> {
    // Not kept: the answers are the same for every question.
    let _: HealthCheckRequest = decode(context.messages(body).only().await?.bytes)?;
    // A bound of 1: states do not pile up for a client that does not read.
    let (answers, queue) = mpsc::channel(1);
    let metrics = context.front.serving.metrics.clone();
    let reader = Task::spawn(async move {
        let serving = &context.front.serving;
        let mut guard = serving.drain.guard();
        let mut closing = std::pin::pin!(guard.closing());
        let mut sent = None;
        loop {
            let now = state(serving);
            if sent != Some(now) && answers.send(Answer::Message(encode(&now))).await.is_err() {
                return;
            }
            sent = Some(now);
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = closing.as_mut() => break,
            }
        }
        let now = state(serving);
        if sent != Some(now) {
            let _ = answers.send(Answer::Message(encode(&now))).await;
        }
        // An error means that the client has left.
        let _ = answers.send(Answer::End(Status::of(&Error::ShuttingDown))).await;
    });
    Ok(Answered::Many(Answers::new(queue, reader, metrics), None))
}
