//! Which Python runs a model.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use backend::{BackendError, ModelSource};

/// The parameter of a model's configuration that names its interpreter.
pub(crate) const PARAMETER: &str = "PYTHON";

/// Triton's parameter for the environment that a model runs in.
pub(crate) const ENVIRONMENT: &str = "EXECUTION_ENV_PATH";

/// What stands for the model's directory in a path, as in Triton.
const MODEL_DIRECTORY: &str = "$$TRITON_MODEL_DIRECTORY";

/// Where an environment has its interpreter.
const IN_ENVIRONMENT: &str = "bin/python3";

/// The interpreter of that model: the one of its parameter `PYTHON`, that of its environment (`EXECUTION_ENV_PATH`),
/// that of `venv` or `.venv` in its directory, `usual`, that of `VIRTUAL_ENV`, the first `python3` of `PATH`. Blocking.
///
/// # Errors
/// [`BackendError::Load`] where what is named is not there, and where there is none.
pub(crate) fn find(source: &ModelSource, usual: Option<&Path>) -> Result<PathBuf, BackendError> {
    let said = |name: &str| {
        let found = source.options.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim()).filter(|it| !it.is_empty())
    };
    if let Some(path) = said(PARAMETER) {
        return named(source, PARAMETER, resolved(source, path));
    }
    if let Some(path) = said(ENVIRONMENT) {
        let path = resolved(source, path);
        if path.is_file() {
            return Err(BackendError::Load(format!(
                "model '{}': parameter '{ENVIRONMENT}': {} is an archive; unpack it, and name the directory",
                source.name,
                path.display()
            )));
        }
        return named(source, ENVIRONMENT, path.join(IN_ENVIRONMENT));
    }
    let folders = ["venv", ".venv"].map(|it| source.directory.join(it).join(IN_ENVIRONMENT));
    if let Some(own) = folders.into_iter().find(|it| it.is_file()) {
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
    let directory = source.directory.to_string_lossy();
    // A name alone is one of PATH's.
    match path.replace(MODEL_DIRECTORY, &directory) {
        name if !name.contains('/') => {
            in_path(&name).unwrap_or_else(|| source.directory.join(name))
        }
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
            "model '{}': {by}: expected a Python interpreter at {}, and there is no such file",
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

    #[test]
    fn what_a_model_says_goes_before_its_folder_and_that_before_the_servers() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let usual = interpreter(&dir.join("usual/python3"));
        assert_eq!(find(&source(dir, &[]), Some(&usual)), Ok(usual.clone()));
        let own = interpreter(&dir.join(".venv/bin/python3"));
        assert_eq!(find(&source(dir, &[]), Some(&usual)), Ok(own));
        let environment = interpreter(&dir.join("env/bin/python3"));
        let said = (ENVIRONMENT, "$$TRITON_MODEL_DIRECTORY/env");
        assert_eq!(find(&source(dir, &[said]), Some(&usual)), Ok(environment));
        let said = [said, ("python", "usual/python3")];
        assert_eq!(find(&source(dir, &said), None), Ok(usual));
    }

    #[test]
    fn what_is_named_and_not_there_is_told_by_its_setting() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        fs::write(dir.join("env.tar.gz"), "").unwrap();
        let check = |options: &[(&str, &str)], usual: Option<&Path>, expected: &str| {
            let error = find(&source(dir, options), usual).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&[(PARAMETER, "/nowhere/python3")], None, "PYTHON: expected a Python interpreter");
        check(&[(ENVIRONMENT, "env.tar.gz")], None, "is an archive; unpack it");
        check(&[], Some(Path::new("/nowhere")), "--python: expected a Python interpreter");
    }
}
