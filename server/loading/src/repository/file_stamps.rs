//! Has a model changed on disk? What the system says of its files, and their contents where that leaves doubt.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, SystemTime},
};

use backend::{FileContents, FileIdentity, Reading};
use steps::is_pipeline;

use crate::repository::{
    local::{FoundModel, is_unfinished},
    user_script::is_script_of,
};

/// Folders in folders that are looked at. Models are not deeper, and a link may lead into a circle.
const DEEPEST: usize = 8;

/// Of a model so many bytes are read, the smallest files first. Of the others pieces are.
const MOST_READ: u64 = 8 << 30;

/// A load waits until so many bytes are read. The rest is read beside what comes after it.
const SOON_READ: u64 = 64 << 20;

/// How often a load looks again at files that may change without a trace, because they have changed just now.
const LOOKS: usize = 4;

/// The files below a directory, by path; for a file, only it.
pub(crate) type Tree = BTreeMap<PathBuf, FileIdentity>;

/// A model as it lay on disk at one moment. Two are equal where the system says the same of all files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileStamps {
    /// `config.pbtxt`.
    pub(crate) config: Tree,
    /// What all versions use: labels, samples, initial states.
    pub(crate) common: Tree,
    /// The versions, whether they are served or not.
    pub(crate) versions: BTreeMap<u64, Tree>,
    /// What of the files has been read.
    pub(crate) contents: Arc<FileContents>,
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
        let of_version = |path: &Path| {
            let mut files = tree(path);
            if is_script_of(path, &found.dir) {
                walk(&found.dir, DEEPEST, &|_| false, &mut files);
            }
            files
        };
        let versions = found.versions.iter().map(|(number, path)| (*number, of_version(path)));
        FileStamps {
            config: found.config.as_deref().map(tree).unwrap_or_default(),
            common,
            versions: versions.collect(),
            contents: found.contents.clone(),
        }
    }

    /// Takes it when any further change of a file will show. Blocking, some milliseconds where a file was written just
    /// now.
    pub(crate) fn take_to_load(found: &FoundModel) -> FileStamps {
        let mut stamps = FileStamps::take(found);
        for _ in 1..LOOKS {
            let now = SystemTime::now();
            let unsure: Option<Duration> =
                stamps.files().filter_map(|(_, it)| it.unsure_for(now)).max();
            let Some(unsure) = unsure else { break };
            thread::sleep(unsure);
            stamps = FileStamps::take(found);
        }
        stamps
    }

    /// The same, but for files with the contents that they had `earlier`, when these were read: those are as they were,
    /// though they have other permissions or names, or are copies. Blocking: it reads those of which the system alone
    /// cannot tell.
    pub(crate) fn since(mut self, earlier: &FileStamps) -> FileStamps {
        self.contents = earlier.contents.clone();
        let contents = &self.contents;
        let settle = |now: &mut Tree, then: &Tree| {
            for (path, now) in now {
                if let Some(then) = then.get(path).filter(|it| contents.is_same(path, now, it)) {
                    *now = *then;
                }
            }
        };
        settle(&mut self.config, &earlier.config);
        settle(&mut self.common, &earlier.common);
        for (number, now) in &mut self.versions {
            if let Some(then) = earlier.versions.get(number) {
                settle(now, then);
            }
        }
        self
    }

    /// Does `work`, and reads meanwhile what of these versions and of what all versions use is not known yet. Large
    /// files may still be read when it returns. What changes while it is read is not taken for what was loaded.
    pub(crate) fn while_read<T>(&self, versions: &[u64], work: impl FnOnce() -> T) -> T {
        let trees = versions.iter().filter_map(|it| self.versions.get(it));
        let trees = trees.chain([&self.config, &self.common]);
        let owned = |(path, identity): (&PathBuf, &FileIdentity)| (path.clone(), *identity);
        let mut files: Vec<(PathBuf, FileIdentity)> = trees.flatten().map(owned).collect();
        files.sort_by_key(|(_, it)| it.length());
        let contents = self.contents.clone();
        let (reading, soon_read) = mpsc::channel::<()>();
        let read = move || {
            let (mut bytes, mut reading) = (0u64, Some(reading));
            for (path, identity) in files {
                bytes = bytes.saturating_add(identity.length());
                if SOON_READ < bytes {
                    reading = None;
                }
                let reading = if MOST_READ < bytes { Reading::Pieces } else { Reading::Whole };
                contents.read(&path, &identity, reading);
            }
            drop(reading);
        };
        // Without a thread doubts are taken for changes.
        drop(thread::Builder::new().name("file-contents".into()).spawn(read));
        let done = work();
        // Ends when the other end is gone.
        let _ = soon_read.recv();
        done
    }

    fn files(&self) -> impl Iterator<Item = (&PathBuf, &FileIdentity)> {
        self.versions.values().chain([&self.config, &self.common]).flatten()
    }

    /// Bytes of the files of these versions.
    pub(crate) fn bytes(&self, versions: impl Iterator<Item = u64>) -> u64 {
        let trees = versions.filter_map(|it| self.versions.get(&it));
        trees.flat_map(BTreeMap::values).map(FileIdentity::length).sum()
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
    match fs::metadata(path) {
        Ok(it) if it.is_file() => drop(tree.insert(path.to_owned(), FileIdentity::of(&it))),
        _ => walk(path, DEEPEST, &|_| false, &mut tree),
    }
    tree
}

fn walk(dir: &Path, deeper: usize, skip: &dyn Fn(&Path) -> bool, tree: &mut Tree) {
    let Ok(found) = fs::metadata(dir) else { return };
    walk_below(dir, deeper, skip, tree, &mut vec![(found.dev(), found.ino())]);
}

/// `above`: the directory and those that it was reached by. A link to one of them would show the same files once more,
/// under longer names: several such links would take all time.
fn walk_below(
    dir: &Path,
    deeper: usize,
    skip: &dyn Fn(&Path) -> bool,
    tree: &mut Tree,
    above: &mut Vec<(u64, u64)>,
) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if skip(&path) || is_unfinished(&entry.file_name().to_string_lossy()) {
            continue;
        }
        // Links are followed: what a mounted configuration map changes is where they lead.
        match fs::metadata(&path) {
            Ok(it) if it.is_dir() && 0 < deeper && !above.contains(&(it.dev(), it.ino())) => {
                above.push((it.dev(), it.ino()));
                walk_below(&path, deeper - 1, skip, tree, above);
                above.pop();
            }
            Ok(it) if it.is_file() => drop(tree.insert(path, FileIdentity::of(&it))),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::File,
        os::unix::fs::{PermissionsExt, symlink},
        time::UNIX_EPOCH,
    };

    fn write(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_700_000_000)).unwrap();
    }

    fn model(name: &str) -> FoundModel {
        let dir = std::env::temp_dir().join(format!("muster-stamps-{name}-{}", std::process::id()));
        fs::create_dir_all(dir.join("1")).unwrap();
        write(&dir.join("1/model.onnx"), "one");
        write(&dir.join("labels.txt"), "cat");
        write(&dir.join("config.pbtxt"), "a: 1");
        FoundModel {
            name: "m".into(),
            namespace: Default::default(),
            config: Some(dir.join("config.pbtxt")),
            versions: [(1, dir.join("1"))].into(),
            dir,
            renamed: false,
            label: None,
            is_of_request: false,
            others: Default::default(),
            script: None,
            contents: Default::default(),
        }
    }

    #[test]
    fn another_content_of_equal_length_and_time_is_a_change_of_any_file_of_a_model() {
        let found = model("other");
        let then = FileStamps::take_to_load(&found);
        then.while_read(&[1], || ());
        assert_eq!(FileStamps::take(&found).since(&then), then);
        for (file, text) in
            [("1/model.onnx", "two"), ("labels.txt", "dog"), ("config.pbtxt", "a: 2")]
        {
            let path = found.dir.join(file);
            let before = fs::read_to_string(&path).unwrap();
            write(&path, text);
            assert_ne!(FileStamps::take(&found).since(&then), then, "{file}");
            // As it was, it is what was loaded.
            write(&path, &before);
            assert_eq!(FileStamps::take(&found).since(&then), then, "{file}");
        }
        fs::remove_dir_all(&found.dir).unwrap();
    }

    #[test]
    fn links_that_lead_back_show_nothing_twice_and_take_no_time() {
        let found = model("circle");
        for name in 0..12 {
            symlink(".", found.dir.join(format!("1/{name}"))).unwrap();
        }
        symlink("1", found.dir.join("other")).unwrap();
        let files: Vec<PathBuf> = tree(&found.dir).into_keys().collect();
        let names = ["1/model.onnx", "config.pbtxt", "labels.txt", "other/model.onnx"];
        assert_eq!(files, names.map(|it| found.dir.join(it)));
        fs::remove_dir_all(&found.dir).unwrap();
    }

    #[test]
    fn other_permissions_and_an_equal_copy_are_no_change() {
        let found = model("same");
        let then = FileStamps::take_to_load(&found);
        then.while_read(&[1], || ());
        let path = found.dir.join("1/model.onnx");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write(&found.dir.join("labels.new"), "cat");
        fs::rename(found.dir.join("labels.new"), found.dir.join("labels.txt")).unwrap();
        assert_ne!(FileStamps::take(&found), then);
        assert_eq!(FileStamps::take(&found).since(&then), then);
        fs::remove_dir_all(&found.dir).unwrap();
    }

    #[test]
    fn a_time_that_is_set_is_a_change_as_an_operator_may_ask_for_a_load_by_it() {
        let found = model("touched");
        let then = FileStamps::take_to_load(&found);
        then.while_read(&[1], || ());
        fs::write(found.dir.join("1/model.onnx"), "one").unwrap();
        assert_ne!(FileStamps::take(&found).since(&then), then);
        fs::remove_dir_all(&found.dir).unwrap();
    }
}
