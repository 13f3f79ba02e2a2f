//! Control over the models of a server: made of its parts, and asked by its front ends.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use backend::MODEL_STACK;

use crate::{
    lifecycle::{
        converge::Converger,
        eviction::Eviction,
        find::Finder,
        load_override::ReadOverride,
        load_slots::LoadSlots,
        members::MemberWaits,
        model_table::ModelTable,
        multi_model::{endpoint::MultiModel, keys::Keys},
        named_models::NamedModels,
        on_demand::OnDemand,
        publish::Publisher,
        reaper::Reaper,
    },
    load::loader::Loader,
    repository::catalogue::{Catalogue, WantedModels},
    settings::control::{ControlMode, ModelControl},
};
use inference::{error::Error, messages};
use serving::{
    LoadOverride,
    config::raw,
    lock::lock,
    manager::ModelManager,
    model_id::ModelId,
    state::{IndexEntry, Reason, State},
};
use textproto::tensorflow::raw::ModelServerConfig;

/// Loads and unloads models.
pub struct Control {
    pub(super) settings: ModelControl,
    pub(super) converger: Arc<Converger>,
    pub(super) named_models: NamedModels,
    /// There only where requests load models.
    pub(super) on_demand: Option<OnDemand>,
    /// There only where a platform loads models under keys.
    pub(super) multi_model: Option<MultiModel>,
    /// Held by a comparison of the models with what they should be: those that are named are replaced as a whole.
    pub(super) comparing: Arc<Mutex<()>>,
}

impl Control {
    /// Control over the models of a catalogue, which the manager is to look up.
    pub fn new(
        settings: ModelControl,
        loader: Arc<Loader>,
        manager: Arc<ModelManager>,
        catalogue: Catalogue,
    ) -> Control {
        let catalogue = Arc::new(catalogue.with_engines(loader.descriptions.clone()));
        let table = Arc::new(ModelTable::default());
        let reaper = Reaper::new(loader.clone(), manager.clone());
        let publisher = Arc::new(Publisher::new(manager.clone(), reaper));
        let eviction = settings.on_demand.map(|it| {
            let (table, manager, publisher) = (table.clone(), manager.clone(), publisher.clone());
            Arc::new(Eviction::new(it.budget, table, manager, publisher))
        });
        // Memory can be measured only while one model at a time takes some.
        let measures = eviction.as_ref().is_some_and(|it| it.has_budget());
        let keys = settings.multi_model.clone().map(|it| Arc::new(Keys::new(it)));
        let converger = Arc::new(Converger {
            finder: Finder::new(catalogue.clone(), keys.clone()),
            load_slots: LoadSlots::new(if measures { 1 } else { loader.threads().get() }),
            member_waits: MemberWaits::default(),
            retries: settings.retries,
            eviction: eviction.clone(),
            loader,
            manager,
            catalogue,
            table,
            publisher,
        });
        let comparing = Arc::new(Mutex::new(()));
        Control {
            named_models: NamedModels::new(converger.clone(), settings.labels, comparing.clone()),
            on_demand: eviction.map(|it| OnDemand::new(converger.clone(), it)),
            multi_model: keys.map(|it| MultiModel::new(it, converger.clone())),
            settings,
            converger,
            comparing,
        }
    }

    /// The models that are named one by one.
    pub fn named_models(&self) -> &NamedModels {
        &self.named_models
    }

    /// Models that are loaded from now on are planned for so many processors.
    pub fn set_cpus(&self, cpus: NonZeroUsize) {
        self.converger.loader.set_cpus(cpus);
    }

    /// Brings the models that serve to the number of processors that was set last: those of which the server has chosen
    /// instances or threads. Requests go on meanwhile. Blocking.
    pub fn adapt_to_cpus(&self) {
        let _comparing = lock(&self.comparing);
        self.converger.adapt_all();
    }

    /// Memory is scarce: gives back what models and engines keep for later runs. What instances keep goes with the next
    /// run of each. Blocking, some 10 ms for each engine.
    pub fn trim_memory(&self) {
        self.converger.manager.trim_memory();
        self.converger.loader.give_back_memory();
    }

    /// To be called every few seconds: gives back what instances at rest keep, and looks whether runs of clients take
    /// as long as runs at load did. Blocking, some 10 ms for each that does.
    pub fn rest(&self) {
        self.converger.manager.rest(Instant::now());
        let loader = &self.converger.loader;
        self.converger.manager.for_each(|it| loader.reconsider_place(it));
    }

    /// The models that are being loaded at the start, or after a look at the repository, and for how long.
    pub fn loading(&self) -> Vec<(ModelId, Duration)> {
        self.converger.table.loading()
    }

    /// Stops all models: what is queued is still run. Waits for their threads; blocking.
    ///
    /// Returns the number of threads that were still running after `patience`.
    pub fn close(&self, patience: Duration) -> usize {
        let until = Instant::now() + patience;
        let running = self.converger.manager.close(patience);
        self.converger.publisher.reaper.wait(until.saturating_duration_since(Instant::now()));
        running
    }

    fn must_be_explicit(&self) -> Result<(), Error> {
        let mode = match self.settings.mode {
            ControlMode::Explicit(_) => return Ok(()),
            ControlMode::None => "none",
            ControlMode::Poll(_) => "poll",
        };
        Err(Error::Unavailable(format!(
            "{}: the control mode here is {mode}, and models are loaded and unloaded by request only with \
             --model-control-mode=explicit",
            messages::EXPLICIT_CONTROL_ONLY
        )))
    }
}

impl serving::Control for Control {
    fn on_demand(&self) -> Option<&dyn serving::OnDemand> {
        self.on_demand.as_ref().map(|it| it as _)
    }

    fn multi_model(&self) -> Result<&dyn serving::MultiModel, Error> {
        self.multi_model.as_ref().map(|it| it as _).ok_or_else(|| {
            Error::NotFound(
                "this is no multi-model endpoint: /models is there only with --sagemaker-multi-model=true \
                 (SAGEMAKER_MULTI_MODEL)"
                    .to_owned(),
            )
        })
    }

    fn load(&self, name: &str, given: LoadOverride) -> Result<(), Error> {
        self.must_be_explicit()?;
        check_name_to_load(name)?;
        let loader = &self.converger.loader;
        let is_forbidden = Cell::new(false);
        let check = |raw: &raw::ModelConfig| {
            loader.check_brought(raw).inspect_err(|_| is_forbidden.set(true))
        };
        let given = ReadOverride::read(name, given, &loader.reader, &self.settings.scratch, check);
        let given = given.map_err(|error| match error {
            Error::InvalidRequest(problem) => {
                let text = format!("{}: {problem}", messages::poll_failed(name));
                match is_forbidden.get() {
                    // No further attempt would change it.
                    true => Error::InvalidRequest(text),
                    // Triton's status of whatever it cannot poll.
                    false => Error::Repository(text),
                }
            }
            other => other,
        })?;
        on_load_thread(name, || self.converger.load_by_request(name, given))?
    }

    fn configure(&self, config: &ModelServerConfig) -> Result<(), Error> {
        self.named_models.reload(config)
    }

    fn unload(&self, name: &str, dependents: bool) -> Result<(), Error> {
        self.must_be_explicit()?;
        check_name(name)?;
        self.converger.unload_by_request(name, dependents);
        Ok(())
    }

    fn index(&self) -> Vec<IndexEntry> {
        let manager = &self.converger.manager;
        if !self.settings.is_explicit() {
            return manager.shown_index();
        }
        let mut refused = BTreeMap::new();
        match self.converger.catalogue.look(WantedModels::These(&[])) {
            Ok(found) => {
                let there: BTreeSet<ModelId> =
                    found.models.into_keys().chain(found.remote).collect();
                manager.know_only(&there);
                refused = found.refused;
            }
            Err(error) => tracing::warn!(%error, "cannot look for models"),
        }
        let mut index = manager.shown_index();
        refused.retain(|id, _| !index.iter().any(|it| it.name == id.name));
        index.extend(refused.into_iter().map(|(id, reason)| IndexEntry {
            name: id.name,
            version: None,
            state: State::Unavailable,
            reason: Reason::from(reason.as_str()),
        }));
        index.sort_by(|one, other| one.name.cmp(&other.name));
        index
    }
}

/// Runs `work` on a thread with the stack that engines need, and waits for it. Blocking.
fn on_load_thread<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
    let lost = |what: String| Error::Internal(format!("cannot load model '{name}': {what}"));
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("load".to_owned()).stack_size(MODEL_STACK);
        let thread = builder.spawn_scoped(scope, work).map_err(|it| lost(it.to_string()))?;
        thread.join().map_err(|_| lost("its thread has panicked".to_owned()))
    })
}

/// What can be the name of a directory in a repository, and of a model to be loaded: in Triton's words where Triton
/// refuses it, for which spaces around a name do not count.
fn check_name_to_load(name: &str) -> Result<(), Error> {
    let trimmed = name.trim_matches(|it: char| it.is_ascii_whitespace() || it == '\u{b}');
    if trimmed.is_empty() {
        return Err(Error::InvalidRequest(messages::NO_MODEL_NAME.to_owned()));
    }
    if trimmed == ".." || trimmed.contains('/') {
        let shown: String = name.chars().take(100).collect();
        let shown = shown.escape_debug().to_string();
        return Err(Error::InvalidRequest(messages::name_of_a_path(&shown)));
    }
    check_name(name)
}

/// What can be the name of a directory in a repository.
fn check_name(name: &str) -> Result<(), Error> {
    if !name.is_empty() && ![".", ".."].contains(&name) && !name.contains(['/', '\0']) {
        return Ok(());
    }
    let shown: String = name.chars().take(100).collect();
    Err(Error::InvalidRequest(format!(
        "'{}' cannot be the name of a model: expected a name that is not empty, not '..', and without '/'",
        shown.escape_debug()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_empty_or_paths_are_not_loaded_in_tritons_words() {
        let refused = |name| check_name_to_load(name).unwrap_err().to_string();
        for name in ["", " ", "\t", "\n", "\r", "\u{c}", "\u{b}", " \t \n ", " \u{b} "] {
            assert_eq!(refused(name), messages::NO_MODEL_NAME, "{name:?}");
        }
        for name in ["../etc", "a/../b", "model/..", "..", "/etc/passwd", "model/", " ..", ".. "] {
            let expected = "must not contain path traversal characters";
            assert!(refused(name).contains(expected), "{name}");
        }
        assert!(refused(".").contains("cannot be the name of a model"));
        for name in ["model123", "model.version1", "...", "..my_model", "model..1"] {
            assert_eq!(check_name_to_load(name), Ok(()), "{name}");
        }
    }
}
