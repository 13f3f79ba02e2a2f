//! Which scheduler the requests of a model go to, and what a run gets beside their inputs.

use std::{sync::Arc, time::Duration};

use backend::{DataType, RerunPolicy};

use crate::load::{
    extra_inputs::ExtraInputs, kept_costs::KeptCosts, load_settings::LoadSettings,
    queue_settings::scheduler_settings, sequence_settings,
};
use inference::signature::{Port, Signature};
use schedule::{
    Scheduler, TimeFollows,
    cost::CostTable,
    learn::RunTimes,
    packing::Packing,
    row_check::RowCheck,
    run_context::{OtherSignature, RunContext},
    sequence::{self, SequenceScheduler},
    slot::Slot,
};
use serving::{
    config::model::{ModelConfig, Scheduling},
    pipeline::row_runs::RowRuns,
    served::Dispatch,
};
use telemetry::metrics::ModelMetrics;

/// What runs a model version.
pub(crate) struct InstanceSet {
    /// What a run gets beside the inputs of its requests.
    pub(crate) extra: ExtraInputs,
    /// Places for instances.
    pub(crate) slots: Vec<Slot>,
    /// What warming up has taught.
    pub(crate) times: RunTimes,
    /// May requests be run again?
    pub(crate) rerun: RerunPolicy,
    /// Does the engine keep something of a run for the next one?
    pub(crate) keeps_state: bool,
    /// Is each request of a run answered by itself?
    pub(crate) answers_calls: bool,
    /// May runs of the same shapes take any time?
    pub(crate) time_follows_values: bool,
    /// Are there instances on GPUs, or in a process of their own?
    pub(crate) runs_elsewhere: bool,
    /// What becomes of the model when its rows turn out to depend on each other.
    pub(crate) row_check: RowCheck,
    /// How the rows of its texts run, where it takes texts.
    pub(crate) rows: Option<RowRuns>,
    /// Where it is kept what they cost, if it is.
    pub(crate) kept: Option<KeptCosts>,
}

/// What requests to a model look like.
pub(crate) struct Faces<'a> {
    /// The configuration of its default signature.
    pub(crate) config: &'a ModelConfig,
    /// That signature, which knows the others.
    pub(crate) signature: &'a Signature,
    /// Configurations of the others, in their order.
    pub(crate) others: &'a [ModelConfig],
}

impl Faces<'_> {
    /// The configuration that says how requests are merged: the first by which they are.
    fn merging(&self) -> &ModelConfig {
        let mut all = std::iter::once(self.config).chain(self.others);
        let merged = all.find(|it| matches!(it.scheduling, Scheduling::Dynamic(_)));
        merged.unwrap_or(self.config)
    }

    fn others(&self) -> Vec<OtherSignature> {
        let other = |it: &Signature| OtherSignature {
            batches: it.batches(),
            outputs: it.outputs.iter().map(|it| it.name.clone()).collect(),
        };
        self.signature.others().iter().map(other).collect()
    }
}

/// Does the number of rows alone say how large a request is?
fn has_fixed_shapes(signature: &Signature) -> bool {
    let is_fixed = |it: &Port| {
        !it.optional && it.dtype != DataType::Bytes && it.dims.iter().all(Option::is_some)
    };
    signature.others().is_empty()
        && !signature.graph_checks_shapes
        && signature.inputs.iter().all(is_fixed)
}

/// The engine of a model that has been loaded.
pub(crate) fn dispatch(
    runs: InstanceSet,
    faces: &Faces<'_>,
    server: &LoadSettings,
    metrics: ModelMetrics,
) -> Dispatch {
    let Faces { config, signature, .. } = *faces;
    let InstanceSet { extra, slots, times, keeps_state, runs_elsewhere, rows, kept, .. } = runs;
    let (rerun, row_check) = (runs.rerun, runs.row_check);
    let answers_calls = runs.answers_calls;
    if let (Scheduling::Sequences(batching), ExtraInputs::Sequences(wiring)) =
        (&config.scheduling, &extra)
    {
        let engine = (keeps_state, answers_calls);
        let settings =
            sequence_settings::settings(config, batching, wiring.clone(), engine, server);
        let settings = sequence::SequenceSettings { rerun, ..settings };
        return Dispatch::Sequences(SequenceScheduler::new(settings, slots, metrics));
    }
    let splits = signature.batches()
        && row_check != RowCheck::Off
        && !matches!(extra, ExtraInputs::Ragged(_));
    let context = RunContext {
        others: faces.others(),
        answers_calls,
        batches: signature.batches(),
        splits: Arc::new(splits.into()),
        outputs: signature.outputs.iter().map(|it| it.name.clone()).collect(),
        rerun,
        ragged: match extra {
            ExtraInputs::Ragged(ragged) => Some(ragged),
            ExtraInputs::Plain | ExtraInputs::Sequences(_) => None,
        },
        padding: rows.as_ref().and_then(|it| it.padding.clone()),
    };
    let mut settings = scheduler_settings(faces.merging(), server);
    settings.row_check = row_check;
    settings.time_follows = match () {
        () if runs.time_follows_values => TimeFollows::Values,
        () if rows.is_none() && context.ragged.is_none() && has_fixed_shapes(signature) => {
            TimeFollows::Rows
        }
        () => TimeFollows::Shapes,
    };
    settings.packing =
        rows.and_then(|it| Some(Packing::new(it.bounds?).knowing(CostTable::clone(&it.costs))));
    settings.keep_costs = kept.map(|it| it.at_end());
    if runs_elsewhere || slots.iter().any(|it| it.limit().is_some()) {
        // A thread that waits for a GPU, another process or resources is not one on which clients should wait.
        settings.caller_runs_below = Duration::ZERO;
    }
    if !rerun.allows_reruns() {
        // A run in place that lasts too long is made again elsewhere, and a row that is looked at runs once more.
        (settings.caller_runs_below, settings.row_check) = (Duration::ZERO, RowCheck::Off);
    }
    Dispatch::Batches(Arc::new(Scheduler::new(settings, context, slots, times, metrics)))
}
