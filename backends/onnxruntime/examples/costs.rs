//! What this engine costs: opening the library, making a session, one run. Prints times and memory.
//!
//! `cargo run --release -p backend-onnxruntime --example costs` measures the engine; with `-- bare` after
//! it, the same runs through `ort` alone, to compare with. Two programs, since a process has one
//! environment.

use std::{
    error::Error,
    hint::black_box,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use backend::{
    Backend, BackendError, Batch, Device, Instance, Model, ModelSource, NamedTensor, Shape, Stop,
    Tensor,
};
use backend_onnxruntime::{OnnxRuntime, Options};

/// Sessions held at once when their memory is measured.
const SESSIONS: usize = 1_300;
/// Model, columns of its input, rows.
const RUNS: [(&str, usize, usize); 4] =
    [("identity/FP32", 16, 1), ("mlp", 30, 1), ("mlp", 30, 16), ("identity/FP32", 1024, 64)];

fn main() -> Result<(), Box<dyn Error>> {
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("ORT_DISABLE_TELEMETRY", "1") };
    match std::env::args().nth(1).as_deref() {
        Some("bare") => bare(),
        _ => engine(),
    }
}

fn engine() -> Result<(), Box<dyn Error>> {
    let engine = OnnxRuntime::new(Options::default());
    let begin = Instant::now();
    let library = engine.open()?;
    println!("open: {:.1} ms, {} MiB resident", millis(begin.elapsed()), resident()? >> 20);
    for (name, columns) in [("identity/FP32", 16), ("mlp", 30)] {
        let (begin, before) = (Instant::now(), resident()?);
        let mut instances = Vec::with_capacity(SESSIONS);
        for _ in 0..SESSIONS {
            instances.push(load(&engine, name)?.instantiate(Device::Cpu)?);
        }
        let each = millis(begin.elapsed()) / SESSIONS as f64;
        let idle = (resident()? - before) / SESSIONS / 1024;
        for instance in &mut instances {
            run(&mut **instance, &inputs(columns, 1)?, 1)?;
        }
        let used = (resident()? - before) / SESSIONS / 1024;
        println!("session of {name}: {each:.2} ms, {idle} KiB, after its first run {used} KiB");
    }
    for (name, columns, rows) in RUNS {
        let mut instance = load(&engine, name)?.instantiate(Device::Cpu)?;
        let inputs = inputs(columns, rows)?;
        report(name, columns, rows, || {
            run(&mut *instance, &inputs, rows).expect("the input fits the model");
        });
    }
    println!("library: {}", library.path.display());
    Ok(())
}

fn inputs(columns: usize, rows: usize) -> Result<[NamedTensor; 1], Box<dyn Error>> {
    let tensor = Tensor::from_vec(Shape::new(&[rows, columns]), vec![0.5f32; rows * columns])?;
    Ok([NamedTensor { name: "x".into(), tensor }])
}

fn run(
    instance: &mut dyn Instance,
    inputs: &[NamedTensor],
    rows: usize,
) -> Result<(), BackendError> {
    let (outputs, stop) = (["y".into()], Stop::new());
    black_box(instance.execute(&Batch {
        signature: 0,
        inputs,
        outputs: &outputs,
        rows,
        stop: &stop,
    })?);
    Ok(())
}

fn bare() -> Result<(), Box<dyn Error>> {
    let library = option_env!("MUSTER_ORT_LIBRARY").ok_or("built without a library")?;
    let environment = ort::init_from(library)?.with_telemetry(false).build()?;
    for (name, columns, rows) in RUNS {
        let builder = ort::session::Session::builder(&environment)?.with_intra_threads(1)?;
        let mut session = builder.with_memory_pattern(true)?.commit_from_file(path(name))?;
        let data = vec![0.5f32; rows * columns];
        report(name, columns, rows, || {
            let input = ort::value::TensorRef::from_array_view(([rows, columns], &*data));
            let input = input.expect("as much data as the shape says");
            black_box(session.run(ort::inputs!["x" => input]).expect("the input fits the model"));
        });
    }
    Ok(())
}

fn load(engine: &OnnxRuntime, name: &str) -> Result<std::sync::Arc<dyn Model>, Box<dyn Error>> {
    Ok(engine.load(&ModelSource::new(name, path(name)))?)
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/models/{name}.onnx"))
}

/// The best of several rounds: what else runs on the machine only ever adds.
fn report(name: &str, columns: usize, rows: usize, mut run: impl FnMut()) {
    const ROUND: u32 = 5_000;
    let rounds = (0..20).map(|_| {
        let begin = Instant::now();
        (0..ROUND).for_each(|_| run());
        begin.elapsed() / ROUND
    });
    let best = rounds.min().unwrap_or_default();
    println!("run of {name} [{rows}, {columns}]: {:.2} us", best.as_secs_f64() * 1e6);
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Memory of this process that is in use, in bytes.
fn resident() -> Result<usize, Box<dyn Error>> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let pages: usize = pages.split(' ').nth(1).ok_or("statm has no second field")?.parse()?;
    Ok(pages * 4096)
}
