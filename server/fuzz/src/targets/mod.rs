//! All targets.

mod arrays;
mod config;
mod control;
mod folder;
mod frames;
mod grpc;
mod head;
mod inflate;
mod invocations;
mod json;
mod media;
mod records;
mod saved_model;
mod stream;
mod texts;
mod trees;

use crate::seen::Seen;

/// One decoder, and what its inputs look like.
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// Decodes an input. Panics where something does not hold.
    pub decode: fn(&[u8]) -> Seen,
    /// Inputs from which others are made.
    pub examples: fn() -> Vec<Vec<u8>>,
    /// Words of the format.
    pub words: &'static [&'static str],
}

/// All targets.
pub const ALL: &[&Target] = &[
    &json::KSERVE_JSON,
    &json::KSERVE_BINARY,
    &json::GENERATE,
    &json::TFS_JSON,
    &json::TFS_EXAMPLES,
    &invocations::JSON,
    &invocations::ANY,
    &invocations::CSV,
    &invocations::LIBSVM,
    &texts::TEXTS,
    &records::RECORDIO,
    &arrays::NPY,
    &arrays::NPZ,
    &stream::EVENTS,
    &stream::WEBSOCKET,
    &head::ROUTER,
    &head::HEADERS,
    &config::TEXT,
    &config::JSON,
    &control::CONTROL,
    &folder::FOLDER,
    &trees::TREES,
    &saved_model::SAVED_MODEL,
    &frames::FRAMES,
    &grpc::INFER,
    &grpc::TFS_PREDICT,
    &grpc::TFS_EXAMPLES,
    &inflate::INFLATE,
    &media::IMAGE,
    &media::IMAGE_BY_LIBRARY,
    &media::SOUND,
];
