//! What clients see and change of a running server, the same for every wire: they load and unload models, change the
//! settings of traces and of the log, and register regions of shared memory. What may block runs on a thread of its
//! own, not on an I/O thread.

use std::{collections::BTreeMap, sync::Arc};

use super::offload::offload;
use crate::{memory::Region, serving::Serving};
use ::serving::{IndexEntry, LoadOverride, ServedModel, State};
use inference::{error::Error, limits::Permit, messages, trace::TraceSettings};
use telemetry::logging::{LogChangeError, LogValue};

/// The models of the repositories. With `only_ready`, only those that serve.
///
/// # Errors
/// [`Error::Internal`] when the system refuses a thread.
pub async fn index(serving: &Serving, only_ready: bool) -> Result<Vec<IndexEntry>, Error> {
    let control = serving.control.clone();
    let mut entries = serving.control_threads.run(move || control.index()).await?;
    entries.retain(|it| !only_ready || it.state == State::Ready);
    Ok(entries)
}

/// The state of a model in the index. A model that was never loaded has a name and no state.
pub fn state_name(entry: &IndexEntry) -> Option<&'static str> {
    Some(entry.state.name()).filter(|_| entry.state != State::Unknown)
}

/// Loads a model, and answers once it serves. `given` is read on the thread that loads. `held` is the permit for what
/// came with the request; it ends with the load. A client that leaves does not stop a load that has begun.
///
/// # Errors
/// Those of `given`, and why the model does not load.
pub async fn load(
    serving: &Serving,
    name: String,
    held: Permit,
    given: impl FnOnce() -> Result<LoadOverride, Error> + Send + 'static,
) -> Result<(), Error> {
    let control = serving.control.clone();
    let load = move || {
        let _held = held;
        control.load(&name, given()?)
    };
    serving.control_threads.run(load).await?
}

/// Unloads a model. With `dependents`, the models that it is made of are unloaded as well.
///
/// # Errors
/// Why it cannot be unloaded.
pub async fn unload(serving: &Serving, name: String, dependents: bool) -> Result<(), Error> {
    let control = serving.control.clone();
    serving.control_threads.run(move || control.unload(&name, dependents)).await?
}

/// The models that statistics are asked of: the named version, every version of a model that serves, or all.
///
/// # Errors
/// [`Error::InvalidRequest`] for a model or version that does not serve: as in Triton it is a mistake in the request.
pub fn counted_models(
    serving: &Serving,
    name: Option<&str>,
    version: Option<u64>,
) -> Result<Vec<Arc<ServedModel>>, Error> {
    let models = &serving.models;
    // A version may have been unloaded since it was listed.
    let of = |name: &str| -> Vec<Arc<ServedModel>> {
        let versions = models.ready_versions(name).into_iter();
        versions.filter_map(|it| models.get(name, Some(it)).ok()).collect()
    };
    let Some(name) = name else {
        return Ok(models.ready_names().iter().flat_map(|it| of(it)).collect());
    };
    let all = if version.is_none() { of(name) } else { Vec::new() };
    if !all.is_empty() {
        return Ok(all);
    }
    let refused = |error: Error| {
        Error::InvalidRequest(format!("{}: {error}", messages::version_not_available(name)))
    };
    Ok(vec![models.get(name, version).map_err(refused)?])
}

/// The model that settings of traces are for.
pub struct TracedModel<'a> {
    /// Its name.
    pub name: &'a str,
    /// The version that the address names, if it does.
    pub version: Option<u64>,
}

/// Changes the trace settings of one model or of all, and answers with the settings that hold then. An empty change
/// changes nothing. The model need not be ready, and is not loaded for this.
///
/// # Errors
/// [`Error::NotFound`] for an unknown model; [`Error::InvalidRequest`] and [`Error::Unimplemented`] for settings that
/// cannot be made. On an error no setting changes.
pub async fn trace_settings(
    serving: &Serving,
    model: Option<TracedModel<'_>>,
    changes: BTreeMap<String, Option<Vec<String>>>,
) -> Result<TraceSettings, Error> {
    if let Some(TracedModel { name, version }) = &model {
        match serving.models.get(name, *version) {
            Ok(_) | Err(Error::ModelNotReady { .. }) => {}
            Err(Error::NotFound(reason)) => {
                let unknown = messages::no_traced_model(name);
                return Err(Error::NotFound(format!("{unknown}: {reason}")));
            }
            Err(error) => return Err(error),
        }
    }
    let model = model.map(|it| it.name.to_owned());
    let tracing = serving.tracing.clone();
    match changes.is_empty() {
        true => Ok(tracing.settings(model.as_deref())),
        // A change may close a file.
        false => offload(move || tracing.update(model.as_deref(), changes)).await?,
    }
}

/// Changes settings of the log, and answers with the settings that hold then.
///
/// # Errors
/// [`Error::InvalidRequest`] for an unknown setting or value, [`Error::Unimplemented`] for one that cannot be
/// changed. On an error no setting changes.
pub async fn log_settings(
    serving: &Serving,
    changes: Vec<(String, LogValue)>,
) -> Result<Vec<(&'static str, LogValue)>, Error> {
    if !changes.is_empty() {
        let log = serving.log.clone();
        let changed = offload(move || log.update(&changes)).await?;
        changed.map_err(|error| match error {
            LogChangeError::Invalid(text) => Error::InvalidRequest(text),
            LogChangeError::Fixed(text) => Error::Unimplemented(text),
        })?;
    }
    Ok(serving.log.settings())
}

/// The regions of system shared memory: the one of that name, or all.
///
/// # Errors
/// [`Error::NotFound`] for an unknown name.
pub fn regions(serving: &Serving, name: Option<&str>) -> Result<Vec<Region>, Error> {
    serving.memory.status(name)
}

/// Registers a region of system shared memory.
///
/// # Errors
/// Why it cannot be used.
pub async fn register_region(serving: &Serving, region: Region) -> Result<(), Error> {
    let memory = serving.memory.clone();
    offload(move || memory.register(region)).await?
}

/// Unregisters one region, or all of them. An unknown name is no error.
///
/// # Errors
/// [`Error::Unimplemented`] where clients may register nothing.
pub fn unregister_region(serving: &Serving, name: Option<&str>) -> Result<(), Error> {
    serving.memory.unregister(name)
}

/// The same for regions of CUDA memory, all of which are unknown.
///
/// # Errors
/// As of [`unregister_region`].
pub fn unregister_cuda_region(serving: &Serving) -> Result<(), Error> {
    serving.memory.unregister_cuda()
}

/// The regions of CUDA memory: there are none.
///
/// # Errors
/// [`Error::NotFound`] for any name.
pub fn cuda_regions(name: Option<&str>) -> Result<(), Error> {
    let Some(name) = name else { return Ok(()) };
    let shown: String = name.chars().take(128).collect();
    Err(Error::NotFound(format!("there is no CUDA shared memory region '{shown}'")))
}

/// Registers CUDA memory, which this server does not map.
///
/// # Errors
/// Always: [`Error::Unimplemented`], or [`Error::InvalidRequest`] for a handle that is malformed.
pub fn register_cuda_region(serving: &Serving, name: &str, handle: &[u8]) -> Result<(), Error> {
    serving.memory.register_cuda(name, handle)
}
