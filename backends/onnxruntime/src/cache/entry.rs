//! One optimised model on disk: a folder with the graph, its weights, and a list of what must be in them.
//!
//! An entry is written aside and renamed, and dropped by renaming: there is a whole one or none. Its files
//! are never changed, so those who have mapped them keep them when the entry goes.

use std::{
    fs::{self, DirBuilder, File},
    hash::{BuildHasher, Hasher, RandomState},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    thread,
    time::SystemTime,
};

use super::key::Key;
use crate::{digest::Digest, native::WEIGHTS};

/// The graph.
const GRAPH: &str = "model.onnx";
/// The files of an entry. A graph without a weight of some size has no file of weights.
const FILES: [&str; 2] = [GRAPH, WEIGHTS];
/// The list: the key's lines, each file with its length and hash, and the hash of all that.
pub(super) const LIST: &str = "entry";
/// The first line of a list. Its number changes with the meaning of anything in an entry.
const HEAD: &str = "optimised model, form 2";
/// What begins with it is being written, or being removed.
pub(super) const ASIDE: &str = ".aside-";

/// The place of an entry.
pub(super) struct CacheEntry<'a> {
    folder: &'a Path,
    path: PathBuf,
    key: &'a Key,
}

impl<'a> CacheEntry<'a> {
    /// In that cache, under that key.
    pub(super) fn new(folder: &'a Path, key: &'a Key) -> CacheEntry<'a> {
        CacheEntry { folder, path: folder.join(key.name()), key }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn exists(&self) -> bool {
        // Not `exists`: a link that leads nowhere, or what cannot be looked at, is in the way, too.
        fs::symlink_metadata(&self.path).is_ok()
    }

    /// What `work` makes of the graph's path, if every byte of the entry is as it was written; else what is
    /// wrong. The graph is checked before `work` begins, the weights meanwhile: they are only numbers to it.
    pub(super) fn checked_while<T>(&self, work: impl FnOnce(&Path) -> T) -> Result<T, String> {
        let list =
            fs::read_to_string(self.path.join(LIST)).map_err(|it| format!("{LIST}: {it}"))?;
        let files =
            self.files_of(&list).ok_or_else(|| format!("{LIST} is not as it was written"))?;
        // What is mapped must be there as a whole: reading past its end would end the process.
        for (name, expected) in &files {
            let bytes =
                fs::metadata(self.path.join(name)).map_err(|it| format!("{name}: {it}"))?.len();
            if expected.split(' ').next() != Some(bytes.to_string().as_str()) {
                return Err(format!("{name} has {bytes} bytes, and not as many as were written"));
            }
        }
        let (weights, others): (Vec<_>, Vec<_>) = files.iter().partition(|it| it.0 == WEIGHTS);
        let check = |(name, expected): &&(&str, &str)| {
            let found =
                Digest::of_file(&self.path.join(name)).map_err(|it| format!("{name}: {it}"));
            match found?.to_string() == *expected {
                true => Ok(()),
                false => Err(format!("{name} is not as it was written")),
            }
        };
        others.iter().try_for_each(check)?;
        thread::scope(|scope| {
            let check = || weights.iter().try_for_each(check);
            let builder = thread::Builder::new().name("check-weights".to_owned());
            let checking = builder.spawn_scoped(scope, check);
            let made = work(&self.path.join(GRAPH));
            let checked = match checking {
                Ok(it) => it.join().unwrap_or_else(|_| Err("checking it panicked".to_owned())),
                // No further thread may be started.
                Err(_) => check(),
            };
            checked.map(|()| made)
        })
    }

    /// The files and their digests, if the list is whole and for this key.
    fn files_of<'l>(&self, list: &'l str) -> Option<Vec<(&'l str, &'l str)>> {
        let (content, hash) = list.split_at_checked(list.rfind('\n')? + 1)?;
        if hash != Digest::name_of(content) {
            return None;
        }
        let rest = content.strip_prefix(HEAD)?.strip_prefix('\n')?;
        let lines = rest.strip_prefix(self.key.text())?.lines();
        lines.map(|it| it.split_once(' ').filter(|it| FILES.contains(&it.0))).collect()
    }

    /// Publishes the written files as this entry. An entry that another process has published meanwhile stays.
    pub(super) fn publish(&self, aside: Aside) -> io::Result<()> {
        let mut list = format!("{HEAD}\n{}", self.key.text());
        for name in FILES {
            let path = aside.path.join(name);
            if name == GRAPH || path.exists() {
                list += &format!("{name} {}\n", Digest::of_file(&path)?);
            }
        }
        list += &Digest::name_of(&list);
        fs::write(aside.path.join(LIST), list)?;
        match fs::rename(&aside.path, &self.path) {
            Ok(()) => Ok(()),
            Err(_) if self.exists() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Notes that the entry was used just now, where one may write; see [`super::tidy`].
    pub(super) fn note_use(&self) {
        let list = File::options().append(true).open(self.path.join(LIST));
        // A read-only disk is not tidied up, so the time of the last use does not matter.
        let _ = list.and_then(|it| it.set_modified(SystemTime::now()));
    }

    /// Removes the entry.
    pub(super) fn remove(&self) -> io::Result<()> {
        remove(self.folder, &self.path)
    }
}

/// Removes an entry as a whole: no process finds a part of it. An entry that is gone already is no error.
pub(super) fn remove(cache: &Path, entry: &Path) -> io::Result<()> {
    let aside = cache.join(new_name());
    match fs::rename(entry, &aside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        renamed => renamed?,
    }
    // It is out of the way; what cannot be removed now is tidied up one day.
    let _ = if aside.is_dir() { fs::remove_dir_all(&aside) } else { fs::remove_file(&aside) };
    Ok(())
}

/// A new folder to write an entry to. Removed when dropped, unless it became the entry.
pub(super) struct Aside {
    path: PathBuf,
}

impl Aside {
    /// In that cache.
    pub(super) fn new(folder: &Path) -> io::Result<Aside> {
        let path = folder.join(new_name());
        DirBuilder::new().mode(0o755).create(&path)?;
        Ok(Aside { path })
    }

    /// Where the graph goes; the weights go beside it.
    pub(super) fn model(&self) -> PathBuf {
        self.path.join(GRAPH)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A name that no other process takes, in whatever container it runs.
fn new_name() -> String {
    // Its keys are random, and others for each one made.
    format!("{ASIDE}{:016x}", RandomState::new().build_hasher().finish())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here fails the test")]
mod tests {
    use super::*;

    #[test]
    fn of_two_that_publish_at_once_the_first_one_stays_and_nothing_is_left_of_the_other() {
        let folder = std::env::temp_dir().join(format!("muster-publish-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let key = Key::of_text("a key");
        let entry = CacheEntry::new(&folder, &key);
        let [first, second] = ["first", "second"].map(|content| {
            let aside = Aside::new(&folder).unwrap();
            fs::write(aside.model(), content).unwrap();
            aside
        });
        assert!(!entry.exists());
        entry.publish(first).unwrap();
        entry.publish(second).unwrap();
        let content = entry.checked_while(|graph| fs::read_to_string(graph).unwrap());
        assert_eq!(content, Ok("first".to_owned()));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        entry.remove().unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        entry.remove().unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn an_entry_under_another_key_and_one_without_a_graph_are_not_taken() {
        let folder = std::env::temp_dir().join(format!("muster-entry-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (key, other) = (Key::of_text("a key"), Key::of_text("another key"));
        let aside = Aside::new(&folder).unwrap();
        fs::write(aside.model(), "graph").unwrap();
        CacheEntry::new(&folder, &key).publish(aside).unwrap();
        fs::rename(folder.join(key.name()), folder.join(other.name())).unwrap();
        let problem = CacheEntry::new(&folder, &other).checked_while(|_| panic!("it was taken"));
        assert_eq!(problem, Err::<(), _>("entry is not as it was written".to_owned()));

        let nothing = Aside::new(&folder).unwrap();
        CacheEntry::new(&folder, &key).publish(nothing).unwrap_err();
        assert!(!CacheEntry::new(&folder, &key).exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
