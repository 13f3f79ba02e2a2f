//! The one directory in which a worker may write: made with it and removed with it.

use std::{ffi::OsStr, io, path::Path};

use backend::HeldDir;

const PREFIX: &str = "muster-worker-";

/// A new one below `parent`.
pub(crate) fn private_directory(parent: &Path) -> io::Result<HeldDir> {
    HeldDir::new(parent, PREFIX)
}

/// Is that the name of a worker's directory?
pub(super) fn is_private(name: &OsStr) -> bool {
    HeldDir::is_named(name, PREFIX)
}

/// Removes what servers that were ended by force have left below `parent`.
pub(crate) fn remove_leftovers(parent: &Path) {
    // What cannot be removed is no reason not to go on.
    HeldDir::remove_left(parent, PREFIX);
}
