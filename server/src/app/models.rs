//! What loads models, made as the configuration says: for a server, and to check what a server would serve.

use std::{num::NonZeroUsize, sync::Arc};

use backend::Backend;

use super::{
    error::AppError,
    settings::{load_settings, metrics_settings},
    startup,
};
use crate::config::ServerConfig;
use inference::limits::Budget;
use loading::{Catalogue, CheckDepth, CheckedModels, Control, LoadSettings, Loader, Names};
use machine::{Machine, gpus::Gpus};
use serving::{Hosts, ModelManager};
use steps::{FileBounds, Steps};
use telemetry::metrics::Metrics;

/// How long threads of models that were checked may take to end.
const LAST_MODELS: std::time::Duration = std::time::Duration::from_secs(5);

/// What it is made of.
pub(super) struct Parts<'a> {
    pub(super) config: &'a ServerConfig,
    pub(super) settings: LoadSettings,
    /// Those of model files. That of steps comes to them.
    pub(super) engines: Vec<Arc<dyn Backend>>,
    pub(super) manager: Arc<ModelManager>,
    pub(super) metrics: Metrics,
    /// What files of clients that are decoded are counted in, where there are clients.
    pub(super) budget: Option<Arc<Budget>>,
    /// What models' own code may ask, where there is a server.
    pub(super) hosts: Option<Hosts>,
}

impl Parts<'_> {
    /// Control over the models. Nothing is loaded yet.
    ///
    /// # Errors
    /// When a repository in an object store cannot be opened.
    pub(super) fn control(self) -> Result<Control, AppError> {
        let Parts { config, settings, mut engines, manager, metrics, budget, hosts } = self;
        let pipelines = &settings.repository.pipelines;
        let bounds = FileBounds {
            max_image_pixels: pipelines.max_image_pixels,
            max_audio_seconds: pipelines.max_audio_seconds,
            jpeg_library: pipelines.jpeg_library.clone(),
            budget,
        };
        engines.push(Arc::new(Steps::within(bounds)));
        let loader = Loader::new(engines, settings, manager.clone(), metrics)
            // Keeps the state of a session for the whole life of the session, where the model names no idle time of
            // its own.
            .keeping_sequences(config.sessions.map(|it| it.life))
            .keeping_costs(config.engines.model_cache_dir.clone())
            .answering(hosts);
        let names = if config.control.namespacing { Names::PerRepository } else { Names::Once };
        let catalogue = Catalogue::open(&config.repository, config.hosted, names, &config.stores)
            .map_err(|it| AppError::Models(it.to_string()))?;
        Ok(Control::new(config.control.clone(), Arc::new(loader), manager, catalogue))
    }
}

/// What a server of that configuration would serve. Opens no port. Blocking.
///
/// # Errors
/// When the start would end before any load, when there is no model, or what is there cannot be listed.
pub fn check(
    config: &ServerConfig,
    machine: &Machine,
    engines: Vec<Arc<dyn Backend>>,
    depth: CheckDepth,
) -> Result<CheckedModels, AppError> {
    startup::user_scripts(config, &engines)?;
    let cpus = NonZeroUsize::new(machine.cpus).unwrap_or(NonZeroUsize::MIN);
    let (gpus, sensors) = Gpus::read(&config.gpu_visibility);
    let parts = Parts {
        config,
        settings: load_settings(config, cpus, gpus),
        engines,
        manager: Arc::new(ModelManager::default()),
        metrics: Metrics::with_gpus(metrics_settings(config), sensors),
        budget: None,
        hosts: None,
    };
    let control = parts.control()?;
    let checked = control.check(depth).map_err(|it| AppError::Models(it.to_string()));
    control.close(LAST_MODELS);
    checked
}
