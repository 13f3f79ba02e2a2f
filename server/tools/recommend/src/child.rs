//! A server of its own for a setting: started on free ports with the setting's variables, and stopped when it is
//! dropped.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use loadgen::Target;
use rustix::{
    process::{Pid, Signal, kill_process},
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};
use serde_json::Value;

use crate::{
    served::Served,
    setting::{FORM, Variables},
    words::quoted,
};

/// Lines of the log that are kept for a failure.
const LAST_LINES: usize = 20;
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
    shared: Arc<Shared>,
    address: Target,
    metrics: Option<Target>,
    /// From its start until it was ready.
    pub setup: Duration,
}

/// Guards what the server has said.
#[derive(Debug, Default)]
struct Shared {
    said: Mutex<Said>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Said {
    lines: VecDeque<String>,
    address: Option<String>,
    http: Option<String>,
    metrics: Option<String>,
    ready: bool,
    /// What the first model that was loaded has become.
    served: Option<Served>,
    /// The models that were loaded, by their names.
    models: Vec<String>,
    /// Streams that have ended, of two.
    silent: usize,
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
    Ended(String),
    /// It told an address that is none.
    #[error(transparent)]
    Address(#[from] loadgen::Error),
    /// The job ended first.
    #[error("the job ended before the server was ready")]
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
            .args(["serve", self.path(), "--http-address=127.0.0.1", "--log-format=json"])
            .args(["--http-port=0", "--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0"])
            .arg("--drain-delay-secs=0")
            .envs((!self.gpu).then_some(NO_GPU))
            .envs(self.variables().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // A child takes its processors from the thread that starts it.
        let spawned = on_cpus(self.cpus, || command.spawn());
        let mut child = spawned.and_then(|it| it).map_err(failed)?;
        begun(child.id());
        let shared = Arc::<Shared>::default();
        let streams: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|it| Box::new(it) as Box<dyn Read + Send>),
            child.stderr.take().map(|it| Box::new(it) as Box<dyn Read + Send>),
        ];
        for stream in streams.into_iter().flatten() {
            let shared = shared.clone();
            thread::spawn(move || shared.listen(stream));
        }
        let address = Target::from(std::net::SocketAddr::from(([127, 0, 0, 1], 1)));
        let mut running = Running { child, shared, address, metrics: None, setup: Duration::ZERO };
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
        let mut words: Vec<String> =
            self.variables().map(|(name, value)| format!("{name}={}", quoted(value))).collect();
        if !self.cpus.is_empty() {
            let cpus: Vec<String> = self.cpus.iter().map(usize::to_string).collect();
            words.push(format!("taskset -c {}", cpus.join(",")));
        }
        let program = self.program.to_string_lossy();
        words.push(format!("{} serve {}", quoted(&program), quoted(self.path())));
        words.join(" ")
    }

    /// The model, or its form that the setting names.
    fn path(&self) -> &str {
        self.environment.iter().find(|it| it.0 == FORM).map_or(self.model, |it| &it.1)
    }

    /// What the server finds in its environment.
    fn variables(&self) -> impl Iterator<Item = &(String, String)> {
        self.environment.iter().filter(|it| it.0 != FORM)
    }
}

impl Running {
    /// Where `/invocations` is.
    pub fn address(&self) -> &Target {
        &self.address
    }

    /// Where the addresses of the KServe v2 protocol are.
    pub fn http(&self) -> Option<Target> {
        let said = self.shared.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.http.as_ref().and_then(|it| format!("http://{it}").parse().ok())
    }

    /// The models that it has loaded, by their names.
    pub fn models(&self) -> Vec<String> {
        self.shared.said.lock().unwrap_or_else(PoisonError::into_inner).models.clone()
    }

    /// Its page of metrics.
    pub fn metrics(&self) -> Option<&Target> {
        self.metrics.as_ref()
    }

    /// The engine of its model, and what runs at a time there.
    pub fn served(&self) -> Option<Served> {
        self.shared.said.lock().unwrap_or_else(PoisonError::into_inner).served.clone()
    }

    /// What a setting asks for and its only model has not taken, in words. Of several models one may take it.
    pub(crate) fn unheeded(&self, asked: &Variables) -> Option<String> {
        let said = self.shared.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.served.as_ref().filter(|_| said.models.len() == 1)?.unheeded(asked)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended and its last lines, the newest first, if it has ended.
    pub fn end(&mut self) -> Option<String> {
        let status = match self.child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => status.to_string(),
            Err(error) => error.to_string(),
        };
        self.shared.wait(|it| it.silent == 2, Instant::now() + Duration::from_secs(1));
        let said = self.shared.said.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<&str> = said.lines.iter().rev().map(String::as_str).collect();
        let lines = lines.join(" | ");
        Some(format!("the server ended ({status}), its last lines, the newest first: {lines}"))
    }

    fn wait_ready(&mut self, until: Instant, limit: &Limit) -> Result<Target, NotReady> {
        loop {
            let turn = Instant::now() + Duration::from_millis(50);
            self.shared.wait(|it| it.ready && it.address.is_some(), turn);
            let said = self.shared.said.lock().unwrap_or_else(PoisonError::into_inner);
            if let (true, Some(address)) = (said.ready, &said.address) {
                let page = |it: &String| format!("http://{it}/metrics").parse().ok();
                self.metrics = said.metrics.as_ref().and_then(page);
                return Ok(format!("http://{address}").parse()?);
            }
            drop(said);
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
        self.shared.wait(|it| it.silent == 2, until);
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(5));
        }
        // Neither does one that is gone need to be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Shared {
    /// Reads a stream to its end.
    fn listen(&self, stream: impl Read) {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            let text = |name: &str| event.get(name).and_then(Value::as_str);
            let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
            match (text("message"), text("service")) {
                (Some("listening"), Some("sagemaker")) => {
                    said.address = text("address").map(str::to_owned);
                }
                (Some("listening"), Some("http")) => {
                    said.http = text("address").map(str::to_owned);
                }
                (Some("listening"), Some("metrics")) => {
                    said.metrics = text("address").map(str::to_owned);
                }
                (Some("ready to serve"), _) => said.ready = true,
                (Some("model is ready"), _) => {
                    said.models.extend(text("model").map(str::to_owned));
                    said.served = said.served.take().or_else(|| Served::of(&event));
                }
                _ => {}
            }
            if said.lines.len() == LAST_LINES {
                said.lines.pop_front();
            }
            said.lines.push_back(line);
            self.changed.notify_all();
        }
        self.said.lock().unwrap_or_else(PoisonError::into_inner).silent += 1;
        self.changed.notify_all();
    }

    /// Waits for something that the server says, at the latest until then.
    fn wait(&self, is: impl Fn(&Said) -> bool, until: Instant) {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let left = until.saturating_duration_since(Instant::now());
        // What has come of it is read by the caller.
        drop(self.changed.wait_timeout_while(said, left, |it| !is(it)));
    }
}

/// Does something on these processors, then goes back to those of before. On all of them where none are said.
///
/// # Errors
/// When the system refuses the processors.
pub fn on_cpus<T>(cpus: &[usize], action: impl FnOnce() -> T) -> std::io::Result<T> {
    if cpus.is_empty() {
        return Ok(action());
    }
    let mine = sched_getaffinity(None)?;
    sched_setaffinity(None, &set_of(cpus))?;
    let done = action();
    sched_setaffinity(None, &mine)?;
    Ok(done)
}

/// Have servers this variable from this process?
pub(crate) fn inherit(variable: &str) -> bool {
    std::env::var_os(variable).is_some()
}

/// Has this machine a GPU of NVIDIA's?
pub fn has_gpu() -> bool {
    Path::new("/dev/nvidia0").exists() || Path::new("/dev/dxg").exists()
}

fn set_of(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.iter().filter(|it| **it < CpuSet::MAX_CPU).for_each(|it| set.set(*it));
    set
}

/// The processors of this process, in order.
pub fn cpus() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|it| set.is_set(*it)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_form_of_the_model_is_served_in_its_place() {
        let environment = [("OMP_NUM_THREADS", "2"), (FORM, "/m/model_int8.onnx")];
        let environment = environment.map(|(name, it)| (name.to_owned(), it.to_owned()));
        let launch = Launch {
            program: Path::new("muster"),
            model: "/m/model.onnx",
            environment: &environment,
            cpus: &[1],
            gpu: false,
        };
        let line = "OMP_NUM_THREADS=2 taskset -c 1 muster serve /m/model_int8.onnx";
        assert_eq!(launch.command_line(), line);
    }
}
