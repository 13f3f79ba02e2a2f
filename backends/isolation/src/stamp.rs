//! The files of a model version as they are at one moment: which there are, and what the system says of them.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use backend::{FileContents, FileIdentity, ModelSource};

use crate::named::named_files;

/// Files and directories of a model that are looked at.
const MOST: usize = 10_000;

/// Directories in directories that are looked at: a link may lead into a circle.
const DEEPEST: usize = 8;

/// How names of files with weights end.
const WEIGHTS: [&str; 4] = ["bin", "data", "onnx_data", "weights"];

/// What the server reads of a directory, and the engine does not.
const OF_SERVER: &str = "config.pbtxt";

/// The files that an engine may read to load a model version: those that it is given, and what lies beside a model that
/// is one file, as weights may lie there. What its settings name is left out, as the engine writes there.
#[derive(Debug)]
pub(crate) struct Stamp {
    /// Files that the engine is given, and directories of which it may read all.
    given: Vec<PathBuf>,
    /// What its settings name.
    named: Vec<PathBuf>,
    files: BTreeMap<PathBuf, FileIdentity>,
    /// What they held, as far as the server has read it.
    contents: Arc<FileContents>,
    is_cut: bool,
}

impl Stamp {
    /// The files as they are now. Those that cannot be looked at are as if they were not there. `settings` are those
    /// of the engine that name files.
    pub(crate) fn of(source: &ModelSource, settings: &[&str]) -> Stamp {
        let given = [&source.path].into_iter().chain(&source.folds).chain(&source.op_libraries);
        let given: Vec<PathBuf> = given.cloned().collect();
        let named: Vec<PathBuf> =
            named_files(source, settings).map(|(_, it)| resolved(it)).collect();
        let mut look = Look::new(&named);
        given.iter().for_each(|it| look.add(it, DEEPEST));
        look.add_beside(source);
        let Look { files, is_cut, .. } = look;
        Stamp { given, named, files, contents: source.contents.clone(), is_cut }
    }

    /// Bytes of them together.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.values().fold(0, |sum, it| sum.saturating_add(it.length()))
    }

    /// Are there more files than are looked at? What is beyond may change without being noticed, and what is added.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The first file that has changed or gone since, or has been added to what the engine is given. Reads only
    /// files of which nothing else can tell.
    pub(crate) fn first_change(&self) -> Option<PathBuf> {
        let is_same = |path: &Path, then: &FileIdentity| {
            FileIdentity::of_file(path).is_ok_and(|now| self.contents.is_same(path, &now, then))
        };
        let changed = self.files.iter().find(|(path, then)| !is_same(path, then));
        changed.map(|(path, _)| path.clone()).or_else(|| self.first_added())
    }

    fn first_added(&self) -> Option<PathBuf> {
        let mut look = Look::new(&self.named);
        self.given.iter().for_each(|it| look.add(it, DEEPEST));
        let mut files = look.files.into_keys();
        files.find(|it| !self.is_cut && !self.files.contains_key(it))
    }
}

/// A look at files.
struct Look<'a> {
    named: &'a [PathBuf],
    files: BTreeMap<PathBuf, FileIdentity>,
    /// How many files and directories may still be looked at.
    left: usize,
    is_cut: bool,
}

impl Look<'_> {
    fn new(named: &[PathBuf]) -> Look<'_> {
        Look { named, files: BTreeMap::new(), left: MOST, is_cut: false }
    }

    /// Adds a file, or those below a directory.
    fn add(&mut self, path: &Path, deeper: usize) {
        let Ok(metadata) = fs::metadata(path) else { return };
        if !metadata.is_dir() {
            if !self.is_named(path) && self.may_go_on() {
                self.files.insert(path.to_owned(), FileIdentity::of(&metadata));
            }
        } else if 0 < deeper && self.may_go_on() {
            let below = self.entries(path);
            below.iter().for_each(|it| self.add(it, deeper - 1));
        }
    }

    /// Adds what lies beside a model that is one file. In a directory that is not only its own it has what begins with
    /// its name; and files of weights, where no other model is there.
    fn add_beside(&mut self, source: &ModelSource) {
        let Some(folder) = source.path.parent().filter(|_| source.path.is_file()) else { return };
        let beside = self.entries(folder);
        let is_other = |it: &&PathBuf| {
            **it != source.path && it.extension() == source.path.extension() && it.is_file()
        };
        // A version's directory has nothing that is not the version's.
        let is_version = folder != source.directory;
        let is_alone = !beside.iter().any(|it| is_other(&it));
        let stem = source.path.file_stem().unwrap_or_default().as_encoded_bytes();
        for path in &beside {
            let name = path.file_name().unwrap_or_default();
            let rest = name.as_encoded_bytes().strip_prefix(stem);
            let is_called_so = rest.is_some_and(|it| matches!(it, [] | [b'.' | b'_' | b'-', ..]));
            let is_weights = || {
                path.is_file()
                    && path.extension().is_some_and(|it| WEIGHTS.iter().any(|of| it == *of))
            };
            let is_own = is_version || is_called_so && !is_other(&path) || is_alone && is_weights();
            if is_own && name != OsStr::new(OF_SERVER) {
                self.add(path, DEEPEST);
            }
        }
    }

    /// What is in a directory, but for what is hidden: in the order of the names, and no more than may be looked at.
    fn entries(&mut self, folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let shown = entries.filter(|it| !it.file_name().as_encoded_bytes().starts_with(b"."));
        let mut paths: Vec<PathBuf> = shown.map(|it| it.path()).take(self.left + 1).collect();
        paths.sort();
        paths
    }

    fn is_named(&self, path: &Path) -> bool {
        let name = path.file_name();
        let is_of = |it: &PathBuf| match it.parent() {
            // A name alone is one in a directory that another setting names.
            Some(parent) if parent.as_os_str().is_empty() => it.file_name() == name,
            _ => resolved(path).starts_with(it),
        };
        self.named.iter().any(is_of)
    }

    fn may_go_on(&mut self) -> bool {
        self.is_cut |= self.left == 0;
        self.left = self.left.saturating_sub(1);
        !self.is_cut
    }
}

/// The path without links in its directory, of a file that may be yet to be written. A name alone stays one.
fn resolved(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let real = folder.and_then(|it| fs::canonicalize(it).ok());
    match (real, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    const SETTINGS: [&str; 2] = ["optimized", "weights"];

    /// A repository with a model `m` that is one file in a version's directory, with weights beside it.
    fn model() -> (TempDir, ModelSource) {
        let root = tempfile::tempdir().unwrap();
        let version = root.path().join("m/1");
        fs::create_dir_all(version.join("parts")).unwrap();
        for file in ["model.onnx", "weights.bin", "parts/0", ".hidden"] {
            fs::write(version.join(file), "one").unwrap();
        }
        let mut source = ModelSource::new("m", version.join("model.onnx"));
        source.directory = root.path().join("m");
        (root, source)
    }

    #[track_caller]
    fn check(source: &ModelSource, file: &str, is_noticed: bool) {
        let path = source.path.parent().unwrap().join(file);
        let stamp = Stamp::of(source, &SETTINGS);
        assert_eq!(stamp.first_change(), None);
        fs::write(&path, "another").unwrap();
        assert_eq!(stamp.first_change(), is_noticed.then(|| path.clone()), "{file}");
        let stamp = Stamp::of(source, &SETTINGS);
        fs::remove_file(&path).unwrap();
        assert_eq!(stamp.first_change(), is_noticed.then_some(path), "{file}");
    }

    #[test]
    fn weights_beside_a_model_file_are_part_of_it() {
        for file in ["model.onnx", "weights.bin", "parts/0"] {
            check(&model().1, file, true);
        }
    }

    #[test]
    fn what_is_hidden_or_comes_later_beside_a_model_file_is_not() {
        let (_root, source) = model();
        check(&source, ".hidden", false);
        let stamp = Stamp::of(&source, &SETTINGS);
        fs::write(source.path.with_file_name("README"), "").unwrap();
        assert_eq!(stamp.first_change(), None);
    }

    #[test]
    fn what_the_engine_writes_at_a_load_is_no_change() {
        let (_root, mut source) = model();
        let written = source.path.with_file_name("parts").join("..").join("optimized.onnx");
        let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        source.options.extend([
            option("optimized", written.to_str().unwrap()),
            option("weights", "weights.bin"),
            option("other", "model.onnx"),
        ]);
        fs::write(&written, "one").unwrap();
        check(&source, "optimized.onnx", false);
        check(&source, "weights.bin", false);
        check(&source, "model.onnx", true);
    }

    #[test]
    fn models_that_share_a_directory_have_what_begins_with_their_names() {
        let (_root, mut source) = model();
        source.directory = source.path.parent().unwrap().to_owned();
        fs::write(source.path.with_file_name("config.pbtxt"), "one").unwrap();
        check(&source, "config.pbtxt", false);
        check(&source, "weights.bin", true);
        // A log beside a file that is served by its path grows.
        fs::write(source.path.with_file_name("server.log"), "one").unwrap();
        check(&source, "server.log", false);
        for file in
            ["other.onnx", "model50.onnx", "model.onnx.data", "other.onnx.data", "model50.data"]
        {
            fs::write(source.path.with_file_name(file), "one").unwrap();
        }
        check(&source, "model.onnx.data", true);
        for file in ["other.onnx.data", "model50.onnx", "model50.data"] {
            check(&source, file, false);
        }
    }

    #[test]
    fn what_is_changed_added_or_gone_in_a_directory_is_named() {
        let (root, mut source) = model();
        source.path = root.path().join("m/1");
        let stamp = Stamp::of(&source, &SETTINGS);
        let added = source.path.join("parts/1");
        fs::write(&added, "two").unwrap();
        assert_eq!(stamp.first_change(), Some(added));
        let stamp = Stamp::of(&source, &SETTINGS);
        fs::remove_file(source.path.join("weights.bin")).unwrap();
        assert_eq!(stamp.first_change(), Some(source.path.join("weights.bin")));
    }

    #[test]
    fn so_many_files_are_looked_at_and_links_in_a_circle_end() {
        let (_root, source) = model();
        let folder = source.path.parent().unwrap();
        std::os::unix::fs::symlink(folder, folder.join("parts/again")).unwrap();
        assert!(!Stamp::of(&source, &SETTINGS).is_cut());
        let parts = folder.join("parts");
        (0..5).for_each(|it| fs::write(parts.join(it.to_string()), "").unwrap());
        fs::remove_file(parts.join("again")).unwrap();
        // The directory is one of them.
        let mut look = Look { left: 3, ..Look::new(&[]) };
        look.add(&parts, DEEPEST);
        assert!(look.is_cut && look.files.len() == 2, "{:?}", look.files);
    }
}
