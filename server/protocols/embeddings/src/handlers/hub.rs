//! Pipelines in the form of Hugging Face's hub: of the task in the address, else of the model's own.

use std::time::Instant;

use hyper::{body::Incoming, header::CONTENT_TYPE};

use super::{
    choice::WantedModel,
    cost::add_times,
    inference::{Operation, infer, run},
    received::receive_json_or_file,
    text_service::TextService,
};
use crate::codec::hub;
use ::inference::task::Task;
use frontend::{
    exchange::payload::Payload,
    http::{address::ModelPath, answer::Answer, parts::Parts, service::text},
};

/// Answers a body of the hub.
pub async fn answer(
    service: &TextService<'_>,
    asked: Option<Task>,
    path: Option<&ModelPath<'_>>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    let began = Instant::now();
    let content_type = text(&parts.headers, &CONTENT_TYPE).map(str::to_owned);
    // Of a model in the address what is sent is known by its type alone: its body is received behind the admission.
    let given = content_type.as_deref().filter(|_| path.is_some());
    let given = given.and_then(|it| hub::medium_of(Some(it), &[]));
    let wanted = asked.map_or(WantedModel::Any(given), WantedModel::Task);
    let operation = Operation {
        wanted,
        decode: move |signature: &_, terms, body: &[u8], grant: &_| {
            hub::decode_body(signature, asked, content_type.as_deref(), terms, body, grant)
        },
        encode: hub::encode,
    };
    if path.is_some() {
        return infer(service, path, parts, body, operation).await;
    }
    let (model, received) = receive_json_or_file(service, wanted, parts, body).await?;
    let payload = Payload::Here(received);
    let mut response = run(service, model, parts, payload, operation).await?;
    add_times(&mut response, began);
    Ok(response)
}
