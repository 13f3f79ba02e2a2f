//! The server as a whole: open the ports, load the models, serve, stop. Every part is created here and passed on as a
//! value.

mod announce;
mod banner;
mod error;
mod follow;
mod heap;
mod models;
mod observers;
mod ports;
mod quota;
mod recommender;
mod refresh;
mod retained;
mod scarcity;
mod settings;
mod startup;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    num::NonZeroUsize,
    sync::Arc,
    time::{Duration, Instant},
};

use backend::{Backend, MODEL_STACK};
use tokio::{sync::mpsc::Receiver, task::JoinSet};

pub use banner::Banner;
pub use error::AppError;
use models::Parts;
pub use models::check;
use observers::Observers;
use scarcity::Source;
use settings::{grpc_settings, http_settings, load_settings, metrics_settings};

use crate::{
    config::{Lifecycle, ServerConfig},
    protocols,
};
use frontend::{
    drain::{Drain, Stage},
    exchange::failure_lines::FailureLines,
    grpc::{Grpc, GrpcFront, GrpcSettings},
    http::{HttpFront, Listener, Service, listing::listed},
    memory::SharedMemory,
    net::{
        self, Front, IoThreads, PortFronts, footprint::Footprint, places::Places, tls::Acceptor,
    },
    serving::{Serving, ServingSettings},
    settings::TlsFiles,
};
use inference::{
    access::{TokenFile, TokenFileError},
    ledger::Ledger,
    trace::Tracing,
};
use loading::Control;
use machine::{Machine, gpus::Gpus};
use sagemaker::{Asked, Facade};
use serving::{HostParts, Hosts, ModelManager, cache::Cache, infer::Inference};
use telemetry::{logging::LogControl, metrics::Metrics};

/// How often models are asked to give back what instances at rest keep.
const REST_EVERY: Duration = Duration::from_secs(10);

/// How often the number of failed requests without a line is told.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Longest wait for the last traces to be written or sent, and again for the observers to write their data.
const LAST_TRACES: Duration = Duration::from_secs(2);

/// Connections to the port for metrics and health, which has places of its own: clients of other ports cannot take
/// them.
const METRICS_CONNECTIONS: usize = 64;

/// The numbers of the fronts: HTTP, HTTP on plain ports where others have TLS, and gRPC.
const HTTP: usize = 0;
const HTTP_HEALTH_ONLY: usize = 1;
const GRPC: usize = 2;

/// The number of the front with the routes of Vertex AI, where that is on. Its port may have TLS.
const VERTEX_AI: usize = 3;

/// How the server is asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Readiness says no for a while before nothing new is accepted.
    Drain,
    /// Nothing new is accepted from now on.
    Now,
}

impl From<()> for Wish {
    fn from((): ()) -> Wish {
        Wish::Drain
    }
}

/// A server whose ports are open.
pub struct App {
    config: ServerConfig,
    serving: Serving,
    control: Arc<Control>,
    io: IoThreads,
    listeners: Vec<(&'static str, TcpListener)>,
    /// Are there sensors of GPUs to read?
    samples_gpus: bool,
    /// Bytes of memory that this process may take; `None` where that is not known.
    memory: Option<u64>,
    /// The sources that are read again when their files change.
    watched: Vec<refresh::WatchedFiles>,
    /// The cache of answers.
    cache: Option<Arc<Cache>>,
    observers: Observers,
    /// Operations on jobs of the Inference Recommender; `None` where they are off.
    asked: Option<Receiver<Asked>>,
    /// Processors at the start.
    cpus: usize,
    /// What has to be done before models can be loaded.
    prepare: startup::Prepare,
    /// Shows a banner once the models are loaded; `None` where nobody looks.
    greet: Option<Box<dyn FnOnce(Banner) + Send>>,
}

impl App {
    /// Opens the ports and starts the I/O threads. No model is loaded yet, and no connection accepted. `log` lets
    /// clients change the log's settings.
    ///
    /// # Errors
    /// When a port is taken, or the system refuses a resource.
    pub fn build(
        config: ServerConfig,
        machine: &Machine,
        engines: Vec<Arc<dyn Backend>>,
        log: LogControl,
    ) -> Result<App, AppError> {
        let listeners = ports::open(&config.listeners)?;
        let prepare = startup::prepare(&config, &engines)?;
        let tokens = config.access.tokens_file.clone().map(|path| {
            let problem = |it: TokenFileError| AppError::File(format!("--auth-tokens-file {it}"));
            TokenFile::open(path).map(Arc::new).map_err(problem)
        });
        let only = config.access.api_key.clone().map(|it| Arc::new(TokenFile::of(it)));
        let tokens = tokens.transpose()?.or(only);
        let acceptor = |files: &TlsFiles, protocol| Acceptor::new(files.clone(), &[protocol]);
        let tls = config.tls.as_ref().map(|it| acceptor(&it.files, "http/1.1"));
        let tls = tls.transpose().map_err(|it| AppError::File(it.to_string()))?;
        let grpc_tls = config.grpc.tls.as_ref().map(|it| acceptor(it, "h2"));
        let grpc_tls = grpc_tls.transpose().map_err(|it| AppError::File(it.to_string()))?;
        let cpus = NonZeroUsize::new(machine.cpus).unwrap_or(NonZeroUsize::MIN);
        let (gpus, sensors) = Gpus::read(&config.gpu_visibility);
        announce::gpus(&gpus);
        let sensors = sensors.filter(|_| config.metrics.gpu_metrics);
        let samples_gpus = sensors.is_some();
        let metrics = Metrics::with_gpus(metrics_settings(&config), sensors);
        let manager = Arc::new(ModelManager::default());
        let limits = &config.limits;
        let ledger = Ledger::new(limits.inflight_bytes, machine.memory);
        let budget = ledger.bodies.clone();
        let tracing = Arc::new(Tracing::start(&config.trace, config.log.requests)?);
        let cache = config.cache.as_ref().map(|it| Arc::new(Cache::new(it, &metrics)));
        let inference = Inference::new(cache.clone(), Some(tracing.clone())).within(budget.clone());
        let hosts = Hosts::new(HostParts {
            models: manager.clone(),
            inference: inference.clone(),
            tracing: tracing.clone(),
            bytes: budget.clone(),
            metrics: metrics.clone(),
            request_timeout: config.scheduling.request_timeout,
            rest: protocols::tensorflow_inside(),
        });
        let parts = Parts {
            config: &config,
            settings: load_settings(&config, cpus, gpus),
            engines,
            manager: manager.clone(),
            metrics: metrics.clone(),
            budget: Some(budget.clone()),
            hosts: Some(hosts.clone()),
        };
        let control = Arc::new(parts.control()?);
        let asked: Arc<dyn serving::Control> = control.clone();
        hosts.controlled_by(Arc::downgrade(&asked));
        let serving = Serving {
            models: manager,
            control: control.clone(),
            inference,
            control_threads: Default::default(),
            request_ids: Default::default(),
            failure_lines: Default::default(),
            memory: Arc::new(SharedMemory::new(config.clients.shared_memory)),
            tracing,
            log,
            metrics,
            drain: Drain::default(),
            bytes: budget,
            footprint: Footprint::new(&ledger),
            ledger,
            settings: ServingSettings {
                server_name: config.id.as_str().into(),
                request_timeout: config.scheduling.request_timeout,
                strict_readiness: config.lifecycle.strict_readiness,
            },
        };
        let certificates = tls.iter().map(|it| ("the certificate of HTTP", it));
        let certificates =
            certificates.chain(grpc_tls.iter().map(|it| ("the certificate of gRPC", it)));
        let watched = refresh::watched(tokens.as_ref(), certificates);
        let observers = Observers::start(&config, &serving, machine)?;
        let (operations, asked) =
            config.recommending.as_ref().map(|_| sagemaker::operations()).unzip();
        let facade = config.aws.as_ref().map(|it| Facade::new(it, &config.stores, operations));
        let (facade, runner) = facade.unzip();
        let settings = http_settings(&config, &serving, tokens.clone());
        let listener = tls.map_or(Listener::Plain, Listener::Tls);
        let vertex_ai_listener = match &config.tls {
            Some(tls) if !tls.ports.has("vertex-ai") => Listener::HealthOnly,
            _ => listener.clone(),
        };
        let service = Service::new(serving.clone(), settings, listener);
        let service = service.capturing(observers.capture.clone());
        let model_ports = [
            (["http", "sagemaker"], config.tls.is_none()),
            (["tfs-grpc", "grpc"], config.grpc.tls.is_none()),
        ];
        let model_ports = model_ports
            .map(|(services, is_plain)| is_plain.then(|| ports::port_of(&listeners, services))?);
        let sagemaker = settings::sagemaker(&config, &observers, facade, cpus, model_ports);
        if let Some(runner) = runner.flatten() {
            let patience = config.lifecycle.patience();
            runner.start(service.clone(), sagemaker.clone(), patience)?;
        }
        let metrics_path = config.metrics.tensorflow_path.as_deref().map(Into::into);
        let protocols = protocols::http(sagemaker, metrics_path, config.texts.clone());
        let service = service.listing(listed(&protocols));
        let http = HttpFront { service, protocols };
        let health_only = http.behind(Listener::HealthOnly);
        let messages = grpc_settings(&config, &serving, tokens, grpc_tls);
        let access = messages.access.from_afar();
        let grpc = |settings| {
            let grpc = Arc::new(Grpc::new(serving.clone(), settings));
            GrpcFront { grpc, services: protocols::grpc() }
        };
        let grpc_afar = grpc(GrpcSettings { access, ..messages.clone() });
        let grpc = grpc(messages);
        let mut fronts: Vec<Arc<dyn Front>> =
            vec![Arc::new(http.clone()), Arc::new(health_only.clone()), Arc::new(grpc)];
        let mut afar: Vec<Arc<dyn Front>> = vec![
            Arc::new(http.from_afar()),
            Arc::new(health_only.from_afar()),
            Arc::new(grpc_afar),
        ];
        if config.vertex_ai.is_some() {
            let mut front = http.behind(vertex_ai_listener);
            front.protocols.0.routes = config.vertex_ai.clone().map(Arc::new);
            afar.push(Arc::new(front.from_afar()));
            fronts.push(Arc::new(front));
        }
        if !config.access.remote_administration.is_allowed {
            fronts.extend(afar);
        }
        let threads = config.listeners.http_threads.unwrap_or(net::default_threads(machine.cpus));
        let io = IoThreads::start(threads, cpus, fronts, serving.drain.clone())?;
        let cpus = machine.cpus;
        Ok(App {
            config,
            serving,
            control,
            io,
            listeners,
            samples_gpus,
            memory: machine.memory,
            watched,
            cache,
            observers,
            asked,
            cpus,
            prepare,
            greet: None,
        })
    }

    /// The same, with something that shows a banner once the models are loaded.
    pub fn greeting(self, greet: impl FnOnce(Banner) + Send + 'static) -> App {
        App { greet: Some(Box::new(greet)), ..self }
    }

    /// The addresses of the open ports, by service. A port given as 0 has its real number.
    pub fn addresses(&self) -> Vec<(&'static str, SocketAddr)> {
        let address = |(service, listener): &(&'static str, TcpListener)| {
            listener.local_addr().ok().map(|it| (*service, it))
        };
        self.listeners.iter().filter_map(address).collect()
    }

    /// Serves until `stop` is ready, then drains. Blocking.
    ///
    /// # Errors
    /// When no model could be loaded, or work was left when the time to stop was over.
    pub fn run(self, stop: impl Future<Output: Into<Wish>>) -> Result<(), AppError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            // The blocking threads of this runtime load the models.
            .thread_stack_size(MODEL_STACK)
            .build()?;
        let outcome = runtime.block_on(self.serve(stop));
        // A load that is still going on must not keep the process alive.
        runtime.shutdown_background();
        outcome
    }

    async fn serve(mut self, stop: impl Future<Output: Into<Wish>>) -> Result<(), AppError> {
        let addresses = self.addresses();
        for (service, address) in &addresses {
            tracing::info!(service, %address, "listening");
        }
        let serving = self.serving.clone();
        announce::administration(&self.config);
        // The fronts for other machines come after those for this one, in the same order.
        let first_afar = if self.config.vertex_ai.is_some() { VERTEX_AI + 1 } else { GRPC + 1 };
        let io = Arc::new(self.io);
        let mut tasks = JoinSet::new();
        let places = Places::new(self.config.limits.connections.get(), serving.footprint.clone());
        // They have memory of their own, too: the least that a ledger has is enough for them.
        let footprint_of_metrics = Footprint::new(&Ledger::new(0, None));
        let places_of_metrics = Places::new(METRICS_CONNECTIONS, footprint_of_metrics);
        for (service, listener) in self.listeners.drain(..) {
            let io = io.clone();
            let front = match &self.config.tls {
                _ if service == "grpc" || service == "tfs-grpc" => GRPC,
                _ if service == "vertex-ai" => VERTEX_AI,
                Some(tls) if !tls.ports.has(service) => HTTP_HEALTH_ONLY,
                _ => HTTP,
            };
            let places = match service {
                "metrics" => places_of_metrics.clone(),
                _ => places.clone(),
            };
            let fronts = match self.config.access.remote_administration.is_allowed {
                true => PortFronts { here: front, afar: front },
                false => PortFronts { here: front, afar: first_afar + front },
            };
            tasks.spawn(async move { io.accept(listener, fronts, places).await });
        }
        let interval = self.config.metrics.interval;
        let mut samplers = JoinSet::new();
        samplers.spawn(sample_process(serving.metrics.clone(), interval));
        samplers.spawn(tell_failures(serving.failure_lines.clone()));
        if self.samples_gpus {
            samplers.spawn(sample_gpus(serving.metrics.clone(), interval));
        }
        let control = self.control.clone();
        samplers.spawn(quota::watch(self.cpus, Machine::read, control));
        samplers.spawn(rest(self.control.clone()));
        if let Some(limit) = self.memory {
            let (models, control) = (serving.models.clone(), self.control.clone());
            let source = Source::open(limit);
            let read = move || source.read(|| models.process_bytes());
            let trim = move || {
                control.trim_memory();
                // Not only engines have freed some.
                environment::give_back_memory();
            };
            let (ledger, give_back) = (serving.ledger.clone(), environment::give_back_memory);
            samplers.spawn(scarcity::watch(limit, read, ledger, trim, give_back));
        }
        samplers.spawn(heap::watch(serving.footprint.clone(), environment::give_back_memory));
        if !self.watched.is_empty() {
            samplers.spawn(refresh::watch(self.watched));
        }

        if let Some(cache) = self.cache.clone() {
            samplers.spawn(async move { cache.greet().await });
        }

        let mut stop = std::pin::pin!(stop);
        let exit_on_error = self.config.lifecycle.exit_on_error;
        let load = load(self.prepare, self.control.clone(), exit_on_error);
        let loaded: Result<Result<(), AppError>, Wish> = tokio::select! {
            loaded = load => Ok(loaded),
            wish = &mut stop => Err(wish.into()),
            overdue = startup::overdue(&self.config, &self.control) => Ok(Err(overdue)),
        };
        let wish: Wish = match loaded {
            Ok(Ok(())) => {
                startup::isolated_names(&self.config, &serving)?;
                serving.models.finish_start();
                self.observers.ready();
                announce::serving(&serving, &addresses, &self.config);
                if let Some((settings, asked)) = self.config.recommending.as_ref().zip(self.asked) {
                    recommender::start(settings, asked)?;
                }
                // Polls the repository until it is dropped.
                let _following = follow::start(&self.config, &self.control)?;
                if let Some(greet) = self.greet.take() {
                    greet(Banner::of(&serving, &addresses, &self.config));
                }
                stop.await.into()
            }
            Ok(Err(error)) => {
                return Err(startup::explain(&self.config.startup, error, &serving));
            }
            Err(wish) => {
                tracing::info!("asked to stop while models were loading");
                wish
            }
        };
        samplers.abort_all();
        let mut lifecycle = self.config.lifecycle.clone();
        if wish == Wish::Now {
            lifecycle.drain_delay = Duration::ZERO;
        }
        drain(&lifecycle, &serving, &self.control, self.observers, tasks, io).await
    }
}

/// Samples the process and the machine for ever.
async fn sample_process(metrics: Metrics, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        metrics.sample_process();
    }
}

/// Tells of failed requests that had no line of their own, for ever.
async fn tell_failures(lines: Arc<FailureLines>) {
    loop {
        tokio::time::sleep(TELL_EVERY).await;
        lines.tell_left_out();
    }
}

/// Has models give back what instances at rest keep, for ever.
async fn rest(control: Arc<Control>) {
    loop {
        tokio::time::sleep(REST_EVERY).await;
        let control = control.clone();
        // This thread accepts connections.
        let _ = tokio::task::spawn_blocking(move || control.rest()).await;
    }
}

/// Samples the GPUs for ever, in a task of its own: a driver that hangs must not stop the other samples.
async fn sample_gpus(metrics: Metrics, interval: Duration) {
    loop {
        // Drivers are slow, and this thread accepts connections.
        let reading = metrics.clone();
        let _ = tokio::task::spawn_blocking(move || reading.sample_gpus()).await;
        tokio::time::sleep(interval).await;
    }
}

/// Stops in order: not ready but still serving; nothing new; what is in flight finishes; models close.
async fn drain(
    lifecycle: &Lifecycle,
    serving: &Serving,
    control: &Control,
    observers: Observers,
    mut accepting: JoinSet<io::Result<()>>,
    io: Arc<IoThreads>,
) -> Result<(), AppError> {
    let until = Instant::now() + lifecycle.exit_timeout;
    let left = || until.saturating_duration_since(Instant::now());
    tracing::info!(delay_ms = lifecycle.drain_delay.as_millis(), "stopping: not ready any more");
    serving.drain.advance(Stage::Leaving);
    tokio::time::sleep(lifecycle.drain_delay.min(lifecycle.exit_timeout)).await;
    tracing::info!("stopping: nothing new is accepted");
    serving.drain.advance(Stage::Closing);
    // Few further requests will come, so a batch should not wait for them.
    serving.models.flush();
    while let Some(ended) = accepting.join_next().await {
        if let Ok(Err(error)) = ended {
            tracing::error!(%error, "a listener has ended");
        }
    }
    let drained = serving.drain.finished(left()).await;
    serving.failure_lines.tell_left_out();
    let connections = if drained { 0 } else { serving.drain.busy() };
    observers.finish(left().min(LAST_TRACES));
    let threads = control.close(left());
    serving.tracing.finish(left().min(LAST_TRACES));
    if !drained || 0 < threads {
        return Err(AppError::NotDrained { connections, threads });
    }
    if let Some(io) = Arc::into_inner(io) {
        io.join(left()).await;
    }
    tracing::info!("stopped");
    Ok(())
}

/// Loads the first models on a thread of its own.
async fn load(
    prepare: startup::Prepare,
    control: Arc<Control>,
    exit_on_error: bool,
) -> Result<(), AppError> {
    let work = tokio::task::spawn_blocking(move || {
        prepare()?;
        Ok(control.start(exit_on_error)?)
    });
    match work.await {
        Ok(outcome) => outcome,
        Err(error) => Err(AppError::Models(format!("loading models failed: {error}"))),
    }
}
