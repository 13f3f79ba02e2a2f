//! `muster explain`: what folders with text models were understood to be, and the ensembles that do the same by hand.

use std::sync::Arc;

use backend::Backend;
use loading::explain::{ExplainError, explain, report, write, write_graph};

use crate::config::ExplainCommand;

/// The text for standard output. Blocking: graphs are opened, and files copied where that is wanted.
///
/// # Errors
/// When there is no model, or the ensembles cannot be written.
pub fn run(command: &ExplainCommand, engines: &[Arc<dyn Backend>]) -> Result<String, ExplainError> {
    let explained = explain(&command.path, engines, &command.pipelines)?;
    let mut text = report(&explained);
    if let Some(output) = &command.output {
        write(&explained, output)?;
        text.push_str(&format!("\nWritten to {}\n", output.display()));
    }
    if let Some(file) = &command.write_onnx {
        write_graph(&command.path, command.pipelines.precision, file)?;
        text.push_str(&format!("\nThe graph is written to {}\n", file.display()));
    }
    Ok(text)
}
