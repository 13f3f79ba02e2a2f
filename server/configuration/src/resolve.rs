//! Texts → [`ServerConfig`]: defaults that depend on each other or on the machine, and the checks that
//! need more than one setting.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    access,
    aws::{self, AwsFacade},
    cache, capture,
    command_line::Serve,
    control, emf,
    environment::{Environment, PathKind},
    foreign, grpc,
    hosting::{self, PlatformFolder},
    listeners, metrics,
    model_defaults::{self, Start},
    multi_model, named,
    rate_limit::rate_limit,
    report::Notice,
    sagemaker,
    server::{
        BodyPace, Lifecycle, Limits, LogConfig, LogFormat, ModelsFrom, QueueWait, Repository,
        Scheduling, ServerConfig,
    },
    sessions,
    sources::{Origin, Sources, variable_text},
    stores::{self, StoreUrl},
    tls, trace, value, vertex,
};
use machine::{Machine, gpus::Visibility};

const GIB: u64 = 1 << 30;

/// The body limit of a server with memory to spare. See the setting's help for why it is not 64 MiB.
const BODY_LIMIT: u64 = GIB;

/// The budget for bodies where the memory limit is unknown.
const UNKNOWN_MEMORY_BUDGET: u64 = GIB;

/// Connections cost some 10 KiB each even when idle.
const MOST_CONNECTIONS: u64 = 65_536;

/// File descriptors for models, logs and listeners, which connections must leave.
const RESERVED_FILES: u64 = 256;

/// Where SageMaker puts the model.
const HOSTED_MODEL: &str = "/opt/ml/model";

/// Beside the place where the server was started.
const LOCAL_REPOSITORY: &str = "model_repository";

/// Makes the configuration. With `problems` found it is not to be used.
pub(super) fn resolve(
    serve: &Serve,
    mut sources: Sources,
    environment: &dyn Environment,
    machine: &Machine,
    problems: &mut Vec<String>,
) -> ServerConfig {
    let vertex_ai = vertex::is_on(&sources, problems);
    let is_multi_model = multi_model::is_on(&sources, problems);
    let (from, platform_folder) = match is_multi_model {
        true => {
            let from = multi_model::models_from(serve.path.as_ref(), &sources, problems);
            (from, multi_model::is_by_platform(&sources))
        }
        false => models_from(serve, vertex_ai, &sources, environment, problems),
    };
    let port_by_platform =
        environment.variable(foreign::BIND_TO_PORT).is_some_and(|it| !it.is_empty());
    let hosted = serve.word && (port_by_platform || platform_folder);
    let platforms = match &from {
        ModelsFrom::Path(path) if hosted && platform_folder => Some(path.clone()),
        _ => None,
    };
    let listeners = listeners::resolve(&mut sources, hosted, vertex_ai, problems);
    let grpc = grpc::resolve(&mut sources, problems);
    let sagemaker = sagemaker::resolve(&sources, environment, problems);
    sources.notices.extend(sagemaker.vendor.as_ref().map(|it| Notice::info(it.told())));
    let aws = aws::resolve(&sources, environment, problems);
    let opens_stores = has_remote(&from) || aws.as_ref().is_some_and(AwsFacade::needs_store);
    let are_named = matches!(from, ModelsFrom::Named(_));
    let mut control = control::resolve(are_named, &sources, environment, is_multi_model, problems);
    multi_model::resolve(
        is_multi_model,
        &mut control,
        &mut sources,
        environment,
        machine,
        problems,
    );
    if hosted && !is_multi_model && !has_remote(&from) {
        control.hosted = hosting::start(&sources, environment, sagemaker.default_model.as_ref());
    }
    let hosting = hosting::resolve(&sources, environment, (&from, hosted), problems);
    let platform = hosting::folder(&sources, environment, platforms.as_deref(), problems);
    let start = Start { hosted, batch: sagemaker.batch };
    ServerConfig {
        id: sources.read("id", value::text, problems).unwrap_or_else(|| "triton".to_owned()),
        hosted,
        listeners,
        grpc,
        stores: stores::resolve(&sources, environment, opens_stores, problems),
        repository: Repository { platform, ..repository(from, &sources, machine, problems) },
        control,
        model_defaults: model_defaults::resolve(&sources, start, problems),
        limits: limits(&mut sources, machine, problems),
        access: access::resolve(&sources, problems),
        tls: tls::resolve(&sources, problems),
        scheduling: scheduling(&sources, sagemaker.batch, problems),
        rate_limit: rate_limit(&sources, problems),
        cache: cache::resolve(&mut sources, environment, problems),
        lifecycle: lifecycle(&sources, problems),
        sagemaker,
        sessions: sessions::resolve(&sources, problems),
        allow_websocket: sources.read("allow-websocket", value::boolean, problems).unwrap_or(true),
        aws,
        hosting,
        vertex_ai: vertex::resolve(vertex_ai, &sources, problems),
        client_shared_memory: sources
            .read("allow-client-shm", value::boolean, problems)
            .unwrap_or(false),
        metrics: metrics::resolve(&sources, problems),
        metrics_interval: sources
            .read("metrics-interval-ms", value::milliseconds, problems)
            .unwrap_or(Duration::from_secs(2)),
        emf: emf::resolve(&sources, problems),
        capture: capture::resolve(&sources, problems),
        gpu_metrics: sources.read("allow-gpu-metrics", value::boolean, problems).unwrap_or(true),
        gpu_visibility: gpu_visibility(environment),
        log: log(&sources, problems),
        trace: trace::resolve(&mut sources, environment, problems),
        onnxruntime_library: sources.read("onnxruntime-library", value::path, problems),
        pytorch_plugin: sources.read("pytorch-plugin", value::path, problems),
        model_cache_dir: sources.read("model-cache-dir", value::path, problems),
        notices: sources.notices,
    }
}

/// As CUDA and the container's runtime left it: an empty text says something, too.
fn gpu_visibility(environment: &dyn Environment) -> Visibility {
    let text = |name| environment.variable(name).map(|it| it.to_string_lossy().into_owned());
    Visibility { cuda: text("CUDA_VISIBLE_DEVICES"), container: text("NVIDIA_VISIBLE_DEVICES") }
}

/// Where models are, and whether that is the platform's folder.
fn models_from(
    serve: &Serve,
    vertex_ai: bool,
    sources: &Sources,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> (ModelsFrom, bool) {
    let repositories = sources.read_all("model-repository", value::path, problems);
    let named = named::resolve(sources, environment, problems);
    if let Some(named) = named {
        if let Some(path) = &serve.path {
            problems.push(format!(
                "'muster serve {}' says where the model is, and so does --model-config-file or \
                 --model-base-path: give one of them",
                path.display()
            ));
        }
        return (ModelsFrom::Named(named), false);
    }
    if let Some(path) = &serve.path {
        let remote = path.to_str().filter(|it| StoreUrl::is_one(it));
        let typed = sources
            .last("model-repository")
            .is_some_and(|it| matches!(it.origin, Origin::CommandLine));
        if typed {
            problems.push(format!(
                "'muster serve {}' says where the model is, and so does --model-repository: give one \
                 of them",
                path.display()
            ));
        } else if let Some(text) = remote {
            if let Err(expected) = StoreUrl::parse(text) {
                problems.push(format!("muster serve: expected {expected}"));
            }
            return (ModelsFrom::Repositories(vec![path.clone()]), false);
        } else if environment.kind_of(path).is_none() {
            problems.push(format!("the model '{}' does not exist", path.display()));
        }
        return (ModelsFrom::Path(path.clone()), false);
    }
    if !repositories.is_empty() {
        for given in sources.all("model-repository") {
            if StoreUrl::is_one(&given.text) {
                if let Err(expected) = StoreUrl::parse(&given.text) {
                    problems.push(format!("--model-repository: expected {expected}"));
                }
                continue;
            }
            match environment.kind_of(Path::new(&given.text)) {
                Some(PathKind::Directory) => {}
                Some(PathKind::File) => problems.push(format!(
                    "{given}: expected a directory, this is a file (for a single model: muster \
                     serve {})",
                    given.text
                )),
                None => problems.push(format!("{given}: expected a directory, there is none")),
            }
        }
        return (ModelsFrom::Repositories(repositories), false);
    }
    if let Some(path) = vertex::storage(vertex_ai, environment, problems) {
        return (ModelsFrom::Path(path), false);
    }
    let folder = platform_folder(environment, problems);
    if let Some((variable, path)) = &folder
        && environment.kind_of(path) != Some(PathKind::Directory)
    {
        problems.push(format!(
            "{variable} (environment): expected a directory of models at '{}', there is none",
            path.display()
        ));
    }
    if let Some((_, path)) = folder {
        return (ModelsFrom::Path(path), true);
    }
    if environment.kind_of(Path::new(HOSTED_MODEL)) == Some(PathKind::Directory) {
        return (ModelsFrom::Path(HOSTED_MODEL.into()), true);
    }
    let hub = variable_text(environment, foreign::HUB_MODEL, problems);
    let hub = hub.map_or(String::new(), |model| {
        format!("; nothing is fetched from a hub ({}='{model}')", foreign::HUB_MODEL)
    });
    let is_there = environment.kind_of(Path::new(LOCAL_REPOSITORY)) == Some(PathKind::Directory);
    if !is_there && !serve.rehearsed {
        problems.push(format!(
            "there are no models: neither {HOSTED_MODEL} nor ./{LOCAL_REPOSITORY} exists; name a \
             directory with --model-repository (or MUSTER_MODEL_REPOSITORY), or a model with \
             'muster serve path/to/model.onnx'; in a container, mount them: docker run -v \
             /path/to/models:{HOSTED_MODEL}:ro{hub}"
        ));
    }
    (ModelsFrom::Repositories(vec![LOCAL_REPOSITORY.into()]), false)
}

/// Is one of them in an object store?
fn has_remote(from: &ModelsFrom) -> bool {
    let ModelsFrom::Repositories(all) = from else { return false };
    all.iter().any(|it| it.to_str().is_some_and(StoreUrl::is_one))
}

/// The model folder that the platform's variables name, and the variable.
fn platform_folder(
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> Option<(&'static str, PathBuf)> {
    let mut path = |name| variable_text(environment, name, problems).map(PathBuf::from);
    path(foreign::MODEL_PATH)
        .map(|it| (foreign::MODEL_PATH, it))
        .or_else(|| path(foreign::BASE_DIR).map(|it| (foreign::BASE_DIR, it.join("model"))))
}

fn repository(
    from: ModelsFrom,
    sources: &Sources,
    machine: &Machine,
    problems: &mut Vec<String>,
) -> Repository {
    let explicit =
        sources.read("disable-auto-complete-config", value::boolean, problems).unwrap_or(false);
    let strict = sources.read("strict-model-config", value::boolean, problems).unwrap_or(false);
    let limits = sources.read_all("model-load-gpu-limit", value::gpu_limit, problems);
    let has_sensors = sources.read("allow-gpu-metrics", value::boolean, &mut Vec::new());
    if let (Some(given), Some(false)) = (sources.last("model-load-gpu-limit"), has_sensors) {
        problems.push(format!(
            "{given}: needs --allow-gpu-metrics=true, by which the memory of GPUs is looked at"
        ));
    }
    Repository {
        from,
        gpu_limits: limits,
        model_name: sources.read("model-name", value::model_name, problems),
        config_name: sources.read("model-config-name", value::model_name, problems),
        auto_complete: !explicit && !strict,
        load_threads: sources
            .read("model-load-thread-count", value::count, problems)
            .or_else(|| NonZeroUsize::new(machine.cpus))
            .unwrap_or(NonZeroUsize::MIN),
        backend_settings: sources.read_all("backend-config", value::backend_setting, problems),
        platform: PlatformFolder::default(),
        refuse_code: sources.read("secure-mode", value::boolean, problems).unwrap_or(false),
    }
}

fn limits(sources: &mut Sources, machine: &Machine, problems: &mut Vec<String>) -> Limits {
    let (body_bytes, inflight_bytes) = bytes_limits(sources, machine, problems);
    let by_files = machine.open_files.map_or(MOST_CONNECTIONS, |files| {
        files.saturating_sub(RESERVED_FILES.min(files / 2)).min(MOST_CONNECTIONS)
    });
    let by_files = usize::try_from(by_files).ok().and_then(NonZeroUsize::new);
    let mut time = |name, parse: fn(&str) -> value::Parse<Duration>, default| {
        sources.read(name, parse, problems).unwrap_or(Duration::from_secs(default))
    };
    let header_timeout = time("header-timeout-secs", value::seconds_above_zero, 10);
    let idle_timeout = time("idle-timeout-secs", value::seconds_above_zero, 75);
    let grace = time("body-grace-secs", value::seconds_above_zero, 10);
    Limits {
        body_bytes,
        inflight_bytes,
        connections: sources
            .read("max-connections", value::count, problems)
            .or(by_files)
            .unwrap_or(NonZeroUsize::MIN),
        header_timeout,
        idle_timeout,
        body_pace: BodyPace {
            grace,
            bytes_per_second: sources.read("body-min-rate", value::bytes, problems).unwrap_or(1024),
        },
        http_compression: sources
            .read("http-compression", value::boolean, problems)
            .unwrap_or(true),
    }
}

/// The limit of one body and that of all of them. One body must fit into the budget, or a client would
/// be told to come back for ever; what was not given yields to what was.
fn bytes_limits(
    sources: &mut Sources,
    machine: &Machine,
    problems: &mut Vec<String>,
) -> (u64, u64) {
    let body = sources.read("http-max-input-size", value::bytes_from_one, problems);
    let budget = sources.read("max-inflight-bytes", value::bytes_from_one, problems);
    let by_memory = machine.memory.map_or(UNKNOWN_MEMORY_BUDGET, |it| it / 4).max(1);
    match (body, budget) {
        (Some(body), Some(budget)) => {
            let given = sources.last("http-max-input-size").filter(|_| body > budget);
            let other = sources.last("max-inflight-bytes");
            if let (Some(given), Some(other)) = (given, other) {
                problems.push(format!("{given}: expected no more than {other}"));
            }
            (body, budget)
        }
        (Some(body), None) => {
            if body > by_memory {
                sources.notices.push(Notice::warning(format!(
                    "the body limit of {body} bytes is more than a quarter of the memory ({}); the \
                     budget for all bodies (--max-inflight-bytes) is raised to it",
                    machine.memory_reason
                )));
            }
            (body, by_memory.max(body))
        }
        (None, budget) => {
            let budget = budget.unwrap_or(by_memory);
            (BODY_LIMIT.min(budget), budget)
        }
    }
}

fn scheduling(sources: &Sources, batch: bool, problems: &mut Vec<String>) -> Scheduling {
    // A batch job has all day, and a refused request costs it a file.
    let default_wait = if batch { QueueWait::Unbounded } else { QueueWait::Auto };
    Scheduling {
        queue_wait: sources
            .read("max-queue-wait-ms", value::queue_wait, problems)
            .unwrap_or(default_wait),
        request_timeout: sources
            .read("request-timeout-ms", value::milliseconds_or_none, problems)
            .flatten(),
        caller_runs: sources.read("caller-runs", value::caller_runs, problems).unwrap_or(true),
        spin: sources.read("worker-spin-us", value::spin, problems).unwrap_or_default(),
        hold: sources.read("scheduler-hold", value::number, problems).unwrap_or(0),
    }
}

fn lifecycle(sources: &Sources, problems: &mut Vec<String>) -> Lifecycle {
    let exit_timeout = sources
        .read("exit-timeout-secs", value::seconds, problems)
        .unwrap_or(Duration::from_secs(25));
    let drain_delay = sources.read("drain-delay-secs", value::seconds, problems);
    if let (Some(given), Some(delay)) = (sources.last("drain-delay-secs"), drain_delay)
        && delay > exit_timeout
    {
        problems.push(format!(
            "{given}: expected no more than --exit-timeout-secs, {}, of which it is a part",
            exit_timeout.as_secs_f64()
        ));
    }
    Lifecycle {
        exit_on_error: sources.read("exit-on-error", value::boolean, problems).unwrap_or(false),
        strict_readiness: sources
            .read("strict-readiness", value::boolean, problems)
            .unwrap_or(true),
        exit_timeout,
        drain_delay: drain_delay.unwrap_or(Duration::from_secs(2).min(exit_timeout)),
    }
}

fn log(sources: &Sources, problems: &mut Vec<String>) -> LogConfig {
    LogConfig {
        verbose: sources.read("log-verbose", value::verbosity, problems).unwrap_or(0),
        info: sources.read("log-info", value::boolean, problems).unwrap_or(true),
        warning: sources.read("log-warning", value::boolean, problems).unwrap_or(true),
        error: sources.read("log-error", value::boolean, problems).unwrap_or(true),
        format: sources.read("log-format", value::log_format, problems).unwrap_or(LogFormat::Text),
        requests: sources.read("log-requests", value::boolean, problems).unwrap_or(false),
        file: sources.read("log-file", value::path, problems),
    }
}
