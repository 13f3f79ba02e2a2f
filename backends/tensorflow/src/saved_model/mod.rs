//! Our own look at `saved_model.pb`, before TensorFlow sees it: which graphs and signatures there are, and what a
//! signature reaches. Pure, but for reading the file.

mod proto;
mod reach;
mod read;
mod signature;

pub(crate) use read::{folder_of, graph_of, read};
pub(crate) use signature::{Signature, signature_of};
