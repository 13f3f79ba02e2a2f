//! What does the way through the scheduler cost beside the run, for a model that nobody else uses? One request
//! after the other, in this process: on the calling task, by way of a worker that sleeps, and by way of one
//! that looks for work before it sleeps. `cargo bench -p muster --bench handoff`;
//! docs/background/performance.md explains.

use std::{
    collections::BTreeMap,
    hint::spin_loop,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use backend::{BackendError, Batch, Instance, NamedTensor, Shape, Tensor};
use rustix::time::{ClockId, clock_gettime};
use schedule::{
    Extent, NICENESS, QueueSettings, RunLimit, Scheduler, Submission, admission::LongestStay,
    learn::RunTimes, policy::BatchPolicy, queue::QueuePolicy, row_check::RowCheck,
    run_context::RunContext, slot::Slot, work::Work,
};
use telemetry::metrics::{Metrics, MetricsSettings, ModelOptions};

/// Requests of one row of the table.
const REQUESTS: usize = 5000;

/// Of which the first are not counted.
const WARM_UP: usize = 500;

/// Keeps its processor for as long as a small model would, and gives its input back.
struct Busy(Duration);

impl Instance for Busy {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let until = Instant::now() + self.0;
        while Instant::now() < until {
            spin_loop();
        }
        let tensor = batch.inputs[0].tensor.clone();
        Ok(vec![NamedTensor { name: "y".into(), tensor }])
    }
}

/// A way from the request to the instance.
struct Way {
    name: &'static str,
    caller_runs_below: Duration,
    spin: Duration,
}

fn scheduler(way: &Way, run: Duration) -> Scheduler {
    let settings = QueueSettings {
        model: "busy".into(),
        batching: BatchPolicy::eager(4),
        queue_policies: vec![QueuePolicy::default()],
        default_level: 0,
        preserve_ordering: false,
        hold: 0,
        longest_stay: LongestStay::Unbounded,
        caller_runs_below: way.caller_runs_below,
        time_follows: schedule::TimeFollows::Rows,
        spin: way.spin,
        row_check: RowCheck::Off,
        packing: None,
        keep_costs: None,
        run_limit: RunLimit::Auto,
        watchdog: Arc::default(),
        busy: schedule::Busy::default(),
        niceness: NICENESS,
    };
    let context = RunContext {
        answers_calls: false,
        others: Vec::new(),
        batches: true,
        outputs: vec!["y".into()],
        rerun: Default::default(),
        splits: Default::default(),
        ragged: None,
        padding: None,
    };
    let slot = Slot::empty(Arc::new(move || Ok(Box::new(Busy(run)))));
    let metrics = Metrics::new(MetricsSettings::default());
    let options = ModelOptions { tags: BTreeMap::new(), ..ModelOptions::default() };
    let metrics = metrics.model("busy", 1, &options);
    Scheduler::new(settings, context, vec![slot], RunTimes::default(), metrics)
}

fn submission() -> Submission {
    let tensor = Tensor::from_vec(Shape::new(&[1, 16]), vec![1f32; 16]).expect("16 floats");
    let inputs = vec![NamedTensor { name: "x".into(), tensor }];
    Submission {
        is_alone: false,
        work: Work {
            about: None,
            parts: None,
            signature: 0,
            inputs,
            outputs: vec!["y".into()],
            rows: 1,
        },
        accepted: Instant::now(),
        shape_key: 0,
        length: 0,
        priority: 0,
        queue_timeout: None,
        deadline: None,
        extent: Extent::Whole,
    }
}

/// Processor time of this process.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

fn main() {
    let ways = [
        Way {
            name: "calling task",
            caller_runs_below: Duration::from_secs(1),
            spin: Duration::ZERO,
        },
        Way { name: "worker", caller_runs_below: Duration::ZERO, spin: Duration::ZERO },
        Way {
            name: "worker that looks for 200 µs",
            caller_runs_below: Duration::ZERO,
            spin: Duration::from_micros(200),
        },
    ];
    println!("| run µs | pause µs | way | beside the run: p50 µs | p99 µs | processor µs |");
    println!("|--:|--:|---|--:|--:|--:|");
    for run in [Duration::ZERO, Duration::from_micros(100)] {
        for pause in [Duration::ZERO, Duration::from_micros(30), Duration::from_millis(1)] {
            for way in &ways {
                let (mut beside, cpu) = measure(way, run, pause);
                beside.sort_unstable();
                let micros = |it: Duration| it.as_secs_f64() * 1e6;
                println!(
                    "| {} | {} | {} | {:.1} | {:.1} | {:.1} |",
                    run.as_micros(),
                    pause.as_micros(),
                    way.name,
                    micros(beside[beside.len() / 2]),
                    micros(beside[beside.len() * 99 / 100]),
                    micros(cpu.saturating_sub(run)),
                );
            }
        }
    }
}

/// Time of each request without its run, and processor time of a request with it.
fn measure(way: &Way, run: Duration, pause: Duration) -> (Vec<Duration>, Duration) {
    let scheduler = scheduler(way, run);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime of one thread");
    let mut beside = Vec::with_capacity(REQUESTS);
    let mut used = Duration::ZERO;
    for number in 0..REQUESTS {
        let before = cpu();
        let submission = submission();
        let begin = Instant::now();
        let done = runtime.block_on(scheduler.submit(submission)).expect("an answer");
        let took = begin.elapsed();
        if WARM_UP <= number {
            used += cpu() - before;
            beside.push(took.saturating_sub(done.timings.infer));
        }
        // As a client that takes its time: the threads go to sleep.
        if !pause.is_zero() {
            thread::sleep(pause);
        }
    }
    let counted = u32::try_from(beside.len()).unwrap_or(u32::MAX);
    (beside, used / counted.max(1))
}
