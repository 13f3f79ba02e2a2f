//! Settings that end a start on a hosting platform: a time limit, and a script that the server would not run.

use std::time::Duration;

use configuration::{Environment, Flag, Sources, compat::variables, value, variable_text};

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
    /// The name of a script, and the address of the archive in an object store that it is in.
    pub script_elsewhere: Option<(String, String)>,
    /// `HF_MODEL_ID`: the name of a model of a hub, which is fetched unless the platform's folder has files.
    pub hub_model: Option<String>,
}

/// Reads the settings. `hosted`: a hosting platform started the process.
pub(super) fn resolve(
    sources: &Sources,
    environment: &dyn Environment,
    hosted: bool,
    problems: &mut Vec<String>,
) -> Startup {
    let mut time = |name| sources.read(name, value::seconds_or_none, problems).flatten();
    let (startup_timeout, model_load_timeout) =
        (time("startup-timeout"), time("model-load-timeout"));
    Startup {
        startup_timeout,
        model_load_timeout,
        script_elsewhere: match hosted {
            true => script_elsewhere(environment, problems),
            false => None,
        },
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
