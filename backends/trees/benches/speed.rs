//! What a call on a forest costs, beside the libraries that wrote its file.
//!
//!     MUSTER_PYTHON=python3 cargo bench -p backend-trees --bench speed
//!
//! `MUSTER_PYTHON` names a Python with xgboost, lightgbm and NumPy, which makes the models: binary classification with
//! 30 features, `small` of 100 trees of depth 6, `large` of 1,000 of depth 8. Both sides are measured in turns, on one
//! thread, by processor time; a call is one of the engine, tensors included, or one of the library's C interface.
//! With onnxmltools and onnxruntime, or treelite, in that Python, the same XGBoost models are measured as ONNX and in
//! treelite's GTIL, too. Then: what a load takes in time and memory, and what two threads do on one forest.

use std::{
    fs,
    hint::black_box,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use backend::{
    Backend, Batch, DataType, Device, Instance, ModelSource, NamedTensor, Shape, Stop, Tensor,
};
use backend_trees::Trees;
use rustix::time::{ClockId, clock_gettime};

/// Turns of each side; the median of the ratios counts.
const TURNS: usize = 9;
const FEATURES: usize = 30;

/// The largest share of the library's time that is a success, by library, model and rows.
const GOALS: [(&str, &str, usize, f64); 16] = [
    ("xgboost", "small", 1, 0.07),
    ("xgboost", "large", 1, 0.25),
    ("xgboost", "small", 256, 1.0),
    ("xgboost", "large", 256, 0.8),
    ("onnx", "small", 1, 0.3),
    ("onnx", "large", 1, 0.3),
    ("onnx", "small", 256, 0.35),
    ("onnx", "large", 256, 0.25),
    ("gtil", "small", 1, 0.25),
    ("gtil", "large", 1, 0.12),
    ("gtil", "small", 256, 0.2),
    ("gtil", "large", 256, 0.08),
    ("lightgbm", "small", 1, 0.4),
    ("lightgbm", "large", 1, 0.4),
    ("lightgbm", "small", 256, 0.4),
    ("lightgbm", "large", 256, 0.4),
];

/// The libraries, which `peer.py` calls.
struct Peer {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(python: &Path, folder: &Path) -> Peer {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peer.py");
        let mut process = Command::new(python)
            .args([script.as_ref(), folder.as_os_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the Python that was named");
        let input = process.stdin.take().expect("it is piped");
        let output = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut peer = Peer { process, input, output };
        println!("{}; CPU in µs a call", peer.line());
        peer
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the peer answers");
        line.trim().to_owned()
    }

    /// `None` where the library is not installed.
    fn microseconds(&mut self, library: &str, model: &str, rows: usize) -> Option<f64> {
        writeln!(self.input, "{library} {model} {rows}").expect("the peer listens");
        self.line().parse().ok()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What this thread has computed so far. Other processes do not count.
fn computed() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Inputs of one call, with rows that differ from call to call.
fn blocks(rows: &[f32], count: usize, dtype: DataType) -> Vec<NamedTensor> {
    let shape = Shape::new(&[count, FEATURES]);
    let tensor = |values: &[f32]| match dtype {
        DataType::Fp64 => {
            Tensor::from_vec(shape.clone(), values.iter().map(|it| f64::from(*it)).collect())
        }
        _ => Tensor::from_vec(shape.clone(), values.to_vec()),
    };
    let blocks = rows.chunks_exact(count * FEATURES).take(200);
    blocks
        .map(|it| NamedTensor { name: "input__0".into(), tensor: tensor(it).expect("its size") })
        .collect()
}

/// The tenth part of the fastest calls, in microseconds.
fn ours(instance: &mut dyn Instance, blocks: &[NamedTensor], rows: usize) -> f64 {
    let (outputs, stop) = (["output__0".into()], Stop::new());
    let call = |input: &NamedTensor| {
        let inputs = std::slice::from_ref(input);
        let batch = Batch { signature: 0, inputs, outputs: &outputs, rows, stop: &stop };
        let begin = computed();
        black_box(instance.execute(&batch)).expect("an answer");
        (computed() - begin).as_secs_f64() * 1e6
    };
    let mut times: Vec<f64> = blocks.iter().map(call).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 10]
}

/// The argument with which this program loads one file and prints what that took, since memory of earlier loads is used
/// again by later ones.
const ONE_LOAD: &str = "--one-load";

/// Loads a file; prints the bytes that the process holds more at its end, and held more at most.
fn one_load(path: &Path) {
    let field = |name: &str| {
        let status = fs::read_to_string("/proc/self/status").expect("Linux");
        let line = status.lines().find(|it| it.starts_with(name)).expect("a field of Linux");
        let number = line.split_whitespace().nth(1).and_then(|it| it.parse::<f64>().ok());
        number.expect("a number") * 1024.0
    };
    let before = field("VmRSS:");
    let loaded = Trees.load(&ModelSource::new("large", path)).expect("the file of the library");
    println!("{} {}", field("VmRSS:") - before, field("VmHWM:") - before);
    drop(loaded);
}

/// [`one_load`] in a process of its own: bytes that are kept, and most bytes.
fn memory(path: &Path) -> (f64, f64) {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program).arg(ONE_LOAD).arg(path).output().expect("a process");
    let text = String::from_utf8(output.stdout).expect("numbers");
    let mut numbers = text.split_whitespace().map(|it| it.parse::<f64>().expect("a number"));
    let mut next = || numbers.next().expect("two numbers");
    (next(), next())
}

/// A goal that is met, or missed: 1.
fn judged(what: &str, value: f64, goal: f64, is_met: bool) -> usize {
    println!("{what:<44} {value:>7.2} {goal:>6}{}", if is_met { "" } else { "  MISSED" });
    usize::from(!is_met)
}

/// Loads of the large file: processor time beside XGBoost's, and memory as shares of the file.
fn loads(peer: &mut Peer, folder: &Path) -> usize {
    let path = folder.join("large.ubj");
    let bytes = fs::metadata(&path).expect("a file").len() as f64;
    let source = ModelSource::new("large", &path);
    let (kept, peak) = memory(&path);
    let (kept, peak) = (kept / bytes, peak / bytes);
    let peak = judged("load: peak of memory ÷ file", peak, 3.0, peak <= 3.0);
    let kept = judged("load: memory after it ÷ file", kept, 0.35, kept <= 0.35);
    let turns = (0..TURNS).map(|_| {
        let theirs = peer.microseconds("load", "large", 1).expect("it is installed");
        let begin = computed();
        black_box(Trees.load(&source)).expect("the file of the library");
        (computed() - begin).as_secs_f64() * 1e6 / theirs
    });
    let share = median(turns.collect());
    println!("the file has {:.1} MB", bytes / 1e6);
    peak + kept + judged("load: time ÷ XGBoost's", share, 2.0, share <= 2.0)
}

/// Calls that two threads make on one forest in the time of one thread's: by the clock, in which other programs on the
/// machine count, too; and by the processor time of a call, which grows only by what the two have in common.
fn threads(folder: &Path, rows: &[f32]) -> usize {
    let source = ModelSource::new("large", folder.join("large.ubj"));
    let loaded = Trees.load(&source).expect("the file of the library");
    let blocks = blocks(rows, 1, DataType::Fp32);
    let work = |times: usize| {
        let mut instance = loaded.instantiate(Device::Cpu).expect("an instance");
        let begin = computed();
        for _ in 0..times {
            black_box(ours(&mut *instance, &blocks, 1));
        }
        (computed() - begin).as_secs_f64()
    };
    // By the clock, and the processor time of one thread.
    let seconds = |count: usize| {
        let begin = Instant::now();
        let computed: f64 = thread::scope(|scope| {
            let threads: Vec<_> = (0..count).map(|_| scope.spawn(|| work(10))).collect();
            threads.into_iter().map(|it| it.join().expect("a thread")).sum()
        });
        (begin.elapsed().as_secs_f64(), computed / count as f64)
    };
    work(2);
    let turns = (0..TURNS).map(|_| {
        let (one, two) = (seconds(1), seconds(2));
        (2.0 * one.0 / two.0, 2.0 * one.1 / two.1)
    });
    let (by_clock, by_processor): (Vec<f64>, Vec<f64>) = turns.unzip();
    let (by_clock, by_processor) = (median(by_clock), median(by_processor));
    println!("{:<44} {by_processor:>7.2}", "two threads, by processor time");
    judged("two threads: calls ÷ one thread's", by_clock, 1.9, 1.9 <= by_clock)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|it| it == ONE_LOAD) {
        one_load(Path::new(&args.next().expect("a file")));
        return ExitCode::SUCCESS;
    }
    let Some(python) = std::env::var_os("MUSTER_PYTHON").map(PathBuf::from) else {
        println!(
            "nothing to compare with: MUSTER_PYTHON names a Python with xgboost, lightgbm and NumPy"
        );
        return ExitCode::SUCCESS;
    };
    let folder = std::env::temp_dir().join(format!("muster-trees-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let mut peer = Peer::start(&python, &folder);
    let bytes = fs::read(folder.join("rows.bin")).expect("the rows that the peer has written");
    let rows: Vec<f32> = bytes
        .chunks_exact(4)
        .map(|it| f32::from_le_bytes(it.try_into().expect("four bytes")))
        .collect();
    println!(
        "{:<10} {:<6} {:>5} {:>9} {:>9} {:>7} {:>6}",
        "library", "model", "rows", "library", "muster", "share", "goal"
    );
    let mut missed = 0;
    for (library, model, count, goal) in GOALS {
        let (ending, dtype) = match library {
            "lightgbm" => ("txt", DataType::Fp64),
            _ => ("ubj", DataType::Fp32),
        };
        if peer.microseconds(library, model, count).is_none() {
            println!("{library:<10} {model:<6} {count:>5}  not installed");
            continue;
        }
        let source = ModelSource::new(model, folder.join(format!("{model}.{ending}")));
        let loaded = Trees.load(&source).expect("the file of the library");
        let mut instance = loaded.instantiate(Device::Cpu).expect("an instance");
        let blocks = blocks(&rows, count, dtype);
        let turns = (0..TURNS).map(|_| {
            let theirs = peer.microseconds(library, model, count).expect("it is installed");
            (theirs, ours(&mut *instance, &blocks, count))
        });
        let (theirs, ours): (Vec<f64>, Vec<f64>) = turns.unzip();
        let share = median(ours.iter().zip(&theirs).map(|(a, b)| a / b).collect());
        let verdict = if share <= goal { "" } else { "  MISSED" };
        missed += usize::from(goal < share);
        let (theirs, ours) = (median(theirs), median(ours));
        println!(
            "{library:<10} {model:<6} {count:>5} {theirs:>9.2} {ours:>9.2} {share:>7.3} {goal:>6}{verdict}"
        );
    }
    missed += loads(&mut peer, &folder) + threads(&folder, &rows);
    let _ = fs::remove_dir_all(&folder);
    println!("{}", if missed == 0 { "every goal is met" } else { "some goals are missed" });
    ExitCode::SUCCESS
}
