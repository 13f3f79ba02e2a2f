//! What a sound goes through before and behind a graph: what its files say, and the three calls around a run.

mod explain;
mod extractor;
mod frames;
mod graph;
mod head;
mod pipeline;

pub(crate) use pipeline::SoundPipeline;
