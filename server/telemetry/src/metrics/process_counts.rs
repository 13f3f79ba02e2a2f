//! What the processes of a model version have done, over all of its loads.

use std::sync::{Arc, OnceLock};

use backend::{ModelProcess, ProcessFigures, Times};

use super::histogram::{Histogram, nanoseconds};

/// The process of one load; nothing where the model runs in the server.
pub(super) type LoadProcess = OnceLock<Arc<dyn ModelProcess>>;

/// The sum of several loads.
#[derive(Default)]
pub(super) struct ProcessCounts {
    /// Loads whose process serves.
    pub(super) up: u64,
    /// The sums. The process is that of the load that began last.
    pub(super) figures: ProcessFigures,
}

impl ProcessCounts {
    /// Adds those of a load that has processes.
    pub(super) fn add(&mut self, more: &ProcessFigures) {
        let sum = &mut self.figures;
        self.up += u64::from(more.pid.is_some());
        sum.pid = more.pid.or(sum.pid);
        sum.restarts.iter_mut().zip(more.restarts).for_each(|(it, more)| *it += more);
        sum.starts.add(&more.starts);
        sum.turn_overheads.add(&more.turn_overheads);
        sum.private_bytes += more.private_bytes;
        sum.arena_bytes += more.arena_bytes;
        sum.cpu_time += more.cpu_time;
        sum.dropped_lines += more.dropped_lines;
    }

    /// The load is gone, and its process with it: what was counted stays.
    pub(super) fn retire(&mut self, last: &ProcessFigures) {
        let ended = ProcessFigures { pid: None, private_bytes: 0, arena_bytes: 0, ..last.clone() };
        self.add(&ended);
    }
}

/// As a histogram of nanoseconds.
pub(super) fn histogram_of(times: &Times) -> Histogram {
    let bounds: Vec<u64> = times.bounds().iter().map(|it| nanoseconds(*it)).collect();
    Histogram::of(bounds, times.counts(), nanoseconds(times.sum()))
}
