//! What the operator wants: the command line and the environment, as plain values. Nothing else in the
//! server reads the environment.
//!
//! Every setting is a flag, `--http-port 8000`, and a variable, `MUSTER_HTTP_PORT=8000`. The command line
//! beats `MUSTER_*`, which beats the variables of the containers that muster replaces (`foreign.rs`),
//! which beat the default. Whatever is wrong is reported at once, in one [`ConfigError`].
#![forbid(unsafe_code)]

mod access;
mod aws;
mod batching;
mod cache;
mod capture;
mod command_line;
mod control;
mod emf;
mod environment;
mod flags;
mod foreign;
mod grpc;
mod health;
mod hosting;
mod inventory;
mod listeners;
mod metrics;
mod model_defaults;
mod monitoring;
mod multi_model;
mod named;
mod rate_limit;
mod report;
mod resolve;
mod sagemaker;
mod server;
mod sessions;
mod sources;
mod stores;
mod tensorflow;
mod tls;
mod trace;
mod value;
mod vertex;
mod xgboost;

#[cfg(test)]
mod tests;

use std::ffi::OsString;

pub use access::{AccessConfig, WireAccess};
pub use aws::{AsyncInvocations, AwsFacade, ObjectsAt};
pub use cache::{CacheConfig, RedisSettings, Secret};
pub use capture::CaptureConfig;
pub use control::{AtStart, ControlMode, ModelControl, OnDemand};
pub use emf::EmfConfig;
pub use environment::{Environment, PathKind, ProcessEnvironment};
pub use foreign::{VariableState, sagemaker_variables};
pub use grpc::{Compression, ConnectionAge, Grpc, Keepalive};
pub use health::HealthCheck;
pub use hosting::{HostedStart, HostedWay, Hosting, PingMode, PlatformFolder};
pub use metrics::MetricsConfig;
pub use model_defaults::ModelDefaults;
pub use multi_model::MultiModel;
pub use named::{LabelRule, NamedModels};
pub use rate_limit::{RateLimit, RateLimitResource};
pub use report::{ConfigError, Notice, NoticeLevel};
pub use sagemaker::{Dialect, InferenceType, SageMaker, Vendor};
pub use server::{
    BackendSetting, BodyPace, GpuLimit, Lifecycle, Limits, Listeners, LogConfig, LogFormat,
    ModelsFrom, QueueWait, Repository, Scheduling, ServerConfig,
};
pub use sessions::SessionSettings;
pub use stores::{Provider, StoreSettings, StoreUrl, Variables};
pub use tls::{HttpTls, PemFile, TlsFiles, TlsPorts};
pub use vertex::VertexAi;
pub use xgboost::{IndexBase, OutputKey, Xgboost, XgboostCsv};

use command_line::Parsed;
use machine::Machine;

/// What the process is to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Serve models: `muster`, `muster serve`.
    Serve(Box<ServerConfig>),
    /// `muster bench`, with everything that follows the word.
    Bench(Vec<OsString>),
    /// Ask a running server: `muster health`.
    Health(HealthCheck),
    /// Print this text to standard output and exit 0: `--help`, `--version`, `muster env`.
    Print(String),
}

/// Reads the command line, program name first, and the environment.
///
/// The error's text is complete: print it to standard error and exit 1.
pub fn read(
    args: impl IntoIterator<Item = OsString>,
    environment: &dyn Environment,
    machine: &Machine,
) -> Result<Command, ConfigError> {
    let mut problems = Vec::new();
    let serve = match command_line::parse(args.into_iter().collect(), &mut problems) {
        Parsed::Print(text) => return Ok(Command::Print(text)),
        Parsed::Bench(args) => return Ok(Command::Bench(args)),
        Parsed::Health(asked) => {
            return match health::resolve(asked, environment, &mut problems) {
                Some(check) if problems.is_empty() => Ok(Command::Health(check)),
                _ => Err(ConfigError::of_health(problems)),
            };
        }
        Parsed::Env(settings) => {
            return inventory::of(settings, environment, machine).map(Command::Print);
        }
        Parsed::Unknown => return Err(ConfigError::new(problems)),
        Parsed::Serve(serve) => serve,
    };
    let mut sources = sources::gather(&serve.settings, environment, &mut problems);
    if serve.triton {
        sources.offer_tritons();
    }
    if let Some(tensorflow) = &serve.tensorflow {
        tensorflow.offer(&mut sources, environment, &mut problems);
    }
    batching::offer(&mut sources, environment, &mut problems);
    monitoring::offer(&mut sources, environment, &mut problems);
    let config = resolve::resolve(&serve, sources, environment, machine, &mut problems);
    match problems.is_empty() {
        true => Ok(Command::Serve(Box::new(config))),
        false => Err(ConfigError::new(problems)),
    }
}
