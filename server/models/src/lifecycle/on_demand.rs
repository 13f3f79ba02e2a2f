//! Models that are loaded when somebody asks for them, and unloaded when others need their memory.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use backend::MODEL_STACK;
use tokio::{sync::oneshot, time::timeout_at};

use crate::{
    lifecycle::{
        control::{Control, SharedRecord},
        converge::LoadMode,
    },
    lock::lock,
    repository::{model_id::ModelId, remote::Copies},
    serving::{manager::Versions, served::ServedModel, state::State},
};
use configuration::OnDemand;
use inference::error::Error;
use machine::bytes_text;

/// A model that could not be loaded is not tried again before then: its clients would keep the server busy with it.
const RETRY: Duration = Duration::from_secs(5);

/// How long the memory of a model that was unloaded to make room is waited for.
const LONGEST_END: Duration = Duration::from_secs(10);

/// How often a request asks for a model that is unloaded again before it finds it.
const ATTEMPTS: usize = 3;

/// The reason of a model that was unloaded so that another could be loaded.
const MADE_ROOM: &str = "unloaded to make room; a request loads it again";

/// The model in its highest version, so that it is in use from the moment that it serves.
type Answer = Result<Arc<ServedModel>, Error>;

/// What requests for models that are not loaded wait for.
pub(super) struct Demand {
    settings: OnDemand,
    began: Instant,
    /// Guards who waits for which model, and which have failed lately.
    state: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    waiting: HashMap<Arc<str>, Vec<oneshot::Sender<Answer>>>,
    failed: HashMap<Arc<str>, (Instant, Error)>,
}

impl Demand {
    pub(super) fn new(settings: OnDemand) -> Demand {
        Demand { settings, began: Instant::now(), state: Mutex::default() }
    }

    pub(super) fn has_budget(&self) -> bool {
        self.settings.budget.is_some()
    }

    /// The time by which models were last asked for.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Control {
    /// Do requests load models?
    pub fn loads_on_demand(&self) -> bool {
        self.demand.is_some()
    }

    /// The model of that name, loaded for the purpose if it is not and models are loaded on demand. `deadline` is
    /// when the answer stops being of use.
    ///
    /// # Errors
    /// Those of [`crate::serving::manager::ModelManager::get`]; [`Error::ModelNotReady`] when the load fails, or takes too
    /// long.
    ///
    /// # Cancel safety
    /// The load goes on for others.
    pub async fn model(
        self: &Arc<Self>,
        name: &str,
        version: Option<u64>,
        deadline: Option<Instant>,
    ) -> Result<Arc<ServedModel>, Error> {
        let mut found = self.manager.get(name, version);
        let Some(demand) = &self.demand else { return found };
        for _ in 0..ATTEMPTS {
            match &found {
                Ok(model) => {
                    model.used.now(demand.now());
                    break;
                }
                Err(_) if self.can_load(name) => {
                    let _in_use = self.wait_for(demand, name, deadline).await?;
                    // It may be gone again already where there is little room.
                    found = self.manager.get(name, version);
                }
                Err(_) => break,
            }
        }
        found
    }

    /// Is the model known, and not loaded only because nobody has asked for it, or lately?
    fn can_load(&self, name: &str) -> bool {
        let states = self.manager.states(name);
        let serves = states.iter().any(|it| it.state == State::Ready);
        !states.is_empty() && !serves && !self.is_withheld(name)
    }

    fn is_withheld(&self, name: &str) -> bool {
        let records: Vec<_> = {
            let records = lock(&self.records);
            let of_name = |(id, _): &(&ModelId, &SharedRecord)| &*id.name == name;
            let of_name = records.range(ModelId::named(name)..).take_while(of_name);
            of_name.map(|(_, it)| it.clone()).collect()
        };
        // One that is being loaded is not withheld.
        records.iter().any(|it| it.try_lock().is_ok_and(|record| record.withheld))
    }

    async fn wait_for(
        self: &Arc<Self>,
        demand: &Demand,
        name: &str,
        deadline: Option<Instant>,
    ) -> Answer {
        let receiver = self.ask(demand, name)?;
        let lost = |_| Error::Internal(format!("the load of model '{name}' was lost"));
        match deadline {
            None => receiver.await.map_err(lost)?,
            Some(deadline) => match timeout_at(deadline.into(), receiver).await {
                Ok(answer) => answer.map_err(lost)?,
                Err(_) => Err(Error::ModelNotReady {
                    model: name.to_owned(),
                    version: "any".to_owned(),
                    reason: "it is still loading, and the request's deadline has passed".to_owned(),
                }),
            },
        }
    }

    /// Waits in line for a load of that model; the first in line has it started.
    fn ask(
        self: &Arc<Self>,
        demand: &Demand,
        name: &str,
    ) -> Result<oneshot::Receiver<Answer>, Error> {
        let name: Arc<str> = name.into();
        let (sender, receiver) = oneshot::channel();
        let mut state = lock(&demand.state);
        if let Some((at, error)) = state.failed.get(&name)
            && at.elapsed() < RETRY
        {
            return Err(error.clone());
        }
        state.failed.remove(&name);
        let waiting = state.waiting.entry(name.clone()).or_default();
        waiting.push(sender);
        if 1 < waiting.len() {
            return Ok(receiver);
        }
        let control = self.clone();
        let builder = thread::Builder::new().name("load-demand".to_owned()).stack_size(MODEL_STACK);
        let started = name.clone();
        if let Err(error) = builder.spawn(move || control.load_for_waiting(&started)) {
            state.waiting.remove(&name);
            return Err(Error::Unavailable(format!(
                "no thread to load model '{name}' on: {error}"
            )));
        }
        Ok(receiver)
    }

    fn load_for_waiting(&self, name: &Arc<str>) {
        let Some(demand) = &self.demand else { return };
        let loaded = self
            .find(name, Copies::OrLast)
            .and_then(|found| self.converge_found(found, LoadMode::BestEffort, false));
        let answer = loaded.and_then(|()| self.manager.get(name, None)).map_err(|error| {
            Error::ModelNotReady {
                model: name.to_string(),
                version: "any".to_owned(),
                reason: error.to_string(),
            }
        });
        let mut state = lock(&demand.state);
        if let Err(error) = &answer {
            state.failed.insert(name.clone(), (Instant::now(), error.clone()));
        }
        let waiting = state.waiting.remove(name).unwrap_or_default();
        drop(state);
        for sender in waiting {
            // Whoever has left needs no answer.
            let _ = sender.send(answer.clone());
        }
    }

    /// Unloads models until so many bytes fit into the budget beside the others, those first that were not asked
    /// for the longest. Blocking.
    ///
    /// # Errors
    /// When it would not fit if all that could be unloaded were.
    pub(super) fn make_room(&self, id: &ModelId, bytes: u64) -> Result<(), String> {
        let Some(budget) = self.demand.as_ref().and_then(|it| it.settings.budget) else {
            return Ok(());
        };
        let shown = bytes_text(budget);
        let needs = bytes_text(bytes);
        if budget < bytes {
            return Err(format!("it needs {needs}, more than --model-memory-budget {shown}"));
        }
        loop {
            let others = self.loaded_but(id);
            let taken: u64 = others.iter().map(|(_, it)| bytes_of(it)).sum();
            if taken.saturating_add(bytes) <= budget {
                return Ok(());
            }
            if !self.unload_oldest(others) {
                return Err(format!(
                    "there is no room for its {needs}: the models that are loaded take {} of \
                     --model-memory-budget {shown}, and all of them are in use",
                    bytes_text(taken)
                ));
            }
        }
    }

    fn loaded_but(&self, id: &ModelId) -> Vec<(ModelId, Arc<Versions>)> {
        let ids: Vec<ModelId> =
            lock(&self.records).keys().filter(|it| *it != id).cloned().collect();
        let serving = ids.into_iter().map(|it| (self.manager.serving(&it), it));
        serving.filter(|(it, _)| !it.is_empty()).map(|(it, id)| (id, it)).collect()
    }

    /// Unloads the one that was not asked for the longest, of those that nobody uses; false where there is none.
    fn unload_oldest(&self, loaded: Vec<(ModelId, Arc<Versions>)>) -> bool {
        let last_use = |it: &Versions| it.values().map(|it| it.used.get()).max();
        let mut loaded = loaded;
        loaded.sort_by_key(|(_, it)| last_use(it));
        for (id, versions) in loaded {
            let is_used = versions
                .values()
                .any(|it| !ServedModel::is_free(it) || it.dispatch.queue().has_open_sequences());
            drop(versions);
            if is_used || self.needs(&id, &id).is_some() {
                continue;
            }
            let shared = self.record(&id);
            // One that is just being loaded again is in use.
            let Ok(mut record) = shared.try_lock() else { continue };
            tracing::info!(model = %id, "unloaded to make room");
            record.loaded = None;
            self.switch(&id, Versions::new(), MADE_ROOM);
            lock(&self.links).remove(&id);
            drop(record);
            self.reaper.wait_for(&id, LONGEST_END);
            return true;
        }
        false
    }
}

fn bytes_of(versions: &Versions) -> u64 {
    versions.values().map(|it| it.bytes).sum()
}
