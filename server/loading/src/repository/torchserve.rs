//! Archives of TorchServe that are unpacked: the file `MAR-INF/MANIFEST.json` names the handler, which Python runs.

use std::path::{Path, PathBuf};

/// The file that makes a folder one of TorchServe's, there.
const MANIFEST: &str = "MAR-INF/MANIFEST.json";

/// The manifest of a folder; `None` where the folder is none of TorchServe's. Blocking.
pub(crate) fn manifest_in(dir: &Path) -> Option<PathBuf> {
    Some(dir.join(MANIFEST)).filter(|it| it.is_file())
}

/// The folder that the file at `path` is the manifest of; `None` where it is none.
pub(crate) fn folder_of(path: &Path) -> Option<&Path> {
    path.ancestors().nth(2).filter(|_| path.ends_with(MANIFEST) && path.is_file())
}
