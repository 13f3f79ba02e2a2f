//! Which replies may lie in shared memory in part, and what limits its use over HTTP.

use super::super::service::Service;
use crate::shared::Bounds;
use protocol::{
    kserve_v2::{self, SharedParts, generate::Framing},
    sagemaker, tfs,
};

/// The form of a reply, which may lie in shared memory in part.
pub(super) trait MayShare {
    /// What of request and reply does.
    fn take_shared(&mut self) -> Option<Box<SharedParts>> {
        None
    }
}

impl MayShare for kserve_v2::ReplyFormat {
    fn take_shared(&mut self) -> Option<Box<SharedParts>> {
        self.shared.take()
    }
}

impl MayShare for sagemaker::ReplyFormat {
    fn take_shared(&mut self) -> Option<Box<SharedParts>> {
        match self {
            sagemaker::ReplyFormat::KserveV2(format) => format.take_shared(),
            sagemaker::ReplyFormat::Line(format) => format.take_shared(),
            _ => None,
        }
    }
}

impl MayShare for tfs::Results {}

impl MayShare for Framing {}

/// What inputs in shared memory may take.
pub(super) fn bounds(service: &Service) -> Bounds<'_> {
    let body = &service.settings.body;
    Bounds { limit: body.limit, budget: &body.budget }
}
