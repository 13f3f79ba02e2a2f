//! Texts → [`ServerConfig`]: each part reads its own settings; this file settles those that concern several parts.

use std::path::PathBuf;

use super::{
    engines, isolation, lifecycle,
    models_from::{ModelsPlace, has_remote, models_from},
    recommending,
    server_config::ServerConfig,
    startup, surroundings,
};
use crate::{
    features::{self, FEATURES, SOURCES, STORES},
    protocols::text_settings as texts,
};
use ::sagemaker::settings::{
    answers,
    aws::{self, AwsFacade},
    emf, sagemaker, sessions,
};
use configuration::{
    Environment, Flag, Notice, Sources, command_line::Serve, compat::variables, value,
};
use frontend::settings::{
    access, clients, grpc, limits,
    listeners::{self, Reach},
    tls::{self, HttpTls, TlsFiles},
};
use kserve::settings as vertex;
use loading::settings::{
    HostedWay, ModelsFrom, NamedModels, PlatformFolder, Repository, control, hosted_start,
    model_defaults::{self, Start},
    multi_model, repository, user_scripts,
};
use machine::{Machine, gpus::Visibility};
use schedule::{
    rate_limit_settings,
    scheduling_settings::{self, StartedBy},
};
use serving::cache::cache_settings;
use sources::{Name, source_settings};
use stores::store_settings;
use telemetry::{
    capture::capture_settings, logging::log_settings, metrics::metrics_settings, trace_settings,
};

/// The flags of the server as a whole.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("id", "triton", "Name of the server in its metadata. Clients of Triton may look for its name, hence the default").named("NAME"),
];

/// Why clients on other machines may administrate a server that runs here; `None` where that is no reason.
fn place(
    environment: &dyn Environment,
    hosted: bool,
    is_multi_model: bool,
) -> Option<&'static str> {
    match () {
        () if hosted => Some("as a hosting platform has started the server"),
        () if is_multi_model => Some("as it is a multi-model endpoint"),
        () => surroundings::container(environment),
    }
}

/// Makes the configuration. If there are `problems`, it must not be used.
pub(super) fn resolve(
    serve: &Serve,
    mut sources: Sources<'_>,
    environment: &dyn Environment,
    machine: &Machine,
    problems: &mut Vec<String>,
) -> ServerConfig {
    features::refuse(&FEATURES, &sources, problems);
    let vertex_ai = listeners::has_vertex_ai(&sources, problems);
    let is_multi_model = multi_model::is_on(&sources, problems);
    let ModelsPlace { from, is_platforms: platform_folder, wanted } =
        models_from(serve, is_multi_model, vertex_ai, &sources, environment, problems);
    let port_by_platform =
        environment.variable(variables::BIND_TO_PORT).is_some_and(|it| !it.is_empty());
    let hosted = serve.word && (port_by_platform || platform_folder);
    let platforms = match &from {
        ModelsFrom::Path(path) if hosted && platform_folder && wanted.is_none() => {
            Some(path.clone())
        }
        _ => None,
    };
    let place = place(environment, hosted, is_multi_model);
    let reach = match place.is_some() || vertex_ai || serve.is_named_as_another() {
        true => Reach::Everywhere,
        false => Reach::ThisMachine,
    };
    let asked = listeners::Asked { hosted, vertex_ai, reach };
    let listeners = listeners::resolve(&mut sources, asked, problems);
    let grpc = grpc::resolve(&mut sources, problems);
    let sagemaker = sagemaker::resolve(&sources, environment, problems);
    sources.notices.extend(sagemaker.vendor.as_ref().map(|it| Notice::info(it.notice())));
    let aws = aws::resolve(&sources, environment, problems);
    let recommending = recommending::resolve(&sources, environment, aws.is_some(), problems);
    let opens_stores = has_remote(&from) || aws.as_ref().is_some_and(AwsFacade::needs_store);
    if opens_stores && !STORES.is_in {
        problems.push(format!("models or objects in an object store: {}", STORES.missing()));
    }
    if wanted.is_some() && !SOURCES.is_in {
        problems.push(format!("a model that is to be fetched: {}", SOURCES.missing()));
    }
    let are_named = matches!(from, ModelsFrom::Named(_));
    let mut control = control::resolve(are_named, &sources, environment, is_multi_model, problems);
    let multi_model =
        multi_model::resolve(is_multi_model, &mut sources, environment, machine, problems);
    if let Some(multi_model) = multi_model {
        control.set_multi_model(multi_model);
    }
    let way = match hosted || is_multi_model {
        true if sagemaker.is_for_tensorflow_serving() => HostedWay::TensorFlowServing,
        true if sagemaker.is_for_anyone() => HostedWay::ByModels,
        _ => HostedWay::Triton,
    };
    if hosted && !is_multi_model && !has_remote(&from) {
        control.hosted = hosted_start::start(&sources, way, sagemaker.default_model.as_ref());
    }
    let hosting = answers::resolve(&sources, problems);
    let startup = startup::resolve(&sources, environment, hosted, problems);
    let platforms = platforms.as_deref();
    let platform = PlatformFolder {
        scripts: user_scripts::resolve(hosted, &sources, environment, problems),
        ..hosted_start::folder(&sources, environment, platforms, way, problems)
    };
    let start = Start { hosted, batch: sagemaker.batch };
    let started_by = match () {
        () if sagemaker.batch => StartedBy::BatchJob,
        () if hosted || is_multi_model => StartedBy::Platform,
        () => StartedBy::Anyone,
    };
    let mut repository = Repository {
        platform,
        ..repository::resolve(from, &sources, environment, machine, problems)
    };
    if let Some(name) = &wanted {
        repository.model_name.get_or_insert_with(|| name.model().to_owned());
    }
    let graph = repository.pipelines.graph.as_deref().map(steps::graph_paths).unwrap_or_default();
    let may_open_stores = opens_stores || matches!(wanted, Some(Name::Mlflow(_)));
    let stores = store_settings::resolve(&sources, environment, may_open_stores, problems);
    let of_sources = stores.clone();
    let environments = stores.cache_dir.join("python");
    let mut config = ServerConfig {
        id: sources.read("id", value::text, problems).unwrap_or_else(|| "triton".to_owned()),
        hosted,
        listeners,
        grpc,
        stores,
        repository,
        wanted,
        sources: source_settings::resolve(graph, of_sources, &sources, environment, problems),
        control,
        model_defaults: model_defaults::resolve(&sources, start, problems),
        limits: limits::resolve(&mut sources, machine, problems),
        access: access::resolve(&sources, place, problems),
        tls: tls::resolve(&sources, problems),
        scheduling: scheduling_settings::resolve(&sources, started_by, problems),
        rate_limit: rate_limit_settings::resolve(&sources, problems),
        cache: cache_settings::resolve(&mut sources, environment, problems),
        lifecycle: lifecycle::resolve(&sources, problems),
        sagemaker,
        sessions: sessions::resolve(&sources, problems),
        clients: clients::resolve(&sources, problems),
        texts: texts::resolve(&sources, problems),
        aws,
        recommending,
        hosting,
        startup,
        vertex_ai: vertex::resolve(vertex_ai, &sources, problems),
        metrics: metrics_settings::resolve(&sources, problems),
        emf: emf::resolve(&sources, problems),
        capture: capture_settings::resolve(&sources, problems),
        gpu_visibility: gpu_visibility(environment),
        log: log_settings::resolve(&sources, problems),
        trace: trace_settings::resolve(&mut sources, environment, problems),
        engines: engines::resolve(&sources, hosted || is_multi_model, problems),
        isolation: isolation::resolve(&sources, machine, is_multi_model, problems),
        notices: sources.notices,
    };
    config.engines.python_env_dir.get_or_insert(environments);
    config.isolation.kept = kept(&config.repository.from, config.tls.as_ref());
    config
}

/// The repositories, the file that names the models, and the files of TLS. Directories of models that are named come
/// and go: each model is told of them at its load.
fn kept(from: &ModelsFrom, tls: Option<&HttpTls>) -> Vec<PathBuf> {
    let repositories = match from {
        ModelsFrom::Repositories(all) => all.clone(),
        ModelsFrom::Named(NamedModels::File { path, .. }) => vec![path.clone()],
        // One is the model's own.
        ModelsFrom::Path(_)
        | ModelsFrom::Fetched(_)
        | ModelsFrom::Named(NamedModels::One { .. }) => Vec::new(),
    };
    let files = tls.map(|it| {
        let TlsFiles { certificate, key, client_ca } = &it.files;
        [Some(certificate), Some(key), client_ca.as_ref()].into_iter().flatten()
    });
    let files = files.into_iter().flatten().map(|it| it.path.clone());
    repositories.into_iter().chain(files).collect()
}

/// The variables as CUDA and the container's runtime read them: an empty text has a meaning, too.
fn gpu_visibility(environment: &dyn Environment) -> Visibility {
    let text = |name| environment.variable(name).map(|it| it.to_string_lossy().into_owned());
    Visibility { cuda: text("CUDA_VISIBLE_DEVICES"), container: text("NVIDIA_VISIBLE_DEVICES") }
}
