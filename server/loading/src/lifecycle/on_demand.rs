//! Models that are loaded when a request asks for them.

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
        converge::{Converger, LoadMode},
        eviction::Eviction,
    },
    repository::remote::Copies,
};
use inference::error::Error;
use serving::{
    control::Finding, lock::lock, manager::ModelManager, served::ServedModel, state::State,
};

/// A model that could not be loaded is not tried again before then: its clients would keep the server busy with it.
const RETRY: Duration = Duration::from_secs(5);

/// How often a request asks for a model that is unloaded again before it finds it.
const ATTEMPTS: usize = 3;

/// The model in its highest version, so that it is in use from the moment that it serves.
type Answer = Result<Arc<ServedModel>, Error>;

/// Loads models for the requests that ask for them.
pub struct OnDemand(Arc<Loads>);

/// The loads of models that were asked for.
struct Loads {
    converger: Arc<Converger>,
    /// Has the time by which models were last asked for.
    eviction: Arc<Eviction>,
    /// Guards which requests wait for which model, and which models have failed lately.
    state: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    waiting: HashMap<Arc<str>, Vec<oneshot::Sender<Answer>>>,
    failed: HashMap<Arc<str>, (Instant, Error)>,
}

impl OnDemand {
    pub(super) fn new(converger: Arc<Converger>, eviction: Arc<Eviction>) -> OnDemand {
        OnDemand(Arc::new(Loads { converger, eviction, state: Mutex::default() }))
    }
}

impl Loads {
    /// Is the model known, and not loaded only because no request has asked for it, or none lately?
    fn can_load(&self, name: &str) -> bool {
        let states = self.manager().states(name);
        let serves = states.iter().any(|it| it.state == State::Ready);
        !states.is_empty() && !serves && !self.converger.table.is_withheld(name)
    }

    async fn wait_for(self: &Arc<Self>, name: &str, deadline: Option<Instant>) -> Answer {
        let receiver = self.ask(name)?;
        let lost = |_| Error::Internal(format!("the load of model '{name}' was lost"));
        match deadline {
            None => receiver.await.map_err(lost)?,
            Some(deadline) => match timeout_at(deadline.into(), receiver).await {
                Ok(answer) => answer.map_err(lost)?,
                Err(_) => Err(Error::ModelNotReady {
                    model: name.to_owned(),
                    version: None,
                    reason: "it is still loading, and the request's deadline has passed".to_owned(),
                }),
            },
        }
    }

    /// Waits in line for a load of that model; the first in line has it started.
    fn ask(self: &Arc<Self>, name: &str) -> Result<oneshot::Receiver<Answer>, Error> {
        let name: Arc<str> = name.into();
        let (sender, receiver) = oneshot::channel();
        let mut state = lock(&self.state);
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
        let this = self.clone();
        let builder = thread::Builder::new().name("load-demand".to_owned()).stack_size(MODEL_STACK);
        let started = name.clone();
        if let Err(error) = builder.spawn(move || this.load_for_waiting(&started)) {
            state.waiting.remove(&name);
            return Err(Error::Unavailable(format!(
                "no thread to load model '{name}' on: {error}"
            )));
        }
        Ok(receiver)
    }

    fn load_for_waiting(&self, name: &Arc<str>) {
        let found = self.converger.finder.find(name, Copies::OrLast);
        let loaded = found
            .and_then(|found| self.converger.converge_found(found, LoadMode::BestEffort, false));
        let answer = loaded.and_then(|()| self.manager().get(name, None)).map_err(|error| {
            Error::ModelNotReady {
                model: name.to_string(),
                version: None,
                reason: error.to_string(),
            }
        });
        let mut state = lock(&self.state);
        if let Err(error) = &answer {
            state.failed.insert(name.clone(), (Instant::now(), error.clone()));
        }
        let waiting = state.waiting.remove(name).unwrap_or_default();
        drop(state);
        for sender in waiting {
            // A request that was given up needs no answer.
            let _ = sender.send(answer.clone());
        }
    }

    fn manager(&self) -> &ModelManager {
        &self.converger.manager
    }
}

impl serving::OnDemand for OnDemand {
    fn model<'a>(
        &'a self,
        name: &'a str,
        version: Option<u64>,
        deadline: Option<Instant>,
    ) -> Finding<'a> {
        let OnDemand(loads) = self;
        Box::pin(async move {
            let mut found = loads.manager().get(name, version);
            for _ in 0..ATTEMPTS {
                match &found {
                    Ok(model) => {
                        model.used.now(loads.eviction.now());
                        break;
                    }
                    Err(_) if loads.can_load(name) => {
                        let _in_use = loads.wait_for(name, deadline).await?;
                        // It may be gone again already where there is little room.
                        found = loads.manager().get(name, version);
                    }
                    Err(_) => break,
                }
            }
            found
        })
    }
}
