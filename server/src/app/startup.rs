//! Checks of the start on a hosting platform: scripts that would not run, and loads that take too long.

use std::{fs, path::Path, time::Duration};

use tokio::time::Instant;

use super::AppError;
use crate::config::Startup;
use frontend::serving::Serving;
use models::Control;

/// How often the duration of loads is checked.
const EVERY: Duration = Duration::from_millis(50);

/// Warns of scripts that came with the model, because the server does not run them. A script that is empty or only
/// comments does not count.
///
/// # Errors
/// The warning, where `--fail-on-user-script` makes it an error.
pub(super) fn user_scripts(startup: &Startup) -> Result<(), AppError> {
    let with_content = startup.user_scripts.iter().filter(|it| has_content(it));
    for script in with_content.map(|it| it.display()) {
        let text = format!(
            "the script {script} came with the model and is not run: what it does before and after the model is for \
             an ensemble, or for the client"
        );
        if startup.fail_on_user_script {
            return Err(AppError::Models(format!("--fail-on-user-script: {text}")));
        }
        tracing::warn!("{text}");
    }
    Ok(())
}

/// Adds an explanation to an error of the start: an operator who names a model of a hub may have no model here.
pub(super) fn explain(startup: &Startup, error: AppError, serving: &Serving) -> AppError {
    match (error, &startup.hub_model) {
        (AppError::Models(text), Some(model)) if serving.models.index().is_empty() => {
            AppError::Models(format!(
                "{text}; HF_MODEL_ID='{model}' names a model of a hub, and nothing is fetched from there: put the \
                 model's files where models are looked for"
            ))
        }
        (error, _) => error,
    }
}

/// Has the script any code? An unreadable script counts as one with code.
fn has_content(script: &Path) -> bool {
    let Ok(text) = fs::read(script) else { return true };
    let mut lines = text.split(|it| *it == b'\n').map(<[u8]>::trim_ascii);
    lines.any(|it| !it.is_empty() && !it.starts_with(b"#"))
}

/// Ready when loading has taken longer than it may, with the reason.
pub(super) async fn overdue(startup: &Startup, control: &Control) -> AppError {
    let began = Instant::now();
    loop {
        tokio::time::sleep(EVERY).await;
        let loading = control.loading();
        let mut names: Vec<String> = loading.iter().map(|it| it.0.to_string()).collect();
        names.sort_unstable();
        if let Some(limit) = startup.startup_timeout.filter(|it| *it < began.elapsed()) {
            return AppError::Models(format!(
                "loading has taken longer than --startup-timeout, {} s; still loading: {}",
                limit.as_secs_f64(),
                names.join(", ")
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
