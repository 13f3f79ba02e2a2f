//! The framework of the configuration: flags, variables, and the words of other servers, as texts for settings. What
//! there is to set is said by the parts of the server: each declares its flags and reads its own settings.
//!
//! Every setting is a flag, `--http-port 8000`, and a variable, `MUSTER_HTTP_PORT=8000`. The command line
//! beats `MUSTER_*`, which beats the variables of the containers that muster replaces (`compat`), which beat the
//! default. Whatever is wrong is reported at once, in one [`ConfigError`].
#![forbid(unsafe_code)]

mod booleans;
pub mod command_line;
pub mod compat;
mod environment;
mod flags;
mod gather;
mod given;
mod grammar;
mod manual;
mod report;
mod sources;
pub mod value;

pub use environment::{Environment, PathKind, ProcessEnvironment, variable_text};
pub use flags::{Alias, Flag, FlagTable, Takes, WithoutEffect, variable_of};
pub use gather::gather;
pub use given::{Given, Origin, Typed};
pub use report::{ConfigError, Notice, NoticeLevel};
pub use sources::Sources;
