//! The start: a model that is fetched before any load; scripts that would not run, loads that take too long, names of
//! models that are not there.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use backend::Backend;
use tokio::time::Instant;

use super::AppError;
use crate::{
    config::{ServerConfig, Startup},
    fetching,
    workers::Which,
};
use frontend::serving::Serving;
use loading::{
    Control,
    settings::{ControlMode, ModelsFrom, NamedModels, Repository},
    user_script,
};

/// How often the duration of loads is checked.
const EVERY: Duration = Duration::from_millis(50);

/// What has to be done before models can be loaded, which may take long.
pub(super) type Prepare = Box<dyn FnOnce() -> Result<(), AppError> + Send>;

/// What is left to do when the ports are open. A model by name is fetched then, so that whoever asks for the server's
/// health is answered meanwhile.
///
/// # Errors
/// Those of [`user_scripts`], which looks at a model where it lies.
pub(super) fn prepare(
    config: &ServerConfig,
    engines: &[Arc<dyn Backend>],
) -> Result<Prepare, AppError> {
    if config.wanted.is_none() {
        user_scripts(config, engines)?;
        return Ok(Box::new(|| Ok(())));
    }
    let (config, engines) = (config.clone(), engines.to_vec());
    Ok(Box::new(move || {
        fetching::bring(&config)?;
        user_scripts(&config, &engines)
    }))
}

/// Refuses to start on a hosting platform where a script came with the model and the server does not run it.
///
/// # Errors
/// The script, unless `--ignore-scripts` makes it a warning.
pub(super) fn user_scripts(
    config: &ServerConfig,
    engines: &[Arc<dyn Backend>],
) -> Result<(), AppError> {
    if config.hosted {
        let Repository { from, platform, .. } = &config.repository;
        let left = platform.scripts.left_at_start(from, engines).map_err(AppError::Models)?;
        left.into_iter().for_each(|it| tracing::warn!("{it}"));
    }
    if let Some((program, archive)) = &config.startup.script_elsewhere {
        tracing::warn!("{}", user_script::elsewhere(program, archive));
    }
    Ok(())
}

/// Refuses `--isolation` with a name that no model has, as a word that was meant otherwise would be read. Where models
/// may come later, a warning says so.
///
/// # Errors
/// The names, and those that there are.
pub(super) fn isolated_names(config: &ServerConfig, serving: &Serving) -> Result<(), AppError> {
    let Which::Named(names) = &config.isolation.which else { return Ok(()) };
    // Those that are known by now: a store is not asked, which would block.
    let known: BTreeSet<String> =
        serving.models.index().iter().map(|it| it.name.to_string()).collect();
    let unknown: Vec<&str> =
        names.iter().filter(|it| !known.contains(*it)).map(String::as_str).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let text = format!(
        "--isolation: no model is called {}; expected off, all, auto, or names of models, which are {}",
        unknown.join(", "),
        known.join(", ")
    );
    let is_followed = matches!(
        config.repository.from,
        ModelsFrom::Named(NamedModels::File { every: Some(_), .. })
    );
    let is_fixed = config.control.mode == ControlMode::None
        && config.control.multi_model.is_none()
        && !is_followed;
    if is_fixed {
        return Err(AppError::Models(text));
    }
    tracing::warn!("{text}");
    Ok(())
}

/// Adds an explanation to an error of the start: of a hub nothing is fetched where a folder has files already.
pub(super) fn explain(startup: &Startup, error: AppError, serving: &Serving) -> AppError {
    match (error, &startup.hub_model) {
        (AppError::Models(text), Some(model)) if serving.models.index().is_empty() => {
            AppError::Models(format!(
                "{text}; HF_MODEL_ID='{model}' is fetched where no folder of models is set, and where that folder is \
                 empty"
            ))
        }
        (error, _) => error,
    }
}

/// Ready when loading has taken longer than it may, with the reason.
pub(super) async fn overdue(config: &ServerConfig, control: &Control) -> AppError {
    let startup = &config.startup;
    let began = Instant::now();
    loop {
        tokio::time::sleep(EVERY).await;
        let loading = control.loading();
        let mut names: Vec<String> = loading.iter().map(|it| it.0.to_string()).collect();
        names.sort_unstable();
        if let Some(limit) = startup.startup_timeout.filter(|it| *it < began.elapsed()) {
            let seconds = limit.as_secs_f64();
            let goes_on = match &config.wanted {
                Some(name) if names.is_empty() => format!("fetching: {name}"),
                _ => format!("loading: {}", names.join(", ")),
            };
            return AppError::Models(format!(
                "loading has taken longer than --startup-timeout, {seconds} s; still {goes_on}"
            ));
        }
        let Some(limit) = startup.model_load_timeout else { continue };
        if let Some((id, _)) = loading.iter().find(|it| limit < it.1) {
            return AppError::Models(format!(
                "the load of model '{id}' has taken longer than --model-load-timeout, {} s",
                limit.as_secs_f64()
            ));
        }
    }
}
