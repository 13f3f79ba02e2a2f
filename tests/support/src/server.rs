//! The real server in this process: its ports are free ones, its environment is what the test says.

use std::{
    collections::HashMap,
    ffi::OsString,
    fmt,
    net::SocketAddr,
    path::Path,
    thread::{self, JoinHandle},
};

use configuration::{Environment, PathKind, ProcessEnvironment};
use machine::Machine;
use muster::{
    app::{App, AppError},
    config::{self, Command, ServerConfig},
    engines::EngineSettings,
    workers::Children,
};
use telemetry::logging::LogControl;
use tokio::sync::oneshot;

use super::{Client, NO_GPUS, Reply, Repository, program, switches, wait_for};

/// How a server is to start.
pub struct Start {
    /// What follows the word `muster`.
    pub args: Vec<String>,
    /// Variables; no others are seen.
    pub environment: FakeEnvironment,
    /// What the server may use of the machine.
    pub machine: Machine,
}

/// Variables that a test has set; paths are those of the file system.
#[derive(Default)]
pub struct FakeEnvironment(pub HashMap<String, OsString>);

impl Environment for FakeEnvironment {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.0.get(name).cloned()
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn kind_of(&self, path: &Path) -> Option<PathKind> {
        ProcessEnvironment.kind_of(path)
    }

    fn is_empty_directory(&self, path: &Path) -> bool {
        ProcessEnvironment.is_empty_directory(path)
    }

    fn text_of(&self, path: &Path) -> std::io::Result<String> {
        ProcessEnvironment.text_of(path)
    }

    fn first_process(&self) -> Option<Vec<OsString>> {
        None
    }
}

/// The error with which a server has ended. Its text is what the log says, with the reason of each model that did not
/// load.
#[derive(Debug)]
pub struct Ended(pub AppError);

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        let AppError::NotServed(models) = &self.0 else { return Ok(()) };
        models.failed.iter().try_for_each(|(name, reason)| write!(f, "; model '{name}': {reason}"))
    }
}

impl Start {
    /// `muster` over a repository, every port at 0, two processors, no delay when it stops.
    pub fn new(repository: &Repository) -> Start {
        let repository = format!("--model-repository={}", repository.at(""));
        Start::command(&[]).flags(&[
            &repository,
            "--http-port=0",
            "--grpc-port=0",
            "--sagemaker-port=0",
            "--metrics-port=0",
        ])
    }

    /// `muster` with these arguments; only the address and the times of the stop are added.
    pub fn command(args: &[&str]) -> Start {
        let machine = Machine {
            cpus: 2,
            cpu_reason: "2 processors".to_owned(),
            memory: Some(4 << 30),
            memory_reason: "4 GiB".to_owned(),
            open_files: Some(4096),
            address_space: None,
            largest_file: None,
        };
        let mut start =
            Start { args: Vec::new(), environment: FakeEnvironment::default(), machine };
        for (name, value) in switches() {
            start = start.variable(name, &value);
        }
        start = start.variable(NO_GPUS.0, NO_GPUS.1);
        start.flags(args).flags(&[
            "--http-address=127.0.0.1",
            "--drain-delay-secs=0",
            "--exit-timeout-secs=10",
        ])
    }

    /// Adds arguments; a later flag beats an earlier one.
    pub fn flags(mut self, flags: &[&str]) -> Start {
        self.args.extend(flags.iter().map(|it| (*it).to_owned()));
        self
    }

    /// Sets a variable of the environment.
    pub fn variable(mut self, name: &str, value: &str) -> Start {
        self.environment.0.insert(name.to_owned(), value.into());
        self
    }

    /// What the server makes of all this.
    pub fn config(&self) -> Result<ServerConfig, String> {
        let args = std::iter::once("muster").chain(self.args.iter().map(String::as_str));
        match config::read(args.map(OsString::from), &self.environment, &self.machine) {
            Ok(Command::Serve(config)) => Ok(*config),
            Ok(other) => Err(format!("not a server: {other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Starts, and waits until every model has been loaded or has failed.
    #[track_caller]
    pub fn run(&self) -> Server {
        self.try_run().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same; the error is that with which the server has ended.
    pub fn try_run(&self) -> Result<Server, Ended> {
        let server = self.launch();
        match server.wait_loaded() {
            true => Ok(server),
            false => Err(Ended(server.wait().expect_err("nobody has asked it to stop"))),
        }
    }

    /// Starts, and waits for nothing: ports are open, models may still be loading.
    #[track_caller]
    pub fn launch(&self) -> Server {
        let config = self.config().unwrap_or_else(|error| panic!("{error}"));
        let memory = self.machine.memory;
        let settings = EngineSettings::new(config.engines.clone(), String::new(), memory);
        let program = program().into();
        let children = Children::default();
        let engines = settings.isolated_engines(&config.isolation, program, &children).unwrap();
        let log = LogControl::new(&config.log);
        let app = App::build(config, &self.machine, engines, log)
            .unwrap_or_else(|error| panic!("{error}"));
        let addresses = app.addresses();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            app.run(async {
                // A sender that is gone asks for the same.
                let _ = stopped.await;
            })
        };
        let thread = thread::Builder::new().name("server".to_owned()).spawn(run).unwrap();
        Server { addresses, stop: Some(stop), thread: Some(thread) }
    }
}

/// A running server. Stopped when it is dropped.
pub struct Server {
    addresses: Vec<(&'static str, SocketAddr)>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), AppError>>>,
}

impl Server {
    /// A server over this repository, loaded, with these flags on top of those of [`Start::new`].
    #[track_caller]
    pub fn start(repository: &Repository, flags: &[&str]) -> Server {
        Start::new(repository).flags(flags).run()
    }

    /// The address of `http`, `grpc`, `sagemaker` or `metrics`; `None` where that service is off.
    pub fn address(&self, service: &str) -> Option<SocketAddr> {
        self.addresses.iter().find(|it| it.0 == service).map(|it| it.1)
    }

    /// The address of the HTTP port, else of the first that is open.
    pub fn http(&self) -> SocketAddr {
        self.address("http").unwrap_or(self.addresses[0].1)
    }

    /// The address of the SageMaker port.
    pub fn sagemaker(&self) -> SocketAddr {
        self.address("sagemaker").expect("the SageMaker port is on")
    }

    /// A new connection to the HTTP port.
    pub fn client(&self) -> Client {
        Client::connect(self.http())
    }

    /// A GET on a connection of its own.
    #[track_caller]
    pub fn get(&self, path: &str) -> Reply {
        self.client().get(path)
    }

    /// A POST of JSON on a connection of its own.
    #[track_caller]
    pub fn post(&self, path: &str, body: impl AsRef<[u8]>) -> Reply {
        self.client().post(path, &[("content-type", "application/json")], body.as_ref())
    }

    /// Waits until loading is over. False when the server has ended instead.
    #[track_caller]
    pub fn wait_loaded(&self) -> bool {
        wait_for("the server to have loaded its models", || {
            if self.has_ended() {
                return Some(false);
            }
            let mut client = Client::try_connect(self.http()).ok()?;
            let reply = client.try_request("GET", "/v2/health/ready", &[], None).ok()??;
            (reply.status == 200 || !reply.text().contains("still loading")).then_some(true)
        })
    }

    /// Has `run` returned?
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Asks the server to stop, as SIGTERM does; waits for nothing.
    pub fn begin_stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits for the server to end, and says how it did.
    pub fn wait(mut self) -> Result<(), AppError> {
        self.thread.take().expect("waited for once").join().expect("the server does not panic")
    }

    /// Stops the server and says how it ended.
    pub fn stop(mut self) -> Result<(), AppError> {
        self.begin_stop();
        self.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.begin_stop();
        let Some(thread) = self.thread.take() else { return };
        let outcome = thread.join();
        // A test that has failed already says why; one that has not must not hide a server that did.
        if !thread::panicking() && outcome.is_err() {
            panic!("the server panicked");
        }
    }
}
