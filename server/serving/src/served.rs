//! A model version that serves: everything that its requests need, in one place.

use std::{
    hash::RandomState,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::SystemTime,
};

use backend::{BackendError, HeldDir, Model, ModelSource, Processes};
use bytes::Bytes;

use crate::{
    config::{
        model::{ModelConfig, Scheduling},
        raw,
    },
    content_hash::ContentHash,
    ensemble::{path::Path, plan::Plan, turns::Turns},
    model_id::ModelId,
    own_readiness::OwnReadiness,
    pipeline::open::ServedPipeline,
    run_room::RunRoom,
};
use inference::{
    error::Error,
    request::SequenceId,
    signature::{MERGING, Signature},
};
use schedule::{
    RequestQueue, Scheduler, Semaphore,
    sequence::{SEQUENCES_LOST, SequenceScheduler},
    work::Work,
};
use telemetry::metrics::{FailureReason, ModelMetrics};

/// One loaded version of a model. It can be used for as long as it is held, also after it has been replaced.
pub struct ServedModel {
    /// What clients see.
    pub signature: Arc<Signature>,
    /// What people call it: its name, unless that is a key.
    pub shown_name: Arc<str>,
    /// The completed configuration.
    pub config: ModelConfig,
    /// Those of its signatures beside the default one, in their order.
    pub others: Vec<ModelConfig>,
    /// The same as JSON, as clients ask for it.
    pub config_json: Bytes,
    /// The same as a message.
    pub config_message: raw::ModelConfig,
    /// Of shapes by which its requests share runs.
    pub shape_hashes: RandomState,
    /// What is taken of the budget before a run.
    pub run_room: RunRoom,
    /// What stands around its graph, where it takes texts.
    pub pipeline: Option<Arc<ServedPipeline>>,
    /// Where its requests go.
    pub dispatch: Dispatch,
    /// Is each request of a run answered by itself, by the model's own code?
    pub answers_calls: bool,
    /// Does each request bring a place for the parts of its answer?
    pub streams: bool,
    /// May there be none of them, or many? Whoever takes one answer only refuses such a model.
    pub is_decoupled: bool,
    /// What its engine has loaded; `None` where there is no engine.
    pub model: Option<Arc<dyn Model>>,
    /// What its own code says of whether it can serve.
    pub own_readiness: OwnReadiness,
    /// The processes that it runs in, where that is not this one.
    pub processes: Processes,
    /// What it was loaded from, where its engine has decided by runs at load that it runs in this process.
    pub decided: Option<Arc<ModelSource>>,
    /// Its counters.
    pub metrics: ModelMetrics,
    /// What distinguishes its answers from those of any other model, also of the same name and version.
    pub content_hash: ContentHash,
    /// Has it answered a request of zeros when it was loaded?
    pub answers_zeros: bool,
    /// When it was loaded.
    pub loaded: SystemTime,
    /// What its instances and threads were planned by.
    pub planned: Planned,
    /// When it was last asked for.
    pub used: LastUsed,
    /// Memory that its load took, as far as it was measured; 0 where there is no budget for it.
    pub bytes: u64,
    /// Files that are only this model's, and go with it. Last, since instances may read them.
    pub files: Option<Arc<HeldDir>>,
}

/// What decided how a model is run, beside its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// Processors that there were.
    pub cpus: NonZeroUsize,
    /// Does a run leave something behind for the next one?
    pub keeps_state: bool,
}

/// When a model was last asked for, in milliseconds since the server began to count; only where models are
/// unloaded for want of use.
#[derive(Debug, Default)]
pub struct LastUsed(AtomicU64);

impl LastUsed {
    /// It is asked for now. Writes at most once in a millisecond.
    pub fn now(&self, milliseconds: u64) {
        if self.0.load(Relaxed) != milliseconds {
            self.0.store(milliseconds, Relaxed);
        }
    }

    /// When it was asked for last, in milliseconds.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What answers a model's requests. An enum, since a trait object would put the future of every request in a box.
pub enum Dispatch {
    /// Instances of an engine, behind a queue.
    Batches(Arc<Scheduler>),
    /// Instances of an engine, on which sequences of requests have their seats.
    Sequences(SequenceScheduler),
    /// Other models.
    Ensemble(Box<dyn Members>),
}

impl Dispatch {
    /// What is asked of all of them alike.
    pub fn queue(&self) -> &dyn RequestQueue {
        match self {
            Dispatch::Batches(scheduler) => &**scheduler,
            Dispatch::Sequences(scheduler) => scheduler,
            Dispatch::Ensemble(ensemble) => &**ensemble,
        }
    }
}

/// Why an ensemble cannot run: a member that is not there or does not fit, or that has the ensemble among its own
/// members; a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MembersError(pub(crate) String);

/// An ensemble: the models that its requests go through.
pub trait Members: RequestQueue {
    /// The members that serve now, and theirs.
    ///
    /// # Errors
    /// When one is not there, or does not fit, or has the ensemble among its own members; a sentence.
    fn resolve(&self) -> Result<Resolved, MembersError>;

    /// The same for an ensemble that is a member itself, at the end of that path of ensembles.
    ///
    /// # Errors
    /// Those of [`Members::resolve`].
    fn resolve_within(
        &self,
        lookup: &dyn MemberLookup,
        outer: &Path<'_>,
    ) -> Result<Resolved, MembersError>;

    /// Where its requests of sequences stand in line before steps.
    fn turns(&self) -> &Arc<Turns>;

    /// What bounds the requests in that step, if anything does.
    fn step_limit(&self, step: usize) -> Option<&Semaphore>;

    /// Is that model one of its members?
    fn has_member(&self, id: &ModelId) -> bool;

    /// Compares with the members that serve now, and logs what does not fit. For the load of a member.
    fn revalidate(&self);
}

/// Finds members as of one moment.
pub trait MemberLookup {
    /// That model, in that version or in the highest.
    ///
    /// # Errors
    /// Why it does not serve.
    fn find(&self, id: &ModelId, version: Option<u64>) -> Result<Arc<ServedModel>, Error>;
}

/// An ensemble's members and what goes where between them. Holding it keeps the members alive.
pub struct Resolved {
    /// What goes where.
    pub plan: Arc<Plan>,
    /// The model of each step.
    pub members: Vec<Member>,
}

/// The model of one step.
pub struct Member {
    /// The model.
    pub model: Arc<ServedModel>,
    /// Its own members, as of the same moment, where it is an ensemble.
    pub nested: Option<Box<Resolved>>,
}

impl Resolved {
    /// Why one of its members cannot answer, if one cannot.
    fn trouble(&self) -> Option<String> {
        self.members.iter().enumerate().find_map(|(step, member)| {
            let trouble = match &member.nested {
                Some(nested) => nested.trouble(),
                None => member.model.trouble(),
            };
            trouble.map(|it| format!("step[{step}] ('{}'): {it}", member.model.signature.model))
        })
    }
}

impl ServedModel {
    /// The `platform` that metadata show: the configured one, else the engine's name.
    pub fn platform(&self) -> &str {
        if self.config.platform.is_empty() { &self.config.backend } else { &self.config.platform }
    }

    /// The configuration of that one of its signatures.
    pub fn config_of(&self, signature: &Signature) -> &ModelConfig {
        let other = signature.index().checked_sub(1).and_then(|it| self.others.get(it));
        other.unwrap_or(&self.config)
    }

    /// Does a request share a run with no other one, though some signature of the model is merged?
    pub fn runs_alone(&self, face: &Signature, config: &ModelConfig, work: &Work) -> bool {
        let Some(_) = &face.named else { return false };
        // What stands for inputs that are left out need not have as many rows as a run.
        !matches!(config.scheduling, Scheduling::Dynamic(_))
            || work.inputs.len() < face.inputs.len()
    }

    /// The completed configuration as JSON, with what has been found since.
    pub fn shown_json(&self) -> Bytes {
        let Some(note) = self.found_since() else { return self.config_json.clone() };
        match serde_json::from_slice::<serde_json::Value>(&self.config_json) {
            Ok(mut json) => {
                json["parameters"][MERGING] = serde_json::json!({ "string_value": note });
                json.to_string().into()
            }
            Err(_) => self.config_json.clone(),
        }
    }

    /// The same as a message.
    pub fn shown_message(&self) -> raw::ModelConfig {
        let mut message = self.config_message.clone();
        if let Some(string_value) = self.found_since() {
            message.parameters.insert(MERGING.to_owned(), raw::ModelParameter { string_value });
        }
        message
    }

    /// That its rows are not known to be independent, and whether its requests are merged all the same, by what has
    /// been found until now. `None` where nothing speaks against merging.
    pub fn merging(&self) -> Option<String> {
        let of_load = || self.config_message.parameters.get(MERGING);
        self.found_since().or_else(|| of_load().map(|it| it.string_value.clone()))
    }

    /// What merged requests have shown of the model.
    fn found_since(&self) -> Option<String> {
        let Dispatch::Batches(scheduler) = &self.dispatch else { return None };
        let found = scheduler.mismatch()?;
        Some(match scheduler.has_stopped_merging() {
            true => format!("off: {found}"),
            false => format!("on, as dynamic_batching is written in its configuration: {found}"),
        })
    }

    /// Has one of its processes ended for good, so that only a load helps, also where its files are the same?
    pub fn is_to_be_loaded_again(&self) -> bool {
        self.processes.is_to_be_loaded_again()
    }

    /// Could the model answer? An ensemble cannot where a member is missing, does not fit or cannot answer; others not
    /// while their instances are in runs that do not end, or while there is no process for any of them to run in.
    ///
    /// # Errors
    /// [`Error::ModelNotReady`].
    pub fn check_ready(&self) -> Result<(), Error> {
        match &self.dispatch {
            Dispatch::Ensemble(ensemble) => {
                let resolved = ensemble.resolve();
                let resolved = resolved.map_err(|it| self.not_ready(it.to_string()))?;
                resolved.trouble().map_or(Ok(()), |reason| Err(self.not_ready(reason)))
            }
            Dispatch::Batches(_) | Dispatch::Sequences(_) => match self.trouble() {
                Some(reason) => Err(self.not_ready(reason)),
                None => Ok(()),
            },
        }
    }

    /// Why its own instances cannot answer, if they cannot.
    pub fn trouble(&self) -> Option<String> {
        let outage = self.processes.outage();
        outage.map(|it| it.reason).or_else(|| self.dispatch.queue().trouble().map(str::to_owned))
    }

    /// The error of a request that it cannot answer, for that reason.
    pub fn not_ready(&self, reason: String) -> Error {
        let Signature { model, version, .. } = &*self.signature;
        Error::ModelNotReady { model: model.to_string(), version: Some(*version), reason }
    }

    /// Would a request that came now be refused? Cheap enough to ask before its body is read.
    ///
    /// # Errors
    /// [`Error::Overloaded`] or [`Error::ShuttingDown`]; [`Error::Backend`] while there is no process to run it in.
    pub fn admit(&self) -> Result<(), Error> {
        let outage = self.processes.outage();
        // An attempt that is due is made by whoever comes.
        if let Some(mut outage) = outage.filter(|it| !it.retry_after.is_zero()) {
            if self.planned.keeps_state && matches!(self.dispatch, Dispatch::Sequences(_)) {
                outage.reason += SEQUENCES_LOST;
            }
            self.metrics.failure(FailureReason::Backend);
            return Err(Error::Backend(BackendError::Unavailable(outage)));
        }
        self.dispatch.queue().admit()
    }

    /// The memory that it takes: as it was measured at its load, or that of its own processes now, whichever is more.
    /// In bytes.
    pub fn memory_bytes(&self) -> u64 {
        let own = self.processes.memory_bytes();
        self.bytes.max(own)
    }

    /// Do its instances run on GPUs?
    pub fn uses_gpus(&self) -> bool {
        self.config_message
            .instance_group
            .iter()
            .any(|it| it.kind() == raw::model_instance_group::Kind::Gpu)
    }

    /// Most batches that run at once.
    pub fn instances(&self) -> usize {
        self.dispatch.queue().instances()
    }

    /// Can a sequence have that id?
    pub fn takes_sequence(&self, id: &SequenceId) -> bool {
        self.dispatch.queue().takes_sequence(id)
    }

    /// Is there an open sequence of that id? Never where the model takes no sequences.
    pub fn has_sequence(&self, id: &SequenceId) -> bool {
        self.dispatch.queue().has_sequence(id)
    }

    /// Ends the sequence of that id once its requests are answered. The model itself gets no request that says so, as
    /// when a sequence has been idle for too long.
    pub fn leave_sequence(&self, id: &SequenceId) {
        self.dispatch.queue().leave_sequence(id);
    }

    /// Do both answer with the same instances?
    pub fn shares_instances(&self, other: &ServedModel) -> bool {
        match (&self.dispatch, &other.dispatch) {
            (Dispatch::Batches(one), Dispatch::Batches(another)) => Arc::ptr_eq(one, another),
            // Only instances behind a queue are ever handed on.
            _ => false,
        }
    }

    /// Is this the only reference to the model, and to what it was before its instances were changed in place?
    /// Requests that began then still go to the same instances.
    pub fn is_free(model: &Arc<ServedModel>) -> bool {
        let shared = match &model.dispatch {
            Dispatch::Batches(scheduler) => Arc::strong_count(scheduler),
            Dispatch::Sequences(_) | Dispatch::Ensemble(_) => 1,
        };
        Arc::strong_count(model) == 1 && shared == 1
    }
}
