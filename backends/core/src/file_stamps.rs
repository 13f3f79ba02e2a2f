//! The files that a model is loaded from, as they are at one moment: what is made from them later is to be of the same.

use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc};

use crate::{BackendError, FileContents, FileIdentity};

/// Folders in folders that are looked at: a link may lead into a circle.
const DEEPEST: usize = 8;

/// Files, and those that lie in folders, as they are at one moment. A file is read only if what the system says of it
/// leaves doubt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileStamps {
    /// What was asked for: files and folders.
    asked: Vec<PathBuf>,
    files: BTreeMap<PathBuf, FileIdentity>,
    /// What they held at that moment, as far as somebody has read it.
    contents: Arc<FileContents>,
}

impl FileStamps {
    /// They as they are now. One that cannot be looked at is as if it were not there. Blocking.
    pub fn of(files_and_folders: impl IntoIterator<Item = PathBuf>) -> FileStamps {
        FileStamps::default().and(files_and_folders)
    }

    /// These, and others as they are now. Blocking.
    pub fn and(mut self, files_and_folders: impl IntoIterator<Item = PathBuf>) -> FileStamps {
        for path in files_and_folders {
            look(path.clone(), DEEPEST, &mut self.files);
            self.asked.push(path);
        }
        self
    }

    /// These, of which those contents are known.
    pub fn of_known(self, contents: &Arc<FileContents>) -> FileStamps {
        FileStamps { contents: contents.clone(), ..self }
    }

    /// What `open` makes of the files, if they are the same before and after it. Blocking.
    ///
    /// # Errors
    /// [`BackendError::Load`] with the first file that has changed, has gone or was added; else the error of `open`.
    pub fn while_same<T>(
        &self,
        open: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        self.check()?;
        let opened = open();
        // They may have been replaced while they were read, which also explains an error.
        self.check()?;
        opened
    }

    fn check(&self) -> Result<(), BackendError> {
        let now = FileStamps::of(self.asked.iter().cloned()).files;
        let is_same = |path: &PathBuf, then: &FileIdentity| {
            now.get(path).is_some_and(|now| self.contents.is_same(path, now, then))
        };
        let changed = self.files.iter().find(|(path, then)| !is_same(path, then)).map(|it| it.0);
        let change = changed.or_else(|| now.keys().find(|it| !self.files.contains_key(*it)));
        change.map_or(Ok(()), |it| {
            Err(BackendError::Load(format!(
                "{} has changed since it was loaded; load it again",
                it.display()
            )))
        })
    }
}

fn look(path: PathBuf, deeper: usize, files: &mut BTreeMap<PathBuf, FileIdentity>) {
    // Links are followed: what changes is where they lead.
    let Ok(metadata) = fs::metadata(&path) else { return };
    if !metadata.is_dir() {
        files.insert(path, FileIdentity::of(&metadata));
    } else if 0 < deeper {
        let entries = fs::read_dir(&path).into_iter().flatten().flatten();
        entries.for_each(|it| look(it.path(), deeper - 1, files));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// A model's file, and a folder beside it that belongs to the model.
    fn model() -> (TempDir, FileStamps) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("variables/parts")).unwrap();
        for file in ["model", "variables/0", "variables/parts/0", "README"] {
            fs::write(root.path().join(file), "one").unwrap();
        }
        let stamps =
            FileStamps::of(["model", "variables", "assets"].map(|it| root.path().join(it)));
        (root, stamps)
    }

    /// What is said after `change` has happened while the files were read.
    fn told(change: impl FnOnce(&std::path::Path)) -> Result<u8, String> {
        let (root, stamps) = model();
        let opened = stamps.while_same(|| {
            change(root.path());
            Ok(1)
        });
        opened.map_err(|it| it.to_string().replace(&format!("{}/", root.path().display()), ""))
    }

    #[track_caller]
    fn is_noticed(file: &str, change: impl FnOnce(&std::path::Path)) {
        let text = told(change).unwrap_err();
        assert!(text.contains(&format!("{file} has changed since it was loaded")), "{text}");
    }

    #[test]
    fn files_that_stay_are_opened() {
        assert_eq!(told(|_| {}), Ok(1));
        assert_eq!(told(|it| fs::write(it.join("README"), "two and three").unwrap()), Ok(1));
    }

    #[test]
    fn a_file_that_changes_while_it_is_read_is_named() {
        for file in ["model", "variables/0", "variables/parts/0"] {
            is_noticed(file, |it| fs::write(it.join(file), "another").unwrap());
            is_noticed(file, |it| fs::remove_file(it.join(file)).unwrap());
        }
        for file in ["variables/1", "assets"] {
            is_noticed(file, |it| fs::write(it.join(file), "").unwrap());
        }
    }

    #[test]
    fn a_file_of_as_many_bytes_is_another_by_its_time() {
        is_noticed("model", |it| {
            let file = fs::File::options().write(true).open(it.join("model")).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        });
    }

    #[test]
    fn files_that_have_changed_already_are_not_opened() {
        let (root, stamps) = model();
        fs::remove_file(root.path().join("model")).unwrap();
        let opened = stamps.while_same(|| -> Result<(), BackendError> { panic!("it is opened") });
        assert!(opened.is_err());
    }

    #[test]
    fn a_change_explains_an_error() {
        let (root, stamps) = model();
        let opened: Result<(), _> = stamps.while_same(|| {
            fs::remove_file(root.path().join("variables/0")).unwrap();
            Err(BackendError::Load("cut off".to_owned()))
        });
        assert!(opened.unwrap_err().to_string().contains("has changed"));
        let (_root, stamps) = model();
        let opened: Result<(), _> =
            stamps.while_same(|| Err(BackendError::Load("cut off".to_owned())));
        assert!(opened.unwrap_err().to_string().contains("cut off"));
    }

    #[test]
    fn files_that_are_known_later_are_added() {
        let (root, stamps) = model();
        let stamps = stamps.and([root.path().join("README")]);
        fs::write(root.path().join("README"), "two and three").unwrap();
        assert!(stamps.while_same(|| Ok(())).is_err());
    }
}
