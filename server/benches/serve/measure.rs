//! The blocks of one case: the server and the bare loop in turns, so that what else happens on the machine
//! falls on both alike.

use std::{num::NonZeroUsize, time::Duration};

use loadgen::{Plan as LoadPlan, Report};

use crate::{
    bare::{BareLoop, Pace},
    cases::Case,
    support::{
        Outcome,
        machine::{Clock, Pinning},
        server::{Plan, Server},
        workload::{Workload, answered},
    },
};

/// Of a block's length: how long requests are sent before they count.
const WARM_UP: f64 = 0.25;

/// One block of the server and those of the loop beside it.
pub struct Round {
    pub served: Report,
    /// Mean rows of the server's runs.
    pub rows_per_run: f64,
    /// One row per run.
    pub single: Pace,
    /// Runs as large as the server's; `None` where those were of one row.
    pub batched: Option<Pace>,
}

/// All that was measured of a case.
pub struct Measured {
    pub case: Case,
    pub plan: Plan,
    /// Threads of the bare loop.
    pub loops: usize,
    pub rounds: Vec<Round>,
    /// Share of the machine's time over all blocks.
    pub steal: f64,
}

/// A workload that is being measured.
pub struct Bench<'b> {
    server: &'b Server,
    workload: &'b Workload,
    plan: Plan,
    bare: BareLoop<'b>,
}

impl<'b> Bench<'b> {
    pub fn new(server: &'b Server, workload: &'b Workload, pinning: Pinning) -> Outcome<Bench<'b>> {
        let plan = server.plan(workload.name)?;
        let bare = BareLoop::new(workload, plan, pinning)?;
        Ok(Bench { server, workload, plan, bare })
    }

    pub fn measure(&mut self, case: Case, block: Duration, rounds: usize) -> Outcome<Measured> {
        // With fewer connections than instances some of them could only stand still.
        let loops = self.plan.instances.min(case.connections);
        let load = self.load(case, block)?;
        let before = Clock::read();
        // Its batches grow with the load and its instances are made when there is work for them: the first
        // block only shows how far.
        let (_, rows_per_run) = self.serve(case, &load)?;
        let size = NonZeroUsize::new(rows_per_run.round() as usize).unwrap_or(NonZeroUsize::MIN);
        let mut measured = Vec::with_capacity(rounds);
        for round in 0..rounds {
            measured.push(match round % 2 {
                0 => {
                    let (served, rows_per_run) = self.serve(case, &load)?;
                    let (single, batched) = self.loop_bare(loops, size, block)?;
                    Round { served, rows_per_run, single, batched }
                }
                _ => {
                    let (single, batched) = self.loop_bare(loops, size, block)?;
                    let (served, rows_per_run) = self.serve(case, &load)?;
                    Round { served, rows_per_run, single, batched }
                }
            });
        }
        let steal = Clock::read().steal_since(&before);
        Ok(Measured { case, plan: self.plan, loops, rounds: measured, steal })
    }

    fn load(&self, case: Case, block: Duration) -> Outcome<LoadPlan> {
        Ok(LoadPlan {
            connections: case.connections,
            warm_up: block.mul_f64(WARM_UP),
            duration: Some(block),
            ..self.workload.closed_loop(self.server, case.format)?
        })
    }

    /// A block of requests, and the mean rows of the runs that they led to.
    fn serve(&self, case: Case, load: &LoadPlan) -> Outcome<(Report, f64)> {
        let before = self.server.counts(case.model)?;
        let report = answered(&case.name(), load)?;
        let rows_per_run = self.server.counts(case.model)?.rows_per_run_since(&before);
        Ok((report, rows_per_run))
    }

    fn loop_bare(
        &mut self,
        loops: usize,
        size: NonZeroUsize,
        block: Duration,
    ) -> Outcome<(Pace, Option<Pace>)> {
        let single = self.bare.run(loops, NonZeroUsize::MIN, block)?;
        let batched = match size.get() {
            1 => None,
            _ => Some(self.bare.run(loops, size, block)?),
        };
        Ok((single, batched))
    }
}
