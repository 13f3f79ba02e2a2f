//! What comes with a request to load a model, and stands in for what lies in the repository.

use serving::LoadOverride;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use backend::HeldDir;
use bytes::Bytes;

use crate::{
    config::pbtxt::ConfigReader, load::load_error::LoadError, repository::scratch_dir::scratch_dir,
};
use inference::error::Error;
use serving::config::raw;

/// Files that may come with a request. A SavedModel, or a folder of Hugging Face's, has some dozens.
const MOST_FILES: usize = 10_000;

/// Names in the path of such a file: what lies deeper is not looked at.
const DEEPEST: usize = 8;

/// Bytes of such a name: file systems take no more.
const LONGEST_NAME: usize = 255;

/// What comes with a request to load a model, read and put where an engine can open it.
#[derive(Debug, Clone)]
pub(super) struct ReadOverride {
    pub(super) raw: raw::ModelConfig,
    /// Where its versions lie, if files came along.
    pub(super) files: Option<(Arc<HeldDir>, BTreeMap<u64, PathBuf>)>,
}

impl ReadOverride {
    /// Reads what came with a request to load `model`; `None` where nothing did. Files go into a new directory
    /// in `scratch`. `check` says whether a client may bring that configuration. Blocking.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for whatever is wrong with it; [`Error::Internal`] where files cannot be written.
    pub(super) fn read(
        model: &str,
        mut given: LoadOverride,
        reader: &ConfigReader,
        scratch: &Path,
        check: impl FnOnce(&raw::ModelConfig) -> Result<(), LoadError>,
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
        given.files.iter_mut().for_each(|(name, _)| from_directory(name));
        let versions = versions_of(&given.files)?;
        let write = || -> io::Result<_> {
            let private = scratch_dir(scratch)?;
            for (name, content) in &given.files {
                let path = private.path().join(name);
                if let Some(parent) = path.parent() {
                    fs::create_dir_all(parent)?;
                }
                fs::write(path, content)?;
            }
            let dir = |it: u64| (it, private.path().join(it.to_string()));
            let versions = versions.into_iter().map(dir).collect();
            Ok((Arc::new(private), versions))
        };
        let files = write().map_err(|error| {
            let place = scratch.display();
            Error::Internal(format!("cannot keep the model's files in {place}: {error}"))
        })?;
        Ok(Some(ReadOverride { raw, files: Some(files) }))
    }
}

/// A path from the model's directory on: clients of Triton also write `/1/model.onnx`.
fn from_directory(name: &mut String) {
    if name.starts_with('/') {
        name.remove(0);
    }
}

/// The versions of which there are files, if all of the files lie in the model's directory.
fn versions_of(files: &[(String, Bytes)]) -> Result<BTreeSet<u64>, Error> {
    if MOST_FILES < files.len() {
        return Err(Error::InvalidRequest(format!(
            "{} parameters 'file:..'; expected at most {MOST_FILES} files",
            files.len()
        )));
    }
    let (mut versions, mut names) = (BTreeSet::new(), BTreeSet::new());
    for (name, _) in files {
        versions.extend(version_of(name)?);
        names.insert(name.as_str());
    }
    // A file has no files below it.
    let above = |it: &str| it.match_indices('/').map(|it| it.0).collect::<Vec<_>>();
    for name in &names {
        if let Some(end) = above(name).into_iter().find(|end| names.contains(&name[..*end])) {
            return Err(Error::InvalidRequest(format!(
                "parameter 'file:{}': '{}' is given as a file, too; expected it to be a directory or a file",
                shown(name),
                shown(&name[..end])
            )));
        }
    }
    match versions.is_empty() {
        false => Ok(versions),
        true => Err(Error::InvalidRequest(format!(
            "parameter 'file:{}': there is no file of a version; expected at least one, as file:1/model.onnx",
            shown(names.first().copied().unwrap_or_default())
        ))),
    }
}

/// The version of which the file at that path in the model's directory is; `None` where all versions use it.
fn version_of(path: &str) -> Result<Option<u64>, Error> {
    let is_plain = |part: &str| {
        !part.is_empty()
            && part.len() <= LONGEST_NAME
            && ![".", ".."].contains(&part)
            && !part.contains(['\\', '\0'])
    };
    let parts: Vec<&str> = path.split('/').take(DEEPEST + 1).collect();
    let is_number = |it: &str| it.bytes().all(|it| it.is_ascii_digit());
    let version = parts.split_last().and_then(|(_, folders)| folders.first().copied());
    let number = version
        .filter(|it| is_number(it))
        .map(|it| it.parse().ok().filter(|_| !it.starts_with('0')));
    match number {
        _ if DEEPEST < parts.len() || !parts.iter().all(|it| is_plain(it)) => {}
        None => return Ok(None),
        Some(Some(number)) => return Ok(Some(number)),
        // `0` and `01` are the names of no version.
        Some(None) => {}
    }
    Err(Error::InvalidRequest(format!(
        "parameter 'file:{}': expected the path of a file in the model's directory, as file:1/model.onnx or \
         file:labels.txt: at most {DEEPEST} names of at most {LONGEST_NAME} bytes, none of them '.' or '..', where a \
         number is a version, a whole number above zero",
        shown(path)
    )))
}

fn shown(path: &str) -> String {
    path.chars().take(100).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(config: Option<&str>, files: &[(&str, &str)]) -> Result<Option<ReadOverride>, Error> {
        let files = files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), Bytes::copy_from_slice(text.as_bytes())));
        let given = LoadOverride { config: config.map(str::to_owned), files: files.collect() };
        let scratch = std::env::temp_dir();
        let check = |raw: &raw::ModelConfig| match raw.model_operations {
            None => Ok(()),
            Some(_) => Err("it brings code".to_owned().into()),
        };
        ReadOverride::read("m", given, &ConfigReader::default(), &scratch, check)
    }

    #[track_caller]
    fn check_refused(config: Option<&str>, files: &[(&str, &str)], parts: &[&str]) {
        let error = read(config, files).unwrap_err().to_string();
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
    fn a_file_may_lie_anywhere_in_the_directory_of_the_model() {
        let files = [
            ("1/model.savedmodel/variables/variables.index", "a"),
            ("1/sub/x", "b"),
            ("labels.txt", "c"),
            ("initial_state/zeros", "d"),
            ("2/model.onnx", "e"),
        ];
        let given = read(Some("{}"), &files).unwrap().unwrap();
        let (private, versions) = given.files.unwrap();
        assert_eq!(versions.keys().copied().collect::<Vec<_>>(), [1, 2]);
        for (name, text) in files {
            assert_eq!(fs::read_to_string(private.path().join(name)).unwrap(), text);
        }
    }

    #[test]
    fn a_file_cannot_lead_out_of_the_directory_of_the_model() {
        let long = format!("1/{}", "a".repeat(256));
        for path in [
            "1/../x",
            "1/..",
            "../x",
            "1/",
            "//1/x",
            "/../x",
            "/",
            "1//x",
            "1/./x",
            "./x",
            "..",
            "",
            "0/x",
            "01/x",
            "1/a\0",
            "1\\..\\x",
            "99999999999999999999/x",
            "1/a/b/c/d/e/f/g/h",
            &long,
        ] {
            let model = ("1/model.onnx", "");
            check_refused(
                Some("{}"),
                &[model, (path, "")],
                &["expected the path of a file in the"],
            );
        }
        let given = read(Some("{}"), &[("/1/x", "a"), ("/etc/x", "b")]).unwrap().unwrap();
        let (private, versions) = given.files.unwrap();
        assert_eq!(fs::read_to_string(versions[&1].join("x")).unwrap(), "a");
        assert_eq!(fs::read_to_string(private.path().join("etc/x")).unwrap(), "b");
        // That is a directory like any other.
        assert!(read(Some("{}"), &[("1/x", ""), ("+1/x", "")]).is_ok());
    }

    #[test]
    fn files_are_of_a_version_at_least_and_none_is_a_directory_too() {
        check_refused(Some("{}"), &[("labels.txt", "")], &["there is no file of a version"]);
        check_refused(Some("{}"), &[("1", "")], &["there is no file of a version"]);
        let both = [("1/a", ""), ("1/a/b", "")];
        check_refused(Some("{}"), &both, &["'1/a' is given as a file, too"]);
    }
}
