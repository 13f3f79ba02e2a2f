//! Loads, unloads and finds the models of a multi-model endpoint.

use serving::{EndpointLoad, EndpointModel};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    lifecycle::{
        converge::{Converger, LoadMode},
        multi_model::{
            keys::{Keys, not_loaded},
            layout::{self, Layout},
            memory_budget::{self, Usage},
        },
    },
    repository::{file_stamps::FileStamps, versions::wanted_versions},
};
use inference::error::Error;
use machine::{anonymous_bytes, available_bytes};
use serving::{lock::lock, model_id::ModelId, served::ServedModel};

/// Longest that an unload waits for the requests of the model. The platform waits ten seconds more.
const LONGEST_UNLOAD: Duration = Duration::from_secs(350);

/// Longest key and label, in bytes.
const LONGEST_NAME: usize = 1024;

/// The models of a multi-model endpoint.
pub struct MultiModel {
    keys: Arc<Keys>,
    converger: Arc<Converger>,
}

impl MultiModel {
    pub(in crate::lifecycle) fn new(keys: Arc<Keys>, converger: Arc<Converger>) -> MultiModel {
        MultiModel { keys, converger }
    }

    fn load_begun(&self, load: EndpointLoad<'_>) -> Result<(), Error> {
        let EndpointLoad { key, url, label } = load;
        let root = &self.keys.settings.root;
        let path = layout::resolve(url, root)?;
        let layout = layout::look(&path, root, key, label, &self.converger.loader)?;
        let needed = memory_budget::needed(self.file_bytes(&layout));
        let usage = || {
            let of_models = self.converger.manager.process_bytes();
            Usage {
                taken: anonymous_bytes().saturating_add(of_models),
                available: available_bytes(),
            }
        };
        self.keys.make_room(key, path, needed, usage)?;
        for model in layout.inner {
            self.converger.converge_found(model, LoadMode::AllOrNothing, false)?;
        }
        self.converger.converge_found(layout.entry, LoadMode::AllOrNothing, false)
    }

    /// Bytes of the files of all versions that are going to be loaded.
    fn file_bytes(&self, layout: &Layout) -> u64 {
        let of_ensemble = layout.others.iter();
        let models = std::iter::once(&layout.entry).chain(of_ensemble);
        let bytes = models.map(|found| {
            let raw = self.converger.loader.read_config(found).ok().flatten();
            let raw = self.converger.catalogue.with_policy(found, raw);
            // What is wrong with it is said when it is loaded.
            let wanted = wanted_versions(raw.as_ref(), found).ok();
            let numbers = wanted.into_iter().flat_map(|it| it.here).map(|(number, _)| number);
            FileStamps::take(found).bytes(numbers)
        });
        bytes.fold(0, u64::saturating_add)
    }

    /// Ends the model of a key, then those that it is made of, and forgets them. Did they end in that time?
    fn end_all_of(&self, key: &str, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let left = || until.saturating_duration_since(Instant::now());
        let entry = ModelId::named(key);
        self.converger.unload_one(&entry);
        // Its requests need its members to the end.
        let mut is_gone = self.converger.publisher.reaper.wait_for(&entry, left());
        let members = self.converger.manager.ids_in(key);
        members.iter().for_each(|it| drop(self.converger.unload_one(it)));
        for id in members.iter().chain([&entry]) {
            is_gone &= self.converger.publisher.reaper.wait_for(id, left());
            self.converger.manager.erase(id);
            self.converger.table.remove(id);
        }
        is_gone
    }
}

impl serving::MultiModel for MultiModel {
    fn load(&self, load: EndpointLoad<'_>) -> Result<EndpointModel, Error> {
        check_name("model_name", load.key)?;
        load.label.map_or(Ok(()), |it| check_name("X-Amzn-SageMaker-Target-Model", it))?;
        let model = EndpointModel {
            key: load.key.into(),
            url: load.url.into(),
            label: load.label.map(Arc::from),
        };
        let mut loading = self.keys.begin(model.clone())?;
        let began = Instant::now();
        let loaded = self.load_begun(load).map_err(|error| match error {
            // It is the request that names the place.
            Error::Repository(text) => Error::InvalidRequest(text),
            error => error,
        });
        let (EndpointLoad { key, url, .. }, target_model) = (load, load.label);
        if let Err(error) = loaded {
            tracing::warn!(model = key, target_model, url, %error, "cannot load the model for the platform");
            self.end_all_of(key, LONGEST_UNLOAD);
            loading.failure.get_or_init(|| error.clone());
            return Err(error);
        }
        let took_ms = began.elapsed().as_millis();
        tracing::info!(model = key, target_model, url, took_ms, "loaded for the platform");
        loading.is_loaded = true;
        Ok(model)
    }

    fn unload(&self, key: &str) -> Result<EndpointModel, Error> {
        let model = self.keys.withdraw(key)?;
        let began = Instant::now();
        let is_gone = self.end_all_of(key, LONGEST_UNLOAD);
        self.keys.end(|table| table.remove(key));
        let (target_model, took_ms) = (model.label.as_deref(), began.elapsed().as_millis());
        tracing::info!(model = key, target_model, took_ms, is_gone, "unloaded for the platform");
        match is_gone {
            true => Ok(model),
            false => Err(Error::Internal(format!(
                "requests of model '{key}' are still running {} seconds after it was unloaded; its memory comes \
                 back when they are answered",
                LONGEST_UNLOAD.as_secs()
            ))),
        }
    }

    fn find(
        &self,
        key: &str,
        version: Option<u64>,
        label: Option<&str>,
    ) -> Result<Arc<ServedModel>, Error> {
        let found = self.converger.manager.without_namespace(key, version);
        let model = found.ok_or_else(|| not_loaded(key))?.map_err(|serving| {
            let given = version.map(|it| format!(" in version {it}")).unwrap_or_default();
            let serving = serving.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            Error::InvalidRequest(format!(
                "model '{key}' does not serve{given}; the versions that do: {serving}"
            ))
        })?;
        if let Some(label) = label.filter(|it| it.len() <= LONGEST_NAME) {
            lock(&self.keys.table).learn(key, label);
        }
        Ok(model)
    }

    fn labelled_or_only(
        &self,
        label: Option<&str>,
        version: Option<u64>,
    ) -> Result<Arc<ServedModel>, Error> {
        let key = {
            let table = lock(&self.keys.table);
            let key =
                label.and_then(|it| table.owner_of_label(it)).map_or_else(|| table.only(), Ok);
            key.map_err(|count| {
                let given = match label {
                    Some(label) => format!("no loaded model is called '{label}'"),
                    None => "the request names no model".to_owned(),
                };
                Error::InvalidRequest(format!(
                    "{given}, and {count} models are loaded: name one in X-Amzn-SageMaker-Target-Model, or ask \
                     /models/<name>/invoke"
                ))
            })?
        };
        self.find(&key, version, None)
    }

    fn get(&self, key: &str) -> Result<EndpointModel, Error> {
        let table = lock(&self.keys.table);
        table.get(key).cloned().ok_or_else(|| not_loaded(key))
    }

    fn list(&self, after: Option<&str>, most: usize) -> Result<(Vec<EndpointModel>, bool), Error> {
        Ok(lock(&self.keys.table).page(after, most))
    }
}

fn check_name(field: &str, name: &str) -> Result<(), Error> {
    if !name.is_empty() && name.len() <= LONGEST_NAME && !name.contains(char::is_control) {
        return Ok(());
    }
    let shown: String = name.chars().take(100).collect();
    Err(Error::InvalidRequest(format!(
        "{field}: expected 1 to {LONGEST_NAME} bytes without control characters, given '{}'",
        shown.escape_debug()
    )))
}
