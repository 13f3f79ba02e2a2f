//! How models are fetched by name: flags, and what the variables of Hugging Face's own client say. Nothing is fetched
//! here.

use std::{fmt, path::PathBuf};

use configuration::{
    Environment, Flag, Sources,
    value::{self, Parse},
    variable_text,
};
use stores::StoreSettings;

use crate::name::is_revision;

/// Hugging Face's hub.
const ENDPOINT: &str = "https://huggingface.co";
/// The branch that every repository of a hub has.
const BRANCH: &str = "main";

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("lock-file", "", "File with the revisions and digests of models by name. `muster pull` writes it, and `muster serve` serves what is in it and nothing else").named("FILE"),
    Flag::value("hub-endpoint", ENDPOINT, "Address of the hub that models of the form <owner>/<name> are fetched from (HF_ENDPOINT)").named("URL"),
    Flag::value("hub-token", "", "Token for private models of the hub, which no other host gets (HF_TOKEN). Default: the one that `hf auth login` has kept").named("TOKEN").secret(),
    Flag::value("hub-revision", BRANCH, "Branch, tag or commit of a model of the hub whose name says none (HF_MODEL_REVISION)").named("REVISION"),
    Flag::value("hub-cache-dir", "", "Directory of models of the hub, as huggingface_hub has it (HF_HUB_CACHE). Default: hub in HF_HOME, which is ~/.cache/huggingface").named("DIR"),
    Flag::boolean("hub-offline", "false", "Ask no hub: serve what lies in its cache (HF_HUB_OFFLINE)"),
];

/// How models are fetched by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceSettings {
    /// The paths that the graph may have which `--pipeline-graph` names; empty where it names none.
    pub graphs: Vec<String>,
    /// `--lock-file`.
    pub lock_file: Option<PathBuf>,
    /// The directory of models that are of no hub.
    pub cache: PathBuf,
    /// Hugging Face's hub, or what speaks as it does.
    pub hub: HubSettings,
    /// MLflow's registry.
    pub mlflow: MlflowSettings,
    /// The stores that may have MLflow's artifacts.
    pub stores: StoreSettings,
    /// What `docker login` has written, where there is such a file.
    pub docker_config: Option<Secret>,
}

/// MLflow's registry, by the variables that its own clients read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MlflowSettings {
    /// `MLFLOW_REGISTRY_URI`, else `MLFLOW_TRACKING_URI`.
    pub registry: Option<String>,
    /// `MLFLOW_TRACKING_URI`: the server that has artifacts.
    pub tracking: Option<String>,
    /// `MLFLOW_TRACKING_USERNAME` and `MLFLOW_TRACKING_PASSWORD`.
    pub user: Option<(String, Secret)>,
    /// `MLFLOW_TRACKING_TOKEN`.
    pub token: Option<Secret>,
    /// `MLFLOW_S3_ENDPOINT_URL`: who has the buckets of `s3://`.
    pub s3_endpoint: Option<String>,
}

/// A hub.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HubSettings {
    /// `--hub-endpoint`, without a slash at its end.
    pub endpoint: String,
    /// `--hub-token`.
    pub token: Option<Secret>,
    /// `--hub-revision`.
    pub revision: String,
    /// `--hub-cache-dir`; `None` where no variable names a home.
    pub cache: Option<PathBuf>,
    /// `--hub-offline`.
    pub is_offline: bool,
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A text that is never shown.
    pub fn new(text: String) -> Secret {
        Secret(text)
    }

    /// The text, to be sent.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Reads the settings. `graphs` are the paths that the graph may have which the operator has named. The directory of
/// copies of what is no hub's is that of `stores`.
pub fn resolve(
    graphs: Vec<String>,
    stores: StoreSettings,
    sources: &Sources,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> SourceSettings {
    let home = home(environment, problems);
    let of_hub = sources.read("hub-cache-dir", value::path, problems);
    let token = sources.read("hub-token", token, problems);
    let address = sources.read("hub-endpoint", endpoint, problems);
    let branch = sources.read("hub-revision", revision, problems);
    let hub = HubSettings {
        endpoint: address.unwrap_or_else(|| ENDPOINT.to_owned()),
        token: token.or_else(|| kept_token(home.as_ref(), environment, problems)),
        revision: branch.unwrap_or_else(|| BRANCH.to_owned()),
        cache: of_hub.or_else(|| Some(home?.join("hub"))),
        is_offline: sources.read("hub-offline", value::boolean, problems).unwrap_or(false),
    };
    let lock_file = sources.read("lock-file", value::path, problems);
    SourceSettings {
        graphs,
        lock_file,
        cache: stores.cache_dir.join("by-name"),
        hub,
        mlflow: mlflow(environment, problems),
        stores,
        docker_config: docker_config(environment, problems),
    }
}

/// What the variables of MLflow's clients say, and the file that they read.
fn mlflow(environment: &dyn Environment, problems: &mut Vec<String>) -> MlflowSettings {
    let mut read = |name: &str| variable_text(environment, name, problems);
    let tracking = read("MLFLOW_TRACKING_URI");
    let registry = read("MLFLOW_REGISTRY_URI").or_else(|| tracking.clone());
    let s3_endpoint = read("MLFLOW_S3_ENDPOINT_URL");
    let path = read("HOME").map(|it| PathBuf::from(it).join(".mlflow/credentials"));
    // Most people have none.
    let kept = path.and_then(|it| environment.text_of(&it).ok()).unwrap_or_default();
    let mut either = |name: &str| read(name).or_else(|| entry(&kept, name));
    let user = either("MLFLOW_TRACKING_USERNAME");
    let password = either("MLFLOW_TRACKING_PASSWORD").map(Secret::new);
    let token = read("MLFLOW_TRACKING_TOKEN").map(Secret::new);
    MlflowSettings { registry, tracking, user: user.zip(password), token, s3_endpoint }
}

/// An entry of the section `mlflow` of a file with sections, whose entries have small letters.
fn entry(text: &str, name: &str) -> Option<String> {
    let section = text.lines().map(str::trim).skip_while(|it| *it != "[mlflow]").skip(1);
    let mut entries = section.take_while(|it| !it.starts_with('['));
    let of_name = |it: &str| {
        let (key, value) = it.split_once(['=', ':'])?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    };
    entries.find_map(of_name).filter(|it| !it.is_empty())
}

/// What `docker login` has written, and programs that do the same.
fn docker_config(environment: &dyn Environment, problems: &mut Vec<String>) -> Option<Secret> {
    let mut read = |name| variable_text(environment, name, problems).map(PathBuf::from);
    let folder = read("DOCKER_CONFIG").or_else(|| Some(read("HOME")?.join(".docker")))?;
    environment.text_of(&folder.join("config.json")).ok().map(Secret::new)
}

/// Where Hugging Face's libraries keep their files.
fn home(environment: &dyn Environment, problems: &mut Vec<String>) -> Option<PathBuf> {
    let mut path = |name| variable_text(environment, name, problems).map(PathBuf::from);
    let of_user = path("HOME").map(|it| it.join(".cache"));
    let caches = path("XDG_CACHE_HOME").or(of_user).map(|it| it.join("huggingface"));
    path("HF_HOME").or(caches)
}

/// The token that `hf auth login` has kept.
fn kept_token(
    home: Option<&PathBuf>,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> Option<Secret> {
    let named = variable_text(environment, "HF_TOKEN_PATH", problems).map(PathBuf::from);
    let path = named.or_else(|| Some(home?.join("token")))?;
    // Most people have none.
    token(environment.text_of(&path).ok()?.trim()).ok()
}

fn token(text: &str) -> Parse<Secret> {
    let is_token = !text.is_empty() && text.bytes().all(|it| it.is_ascii_graphic());
    is_token
        .then(|| Secret::new(text.to_owned()))
        .ok_or_else(|| "a token, without blanks".to_owned())
}

fn revision(text: &str) -> Parse<String> {
    is_revision(text)
        .then(|| text.to_owned())
        .ok_or_else(|| "a branch, a tag or a commit".to_owned())
}

fn endpoint(text: &str) -> Parse<String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_one = host.is_some_and(|it| {
        !it.is_empty() && !it.starts_with('/') && !it.contains(['@', '?', '#', ' '])
    });
    match is_one {
        true => Ok(text.trim_end_matches('/').to_owned()),
        false => Err("http[s]://<host>[:<port>][/<path>]".to_owned()),
    }
}
