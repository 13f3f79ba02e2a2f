//! Directories of this process alone: gone when they are dropped, and removed by the next process where this one ends
//! without doing it. A directory is in use for as long as somebody has its lock, which ends with the process.

use std::{
    ffi::OsStr,
    fs::{self, DirBuilder, File, TryLockError},
    hash::{BuildHasher, Hasher, RandomState},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

/// So many directories are made where other processes take them for ones that were left, in the moment before they are
/// locked.
const ATTEMPTS: usize = 10;

/// Digits of the number behind a prefix.
const DIGITS: usize = 16;

/// A directory that only this process's user can read, removed when dropped. What has mapped its files keeps them.
#[derive(Debug)]
pub struct HeldDir {
    path: PathBuf,
    _lock: File,
}

impl HeldDir {
    /// A new one below `parent`, whose name is that prefix and a number. Blocking.
    ///
    /// # Errors
    /// Where it can be neither made nor locked.
    pub fn new(parent: &Path, prefix: &str) -> io::Result<HeldDir> {
        for _ in 0..ATTEMPTS {
            // Its keys are random, and others for each one made.
            let number = RandomState::new().build_hasher().finish();
            let path = parent.join(format!("{prefix}{number:0DIGITS$x}"));
            // Only a directory that did not exist is certain to belong to no other process.
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            match hold(&path) {
                Ok(Some(lock)) => return Ok(HeldDir { path, _lock: lock }),
                Ok(None) => {}
                Err(error) => {
                    // What cannot be locked would stay for ever.
                    let _ = fs::remove_dir(&path);
                    return Err(error);
                }
            }
        }
        Err(io::Error::other("other processes remove it before it can be used"))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Is that the name of a directory with that prefix?
    pub fn is_named(name: &OsStr, prefix: &str) -> bool {
        let number = name.to_str().and_then(|it| it.strip_prefix(prefix));
        number.is_some_and(|it| it.len() == DIGITS && it.bytes().all(|it| it.is_ascii_hexdigit()))
    }

    /// Removes those below `parent` with that prefix whose processes have ended: each of them, and what came of it.
    /// Blocking.
    pub fn remove_left(parent: &Path, prefix: &str) -> Vec<(PathBuf, io::Result<()>)> {
        let entries = fs::read_dir(parent).into_iter().flatten().flatten();
        let named = entries.filter(|it| HeldDir::is_named(&it.file_name(), prefix));
        let own = rustix::process::geteuid().as_raw();
        let removed = named.filter_map(|it| {
            let path = it.path();
            // Somebody else's, a link, or gone already.
            let metadata = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_dir)?;
            (metadata.uid() == own).then_some(())?;
            // Held until it is gone, so that nobody else takes hold of it meanwhile.
            let _held = hold(&path).ok().flatten()?;
            let removed = fs::remove_dir_all(&path);
            Some((path, removed))
        });
        removed.collect()
    }
}

impl Drop for HeldDir {
    fn drop(&mut self) {
        // What cannot be removed now is removed by a later process.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Takes hold of a directory. `None` where somebody else has, or has removed it.
fn hold(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => hold_opened(opened?, path),
    }
}

fn hold_opened(held: File, path: &Path) -> io::Result<Option<File>> {
    match held.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
        Ok(()) => {}
    }
    let number = |it: fs::Metadata| (it.dev(), it.ino());
    let own = held.metadata().map(number)?;
    // What was removed before it was held has no name any more.
    let is_there = fs::symlink_metadata(path).is_ok_and(|it| number(it) == own);
    Ok(is_there.then_some(held))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "muster-held-";

    #[test]
    fn what_nobody_holds_is_removed_and_what_is_held_or_named_otherwise_stays() {
        let parent = tempfile::tempdir().unwrap();
        let held = HeldDir::new(parent.path(), PREFIX).unwrap();
        assert_eq!(fs::metadata(held.path()).unwrap().mode() & 0o777, 0o700);
        assert!(HeldDir::is_named(held.path().file_name().unwrap(), PREFIX));
        let left = parent.path().join(format!("{PREFIX}0123456789abcdef"));
        let others = [
            "muster-held-",
            "muster-held-0123456789abcde",
            "muster-held-0123456789abcdefg",
            "muster-held-0123456789abcdex",
            "muster-other-0123456789abcdef",
        ]
        .map(|it| parent.path().join(it));
        for folder in others.iter().chain([&left]) {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("file"), "").unwrap();
        }
        let link = parent.path().join(format!("{PREFIX}00000000000000aa"));
        std::os::unix::fs::symlink(&others[0], link).unwrap();
        let removed = HeldDir::remove_left(parent.path(), PREFIX);
        assert!(matches!(&removed[..], [(path, Ok(()))] if *path == left), "{removed:?}");
        assert!(!left.exists() && held.path().exists());
        assert!(others.iter().all(|it| it.join("file").exists()));
        let path = held.path().to_owned();
        drop(held);
        assert!(!path.exists());
    }

    #[test]
    fn what_belongs_to_another_user_stays() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join(format!("{PREFIX}0123456789abcdef"));
        fs::create_dir(&path).unwrap();
        let own = fs::metadata(&path).unwrap().uid();
        assert_eq!(own, rustix::process::geteuid().as_raw());
        // Only root may give it away.
        let is_given = std::os::unix::fs::chown(&path, Some(own + 1), None).is_ok();
        let removed = HeldDir::remove_left(parent.path(), PREFIX);
        assert_eq!((removed.is_empty(), path.exists()), (is_given, is_given));
    }

    #[test]
    fn a_directory_is_held_by_one_and_not_after_it_was_removed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("x");
        fs::create_dir(&path).unwrap();
        let first = hold(&path).unwrap();
        assert!(first.is_some() && hold(&path).unwrap().is_none());
        drop(first);
        let opened = || File::open(&path).unwrap();
        let (one, another) = (opened(), opened());
        fs::remove_dir(&path).unwrap();
        assert!(hold_opened(one, &path).unwrap().is_none() && hold(&path).unwrap().is_none());
        // Another of that name is another directory.
        fs::create_dir(&path).unwrap();
        assert!(hold_opened(another, &path).unwrap().is_none() && hold(&path).unwrap().is_some());
    }

    #[test]
    fn directories_that_are_made_while_others_are_removed_can_all_be_used() {
        let parent = tempfile::tempdir().unwrap();
        let of_thread = parent.path().to_owned();
        let makes = std::thread::spawn(move || {
            // None is made where each attempt meets a removal: how often it does is the machine's affair.
            let make = |_| HeldDir::new(&of_thread, PREFIX);
            (0..200).flat_map(make).collect::<Vec<_>>()
        });
        while !makes.is_finished() {
            HeldDir::remove_left(parent.path(), PREFIX);
        }
        let made = makes.join().unwrap();
        HeldDir::remove_left(parent.path(), PREFIX);
        assert!(made.iter().all(|it| it.path().is_dir()));
    }
}
