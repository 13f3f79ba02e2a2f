//! The files of a model version as they are at one moment: which there are, how long they are, when they were written.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use backend::ModelSource;

/// Files of a directory that are looked at. What is beyond may change without being noticed.
const MOST_FILES: usize = 10_000;

/// What is known of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileStamp {
    path: PathBuf,
    len: u64,
    /// Seconds since 1970, and nanoseconds.
    modified: (i64, i64),
}

/// The files that an engine reads to load a model version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp(Vec<FileStamp>);

impl Stamp {
    /// The files as they are now. Those that cannot be looked at are as if they were not there.
    pub(crate) fn of(source: &ModelSource) -> Stamp {
        let mut files = Vec::new();
        let own = [&source.path].into_iter().chain(&source.folds).chain(&source.op_libraries);
        own.for_each(|it| add(it, &mut files));
        Stamp(files)
    }

    /// The first file that is not the same in both.
    pub(crate) fn first_difference<'a>(&'a self, other: &'a Stamp) -> Option<&'a Path> {
        let (mut ours, mut theirs) = (self.0.iter(), other.0.iter());
        loop {
            return match (ours.next(), theirs.next()) {
                (None, None) => None,
                (Some(one), Some(same)) if one == same => continue,
                (Some(one), Some(other)) => Some((&one.path).min(&other.path)),
                (Some(only), None) | (None, Some(only)) => Some(&only.path),
            };
        }
    }
}

/// Adds a file, or those below a directory in the order of their names.
fn add(path: &Path, files: &mut Vec<FileStamp>) {
    let Ok(metadata) = fs::metadata(path) else { return };
    if MOST_FILES <= files.len() {
        return;
    }
    if metadata.is_dir() {
        let entries = fs::read_dir(path).into_iter().flatten();
        let mut paths: Vec<PathBuf> = entries.filter_map(|it| Some(it.ok()?.path())).collect();
        paths.sort();
        paths.iter().for_each(|it| add(it, files));
    } else {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        files.push(FileStamp { path: path.to_owned(), len: metadata.len(), modified });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_changed_added_or_gone_is_named() {
        let root = std::env::temp_dir().join(format!("muster-stamp-{}", std::process::id()));
        fs::create_dir_all(root.join("variables")).unwrap();
        let (graph, index) = (root.join("graph"), root.join("variables/index"));
        fs::write(&graph, "one").unwrap();
        fs::write(&index, "two").unwrap();
        let source = ModelSource::new("m", &root);
        let first = Stamp::of(&source);
        assert_eq!(first.first_difference(&Stamp::of(&source)), None);
        fs::write(&index, "three").unwrap();
        assert_eq!(first.first_difference(&Stamp::of(&source)), Some(&*index));
        fs::remove_file(&index).unwrap();
        assert_eq!(first.first_difference(&Stamp::of(&source)), Some(&*index));
        let added = root.join("added");
        fs::write(&added, "four").unwrap();
        assert_eq!(first.first_difference(&Stamp::of(&source)), Some(&*added));
        fs::remove_dir_all(root).unwrap();
    }
}
