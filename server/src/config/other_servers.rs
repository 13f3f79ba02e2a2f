//! Defaults of other servers: muster has them when it is started under another server's name.

use super::batching_file;
use configuration::{
    Environment, Sources,
    command_line::Serve,
    compat::{text_embeddings_command, triton_command},
};

/// Offers the defaults of the server under whose name muster was started.
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
    match &serve.text_embeddings {
        Some(text_embeddings) => text_embeddings.offer(sources, environment, problems),
        None => text_embeddings_command::offer_of_task(sources, environment, problems),
    }
}
