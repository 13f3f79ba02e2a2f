//! Whether a graph is served as a pipeline: what its folder and its configuration say.

use std::{
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use backend::{BackendError, Device, GraphRows, Model};

use crate::load::{
    create_error::CreateError,
    files::model_path,
    kept_costs::KeptCosts,
    load_log::LoadLog,
    load_watch::PhaseLimit,
    loader::Loader,
    merging::{Settled, is_told_to_merge},
    placement::Plan,
    run_limit::{self, RunLimit},
    text_rows::{TextRows, try_rows},
    trial_runs::{Trials, trial_runs},
    version_load::Load,
};
use inference::signature::Signature;
use machine::Machine;
use schedule::{
    pack::{RunBounds, USUAL_ROWS},
    prepare::PreparePool,
    row_check::RowCheck,
    run_memory::tokens_that_fit,
};
use serving::{
    config::{
        model::{ModelConfig, Scheduling},
        raw::{self, ModelDynamicBatching, model_config::SchedulingChoice},
    },
    pipeline::{
        open::{Loaded, Opening, Origin, ServedPipeline, open, said_over, unchosen},
        pipeline_settings::PipelineSettings,
    },
};

/// Most tokens of a run on processors, padding included: larger runs cost more for each token.
const TOKENS_ON_CPU: usize = 4096;

/// The same on a GPU.
const TOKENS_ON_GPU: usize = 65_536;

/// All runs of a model at the same time take at most one of so many parts of the memory that there is.
const MEMORY_PART: u64 = 4;

/// Most rows of a run on a GPU.
const ROWS_ON_GPU: usize = 128;

impl Loader {
    /// Tries rows of text where they would share runs, and what their runs take.
    fn try_rows(
        &self,
        load: &Load<'_>,
        plan: &Plan,
        model: &dyn Model,
        settled: &mut Settled,
        pipeline: &ServedPipeline,
    ) -> Result<Tried, CreateError> {
        let Some(device) = plan.devices.first().copied() else { return Ok(Tried::default()) };
        if pipeline.rows.bounds.is_none() || !model.allows_trial_runs() {
            return Ok(Tried::default());
        }
        let costs = settled.kept.as_ref().and_then(KeptCosts::read);
        let instance = match settled.instance.take() {
            Some(instance) => instance,
            None => self.instantiate(load, model, device)?,
        };
        let run_limit = self.settings.repository.load_run_limit;
        let phase = PhaseLimit { limit: RunLimit::of(run_limit, device), flag: run_limit::FLAG };
        let limit = RunLimit::start(run_limit, device)?;
        let rows = || {
            let mut instance = instance;
            let rows = try_rows(&mut *instance, pipeline, &limit);
            let trials = match (&rows, device) {
                (Some(TextRows::Independent | TextRows::Rounded(..)), Device::Cpu) => {
                    trial_runs(&mut *instance, pipeline, &limit, costs)
                }
                // A GPU takes long for each new length, and its memory is not that of the process.
                _ => Ok(Trials { costs: costs.unwrap_or_default(), memory: Vec::new() }),
            };
            (instance, rows, trials)
        };
        let tried = load
            .watch
            .during(phase, &Arc::default(), || catch_unwind(AssertUnwindSafe(rows)))
            .map_err(BackendError::from)?;
        limit.check()?;
        let (name, version) = (&load.found.name, load.version);
        let Ok((instance, rows, trials)) = tried else {
            let rows = TextRows::Mixed("the engine panicked when it was tried".to_owned());
            return Ok(Tried { rows: Some(rows), trials: Trials::default() });
        };
        // What fails for made-up texts may do well with those of clients.
        let trials = trials.unwrap_or_else(|error| {
            tracing::debug!(model = name, version, %error, "runs of text cannot be tried");
            Trials::default()
        });
        let memory = &trials.memory;
        tracing::debug!(model = name, version, ?rows, ?memory, "rows of text were tried");
        settled.instance = Some(instance);
        Ok(Tried { rows, trials })
    }

    /// Where the costs of runs of this graph are kept; `None` where nothing is.
    fn kept_costs(&self, load: &Load<'_>, plan: &Plan) -> Option<KeptCosts> {
        let folder = self.costs.as_deref()?;
        let graph = model_path(load.path, load.choice);
        let version = load.engine.version().unwrap_or_default();
        let engine = format!("{} {version}", load.choice.backend);
        KeptCosts::new(folder, &graph, &engine, plan.threads.get())
    }

    /// The threads for long work on inputs and answers, of all models.
    fn prepare_pool(&self) -> Arc<PreparePool> {
        let new = || {
            let threads = self.settings.repository.pipelines.prepare_threads;
            let threads = threads.unwrap_or(self.settings.cpus);
            Arc::new(PreparePool::new(threads, self.metrics.prepare_queue()))
        };
        self.prepare_pool.get_or_init(new).clone()
    }

    /// The pipeline that a loaded graph and its folder make, and the face of it; `None` where the graph is served as it
    /// is.
    ///
    /// # Errors
    /// What is missing or wrong in the folder.
    pub(super) fn open_pipeline(
        &self,
        load: &Load<'_>,
        model: &dyn Model,
        signature: &Signature,
        plan: &Plan,
        settled: &mut Settled,
        log: &mut LoadLog<'_>,
    ) -> Result<Option<(ServedPipeline, Signature)>, CreateError> {
        let settings = &self.settings.repository;
        let dir = self.dir_of_pipeline(load);
        let may_be = self.may_be_pipeline(load);
        let unchosen = || unchosen(&load.found.dir, load.path);
        let beside_graph = said_over(&load.found.dir, load.path).map(|it| self.dir_of(load, it));
        let origin = match &dir {
            Some(dir) => Origin::Folder(dir),
            None if !may_be || model.spec().is_none() => return Ok(None),
            None => {
                if let Some(reason) = unchosen() {
                    log.info(&format!("served as tensors, and not as a pipeline: {reason}"));
                    return Ok(None);
                }
                Origin::Graph(beside_graph.as_ref())
            }
        };
        let is_on_gpu = plan.uses_gpus();
        let most = most_of_run(load.raw, &settings.pipelines, is_on_gpu);
        let config = &settled.completed.config;
        // Rows of text that are tried below may go together where others do not.
        let packs = packs(load.raw, config) || settled.is_unproved;
        let bounds = packs.then_some(most);
        let pool = self.prepare_pool();
        let loaded = Loaded { spec: model.spec(), signature, config, bounds, is_on_gpu, pool };
        match open(origin, &loaded, &settings.pipelines).map_err(|it| it.to_string())? {
            None => Ok(None),
            Some(Opening::Pipeline(opened)) => {
                let (mut pipeline, mut face) = *opened;
                if pipeline.steps.text().is_none() && settled.is_unproved {
                    pipeline.rows = std::mem::take(&mut pipeline.rows).strict();
                }
                if pipeline.rows.is_whole {
                    // Nothing can be merged, and nothing is lost by it.
                    settled.warning = None;
                }
                settled.kept = pipeline.rows.bounds.and_then(|_| self.kept_costs(load, plan));
                let Tried { rows, trials } =
                    self.try_rows(load, plan, model, settled, &pipeline)?;
                let is_shared =
                    model.spec().is_some_and(|it| matches!(it.rows, GraphRows::Shared(_)));
                let is_told = load.raw.is_some_and(is_told_to_merge);
                // A graph that says that rows share something has them share no run, unless it is said that they may.
                let is_strict = pipeline.strict_rows.unwrap_or(is_shared && !is_told);
                let found = settle_rows(rows, is_strict, settled, &mut pipeline, &mut face);
                if let Some(found) = found {
                    log.warn(&found);
                }
                let instances = plan.devices.len().max(1) as u64;
                let memory = Machine::read().memory.unwrap_or(u64::MAX);
                if !is_on_gpu
                    && let Some(note) = pipeline.steps.fit(memory / MEMORY_PART / instances)
                {
                    log.warn(&note);
                }
                let kept = settled.kept.as_ref();
                settle_runs(trials, memory / MEMORY_PART / instances, kept, &mut pipeline);
                pipeline.warnings().iter().for_each(|it| log.warn(it));
                log.info(&pipeline.describe().to_string());
                Ok(Some((pipeline, face)))
            }
            Some(Opening::Tensors(reason)) => {
                log.info(&format!("served as tensors, and not as a pipeline: {reason}"));
                Ok(None)
            }
        }
    }
}

/// What trying the rows of a pipeline has shown.
#[derive(Default)]
struct Tried {
    /// `None` where not even one row could be run, or none was tried.
    rows: Option<TextRows>,
    trials: Trials,
}

/// Has the runs of a pipeline no more tokens than the memory is for, unless it is written how many they have, and keeps
/// what they cost.
fn settle_runs(trials: Trials, room: u64, kept: Option<&KeptCosts>, pipeline: &mut ServedPipeline) {
    if let Some(bounds) = &mut pipeline.rows.bounds
        && let Some(longest) = pipeline.steps.text().map(|it| it.max_tokens())
        && !pipeline.has_token_bound
    {
        bounds.tokens = tokens_that_fit(&trials.memory, room, longest, bounds.tokens);
    }
    if let Some(kept) = kept.filter(|_| 0 < trials.costs.runs()) {
        kept.write(&trials.costs);
    }
    pipeline.rows.costs = Arc::new(trials.costs);
}

/// Has the rows of a pipeline run as trying them has shown that they may. What operators should know.
fn settle_rows(
    tried: Option<TextRows>,
    is_strict: bool,
    settled: &mut Settled,
    pipeline: &mut ServedPipeline,
    face: &mut Signature,
) -> Option<String> {
    match tried {
        // Trial texts need not show what they share.
        Some(TextRows::Independent) if is_strict && pipeline.strict_rows.is_none() => {
            pipeline.rows = std::mem::take(&mut pipeline.rows).strict();
            settled.warning.take()
        }
        Some(TextRows::Independent) => {
            settled.warning.take_if(|_| settled.is_unproved);
            None
        }
        Some(TextRows::Rounded(apart, output)) => {
            if let Some(about) = face.pipeline.as_mut() {
                Arc::make_mut(about).row_independent = false;
            }
            // Known, and no reason to stop.
            settled.row_check = RowCheck::Off;
            settled.warning = None;
            let percent = 100.0 * apart;
            let found = format!(
                "what its graph answers for a text depends on the others of its run, as one that is quantised does \
                 (output '{output}', by {percent:.2} %)"
            );
            Some(match is_strict {
                true => {
                    pipeline.rows = std::mem::take(&mut pipeline.rows).strict();
                    format!(
                        "{found}: texts run with those of their own length and request only, as with \"strict_rows\": \
                         true in muster.json; with false they share runs"
                    )
                }
                false => format!(
                    "{found}; with \"strict_rows\": true in muster.json texts run with those of their own length \
                     and request only"
                ),
            })
        }
        Some(TextRows::Mixed(reason)) => {
            pipeline.rows.bounds = None;
            settled.is_unproved.then_some(reason)
        }
        None => {
            pipeline.rows.bounds.take_if(|_| settled.is_unproved);
            None
        }
    }
}

/// Do rows of unequal length run together? Not where nothing does, or the configuration says how requests are merged.
fn packs(raw: Option<&raw::ModelConfig>, config: &ModelConfig) -> bool {
    let written = raw.and_then(|it| it.scheduling_choice.as_ref());
    let is_written = match written {
        Some(SchedulingChoice::DynamicBatching(it)) => *it != ModelDynamicBatching::default(),
        _ => false,
    };
    matches!(config.scheduling, Scheduling::Dynamic(_)) && !is_written
}

/// What a run may be, as far as flags and the configuration say it.
fn most_of_run(
    raw: Option<&raw::ModelConfig>,
    settings: &PipelineSettings,
    is_on_gpu: bool,
) -> RunBounds {
    let (usual, tokens) = match is_on_gpu {
        true => (ROWS_ON_GPU, TOKENS_ON_GPU),
        false => (USUAL_ROWS, TOKENS_ON_CPU),
    };
    let written = raw.and_then(|it| usize::try_from(it.max_batch_size?).ok());
    let rows = settings.max_batch_requests.map(NonZeroUsize::get).or(written);
    RunBounds { rows: rows.filter(|it| 0 < *it).unwrap_or(usual), tokens }
}
