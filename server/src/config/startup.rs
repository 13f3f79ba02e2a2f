//! Settings that end a start on a hosting platform: a time limit, and a script that the server would not run.

use std::{path::PathBuf, time::Duration};

use configuration::{
    Environment, Flag, PathKind, Sources, compat::variables, value, variable_text,
};
use loading::{settings::ModelsFrom, user_script};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::boolean("ignore-scripts", "false", "Serve a model that comes with a script such as code/inference.py, which does not run, to a hosting platform"),
    Flag::value("startup-timeout", "none", "Seconds that loading may take at the start, then the start ends with an error; 0 or none for any").named("SECONDS"),
    Flag::value("model-load-timeout", "none", "Seconds that the load of one model may take at the start, then the start ends with an error; 0 or none for any").named("SECONDS"),
];

/// The conditions that end the start.
#[derive(Debug, Clone, PartialEq)]
pub struct Startup {
    /// `--startup-timeout`: how long loading may take at the start; `None` for any time.
    pub startup_timeout: Option<Duration>,
    /// `--model-load-timeout`: how long one model may take at the start; `None` for any time.
    pub model_load_timeout: Option<Duration>,
    /// Files that may be a user's script, which the server does not run.
    pub user_scripts: Vec<PathBuf>,
    /// The name of a script, and the address of the archive in an object store that it is in.
    pub script_elsewhere: Option<(String, String)>,
    /// `--ignore-scripts`: they do not end the start.
    pub ignore_scripts: bool,
    /// `HF_MODEL_ID`: the name of a model of a hub, which is fetched unless the platform's folder has files.
    pub hub_model: Option<String>,
}

/// Reads the settings. `from` is where models are. `hosted`: a hosting platform started the process.
pub(super) fn resolve(
    sources: &Sources,
    environment: &dyn Environment,
    (from, hosted): (&ModelsFrom, bool),
    problems: &mut Vec<String>,
) -> Startup {
    let ignore = sources.read("ignore-scripts", value::boolean, problems);
    let mut time = |name| sources.read(name, value::seconds_or_none, problems).flatten();
    let (startup_timeout, model_load_timeout) =
        (time("startup-timeout"), time("model-load-timeout"));
    Startup {
        startup_timeout,
        model_load_timeout,
        user_scripts: match hosted {
            true => user_scripts(environment, from, problems),
            false => Vec::new(),
        },
        script_elsewhere: match hosted {
            true => script_elsewhere(environment, problems),
            false => None,
        },
        ignore_scripts: ignore.unwrap_or(false),
        hub_model: variable_text(environment, variables::HUB_MODEL, problems),
    }
}

/// A script that a variable names, and that is not on this machine.
fn script_elsewhere(
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> Option<(String, String)> {
    let program = variable_text(environment, variables::PROGRAM, problems)?;
    let submitted = variable_text(environment, variables::SUBMIT_DIRECTORY, problems)?;
    let is_elsewhere = submitted.contains("://") && !submitted.starts_with("file://");
    is_elsewhere.then_some((program, submitted))
}

/// The places of a user's script: the named folder, and the folder of the model.
fn user_scripts(
    environment: &dyn Environment,
    from: &ModelsFrom,
    problems: &mut Vec<String>,
) -> Vec<PathBuf> {
    let program = variable_text(environment, variables::PROGRAM, problems);
    let program = program.unwrap_or_else(|| user_script::NAME.to_owned());
    let submitted = variable_text(environment, variables::SUBMIT_DIRECTORY, problems);
    // Training jobs leave the address of an archive in this variable.
    let submitted = submitted.as_deref().map(|it| it.strip_prefix("file://").unwrap_or(it));
    let submitted = submitted.filter(|it| !it.contains("://")).map(PathBuf::from);
    let model = match from {
        ModelsFrom::Path(path) => Some(path.join(user_script::FOLDER)),
        ModelsFrom::Repositories(_) | ModelsFrom::Named(_) => None,
    };
    let mut scripts: Vec<PathBuf> =
        submitted.into_iter().chain(model).map(|it| it.join(&program)).collect();
    scripts.dedup();
    scripts.retain(|it| environment.kind_of(it) == Some(PathKind::File));
    scripts
}
