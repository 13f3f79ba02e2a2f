//! Why the cache has no session to give.

use std::{fmt, io, path::PathBuf};

/// Why there is no session from the cache.
pub(super) enum Trouble {
    /// This could not be read, written or made.
    File(PathBuf, io::Error),
    /// ONNX Runtime does not make a file that it takes.
    Runtime(String),
    /// What is not for this cache, and why.
    Unfit(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::File(path, error) => write!(f, "{}: {error}", path.display()),
            Trouble::Runtime(text) | Trouble::Unfit(text) => f.write_str(text),
        }
    }
}
