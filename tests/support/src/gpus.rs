//! A machine with two GPUs that are not there: NVIDIA's management library is a small one made for the test
//! (`fixtures/nvml.c`), the server and what it makes of it are real.

use std::{path::PathBuf, process::Command, sync::OnceLock};

use super::{NO_GPUS, Process, Repository, root, scratch};

/// The folder with the library. Where Rust links, there is a `cc`.
pub fn driver() -> &'static str {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = scratch().join("nvml");
        std::fs::create_dir_all(&folder).unwrap();
        // Under a name of its own first: another process may be looking at it.
        let new = folder.join(std::process::id().to_string());
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(&new).arg(root("tests/fixtures/nvml.c"));
        assert!(compiler.status().unwrap().success());
        std::fs::rename(&new, folder.join("libnvidia-ml.so.1")).unwrap();
        folder
    });
    folder.to_str().unwrap()
}

/// A server on that machine.
pub fn start(repository: &Repository, flags: &[&str], environment: &[(&str, &str)]) -> Process {
    let mut all = vec![("LD_LIBRARY_PATH", driver()), (NO_GPUS.0, "0,1")];
    all.extend(environment);
    let mut server = Process::start(repository, flags, &all);
    server.wait_ready();
    server
}
