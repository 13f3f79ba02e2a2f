//! Directories for files that came with requests, and the removal of those that a process has left behind which ended
//! without doing it itself.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

/// What their names begin with; two numbers follow.
const PREFIX: &str = "muster-files-";

/// A directory that only this process can read, deleted with the last model that uses it.
#[derive(Debug)]
pub struct ScratchDir {
    path: PathBuf,
    /// Locked for as long as the directory is in use: a lock ends with its process, however that ends.
    _lock: File,
}

impl ScratchDir {
    /// A new one in `scratch`. Blocking.
    pub(crate) fn new(scratch: &Path) -> io::Result<ScratchDir> {
        let mut builder = DirBuilder::new();
        builder.mode(0o700);
        let process = std::process::id();
        for number in 0_u32.. {
            let path = scratch.join(format!("{PREFIX}{process}-{number}"));
            // Only a directory that did not exist is certain to belong to no other process.
            match builder.create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            // Another process may have taken it for a leftover before it was locked.
            if let Some(lock) = lock(&path)? {
                return Ok(ScratchDir { path, _lock: lock });
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove files of a model that is gone");
        }
    }
}

/// Removes the directories in `scratch` whose processes are gone. Blocking.
pub(crate) fn remove_leftovers(scratch: &Path) {
    // Without a directory there is nothing left in it.
    let Ok(entries) = fs::read_dir(scratch) else { return };
    for entry in entries.flatten() {
        let is_directory = entry.file_type().is_ok_and(|it| it.is_dir());
        if !is_directory || !is_ours(&entry.file_name().to_string_lossy()) {
            continue;
        }
        let path = entry.path();
        // Those of others cannot be opened, and those in use are locked.
        let Ok(Some(_lock)) = lock(&path) else { continue };
        match fs::remove_dir_all(&path) {
            Ok(()) => {
                tracing::info!(path = %path.display(), "removed files that an earlier process has left");
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot remove files that an earlier process has left");
            }
        }
    }
}

/// `muster-files-<process>-<number>`
fn is_ours(name: &str) -> bool {
    let is_number = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    let numbers = name.strip_prefix(PREFIX).and_then(|it| it.split_once('-'));
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

/// Locks a directory; `None` where another has, or it is gone.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Ok(None),
        Err(fs::TryLockError::Error(error)) => return Err(error),
    }
    // Whoever had the lock until now may have removed the directory.
    let (locked, here) = (file.metadata()?, fs::symlink_metadata(path).ok());
    let is_here = here.is_some_and(|it| (it.dev(), it.ino()) == (locked.dev(), locked.ino()));
    Ok(is_here.then_some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_ended_processes_are_removed() {
        let scratch = std::env::temp_dir().join(format!("muster-scratch-{}", std::process::id()));
        fs::create_dir_all(&scratch).unwrap();
        let used = ScratchDir::new(&scratch).unwrap();
        let left = scratch.join("muster-files-1-0");
        fs::create_dir_all(left.join("1")).unwrap();
        let others = ["muster-files-1", "muster-files-x-0", "muster-1-0", "muster-files-1-2-3"]
            .map(|it| scratch.join(it));
        others.iter().for_each(|it| fs::create_dir(it).unwrap());
        std::os::unix::fs::symlink(&others[2], scratch.join("muster-files-2-0")).unwrap();
        remove_leftovers(&scratch);
        assert!(!left.exists());
        assert!(used.path().exists() && others.iter().all(|it| it.exists()));
        drop(used);
        assert_eq!(fs::read_dir(&scratch).unwrap().count(), 5);
        fs::remove_dir_all(&scratch).unwrap();
    }
}
