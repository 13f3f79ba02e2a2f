//! Which scheduler the requests of a model go to, and what a run gets beside their inputs.

use std::{borrow::Cow, path::Path, sync::Arc, time::Duration};

use backend::{BackendError, NamedTensor};

use crate::{
    config::model::{ModelConfig, Scheduling},
    load::{loader::LoadSettings, queue_settings::scheduler_settings, sequence_settings},
    serving::served::Engine,
};
use inference::signature::Signature;
use schedule::{
    Scheduler,
    learn::RunTimes,
    ragged::Ragged,
    run::RunContext,
    sequence::{SequenceScheduler, Wiring},
    slot::Slot,
    work::Work,
};
use telemetry::metrics::ModelMetrics;

/// What a run gets beside the inputs of its requests.
#[derive(Debug, Clone)]
pub(crate) enum ExtraInputs {
    /// Nothing.
    Plain,
    /// Where in its sequence a request stands, and what the sequence has kept.
    Sequences(Wiring),
    /// What there is to say about a batch of different shapes.
    Ragged(Arc<Ragged>),
}

impl ExtraInputs {
    /// That of a model. `dir` is its directory. Blocking.
    ///
    /// # Errors
    /// When a file that belongs to the model is not there, or not what it should be.
    pub(crate) fn of(config: &ModelConfig, dir: &Path) -> Result<ExtraInputs, String> {
        match &config.scheduling {
            Scheduling::Sequences(batching) => {
                Ok(ExtraInputs::Sequences(sequence_settings::wiring(config, batching, dir)?))
            }
            Scheduling::Plain | Scheduling::Dynamic(_) => match &config.ragged {
                Some(ragged) => Ok(ExtraInputs::Ragged(Arc::new(ragged.clone()))),
                None => Ok(ExtraInputs::Plain),
            },
        }
    }

    /// All inputs of a run of this request alone, which is a whole sequence where there are any.
    pub(crate) fn inputs<'a>(
        &self,
        work: &'a Work,
    ) -> Result<Cow<'a, [NamedTensor]>, BackendError> {
        match self {
            ExtraInputs::Plain => Ok(Cow::Borrowed(&work.inputs)),
            ExtraInputs::Sequences(wiring) => wiring.whole_sequence(work).map(Cow::Owned),
            ExtraInputs::Ragged(ragged) => ragged.gather(&[work]).map(Cow::Owned),
        }
    }
}

/// What runs a model version.
pub(crate) struct InstanceSet {
    /// What a run gets beside the inputs of its requests.
    pub(crate) extra: ExtraInputs,
    /// Places for instances.
    pub(crate) slots: Vec<Slot>,
    /// What warming up has taught.
    pub(crate) times: RunTimes,
    /// Does the engine keep something of a run for the next one?
    pub(crate) keeps_state: bool,
    /// Are there instances on GPUs?
    pub(crate) uses_gpus: bool,
}

/// The engine of a model that has been loaded.
pub(crate) fn engine(
    runs: InstanceSet,
    config: &ModelConfig,
    signature: &Signature,
    server: &LoadSettings,
    metrics: ModelMetrics,
) -> Engine {
    let InstanceSet { extra, slots, times, keeps_state, uses_gpus } = runs;
    if let (Scheduling::Sequences(batching), ExtraInputs::Sequences(wiring)) =
        (&config.scheduling, &extra)
    {
        let settings =
            sequence_settings::settings(config, batching, wiring.clone(), keeps_state, server);
        return Engine::Sequences(SequenceScheduler::new(settings, slots, metrics));
    }
    let context = RunContext {
        batches: signature.batches(),
        outputs: signature.outputs.iter().map(|it| it.name.clone()).collect(),
        ragged: match extra {
            ExtraInputs::Ragged(ragged) => Some(ragged),
            ExtraInputs::Plain | ExtraInputs::Sequences(_) => None,
        },
    };
    let mut settings = scheduler_settings(config, server);
    if uses_gpus || slots.iter().any(|it| it.limit().is_some()) {
        // A thread that waits for a GPU, or for resources, is not one on which clients should wait.
        settings.caller_runs_below = Duration::ZERO;
    }
    Engine::Instances(Arc::new(Scheduler::new(settings, context, slots, times, metrics)))
}
