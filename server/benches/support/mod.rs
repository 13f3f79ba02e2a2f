//! What the benchmarks share: the release server as a process, the models that it is measured with and their
//! answers, the machine.
// Each benchmark is a program of its own and uses a part of this.
#![allow(dead_code)]

pub mod machine;
pub mod process;
pub mod reply;
pub mod server;
pub mod spread;
pub mod workload;

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// Whatever goes wrong ends the run: half a table would be taken for a whole one.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// The end of a benchmark's `main`.
pub fn end(outcome: Outcome<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Holds model repositories and what else is written, and is removed with what is in it.
pub struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    pub fn new() -> Outcome<TemporaryFolder> {
        let path = std::env::temp_dir().join(format!("muster-bench-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(TemporaryFolder(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // What is left is a few megabytes in the system's folder for such things.
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// Three digits are more than the machine gives.
pub fn short(micros: f64) -> String {
    if micros < 10.0 { format!("{micros:.2}") } else { format!("{micros:.0}") }
}
