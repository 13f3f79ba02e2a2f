//! The log of a load: what of the configuration is ignored, and that the model is ready.

use std::{collections::BTreeSet, time::Duration};

use crate::load::placement::Plan;
use serving::served::ServedModel;

/// What is told of a model version while it is loaded. Each line is logged once, however often the version is made.
pub(crate) struct LoadLog<'a> {
    model: &'a str,
    version: u64,
    logged: BTreeSet<String>,
}

impl<'a> LoadLog<'a> {
    pub(crate) fn new(model: &'a str, version: u64) -> LoadLog<'a> {
        LoadLog { model, version, logged: BTreeSet::new() }
    }

    pub(crate) fn warn(&mut self, warning: &str) {
        if self.logged.insert(warning.to_owned()) {
            tracing::warn!(model = self.model, version = self.version, "{warning}");
        }
    }

    pub(crate) fn info(&mut self, line: &str) {
        if self.logged.insert(line.to_owned()) {
            tracing::info!(model = self.model, version = self.version, "{line}");
        }
    }
}

/// Logs that the model is ready, and what became of it. `library` is the version of what its engine works with, where
/// that tells.
pub(crate) fn ready(model: &ServedModel, plan: &Plan, library: Option<&str>, took: Duration) {
    tracing::info!(
        model = %model.signature.model,
        version = model.signature.version,
        engine = if model.config.backend.is_empty() { model.platform() } else { &model.config.backend },
        engine_version = library,
        device = plan.devices_text(),
        instances = plan.instances(),
        threads = plan.threads,
        max_batch_size = model.config.max_batch_size,
        load_ms = took.as_millis(),
        why = plan.reason,
        "model is ready"
    );
}
