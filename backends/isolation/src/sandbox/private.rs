//! The one directory in which a worker may write: made with it and removed with it.

use std::{
    ffi::OsStr,
    fs::{self, File, Permissions, TryLockError},
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use tempfile::TempDir;

const PREFIX: &str = "muster-worker-";

/// So many directories are made where other servers take them for ones that were left, in the moment before they are
/// held.
const ATTEMPTS: usize = 10;

/// A directory of one worker. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct PrivateDirectory {
    directory: TempDir,
    /// Its lock says to other servers that it is in use, for as long as this process lives.
    _held: File,
}

impl PrivateDirectory {
    /// A new one below `parent`, for this process's user alone.
    pub(crate) fn new(parent: &Path) -> io::Result<PrivateDirectory> {
        for _ in 0..ATTEMPTS {
            let mut builder = tempfile::Builder::new();
            let builder = builder.prefix(PREFIX).permissions(Permissions::from_mode(0o700));
            let directory = builder.tempdir_in(parent)?;
            if let Some(held) = hold(directory.path())? {
                return Ok(PrivateDirectory { directory, _held: held });
            }
        }
        Err(io::Error::other("other servers remove it before it can be used"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Takes hold of a directory. `None` where somebody else has, or has removed it.
fn hold(path: &Path) -> io::Result<Option<File>> {
    let is_gone = |it: &io::Error| it.kind() == io::ErrorKind::NotFound;
    let held = match File::open(path) {
        Err(error) if is_gone(&error) => return Ok(None),
        opened => opened?,
    };
    hold_opened(held, path)
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

/// Is that the name of a worker's directory?
pub(super) fn is_private(name: &OsStr) -> bool {
    name.to_str().is_some_and(|it| it.starts_with(PREFIX))
}

/// Removes what servers that were ended by force have left below `parent`.
pub(crate) fn remove_leftovers(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if is_private(&entry.file_name()) {
            // Somebody else's, or gone already: no reason not to go on.
            let _ = remove_if_left(&entry.path());
        }
    }
}

fn remove_if_left(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() || metadata.uid() != rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    // Held until it is gone, so that nobody else takes hold of it meanwhile.
    let held = hold(path)?;
    if held.is_some() { fs::remove_dir_all(path) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_is_removed_and_what_is_held_stays() {
        let parent = tempfile::tempdir().unwrap();
        let held = PrivateDirectory::new(parent.path()).unwrap();
        assert_eq!(fs::metadata(held.path()).unwrap().mode() & 0o777, 0o700);
        let left = parent.path().join("muster-worker-left");
        let other = parent.path().join("other");
        for folder in [&left, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("file"), "").unwrap();
        }
        remove_leftovers(parent.path());
        assert!(!left.exists() && other.exists() && held.path().exists());
        let path = held.path().to_owned();
        drop(held);
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_is_held_by_one_and_not_after_it_was_removed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("muster-worker-x");
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
            (0..200).map(|_| PrivateDirectory::new(&of_thread).unwrap()).collect::<Vec<_>>()
        });
        while !makes.is_finished() {
            remove_leftovers(parent.path());
        }
        let made = makes.join().unwrap();
        remove_leftovers(parent.path());
        assert!(made.iter().all(|it| it.path().is_dir()));
    }
}
