//! In the place of pipelines, their tokenizers and the steps of ensembles, where they were left out of the build: none
//! can be opened. A folder or a graph that would be one is refused by the name of the feature.

use std::{convert::Infallible, sync::Arc};

use backend::{
    Backend, BackendError, EngineDescription, Model, ModelSource, ModelSpec, NamedTensor,
};

use crate::{
    decide::{Decision, decide},
    error::{FolderError, NoEnsemble, RowError},
    explain::ExplainedEnsemble,
    folder::{Beside, Dir, FileNote, Folder, Overrides, Ultralytics, notes::Notes},
    head::reduced::Reduced,
    jpeg_library::JpegLibrary,
    no_context::{Context, Work},
    outputs::{GraphOutput, RowOutput},
    reply::Reply,
    request::{Input, Parameters},
    side::Side,
    step::{GraphInput, Prepared, Row, Step},
    task::Plan,
    tokens::{TextToken, Tokenizing},
    wanted::StillWanted,
};
use inference::{limits::Budget, task::Task};

/// Why, and what to do.
const MISSING: &str = "this build has no pipelines of texts, images and sounds; build muster with --features pipelines";

/// What mends a folder or a graph that is refused, beside that.
const REMEDY: &str = "with --pipelines=off its graph is served as it is, with tensors";

fn missing(what: &str, task: Option<Task>) -> FolderError {
    let problem = match task {
        Some(task) => format!("it is a pipeline for {task}, and {MISSING}"),
        None => format!("it is a pipeline by its metadata, and {MISSING}"),
    };
    FolderError::file(what, problem).remedy(REMEDY)
}

/// What becomes of a folder and its graph.
#[derive(Debug)]
pub enum Opened {
    /// Never.
    Pipeline(Box<Pipeline>),
    /// Its graph is served as it is, for this reason, which is worth a line of the log.
    Tensors(String),
}

/// A pipeline, which there cannot be.
#[derive(Debug)]
pub struct Pipeline(Infallible);

/// What a pipeline would be for texts.
#[derive(Debug)]
pub struct TextPipeline(Infallible);

/// A tokenizer, which there cannot be.
#[derive(Debug)]
pub struct Tokenizer(Infallible);

impl Pipeline {
    /// Refuses a folder that would be a pipeline.
    ///
    /// # Errors
    /// The feature that it needs; and when the folder names a task that there is not.
    pub fn open(folder: &Folder, spec: &ModelSpec) -> Result<Opened, FolderError> {
        let metadata = spec.metadata.get("task").map(String::as_str);
        match decide(folder, metadata)? {
            Decision::Pipeline(task) => Err(missing("its folder", Some(task))),
            Decision::Tensors(reason) => Ok(Opened::Tensors(reason)),
        }
    }

    /// Refuses a folder that would be a pipeline.
    ///
    /// # Errors
    /// The feature that it needs; and when the folder names a task that there is not.
    pub fn check(folder: &Folder) -> Result<(), FolderError> {
        match decide(folder, None)? {
            Decision::Pipeline(task) => Err(missing("its folder", Some(task))),
            Decision::Tensors(_) => Ok(()),
        }
    }

    /// Refuses a graph that would be a pipeline by itself; `None` where it would be none.
    ///
    /// # Errors
    /// The feature that it needs; and when its metadata or what was said over it is wrong.
    pub fn of_graph(
        dir: Option<&Dir>,
        overrides: &Overrides,
        spec: &ModelSpec,
    ) -> Result<Option<(Opened, Overrides)>, FolderError> {
        let file = "the graph";
        if Ultralytics::read(file, &spec.metadata)?.is_none() {
            return Ok(None);
        }
        if let Some(dir) = dir {
            overrides.clone().over_file(dir, Beside::Graph, &mut Notes::default())?;
        }
        Err(missing(file, None))
    }

    /// Not to be called: there is no pipeline.
    pub fn task(&self) -> Task {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    pub fn tasks(&self) -> Vec<Task> {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    pub fn text(&self) -> Option<&Arc<TextPipeline>> {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    pub fn ranks_by_vectors(&self) -> bool {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    pub fn labels(&self) -> &[Arc<str>] {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    pub fn dimensions(&self) -> Option<usize> {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    pub fn tower_dimensions(&self) -> [Option<usize>; 2] {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    pub fn sampling_rate(&self) -> Option<u32> {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    pub fn jpeg(&self) -> Option<&str> {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    pub fn patch_numbers(&self) -> usize {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    pub fn fixed_tokens(&self) -> Option<usize> {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    pub fn may_pad(&self) -> bool {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    pub fn padding_side(&self) -> Side {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    pub fn files(&self) -> &[FileNote] {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    ///
    /// # Errors
    /// None.
    pub fn explain(&self, _folder: &Folder) -> Result<ExplainedEnsemble, NoEnsemble> {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    pub fn fit(&mut self, _bytes: u64) -> Option<String> {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    pub fn warnings(&self) -> &[String] {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    pub fn describe(&self) -> String {
        match self.0 {}
    }
}

impl Step for Pipeline {
    fn inputs(&self) -> &[GraphInput] {
        match self.0 {}
    }

    fn outputs(&self) -> &[GraphOutput] {
        match self.0 {}
    }

    fn prepare_while(
        &self,
        _: Task,
        _: &Input<'_>,
        _: &Parameters,
        _: StillWanted<'_>,
    ) -> Result<Prepared, RowError> {
        match self.0 {}
    }

    fn bytes_to_prepare(&self, _: &Input<'_>) -> Result<usize, RowError> {
        match self.0 {}
    }

    fn bytes_to_run(&self, _: &Row) -> usize {
        match self.0 {}
    }

    fn reduce(&self, _: &Work, _: &[RowOutput<'_>]) -> Result<Reduced, RowError> {
        match self.0 {}
    }

    fn finish_while(
        &self,
        _: Context,
        _: Vec<Reduced>,
        _: StillWanted<'_>,
    ) -> Result<Reply, RowError> {
        match self.0 {}
    }
}

impl TextPipeline {
    /// Not to be called: there is no pipeline.
    pub fn task(&self) -> &Plan {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    ///
    /// # Errors
    /// None.
    pub fn tokenize(&self, _: &str, _: &Tokenizing<'_>) -> Result<Vec<TextToken>, RowError> {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    pub fn max_tokens(&self) -> usize {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    ///
    /// # Errors
    /// None.
    pub fn trial_row(&self, _: &str, _: usize) -> Result<(Vec<NamedTensor>, usize), RowError> {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    pub fn dimensions(&self) -> Option<usize> {
        match self.0 {}
    }

    /// Not to be called: there is no pipeline.
    pub fn own_vector(&self) -> Option<&str> {
        match self.0 {}
    }
}

impl Tokenizer {
    /// Not to be called: there is no tokenizer.
    ///
    /// # Errors
    /// None.
    pub fn decode_known(&self, _: &[u32], _: bool) -> Result<String, RowError> {
        match self.0 {}
    }
}

/// Bounds of the files that steps would decode.
#[derive(Debug, Clone, Default)]
pub struct FileBounds {
    /// Most pixels of one image.
    pub max_image_pixels: Option<u64>,
    /// Seconds of the longest sound.
    pub max_audio_seconds: Option<u32>,
    /// What would decode JPEG.
    pub jpeg_library: JpegLibrary,
    /// Of which decoded files would take their bytes.
    pub budget: Option<Arc<Budget>>,
}

/// The engine of steps, of which each is refused by the name of the feature.
#[derive(Debug, Clone, Default)]
pub struct Steps(());

impl Steps {
    /// The engine.
    pub fn within(_: FileBounds) -> Steps {
        Steps(())
    }
}

/// A folder is not needed to be told that it would not help.
const DESCRIPTION: EngineDescription = EngineDescription {
    is_version_optional: true,
    runs_native_code: false,
    ..EngineDescription::PLAIN
};

impl Backend for Steps {
    fn name(&self) -> &'static str {
        "steps"
    }

    fn description(&self) -> &'static EngineDescription {
        &DESCRIPTION
    }

    fn load(&self, _: &ModelSource) -> Result<Arc<dyn Model>, BackendError> {
        Err(BackendError::Load(MISSING.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_a_pipeline_is_refused_by_the_name_of_the_feature_and_with_what_serves_its_graph()
    {
        let text = missing("its folder", Some(Task::TextClassification)).to_string();
        for part in ["text-classification", "--features pipelines", "--pipelines=off"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_step_is_refused_by_the_name_of_the_feature() {
        let error = Steps::default().load(&ModelSource::new("m", "/m")).err().unwrap();
        assert!(error.to_string().contains("--features pipelines"), "{error}");
    }
}
