//! Files that Python opens. To open a pickle is to run what it says: those that their engine does not read as data are
//! opened on request only.

use std::path::Path;

use backend::{BackendError, ModelSource};

use crate::{
    config::choose::EngineChoice,
    load::{files::model_path, load_error::LoadError, loader::Loader},
};
use serving::config::raw::ModelConfig as RawConfig;

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

    /// Python, for the file of a folder that MLflow's own package opens.
    ///
    /// # Errors
    /// Where the configuration says another engine.
    pub(super) fn python_for(
        &self,
        raw: Option<&RawConfig>,
        path: &Path,
    ) -> Result<EngineChoice, LoadError> {
        let python = self.descriptions.runner_of_unread().unwrap_or_default();
        let said = raw.map_or("", |it| self.descriptions.name_of(&it.backend));
        if !said.is_empty() && said != python {
            let problem = format!(
                "{} has no model for the backend '{said}': none of its flavors is served as a file, and its \
                 python_function is for the backend '{python}'",
                path.display()
            );
            return Err(LoadError::Refused(problem));
        }
        let parameters = raw.iter().flat_map(|it| &it.parameters);
        Ok(EngineChoice {
            platform: String::new(),
            backend: python.to_owned(),
            default_model_filename: path.file_name().map(|it| it.to_string_lossy().into_owned()),
            options: parameters.map(|(key, it)| (key.clone(), it.string_value.clone())).collect(),
        })
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
