//! What a worker is started by: the server's own program, its variables, and what it may reach.

use std::{
    ffi::OsString,
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use backend::HeldDir;

use crate::sandbox::{Order, Sandbox, private_directory};

/// The worker's ends of its socket and of its pipes.
pub(crate) struct Standard {
    pub(crate) input: OwnedFd,
    pub(crate) output: OwnedFd,
    pub(crate) error: OwnedFd,
}

/// Directories in which the loader looks for libraries first.
const SEARCHED: &str = "LD_LIBRARY_PATH";

/// How a worker is started: a program that comes to [`crate::serve`], and its arguments.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program: the server's own.
    pub path: PathBuf,
    /// What lists of processes call it.
    pub name: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its variables, of those of the server's.
    pub environment: Vec<(OsString, OsString)>,
    /// What it may reach.
    pub sandbox: Sandbox,
    /// What is the server's own, such as its repositories and its keys: no setting of a model opens any of it.
    pub kept: Vec<PathBuf>,
    /// The directory for temporary files, in which each worker has a directory of its own.
    pub temporary: PathBuf,
    /// Was it said that none can be made there? Once is enough.
    pub lacks_directory: Arc<AtomicBool>,
}

impl Program {
    /// What a worker is told of its sandbox.
    pub(crate) fn order(&self, private: Option<&Path>) -> Order {
        let searched = self.environment.iter().find(|(name, _)| name == SEARCHED);
        let libraries = searched.map(|(_, value)| std::env::split_paths(value).collect());
        let mut libraries: Vec<PathBuf> = libraries.unwrap_or_default();
        libraries.retain(|it| it.is_absolute());
        let (sandbox, kept) = (self.sandbox, self.kept.clone());
        Order { sandbox, private: private.map(Path::to_owned), libraries, kept }
    }

    /// What starts it for a worker with these variables besides. The worker's ends of its socket and of its pipes go
    /// with the command.
    pub(crate) fn command(
        &self,
        model: &str,
        variables: &[(OsString, OsString)],
        standard: Standard,
    ) -> Command {
        let mut command = Command::new(&self.path);
        command
            .arg0(&self.name)
            .args(&self.args)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(standard.input))
            .stdout(standard.output)
            .stderr(standard.error)
            .env("MUSTER_MODEL", model)
            // A signal that a terminal sends to all is for the server alone.
            .process_group(0);
        command
    }

    /// A directory for a worker. `None` without a sandbox, and where none can be made: it writes nowhere then.
    pub(crate) fn private_directory(&self) -> Option<HeldDir> {
        if self.sandbox == Sandbox::Off {
            return None;
        }
        let directory = private_directory(&self.temporary);
        let warn = |error: &io::Error| {
            let parent = self.temporary.display();
            if !self.lacks_directory.swap(true, Relaxed) {
                tracing::warn!(
                    "no directory in {parent} for a worker, which has nowhere to write: {error}"
                );
            }
        };
        directory.inspect_err(warn).ok()
    }
}
