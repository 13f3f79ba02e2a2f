//! Runs targets on mutated examples, or on given files, with any compiler.

use std::{
    backtrace::Backtrace,
    collections::HashSet,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use muster_fuzz::{
    mutate::{Chance, mutated},
    oracle,
    targets::{self, Target},
};
use rustix::process::{Resource, Rlimit, setrlimit};

const USAGE: &str = "usage: muster-fuzz TARGET|all [--runs N] [--seconds N] [--seed N] [--corpus DIR] [--keep FILE]
       muster-fuzz TARGET FILE..
       muster-fuzz list

Runs a target on mutated examples until N runs are done or N seconds are over (100000 runs by default), or on files.
--corpus adds the files of a folder to the examples, --keep writes each input to a file before it is run.
An input that fails is written to a file in this folder, and its target and seed are printed.";

/// Examples that are kept at most.
const MOST_EXAMPLES: usize = 4096;

/// Memory of the process. More is a failure of its own.
const MOST_MEMORY: u64 = 8 << 30;

struct Options {
    runs: u64,
    time: Duration,
    seed: u64,
    corpus: Option<PathBuf>,
    keep: Option<PathBuf>,
    files: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else { return usage("name a target") };
    if name == "list" {
        targets::ALL.iter().for_each(|it| println!("{}", it.name));
        return ExitCode::SUCCESS;
    }
    let chosen: Vec<&Target> =
        targets::ALL.iter().copied().filter(|it| name == "all" || it.name == name).collect();
    if chosen.is_empty() {
        return usage(&format!("no target '{name}'"));
    }
    let options = match options(rest) {
        Ok(options) => options,
        Err(problem) => return usage(&problem),
    };
    let limit = Rlimit { current: Some(MOST_MEMORY), maximum: Some(MOST_MEMORY) };
    if let Err(error) = setrlimit(Resource::As, limit) {
        eprintln!("cannot bound the memory: {error}");
    }
    for target in chosen {
        let done = match options.files.is_empty() {
            true => run_mutated(target, &options),
            false => run_files(target, &options.files),
        };
        if let Err(problem) = done {
            eprintln!("{}: {problem}", target.name);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn usage(problem: &str) -> ExitCode {
    eprintln!("{problem}\n{USAGE}");
    ExitCode::FAILURE
}

fn options(mut rest: &[String]) -> Result<Options, String> {
    let mut options = Options {
        runs: 0,
        time: Duration::MAX,
        seed: 1,
        corpus: None,
        keep: None,
        files: Vec::new(),
    };
    let number = |text: &str| text.parse().map_err(|_| format!("'{text}' is no number"));
    while let Some((flag, behind)) = rest.split_first() {
        if !flag.starts_with("--") {
            options.files.push(flag.into());
            rest = behind;
            continue;
        }
        let Some((value, behind)) = behind.split_first() else {
            return Err(format!("{flag} needs a value"));
        };
        match flag.as_str() {
            "--runs" => options.runs = number(value)?,
            "--seconds" => options.time = Duration::from_secs(number(value)?),
            "--seed" => options.seed = number(value)?,
            "--corpus" => options.corpus = Some(value.into()),
            "--keep" => options.keep = Some(value.into()),
            _ => return Err(format!("no flag '{flag}'")),
        }
        rest = behind;
    }
    if options.runs == 0 {
        options.runs = if options.time == Duration::MAX { 100_000 } else { u64::MAX };
    }
    Ok(options)
}

fn run_files(target: &Target, files: &[PathBuf]) -> Result<(), String> {
    for file in files {
        let data = read(file)?;
        oracle::run(target, &data);
        println!("{}: {} passes", target.name, file.display());
    }
    Ok(())
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| format!("{}: {error}", file.display()))
}

fn run_mutated(target: &Target, options: &Options) -> Result<(), String> {
    let mut examples = (target.examples)();
    if let Some(folder) = &options.corpus {
        let entries =
            fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries.filter_map(Result::ok) {
            examples.push(read(&entry.path())?);
        }
    }
    let panic = note_panics();
    let mut known = HashSet::new();
    let mut run = |data: Vec<u8>| -> Result<bool, String> {
        if let Some(file) = &options.keep {
            fs::write(file, &data).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        match catch_unwind(AssertUnwindSafe(|| oracle::run(target, &data))) {
            Ok(seen) => Ok(known.insert(seen.number())),
            Err(_) => Err(failed(target.name, options.seed, &data, &panic)),
        }
    };
    let began = Instant::now();
    for example in examples.clone() {
        run(example)?;
    }
    let mut chance = Chance::of(options.seed);
    let mut done = 0;
    while done < options.runs && began.elapsed() < options.time {
        let data = mutated(&examples, target.words, &mut chance);
        if run(data.clone())? {
            match examples.len() < MOST_EXAMPLES {
                true => examples.push(data),
                false => {
                    let at = chance.below(MOST_EXAMPLES);
                    examples[at] = data;
                }
            }
        }
        done += 1;
    }
    let (took, kinds) = (began.elapsed().as_secs_f64(), known.len());
    println!("{}: {done} runs in {took:.1} s, {kinds} kinds of outcome", target.name);
    let _ = std::panic::take_hook();
    Ok(())
}

/// Keeps what the last panic says, and writes nothing: a decoder may catch the panics of a library.
fn note_panics() -> Arc<Mutex<String>> {
    let last = Arc::<Mutex<String>>::default();
    let noted = last.clone();
    std::panic::set_hook(Box::new(move |panic| {
        let text = format!("{panic}\n{}", Backtrace::capture());
        *noted.lock().expect("no holder panics") = text;
    }));
    last
}

/// Writes the input that failed to a file; what is said of it.
fn failed(target: &str, seed: u64, data: &[u8], panic: &Mutex<String>) -> String {
    let said = panic.lock().expect("no holder panics");
    let file = format!("failed-{target}");
    match fs::write(&file, data) {
        Ok(()) => format!("{said}\nseed {seed}: {} bytes in {file}", data.len()),
        Err(error) => format!("{said}\nseed {seed}: {file}: {error}"),
    }
}
