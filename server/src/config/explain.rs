//! `muster explain`: what is to be explained, with the server's own settings of pipelines and engines.

use std::path::PathBuf;

use super::engines::{self, Engines};
use configuration::{Environment, FlagTable, command_line::Explain, gather};
use serving::pipeline::pipeline_settings::{self, PipelineSettings};

use crate::features::{self, FEATURES, PIPELINES};

/// What is to be explained.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainCommand {
    /// A folder of a model, or of several.
    pub path: PathBuf,
    /// Where the ensembles are written to, if anywhere.
    pub output: Option<PathBuf>,
    /// Where the graph is written to that is made for the folder's weights, if anywhere.
    pub write_onnx: Option<PathBuf>,
    /// The settings of pipelines.
    pub pipelines: PipelineSettings,
    /// Where the engines find their libraries.
    pub engines: Engines,
}

/// The command; `None`, with a further problem, where nothing is named.
pub(super) fn resolve(
    command: Explain,
    flags: &FlagTable,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> Option<ExplainCommand> {
    let sources = gather(&command.settings, flags, environment, problems);
    let pipelines = pipeline_settings::resolve(&sources, environment, problems);
    let engines = engines::resolve(&sources, false, problems);
    features::refuse(&FEATURES, &sources, problems);
    if !PIPELINES.is_in {
        problems.push(PIPELINES.missing());
    }
    let Some(path) = command.path else {
        problems.push("no folder is named; write muster explain DIR".to_owned());
        return None;
    };
    let Explain { output, write_onnx, .. } = command;
    Some(ExplainCommand { path, output, write_onnx, pipelines, engines })
}
