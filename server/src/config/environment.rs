//! The process's surroundings, behind a trait, so that no test has to set a variable or make a folder.

use std::{ffi::OsString, path::Path};

/// Variables, and what lies at a path.
pub trait Environment {
    /// The value of a variable.
    fn variable(&self, name: &str) -> Option<OsString>;
    /// The names of all variables, in any order. Names that are not UTF-8 are left out.
    fn names(&self) -> Vec<String>;
    /// What lies at a path, links followed.
    fn kind_of(&self, path: &Path) -> Option<PathKind>;
}

/// What lies at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    /// A directory.
    Directory,
    /// Anything else.
    File,
}

/// The real one.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }

    fn names(&self) -> Vec<String> {
        std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect()
    }

    fn kind_of(&self, path: &Path) -> Option<PathKind> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(if metadata.is_dir() { PathKind::Directory } else { PathKind::File })
    }
}
