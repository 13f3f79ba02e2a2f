//! Ensembles: models that are made of other models, whose tensors go from one to the next.
//!
//! `check/ensemble.rs` reads the steps, `plan` compares them with the members, `resolve` finds the
//! members of one request. That members are loaded first is the business of `control`; running is in `infer`.

mod complete;
pub(crate) mod plan;
pub(crate) mod resolve;

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
};

use arc_swap::ArcSwapOption;

pub(super) use crate::ensemble::complete::complete;
use crate::{
    config::{
        model::ModelConfig,
        raw::{ModelConfig as RawConfig, model_config::SchedulingChoice},
    },
    ensemble::resolve::Planned,
    repository::model_id::ModelId,
    serving::manager::ModelManager,
};
use schedule::Semaphore;

/// The platform of ensembles.
const PLATFORM: &str = "ensemble";

/// What a configuration says of an ensemble's steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnsembleConfig {
    /// At least one.
    pub steps: Vec<StepConfig>,
    /// Most requests in one step at the same time; 0 for any number.
    pub max_inflight: usize,
}

/// One step: a model, and what its tensors are called in the ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepConfig {
    /// Name of the member.
    pub model: Arc<str>,
    /// Its version; `None` for the latest.
    pub version: Option<u64>,
    /// An input of the member, and the ensemble's tensor that it gets; each input once.
    pub inputs: Vec<(Arc<str>, Arc<str>)>,
    /// An output of the member, and the ensemble's tensor that it becomes; each output once.
    pub outputs: Vec<(Arc<str>, Arc<str>)>,
}

/// What answers an ensemble's requests.
pub struct Ensemble {
    config: EnsembleConfig,
    /// The ensemble's own inputs and outputs.
    outer: ModelConfig,
    /// The repository that it and its members lie in; empty where names are used once.
    namespace: Arc<str>,
    /// Where its members are. Weak: the manager holds the ensemble.
    manager: Weak<ModelManager>,
    /// One for each step, where the number of requests in it is bounded.
    step_limits: Vec<Semaphore>,
    /// The steps, as compared with the members of the last request.
    planned: ArcSwapOption<Planned>,
}

impl Ensemble {
    /// Over the members that this manager has in that namespace.
    pub(super) fn new(
        config: EnsembleConfig,
        outer: ModelConfig,
        namespace: Arc<str>,
        manager: &Arc<ModelManager>,
    ) -> Ensemble {
        let step_limits = match config.max_inflight {
            0 => Vec::new(),
            most => config.steps.iter().map(|_| Semaphore::new(most)).collect(),
        };
        let manager = Arc::downgrade(manager);
        Ensemble { config, outer, namespace, manager, step_limits, planned: ArcSwapOption::empty() }
    }

    /// Names of the members, each once, in order.
    pub fn members(&self) -> BTreeSet<&str> {
        self.config.steps.iter().map(|it| &*it.model).collect()
    }

    /// Is that model one of them?
    pub(super) fn has_member(&self, id: &ModelId) -> bool {
        self.config.steps.iter().any(|it| self.member(it).means(id))
    }

    fn member(&self, step: &StepConfig) -> ModelId {
        ModelId { name: step.model.clone(), namespace: self.namespace.clone() }
    }

    /// What bounds the requests in that step, if anything does.
    pub fn step_limit(&self, step: usize) -> Option<&Semaphore> {
        self.step_limits.get(step)
    }
}

/// Does the configuration say that it is of an ensemble?
pub(super) fn is_ensemble(raw: Option<&RawConfig>) -> bool {
    raw.is_some_and(|it| it.platform == PLATFORM)
}

/// Names of the models that an ensemble is made of, each once; of any other model, none.
pub(super) fn members(raw: &RawConfig) -> Vec<String> {
    let Some(SchedulingChoice::EnsembleScheduling(given)) = &raw.scheduling_choice else {
        return Vec::new();
    };
    let names: BTreeSet<&String> = given.step.iter().map(|it| &it.model_name).collect();
    names.into_iter().cloned().collect()
}
