//! Whether a graph is served as a pipeline: what its folder and its configuration say.

use backend::Model;

use crate::{
    config::{model::ModelConfig, raw},
    load::{
        load_log::Warnings,
        loader::{Load, Loader},
    },
    pipeline::open::{Loaded, Opening, ServedPipeline, folder_of, open},
};
use inference::signature::Signature;

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
        warnings: &mut Warnings<'_>,
    ) -> Result<Option<(ServedPipeline, Signature)>, String> {
        let settings = &self.settings.repository;
        let may_be = settings.pipelines.are_served && settings.auto_complete;
        if !may_be || load.raw.is_some_and(describes_tensors) {
            return Ok(None);
        }
        let Some(dir) = folder_of(&load.found.dir, load.path) else { return Ok(None) };
        let loaded = Loaded { spec: model.spec(), signature, config };
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

/// Does the configuration say what the graph's engine, inputs or outputs are?
fn describes_tensors(raw: &raw::ModelConfig) -> bool {
    !raw.backend.is_empty()
        || !raw.platform.is_empty()
        || !raw.input.is_empty()
        || !raw.output.is_empty()
}
