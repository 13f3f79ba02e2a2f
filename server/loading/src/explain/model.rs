//! What each model of a directory is, found out as the server finds it out when it loads it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use backend::{Backend, ModelSource, ModelSpec};
use steps::{Dir, ExplainedEnsemble, FileNote, PRECISION_OF_GRAPH, Precision, named_graph};

use crate::{
    config::{
        choose::{Completion, VersionFiles, choose},
        engines::Engines,
        pbtxt::ConfigReader,
    },
    explain::config_text::{ConfigFile, config_files},
    load::{
        files::{files_of, model_path},
        load_error::LoadError,
        merging::describes_tensors,
        precision::{PRECISION, add_precision},
    },
    repository::local::{FoundModel, repository_of},
    settings::{UserScripts, repository::ModelsFrom},
};
use serving::{
    config::raw,
    pipeline::{
        open::{Around, Origin, Steps, around, folder_of, said_over, unchosen},
        pipeline_settings::PipelineSettings,
    },
};

/// Why a directory cannot be explained: a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ExplainError(pub(super) String);

/// A model of the directory.
#[derive(Debug)]
pub struct Explained {
    /// What it is called.
    pub name: String,
    /// What was understood.
    pub meaning: Meaning,
}

/// What a model is.
#[derive(Debug)]
pub enum Meaning {
    /// It takes texts.
    Pipeline(Box<ExplainedFolder>),
    /// It is served as it is, for this reason.
    Tensors(String),
    /// It is not served, for this reason.
    Refused(String),
}

/// A folder that takes texts.
#[derive(Debug)]
pub struct ExplainedFolder {
    /// Where it is.
    pub dir: PathBuf,
    /// The line of the log.
    pub description: String,
    /// Further lines of the log.
    pub warnings: Vec<String>,
    /// What became of its files.
    pub files: Vec<FileNote>,
    /// The ensemble that does the same, or why there is none.
    pub ensemble: Result<Ensemble, ExplainError>,
}

/// An ensemble as files.
#[derive(Debug)]
pub struct Ensemble {
    /// The configurations of its models, that of the ensemble first.
    pub configs: Vec<ConfigFile>,
    /// What stands where, and what it lacks.
    pub plan: ExplainedEnsemble,
    /// The model of the graph, which has the folder's files.
    pub graph_model: String,
    /// The graph, relative to the folder.
    pub graph: String,
    /// Its precision, where it is made of weights.
    pub precision: Precision,
}

/// Explains every model at `path`: a folder, a directory with versions, or a repository. Blocking.
///
/// # Errors
/// When it cannot be listed, or there is no model.
pub fn explain(
    path: &Path,
    engines: &[Arc<dyn Backend>],
    settings: &PipelineSettings,
) -> Result<Vec<Explained>, ExplainError> {
    let descriptions = Engines::of(engines);
    if !path.exists() {
        return Err(ExplainError(format!("there is no {}", path.display())));
    }
    let found = UserScripts::default().scan(path, false, &descriptions);
    let mut found = found.map_err(|it| ExplainError(it.to_string()))?;
    found.take_unversioned(&descriptions);
    let refused = found.refused.iter().map(|(id, reason)| Explained {
        name: id.name.to_string(),
        meaning: Meaning::Refused(reason.clone()),
    });
    let mut all: Vec<Explained> = refused.collect();
    let explainer = Explainer { path, engines, descriptions: &descriptions, settings };
    for model in found.models.values() {
        let meaning = explainer.meaning(model);
        let meaning = meaning.unwrap_or_else(|it| Meaning::Refused(it.to_string()));
        all.push(Explained { name: model.name.clone(), meaning });
    }
    match all.is_empty() {
        true => Err(ExplainError(format!("there is no model in {}", path.display()))),
        false => Ok(all),
    }
}

struct Explainer<'a> {
    /// Where the models are.
    path: &'a Path,
    engines: &'a [Arc<dyn Backend>],
    descriptions: &'a Engines,
    settings: &'a PipelineSettings,
}

impl Explainer<'_> {
    fn meaning(&self, found: &FoundModel) -> Result<Meaning, LoadError> {
        let tensors = |reason: &str| Ok(Meaning::Tensors(reason.to_owned()));
        let raw = config(found)?;
        if raw.as_ref().is_some_and(describes_tensors) {
            return tensors("its configuration says its engine, its inputs or its outputs");
        }
        let Some((_, path)) = found.versions.last_key_value() else {
            return Err("it has no version".to_owned().into());
        };
        let asked = self.settings.graph.as_deref();
        let dir = folder_of(&found.dir, path, asked);
        if dir.is_none()
            && let Some(reason) = unchosen(&found.dir, path)
        {
            return tensors(&reason);
        }
        let files = files_of(path, self.descriptions)?;
        let place = VersionFiles { model: &found.name, directory: path, files: &files };
        let choice = choose(raw.as_ref(), place, self.descriptions, Completion::On)?;
        let engine = self.engines.iter().find(|it| it.name() == choice.backend);
        let engine = engine.ok_or_else(|| format!("there is no engine '{}'", choice.backend))?;
        let usual = model_path(path, &choice);
        let named = dir.and_then(|dir| Some(dir.join(named_graph(dir, asked)?)));
        let named = named.filter(|it| it.extension() == usual.extension());
        let graph = named.unwrap_or(usual);
        let said = choice.options.get_key_value(PRECISION);
        let mut options =
            said.map(|(key, value)| (key.clone(), value.clone())).into_iter().collect();
        add_precision(&mut options, self.settings, dir, &graph);
        let source = ModelSource {
            directory: found.dir.clone(),
            options,
            ..ModelSource::new(found.name.clone(), graph)
        };
        if engine.description().runs_apart {
            // To load it would run it.
            engine.check(&source).map_err(|it| it.to_string())?;
            return tensors("it is code, which says itself what it takes when it is loaded");
        }
        let model = engine.load(&source).map_err(|it| it.to_string())?;
        let Some(spec) = model.spec() else {
            return tensors("the engine does not describe its inputs");
        };
        let dir = dir.map(|it| self.dir_of(found, it));
        let beside_graph = said_over(&found.dir, path).map(|it| self.dir_of(found, it));
        let origin = dir.as_ref().map_or(Origin::Graph(beside_graph.as_ref()), Origin::Folder);
        self.around(found, origin, spec, &choice.backend)
    }

    /// A folder, and where links in it may lead.
    fn dir_of(&self, found: &FoundModel, dir: &Path) -> Dir {
        let root = repository_of(found, &ModelsFrom::Path(self.path.to_owned()));
        Dir::new(dir, root.as_ref().unwrap_or(&found.dir))
    }

    fn around(
        &self,
        found: &FoundModel,
        origin: Origin<'_>,
        spec: &ModelSpec,
        backend: &str,
    ) -> Result<Meaning, LoadError> {
        let Steps { steps, folder, .. } = match around(origin, spec, self.settings)
            .map_err(|it| it.to_string())?
        {
            Some(Around::Steps(steps)) => *steps,
            Some(Around::Tensors(reason)) => return Ok(Meaning::Tensors(reason)),
            None => {
                let reason =
                    "no config.json with architectures, and no modules.json, lies beside its graph";
                return Ok(Meaning::Tensors(reason.to_owned()));
            }
        };
        let dir = match origin {
            Origin::Folder(dir) => dir.path(),
            Origin::Graph(beside) => beside.map_or(&*found.dir, Dir::path),
        };
        let no_folder = || ExplainError("its graph has no folder".to_owned());
        let ensemble = folder.as_ref().ok_or_else(no_folder).and_then(|folder| {
            let plan = steps.explain(folder).map_err(|it| ExplainError(it.to_string()))?;
            let graph_model = format!("{}_graph", found.name);
            let configs = config_files(&found.name, backend, folder.dir.path(), &plan)
                .map_err(|it| ExplainError(it.to_string()))?;
            let precision = spec.metadata.get(PRECISION_OF_GRAPH);
            let precision = precision.and_then(|it| Precision::from_name(it)).unwrap_or_default();
            let graph = folder.graph.clone();
            Ok(Ensemble { configs, plan, graph_model, graph, precision })
        });
        Ok(Meaning::Pipeline(Box::new(ExplainedFolder {
            dir: dir.to_owned(),
            description: steps.describe(),
            warnings: steps.warnings().to_vec(),
            files: steps.files().to_vec(),
            ensemble,
        })))
    }
}

fn config(found: &FoundModel) -> Result<Option<raw::ModelConfig>, LoadError> {
    let Some(path) = &found.config else { return Ok(None) };
    let text = backend::read_text(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let read = ConfigReader::default().parse_text(&path.display().to_string(), &text);
    read.map(Some).map_err(|it| it.to_string().into())
}
