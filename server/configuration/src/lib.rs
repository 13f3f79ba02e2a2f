//! The framework of the configuration: flags, variables, and the words of other servers, as texts for settings. What
//! there is to set is said by the parts of the server: each declares its flags and reads its own settings.
//!
//! Every setting is a flag, `--http-port 8000`, and a variable, `MUSTER_HTTP_PORT=8000`. The command line
//! beats `MUSTER_*`, which beats the variables of the containers that muster replaces (`compat`), which beat the
//! default. Whatever is wrong is reported at once, in one [`ConfigError`].
#![forbid(unsafe_code)]

pub mod command_line;
pub mod compat;
mod environment;
mod flags;
mod gather;
mod given;
mod report;
mod sources;
pub mod value;

pub mod access;
pub mod emf;
pub mod grpc;
pub mod hosting;
pub mod limits;
pub mod listeners;
pub mod sagemaker;
pub mod sessions;
pub mod tls;
pub mod vertex;
pub mod xgboost;

pub use environment::{Environment, PathKind, ProcessEnvironment, variable_text};
pub use flags::{Alias, Flag, FlagTable, Takes, WithoutEffect, variable_of};
pub use gather::gather;
pub use given::{Given, Origin, Typed};
pub use report::{ConfigError, Notice, NoticeLevel};
pub use sources::Sources;

pub use access::{AccessConfig, WireAccess};
pub use emf::EmfConfig;
pub use grpc::{Compression, ConnectionAge, Grpc, Keepalive};
pub use hosting::{Hosting, PingMode};
pub use limits::{BodyPace, Limits};
pub use listeners::Listeners;
pub use sagemaker::{Dialect, InferenceType, SageMaker, Vendor};
pub use sessions::SessionSettings;
pub use tls::{HttpTls, PemFile, TlsFiles, TlsPorts};
pub use vertex::VertexAi;
pub use xgboost::{IndexBase, OutputKey, Xgboost, XgboostCsv};
