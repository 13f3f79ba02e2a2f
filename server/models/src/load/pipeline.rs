//! Whether a graph is served as a pipeline: what its folder and its configuration say.

use std::{
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use backend::{BackendError, Model};

use crate::{
    config::{
        model::{ModelConfig, Scheduling},
        raw::{self, ModelDynamicBatching, model_config::SchedulingChoice},
    },
    load::{
        create_error::CreateError,
        instances::on_device,
        load_log::Warnings,
        load_watch::PhaseLimit,
        loader::Loader,
        merging::Settled,
        placement::Plan,
        run_limit::{self, RunLimit},
        text_rows::{TextRows, try_rows},
        version_load::Load,
    },
    pipeline::open::{Loaded, Opening, ServedPipeline, open},
    repository::local::repository_of,
    settings::pipelines::PipelineSettings,
};
use inference::signature::Signature;
use schedule::{
    pack::{RunBounds, USUAL_ROWS},
    prepare::PreparePool,
    row_check::RowCheck,
};
use steps::Dir;

/// Most tokens of a run on processors, padding included: larger runs cost more for each token.
const TOKENS_ON_CPU: usize = 4096;

/// The same on a GPU.
const TOKENS_ON_GPU: usize = 65_536;

/// Most rows of a run on a GPU.
const ROWS_ON_GPU: usize = 128;

impl Loader {
    /// Tries rows of text where they would share runs.
    fn try_rows(
        &self,
        load: &Load<'_>,
        plan: &Plan,
        model: &dyn Model,
        settled: &mut Settled,
        pipeline: &ServedPipeline,
    ) -> Result<Option<TextRows>, CreateError> {
        let Some(device) = plan.devices.first().copied() else { return Ok(None) };
        if pipeline.rows.bounds.is_none() || model.keeps_state() {
            return Ok(None);
        }
        let instance = match settled.instance.take() {
            Some(instance) => instance,
            None => model.instantiate(device).map_err(|it| on_device(device, it))?,
        };
        let run_limit = self.settings.repository.load_run_limit;
        let phase = PhaseLimit { limit: RunLimit::of(run_limit, device), flag: run_limit::FLAG };
        let limit = RunLimit::start(run_limit, device)?;
        let rows = || {
            let mut instance = instance;
            let tried = try_rows(&mut *instance, pipeline, &limit);
            (instance, tried)
        };
        let tried = load
            .watch
            .during(phase, &Arc::default(), || catch_unwind(AssertUnwindSafe(rows)))
            .map_err(BackendError::from)?;
        limit.check()?;
        let (name, version) = (&load.found.name, load.version);
        let Ok((instance, tried)) = tried else {
            return Ok(Some(TextRows::Mixed("the engine panicked when it was tried".to_owned())));
        };
        tracing::debug!(model = name, version, ?tried, "rows of text were tried");
        settled.instance = Some(instance);
        Ok(tried)
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
        warnings: &mut Warnings<'_>,
    ) -> Result<Option<(ServedPipeline, Signature)>, CreateError> {
        let settings = &self.settings.repository;
        let Some(dir) = self.folder_of_texts(load) else { return Ok(None) };
        let is_on_gpu = plan.uses_gpus();
        let most = most_of_run(load.raw, &settings.pipelines, is_on_gpu);
        let config = &settled.completed.config;
        // Rows of text that are tried below may go together where others do not.
        let packs = packs(load.raw, config) || settled.is_unproved;
        let bounds = packs.then_some(most);
        let pool = self.prepare_pool();
        let loaded = Loaded { spec: model.spec(), signature, config, bounds, is_on_gpu, pool };
        let (name, version) = (load.found.shown_name(), load.version);
        let from = &settings.from;
        let root = repository_of(load.found, from).unwrap_or_else(|| load.found.dir.clone());
        match open(&Dir::new(dir, &root), &loaded, &settings.pipelines)? {
            Opening::Pipeline(opened) => {
                let (mut pipeline, mut face) = *opened;
                let tried = self.try_rows(load, plan, model, settled, &pipeline)?;
                if let Some(found) = settle_rows(tried, settled, &mut pipeline, &mut face) {
                    warnings.warn(&found);
                }
                pipeline.warnings().iter().for_each(|it| warnings.warn(it));
                tracing::info!(model = name, version, "{}", pipeline.describe());
                Ok(Some((pipeline, face)))
            }
            Opening::Tensors(reason) => {
                tracing::info!(
                    model = name,
                    version,
                    "served as tensors, and not as a pipeline: {reason}"
                );
                Ok(None)
            }
        }
    }
}

/// Has the rows of a pipeline run as trying them has shown that they may. What operators should know.
fn settle_rows(
    tried: Option<TextRows>,
    settled: &mut Settled,
    pipeline: &mut ServedPipeline,
    face: &mut Signature,
) -> Option<String> {
    match tried {
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
            Some(match pipeline.strict_rows {
                true => {
                    pipeline.rows = std::mem::take(&mut pipeline.rows).strict();
                    format!("{found}: texts run with those of their own length and request only")
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
