//! Directories for files that came with requests, and the removal of those that a process has left behind which ended
//! without doing it itself.

use std::{io, path::Path};

use backend::HeldDir;

const PREFIX: &str = "muster-files-";

/// A directory that only this process can read, deleted with the last model that uses it. Blocking.
pub(crate) fn scratch_dir(scratch: &Path) -> io::Result<HeldDir> {
    HeldDir::new(scratch, PREFIX)
}

/// Removes the directories in `scratch` whose processes are gone. Blocking.
pub(crate) fn remove_leftovers(scratch: &Path) {
    for (path, removed) in HeldDir::remove_left(scratch, PREFIX) {
        let path = path.display();
        match removed {
            Ok(()) => tracing::info!(%path, "removed files that an earlier process has left"),
            Err(error) => {
                tracing::warn!(%path, %error, "cannot remove files that an earlier process has left");
            }
        }
    }
}
