//! In the place of what fetches, where that was left out of the build: names are read, and nothing is fetched.

use std::path::PathBuf;

use crate::{lock_use::LockUse, name::Name, source_settings::SourceSettings};

/// Why nothing is fetched, and what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this build has no models by name; build muster with --features sources")]
pub struct SourceError;

/// Fails.
///
/// # Errors
/// Always.
pub fn fetch(_: &Name, _: &SourceSettings, _: LockUse) -> Result<PathBuf, SourceError> {
    Err(SourceError)
}
