//! The real binary as a child process, for what only a process has: signals, a log, an exit code.

use std::{
    io::{BufRead, BufReader, Read},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard},
    thread::{self, JoinHandle},
};

use super::{Client, Group, NO_GPUS, Repository, program, switches, wait_for};

/// A running `muster`. Killed when it is dropped.
pub struct Process {
    child: Child,
    /// Guards the lines that have come so far, of both streams.
    log: Arc<Mutex<Vec<String>>>,
    readers: Vec<JoinHandle<()>>,
}

/// A process that has ended.
pub struct Finished {
    /// How.
    pub status: ExitStatus,
    /// Everything that it wrote, a line each.
    pub log: Vec<String>,
}

impl Finished {
    /// The line that was written last, by the time that it begins with: the two outputs are read by two
    /// threads, so `log` may have them in another order.
    pub fn last(&self) -> &str {
        self.log.iter().max().map_or("", |it| it)
    }

    /// The lines that say why it has ended: the last one and, where that speaks of models that could not be loaded,
    /// the lines of their failures.
    pub fn why(&self) -> Vec<&str> {
        let last = self.last();
        let failures = self.log.iter().filter(|it| it.contains("cannot load the model: "));
        let failures = failures.filter(|_| last.contains("could not be loaded"));
        failures.map(|it| &**it).chain([last]).collect()
    }
}

impl Process {
    /// `muster` over a repository, every port at 0, with further flags. Its environment is empty but for
    /// `environment`, and hides GPUs.
    pub fn start(repository: &Repository, flags: &[&str], environment: &[(&str, &str)]) -> Process {
        Process::start_with(None, repository, flags, environment)
    }

    /// The same within a control group, where there is one.
    pub fn start_within(
        group: Option<&Group>,
        repository: &Repository,
        flags: &[&str],
        environment: &[(&str, &str)],
    ) -> Process {
        let script = group.map(Group::script);
        Process::start_with(script.as_deref(), repository, flags, environment)
    }

    /// The same by this script of a shell, whose arguments are the program and those of it.
    pub fn start_by(
        script: &str,
        repository: &Repository,
        flags: &[&str],
        environment: &[(&str, &str)],
    ) -> Process {
        Process::start_with(Some(script), repository, flags, environment)
    }

    fn start_with(
        script: Option<&str>,
        repository: &Repository,
        flags: &[&str],
        environment: &[(&str, &str)],
    ) -> Process {
        let path = repository.at("");
        let ports = ["--http-port=0", "--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0"];
        let mut args = vec!["--model-repository", &path];
        args.extend(ports);
        args.extend(["--http-address=127.0.0.1", "--drain-delay-secs=0"]);
        args.extend(flags);
        let Some(script) = script else {
            return Process::command(&args, environment);
        };
        let muster = program();
        let shell = ["-c", script, &muster];
        Process::program("/bin/sh", &[&shell, &args[..]].concat(), environment)
    }

    /// `muster` with these arguments and nothing else.
    pub fn command(args: &[&str], environment: &[(&str, &str)]) -> Process {
        Process::program(&program(), args, environment)
    }

    /// A server that has to be told its port: one that was free a moment ago. Where somebody else takes that first, the
    /// server ends, and another one is tried. It listens by then.
    #[track_caller]
    pub fn on_a_free_port(start: impl Fn(u16) -> Process) -> (Process, SocketAddr) {
        for _ in 0..5 {
            let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let mut process = start(free.port());
            let listens = wait_for("the server to listen", || {
                let is_over = process.child.try_wait().unwrap().is_some();
                // A port that nobody listens on may be connected with itself.
                let is_open = TcpStream::connect(free)
                    .is_ok_and(|it| it.local_addr().ok() != it.peer_addr().ok());
                (is_over || is_open).then_some(!is_over)
            });
            if listens && process.child.try_wait().unwrap().is_none() {
                return (process, free);
            }
        }
        panic!("the server has ended each time");
    }

    /// Another program, which becomes `muster`.
    pub fn program(program: &str, args: &[&str], environment: &[(&str, &str)]) -> Process {
        let mut child = Command::new(program)
            .args(args)
            .env_clear()
            .envs(switches())
            .env(NO_GPUS.0, NO_GPUS.1)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::<Mutex<Vec<String>>>::default();
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        let readers = streams.map(|stream| {
            let log = log.clone();
            thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    log.lock().unwrap().push(line);
                }
            })
        });
        Process { child, log, readers: readers.into() }
    }

    /// The lines so far.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Nobody reads what the process writes as long as this is held.
    pub fn hold_log(&self) -> MutexGuard<'_, Vec<String>> {
        self.log.lock().unwrap()
    }

    /// The first line that holds `part`; waits for it.
    #[track_caller]
    pub fn wait_for_line(&mut self, part: &str) -> String {
        wait_for(&format!("a log line with '{part}'"), || {
            let ended = self.child.try_wait().unwrap();
            if ended.is_some() {
                self.readers.drain(..).for_each(|it| it.join().unwrap());
            }
            let log = self.log();
            let line = log.iter().find(|it| it.contains(part)).cloned();
            assert!(line.is_some() || ended.is_none(), "ended without '{part}': {log:#?}");
            line
        })
    }

    /// Waits until the server says that it serves.
    #[track_caller]
    pub fn wait_ready(&mut self) {
        self.wait_for_line("ready to serve");
    }

    /// The address that `http`, `sagemaker` or `metrics` listens on, by the log.
    #[track_caller]
    pub fn address(&mut self, service: &str) -> SocketAddr {
        let line = self.wait_for_line(&format!("listening service={service} "));
        let address = line.split("address=").nth(1).and_then(|it| it.split(' ').next());
        address.unwrap().parse().unwrap()
    }

    /// A new connection to the HTTP port.
    #[track_caller]
    pub fn client(&mut self) -> Client {
        let address = self.address("http");
        Client::connect(address)
    }

    /// What the system says of it, as `R (running)` or `Z (zombie)`.
    pub fn state(&self) -> String {
        let path = format!("/proc/{}/status", self.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let state = text.lines().find_map(|it| it.strip_prefix("State:"));
        state.map_or_else(|| "gone".to_owned(), |it| it.trim().to_owned())
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name, as `TERM`.
    pub fn signal(&self, name: &str) {
        let number = self.id().to_string();
        let status = Command::new("kill").args(["-s", name, &number]).status().unwrap();
        assert!(status.success());
    }

    /// Waits for the end.
    #[track_caller]
    pub fn wait(mut self) -> Finished {
        let status = wait_for("the process to end", || self.child.try_wait().unwrap());
        self.readers.drain(..).for_each(|it| it.join().unwrap());
        Finished { status, log: self.log() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that has ended by itself with this code; one of the lines that say why holds `part`, and no second one.
#[track_caller]
pub fn check_end(process: Process, code: i32, part: &str) -> Finished {
    let finished = process.wait();
    assert_eq!(finished.status.code(), Some(code), "{:#?}", finished.log);
    let why = finished.why();
    let found = why.iter().filter(|it| it.contains(part)).count();
    assert_eq!(found, 1, "lines of {why:#?} with '{part}': {:#?}", finished.log);
    finished
}

/// A process that has ended by itself with this code; its log holds each of `parts`.
#[track_caller]
pub fn ended(process: Process, code: i32, parts: &[&str]) -> Finished {
    let ended = process.wait();
    assert_eq!(ended.status.code(), Some(code), "{:#?}", ended.log);
    let log = ended.log.join("\n");
    parts.iter().for_each(|it| assert!(log.contains(it), "no '{it}': {log}"));
    ended
}
