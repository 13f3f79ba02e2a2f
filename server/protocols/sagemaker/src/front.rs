//! What answers a hosting platform, and which model it asks.

use std::{num::NonZeroUsize, ops::Deref, sync::Arc};

use hyper::HeaderMap;

use crate::{
    codec::invocations::Options,
    emf::Recorder,
    facade::Facade,
    sessions::SessionTable,
    settings::{HostingSettings, PingMode},
};
use frontend::http::{
    Service,
    service::{TARGET_MODEL, text},
};
use inference::error::Error;
use serving::{AROUND, BEHIND, ServedModel};

/// What clients of SageMaker's containers ask, and of its local runtime.
#[derive(Clone)]
pub struct SageMaker {
    /// The answers that a hosting platform gets beside inference.
    pub answers: HostingSettings,
    /// How `/invocations` chooses formats.
    pub options: Arc<Options>,
    /// The model that answers `/invocations`; `None` for the only model.
    pub default_model: Option<Arc<str>>,
    /// Without a default model, is the first ready model by name the default?
    pub first_of_several: bool,
    /// Counts invocations; `None` where the lines of metrics are off.
    pub recorder: Option<Recorder>,
    /// The sessions of `/invocations`, shared by all ports; `None` where they are off.
    pub sessions: Option<Arc<SessionTable>>,
    /// Are WebSockets accepted?
    pub websocket: bool,
    /// Processors of this machine.
    pub cpus: NonZeroUsize,
    /// The local SageMaker runtime; `None` where it is off.
    pub facade: Option<Arc<Facade>>,
    /// The ports of TensorFlow Serving's REST and gRPC, for scripts that ask those; `None` where none is plain.
    pub model_ports: [Option<u16>; 2],
}

/// What handlers of the platform's addresses need: what all handlers do, and what holds at these addresses.
#[derive(Clone, Copy)]
pub struct Hosting<'a> {
    /// What all handlers need.
    pub http: &'a Service,
    /// What holds at these addresses.
    pub sagemaker: &'a SageMaker,
}

impl Deref for Hosting<'_> {
    type Target = SageMaker;

    fn deref(&self) -> &SageMaker {
        self.sagemaker
    }
}

impl Hosting<'_> {
    /// Why `/ping` is not answered with 200; `None` when it is. One failed model among several does not count, unless
    /// it is the default one.
    pub fn ping_fails(&self) -> Option<String> {
        if !self.http.serving.drain.is_serving() {
            return Some("the server is shutting down".to_owned());
        }
        // Models of a multi-model endpoint come and go. The platform must be able to send requests without any.
        if self.http.serving.control.multi_model().is_ok() || self.answers.ping == PingMode::Live {
            return None;
        }
        if !self.http.serving.models.is_started() {
            return Some("models are still loading".to_owned());
        }
        let models = &self.http.serving.models;
        match self.default_model().or_else(|| self.behind_a_script(&models.names())) {
            Some(name) => {
                let answers = models.get(&name, None).and_then(|it| match script_of(&it) {
                    Some(script) => models.get(script, None),
                    None => Ok(it),
                });
                answers.err().map(|it| it.to_string())
            }
            None if self.http.serving.models.ready_names().is_empty() => {
                Some("no model is ready".to_owned())
            }
            None => None,
        }
    }

    /// The model that answers `/invocations`: the one that the target header names, if it exists; else the default
    /// model; else the only model. `version` is the wanted one.
    pub async fn invoked(
        &self,
        headers: &HeaderMap,
        version: Option<u64>,
    ) -> Result<Arc<ServedModel>, Error> {
        if self.http.serving.control.multi_model().is_ok() {
            return self
                .http
                .serving
                .control
                .multi_model()?
                .labelled_or_only(text(headers, &TARGET_MODEL), version);
        }
        let deadline = || self.http.deadline(headers);
        if let Some(target) = text(headers, &TARGET_MODEL) {
            match self.http.serving.model(target, version, deadline).await {
                // Other platforms use the header for other names.
                Err(Error::NotFound(_)) => {}
                // A named model that exists but cannot answer is not replaced by another.
                outcome => return self.through_script(outcome?, headers).await,
            }
        }
        let name = self.default_model().map_or_else(|| self.only_model(headers), Ok)?;
        let model = self.http.serving.model(&name, version, deadline).await?;
        self.through_script(model, headers).await
    }

    /// The script that stands around that model; the model itself, where none does.
    pub async fn through_script(
        &self,
        model: Arc<ServedModel>,
        headers: &HeaderMap,
    ) -> Result<Arc<ServedModel>, Error> {
        match script_of(&model) {
            None => Ok(model),
            Some(script) => {
                let deadline = || self.http.deadline(headers);
                self.http.serving.model(script, None, deadline).await
            }
        }
    }

    /// The name of the only model, or of the first that lies behind a script.
    fn only_model(&self, headers: &HeaderMap) -> Result<Arc<str>, Error> {
        match self.http.serving.models.names().as_slice() {
            [only] => Ok(only.clone()),
            [] => Err(Error::Unavailable("there is no model to invoke".to_owned())),
            several => self.behind_a_script(several).ok_or_else(|| {
                Error::InvalidRequest(which_one(text(headers, &TARGET_MODEL), several))
            }),
        }
    }

    /// The first of these models that lies behind a script.
    fn behind_a_script(&self, names: &[Arc<str>]) -> Option<Arc<str>> {
        let models = &self.http.serving.models;
        let is_behind =
            |it: &&Arc<str>| models.get(it, None).is_ok_and(|it| script_of(&it).is_some());
        names.iter().find(is_behind).cloned()
    }

    /// The name of the model that the script of that name stands around.
    fn asked_by(&self, script: &str) -> Option<Arc<str>> {
        let script = self.http.serving.models.get(script, None).ok()?;
        script.config.parameters.get(AROUND).map(|it| it.as_str().into())
    }

    /// The name of the model for requests that name none; `None` for the only model.
    fn default_model(&self) -> Option<Arc<str>> {
        match &self.default_model {
            Some(name) => Some(name.clone()),
            None if self.first_of_several => {
                let models = &self.http.serving.models;
                // Where no model is ready, the error of the first one says why.
                let first = models.first_ready().or_else(|| models.names().into_iter().next());
                first.map(|name| self.asked_by(&name).unwrap_or(name))
            }
            None => None,
        }
    }
}

/// The name of the script through which requests reach that model.
fn script_of(model: &Arc<ServedModel>) -> Option<&str> {
    model.config.parameters.get(BEHIND).map(String::as_str)
}

/// Asks for the name of one of these models, where the one that was `given` is the name of none.
fn which_one(given: Option<&str>, models: &[Arc<str>]) -> String {
    let models = models.join(", ");
    match given {
        Some(name) => {
            let name: String = name.chars().take(LONGEST_SHOWN).collect();
            format!(
                "there is no model '{name}' as X-Amzn-SageMaker-Target-Model says, and several others ({models}); \
                 name one of these, or start with --sagemaker-default-model"
            )
        }
        None => format!(
            "there are several models ({models}); name one in X-Amzn-SageMaker-Target-Model, or start with \
             --sagemaker-default-model"
        ),
    }
}

/// Characters of a client's own name for a model that are repeated to it.
const LONGEST_SHOWN: usize = 100;
