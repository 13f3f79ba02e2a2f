//! Clients that others wrote, in Python.

use std::{path::PathBuf, process::Command};

use super::{root, scratch, skip};

/// The interpreter of an environment with these packages; `None` without Python. `list` is a file of
/// `tests/clients`.
pub fn python(list: &str) -> Option<PathBuf> {
    let mut make = Command::new("python3");
    make.arg(root("tests/clients/environment.py")).arg(scratch()).arg(list);
    match run(&mut make) {
        Ok(interpreter) => Some(PathBuf::from(interpreter.trim())),
        Err(reason) => skipped(&format!("no environment with the packages of {list}: {reason}")),
    }
}

fn skipped(reason: &str) -> Option<PathBuf> {
    skip(&format!("tests of Python clients: {reason}"));
    None
}

/// Runs a command to its end. What it wrote is the error when it fails.
pub fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stdout) + &text(&output.stderr)),
    }
}
