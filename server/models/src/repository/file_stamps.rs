//! Has a model changed on disk? Names, sizes and times of its files, without reading them.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use steps::is_pipeline;

use crate::repository::local::{FoundModel, is_unfinished};

/// Folders in folders that are looked at. Models are not deeper, and a link may lead into a circle.
const DEEPEST: usize = 8;

/// What tells one content of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
}

/// The files below a directory, by path; for a file, only it.
pub(crate) type Tree = BTreeMap<PathBuf, Stamp>;

/// A model as it lay on disk at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileStamps {
    /// `config.pbtxt`.
    pub(crate) config: Option<Stamp>,
    /// What all versions use: labels, samples, initial states.
    pub(crate) common: Tree,
    /// The versions, whether they are served or not.
    pub(crate) versions: BTreeMap<u64, Tree>,
}

impl FileStamps {
    /// Takes it now. What cannot be read is taken for absent: loading will say so.
    pub(crate) fn take(found: &FoundModel) -> FileStamps {
        let mut common = Tree::new();
        // A model that is a file by itself has nothing beside it, unless it takes texts.
        let is_file = found.versions.values().any(|it| it.is_file());
        if !is_file || is_pipeline(&found.dir, None) {
            let skip = |it: &Path| {
                Some(it) == found.config.as_deref()
                    || found.versions.values().any(|path| path == it)
            };
            walk(&found.dir, DEEPEST, &skip, &mut common);
        }
        let versions = found.versions.iter().map(|(number, path)| (*number, tree(path)));
        FileStamps {
            config: found.config.as_deref().and_then(stamp),
            common,
            versions: versions.collect(),
        }
    }

    /// Bytes of the files of these versions.
    pub(crate) fn bytes(&self, versions: impl Iterator<Item = u64>) -> u64 {
        let trees = versions.filter_map(|it| self.versions.get(&it));
        trees.flat_map(BTreeMap::values).map(|it| it.length).sum()
    }
}

/// Takes versions out of which there is nothing yet but files that are still being written.
pub(crate) fn leave_out_unfinished(found: &mut FoundModel) {
    found.versions.retain(|_, path| {
        let Ok(entries) = fs::read_dir(path) else { return true };
        let names =
            entries.filter_map(|it| Some(it.ok()?.file_name().to_string_lossy().into_owned()));
        let (unfinished, finished): (Vec<_>, Vec<_>) = names.partition(|it| is_unfinished(it));
        // An empty directory may be all that an engine needs.
        unfinished.is_empty() || !finished.is_empty()
    });
}

fn tree(path: &Path) -> Tree {
    let mut tree = Tree::new();
    match path.is_file() {
        true => drop(stamp(path).map(|it| tree.insert(path.to_owned(), it))),
        false => walk(path, DEEPEST, &|_| false, &mut tree),
    }
    tree
}

fn walk(dir: &Path, deeper: usize, skip: &dyn Fn(&Path) -> bool, tree: &mut Tree) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if skip(&path) || is_unfinished(&entry.file_name().to_string_lossy()) {
            continue;
        }
        // Links are followed: what a mounted configuration map changes is where they lead.
        match fs::metadata(&path) {
            Ok(it) if it.is_dir() && 0 < deeper => walk(&path, deeper - 1, skip, tree),
            Ok(it) if it.is_file() => drop(tree.insert(path, stamp_of(&it))),
            _ => {}
        }
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    fs::metadata(path).ok().map(|it| stamp_of(&it))
}

fn stamp_of(metadata: &fs::Metadata) -> Stamp {
    let modified: io::Result<SystemTime> = metadata.modified();
    Stamp { modified: modified.ok(), length: metadata.len() }
}
