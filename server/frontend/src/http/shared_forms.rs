//! The forms of HTTP replies whose outputs may lie in shared memory.

use protocol::{
    kserve_v2::{self, SharedParts, generate::Framing},
    sagemaker, tfs,
};

/// A form of a reply whose outputs may lie in shared memory.
pub trait TakeShared {
    /// Takes the list of inputs and outputs that lie in shared memory out of the form.
    fn take_shared(&mut self) -> Option<Box<SharedParts>> {
        None
    }
}

impl TakeShared for kserve_v2::ReplyFormat {
    fn take_shared(&mut self) -> Option<Box<SharedParts>> {
        self.shared.take()
    }
}

impl TakeShared for sagemaker::ReplyFormat {
    fn take_shared(&mut self) -> Option<Box<SharedParts>> {
        match self {
            sagemaker::ReplyFormat::KserveV2(format) => format.take_shared(),
            sagemaker::ReplyFormat::Line(format) => format.take_shared(),
            _ => None,
        }
    }
}

impl TakeShared for tfs::Results {}

impl TakeShared for Framing {}
