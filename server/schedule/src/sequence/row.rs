//! A request in a run of sequences, and what came of it.

use super::table::CarriedState;
use crate::work::{Done, Work};
use inference::request::SequenceId;

/// A request in its row of a batch.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub work: &'a Work,
    pub id: &'a SequenceId,
    pub start: bool,
    pub end: bool,
    /// What the sequence has carried; `None` before its first run.
    pub carried: Option<&'a CarriedState>,
}

/// What came of one request.
pub(super) struct Ran {
    pub done: Done,
    pub carried: Option<CarriedState>,
}
