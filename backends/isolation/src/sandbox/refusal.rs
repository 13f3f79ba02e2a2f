//! Why a worker gets no sandbox.

use std::path::PathBuf;

/// Why it gets none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SandboxError {
    #[error("{0} threads run already, and one may")]
    Threads(usize),
    #[error(
        "--worker-sandbox=strict needs landlock and seccomp, and the kernel lacks {0}; use another kernel, or \
         --worker-sandbox=on, which does without"
    )]
    Kernel(String),
    #[error("{what} cannot be set: {error} (--worker-sandbox)")]
    Unset { what: &'static str, error: String },
    #[error(
        "code of users is not run with --worker-sandbox=strict, which leaves nothing that such code needs; use \
         --worker-sandbox=on, or leave the model out"
    )]
    Program,
    /// A setting names what no setting opens.
    #[error(
        "parameter {setting} names '{}', which is not opened to the model: {reason}; name a directory below the \
         model's own, or one that is there for it alone, as below /var/cache, or set --worker-sandbox=off",
        .path.display()
    )]
    NotOpened { setting: String, path: PathBuf, reason: String },
}
