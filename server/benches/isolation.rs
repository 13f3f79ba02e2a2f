//! What does a process of its own cost a model? The same runs by the engine `identity` in this process and in a worker,
//! in turns. `cargo bench -p muster --bench isolation`; docs/performance.md explains.

use std::{
    collections::BTreeSet,
    fs,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use backend::{Backend, Batch, Device, Instance, ModelSource, NamedTensor, Shape, Stop, Tensor};
use isolation::{Children, Sandbox, Which};
use muster::{
    config::{Engines, Isolation},
    engines::EngineSettings,
};
use rustix::{
    param::clock_ticks_per_second,
    time::{ClockId, clock_gettime},
};

/// How long one round of one way lasts.
const ROUND: Duration = Duration::from_millis(400);

/// Rounds of each way, in turns.
const ROUNDS: usize = 9;

/// The length of a run in microseconds, and the numbers of its input.
const CASES: [(u64, usize); 6] =
    [(0, 16), (300, 16), (1000, 16), (10_000, 16), (0, 150_528), (0, 4 << 20)];

/// Instances that run at once: one, and as many as keep two processors busy.
const LANES: [usize; 2] = [1, 2];

/// The same model in one of the two ways.
struct Way {
    instances: Vec<Box<dyn Instance>>,
    /// Microseconds per run, of each round.
    walls: Vec<f64>,
    /// Microseconds of processors per run, of each round.
    cpus: Vec<f64>,
}

fn engines(all: bool) -> Vec<Arc<dyn Backend>> {
    let engines = Engines {
        onnxruntime_library: None,
        pytorch_plugin: None,
        tensorflow_library: None,
        tensorflow_sessions: None,
        tensorflow_warmup_iterations: 0,
        tensorflow_checks_methods: false,
        tensorflow_tags: BTreeSet::new(),
        tensorflow_is_bfloat16: false,
        model_cache_dir: None,
    };
    let settings = EngineSettings { engines, onednn: String::new(), memory: None };
    let which = if all { Which::All } else { Which::Named(BTreeSet::new()) };
    let isolation = Isolation { which, arena_bytes: 64 << 20, sandbox: Sandbox::On };
    let program = env!("CARGO_BIN_EXE_muster").into();
    settings.isolated_engines(&isolation, program, &Children::default()).expect("engines")
}

fn way(all: bool, microseconds: u64, lanes: usize) -> Way {
    let mut source = ModelSource::new("m", "");
    let mut set = |key: &str, value: &str| source.options.insert(key.into(), value.into());
    set("latency_mode", "burn");
    set("latency_alpha_us", &microseconds.to_string());
    let engines = engines(all);
    let identity = engines.iter().find(|it| it.name() == "identity").expect("identity");
    let model = identity.load(&source).expect("the model loads");
    let instances = (0..lanes).map(|_| model.instantiate(Device::Cpu).expect("an instance"));
    Way { instances: instances.collect(), walls: Vec::new(), cpus: Vec::new() }
}

/// Processor time of this process and of its workers, in seconds.
fn processor_time() -> f64 {
    let own = clock_gettime(ClockId::ProcessCPUTime);
    let ticks = clock_ticks_per_second() as f64;
    own.tv_sec as f64 + own.tv_nsec as f64 * 1e-9 + of_workers() / ticks
}

fn of_workers() -> f64 {
    let own = std::process::id().to_string();
    let pids = fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    let stats = pids.filter_map(|it| fs::read_to_string(it.path().join("stat")).ok());
    let ticks = stats.filter_map(|stat| {
        let mut fields = stat.rsplit(") ").next()?.split(' ');
        (fields.nth(1)? == own).then_some(())?;
        let user: f64 = fields.nth(9)?.parse().ok()?;
        let system: f64 = fields.next()?.parse().ok()?;
        Some(user + system)
    });
    ticks.sum()
}

impl Way {
    fn round(&mut self, input: &NamedTensor) {
        let (cpu, start) = (processor_time(), Instant::now());
        let runs: u32 = thread::scope(|scope| {
            let lanes = self.instances.iter_mut();
            let lanes: Vec<_> =
                lanes.map(|it| scope.spawn(|| runs(&mut **it, input, start))).collect();
            lanes.into_iter().map(|it| it.join().expect("a lane")).sum()
        });
        let (wall, runs) = (start.elapsed().as_secs_f64(), f64::from(runs));
        self.walls.push(wall / runs * 1e6);
        self.cpus.push((processor_time() - cpu) / runs * 1e6);
    }
}

/// Runs one instance until the round is over.
fn runs(instance: &mut dyn Instance, input: &NamedTensor, start: Instant) -> u32 {
    let outputs: [Arc<str>; 1] = ["OUTPUT0".into()];
    let (stop, inputs) = (Stop::new(), [input.clone()]);
    let batch = Batch { inputs: &inputs, outputs: &outputs, rows: 1, signature: 0, stop: &stop };
    let mut runs = 0;
    while start.elapsed() < ROUND {
        instance.execute(&batch).expect("a run");
        runs += 1;
    }
    runs
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    println!(
        "| Run | Input | Instances | In process: time, CPU | In a worker: time, CPU | Added CPU | Throughput |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for ((microseconds, numbers), lanes) in
        CASES.iter().flat_map(|it| LANES.map(|lanes| (*it, lanes)))
    {
        let tensor = Tensor::from_vec(Shape::new(&[1, numbers]), vec![1f32; numbers]);
        let input = NamedTensor { name: "INPUT0".into(), tensor: tensor.expect("a tensor") };
        let (mut inside, mut outside) =
            (way(false, microseconds, lanes), way(true, microseconds, lanes));
        for _ in 0..ROUNDS {
            inside.round(&input);
            outside.round(&input);
        }
        let [one, other] =
            [&mut inside, &mut outside].map(|it| (median(&mut it.walls), median(&mut it.cpus)));
        println!(
            "| {microseconds} µs | {} KiB | {lanes} | {:.1} µs, {:.1} µs | {:.1} µs, {:.1} µs | {:.1} µs | {:.3} |",
            numbers * 4 / 1024,
            one.0,
            one.1,
            other.0,
            other.1,
            other.1 - one.1,
            one.0 / other.0
        );
    }
}
