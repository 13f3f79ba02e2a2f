//! What an image goes through before and behind a graph: what its files say, and the three calls around a run.

mod asked;
mod graph;
mod labels;
mod pipeline;
mod plan;
mod ultralytics;

pub(crate) use pipeline::ImagePipeline;
