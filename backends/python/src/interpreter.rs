//! Which Python runs a model.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use backend::{BackendError, ModelSource};

use crate::environments::{Environments, IN_ENVIRONMENT, Unpacked};

/// The parameter of a model's configuration that names its interpreter.
pub(crate) const PARAMETER: &str = "PYTHON";

/// Triton's parameter for the environment that a model runs in.
pub(crate) const ENVIRONMENT: &str = "EXECUTION_ENV_PATH";

/// What stands for the model's directory in a path, as in Triton.
const MODEL_DIRECTORY: &str = "$$TRITON_MODEL_DIRECTORY";

/// What runs a model.
#[derive(Debug)]
pub(crate) struct Interpreter {
    pub(crate) path: PathBuf,
    /// The environment that it is of, where the model's archive was unpacked for it.
    pub(crate) unpacked: Option<Unpacked>,
}

/// Where environments are kept that no setting has a place for.
pub(crate) fn temporary() -> PathBuf {
    env::temp_dir().join("muster-python")
}

/// The interpreter of that model: the one of its parameter `PYTHON`, that of its environment (`EXECUTION_ENV_PATH`),
/// that of `venv` or `.venv` in its directory or beside its file. Then `usual`, that of `VIRTUAL_ENV`, the first
/// `python3` of `PATH`. Blocking: it may unpack an environment.
///
/// # Errors
/// [`BackendError::Load`] where what is named is not there, and where there is none.
pub(crate) fn find(
    source: &ModelSource,
    usual: Option<&Path>,
    environments: &Environments,
) -> Result<Interpreter, BackendError> {
    let environment = environment(source);
    if let Some(archive) = environment.as_deref().filter(|it| it.is_file()) {
        return unpacked(source, archive, environments);
    }
    let path = match environment {
        Some(directory) => named(source, ENVIRONMENT, directory.join(IN_ENVIRONMENT)),
        None => not_in_environment(source, usual),
    }?;
    Ok(Interpreter { path, unpacked: None })
}

/// The same where nothing is to be unpacked for it; `None` where it would be.
///
/// # Errors
/// Those of [`find`].
pub(crate) fn find_unpacked(
    source: &ModelSource,
    usual: Option<&Path>,
) -> Result<Option<PathBuf>, BackendError> {
    match environment(source) {
        Some(archive) if archive.is_file() => Ok(None),
        Some(directory) => named(source, ENVIRONMENT, directory.join(IN_ENVIRONMENT)).map(Some),
        None => not_in_environment(source, usual).map(Some),
    }
}

/// A parameter of the model.
fn said<'a>(source: &'a ModelSource, name: &str) -> Option<&'a str> {
    let found = source.options.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.trim()).filter(|it| !it.is_empty())
}

/// The environment that it names, a directory or an archive, where it names no interpreter.
fn environment(source: &ModelSource) -> Option<PathBuf> {
    let path = said(source, ENVIRONMENT).filter(|_| said(source, PARAMETER).is_none())?;
    Some(resolved(source, path))
}

fn unpacked(
    source: &ModelSource,
    archive: &Path,
    environments: &Environments,
) -> Result<Interpreter, BackendError> {
    let unpacked = environments.of(archive).map_err(|error| {
        let model = &source.name;
        BackendError::Load(format!("model '{model}': parameter '{ENVIRONMENT}': {error}"))
    })?;
    Ok(Interpreter { path: unpacked.root.join(IN_ENVIRONMENT), unpacked: Some(unpacked) })
}

/// That of a model which names no environment.
fn not_in_environment(source: &ModelSource, usual: Option<&Path>) -> Result<PathBuf, BackendError> {
    if let Some(path) = said(source, PARAMETER) {
        return named(source, PARAMETER, resolved(source, path));
    }
    let beside = source.path.parent().filter(|it| *it != source.directory);
    let folders = [Some(source.directory.as_path()), beside].into_iter().flatten();
    let folders = folders.flat_map(|it| ["venv", ".venv"].map(|name| it.join(name)));
    let mut folders = folders.map(|it| it.join(IN_ENVIRONMENT));
    if let Some(own) = folders.find(|it| it.is_file()) {
        return Ok(own);
    }
    if let Some(path) = usual {
        return named(source, "--python", path.to_owned());
    }
    let active = env::var_os("VIRTUAL_ENV").map(|it| Path::new(&it).join(IN_ENVIRONMENT));
    let of_path = env::var_os("PATH").unwrap_or_default();
    let of_path = env::split_paths(&of_path).map(|it| it.join("python3"));
    let mut all = active.into_iter().chain(of_path);
    all.find(|it| it.is_file()).ok_or_else(|| {
        BackendError::Load(format!(
            "model '{}' is Python code, and there is no python3: not in the directories of PATH, and nothing else names \
             one; install Python 3.9 or later with numpy, or name it by --python, or by parameter '{PARAMETER}' of the \
             model",
            source.name
        ))
    })
}

/// The path with the model's directory in the place of Triton's word for it, or below that directory.
fn resolved(source: &ModelSource, path: &str) -> PathBuf {
    match path {
        it if it.contains(MODEL_DIRECTORY) => {
            it.replace(MODEL_DIRECTORY, &source.directory.to_string_lossy()).into()
        }
        // A name alone is one of PATH's.
        name if !name.contains('/') => in_path(name).unwrap_or_else(|| source.directory.join(name)),
        path => source.directory.join(path),
    }
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|it| it.join(OsStr::new(name))).find(|it| it.is_file())
}

fn named(source: &ModelSource, by: &str, path: PathBuf) -> Result<PathBuf, BackendError> {
    match path.is_file() {
        true => Ok(path),
        false => Err(BackendError::Load(format!(
            "model '{}': {by}: expected a Python interpreter at {}, and there is no such file; python3 -m venv DIRECTORY \
             makes an environment with one, and its bin/pip install numpy gives it what models need",
            source.name,
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn source(dir: &Path, options: &[(&str, &str)]) -> ModelSource {
        let mut source = ModelSource::new("m", dir.join("1/model.py"));
        source.directory = dir.to_owned();
        let owned = |it: &(&str, &str)| (it.0.to_owned(), it.1.to_owned());
        source.options = options.iter().map(owned).collect();
        source
    }

    fn interpreter(path: &Path) -> PathBuf {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
        path.to_owned()
    }

    /// The interpreter of a model with these options, or why it has none.
    fn found(
        dir: &Path,
        options: &[(&str, &str)],
        usual: Option<&Path>,
    ) -> Result<PathBuf, BackendError> {
        let environments = Environments::below(dir.join("environments"));
        find(&source(dir, options), usual, &environments).map(|it| it.path)
    }

    #[test]
    fn what_a_model_says_goes_before_its_folder_and_that_before_the_servers() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let usual = interpreter(&dir.join("usual/python3"));
        assert_eq!(found(dir, &[], Some(&usual)), Ok(usual.clone()));
        // As scripts have theirs, in `code`.
        let beside = interpreter(&dir.join("1/venv/bin/python3"));
        assert_eq!(found(dir, &[], Some(&usual)), Ok(beside));
        let own = interpreter(&dir.join(".venv/bin/python3"));
        assert_eq!(found(dir, &[], Some(&usual)), Ok(own));
        let environment = interpreter(&dir.join("env/bin/python3"));
        let said = (ENVIRONMENT, "$$TRITON_MODEL_DIRECTORY/env");
        assert_eq!(found(dir, &[said], Some(&usual)), Ok(environment));
        let said = [said, ("python", "usual/python3")];
        assert_eq!(found(dir, &said, None), Ok(usual));
    }

    #[test]
    fn the_word_for_a_models_directory_is_that_directory_also_where_the_repositorys_path_is_relative()
     {
        let source = source(Path::new("models/m"), &[]);
        for (said, path) in [
            ("$$TRITON_MODEL_DIRECTORY/env", "models/m/env"),
            ("$$TRITON_MODEL_DIRECTORY", "models/m"),
            ("up/env", "models/m/up/env"),
            ("/opt/env", "/opt/env"),
        ] {
            assert_eq!(resolved(&source, said), Path::new(path));
        }
    }

    #[test]
    fn what_is_named_and_not_there_is_told_by_its_setting() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        fs::write(dir.join("env.tar.gz"), "no archive").unwrap();
        let check = |options: &[(&str, &str)], usual: Option<&Path>, expected: &str| {
            let error = found(dir, options, usual).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&[(PARAMETER, "/nowhere/python3")], None, "PYTHON: expected a Python interpreter");
        check(&[(ENVIRONMENT, "env.tar.gz")], None, "'EXECUTION_ENV_PATH': archive '");
        check(&[], Some(Path::new("/nowhere")), "--python: expected a Python interpreter");
    }
}
