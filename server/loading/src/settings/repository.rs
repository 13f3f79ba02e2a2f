//! Where models are, and how they are loaded.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use super::{
    gpu_limit::{self, GpuLimit},
    hosted_start::PlatformFolder,
    named_models::{NamedModels, model_name},
};
use configuration::{
    Environment, Flag, Sources,
    value::{self, Parse},
};
use machine::Machine;
use serving::pipeline::pipeline_settings::{self, PipelineSettings};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::many("model-repository", "Directory of models: <name>/config.pbtxt, <name>/<version>/model.onnx; or an address, s3://bucket/path, gs://bucket/path or as://account/container/path. May be given several times. Default: /opt/ml/model, else ./model_repository, whichever exists").named("DIR"),
    Flag::value("model-name", "", "Name of the model where there is only one. Default: its directory's or file's").named("NAME"),
    Flag::boolean("disable-auto-complete-config", "false", "Do not fill in what config.pbtxt leaves out"),
    Flag::boolean("strict-model-config", "false", "Older name of --disable-auto-complete-config"),
    Flag::value("model-config-name", "", "Read configs/<name>.pbtxt of each model that has it, instead of its config.pbtxt").named("NAME"),
    Flag::value("model-load-thread-count", "", "Models that load at the same time. Default: as many as there are processors").named("COUNT"),
    Flag::many("backend-config", "[<backend>,]<key>=<value>, as default-max-batch-size=8 or onnxruntime,intra_op_thread_count=2").named("[ENGINE,]KEY=VALUE"),
    Flag::boolean("secure-mode", "false", "Refuse models that bring code, libraries of operators (model_operations), SavedModels whose graphs reach files or other programs, and those whose settings name files of the server, as session.optimized_model_filepath"),
    Flag::boolean("trust-load-requests", "false", "What a request to load a model brings, its configuration and its files, may do so, unless --secure-mode refuses it"),
    Flag::boolean("run-pickles", "false", "Pickles and files of skops that the engine for trees does not read, as other estimators of scikit-learn, are opened in Python. To open a pickle is to run what it says: any code. Default: refuse them"),
    Flag::boolean("average-folds", "true", "Files xgboost-model-0, xgboost-model-1 and so on in one folder are one model, which answers with their average; false: with the first alone"),
    Flag::value("load-limit-secs", "", "Time that an engine may take to read a model and to prepare it. Default: 600 and a second for each 10 MB of its files, on GPUs 3600 and those").named("SECONDS"),
    Flag::value("load-run-limit-secs", "", "Time that an instance's runs before it serves may take: trying its rows, warming up. Default: 120, on GPUs 900").named("SECONDS"),
];

/// The one key of `--backend-config` that the server reads itself.
const DEFAULT_MAX_BATCH_SIZE: &str = "default-max-batch-size";

/// Where models are, and how they are loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Repository {
    /// Where they are.
    pub from: ModelsFrom,
    /// `--model-name`: what the only model is called, whatever its directory is.
    pub model_name: Option<String>,
    /// `--model-config-name`: `configs/<name>.pbtxt` goes before `config.pbtxt`.
    pub config_name: Option<String>,
    /// Fill in what `config.pbtxt` leaves out; off with `--disable-auto-complete-config`.
    pub auto_complete: bool,
    /// `--model-load-thread-count`: models that load at the same time.
    pub load_threads: NonZeroUsize,
    /// `--model-load-gpu-limit`, in the order given: a later one beats an earlier one.
    pub gpu_limits: Vec<GpuLimit>,
    /// `--backend-config`, in the order given: a later one beats an earlier one.
    pub backend_settings: Vec<BackendSetting>,
    /// What else may be in a platform's folder.
    pub platform: PlatformFolder,
    /// `--secure-mode`: are models refused that bring code?
    pub refuse_code: bool,
    /// `--trust-load-requests`: may the configuration and the files in a request bring code, and reach files of this
    /// machine?
    pub trusts_load_requests: bool,
    /// `--run-pickles`: are pickles run that no engine reads as data?
    pub runs_pickles: bool,
    /// `--average-folds`: are files that only the number at the end of their names tells apart one model?
    pub averages_folds: bool,
    /// `--load-limit-secs`: how long an engine may take to read a model and to prepare it.
    pub load_limit: Option<Duration>,
    /// `--load-run-limit-secs`: how long an instance's runs before it serves may take.
    pub load_run_limit: Option<Duration>,
    /// Folders that take texts.
    pub pipelines: PipelineSettings,
}

/// Where models are.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelsFrom {
    /// Model repositories: `<name>/config.pbtxt`, `<name>/<version>/model.onnx`. They were directories
    /// when the configuration was read, or are addresses of object stores.
    Repositories(Vec<PathBuf>),
    /// A model file, or a directory of any accepted layout: a repository, one model flat in it, or
    /// version directories. It existed when the configuration was read.
    Path(PathBuf),
    /// The same, fetched while the server starts.
    Fetched(FetchedPath),
    /// Each with a directory of its own.
    Named(NamedModels),
}

/// Where a model lies that is fetched before the first load. Whoever holds one sees it as soon as it is there.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FetchedPath(Arc<OnceLock<PathBuf>>);

impl FetchedPath {
    /// The path; `None` until the model is there.
    pub fn get(&self) -> Option<&Path> {
        self.0.get().map(PathBuf::as_path)
    }

    /// It is there. Only the first call counts.
    pub fn set(&self, path: PathBuf) {
        let _ = self.0.set(path);
    }
}

impl ModelsFrom {
    /// The one place that is a model, or a directory of any accepted layout; `None` for others, and until it is there.
    pub fn path(&self) -> Option<&Path> {
        match self {
            ModelsFrom::Path(path) => Some(path),
            ModelsFrom::Fetched(path) => path.get(),
            ModelsFrom::Repositories(_) | ModelsFrom::Named(_) => None,
        }
    }
}

/// One `--backend-config`.
#[derive(Debug, Clone, PartialEq)]
pub struct BackendSetting {
    /// The engine it is for; `None` for all.
    pub backend: Option<String>,
    /// `default-max-batch-size`.
    pub key: String,
    /// Its value, unread but for the keys that the server knows.
    pub value: String,
}

impl Repository {
    /// The value of a key for an engine: what was set for it, else what was set for all.
    pub fn backend_setting(&self, backend: &str, key: &str) -> Option<&str> {
        let find = |wanted: Option<&str>| {
            let mut settings = self.backend_settings.iter().rev();
            settings.find(|it| it.key == key && it.backend.as_deref() == wanted)
        };
        find(Some(backend)).or_else(|| find(None)).map(|it| &*it.value)
    }

    /// `max_batch_size` of a model of this engine that can batch and does not say how much, by
    /// `--backend-config=default-max-batch-size=<n>`.
    pub fn default_max_batch_size(&self, backend: &str) -> Option<usize> {
        self.backend_setting(backend, DEFAULT_MAX_BATCH_SIZE)?.parse().ok()
    }
}

/// Reads it, but for the platform's folder. `from` is where models are.
pub fn resolve(
    from: ModelsFrom,
    sources: &Sources,
    environment: &dyn Environment,
    machine: &Machine,
    problems: &mut Vec<String>,
) -> Repository {
    let explicit =
        sources.read("disable-auto-complete-config", value::boolean, problems).unwrap_or(false);
    let strict = sources.read("strict-model-config", value::boolean, problems).unwrap_or(false);
    let gpu_limits = gpu_limit::resolve(sources, problems);
    let seconds = |flag, problems: &mut Vec<String>| {
        let seconds = sources.read(flag, value::count, problems);
        seconds.map(|it| Duration::from_secs(it.get() as u64))
    };
    Repository {
        from,
        gpu_limits,
        model_name: sources.read("model-name", model_name, problems),
        config_name: sources.read("model-config-name", model_name, problems),
        auto_complete: !explicit && !strict,
        load_threads: sources
            .read("model-load-thread-count", value::threads, problems)
            .or_else(|| NonZeroUsize::new(machine.cpus))
            .unwrap_or(NonZeroUsize::MIN),
        backend_settings: sources.read_all("backend-config", backend_setting, problems),
        platform: PlatformFolder::default(),
        refuse_code: sources.read("secure-mode", value::boolean, problems).unwrap_or(false),
        trusts_load_requests: sources
            .read("trust-load-requests", value::boolean, problems)
            .unwrap_or(false),
        runs_pickles: sources.read("run-pickles", value::boolean, problems).unwrap_or(false),
        averages_folds: sources.read("average-folds", value::boolean, problems).unwrap_or(true),
        load_limit: seconds("load-limit-secs", problems),
        load_run_limit: seconds("load-run-limit-secs", problems),
        pipelines: pipeline_settings::resolve(sources, environment, problems),
    }
}

/// `[<backend>,]<key>=<value>`.
fn backend_setting(text: &str) -> Parse<BackendSetting> {
    let form = || "[<backend>,]<key>=<value>, as default-max-batch-size=8".to_owned();
    let (name, value) = text.split_once('=').ok_or_else(form)?;
    let (backend, key) = match name.split_once(',') {
        Some((backend, key)) => (Some(backend.to_owned()), key),
        None => (None, name),
    };
    if key.is_empty() || backend.as_deref() == Some("") {
        return Err(form());
    }
    if key == DEFAULT_MAX_BATCH_SIZE && value.parse::<u32>().is_err() {
        return Err(format!("a whole number from 0 for {key}"));
    }
    Ok(BackendSetting { backend, key: key.to_owned(), value: value.to_owned() })
}
