//! A server of this project as a child process: started on free ports of this machine, and stopped when it is dropped.
//! What wants one is a tool of its own and knows the server by its command line and its log alone.
#![forbid(unsafe_code)]

mod child;
mod cpus;
mod said;
pub mod signals;
pub mod usage;
mod words;

use std::{
    env, io,
    path::{Path, PathBuf},
};

pub use child::{End, Launch, Limit, NotReady, Running, StartError};
pub use cpus::{cpus, on_cpus};
pub use words::quoted;

/// The program that serves.
const SERVER: &str = "muster";

/// The server beside this program, else the one on the `PATH`.
///
/// # Errors
/// When the system does not say where this program is.
pub fn server() -> io::Result<PathBuf> {
    let beside = env::current_exe()?.with_file_name(SERVER);
    if beside.is_file() {
        return Ok(beside);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|it| it.join(SERVER)).find(|it| it.is_file());
    // Where there is none, the error of starting it names where it should be.
    Ok(on_path.unwrap_or(beside))
}

/// Have servers this variable from this process?
pub fn inherit(variable: &str) -> bool {
    env::var_os(variable).is_some()
}

/// Has this machine a GPU of NVIDIA's?
pub fn has_gpu() -> bool {
    Path::new("/dev/nvidia0").exists() || Path::new("/dev/dxg").exists()
}
