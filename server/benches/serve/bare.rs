//! The same runs without a server: threads that run instances in a loop.

use std::{
    hint::black_box,
    num::NonZeroUsize,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use backend::{BackendError, Batch, Device, Instance, NamedTensor, Stop, Tensor};
use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};

use crate::support::{Outcome, machine::Pinning, server::Plan, workload::Workload};

/// What one block of a loop did.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Rows per second of all threads together.
    pub rows: f64,
    /// Processor time of this process per row.
    pub cpu_per_row: Duration,
}

/// As many instances as the server has, of as many threads.
pub struct BareLoop<'w> {
    workload: &'w Workload,
    instances: Vec<Box<dyn Instance>>,
    pinning: Pinning,
}

impl<'w> BareLoop<'w> {
    pub fn new(workload: &'w Workload, plan: Plan, pinning: Pinning) -> Outcome<BareLoop<'w>> {
        let model = workload.load(plan.threads)?;
        let instances = (0..plan.instances).map(|_| model.instantiate(Device::Cpu));
        Ok(BareLoop { workload, instances: instances.collect::<Result<_, _>>()?, pinning })
    }

    /// Runs batches of `rows` rows on `loops` instances for that long.
    pub fn run(&mut self, loops: usize, rows: NonZeroUsize, block: Duration) -> Outcome<Pace> {
        let Workload { input, expected, .. } = self.workload;
        // A buffer for each row, as the server's batches are made of.
        let (dtype, shape, row) =
            (input.tensor.dtype(), input.tensor.shape(), input.tensor.to_bytes());
        let copy = |_| Tensor::new(dtype, shape.clone(), Bytes::copy_from_slice(&row));
        let parts = (0..rows.get()).map(copy).collect::<Result<Vec<_>, _>>()?;
        let tensor = Tensor::concat(&parts).ok_or("rows of one shape do not join")?;
        let inputs = [NamedTensor { name: input.name.clone(), tensor }];
        let outputs = [expected.output.clone()];
        let (rows, stop) = (rows.get(), Stop::new());
        let batch = Batch { signature: 0, inputs: &inputs, outputs: &outputs, rows, stop: &stop };
        for instance in self.instances.iter_mut().take(loops) {
            if !expected.are_outputs(&instance.execute(&batch)?, rows) {
                return Err(
                    format!("{}: the bare loop's answer is wrong", self.workload.name).into()
                );
            }
        }

        let (ended, start, pinning) =
            (AtomicBool::new(false), Barrier::new(loops + 1), self.pinning);
        let turn = |instance: &mut dyn Instance| -> Result<u64, BackendError> {
            let pinned = pinning.to_server_core();
            start.wait();
            let mut runs = 0;
            while !ended.load(Ordering::Relaxed) {
                black_box(instance.execute(&batch)?);
                runs += 1;
            }
            pinned.map(|()| runs).map_err(|it| BackendError::Execute(it.to_string()))
        };
        thread::scope(|scope| {
            let instances = self.instances.iter_mut().take(loops);
            let threads: Vec<_> = instances.map(|it| scope.spawn(|| turn(&mut **it))).collect();
            start.wait();
            let (began, cpu) = (Instant::now(), process_cpu());
            thread::sleep(block);
            ended.store(true, Ordering::Relaxed);
            let mut runs = 0;
            for thread in threads {
                runs += thread.join().map_err(|_| "a thread of the bare loop panicked")??;
            }
            let (took, cpu) = (began.elapsed(), process_cpu().saturating_sub(cpu));
            let done = (runs * rows as u64) as f64;
            Ok(Pace { rows: done / took.as_secs_f64(), cpu_per_row: cpu.div_f64(done.max(1.0)) })
        })
    }
}

fn process_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}
