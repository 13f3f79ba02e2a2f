//! One inference for a client of another server of texts: its model is chosen, its body is run as any other, and the
//! reply says what it has taken.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use hyper::{
    body::Incoming,
    header::{HeaderName, HeaderValue},
    http::request::Parts,
};

use super::choice::{check, choose};
use crate::{
    exchange::{
        Arrived,
        intake::{self, Received},
        offload::{LARGE, offload},
        payload::Payload,
    },
    http::{
        answer::{Answer, find},
        encoding,
        inference::{HttpCodec, Work, inference, inference_of_plain},
        reply_forms::ReplyForm,
        router::ModelPath,
        service::Service,
    },
};
use ::inference::{
    error::Error,
    request::{InferenceRequest, InferenceResponse},
    signature::Signature,
    task::Task,
};
use models::ServedModel;
use protocol::{
    EncodedReply,
    body_model::{self, model_name},
    cost,
    terms::Terms,
};

/// How the bodies of one operation are read, and its replies written. `F` is the form of a reply.
pub struct Operation<F> {
    /// What the model must do.
    pub task: Task,
    /// Decodes a body.
    pub decode: fn(&Signature, Arc<Terms>, &[u8]) -> Result<(InferenceRequest, F), Error>,
    /// Encodes a response.
    pub encode: fn(&F, &Signature, &InferenceResponse) -> Result<EncodedReply, Error>,
}

/// Runs a request on the model that the address names, or that its body or its task chooses.
pub async fn infer<F: ReplyForm + Send + 'static>(
    service: &Service,
    path: Option<&ModelPath<'_>>,
    parts: &Parts,
    body: &mut Incoming,
    operation: Operation<F>,
) -> Answer {
    let began = Instant::now();
    let Operation { task, decode, encode } = operation;
    let (model, received) = match path {
        Some(path) => (check(find(service, path, parts).await?, task)?, None),
        None => {
            let received = receive(service, parts, body).await?;
            let (received, name) = named(received).await?;
            (choose(service, task, name.as_deref(), &parts.headers).await?, Some(received))
        }
    };
    let terms = Arc::new(terms(&model));
    let codec = HttpCodec {
        header_length: None,
        expanded: |signature: &Signature, body: &Bytes, loose| {
            body_model::expanded(signature, body, loose)
        },
        work: Work::Body,
        decode: move |signature: &Signature, body: Bytes| Ok(decode(signature, terms, &body)?),
        encode,
    };
    let mut response = match received {
        None => inference(service, model, parts, body, codec, None).await?,
        Some(received) => {
            let payload: Payload<'_, Incoming> = Payload::Here(received);
            inference_of_plain(service, model, parts, payload, codec).await?
        }
    };
    let took = HeaderValue::from(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
    for name in [cost::TIME, cost::TOTAL_TIME] {
        response.headers_mut().insert(HeaderName::from_static(name), took.clone());
    }
    Ok(response)
}

fn terms(model: &ServedModel) -> Terms {
    Terms {
        shown_name: model.shown_name.clone(),
        truncates: true,
        device: if model.uses_gpus() { "gpu" } else { "cpu" },
    }
}

/// The whole body, inflated.
async fn receive(service: &Service, parts: &Parts, body: &mut Incoming) -> Result<Received, Error> {
    let settings = &service.settings;
    let encoding = encoding::of_body(&parts.headers, settings.compression)?;
    let received = intake::read(body, 0, &settings.body).await?;
    match encoding {
        None => Ok(received),
        Some(encoding) => {
            let inflated =
                Arrived::inflate(encoding, "content-encoding", received, &settings.body)?;
            inflated.whole().await
        }
    }
}

/// A body, and the model that it names. A long one is looked at on the pool.
async fn named(received: Received) -> Result<(Received, Option<String>), Error> {
    match received.bytes.len() <= LARGE {
        true => look(received),
        false => offload(move || look(received)).await?,
    }
}

fn look(received: Received) -> Result<(Received, Option<String>), Error> {
    let name = model_name(&received.bytes)?;
    Ok((received, name))
}
