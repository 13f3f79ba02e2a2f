//! One array of an archive.

use backend::Tensor;

use super::zip::{File, Listed};
use crate::{
    expansion::{Elements, Room},
    npy,
};
use inference::{
    error::Error,
    signature::{Port, Signature},
};

/// The array in a file. What it takes as a tensor of the input's type is taken off `room`.
pub(super) fn array(port: &Port, file: &File, room: &mut Room) -> Result<Tensor, Error> {
    room.take(npy::length(port, &file.data)?)?;
    npy::decode(port, &file.data)
}

/// Elements of a file, by its first bytes and its length. Where its header is longer than that, each byte may be an
/// element.
pub(super) fn elements(file: &Listed) -> usize {
    npy::elements(&file.start, file.plain).unwrap_or(file.plain)
}

/// Bytes that [`array`] takes at most: none where the array is of the only type that the model's inputs have.
pub(super) fn expanded(signature: &Signature, file: &Listed) -> usize {
    let in_place = |it: &Port| npy::is_in_place(it, &file.start);
    match signature.inputs.iter().all(in_place) {
        true => 0,
        false => elements(file).saturating_mul(Elements::of(signature).size),
    }
}
