//! Where models are: the typed or set place, else the usual one.

use std::path::{Path, PathBuf};

use configuration::{
    Environment, Origin, PathKind, Sources, command_line::Serve, compat::variables, value,
    variable_text,
};
use kserve::settings as vertex;
use loading::settings::{FetchedPath, ModelsFrom, multi_model, named_models};
use sources::{Name, NameError};
use stores::StoreUrl;

/// The folder in which SageMaker puts the model.
const HOSTED_MODEL: &str = "/opt/ml/model";

/// The usual repository, relative to the working directory.
const LOCAL_REPOSITORY: &str = "model_repository";

/// Where models are.
pub(super) struct ModelsPlace {
    /// Where they are.
    pub(super) from: ModelsFrom,
    /// That is the platform's folder, or a model takes its place because it is empty.
    pub(super) is_platforms: bool,
    /// The model that is to be fetched first.
    pub(super) wanted: Option<Name>,
}

impl ModelsPlace {
    fn of(from: ModelsFrom) -> ModelsPlace {
        ModelsPlace { from, is_platforms: false, wanted: None }
    }

    /// A model somewhere else.
    fn elsewhere(name: Name) -> ModelsPlace {
        let from = ModelsFrom::Fetched(FetchedPath::default());
        ModelsPlace { wanted: Some(name), ..ModelsPlace::of(from) }
    }
}

/// Where models are: the typed or set place, else the usual one.
pub(super) fn models_from(
    serve: &Serve,
    is_multi_model: bool,
    vertex_ai: bool,
    sources: &Sources,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> ModelsPlace {
    if is_multi_model {
        let from = of_multi_model(serve.path.as_ref(), sources, environment, problems);
        return ModelsPlace {
            is_platforms: multi_model::is_by_platform(sources),
            ..ModelsPlace::of(from)
        };
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
        return ModelsPlace::of(ModelsFrom::Named(named));
    }
    let model_id = serve.text_embeddings.as_ref().and_then(|it| it.model(environment, problems));
    if let Some(path) = serve.path.as_ref().or(model_id.as_ref()) {
        let parse = if serve.path.is_some() { Name::parse } else { Name::parse_id };
        let typed = sources
            .last("model-repository")
            .is_some_and(|it| matches!(it.origin, Origin::CommandLine));
        if typed {
            problems.push(format!(
                "'muster serve {}' says where the model is, and so does --model-repository: give one \
                 of them",
                path.display()
            ));
            return ModelsPlace::of(ModelsFrom::Path(path.clone()));
        }
        return named_by(path, parse, environment, problems);
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
        return ModelsPlace::of(ModelsFrom::Repositories(repositories));
    }
    if let Some(path) = vertex::storage(vertex_ai, environment, problems) {
        return ModelsPlace::of(ModelsFrom::Path(path));
    }
    let folder = platform_folder(environment, problems);
    let is_directory = |it: &Path| environment.kind_of(it) == Some(PathKind::Directory);
    let hosted = folder.as_ref().map_or(Path::new(HOSTED_MODEL), |it| &*it.1);
    let (is_there, hub) =
        (is_directory(hosted), variable_text(environment, variables::HUB_MODEL, problems));
    // What lies in the platform's folder goes before the name of a model.
    if let Some(hub) = hub.filter(|_| !is_there || environment.is_empty_directory(hosted)) {
        let place = named_by(Path::new(&hub), Name::parse_id, environment, problems);
        return ModelsPlace { is_platforms: is_there, ..place };
    }
    if let Some((variable, path)) = folder {
        if !is_there {
            problems.push(format!(
                "{variable} (environment): expected a directory of models at '{}', there is none",
                path.display()
            ));
        }
        return ModelsPlace { is_platforms: true, ..ModelsPlace::of(ModelsFrom::Path(path)) };
    }
    if is_there {
        return ModelsPlace {
            is_platforms: true,
            ..ModelsPlace::of(ModelsFrom::Path(HOSTED_MODEL.into()))
        };
    }
    let is_there = environment.kind_of(Path::new(LOCAL_REPOSITORY)) == Some(PathKind::Directory);
    if !is_there && !serve.rehearsed {
        problems.push(format!(
            "there are no models: neither {HOSTED_MODEL} nor ./{LOCAL_REPOSITORY} exists; name a \
             directory with --model-repository (or MUSTER_MODEL_REPOSITORY), or a model with \
             'muster serve path/to/model.onnx'; in a container, mount them: docker run -v \
             /path/to/models:{HOSTED_MODEL}:ro"
        ));
    }
    ModelsPlace::of(ModelsFrom::Repositories(vec![LOCAL_REPOSITORY.into()]))
}

/// The place of the one model that somebody has named: what exists here goes before the name of one elsewhere, which
/// `parse` reads.
fn named_by(
    path: &Path,
    parse: fn(&str) -> Option<Result<Name, NameError>>,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> ModelsPlace {
    if environment.kind_of(path).is_some() {
        return ModelsPlace::of(ModelsFrom::Path(path.to_owned()));
    }
    let text = path.to_str().unwrap_or_default();
    match parse(text) {
        Some(Ok(name)) => return ModelsPlace::elsewhere(name),
        Some(Err(expected)) => problems.push(format!("muster serve: expected {expected}")),
        None if StoreUrl::is_one(text) => {
            if let Err(expected) = StoreUrl::parse(text) {
                problems.push(format!("muster serve: expected {expected}"));
            }
            return ModelsPlace::of(ModelsFrom::Repositories(vec![path.to_owned()]));
        }
        None => {
            // Without an owner it may as well be a path that is misspelt.
            let is_word = !text.contains(['.', '/']);
            let name = Name::parse_id(text).filter(|it| is_word && it.is_ok());
            let hub = name.map(|_| format!("; of Hugging Face's hub it is hf://{text}"));
            let hub = hub.unwrap_or_default();
            problems.push(format!("the model '{}' does not exist{hub}", path.display()));
        }
    }
    ModelsPlace::of(ModelsFrom::Path(path.to_owned()))
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
