//! The operator's wishes: the command line and the environment, as plain values.

mod assemble;
mod batching_file;
mod command;
mod engines;
mod explain;
mod flags;
mod health;
mod inventory;
mod isolation;
mod lifecycle;
mod models_from;
mod monitoring_file;
mod onednn;
mod other_servers;
mod pull;
mod recommending;
mod server_config;
mod startup;
mod surroundings;

#[cfg(test)]
mod tests;

pub use command::{CheckCommand, Command, read};
pub use engines::{Engines, ScriptFlavor};
pub use explain::ExplainCommand;
pub use health::HealthCheck;
pub use isolation::Isolation;
pub use lifecycle::Lifecycle;
pub use onednn::{OneDnn, onednn};
pub use pull::PullCommand;
pub use recommending::Recommending;
pub use server_config::ServerConfig;
pub use startup::Startup;

use configuration::compat::sagemaker::{VariableState, known_variables};

/// All flags of the server.
#[cfg(test)]
pub(crate) fn flags() -> configuration::FlagTable {
    flags::table()
}

/// Every known variable of SageMaker's containers, and its effect. A `*` at the end of a name stands for any letters.
pub fn sagemaker_variables() -> Vec<(String, VariableState)> {
    known_variables(&flags::table())
}
