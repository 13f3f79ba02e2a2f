//! A model in the text.

use crate::metrics::{counters::Counts, series::Series};

/// A model, and its counts of one moment.
pub(super) struct Shown<'a> {
    pub(super) series: &'a Series,
    pub(super) counts: Counts,
}
