//! Does an interpreter have what models need? It is run for this, for a moment.

use std::{
    io::{self, Read},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

/// What it runs. Its last line tells what is missing: the server has all that ends among its children reaped, so that
/// a status may be nobody's.
const CODE: &str = "
import sys
said = 'old'
if sys.version_info >= (3, 9):
    try:
        import numpy
        said = 'fine'
    except BaseException as error:
        said = 'numpy ' + ' '.join(str(error).split())
sys.stdout.write('\\n' + said + '\\n')
";

/// It is ended after so long.
const PATIENCE: Duration = Duration::from_secs(20);

/// Most bytes that are read of it.
const LONGEST: u64 = 64 << 10;

/// What an interpreter lacks.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Lack {
    #[error("{0} cannot be run: {1}")]
    Program(String, io::Error),
    #[error("{0} has not started within {PATIENCE:?}")]
    Time(String),
    #[error("{0} ends before it says whether it has numpy: run {0} -c 'import numpy' to see why")]
    Silent(String),
    #[error(
        "{0} is older than Python 3.9, and models need that or later: name another by --python"
    )]
    Version(String),
    #[error(
        "{0} has no numpy that works ({1}), and models in Python need it: {0} -m pip install numpy"
    )]
    Numpy(String, String),
}

/// Runs the interpreter. Blocking.
///
/// # Errors
/// What it lacks, and the command that gives it.
pub(crate) fn probe(interpreter: &Path) -> Result<(), Lack> {
    let name = interpreter.display().to_string();
    let mut command = Command::new(interpreter);
    command.args(["-c", CODE]).stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|it| Lack::Program(name.clone(), it))?;
    let output = child.stdout.take();
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        let mut said = Vec::new();
        let read = output.map_or(Ok(0), |it| it.take(LONGEST).read_to_end(&mut said));
        // Nobody waits for it after the time is up.
        let _ = sender.send(read.map(|_| said));
    };
    let reader = thread::Builder::new().name("probe".to_owned()).spawn(read);
    let said = match reader {
        Ok(_) => receiver.recv_timeout(PATIENCE),
        Err(error) => Ok(Err(error)),
    };
    if !matches!(said, Ok(Ok(_))) {
        // It may have ended meanwhile.
        let _ = child.kill();
    }
    // Others may have taken its status.
    let _ = child.wait();
    let said = match said {
        Ok(said) => said.map_err(|it| Lack::Program(name.clone(), it))?,
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            return Err(Lack::Time(name));
        }
    };
    let said = String::from_utf8_lossy(&said);
    match said.lines().last().unwrap_or_default().split_once(' ') {
        Some(("numpy", reason)) => Err(Lack::Numpy(name, reason.to_owned())),
        _ if said.ends_with("\nfine\n") => Ok(()),
        _ if said.ends_with("\nold\n") => Err(Lack::Version(name)),
        _ => Err(Lack::Silent(name)),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn what_an_interpreter_lacks_is_told_with_the_command_that_gives_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("python3");
        let said = |script: &str| {
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            probe(&path).map_err(|it| it.to_string())
        };
        assert_eq!(said("echo hello; echo; echo fine"), Ok(()));
        let missing = said("echo \"numpy No module named 'numpy'\"").unwrap_err();
        assert!(missing.contains("(No module named 'numpy')"), "{missing}");
        assert!(missing.ends_with("python3 -m pip install numpy"), "{missing}");
        let old = said("echo; echo old").unwrap_err();
        assert!(old.contains("older than Python 3.9") && old.contains("--python"), "{old}");
        let silent = said("kill -9 $$").unwrap_err();
        assert!(silent.contains("ends before it says"), "{silent}");
        let none = probe(Path::new("/nowhere/python3")).unwrap_err().to_string();
        assert!(none.contains("/nowhere/python3 cannot be run"), "{none}");
    }
}
