//! The process's surroundings, behind a trait, so that no test has to set a variable or make a folder.

use std::{ffi::OsString, io, os::unix::ffi::OsStringExt, path::Path};

/// Variables, what lies at a path, and what was started first.
pub trait Environment {
    /// The value of a variable.
    fn variable(&self, name: &str) -> Option<OsString>;
    /// The names of all variables, in any order. Names that are not UTF-8 are left out.
    fn names(&self) -> Vec<String>;
    /// What lies at a path, links followed.
    fn kind_of(&self, path: &Path) -> Option<PathKind>;
    /// Is there a directory at a path, with nothing in it?
    fn is_empty_directory(&self, path: &Path) -> bool;
    /// The text of a file.
    ///
    /// # Errors
    /// Those of the system, and for what is not UTF-8.
    fn text_of(&self, path: &Path) -> io::Result<String>;
    /// The command line of process 1, program name first: in a container, what it was started for. `None`
    /// where the system does not tell.
    fn first_process(&self) -> Option<Vec<OsString>>;
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

    fn is_empty_directory(&self, path: &Path) -> bool {
        std::fs::read_dir(path).is_ok_and(|mut it| it.next().is_none())
    }

    fn kind_of(&self, path: &Path) -> Option<PathKind> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(if metadata.is_dir() { PathKind::Directory } else { PathKind::File })
    }

    fn text_of(&self, path: &Path) -> io::Result<String> {
        std::fs::read_to_string(path)
    }

    fn first_process(&self) -> Option<Vec<OsString>> {
        // Each argument ends in a zero byte.
        let text = std::fs::read("/proc/1/cmdline").ok()?;
        let args = text.strip_suffix(&[0]).unwrap_or(&text).split(|it| *it == 0);
        Some(args.map(|it| OsString::from_vec(it.to_vec())).collect())
    }
}

/// The text of a variable; `None` when it is not set or empty.
pub fn variable_text(
    environment: &dyn Environment,
    name: &str,
    problems: &mut Vec<String>,
) -> Option<String> {
    match environment.variable(name)?.into_string() {
        Ok(text) => Some(text.trim().to_owned()).filter(|it| !it.is_empty()),
        Err(_) => {
            problems.push(format!("{name} (environment): expected UTF-8 text"));
            None
        }
    }
}
