//! Models that are named one by one, each with the directory of its versions, as TensorFlow Serving does.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use configuration::{Environment, Flag, Origin, PathKind, Sources, value};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("model-config-file", "", "File in the text format of protobufs that names the models, each with the directory of its versions, their policy and labels: model_config_list { config { name: \"m\" base_path: \"/models/m\" } }").named("FILE"),
    Flag::value("model-config-file-poll-wait-seconds", "0", "How often the model config file is looked at again; 0 for never. What has changed in it replaces the whole configuration").named("SECONDS"),
    Flag::value("model-base-path", "", "Directory of the versions of one model, <number>/model.onnx, which --model-name names [default]").named("DIR"),
    Flag::value("file-system-poll-wait-seconds", "1", "How often the directories of models that are named are looked at; 0 for never. A change is taken up at the second look that finds it the same").named("SECONDS"),
    Flag::boolean("allow-version-labels-for-unavailable-models", "false", "Labels that are not in use may stand for versions that are not loaded"),
    Flag::boolean("force-allow-any-version-labels-for-unavailable-models", "false", "All labels may"),
];

/// What a model is called of which nothing but the directory was given, as in TensorFlow Serving.
const NAME: &str = "default";

/// Which models there are.
#[derive(Debug, Clone, PartialEq)]
pub enum NamedModels {
    /// `--model-config-file`: those in the file.
    File {
        /// Where it is. It existed when the configuration was read.
        path: PathBuf,
        /// `--model-config-file-poll-wait-seconds`: how often it is looked at again; `None` for never.
        every: Option<Duration>,
    },
    /// `--model-base-path`, `--model-name`: one.
    One {
        /// What clients call it.
        name: String,
        /// The directory of its versions.
        base_path: PathBuf,
    },
}

/// Which versions labels may stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LabelRule {
    /// Those that serve.
    #[default]
    Available,
    /// `--allow-version-labels-for-unavailable-models`: any, but a label that is in use stands for one that serves.
    NewOnesAnywhere,
    /// `--force-allow-any-version-labels-for-unavailable-models`: any.
    Anywhere,
}

/// Reads which models there are; `None` where none are named.
pub fn resolve(
    sources: &Sources,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> Option<NamedModels> {
    let file = sources.read("model-config-file", value::path, problems);
    let base_path = sources.read("model-base-path", value::path, problems);
    let every = sources.read("model-config-file-poll-wait-seconds", value::seconds, problems);
    let every = every.filter(|it| !it.is_zero());
    if file.is_none()
        && let (Some(given), Some(_)) = (sources.last("model-config-file-poll-wait-seconds"), every)
    {
        problems.push(format!("{given}: needs --model-config-file, which is what is looked at"));
    }
    let named = match (file, base_path) {
        (None, None) => return None,
        // As TensorFlow Serving: the file counts.
        (Some(path), _) => {
            exists("model-config-file", &path, PathKind::File, sources, environment, problems);
            NamedModels::File { path, every }
        }
        (None, Some(base_path)) => {
            if !base_path.to_string_lossy().contains("://") {
                let kind = PathKind::Directory;
                exists("model-base-path", &base_path, kind, sources, environment, problems);
            } else if let Some(given) = sources.last("model-base-path") {
                problems.push(format!(
                    "{given}: expected a directory; a model in an object store is served with --model-repository"
                ));
            }
            let name = sources.read("model-name", model_name, problems);
            NamedModels::One { name: name.unwrap_or_else(|| NAME.to_owned()), base_path }
        }
    };
    let by = match named {
        NamedModels::File { .. } => "--model-config-file",
        NamedModels::One { .. } => "--model-base-path",
    };
    for other in ["model-repository", "model-namespacing", "model-load-on-demand", "load-model"] {
        let given = sources.last(other).filter(|it| it.text != "false" && !it.text.is_empty());
        if let Some(given) =
            given.filter(|it| matches!(it.origin, Origin::CommandLine | Origin::Own(_)))
        {
            problems.push(format!("{given}: does not go with {by}, which names the models"));
        }
    }
    Some(named)
}

/// Reads which versions labels may stand for.
pub fn labels(sources: &Sources, problems: &mut Vec<String>) -> LabelRule {
    let mut is_on = |name| sources.read(name, value::boolean, problems).unwrap_or(false);
    let new_ones = is_on("allow-version-labels-for-unavailable-models");
    if is_on("force-allow-any-version-labels-for-unavailable-models") {
        return LabelRule::Anywhere;
    }
    if new_ones { LabelRule::NewOnesAnywhere } else { LabelRule::Available }
}

fn exists(
    name: &'static str,
    path: &Path,
    kind: PathKind,
    sources: &Sources,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) {
    let found = environment.kind_of(path);
    if found == Some(kind) {
        return;
    }
    let expected = match kind {
        PathKind::File => "a file in the text format of protobufs",
        PathKind::Directory => "a directory of versions, as 1/model.onnx",
    };
    let there = match found {
        None => "there is none",
        Some(PathKind::Directory) => "this is a directory",
        Some(PathKind::File) => "this is a file",
    };
    problems.extend(sources.last(name).map(|it| format!("{it}: expected {expected}, {there}")));
}

/// What can stand in an address between two slashes.
pub(super) fn model_name(text: &str) -> value::Parse<String> {
    match text.is_empty() || text.contains('/') {
        true => Err("a name that is not empty and has no '/'".to_owned()),
        false => Ok(text.to_owned()),
    }
}
