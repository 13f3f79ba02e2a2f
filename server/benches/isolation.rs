//! What does a process of its own cost a model? The same runs by the engine `identity` in this process and in a worker,
//! in turns, and how soon the end of a worker is noticed. `cargo bench -p muster --bench isolation`, which fails with
//! `-- --check` where a goal is missed, and makes fewer rounds with `-- --quick`;
//! docs/background/performance.md explains.

use std::{
    collections::BTreeSet,
    fs,
    process::ExitCode,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use backend::{
    Backend, BackendError, Batch, Device, Instance, Model, ModelSource, NamedTensor, Shape, Stop,
    Tensor,
};
use isolation::{Children, Sandbox, Which};
use muster::{
    config::{Engines, Isolation, ScriptFlavor},
    engines::EngineSettings,
};
use rustix::{
    param::clock_ticks_per_second,
    process::{Pid, Signal, kill_process},
    time::{ClockId, clock_gettime},
};

/// How long one round of one way lasts.
const ROUND: Duration = Duration::from_millis(400);

/// Rounds of each way, in turns, and of a quick look.
const ROUNDS: usize = 9;
const QUICK_ROUNDS: usize = 3;

/// Workers that are killed in a run.
const KILLS: usize = 20;

/// The length of a run in which a worker is killed, and how long it has run by then.
const LONG_RUN: Duration = Duration::from_millis(200);
const KILLED_AFTER: Duration = Duration::from_millis(20);

/// The median time from a kill until the run has failed, at most.
const NOTICED_WITHIN: Duration = Duration::from_millis(5);

/// The length of a run in microseconds, and the numbers of its input.
const CASES: [(u64, usize); 6] =
    [(0, 16), (300, 16), (1000, 16), (10_000, 16), (0, 150_528), (0, 4 << 20)];

/// Instances that run at once: one, and as many as keep two processors busy.
const LANES: [usize; 2] = [1, 2];

/// The least throughput of runs of so many microseconds beside this process's where both processors are busy.
const LEAST_THROUGHPUT: [(u64, f64); 3] = [(300, 0.93), (1000, 0.97), (10_000, 0.99)];

/// Most microseconds of a round trip without a run, and of processors that it adds: where both sides have one
/// processor, and where each has its own.
const TOGETHER: [f64; 2] = [8.0, 12.0];
const APART: [f64; 2] = [45.0, 60.0];

/// The same model in one of the two ways.
struct Way {
    model: Arc<dyn Model>,
    instances: Vec<Box<dyn Instance>>,
    /// Microseconds per run, of each round.
    walls: Vec<f64>,
    /// Microseconds of processors per run, of each round.
    cpus: Vec<f64>,
}

fn engines(all: bool) -> Vec<Arc<dyn Backend>> {
    let engines = Engines {
        python: None,
        python_env_dir: None,
        installs_requirements: false,
        script_flavor: ScriptFlavor::Auto,
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
    let settings = EngineSettings::new(engines, String::new(), None);
    let which = if all { Which::All } else { Which::Named(BTreeSet::new()) };
    let isolation =
        Isolation { which, arena_bytes: 64 << 20, sandbox: Sandbox::On, kept: Vec::new() };
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
    let instances = instances.collect();
    Way { model, instances, walls: Vec::new(), cpus: Vec::new() }
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

fn input(numbers: usize) -> NamedTensor {
    let tensor = Tensor::from_vec(Shape::new(&[1, numbers]), vec![1f32; numbers]);
    NamedTensor { name: "INPUT0".into(), tensor: tensor.expect("a tensor") }
}

/// The time from the end of a worker until its run has failed, of each kill.
fn deaths() -> Vec<Duration> {
    let input = [input(16)];
    let deaths = (0..KILLS).map(|_| {
        // A model of its own for each: one whose workers die too often waits before it starts the next.
        let mut way = way(true, LONG_RUN.as_micros() as u64, 1);
        let figures = way.model.processes().iter().next().expect("a process").process.figures();
        let worker = Pid::from_raw(figures.pid.expect("a worker") as i32).expect("a process id");
        let killed = thread::spawn(move || {
            thread::sleep(KILLED_AFTER);
            kill_process(worker, Signal::KILL).expect("a worker that lives");
            Instant::now()
        });
        let (stop, outputs): (_, [Arc<str>; 1]) = (Stop::new(), ["OUTPUT0".into()]);
        let batch = Batch { inputs: &input, outputs: &outputs, rows: 1, signature: 0, stop: &stop };
        let instance = way.instances.first_mut().expect("an instance");
        let outcome = instance.execute(&batch);
        let failed = Instant::now();
        assert!(matches!(outcome, Err(BackendError::Crashed(_))), "{outcome:?}");
        failed.saturating_duration_since(killed.join().expect("a kill"))
    });
    deaths.collect()
}

/// A line of the table; times are microseconds of one run.
struct Line {
    run: u64,
    numbers: usize,
    lanes: usize,
    /// In this process, by the clock and of processors.
    inside: [f64; 2],
    /// In a worker.
    outside: [f64; 2],
}

impl Line {
    fn measure(run: u64, numbers: usize, lanes: usize, rounds: usize) -> Line {
        let input = input(numbers);
        let (mut inside, mut outside) = (way(false, run, lanes), way(true, run, lanes));
        for _ in 0..rounds {
            inside.round(&input);
            outside.round(&input);
        }
        let [inside, outside] =
            [inside, outside].map(|mut it| [median(&mut it.walls), median(&mut it.cpus)]);
        Line { run, numbers, lanes, inside, outside }
    }

    fn added(&self) -> f64 {
        self.outside[1] - self.inside[1]
    }

    /// Runs in a worker for one in this process.
    fn throughput(&self) -> f64 {
        self.inside[0] / self.outside[0]
    }

    fn print(&self) {
        let Line { run, lanes, inside, outside, .. } = self;
        println!(
            "| {run} µs | {} KiB | {lanes} | {:.1} µs, {:.1} µs | {:.1} µs, {:.1} µs | {:.1} µs | {:.3} |",
            self.numbers * 4 / 1024,
            inside[0],
            inside[1],
            outside[0],
            outside[1],
            self.added(),
            self.throughput()
        );
    }

    /// The goals that it misses.
    fn missed(&self) -> Vec<String> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let [most_wall, most_added] = if processors == 1 { TOGETHER } else { APART };
        let mut missed = Vec::new();
        let mut goal = |name: &str, is_met: bool, found: f64, wanted: f64| {
            if !is_met {
                missed.push(format!("{name}: {found:.3}, {wanted} wanted"));
            }
        };
        let (wall, added, throughput) = (self.outside[0], self.added(), self.throughput());
        if (self.run, self.numbers, self.lanes) == (0, 16, 1) {
            goal("µs of a round trip", wall <= most_wall, wall, most_wall);
            goal("µs of processors that it adds", added <= most_added, added, most_added);
        }
        let least = LEAST_THROUGHPUT.iter().find(|it| it.0 == self.run);
        // As many lanes as keep all processors busy.
        if let Some((run, least)) = least.filter(|_| self.lanes == processors) {
            goal(&format!("throughput at {run} µs"), *least <= throughput, throughput, *least);
        }
        missed
    }
}

fn main() -> ExitCode {
    let has = |flag: &str| std::env::args().any(|it| it == flag);
    let rounds = if has("--quick") { QUICK_ROUNDS } else { ROUNDS };
    let mut all_missed = Vec::new();
    println!(
        "| Run | Input | Instances | In process: time, CPU | In a worker: time, CPU | Added CPU | Throughput |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for ((run, numbers), lanes) in CASES.iter().flat_map(|it| LANES.map(|lanes| (*it, lanes))) {
        let line = Line::measure(run, numbers, lanes, rounds);
        line.print();
        all_missed.extend(line.missed());
    }
    let mut deaths = deaths();
    deaths.sort();
    let (median, longest) = (deaths[KILLS / 2], deaths[KILLS - 1]);
    println!(
        "\nFrom `kill -9` of a worker until its run has failed: {median:.1?}, {longest:.1?} at most ({KILLS} kills)."
    );
    if NOTICED_WITHIN < median {
        all_missed.push(format!("the end of a worker: {median:.1?}, {NOTICED_WITHIN:.1?} wanted"));
    }
    println!();
    all_missed.iter().for_each(|it| println!("missed: {it}"));
    match has("--check") && !all_missed.is_empty() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}
