//! The files that parameters name: in the model's directory, or in that of another model of the same repository.

use std::path::{Component, Path};

use backend::BackendError;

use super::settings::StepSettings;
use crate::folder::Dir;

/// A file or folder that is there.
pub(super) struct NamedFile {
    /// The folder that it lies in.
    pub(super) dir: Dir,
    /// Its own name there.
    pub(super) name: String,
}

/// The file or folder that a parameter names.
///
/// # Errors
/// When the parameter is missing, the name leads out of the repository, or nothing is there.
pub(super) fn required(settings: &StepSettings<'_>, key: &str) -> Result<NamedFile, BackendError> {
    match settings.text(key) {
        Some(name) => find(settings, key, name),
        None => Err(BackendError::Load(format!(
            "parameter '{key}' is missing: it names a file in the model's directory, or <other model>/<file>"
        ))),
    }
}

/// The file or folder of this name, which stands in that parameter.
///
/// # Errors
/// When it leads out of the repository, or nothing is there.
pub(super) fn find(
    settings: &StepSettings<'_>,
    key: &str,
    name: &str,
) -> Result<NamedFile, BackendError> {
    let is_inside = Path::new(name).components().all(|it| matches!(it, Component::Normal(_)));
    if name.is_empty() || !is_inside {
        let problem = format!(
            "'{name}' is no file in the model's directory, nor <other model>/<file> of its repository"
        );
        return Err(settings.wrong(key, problem));
    }
    let first = Path::new(name).components().next();
    let source = settings.source;
    let of_others = source.repository.as_ref().filter(|_| name.contains('/'));
    let mut places = std::iter::once(&source.directory).chain(of_others).map(|it| it.join(name));
    let Some(found) = places.clone().find(|it| it.exists()) else {
        let looked: Vec<String> = places.by_ref().map(|it| it.display().to_string()).collect();
        let mut problem = format!("there is no {}", looked.join(" and no "));
        if name.contains('/') && source.repository.is_none() {
            problem.push_str(
                "; files of other models can be named in a repository on this machine only",
            );
        }
        return Err(settings.wrong(key, problem));
    };
    let dir = found.parent().unwrap_or(&source.directory).to_owned();
    let name = found.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let root = source.repository.as_ref().unwrap_or(&source.directory);
    let mut allowed = Dir::new(&source.directory, root);
    // The directory of another model may be a link, as the model's own may.
    let model = source.repository.as_ref().zip(first);
    if let Some(model) = model.map(|(repository, it)| repository.join(it))
        && found.starts_with(&model)
    {
        allowed.allow(&model);
    }
    Ok(NamedFile { dir: allowed.at(&dir), name })
}
