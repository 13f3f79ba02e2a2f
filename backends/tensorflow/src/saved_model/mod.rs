//! Our own look at `saved_model.pb`, before TensorFlow sees it: which graphs and signatures there are, and what a
//! signature reaches. Pure, but for reading the file and looking at those beside it.

mod danger;
mod default;
mod error;
mod exempt;
mod files;
mod look;
mod overrides;
mod prediction_log;
mod proto;
mod reach;
mod read;
mod records;
mod replay;
mod shared_rows;
mod signature;
mod sources;

pub(crate) use danger::{Danger, danger_of};
pub(crate) use error::{Defect, SavedModelError};
pub(crate) use files::{check_files, stamps_of};
pub use look::{Look, look};
pub(crate) use overrides::{Overrides, overrides_of};
pub(crate) use proto::MetaGraph;
pub(crate) use read::{GraphChoice, folder_of, graph_of, read};
pub(crate) use replay::{Replay, replays_of};
pub(crate) use signature::{Signature, signatures_of};
