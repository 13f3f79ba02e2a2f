//! The one directory in which a worker may write: made with it and removed with it.

use std::{
    fs::{self, File, Permissions},
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    time::Duration,
};

use tempfile::TempDir;

const PREFIX: &str = "muster-worker-";

/// A directory that is older and that nobody holds was left behind. One that is younger may be about to be held.
const SETTLED: Duration = Duration::from_secs(60);

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
        let mut builder = tempfile::Builder::new();
        let directory =
            builder.prefix(PREFIX).permissions(Permissions::from_mode(0o700)).tempdir_in(parent)?;
        let held = File::open(directory.path())?;
        held.try_lock()?;
        Ok(PrivateDirectory { directory, _held: held })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Removes what servers that were ended by force have left below `parent`.
pub(crate) fn remove_leftovers(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|it| it.starts_with(PREFIX)) {
            // Somebody else's, or gone already: no reason not to go on.
            let _ = remove_if_left(&entry.path());
        }
    }
}

fn remove_if_left(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    let is_ours = metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
    if !is_ours || metadata.modified()?.elapsed().is_ok_and(|it| it < SETTLED) {
        return Ok(());
    }
    File::open(path)?.try_lock()?;
    fs::remove_dir_all(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn what_nobody_holds_is_removed_and_what_is_held_or_young_stays() {
        let parent = tempfile::tempdir().unwrap();
        let held = PrivateDirectory::new(parent.path()).unwrap();
        assert_eq!(fs::metadata(held.path()).unwrap().mode() & 0o777, 0o700);
        let left = parent.path().join("muster-worker-left");
        let young = parent.path().join("muster-worker-young");
        let other = parent.path().join("other");
        for folder in [&left, &young, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("file"), "").unwrap();
        }
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        for folder in [&left, &other, &held.path().to_owned()] {
            File::open(folder).unwrap().set_modified(long_ago).unwrap();
        }
        remove_leftovers(parent.path());
        assert!(!left.exists() && young.exists() && other.exists() && held.path().exists());
        let path = held.path().to_owned();
        drop(held);
        assert!(!path.exists());
    }
}
