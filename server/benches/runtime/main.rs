//! Which shape should the threads of the HTTP front have? A bare hyper server in each of them, measured in
//! turns: what a model server on top could reach at best. `cargo bench -p muster --bench runtime`;
//! docs/background/performance.md has the results.

mod shape;

use std::{
    error::Error,
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, ExitCode, Stdio},
    time::Duration,
};

use clap::Parser;
use loadgen::{Method, Plan, Report, Request, Target};
use rustix::thread::{CpuSet, sched_setaffinity};

use shape::{Shape, serve};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Of a request's body.
const BODY: usize = 1024;

/// Measures a bare hyper server in several shapes and prints Markdown.
#[derive(Parser)]
#[command(name = "runtime")]
struct Arguments {
    /// Cores of the server: the first so many. With 1, the generator has the second core to itself
    #[arg(long, default_value_t = 2)]
    cores: usize,
    /// Microseconds of work on the thread of each request, as a small model that runs in place
    #[arg(long, value_delimiter = ',', default_values_t = [0, 20])]
    work_us: Vec<u64>,
    /// Connections
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64])]
    connections: Vec<usize>,
    /// Blocks of each
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Length of a block
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Be the server
    #[arg(long, hide = true)]
    serve: Option<Shape>,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.serve {
        Some(shape) => serve(shape, Duration::from_micros(arguments.work_us[0])),
        None => measure(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> Outcome<()> {
    let cores = arguments.cores.max(1);
    let mut shapes = vec![Shape::HandOver(1)];
    if 1 < cores {
        shapes.extend([Shape::HandOver(cores), Shape::ReusePort(cores)]);
    }
    shapes.push(Shape::Stealing(cores));
    println!(
        "Server on {cores} core(s), {} rounds of {} s blocks, bodies of {BODY} bytes.\n",
        arguments.rounds, arguments.seconds
    );
    println!("| work µs | connections | shape | requests/s | p50 µs | p99 µs | server CPU µs |");
    println!("|--:|--:|---|--:|--:|--:|--:|");
    for &work in &arguments.work_us {
        let servers = shapes.iter().map(|&it| Server::start(it, work, cores));
        let servers: Vec<Server> = servers.collect::<Outcome<_>>()?;
        for &connections in &arguments.connections {
            let mut reports: Vec<Vec<Report>> = servers.iter().map(|_| Vec::new()).collect();
            for round in 0..arguments.rounds {
                // In turns, and in the other direction every other time.
                for turn in 0..servers.len() {
                    let at = if round % 2 == 0 { turn } else { servers.len() - 1 - turn };
                    reports[at].push(servers[at].load(connections, arguments.seconds)?);
                }
            }
            for (shape, reports) in shapes.iter().zip(&reports) {
                println!("| {work} | {connections} | {shape} | {}", row(reports));
            }
        }
    }
    Ok(())
}

/// The medians of the blocks of one shape.
fn row(reports: &[Report]) -> String {
    let median = |of: &dyn Fn(&Report) -> f64| {
        let mut values: Vec<f64> = reports.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let micros = |it: Duration| it.as_secs_f64() * 1e6;
    let cpu = |it: &Report| it.server.as_ref().map_or(0.0, |it| micros(it.cpu.per_request));
    format!(
        "{:.0} | {:.0} | {:.0} | {:.1} |",
        median(&|it| it.throughput),
        median(&|it| micros(it.latency.p50)),
        median(&|it| micros(it.latency.p99)),
        median(&cpu),
    )
}

/// A server in one shape, as a process of its own. Killed when dropped.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(shape: Shape, work: u64, cores: usize) -> Outcome<Server> {
        // A child begins where its parent is.
        pin(0..cores)?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--serve", &shape.to_string(), "--work-us", &work.to_string()])
            .stdout(Stdio::piped())
            .spawn()?;
        match cores {
            1 => pin(1..2)?,
            _ => pin(0..CpuSet::MAX_CPU)?,
        }
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        Ok(Server { child, address: line.trim().parse()? })
    }

    fn load(&self, connections: usize, seconds: f64) -> Outcome<Report> {
        let request = Request::new(Method::Post, "/")?.body(vec![b'x'; BODY]);
        let block = Duration::try_from_secs_f64(seconds)?;
        Ok(Plan {
            connections,
            warm_up: block.mul_f64(0.25),
            duration: Some(block),
            pid: Some(self.child.id()),
            ..Plan::new(Target::from(self.address), vec![request])
        }
        .run()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is gone already, then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pin(cores: std::ops::Range<usize>) -> Outcome<()> {
    let mut set = CpuSet::new();
    cores.for_each(|it| set.set(it));
    Ok(sched_setaffinity(None, &set)?)
}
