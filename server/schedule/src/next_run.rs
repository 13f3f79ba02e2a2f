//! The jobs of the next run, out of a queue that has one to make.

use std::time::Instant;

use telemetry::metrics::BatchReason;

use crate::{
    pack::{WINDOW, pack},
    packing::{Candidate, leader},
    queue::{Job, Queue},
};

impl Queue {
    /// Takes the jobs that [`Queue::decide`] meant by so many for that reason, and says why they are no more. Where
    /// rows of unequal length wait, these are the run that is next in the cheapest way to cut what waits into runs.
    pub fn take_run(
        &mut self,
        jobs: usize,
        reason: BatchReason,
        now: Instant,
    ) -> (Vec<(u64, Job)>, BatchReason) {
        let Some((places, reason)) = self.packed_run(now) else { return (self.take(jobs), reason) };
        let taken = self.take_at(&places);
        if let Some(newest) = taken.iter().map(|(_, it)| it.pending.enqueued_at).max() {
            self.pass_over(newest, now);
        }
        (taken, reason)
    }

    /// Places of the jobs of the next run, ascending, in the order of service. `None` where the first jobs are meant.
    fn packed_run(&self, now: Instant) -> Option<(Vec<usize>, BatchReason)> {
        let packing = self.packing()?;
        let window: Vec<(usize, usize, &Job)> = self.window(WINDOW).collect();
        let candidates: Vec<Candidate> = window
            .iter()
            .map(|(_, level, job)| Candidate {
                level: *level,
                deadline: job.deadline,
                passed_over: job.passed_over,
            })
            .collect();
        let drain = packing.drain();
        let (oldest, _, first) = window.get(leader(&candidates, drain, now))?;
        let pending = first.pending;
        let alike = window.iter().filter(|(place, _, job)| {
            let it = job.pending;
            let may_join = !pending.is_alone && !it.is_alone;
            (may_join || place == oldest)
                && it.shape_key == pending.shape_key
                && (it.length == 0) == (pending.length == 0)
        });
        if pending.length == 0 {
            // Of one shape: as many as fit, the leading job first.
            let most = self.batching().max_rows.max(pending.rows);
            let mut rows = pending.rows;
            let others = alike.filter(|(place, ..)| place != oldest).filter(|(_, _, job)| {
                rows += job.pending.rows;
                rows <= most
            });
            let mut places: Vec<usize> = others.map(|it| it.0).chain([*oldest]).collect();
            places.sort_unstable();
            let reason = if rows <= most { BatchReason::Idle } else { BatchReason::Full };
            return Some((places, reason));
        }
        let (places, lengths): (Vec<usize>, Vec<usize>) =
            alike.map(|(place, _, job)| (*place, job.pending.length)).unzip();
        let oldest = places.iter().position(|it| it == oldest)?;
        let bounds = packing.bounds();
        let run = pack(&lengths, oldest, packing.costs(), bounds);
        let reason = if run.len() == bounds.rows {
            BatchReason::Full
        } else if run.len() < self.len() {
            BatchReason::Shapes
        } else {
            BatchReason::Idle
        };
        Some((run.into_iter().map(|it| places[it]).collect(), reason))
    }
}

#[cfg(test)]
mod tests;
