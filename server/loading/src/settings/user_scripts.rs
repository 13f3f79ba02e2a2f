//! Scripts that come with models, as SageMaker's archives have them: what they are called, and whether they count.

use std::path::PathBuf;

use configuration::{Environment, Sources, compat::variables, value, variable_text};

/// The default name of such a script.
const NAME: &str = "inference.py";

/// Which files are scripts of models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserScripts {
    /// `SAGEMAKER_PROGRAM`: their name.
    pub program: String,
    /// `SAGEMAKER_SUBMIT_DIRECTORY`: where that of a platform's model is looked for first. `None` for nowhere but
    /// beside the model.
    pub folder: Option<PathBuf>,
    /// `--ignore-scripts`: models are served without theirs.
    pub are_ignored: bool,
}

impl Default for UserScripts {
    fn default() -> UserScripts {
        UserScripts { program: NAME.to_owned(), folder: None, are_ignored: false }
    }
}

/// Reads the settings. `hosted`: a hosting platform started the process.
pub fn resolve(
    hosted: bool,
    sources: &Sources,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> UserScripts {
    let program = variable_text(environment, variables::PROGRAM, problems);
    let submitted = variable_text(environment, variables::SUBMIT_DIRECTORY, problems);
    let submitted = submitted.as_deref().map(|it| it.strip_prefix("file://").unwrap_or(it));
    // Training jobs leave the address of an archive in this variable.
    let submitted = submitted.filter(|it| hosted && !it.contains("://"));
    UserScripts {
        program: program.unwrap_or_else(|| NAME.to_owned()),
        folder: submitted.map(PathBuf::from),
        are_ignored: sources.read("ignore-scripts", value::boolean, problems).unwrap_or(false),
    }
}
