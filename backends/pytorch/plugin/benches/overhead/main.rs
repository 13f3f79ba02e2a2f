//! What the engine adds to a run of libtorch: through host and plugin, beside a bare loop of `tch`, in turns.
//!
//! `cargo bench -p backend-pytorch-plugin --bench overhead` prints Markdown: microseconds of the processor per run, on
//! one thread; of many rounds the median. Plugins that are named after `--` are measured too, such as one of another
//! version: `-- before/libmuster_pytorch.so`. Each contender is a process of its own, since a process opens one plugin.
//! All must give the same answer. The bare loop runs the module as it was traced, without gradients, which is as much
//! as `tch` can do; the engine has optimised it.

mod contender;
mod models;

use std::{
    error::Error,
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROUNDS: usize = 41;
/// Rounds that are not counted: threads and caches are new.
const FIRST: usize = 3;

/// A model, the shape of its input, and how often it runs in a round.
const CASES: [(&str, &[i64], usize); 4] = [
    ("mlp", &[1, 30], 4000),
    ("mlp", &[16, 30], 2000),
    ("conv", &[1, 3, 32, 32], 100),
    ("conv", &[4, 3, 32, 32], 50),
];

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    if let [role, rest @ ..] = &arguments[..]
        && role == contender::ROLE
    {
        return contender::run(rest);
    }
    let folder = std::env::temp_dir().join(format!("muster-overhead-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let outcome = bench(&folder, &arguments);
    fs::remove_dir_all(&folder)?;
    outcome
}

fn bench(folder: &Path, others: &[String]) -> Outcome<()> {
    let libtorch = PathBuf::from(std::env::var_os("LIBTORCH").ok_or("LIBTORCH is not set")?);
    // As in an installation: libtorch lies beside the plugin.
    let plugin = folder.join("libmuster_pytorch.so");
    let program = std::env::current_exe()?;
    fs::copy(program.with_file_name("libmuster_pytorch.so"), &plugin)?;
    symlink(&libtorch, folder.join("libtorch"))?;
    let mut contenders = vec![
        ("tch".to_owned(), contender::BARE.to_owned()),
        ("engine".to_owned(), plugin.display().to_string()),
    ];
    contenders.extend(others.iter().map(|it| (format!("engine with {it}"), it.clone())));
    println!("| model | rows | contender | µs | to engine µs | ratio |");
    println!("|---|---:|---|---:|---:|---:|");
    for (name, dims, runs) in CASES {
        let path = folder.join(format!("{name}.pt"));
        models::save(name, dims, &path)?;
        let times = compare(&contenders, &path, dims, runs)?;
        let engine = times[1];
        for ((contender, _), time) in contenders.iter().zip(&times) {
            println!(
                "| {name} | {} | {contender} | {time:.2} | {:+.2} | {:.3} |",
                dims[0],
                time - engine,
                time / engine
            );
        }
    }
    Ok(())
}

/// Median microseconds per run of each contender.
fn compare(
    contenders: &[(String, String)],
    path: &Path,
    dims: &[i64],
    runs: usize,
) -> Outcome<Vec<f64>> {
    let start = |(_, how): &(String, String)| Process::start(how, path, dims, runs);
    let mut processes = contenders.iter().map(start).collect::<Outcome<Vec<_>>>()?;
    let mut times = vec![Vec::new(); processes.len()];
    for round in 0..FIRST + ROUNDS {
        let mut answers = Vec::new();
        for (process, times) in processes.iter_mut().zip(&mut times) {
            let (answer, time) = process.round()?;
            answers.push(answer);
            if round >= FIRST {
                times.push(time);
            }
        }
        if answers.iter().any(|it| (it - answers[0]).abs() > 1e-4) {
            return Err(format!("{}: the answers are {answers:?}", path.display()).into());
        }
    }
    Ok(times.into_iter().map(median).collect())
}

/// A contender that waits for its next round.
struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(how: &str, path: &Path, dims: &[i64], runs: usize) -> Outcome<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([contender::ROLE, how]).arg(path).arg(runs.to_string());
        command.args(dims.iter().map(i64::to_string));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().ok_or("no standard input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        Ok(Process { child, input, output })
    }

    /// The first number of the answer, and microseconds per run.
    fn round(&mut self) -> Outcome<(f32, f64)> {
        writeln!(self.input, "go")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let (answer, time) = line.trim().split_once(' ').ok_or("a contender has ended")?;
        Ok((answer.parse()?, time.parse()?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
