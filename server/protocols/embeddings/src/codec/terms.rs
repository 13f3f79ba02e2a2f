//! What holds for a request to a model of texts where its body says nothing, and what its reply says of the server.

use std::sync::Arc;

/// The terms of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// What replies call the model.
    pub shown_name: Arc<str>,
    /// Are texts that are too long cut where the request does not say?
    pub truncates: bool,
    /// What the model runs on: `cpu` or `gpu`.
    pub device: &'static str,
    /// Names of the prompts that the model has.
    pub prompts: Vec<String>,
}

/// Those of a request to model `m`, which runs on a processor, has no prompts, and cuts long texts.
#[cfg(test)]
pub fn sample() -> Terms {
    Terms { shown_name: "m".into(), truncates: true, device: "cpu", prompts: Vec::new() }
}
