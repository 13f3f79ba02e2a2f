//! A detector's outputs to boxes in the image as it was sent: arithmetic on slices, without any image.
//!
//! [`Layout::of`] decides once, at load, what an output of Ultralytics' models is; [`yolo`] reads one row of it.
//! [`Queries::of_model_type`] does the same for the models of Hugging Face that look for boxes by queries, and
//! [`queries`] reads one row of their two outputs. Both give [`Detection`]s in the order of the reference.

mod boxes;
mod detr;
mod layout;
mod nms;
mod thresholds;
mod yolo;

pub use boxes::{Detection, Placed};
pub use detr::{Queries, queries};
pub use layout::{Layout, LayoutError, QueryForm};
pub use thresholds::{MOST_DETECTIONS, Thresholds};
pub use yolo::yolo;
