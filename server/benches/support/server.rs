//! The real program as a child process, with its defaults where nothing else is asked for, on ports that are free.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsStr,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    num::NonZeroUsize,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Outcome, machine::Pinning};

/// How the server runs one model.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Runs that it makes at the same time.
    pub instances: usize,
    /// Threads of each.
    pub threads: NonZeroUsize,
}

/// Killed when dropped.
pub struct Server {
    child: Child,
    address: SocketAddr,
    grpc_address: SocketAddr,
    plans: BTreeMap<String, Plan>,
}

/// How it is started.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// Usually that which was built with the benchmark.
    pub program: &'a OsStr,
    pub repository: &'a Path,
    pub pinning: Pinning,
    /// Further flags.
    pub flags: &'a [&'a str],
    /// Further variables.
    pub variables: &'a [(&'a str, &'a OsStr)],
    /// A program that runs it, and that program's arguments; none for the system.
    pub under: &'a [&'a OsStr],
}

impl<'a> Start<'a> {
    /// With its defaults, over this repository.
    pub fn new(repository: &'a Path) -> Start<'a> {
        let (program, pinning) = (OsStr::new(env!("CARGO_BIN_EXE_muster")), Pinning::new(false));
        Start { program, repository, pinning, flags: &[], variables: &[], under: &[] }
    }

    /// Returns when it serves.
    pub fn start(&self) -> Outcome<Server> {
        let mut words = self.under.iter().copied().chain([self.program]);
        let mut command = Command::new(words.next().unwrap_or(self.program));
        command.args(words).arg("--model-repository").arg(self.repository);
        // The log as JSON says how each model is run; nothing is logged for a request that succeeds.
        command.args(["--http-address", "127.0.0.1", "--log-format", "json"]);
        for port in ["--http-port", "--grpc-port", "--sagemaker-port", "--metrics-port"] {
            command.args([port, "0"]);
        }
        let ours = |name: &str| name.starts_with("MUSTER_") || name.starts_with("OMP_");
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(ours)) {
            command.env_remove(name);
        }
        command.args(self.flags).envs(self.variables.iter().copied());
        // A child begins where its parent is.
        self.pinning.to_server_core()?;
        let child = command.stdout(Stdio::piped()).spawn()?;
        self.pinning.to_generator_core()?;
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server =
            Server { child, address: unknown, grpc_address: unknown, plans: BTreeMap::new() };
        server.wait_ready()?;
        Ok(server)
    }
}

impl Server {
    /// Reads the log up to the line that says so.
    fn wait_ready(&mut self) -> Outcome<()> {
        let output = self.child.stdout.take().ok_or("the server has no output")?;
        let mut output = BufReader::new(output);
        let mut seen = String::new();
        loop {
            let start = seen.len();
            if output.read_line(&mut seen)? == 0 {
                return Err(format!("the server did not start:\n{seen}").into());
            }
            let line: Value = serde_json::from_str(&seen[start..])?;
            match line["message"].as_str() {
                Some("listening") => {
                    let address = line["address"].as_str().unwrap_or_default();
                    match line["service"].as_str() {
                        Some("http") => self.address = address.parse()?,
                        Some("grpc") => self.grpc_address = address.parse()?,
                        _ => {}
                    }
                }
                Some("model is ready") => {
                    let name = line["model"].as_str().unwrap_or_default().to_owned();
                    self.plans.insert(name, plan(&line)?);
                }
                Some("ready to serve") => break,
                _ => {}
            }
        }
        // A full pipe would stop the server.
        thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        Ok(())
    }

    /// Of its HTTP port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Of its gRPC port.
    pub fn grpc_address(&self) -> SocketAddr {
        self.grpc_address
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops all its threads where they are, until [`Server::resume`].
    pub fn pause(&self) -> Outcome<()> {
        self.signal(Signal::STOP)
    }

    pub fn resume(&self) -> Outcome<()> {
        self.signal(Signal::CONT)
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(mut self) -> Outcome<()> {
        self.signal(Signal::TERM)?;
        let status = self.child.wait()?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("the server ended with {status}").into()),
        }
    }

    fn signal(&self, signal: Signal) -> Outcome<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// How it runs that model.
    pub fn plan(&self, model: &str) -> Outcome<Plan> {
        Ok(*self.plans.get(model).ok_or(format!("the server does not serve '{model}'"))?)
    }

    /// Rows and runs of that model so far, and what they took.
    pub fn counts(&self, model: &str) -> Outcome<Counts> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let count = |name: &str| {
            let start = format!("{name}{{model=\"{model}\"");
            let line = text.lines().find(|it| it.starts_with(&start));
            let number = line.and_then(|it| it.rsplit_once(' ')?.1.parse::<f64>().ok());
            number.ok_or(format!("the metrics have no {name} of '{model}'"))
        };
        let (rows, runs) = (count("nv_inference_count")?, count("nv_inference_exec_count")?);
        let run_us = count("nv_inference_compute_infer_duration_us")?;
        Ok(Counts { rows, runs, run_us })
    }
}

fn plan(line: &Value) -> Outcome<Plan> {
    let count = |field: &str| {
        let count = line[field].as_u64().or_else(|| line[field].as_str()?.parse().ok());
        let count = count.and_then(|it| NonZeroUsize::new(usize::try_from(it).ok()?));
        count.ok_or(format!("'model is ready' is logged without '{field}': {line}"))
    };
    Ok(Plan { instances: count("instances")?.get(), threads: count("threads")? })
}

/// What the server has counted for one model.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    rows: f64,
    runs: f64,
    /// Microseconds of the runs, that of a run once for each of its requests.
    run_us: f64,
}

impl Counts {
    /// Rows since `earlier`.
    pub fn rows_since(&self, earlier: &Counts) -> f64 {
        self.rows - earlier.rows
    }

    /// Mean rows of the runs since `earlier`.
    pub fn rows_per_run_since(&self, earlier: &Counts) -> f64 {
        (self.rows - earlier.rows) / (self.runs - earlier.runs).max(1.0)
    }

    /// What the run took in which a row was, in the mean of the rows since `earlier`. Of requests of one row each.
    pub fn run_of_row_since(&self, earlier: &Counts) -> Duration {
        let us = (self.run_us - earlier.run_us) / (self.rows - earlier.rows).max(1.0);
        Duration::from_secs_f64(us.max(0.0) / 1e6)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It holds nothing that would need an orderly end; whether it is gone already does not matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
