//! From a graph that serves and the folder that it lies in to a pipeline.

use std::{num::NonZeroUsize, path::Path, sync::Arc};

use backend::ModelSpec;

use crate::{
    config::model::ModelConfig,
    pipeline::{
        face::{PipelineFacts, face},
        pace::Pace,
        pipeline_settings::PipelineSettings,
        row_runs::RowRuns,
    },
};
use inference::{signature::Signature, task::Task};
use schedule::{pack::RunBounds, prepare::PreparePool};
use steps::{
    Dir, Folder, FolderError, Opened, Overrides, Pipeline, is_pipeline, is_said_over,
    unchosen_graphs,
};

/// What stands around the graph of a model.
pub struct ServedPipeline {
    /// The steps before and behind it.
    pub steps: Pipeline,
    /// The graph as requests see it that go to it as they are.
    pub graph: Signature,
    /// The configuration against which texts are checked: that of the model without the ports of its graph.
    pub config: ModelConfig,
    /// How its rows become jobs.
    pub rows: RowRuns,
    /// Do requests run apart where answers depend on the other rows of a run?
    pub strict_rows: Option<bool>,
    /// Where long work on inputs and answers is done.
    pub pool: Arc<PreparePool>,
    /// How long texts take to be tokenized.
    pub pace: Pace,
    /// Is it written how many tokens a run may have?
    pub has_token_bound: bool,
}

impl ServedPipeline {
    /// What was understood of the folder, in one line.
    pub fn describe(&self) -> String {
        self.steps.describe()
    }

    /// What operators should know.
    pub fn warnings(&self) -> &[String] {
        self.steps.warnings()
    }
}

/// What a folder has turned out to be.
pub enum Opening {
    /// A pipeline, and its face.
    Pipeline(Box<(ServedPipeline, Signature)>),
    /// A graph that is served as it is, for this reason, which is worth a line of the log.
    Tensors(String),
}

/// A graph that has been loaded.
pub struct Loaded<'a> {
    /// What the engine says of it.
    pub spec: Option<&'a ModelSpec>,
    /// What clients see of it.
    pub signature: &'a Signature,
    /// Its completed configuration.
    pub config: &'a ModelConfig,
    /// What a run of rows of unequal length may be, where they may share one.
    pub bounds: Option<RunBounds>,
    /// Does it run on a GPU?
    pub is_on_gpu: bool,
    /// Where long work on inputs and answers is done.
    pub pool: Arc<PreparePool>,
}

/// The folder of a model without a configuration that names its engine, where it is one of a pipeline. `graph` is the
/// one that is asked for.
pub fn folder_of<'a>(
    model_dir: &'a Path,
    version: &'a Path,
    graph: Option<&str>,
) -> Option<&'a Path> {
    let places = [version, model_dir];
    places.into_iter().find(|it| it.is_dir() && is_pipeline(it, graph))
}

/// Where a file says something over the metadata of a graph without a folder.
pub fn said_over<'a>(model_dir: &'a Path, version: &'a Path) -> Option<&'a Path> {
    [version, model_dir].into_iter().find(|it| is_said_over(it))
}

/// Why a folder is no pipeline that would be one with a graph that is chosen, and what to write.
pub fn unchosen(model_dir: &Path, version: &Path) -> Option<String> {
    let found = [version, model_dir].into_iter().filter(|it| it.is_dir()).map(unchosen_graphs);
    let graphs = found.into_iter().find(|it| !it.is_empty())?;
    let first = graphs.first()?;
    Some(format!(
        "its folder has {}, and such a graph is taken only by name: write {{\"graph\": \"{first}\"}} into \
         muster.json there, or start with --pipeline-graph={first}",
        graphs.join(", ")
    ))
}

/// What says what a graph is for.
#[derive(Debug, Clone, Copy)]
pub enum Origin<'a> {
    /// The folder that it lies in.
    Folder(&'a Dir),
    /// Its own metadata, and what operators say over them in that directory.
    Graph(Option<&'a Dir>),
}

/// Why there is no pipeline where there should be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Something is missing or wrong in the folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// It is for nothing that clients could ask for.
    #[error("the folder has no task")]
    NoTask,
}

/// Makes a pipeline of a graph and of what says what it is for; `None` where its metadata does not.
///
/// # Errors
/// What is missing or wrong in the folder: file, key and remedy.
pub fn open(
    origin: Origin<'_>,
    loaded: &Loaded<'_>,
    settings: &PipelineSettings,
) -> Result<Option<Opening>, OpenError> {
    let Loaded { spec: Some(spec), signature, config, .. } = *loaded else {
        let reason = "the engine does not describe its inputs".to_owned();
        return Ok(Some(Opening::Tensors(reason)));
    };
    let Some(around) = around(origin, spec, settings)? else { return Ok(None) };
    let Steps { steps, overrides, .. } = match around {
        Around::Steps(steps) => *steps,
        Around::Tensors(reason) => return Ok(Some(Opening::Tensors(reason))),
    };
    let mut tasks = steps.tasks();
    if steps.ranks_by_vectors() {
        tasks.push(Task::Rerank);
    }
    let most_inputs = settings.max_client_batch_size.get();
    let known = PipelineFacts {
        dimensions: steps.dimensions(),
        tower_dimensions: steps.tower_dimensions(),
        labels: steps.labels(),
        sampling_rate: steps.sampling_rate(),
        jpeg: steps.jpeg(),
    };
    let face = face(signature, &tasks, &known, most_inputs).ok_or(OpenError::NoTask)?;
    let (inputs, outputs) = (Vec::new(), Vec::new());
    let config = ModelConfig { inputs, outputs, max_batch_size: most_inputs, ..config.clone() };
    let tokens = settings.max_batch_tokens.map(NonZeroUsize::get);
    let tokens = tokens.or(overrides.max_batch_tokens);
    let bounds = loaded.bounds.map(|it| RunBounds { tokens: tokens.unwrap_or(it.tokens), ..it });
    let rows = RowRuns::new(&steps, bounds, loaded.is_on_gpu);
    let strict_rows = overrides.strict_rows;
    let graph = signature.clone();
    let has_token_bound = tokens.is_some();
    let pool = loaded.pool.clone();
    let pace = Pace::default();
    let served =
        ServedPipeline { steps, graph, config, rows, strict_rows, has_token_bound, pool, pace };
    Ok(Some(Opening::Pipeline(Box::new((served, face)))))
}

/// What stands around a graph.
pub enum Around {
    /// It takes texts, images or sounds.
    Steps(Box<Steps>),
    /// Its graph is served as it is, for this reason.
    Tensors(String),
}

/// The steps around a graph, and where they come from.
pub struct Steps {
    /// What prepares inputs and makes answers.
    pub steps: Pipeline,
    /// `None` where the graph itself says what it is for.
    pub folder: Option<Folder>,
    /// What was said over the folder.
    pub overrides: Overrides,
}

/// Finds out what stands around a graph that its engine describes so; `None` where its metadata does not say it.
/// Blocking.
///
/// # Errors
/// What is missing or wrong in the folder: file, key and remedy.
pub fn around(
    origin: Origin<'_>,
    spec: &ModelSpec,
    settings: &PipelineSettings,
) -> Result<Option<Around>, FolderError> {
    let overrides = overrides(settings);
    let (folder, overrides, opened) = match origin {
        Origin::Folder(dir) => {
            let folder = Folder::read(dir, &overrides)?;
            let opened = Pipeline::open(&folder, spec)?;
            let overrides = folder.overrides.clone();
            (Some(folder), overrides, opened)
        }
        Origin::Graph(dir) => match Pipeline::of_graph(dir, &overrides, spec)? {
            Some((opened, overrides)) => (None, overrides, opened),
            None => return Ok(None),
        },
    };
    let tensors = |reason: String| Ok(Some(Around::Tensors(reason)));
    let steps = match opened {
        Opened::Pipeline(steps) => *steps,
        Opened::Tensors(reason) => return tensors(reason),
    };
    if !takes_rows(spec) {
        return tensors("its graph has no batch dimension".to_owned());
    }
    Ok(Some(Around::Steps(Box::new(Steps { steps, folder, overrides }))))
}

/// What the settings of a server say over each folder.
pub fn overrides(settings: &PipelineSettings) -> Overrides {
    Overrides {
        task: settings.task.clone(),
        container_task: settings.container_task.clone(),
        graph: settings.graph.clone(),
        precision: settings.precision,
        pooling: settings.pooling.clone(),
        max_text_bytes: settings.max_text_bytes,
        prompt: settings.prompt.clone(),
        prompt_name: settings.prompt_name.clone(),
        max_image_pixels: settings.max_image_pixels,
        max_audio_seconds: settings.max_audio_seconds,
        jpeg_library: settings.jpeg_library.clone(),
        ..Overrides::default()
    }
}

/// Is the first dimension of each input that of rows, of any number or of one?
fn takes_rows(spec: &ModelSpec) -> bool {
    spec.inputs.iter().all(|it| it.any_rank || matches!(it.dims.first(), Some(None | Some(1))))
}
