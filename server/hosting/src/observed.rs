//! Records of an invocation: counts for lines of metrics, and captured data. Both are off by default, and cost
//! nothing then.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{
    header::{CONTENT_TYPE, HeaderName},
    http::request::Parts,
};

use crate::{emf::Invocation, front::Hosting};
use frontend::{
    exchange::rendering::Rendering,
    http::answer::{Answer, owned_text},
};
use models::ServedModel;
use telemetry::capture::{About, Captured};

/// The client's name for its request.
const INFERENCE_ID: HeaderName = HeaderName::from_static("x-amzn-sagemaker-inference-id");

/// A header that SageMaker passes from the client to the container and back.
pub const CUSTOM_ATTRIBUTES: HeaderName =
    HeaderName::from_static("x-amzn-sagemaker-custom-attributes");

/// An invocation that has begun.
pub struct Observed {
    counted: Option<Invocation>,
    captured: Option<Arc<Captured>>,
}

impl Observed {
    /// Begins the records of an invocation of that model.
    pub fn begin(hosting: &Hosting, model: &ServedModel, parts: &Parts) -> Observed {
        let name = &model.shown_name;
        let counted = hosting.recorder.as_ref().map(|it| it.begin(name));
        let captured = hosting.capture.as_ref().and_then(|capture| {
            let id = hosting.http.request_id(&parts.headers, None);
            let about = || About {
                model: name.clone(),
                inference_id: owned_text(&parts.headers, &INFERENCE_ID),
                custom_attributes: owned_text(&parts.headers, &CUSTOM_ATTRIBUTES),
                content_type: owned_text(&parts.headers, &CONTENT_TYPE),
            };
            capture.begin(about, &id)
        });
        Observed { counted, captured }
    }

    /// The capture that takes the body before it is decoded; `None` where this invocation is not captured.
    pub fn captured(&self) -> Option<Arc<Captured>> {
        self.captured.clone()
    }

    /// Records the answer. A failure is counted but not captured, because it has no output.
    pub fn end(self, answer: &mut Answer) {
        let Observed { counted, captured } = self;
        if let (Some(captured), Ok(response)) = (captured, &*answer) {
            let content_type = owned_text(response.headers(), &CONTENT_TYPE);
            let pieces: Vec<Bytes> = response.body().pieces().cloned().collect();
            captured.output(content_type.as_deref(), &pieces);
        }
        let Some(mut counted) = counted else { return };
        match answer {
            Ok(response) => {
                counted.answered(response.status().as_u16());
                response.body_mut().keep(counted);
            }
            Err(failure) => counted.answered(Rendering::of(&failure.error).http.as_u16()),
        }
    }
}
