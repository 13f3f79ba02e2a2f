//! The engine of TorchScript models.

use std::path::Path;

use super::{skip, target};

/// The flag that names the engine: a test's program lies one folder deeper than the server, which looks for it by
/// itself.
pub fn flag() -> String {
    format!("--pytorch-plugin={}", target().join("pytorch/libmuster_pytorch.so").display())
}

/// The flag, where there is the engine.
pub fn plugin() -> Option<String> {
    let flag = flag();
    if !flag.split_once('=').is_some_and(|(_, plugin)| Path::new(plugin).is_file()) {
        skip("tests of TorchScript models: python3 backends/pytorch/prepare.py has not been run");
        return None;
    }
    Some(flag)
}
