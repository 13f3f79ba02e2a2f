//! Whether a graph is served as a pipeline: what its folder and its configuration say.

use std::num::NonZeroUsize;

use backend::Model;

use crate::{
    config::{
        model::{ModelConfig, Scheduling},
        raw::{self, ModelDynamicBatching, model_config::SchedulingChoice},
    },
    load::{
        load_log::Warnings,
        loader::{Load, Loader},
        placement::Plan,
    },
    pipeline::open::{Loaded, Opening, ServedPipeline, folder_of, open},
    settings::pipelines::PipelineSettings,
};
use inference::signature::Signature;
use schedule::pack::{RunBounds, USUAL_ROWS};

/// Most tokens of a run on processors, padding included: larger runs cost more for each token.
const TOKENS_ON_CPU: usize = 4096;

/// The same on a GPU.
const TOKENS_ON_GPU: usize = 65_536;

/// Most rows of a run on a GPU.
const ROWS_ON_GPU: usize = 128;

impl Loader {
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
        config: &ModelConfig,
        plan: &Plan,
        warnings: &mut Warnings<'_>,
    ) -> Result<Option<(ServedPipeline, Signature)>, String> {
        let settings = &self.settings.repository;
        let may_be = settings.pipelines.are_served && settings.auto_complete;
        if !may_be || load.raw.is_some_and(describes_tensors) {
            return Ok(None);
        }
        let Some(dir) = folder_of(&load.found.dir, load.path) else { return Ok(None) };
        let is_on_gpu = plan.uses_gpus();
        let most = most_of_run(load.raw, &settings.pipelines, is_on_gpu);
        let bounds = packs(load.raw, config).then_some(most);
        let loaded = Loaded { spec: model.spec(), signature, config, bounds, is_on_gpu };
        let (model, version) = (load.found.shown_name(), load.version);
        match open(dir, &loaded, &settings.pipelines)? {
            Opening::Pipeline(opened) => {
                let (pipeline, face) = *opened;
                pipeline.warnings().iter().for_each(|it| warnings.warn(it));
                tracing::info!(model, version, "{}", pipeline.describe());
                Ok(Some((pipeline, face)))
            }
            Opening::Tensors(reason) => {
                tracing::info!(
                    model,
                    version,
                    "served as tensors, and not as a pipeline: {reason}"
                );
                Ok(None)
            }
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

/// Does the configuration say what the graph's engine, inputs or outputs are?
fn describes_tensors(raw: &raw::ModelConfig) -> bool {
    !raw.backend.is_empty()
        || !raw.platform.is_empty()
        || !raw.input.is_empty()
        || !raw.output.is_empty()
}
