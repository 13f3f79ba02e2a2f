//! Where models are: the typed or set place, else the usual one.

use std::path::{Path, PathBuf};

use configuration::{
    Environment, Origin, PathKind, Sources, command_line::Serve, compat::variables, value,
    variable_text,
};
use kserve::settings as vertex;
use loading::settings::{ModelsFrom, multi_model, named_models};
use stores::StoreUrl;

/// The folder in which SageMaker puts the model.
const HOSTED_MODEL: &str = "/opt/ml/model";

/// The usual repository, relative to the working directory.
const LOCAL_REPOSITORY: &str = "model_repository";

/// Where models are, and whether that is the platform's folder.
pub(super) fn models_from(
    serve: &Serve,
    is_multi_model: bool,
    vertex_ai: bool,
    sources: &Sources,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> (ModelsFrom, bool) {
    if is_multi_model {
        let from = of_multi_model(serve.path.as_ref(), sources, environment, problems);
        return (from, multi_model::is_by_platform(sources));
    }
    let mut repositories: Vec<PathBuf> = Vec::new();
    for path in sources.read_all("model-repository", value::path, problems) {
        // Each of its models would be in two repositories otherwise, and none would be served.
        if !repositories.contains(&path) {
            repositories.push(path);
        }
    }
    let named = named_models::resolve(sources, environment, problems);
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
    let model_id = serve.text_embeddings.as_ref().and_then(|it| it.model(environment, problems));
    if let Some(path) = serve.path.as_ref().or(model_id.as_ref()) {
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
            let advice = if model_id.is_some() {
                "; nothing is fetched from a hub: put its files into a directory, and name that with --model-id or \
                 MODEL_ID"
                    .to_owned()
            } else {
                name_on_a_hub(path).map_or_else(String::new, |name| {
                    format!(
                        "; a name on Hugging Face's hub is not fetched: 'hf download {name} --local-dir model', then \
                         'muster serve model'"
                    )
                })
            };
            problems.push(format!("the model '{}' does not exist{advice}", path.display()));
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
    let hub = variable_text(environment, variables::HUB_MODEL, problems);
    let hub = hub.map_or(String::new(), |model| {
        format!("; nothing is fetched from a hub ({}='{model}')", variables::HUB_MODEL)
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

/// The name of a model as Hugging Face's hub has it, `owner/name`, where the path could be one.
fn name_on_a_hub(path: &Path) -> Option<&str> {
    let name = path.to_str()?;
    let (owner, model) = name.split_once('/')?;
    let is_part = |it: &str| {
        !it.starts_with('.')
            && !it.is_empty()
            && it.chars().all(|it| it.is_ascii_alphanumeric() || "-_.".contains(it))
    };
    // A path of a file has an ending.
    let is_file = ["onnx", "pt", "json", "txt", "pkl", "joblib", "skops", "ubj"]
        .iter()
        .any(|it| path.extension().is_some_and(|ending| ending == *it));
    (is_part(owner) && is_part(model) && !is_file).then_some(name)
}

/// Is one of them in an object store?
pub(super) fn has_remote(from: &ModelsFrom) -> bool {
    let ModelsFrom::Repositories(all) = from else { return false };
    all.iter().any(|it| it.to_str().is_some_and(StoreUrl::is_one))
}

/// The model folder that the platform's variables name, and the variable.
fn platform_folder(
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> Option<(&'static str, PathBuf)> {
    let mut path = |name| variable_text(environment, name, problems).map(PathBuf::from);
    path(variables::MODEL_PATH)
        .map(|it| (variables::MODEL_PATH, it))
        .or_else(|| path(variables::BASE_DIR).map(|it| (variables::BASE_DIR, it.join("model"))))
}

/// The models of the start: none. Naming some is a mistake; an empty repository names none.
fn of_multi_model(
    path: Option<&PathBuf>,
    sources: &Sources,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> ModelsFrom {
    let problem = "names models, and those of a multi-model endpoint (--sagemaker-multi-model) come by POST \
                /models alone: leave it out";
    if let Some(path) = path {
        problems.push(format!("'muster serve {}' {problem}", path.display()));
    }
    // Triton's start script for SageMaker names a directory that it has just made.
    let is_empty = |dir: &str| environment.is_empty_directory(Path::new(dir));
    let repositories = sources.all("model-repository").iter().filter(|it| !is_empty(&it.text));
    let named = repositories.chain(sources.all("load-model"));
    problems.extend(named.map(|it| format!("{it} {problem}")));
    ModelsFrom::Repositories(Vec::new())
}
