//! What the instances of a large model cost: memory, time to load, runs at the same time.
//!
//! `cargo bench -p backend-onnxruntime --bench weights` makes two models of random weights, measures each way
//! of holding them in processes of their own, in turns, and prints Markdown. All answers of a model must
//! be the same, bit by bit, or it fails. With `-- --quick` the models are small and the rounds few: a look, no
//! measurement.

#[path = "../../tests/support/onnx_file.rs"]
mod onnx_file;
mod process;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
};

use process::{Ask, Found, Outcome};

/// How a process comes to its instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The model is loaded once for each: what it costs where nothing is shared.
    Own,
    /// They share a session, made from the model.
    Shared,
    /// They share a session; the cache is empty when the process starts.
    CacheFirst,
    /// They share a session, and the cache has the model.
    CacheLater,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Own => "a session each",
            Way::Shared => "one session",
            Way::CacheFirst => "one session, first start with a cache",
            Way::CacheLater => "one session, later start with a cache",
        }
    }
}

/// A model to measure, and its place.
struct Model {
    name: &'static str,
    about: String,
    folder: PathBuf,
    dims: Vec<usize>,
}

impl Model {
    fn path(&self) -> PathBuf {
        self.folder.join("model.onnx")
    }

    fn ask(&self, way: Way, instances: usize, seconds: f64) -> Outcome<Ask> {
        let cache = self.folder.join("cache");
        if way == Way::CacheFirst && cache.exists() {
            fs::remove_dir_all(&cache)?;
        }
        Ok(Ask {
            model: self.path(),
            dims: self.dims.clone(),
            cache: matches!(way, Way::CacheFirst | Way::CacheLater).then_some(cache),
            own: way == Way::Own,
            instances,
            seconds,
        })
    }
}

fn main() -> ExitCode {
    process::disable_telemetry();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.first().map(String::as_str) {
        Some(process::CHILD) => process::child(&arguments[1..]),
        _ => bench(arguments.iter().any(|it| it == "--quick")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(quick: bool) -> Outcome<()> {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("weights-{}", std::process::id()));
    let outcome = models(&folder, quick).and_then(|it| tables(&it, quick));
    // Hundreds of megabytes that nobody needs, whatever happened.
    let _ = fs::remove_dir_all(&folder);
    outcome
}

fn models(folder: &Path, quick: bool) -> Outcome<Vec<Model>> {
    let make = |name, dims: &[usize], about: &str| -> Outcome<Model> {
        let folder = folder.join(name);
        fs::create_dir_all(&folder)?;
        Ok(Model { name, about: about.to_owned(), folder, dims: dims.to_vec() })
    };
    let (layers, side) = if quick { (5, 1024) } else { (20, 2048) };
    let about = format!("{layers} × (MatMul {side} × {side}, bias, Relu), 1 row");
    let dense = make("dense", &[1, side], &about)?;
    onnx_file::dense(&dense.path(), layers, side as u64, 1)?;
    let (layers, channels, side) = if quick { (4, 384, 4) } else { (24, 512, 16) };
    let about =
        format!("{layers} × (Conv 3 × 3, {channels} channels, Relu), {side} × {side} pixels");
    let convolutions = make("convolutions", &[1, channels, side, side], &about)?;
    onnx_file::convolutions(&convolutions.path(), layers, channels as u64, side as u64, 1)?;
    Ok(vec![dense, convolutions])
}

fn tables(models: &[Model], quick: bool) -> Outcome<()> {
    let (rounds, seconds) = if quick { (1, 0.3) } else { (5, 2.0) };
    for model in models {
        let bytes = fs::metadata(model.path())?.len();
        println!("\n### {}: {}, {} MiB\n", model.name, model.about, bytes >> 20);
        let mut answers = Vec::new();
        starts(model, rounds, &mut answers)?;
        memory(model, &mut answers)?;
        throughput(model, rounds, seconds, &mut answers)?;
        let first = answers.first().copied().unwrap_or_default();
        if answers.iter().any(|it| *it != first) {
            return Err(format!("{}: answers differ: {answers:x?}", model.name).into());
        }
        println!("\nThe answers of all {} processes were the same, bit by bit.", answers.len());
    }
    Ok(())
}

/// From the start of loading to the answer of a first run, in new processes, in turns.
fn starts(model: &Model, rounds: usize, answers: &mut Vec<u64>) -> Outcome<()> {
    let ways = [Way::Shared, Way::CacheFirst, Way::CacheLater];
    let mut found: [Vec<Found>; 3] = Default::default();
    for _ in 0..rounds {
        for (way, found) in ways.iter().zip(&mut found) {
            found.push(process::run(&model.ask(*way, 1, 0.0)?)?);
        }
    }
    println!("| Start | load ms | CPU ms | first run ms | peak MiB |\n|---|--:|--:|--:|--:|");
    for (way, found) in ways.iter().zip(&found) {
        let column = |of: fn(&Found) -> f64| spread(found.iter().map(of).collect());
        println!(
            "| {} | {} | {} | {} | {} |",
            way.name(),
            column(|it| it.load_ms),
            column(|it| it.load_cpu_ms),
            column(|it| it.first_run_ms),
            column(|it| it.peak_mib),
        );
        answers.extend(found.iter().map(|it| it.answer));
    }
    Ok(())
}

/// What is in memory when each instance has run once, all at the same time.
fn memory(model: &Model, answers: &mut Vec<u64>) -> Outcome<()> {
    println!("\n| PSS, MiB | 1 instance | 2 | 8 | 8 / 1 | each further instance, ms |");
    println!("|---|--:|--:|--:|--:|--:|");
    for way in [Way::Own, Way::Shared, Way::CacheFirst, Way::CacheLater] {
        let counts = [1, 2, 8].map(|count| process::run(&model.ask(way, count, 0.0)?));
        let [one, two, eight] = counts;
        let (one, two, eight) = (one?, two?, eight?);
        println!(
            "| {} | {:.0} | {:.0} | {:.0} | {:.2} | {:.3} |",
            way.name(),
            one.pss_mib,
            two.pss_mib,
            eight.pss_mib,
            eight.pss_mib / one.pss_mib,
            eight.further_ms,
        );
        answers.extend([one.answer, two.answer, eight.answer]);
    }
    let mut first = process::start(&model.ask(Way::CacheLater, 1, 0.0)?, Stdio::piped())?;
    let found = first.found()?;
    let second = process::run(&model.ask(Way::CacheLater, 1, 0.0)?)?;
    first.end()?;
    answers.extend([found.answer, second.answer]);
    println!(
        "\nA process with one instance from the cache has {:.0} MiB while another one has the same model.",
        second.pss_mib
    );
    Ok(())
}

/// Runs of as many instances as there are processors, of one thread each, at the same time.
fn throughput(model: &Model, rounds: usize, seconds: f64, answers: &mut Vec<u64>) -> Outcome<()> {
    let instances = std::thread::available_parallelism()?.get();
    let ways = [Way::Own, Way::Shared, Way::CacheLater];
    let mut found: [Vec<Found>; 3] = Default::default();
    for _ in 0..rounds {
        for (way, found) in ways.iter().zip(&mut found) {
            found.push(process::run(&model.ask(*way, instances, seconds)?)?);
        }
    }
    println!("\n| {instances} instances at the same time | runs/s | CPU ms a run |\n|---|--:|--:|");
    for (way, found) in ways.iter().zip(&found) {
        let column = |of: fn(&Found) -> f64| spread(found.iter().map(of).collect());
        println!(
            "| {} | {} | {} |",
            way.name(),
            column(|it| it.runs_per_second),
            column(|it| it.run_cpu_ms)
        );
        answers.extend(found.iter().map(|it| it.answer));
    }
    Ok(())
}

/// The median, and in brackets the least and the most.
fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let show = |value: f64| match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    match (values.first(), values.last()) {
        (Some(&least), Some(&most)) if values.len() > 1 => {
            format!("{} ({}–{})", show(values[values.len() / 2]), show(least), show(most))
        }
        (Some(&only), _) => show(only),
        _ => "–".to_owned(),
    }
}
