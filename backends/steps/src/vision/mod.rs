//! What an image goes through before and behind a graph: what its files say, and the three calls around a run.

mod answer;
mod asked;
mod explain;
mod graph;
mod labels;
mod layout;
mod pipeline;
mod plan;
mod preparation;
mod towers;
mod ultralytics;

pub(crate) use layout::PixelLayout;
pub(crate) use pipeline::ImagePipeline;
pub(crate) use plan::TO_NUMBERS;
pub(crate) use preparation::{Preparation, PreparedImage};
