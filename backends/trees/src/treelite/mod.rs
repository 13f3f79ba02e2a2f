//! Checkpoints of treelite, the form in which Triton's FIL takes models of any library. Pure.
//!
//! What such a file means is what treelite's own evaluator computes of it: the leaves are added to zero in the order of
//! the file, the sums are divided where it says so, base scores are added last, and a post-processor makes predictions.

mod bytes;
mod header;
mod model;
mod post;
mod tree;

use crate::{
    error::FormatError,
    forest::document::{Document, Library, Origin, Rounding},
    treelite::{bytes::Bytes, header::Header, model::Outputs, tree::TreeliteReader},
};

/// Could a file that begins so be a checkpoint, of whatever version?
///
/// It begins with the version of the library, and the types of thresholds and leaves.
pub fn is_checkpoint(begin: &[u8]) -> bool {
    header::version(begin).is_some()
}

/// Reads a checkpoint of version 3.9, or of 4.
///
/// # Errors
/// What is wrong, and at which byte, or in which tree.
pub fn read(bytes: &[u8]) -> Result<Document, FormatError> {
    let mut bytes = Bytes::new(bytes);
    let header = Header::read(&mut bytes)?;
    let outputs = Outputs::of(&header)?;
    let [major, minor, patch] = header.version;
    let version = format!("{major}.{minor}.{patch}");
    let origin = Origin { library: Library::Treelite, version, format: "checkpoint" };
    let mut document = Document::new(origin, post::transform(&header, &outputs)?);
    document.objective = header.post_processor.clone();
    document.classes = outputs.classes(header.task);
    document.features = header.features;
    document.rounding = if header.is_double { Rounding::Double } else { Rounding::Single };
    document.base = vec![0.0; outputs.sums()];
    document.added_last = outputs.base_scores(&header)?;
    document.trees.reserve_exact(header.trees);
    let mut reader = TreeliteReader::new(&header, &outputs, bytes.length());
    for number in 0..header.trees {
        document.trees.push(reader.tree(&mut bytes, number)?);
    }
    document.comparison = reader.comparison();
    document.average_over = outputs.average(&header)?;
    Ok(document)
}

#[cfg(test)]
mod tests;
