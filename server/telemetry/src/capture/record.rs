//! What is captured of one request.

use std::sync::Arc;

use chrono::{DateTime, Utc};

/// What of a request its record repeats.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// The model that answers it.
    pub model: Arc<str>,
    /// `X-Amzn-SageMaker-Inference-Id`.
    pub inference_id: Option<String>,
    /// `X-Amzn-SageMaker-Custom-Attributes`.
    pub custom_attributes: Option<String>,
    /// `Content-Type`.
    pub content_type: Option<String>,
}

/// What is known of one request.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) about: About,
    /// When it came.
    pub(super) at: DateTime<Utc>,
    pub(super) input: Option<CapturedBody>,
    pub(super) output: Option<CapturedBody>,
}

/// A body.
#[derive(Debug)]
pub(super) struct CapturedBody {
    pub(super) content_type: String,
    /// Its beginning.
    pub(super) bytes: Vec<u8>,
    /// Bytes of all of it.
    pub(super) whole: usize,
}
