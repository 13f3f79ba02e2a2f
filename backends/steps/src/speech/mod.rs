//! What a sound goes through before and behind a graph: what its files say, and the three calls around a run.

mod extractor;
mod graph;
mod pipeline;

pub(crate) use pipeline::SoundPipeline;
