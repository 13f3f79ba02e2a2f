//! A server of its own for a setting: started on free ports with the setting's variables, and stopped when it is
//! dropped.

use std::{
    fmt,
    io::Read,
    net::{AddrParseError, SocketAddr},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{cpus::on_cpus, said::Log, words::quoted};

/// How long a server may take until it is ready.
const READY: Duration = Duration::from_secs(600);
/// How long it may take to end.
const END: Duration = Duration::from_secs(20);

/// Hides GPUs from a server.
const NO_GPU: (&str, &str) = ("CUDA_VISIBLE_DEVICES", "-1");

/// What is started.
#[derive(Debug, Clone)]
pub struct Launch<'a> {
    /// The program, which is `muster`.
    pub program: &'a Path,
    /// The model's file, its directory or a repository.
    pub model: &'a str,
    /// Variables.
    pub environment: &'a [(String, String)],
    /// The processors that it may use; all of this process where none are said.
    pub cpus: &'a [usize],
    /// May it use GPUs?
    pub gpu: bool,
}

/// When a job has to end.
#[derive(Debug, Clone, Default)]
pub struct Limit {
    /// At this time at the latest.
    pub over: Option<Instant>,
    /// When this is set.
    pub stop: Arc<AtomicBool>,
}

impl Limit {
    /// Has it to end now?
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.over.is_some_and(|it| Instant::now() >= it)
    }
}

/// A server that runs.
#[derive(Debug)]
pub struct Running {
    child: Child,
    log: Arc<Log>,
    address: SocketAddr,
    /// From its start until it was ready.
    pub setup: Duration,
}

/// How a server has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The status of its process.
    pub status: String,
    /// The last lines of its log, the newest first.
    pub lines: Vec<String>,
}

impl End {
    /// The last error of its log, in its own words. Of models that could not be loaded it is the line that says why.
    pub fn reason(&self) -> Option<String> {
        let events = self.lines.iter().filter_map(|it| serde_json::from_str(it).ok());
        let is_error = |it: &Value| it.get("level").is_some_and(|it| it == "ERROR");
        let message = |it: Value| it.get("message")?.as_str().map(str::to_owned);
        let mut errors = events.filter(is_error).filter_map(message);
        let last = errors.next()?;
        match last.contains("could not be loaded") {
            true => errors.find(|it| it.starts_with("cannot load the model: ")).or(Some(last)),
            false => Some(last),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let End { status, lines } = self;
        let lines = lines.join(" | ");
        write!(f, "the server ended ({status}), its last lines, the newest first: {lines}")
    }
}

/// Why a server does not run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no process.
    #[error("{command}: {source}")]
    NoProcess {
        /// What was to be started.
        command: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It did not become ready. A reason is cut after a thousand characters: what the server wrote comes last.
    #[error("it does not start; started by: {command}; {source}")]
    NotReady {
        /// Starts it again.
        command: String,
        /// What came instead.
        source: NotReady,
    },
}

/// What came of a server that was to become ready.
#[derive(Debug, thiserror::Error)]
pub enum NotReady {
    /// It ended, as this says.
    #[error("{0}")]
    Ended(End),
    /// It told an address that is none.
    #[error("it listens at '{0}', which is no address: {1}")]
    Address(String, AddrParseError),
    /// Whoever wanted it was stopped first.
    #[error("stopped before the server was ready")]
    Stopped,
    /// It took too long.
    #[error("the server was not ready within {} s", READY.as_secs())]
    Late,
}

impl Launch<'_> {
    /// Starts the server and waits until it is ready. `begun` is told its process at once.
    ///
    /// # Errors
    /// How it ended, its last lines, and the command that starts it again.
    pub fn start(&self, limit: &Limit, begun: &mut dyn FnMut(u32)) -> Result<Running, StartError> {
        let failed = |source| StartError::NoProcess { command: self.command_line(), source };
        let start = Instant::now();
        let mut command = Command::new(self.program);
        command
            .args(["serve", self.model, "--http-address=127.0.0.1", "--log-format=json"])
            .args(["--http-port=0", "--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0"])
            .arg("--drain-delay-secs=0")
            .envs((!self.gpu).then_some(NO_GPU))
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // A child takes its processors from the thread that starts it.
        let spawned = on_cpus(self.cpus, || command.spawn());
        let mut child = spawned.and_then(|it| it).map_err(failed)?;
        begun(child.id());
        let log = Arc::<Log>::default();
        let streams: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|it| Box::new(it) as Box<dyn Read + Send>),
            child.stderr.take().map(|it| Box::new(it) as Box<dyn Read + Send>),
        ];
        for stream in streams.into_iter().flatten() {
            let log = log.clone();
            thread::spawn(move || log.listen(stream));
        }
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut running = Running { child, log, address, setup: Duration::ZERO };
        match running.wait_ready(start + READY, limit) {
            Ok(address) => {
                running.address = address;
                running.setup = start.elapsed();
                Ok(running)
            }
            Err(source) => Err(StartError::NotReady { command: self.command_line(), source }),
        }
    }

    /// The line of a shell that starts such a server.
    pub fn command_line(&self) -> String {
        let variables = self.environment.iter();
        let mut words: Vec<String> =
            variables.map(|(name, value)| format!("{name}={}", quoted(value))).collect();
        if !self.cpus.is_empty() {
            let cpus: Vec<String> = self.cpus.iter().map(usize::to_string).collect();
            words.push(format!("taskset -c {}", cpus.join(",")));
        }
        let program = self.program.to_string_lossy();
        words.push(format!("{} serve {}", quoted(&program), quoted(self.model)));
        words.join(" ")
    }
}

impl Running {
    /// Where `/invocations` is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the addresses of the KServe v2 protocol are.
    pub fn http(&self) -> Option<SocketAddr> {
        self.log.said().http.as_ref()?.parse().ok()
    }

    /// Where its page of metrics is.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.log.said().metrics.as_ref()?.parse().ok()
    }

    /// The line of its log that says what has become of each model that it has loaded.
    pub fn loaded(&self) -> Vec<Value> {
        self.log.said().loaded.clone()
    }

    /// The models that it has loaded, by their names, each once.
    pub fn models(&self) -> Vec<String> {
        let said = self.log.said();
        let name = |it: &Value| it.get("model")?.as_str().map(str::to_owned);
        let mut names: Vec<String> = said.loaded.iter().filter_map(name).collect();
        drop(said);
        // Several versions of a model have one name.
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended and its last lines, if it has ended.
    pub fn end(&mut self) -> Option<End> {
        let status = match self.child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => status.to_string(),
            Err(error) => error.to_string(),
        };
        self.log.wait(|it| it.silent == 2, Instant::now() + Duration::from_secs(1));
        Some(End { status, lines: self.log.said().lines.iter().rev().cloned().collect() })
    }

    fn wait_ready(&mut self, until: Instant, limit: &Limit) -> Result<SocketAddr, NotReady> {
        loop {
            let turn = Instant::now() + Duration::from_millis(50);
            self.log.wait(|it| it.ready && it.address.is_some(), turn);
            let said = self.log.said();
            let address = said.address.clone().filter(|_| said.ready);
            drop(said);
            if let Some(address) = address {
                return address.parse().map_err(|it| NotReady::Address(address, it));
            }
            if let Some(end) = self.end() {
                return Err(NotReady::Ended(end));
            }
            if limit.is_over() {
                return Err(NotReady::Stopped);
            }
            if Instant::now() >= until {
                return Err(NotReady::Late);
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The number of a server that has ended may be another process's by now.
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // It may end by itself in this moment.
        let _ = pid.map(|it| kill_process(it, Signal::TERM));
        let until = Instant::now() + END;
        self.log.wait(|it| it.silent == 2, until);
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(5));
        }
        // Neither does one that is gone need to be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_an_end_is_the_newest_error_of_its_log() {
        let line =
            |level: &str, message: &str| format!(r#"{{"level":"{level}","message":"{message}"}}"#);
        let lines = vec![line("INFO", "bye"), line("ERROR", "no model"), line("ERROR", "earlier")];
        let end = End { status: "exit status: 1".to_owned(), lines };
        assert_eq!(end.reason().as_deref(), Some("no model"));
        let last = line("ERROR", "no model is served: model 'm' could not be loaded; ..");
        let lines = vec![last.clone(), line("ERROR", "cannot load the model: no graph")];
        let of_load = End { lines, ..end.clone() };
        assert_eq!(of_load.reason().as_deref(), Some("cannot load the model: no graph"));
        let alone = End { lines: vec![last], ..end.clone() };
        assert!(alone.reason().unwrap().starts_with("no model is served"));
        assert!(end.to_string().starts_with("the server ended (exit status: 1), its last lines, "));
        assert_eq!(End { lines: vec!["Killed".to_owned()], ..end }.reason(), None);
    }

    #[test]
    fn a_command_line_can_be_pasted() {
        let environment = [("OMP_NUM_THREADS".to_owned(), "2".to_owned())];
        let launch = Launch {
            program: Path::new("muster"),
            model: "/m/a model.onnx",
            environment: &environment,
            cpus: &[1],
            gpu: false,
        };
        let line = "OMP_NUM_THREADS=2 taskset -c 1 muster serve '/m/a model.onnx'";
        assert_eq!(launch.command_line(), line);
    }
}
