//! Called by the name of another server, muster has its defaults.

use super::batching_file;
use configuration::{Environment, Sources, command_line::Serve, compat::triton_command};

/// Where nothing is given, it is as the server has it by whose name muster was called.
pub(super) fn offer_defaults(
    serve: &Serve,
    sources: &mut Sources,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) {
    if serve.triton {
        triton_command::offer_defaults(sources);
    }
    if let Some(tensorflow) = &serve.tensorflow {
        tensorflow.offer_image(sources, environment, problems);
        batching_file::offer_defaults(sources, problems);
        tensorflow.offer_defaults(sources);
    }
}
