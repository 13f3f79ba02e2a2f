//! Traces of requests: which are made, and where they go.

use std::collections::BTreeMap;

use crate::error::Error;

/// Settings by name, in the form in which clients read and write them: each a list of texts.
pub type TraceSettings = BTreeMap<String, Vec<String>>;

/// Decides which requests are traced, and writes the traces.
#[derive(Debug, Default)]
pub struct Tracing {}

impl Tracing {
    /// The settings of a model, or those of the server.
    pub fn settings(&self, model: Option<&str>) -> TraceSettings {
        let _ = model;
        TraceSettings::new()
    }

    /// Changes the settings that are given, for a model or the server; `None` goes back to the server's or the
    /// command line's. Answers all settings.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an unknown setting or value, [`Error::Unimplemented`] for one that cannot be changed;
    /// nothing is changed then.
    pub fn update(
        &self,
        model: Option<&str>,
        changes: BTreeMap<String, Option<Vec<String>>>,
    ) -> Result<TraceSettings, Error> {
        let _ = (model, changes);
        Err(Error::Unimplemented("requests cannot be traced".to_owned()))
    }
}
