//! What comes with a request to load a model, and stands in for what lies in the repository.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;

use crate::{
    config::{pbtxt::ConfigReader, raw},
    repository::scratch_dir::ScratchDir,
};
use inference::error::Error;

/// What comes with a request to load a model, and stands in for what lies in the repository: files until the next
/// request without them, a configuration alone until the repository changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadOverride {
    /// A whole configuration in JSON.
    pub config: Option<String>,
    /// Files by `<version>/<name>`; only together with a configuration.
    pub files: Vec<(String, Bytes)>,
}

/// The same, read and put where an engine can open it.
#[derive(Debug, Clone)]
pub(super) struct ReadOverride {
    pub(super) raw: raw::ModelConfig,
    /// Where its versions lie, if files came along.
    pub(super) files: Option<(Arc<ScratchDir>, BTreeMap<u64, PathBuf>)>,
}

impl ReadOverride {
    /// Reads what came with a request to load `model`; `None` where nothing did. Files go into a new directory
    /// in `scratch`. `check` says whether a client may bring that configuration. Blocking.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for whatever is wrong with it; [`Error::Internal`] where files cannot be written.
    pub(super) fn read(
        model: &str,
        given: LoadOverride,
        reader: &ConfigReader,
        scratch: &Path,
        check: impl FnOnce(&raw::ModelConfig) -> Result<(), String>,
    ) -> Result<Option<ReadOverride>, Error> {
        let Some(json) = given.config else {
            return match given.files.first() {
                None => Ok(None),
                Some((name, _)) => Err(Error::InvalidRequest(format!(
                    "parameter 'file:{name}' needs the parameter 'config', a configuration in JSON: files that \
                     are given stand in for the whole model"
                ))),
            };
        };
        let mut raw = reader.parse_json("config", &json).map_err(|it| {
            Error::InvalidRequest(format!("parameter 'config' is not valid: {it}"))
        })?;
        if raw.name.is_empty() {
            model.clone_into(&mut raw.name);
        } else if raw.name != model {
            return Err(Error::InvalidRequest(format!(
                "parameter 'config': name is '{}', the model to load is '{model}'; they must be equal",
                raw.name
            )));
        }
        check(&raw).map_err(|it| Error::InvalidRequest(format!("parameter 'config': {it}")))?;
        if given.files.is_empty() {
            return Ok(Some(ReadOverride { raw, files: None }));
        }
        let places = given.files.iter().map(|(name, _)| place(name));
        let places = places.collect::<Result<Vec<_>, Error>>()?;
        let write = || -> io::Result<_> {
            let private = ScratchDir::new(scratch)?;
            let mut versions = BTreeMap::new();
            for ((version, name), (_, content)) in places.iter().zip(&given.files) {
                let dir = private.path().join(version.to_string());
                fs::create_dir_all(&dir)?;
                fs::write(dir.join(name), content)?;
                versions.insert(*version, dir);
            }
            Ok((Arc::new(private), versions))
        };
        let files = write().map_err(|error| {
            let place = scratch.display();
            Error::Internal(format!("cannot keep the model's files in {place}: {error}"))
        })?;
        Ok(Some(ReadOverride { raw, files: Some(files) }))
    }
}

/// `<version>/<name>` → both, where neither leads anywhere else.
fn place(path: &str) -> Result<(u64, &str), Error> {
    let number = |version: &str| {
        let digits = version.bytes().all(|it| it.is_ascii_digit()) && !version.starts_with('0');
        version.parse().ok().filter(|_| digits)
    };
    let is_plain = |name: &str| {
        !name.is_empty() && ![".", ".."].contains(&name) && !name.contains(['/', '\\', '\0'])
    };
    let parts = path.split_once('/').filter(|(_, name)| is_plain(name));
    parts.and_then(|(version, name)| Some((number(version)?, name))).ok_or_else(|| {
        let shown: String = path.chars().take(100).collect();
        Error::InvalidRequest(format!(
            "parameter 'file:{}': expected file:<version>/<name>, as file:1/model.onnx: a whole number above \
             zero, and the name of a file",
            shown.escape_debug()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(config: Option<&str>, files: &[(&str, &str)]) -> Result<Option<ReadOverride>, String> {
        let files = files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), Bytes::copy_from_slice(text.as_bytes())));
        let given = LoadOverride { config: config.map(str::to_owned), files: files.collect() };
        let scratch = std::env::temp_dir();
        let check = |raw: &raw::ModelConfig| match raw.model_operations {
            None => Ok(()),
            Some(_) => Err("it brings code".to_owned()),
        };
        ReadOverride::read("m", given, &ConfigReader::default(), &scratch, check)
            .map_err(|it| it.to_string())
    }

    #[track_caller]
    fn check_refused(config: Option<&str>, files: &[(&str, &str)], parts: &[&str]) {
        let error = read(config, files).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "no '{part}' in: {error}");
        }
    }

    #[test]
    fn files_are_in_a_directory_of_their_own_until_it_is_dropped() {
        let given = read(Some("{}"), &[("1/model.onnx", "a"), ("2/model.onnx", "b")]);
        let given = given.unwrap().unwrap();
        assert_eq!(given.raw.name, "m");
        let (private, versions) = given.files.clone().unwrap();
        assert_eq!(fs::read_to_string(versions[&2].join("model.onnx")).unwrap(), "b");
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(private.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let path = private.path().to_owned();
        drop((private, given));
        assert!(!path.exists());
    }

    #[test]
    fn a_plain_load_brings_nothing() {
        assert!(read(None, &[]).unwrap().is_none());
        assert!(read(Some("{\"maxBatchSize\": \"4\"}"), &[]).unwrap().unwrap().files.is_none());
    }

    #[test]
    fn an_error_of_a_configuration_has_its_place() {
        check_refused(Some("{\"max_batch\": 1}"), &[], &["config:1:", "'max_batch_size'"]);
        check_refused(Some("{"), &[], &["parameter 'config' is not valid"]);
        check_refused(Some("{\"name\": \"n\"}"), &[], &["'n'", "'m'"]);
        check_refused(Some("{\"model_operations\": {}}"), &[], &["'config': it brings code"]);
        check_refused(None, &[("1/model.onnx", "")], &["needs the parameter 'config'"]);
    }

    #[test]
    fn a_file_cannot_lead_out_of_its_version() {
        for path in
            ["1/../x", "1/..", "../x", "1/", "/etc/x", "1/a/b", "x", "0/x", "01/x", "1/a\0", "+1/x"]
        {
            check_refused(Some("{}"), &[(path, "")], &["expected file:<version>/<name>"]);
        }
    }
}
