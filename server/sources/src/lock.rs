//! The lock file: which revision of each model is meant, and which contents its files have.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

use crate::{
    digest::Digest,
    error::{LockError, SourceProblem},
    lock_use::LockUse,
};

/// A revision of a model, and the digests of its files by their paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pin {
    pub(crate) revision: String,
    pub(crate) files: BTreeMap<String, Digest>,
}

/// A lock file as it was read.
#[derive(Debug)]
pub(crate) struct LockFile {
    path: PathBuf,
    models: BTreeMap<String, Pin>,
}

/// The form of the file.
const VERSION: u64 = 1;

impl LockFile {
    /// Reads it; one that is not there has no models.
    pub(crate) fn read(path: &Path) -> Result<LockFile, SourceProblem> {
        let problem = |problem: String| {
            SourceProblem::Lock(LockError::Content { path: path.display().to_string(), problem })
        };
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(LockFile { path: path.to_owned(), models: BTreeMap::new() });
            }
            text => text.map_err(|it| problem(format!("cannot read it: {it}")))?,
        };
        let models = parse(&text).map_err(problem)?;
        Ok(LockFile { path: path.to_owned(), models })
    }

    /// The pin of a model; `None` where it is to get one.
    pub(crate) fn pin(&self, name: &str, usage: LockUse) -> Result<Option<&Pin>, SourceProblem> {
        match (self.models.get(name), usage) {
            (_, LockUse::Renew) | (None, LockUse::Extend) => Ok(None),
            (Some(pin), _) => Ok(Some(pin)),
            (None, LockUse::Obey) => Err(SourceProblem::Lock(LockError::Missing {
                path: self.path.display().to_string(),
                name: name.to_owned(),
            })),
        }
    }

    /// Puts a model into the file, which is replaced as a whole.
    pub(crate) fn put(&mut self, name: String, pin: Pin) -> Result<(), SourceProblem> {
        if self.models.get(&name) == Some(&pin) {
            return Ok(());
        }
        self.models.insert(name, pin);
        let text = format!("{:#}\n", self.document());
        let mut beside = self.path.clone().into_os_string();
        beside.push(".tmp");
        let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, &self.path));
        written.map_err(|it| SourceProblem::disk("write", &self.path, &it))
    }

    fn document(&self) -> Value {
        let files = |pin: &Pin| -> Map<String, Value> {
            let files = pin.files.iter();
            files.map(|(file, digest)| (file.clone(), digest.to_string().into())).collect()
        };
        let models = self.models.iter().map(|(name, pin)| {
            (name.clone(), json!({"revision": pin.revision, "files": files(pin)}))
        });
        json!({"version": VERSION, "models": models.collect::<Map<_, _>>()})
    }
}

/// The models of a lock file; else what is wrong.
fn parse(text: &str) -> Result<BTreeMap<String, Pin>, String> {
    let document: Value =
        serde_json::from_str(text).map_err(|it| format!("expected JSON, it is none: {it}"))?;
    if document["version"] != VERSION {
        return Err(format!("expected \"version\": {VERSION}, found {}", document["version"]));
    }
    let models = document["models"].as_object();
    let models = models.ok_or("expected an object as \"models\", there is none")?;
    let mut pins = BTreeMap::new();
    for (name, model) in models {
        let wrong = |what: &str| format!("model \"{name}\": expected {what}");
        let revision = model["revision"].as_str().ok_or_else(|| wrong("a text as \"revision\""))?;
        let files = model["files"].as_object().ok_or_else(|| wrong("an object as \"files\""))?;
        let mut digests = BTreeMap::new();
        for (file, digest) in files {
            let digest = digest.as_str().and_then(|it| it.parse().ok());
            let expected =
                || wrong(&format!("sha256:<hex> or git:<hex> as the digest of '{file}'"));
            digests.insert(file.clone(), digest.ok_or_else(expected)?);
        }
        pins.insert(name.clone(), Pin { revision: revision.to_owned(), files: digests });
    }
    Ok(pins)
}

impl Pin {
    /// The pin of files that are here. Blocking.
    pub(crate) fn of(
        revision: &str,
        directory: &Path,
        files: &[String],
    ) -> Result<Pin, SourceProblem> {
        let mut digests = BTreeMap::new();
        for file in files {
            let path = directory.join(file);
            let digest = match of_link(&path) {
                Some(digest) => digest,
                None => {
                    Digest::sha256(&path).map_err(|it| SourceProblem::disk("read", &path, &it))?
                }
            };
            digests.insert(file.clone(), digest);
        }
        Ok(Pin { revision: revision.to_owned(), files: digests })
    }

    /// The pin of one file of that SHA-256.
    pub(crate) fn of_one(sha256: &str, file: &str) -> Pin {
        let digest = Digest::Sha256(sha256.to_owned());
        Pin { revision: sha256.to_owned(), files: [(file.to_owned(), digest)].into() }
    }

    /// Fails where a file that is here has another content. Blocking.
    pub(crate) fn check(&self, directory: &Path) -> Result<(), SourceProblem> {
        for (file, expected) in &self.files {
            let path = directory.join(file);
            let found = match of_link(&path).filter(|it| it.is_like(expected)) {
                Some(digest) => digest,
                None => {
                    expected.of_file(&path).map_err(|it| SourceProblem::disk("read", &path, &it))?
                }
            };
            self.compare(file, &found)?;
        }
        Ok(())
    }

    /// Fails where a file has another digest of the same kind.
    pub(crate) fn compare(&self, file: &str, found: &Digest) -> Result<(), SourceProblem> {
        match self.files.get(file) {
            Some(expected) if expected.is_like(found) && expected != found => {
                Err(SourceProblem::Lock(LockError::Changed {
                    file: file.to_owned(),
                    expected: expected.to_string(),
                    found: found.to_string(),
                }))
            }
            _ => Ok(()),
        }
    }
}

/// The digest that a link in a cache leads to: contents there are called by theirs, which was compared when they came.
fn of_link(path: &Path) -> Option<Digest> {
    Digest::of_blob(fs::read_link(path).ok()?.file_name()?.to_str()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_reads_as_it_was_written() {
        let path = std::env::temp_dir().join(format!("muster-lock-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        let digest = Digest::of_blob(&"0".repeat(40)).unwrap();
        let pin = Pin { revision: "v1".to_owned(), files: [("a/b".to_owned(), digest)].into() };
        let mut lock = LockFile::read(&path).unwrap();
        assert_eq!(lock.pin("hf://a/b", LockUse::Extend).unwrap(), None);
        let error = lock.pin("hf://a/b", LockUse::Obey).unwrap_err().to_string();
        assert!(error.contains("'muster pull hf://a/b --lock-file="), "{error}");
        lock.put("hf://a/b".to_owned(), pin.clone()).unwrap();
        let again = LockFile::read(&path).unwrap();
        assert_eq!(again.pin("hf://a/b", LockUse::Obey).unwrap(), Some(&pin));
        assert_eq!(again.pin("hf://a/b", LockUse::Renew).unwrap(), None);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_is_no_lock_file_is_refused_with_what_was_expected() {
        for (text, part) in [
            ("[", "expected JSON"),
            ("{}", "expected \"version\": 1, found null"),
            (r#"{"version": 1}"#, "an object as \"models\""),
            (
                r#"{"version": 1, "models": {"a": {}}}"#,
                "model \"a\": expected a text as \"revision\"",
            ),
            (
                r#"{"version": 1, "models": {"a": {"revision": "1", "files": {"f": "md5:1"}}}}"#,
                "as the digest of 'f'",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
