//! A model in the text.

use crate::metrics::{counters::Counts, process_counts::DeviceCounts, series::Series};

/// A model, and its counts of one moment.
pub(super) struct Shown<'a> {
    pub(super) series: &'a Series,
    pub(super) counts: Counts,
    /// Nothing where the model runs in the server.
    pub(super) processes: DeviceCounts,
}
