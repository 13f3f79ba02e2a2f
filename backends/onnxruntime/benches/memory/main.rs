//! What many models hold in memory once each has run, with two instances each as a server makes them under load,
//! against one plain session each; and what two instances get done at the same time.
//!
//! `cargo bench -p backend-onnxruntime --bench memory` makes models of random weights, measures each way in processes
//! of their own and prints Markdown. With `-- DIR` the models are the `.onnx` files there that take images: the first
//! dimension 1, open ones 224. With `-- --quick` there are few models, and the rounds are short.

#[path = "../../tests/support/onnx_file.rs"]
mod onnx_file;

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use backend::{
    Backend, Batch, DataType, Device, Instance, ModelSource, NamedTensor, Placement, Shape, Stop,
    Tensor,
};
use backend_onnxruntime::{OnnxRuntime, Options};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The first argument of a process that measures.
const CHILD: &str = "measure";

/// How the models are held.
const WAYS: [(&str, &str, usize); 3] = [
    ("plain", "one session each, an arena each", 1),
    ("apart", "two instances each, an arena for each of them", 2),
    ("common", "two instances each, one arena (the default)", 2),
];

fn main() -> ExitCode {
    backend_onnxruntime::disable_telemetry();
    let arguments: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    let outcome = match arguments.split_first() {
        Some((first, rest)) if first == CHILD => child(rest),
        _ => bench(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(arguments: &[String]) -> Outcome<()> {
    let quick = arguments.iter().any(|it| it == "--quick");
    let given = arguments.iter().find(|it| !it.starts_with("--")).map(PathBuf::from);
    let made =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("memory-{}", std::process::id()));
    if given.is_none() {
        make(&made, if quick { 3 } else { 24 })?;
    }
    let folder = given.as_ref().unwrap_or(&made);
    let (rounds, seconds) = if quick { (1, "0.2") } else { (6, "0.5") };
    let outcome = tables(folder, rounds, seconds);
    // Tens of megabytes that nobody needs, whatever happened.
    let _ = fs::remove_dir_all(&made);
    outcome
}

/// Networks of 2 to 11 MiB, over images of 56 to 224 pixels.
fn make(folder: &Path, count: u64) -> Outcome<()> {
    fs::create_dir_all(folder)?;
    for number in 0..count {
        let (channels, side) =
            ([64, 96, 128][number as usize % 3], [56, 112, 224][number as usize / 3 % 3]);
        let layers = 16 + number % 4;
        let path = folder.join(format!("net{number:02}.onnx"));
        onnx_file::convolutions(&path, layers, channels, side, number + 1)?;
    }
    Ok(())
}

fn tables(folder: &Path, rounds: usize, seconds: &str) -> Outcome<()> {
    println!(
        "| {} | loaded, MiB | when each has run | of plain sessions | given back | runs/s |",
        folder.display()
    );
    println!("|---|--:|--:|--:|--:|--:|");
    let mut found: Vec<Vec<[f64; 4]>> = vec![Vec::new(); WAYS.len()];
    for round in 0..rounds {
        // Each comes first as often as the others: a machine gets slower as it gets warm.
        for place in 0..WAYS.len() {
            let at = (round + place) % WAYS.len();
            found[at].push(measure_in_process(folder, WAYS[at].0, seconds)?);
        }
    }
    let median = |of: &[[f64; 4]], at: usize| {
        let mut column: Vec<f64> = of.iter().map(|it| it[at]).collect();
        column.sort_by(f64::total_cmp);
        column.get(column.len() / 2).copied().unwrap_or_default()
    };
    let plain = found.first().map_or(1.0, |it| median(it, 1));
    for ((_, about, _), found) in WAYS.iter().zip(&found) {
        let [loaded, ran, back, runs] = [0, 1, 2, 3].map(|it| median(found, it));
        println!(
            "| {about} | {loaded:.0} | {ran:.0} | {:.2} | {back:.0} | {runs:.1} |",
            ran / plain
        );
    }
    Ok(())
}

fn measure_in_process(folder: &Path, way: &str, seconds: &str) -> Outcome<[f64; 4]> {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.arg(CHILD).arg(folder).args([way, seconds]).output()?;
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    <[f64; 4]>::try_from(numbers)
        .map_err(|_| format!("{way}: {}", String::from_utf8_lossy(&output.stderr)).into())
}

/// A model with its instances, and what it is asked.
struct Loaded {
    inputs: Vec<NamedTensor>,
    output: Arc<str>,
    instances: Vec<Box<dyn Instance>>,
}

fn child(arguments: &[String]) -> Outcome<()> {
    let [folder, way, seconds] = arguments else { return Err("arguments".into()) };
    let way = WAYS.iter().find(|it| it.0 == way).ok_or("which way?")?;
    let engine = OnnxRuntime::new(Options::default());
    engine.open()?;
    let before = resident()?;
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|it| it.map(|it| it.path())).collect::<Result<_, _>>()?;
    paths.retain(|it| it.extension().is_some_and(|it| it == "onnx"));
    paths.sort();
    let mut models: Vec<Loaded> =
        paths.iter().map(|it| load(&engine, it, way)).collect::<Outcome<_>>()?;
    let loaded = resident()? - before;
    for model in &mut models {
        side_by_side(model, Duration::ZERO)?;
    }
    let ran = resident()? - before;
    engine.give_back_memory();
    let back = resident()? - before;
    // All models in turn, each on both of its instances at the same time.
    let (each, mut runs, began) = (Duration::from_secs_f64(seconds.parse()?), 0, Instant::now());
    for model in &mut models {
        runs += side_by_side(model, each)?;
    }
    println!("{loaded} {ran} {back} {}", runs as f64 / began.elapsed().as_secs_f64());
    Ok(())
}

fn load(
    engine: &OnnxRuntime,
    path: &Path,
    (way, _, count): &(&str, &str, usize),
) -> Outcome<Loaded> {
    let instances = (*count).try_into()?;
    let placements = vec![Placement { device: Device::Cpu, instances }];
    let mut source = ModelSource { placements, ..ModelSource::new("measured", path) };
    if *way != "common" {
        source.options.insert("session.use_env_allocators".to_owned(), "0".to_owned());
        source
            .options
            .insert("session.use_device_allocator_for_initializers".to_owned(), "0".to_owned());
    }
    let model = engine.load(&source)?;
    let spec = model.spec().ok_or("no specification")?;
    let input = |it: &backend::TensorSpec| -> Outcome<NamedTensor> {
        let open = |at| if at == 0 { 1 } else { 224 };
        let dims = it.dims.iter().enumerate().map(|(at, it)| it.unwrap_or(open(at)));
        let dims: Vec<usize> = dims.collect();
        let tensor = Tensor::zeros(it.dtype, Shape::new(&dims))?;
        Ok(NamedTensor { name: it.name.clone(), tensor })
    };
    let inputs = spec.inputs.iter().map(input).collect::<Outcome<_>>()?;
    debug_assert!(spec.inputs.iter().all(|it| it.dtype != DataType::Bytes));
    let output = spec.outputs.first().ok_or("no output")?.name.clone();
    let instances =
        (0..*count).map(|_| model.instantiate(Device::Cpu)).collect::<Result<_, _>>()?;
    Ok(Loaded { inputs, output, instances })
}

/// Runs all instances at the same time, twice at least and for so long; how often.
fn side_by_side(model: &mut Loaded, at_least: Duration) -> Outcome<u64> {
    let Loaded { inputs, output, instances } = model;
    let (inputs, output) = (&*inputs, &*output);
    let counts: Vec<Result<u64, String>> = thread::scope(|scope| {
        let run = |instance: &mut Box<dyn Instance>| {
            let (began, mut runs) = (Instant::now(), 0);
            while runs < 2 || began.elapsed() < at_least {
                let (outputs, stop) = ([output.clone()], Stop::new());
                let batch = Batch { signature: 0, inputs, outputs: &outputs, rows: 1, stop: &stop };
                instance.execute(&batch).map_err(|it| it.to_string())?;
                runs += 1;
            }
            Ok(runs)
        };
        let threads: Vec<_> = instances.iter_mut().map(|it| scope.spawn(move || run(it))).collect();
        threads.into_iter().map(|it| it.join().unwrap_or(Err("it panicked".into()))).collect()
    });
    Ok(counts.into_iter().collect::<Result<Vec<u64>, _>>()?.iter().sum())
}

/// What this process alone holds, in MiB.
fn resident() -> Outcome<f64> {
    let text = fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|it| it.strip_prefix("RssAnon:")).ok_or("no RssAnon")?;
    Ok(line.split_whitespace().next().ok_or("no number")?.parse::<f64>()? / 1024.0)
}
