//! Which forms of replies over HTTP may lie in shared memory in part.

use protocol::{
    kserve_v2::{self, SharedParts, generate::Framing},
    sagemaker, tfs,
};

/// The form of a reply, which may lie in shared memory in part.
pub trait TakeShared {
    /// What of request and reply does.
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
