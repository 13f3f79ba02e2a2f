//! Files that Python opens. To open a pickle is to run what it says: those that their engine does not read as data are
//! opened on request only.

use std::path::Path;

use backend::{BackendError, ModelSource};

use crate::{
    config::choose::EngineChoice,
    load::{files::model_path, loader::Loader},
};

impl Loader {
    /// That engine for what lies at `path`; or Python, where the engine does not read the file and `--run-pickles` says
    /// that it may be run. Blocking: the file is read.
    pub(super) fn engine_or_python(&self, choice: EngineChoice, path: &Path) -> EngineChoice {
        if !self.settings.repository.runs_pickles {
            return choice;
        }
        let Some(python) = self.descriptions.runner_of_unread() else { return choice };
        match self.descriptions.is_unread(&choice.backend, &model_path(path, &choice)) {
            true => EngineChoice { platform: String::new(), backend: python.to_owned(), ..choice },
            false => choice,
        }
    }

    /// What an engine says of a pickle that it does not read, and what would run it.
    pub(super) fn told_to_run(
        &self,
        error: BackendError,
        source: &ModelSource,
        choice: &EngineChoice,
    ) -> BackendError {
        let BackendError::Load(text) = error else { return error };
        let python = self.descriptions.runner_of_unread();
        let python = python.and_then(|name| self.engines.iter().find(|it| it.name() == name));
        let may_run = source.code_refusal.is_none();
        let Some(python) = python
            .filter(|_| may_run && self.descriptions.is_unread(&choice.backend, &source.path))
        else {
            return BackendError::Load(text);
        };
        let file = source.path.file_name().unwrap_or_default().display();
        let interpreter = match python.program(source) {
            Ok(Some(program)) => format!("; {} would run it", program.path.display()),
            Ok(None) => String::new(),
            Err(error) => format!("; but {error}"),
        };
        BackendError::Load(format!(
            "{text}. Or have Python open it, which runs whatever code the file brings: start with --run-pickles=true, or \
             write backend: \"{}\" and default_model_filename: \"{file}\" into its config.pbtxt{interpreter}",
            python.name()
        ))
    }
}
