//! Requests of which data capture keeps body and reply.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName};

use super::{
    answer::{Answer, owned_text},
    parts::Parts,
    service::{INFERENCE_ID, Service},
};
use serving::ServedModel;
use telemetry::capture::{About, Captured};

/// A header that SageMaker passes from the client to the container and back.
pub const CUSTOM_ATTRIBUTES: HeaderName =
    HeaderName::from_static("x-amzn-sagemaker-custom-attributes");

/// The capture of a request for that model. `None` where nothing is captured, or this request is not chosen. A body
/// without a type has the `usual` one.
pub fn begin(
    service: &Service,
    model: &ServedModel,
    parts: &Parts,
    usual: Option<&str>,
) -> Option<Arc<Captured>> {
    let capture = service.capture.as_ref()?;
    let (id, headers) = (service.request_id(parts, None), &parts.headers);
    let content_type = || owned_text(headers, &CONTENT_TYPE);
    let about = || About {
        model: model.shown_name.clone(),
        inference_id: owned_text(headers, &INFERENCE_ID),
        custom_attributes: owned_text(headers, &CUSTOM_ATTRIBUTES),
        content_type: content_type().or_else(|| usual.map(str::to_owned)),
    };
    capture.begin(about, &id)
}

/// Captures the reply. A failure has none, and is not captured.
pub fn end(captured: Option<Arc<Captured>>, answer: &Answer) {
    let (Some(captured), Ok(response)) = (captured, answer) else { return };
    let content_type = owned_text(response.headers(), &CONTENT_TYPE);
    let pieces: Vec<Bytes> = response.body().pieces().cloned().collect();
    captured.output(content_type.as_deref(), &pieces);
}
