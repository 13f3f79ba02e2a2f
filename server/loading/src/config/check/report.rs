//! What was found while a configuration was checked: what prevents the load, and what is ignored.

use serving::config::{model::ConfigErrors, raw::ModelConfig as RawConfig};

/// What was found while checking.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Each prevents the load.
    pub(crate) problems: Vec<String>,
    /// What is ignored, and why.
    pub(crate) warnings: Vec<String>,
}

impl Report {
    pub(crate) fn problem(&mut self, text: impl Into<String>) {
        self.problems.push(text.into());
    }

    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }

    /// `value` with the warnings, unless there were problems.
    pub(crate) fn into_result<T>(
        self,
        model: &str,
        value: T,
    ) -> Result<(T, Vec<String>), ConfigErrors> {
        match self.problems.is_empty() {
            true => Ok((value, self.warnings)),
            false => Err(ConfigErrors { model: model.to_owned(), problems: self.problems }),
        }
    }
}

/// Notes a file name that could lead out of the folder it belongs to.
pub(crate) fn file_name(place: &str, name: &str, report: &mut Report) {
    let escapes = |it: &str| it == ".." || it.contains('\0');
    if name.starts_with('/') || name.split('/').any(escapes) {
        report.problem(format!(
            "{place}: '{name}' leads out of the model's folder; expected a relative path without '..'"
        ));
    }
}

/// Gives a configuration without a name that of the model's folder, and notes any other.
pub(crate) fn name_of_folder(raw: &mut RawConfig, model: &str, report: &mut Report) {
    match raw.name.as_str() {
        "" => raw.name = model.to_owned(),
        name if name != model => report.problem(format!(
            "name is '{name}', the folder's name is '{model}'; they must be equal"
        )),
        _ => {}
    }
}
