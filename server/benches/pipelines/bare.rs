//! The runs of texts without a server: threads that run instances over batches that were made before.

use std::{
    hint::black_box,
    num::NonZeroUsize,
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use backend::{BackendError, Batch, Device, Instance, NamedTensor, Shape, Stop, Tensor};
use rustix::time::{ClockId, clock_gettime};

use crate::{folder::Folder, support::Outcome, texts::Random};

/// How texts are put together for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Each by itself.
    Single,
    /// Eight as they come, padded to the longest.
    ArrivalOrder,
    /// Sorted by length, as many as come to 512 tokens with their padding.
    Sorted,
}

/// Rows of a run in the order of arrival.
const ROWS: usize = 8;
/// Tokens of a run of sorted texts.
const TOKENS: usize = 512;

impl Packing {
    /// The lengths of each run.
    fn runs(self, lengths: &[usize]) -> Vec<Vec<usize>> {
        match self {
            Packing::Single => lengths.iter().map(|it| vec![*it]).collect(),
            Packing::ArrivalOrder => lengths.chunks(ROWS).map(<[usize]>::to_vec).collect(),
            Packing::Sorted => {
                let mut sorted = lengths.to_vec();
                sorted.sort_unstable();
                let mut runs: Vec<Vec<usize>> = Vec::new();
                for length in sorted {
                    match runs.last_mut() {
                        Some(run) if (run.len() + 1) * length <= TOKENS => run.push(length),
                        _ => runs.push(vec![length]),
                    }
                }
                Random(3).shuffle(&mut runs);
                runs
            }
        }
    }
}

/// What one block of a loop did.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Texts per second of all threads together.
    pub texts: f64,
    /// Processor time of this process per text.
    pub cpu_per_text: Duration,
}

/// One run's tensors, and how many texts are in it.
struct Run {
    inputs: [NamedTensor; 2],
    rows: usize,
}

impl Run {
    fn new(lengths: &[usize]) -> Outcome<Run> {
        let longest = lengths.iter().copied().max().unwrap_or(1);
        let fill = |value: fn(usize) -> i64| -> Vec<i64> {
            let row =
                |length: usize| (0..longest).map(move |it| if it < length { value(it) } else { 0 });
            lengths.iter().flat_map(|it| row(*it)).collect()
        };
        let tensor = |name: &str, values| -> Outcome<NamedTensor> {
            let tensor = Tensor::from_vec(Shape::new(&[lengths.len(), longest]), values)?;
            Ok(NamedTensor { name: name.into(), tensor })
        };
        let ids = tensor("input_ids", fill(|it| 5 + (it as i64 * 37) % 400))?;
        let mask = tensor("attention_mask", fill(|_| 1))?;
        Ok(Run { inputs: [ids, mask], rows: lengths.len() })
    }
}

/// As many instances as the server has, of as many threads.
pub struct BareLoop {
    output: &'static str,
    instances: Vec<Box<dyn Instance>>,
}

impl BareLoop {
    pub fn new(folder: &Folder, instances: usize, threads: NonZeroUsize) -> Outcome<BareLoop> {
        let model = folder.load(threads)?;
        let instances = (0..instances).map(|_| model.instantiate(Device::Cpu));
        let instances = instances.collect::<Result<_, _>>()?;
        Ok(BareLoop { output: folder.output, instances })
    }

    /// Runs texts of these lengths, over and over, on `loops` instances for that long.
    pub fn run(
        &mut self,
        loops: usize,
        packing: Packing,
        lengths: &[usize],
        block: Duration,
    ) -> Outcome<Pace> {
        let runs = packing.runs(lengths);
        let runs = runs.iter().map(|it| Run::new(it)).collect::<Outcome<Vec<_>>>()?;
        let outputs = [self.output.into()];
        let (ended, start, next) =
            (AtomicBool::new(false), Barrier::new(loops + 1), AtomicUsize::new(0));
        let turn = |instance: &mut dyn Instance| -> Result<usize, BackendError> {
            let stop = Stop::new();
            let mut texts = 0;
            start.wait();
            while !ended.load(Ordering::Relaxed) {
                let Run { inputs, rows } = &runs[next.fetch_add(1, Ordering::Relaxed) % runs.len()];
                let batch =
                    Batch { signature: 0, inputs, outputs: &outputs, rows: *rows, stop: &stop };
                black_box(instance.execute(&batch)?);
                texts += rows;
            }
            Ok(texts)
        };
        thread::scope(|scope| {
            let instances = self.instances.iter_mut().take(loops);
            let threads: Vec<_> = instances.map(|it| scope.spawn(|| turn(&mut **it))).collect();
            start.wait();
            let (began, cpu) = (Instant::now(), process_cpu());
            thread::sleep(block);
            ended.store(true, Ordering::Relaxed);
            let mut texts = 0;
            for thread in threads {
                texts += thread.join().map_err(|_| "a thread of the bare loop panicked")??;
            }
            let (took, cpu) = (began.elapsed(), process_cpu().saturating_sub(cpu));
            let done = texts as f64;
            Ok(Pace { texts: done / took.as_secs_f64(), cpu_per_text: cpu.div_f64(done.max(1.0)) })
        })
    }
}

fn process_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}
