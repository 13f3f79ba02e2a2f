//! A folder and the signature of its graph as one thing that answers texts, images or sounds.

use std::sync::Arc;

use audio::StillWanted;
use backend::ModelSpec;

use crate::{
    context::{Context, Work},
    decide::{Decision, HF_TASK, decide},
    error::{FolderError, NoEnsemble, NoPipeline, RowError},
    explain::ExplainedEnsemble,
    folder::{Beside, Dir, FileNote, Folder, Overrides, Ultralytics, notes::Notes},
    head::reduced::Reduced,
    outputs::{GraphOutput, RowOutput},
    reply::Reply,
    request::{Input, Parameters},
    side::Side,
    speech::SoundPipeline,
    step::{GraphInput, Prepared, Row, Step},
    text_pipeline::TextPipeline,
    vision::ImagePipeline,
};
use inference::task::{Medium, Task};

/// What becomes of a folder and its graph.
#[derive(Debug)]
pub enum Opened {
    /// It answers texts, images or sounds.
    Pipeline(Box<Pipeline>),
    /// Its graph is served as it is, for this reason, which is worth a line of the log.
    Tensors(String),
}

/// Everything around a graph: immutable, shared by all threads.
#[derive(Debug)]
pub struct Pipeline {
    kind: Kind,
    files: Vec<FileNote>,
    /// That of the graph, where it is not the one of its weights.
    precision: Option<String>,
}

/// What differs by what the inputs are.
#[derive(Debug)]
enum Kind {
    Text(Arc<TextPipeline>),
    Image(Box<ImagePipeline>),
    Sound(Box<SoundPipeline>),
}

impl Pipeline {
    /// From a folder that has been read, and its graph as the engine describes it. Blocking: a tokenizer takes some
    /// 100 ms.
    ///
    /// # Errors
    /// When a file is missing or wrong, or the graph has not the inputs and outputs that the task needs.
    pub fn open(folder: &Folder, spec: &ModelSpec) -> Result<Opened, FolderError> {
        let metadata = spec.metadata.get("task").map(String::as_str);
        let task = match decide(folder, metadata)? {
            Decision::Pipeline(task) => task,
            Decision::Tensors(reason) => return Ok(Opened::Tensors(reason)),
        };
        let open = || -> Result<Kind, FolderError> {
            Ok(match task.medium() {
                Medium::Text => Kind::Text(Arc::new(TextPipeline::open(folder, task, spec)?)),
                Medium::Image => Kind::Image(Box::new(ImagePipeline::open(folder, task, spec)?)),
                Medium::Audio => Kind::Sound(Box::new(SoundPipeline::open(folder, task, spec)?)),
            })
        };
        let is_asked_for =
            folder.overrides.task.is_none() && folder.overrides.container_task.is_some();
        let kind = open().map_err(|error| match error.remedy.is_empty() && is_asked_for {
            true => error.remedy(format!("{HF_TASK} asks for {task}")),
            false => error,
        })?;
        let files = folder.files.clone();
        let precision = spec.metadata.get(graphs::PRECISION).cloned();
        Ok(Opened::Pipeline(Box::new(Pipeline { kind, files, precision })))
    }

    /// What can be told of a folder without its graph: are the files there that say how inputs are prepared, and are
    /// they right? Blocking as [`Pipeline::open`].
    ///
    /// # Errors
    /// When one is missing or wrong.
    pub fn check(folder: &Folder) -> Result<(), FolderError> {
        let Decision::Pipeline(task) = decide(folder, None)? else { return Ok(()) };
        match task.medium() {
            Medium::Text => TextPipeline::check(folder),
            Medium::Image => ImagePipeline::check(folder),
            Medium::Audio => SoundPipeline::check(folder),
        }
    }

    /// From a graph without a folder, whose metadata says what it is for; `None` where it does not. With what was said
    /// over it, `muster.json` in `dir` included.
    ///
    /// # Errors
    /// When its metadata or that file is wrong, or says something that its inputs and outputs contradict.
    pub fn of_graph(
        dir: Option<&Dir>,
        overrides: &Overrides,
        spec: &ModelSpec,
    ) -> Result<Option<(Opened, Overrides)>, FolderError> {
        let file = "the graph";
        let Some(said) = Ultralytics::read(file, &spec.metadata)? else { return Ok(None) };
        let mut notes = Notes::default();
        let overrides = match dir {
            Some(dir) => overrides.clone().over_file(dir, Beside::Graph, &mut notes)?,
            None => overrides.clone(),
        };
        let opened = ImagePipeline::of_ultralytics(file, &said, &overrides, spec)?;
        let pipeline = |image| {
            let kind = Kind::Image(Box::new(image));
            let files = notes.finish();
            Opened::Pipeline(Box::new(Pipeline { kind, files, precision: None }))
        };
        let tensors = |reason: NoPipeline| Opened::Tensors(reason.to_string());
        Ok(Some((opened.map_or_else(tensors, pipeline), overrides)))
    }

    /// The task that the folder is for.
    pub fn task(&self) -> Task {
        match &self.kind {
            Kind::Text(text) => text.task().name,
            Kind::Image(image) => image.task(),
            Kind::Sound(sound) => sound.task(),
        }
    }

    /// The tasks that it answers, that of the folder first. An embedder also takes [`Task::Rerank`], by its
    /// vectors; that is not among these, so that a ranker goes before it.
    pub fn tasks(&self) -> Vec<Task> {
        match &self.kind {
            Kind::Text(text) => text.tasks(),
            Kind::Image(image) => image.tasks(),
            Kind::Sound(sound) => vec![sound.task()],
        }
    }

    /// What it is for texts; `None` where it takes none.
    pub fn text(&self) -> Option<&Arc<TextPipeline>> {
        match &self.kind {
            Kind::Text(text) => Some(text),
            Kind::Image(_) | Kind::Sound(_) => None,
        }
    }

    /// Is a ranking made of vectors, since the model gives no score for a pair?
    pub fn ranks_by_vectors(&self) -> bool {
        self.text().is_some_and(|it| it.ranks_by_vectors())
    }

    /// Names of its classes, in their order; none where it has no classes.
    pub fn labels(&self) -> &[Arc<str>] {
        match &self.kind {
            Kind::Text(text) => text.task().head.classes().map_or(&[], |it| &it.labels),
            Kind::Image(image) => image.labels(),
            Kind::Sound(sound) => sound.labels(),
        }
    }

    /// Length of the vectors that it gives, where the folder or the graph says it.
    pub fn dimensions(&self) -> Option<usize> {
        match &self.kind {
            Kind::Text(text) => text.dimensions(),
            Kind::Image(image) => image.dimensions(),
            Kind::Sound(_) => None,
        }
    }

    /// Lengths of the vectors of images and of texts of a graph with a tower for each, where it says them.
    pub fn tower_dimensions(&self) -> [Option<usize>; 2] {
        match &self.kind {
            Kind::Image(image) => image.tower_dimensions(),
            Kind::Text(_) | Kind::Sound(_) => [None; 2],
        }
    }

    /// Samples a second that the graph takes; `None` where it takes no sounds.
    pub fn sampling_rate(&self) -> Option<u32> {
        match &self.kind {
            Kind::Sound(sound) => Some(sound.sampling_rate()),
            Kind::Text(_) | Kind::Image(_) => None,
        }
    }

    /// What decodes JPEG for it, where it takes images.
    pub fn jpeg(&self) -> Option<&str> {
        match &self.kind {
            Kind::Image(image) => Some(image.jpeg()),
            Kind::Text(_) | Kind::Sound(_) => None,
        }
    }

    /// Numbers of the vectors of all patches of one image; zero where it takes none.
    pub fn patch_numbers(&self) -> usize {
        match &self.kind {
            Kind::Image(image) => image.patch_numbers(),
            Kind::Text(_) | Kind::Sound(_) => 0,
        }
    }

    /// The only length that the graph takes, where there is one: every run is padded to it.
    pub fn fixed_tokens(&self) -> Option<usize> {
        self.text().and_then(|it| it.fixed_tokens())
    }

    /// May rows be padded? Not without a mask, unless the graph has one length only.
    pub fn may_pad(&self) -> bool {
        self.text().is_some_and(|it| it.may_pad())
    }

    /// On which side of a row padding stands.
    pub fn padding_side(&self) -> Side {
        self.text().map_or(Side::Right, |it| it.padding_side())
    }

    /// Which files were read, passed over or missed.
    pub fn files(&self) -> &[FileNote] {
        &self.files
    }

    /// The ensemble of steps that does the same by hand. `folder` is the one that it was opened from.
    ///
    /// # Errors
    /// Why there is none: a sentence.
    pub fn explain(&self, folder: &Folder) -> Result<ExplainedEnsemble, NoEnsemble> {
        match &self.kind {
            Kind::Text(text) => text.explain(folder),
            Kind::Image(image) => image.explain(folder),
            Kind::Sound(sound) => sound.explain(folder),
        }
    }

    /// Has a run take no more than so many bytes, as far as its inputs decide it and the folder says how: sounds that
    /// are too long are refused. A line for the log, where that is less than was allowed before.
    pub fn fit(&mut self, bytes: u64) -> Option<String> {
        let Kind::Sound(sound) = &mut self.kind else { return None };
        let seconds = sound.fit(bytes)?;
        Some(format!(
            "its network compares all parts of a sound with each other: sounds of more than {seconds} s would take more \
             than {} MiB and are refused; in smaller pieces they are taken",
            bytes >> 20
        ))
    }

    /// Lines for the log beside [`Pipeline::describe`].
    pub fn warnings(&self) -> &[String] {
        match &self.kind {
            Kind::Text(text) => text.warnings(),
            Kind::Image(_) | Kind::Sound(_) => &[],
        }
    }

    /// What was understood of the folder, in one line.
    pub fn describe(&self) -> String {
        let description = match &self.kind {
            Kind::Text(text) => text.describe(),
            Kind::Image(image) => image.describe(),
            Kind::Sound(sound) => sound.describe(),
        };
        match &self.precision {
            Some(precision) => format!("{description}; precision {precision}"),
            None => description,
        }
    }
}

impl Step for Pipeline {
    fn inputs(&self) -> &[GraphInput] {
        match &self.kind {
            Kind::Text(text) => text.inputs(),
            Kind::Image(image) => &image.inputs,
            Kind::Sound(sound) => &sound.inputs,
        }
    }

    fn outputs(&self) -> &[GraphOutput] {
        match &self.kind {
            Kind::Text(text) => text.outputs(),
            Kind::Image(image) => &image.outputs.outputs,
            Kind::Sound(sound) => &sound.outputs,
        }
    }

    fn prepare_while(
        &self,
        task: Task,
        input: &Input<'_>,
        parameters: &Parameters,
        wanted: StillWanted<'_>,
    ) -> Result<Prepared, RowError> {
        match &self.kind {
            Kind::Text(text) => text.prepare(task, input, parameters, wanted),
            Kind::Image(image) => image.prepare(task, input, parameters, wanted),
            Kind::Sound(sound) => sound.prepare(task, input, parameters, wanted),
        }
    }

    fn bytes_to_prepare(&self, input: &Input<'_>) -> Result<usize, RowError> {
        match &self.kind {
            Kind::Text(text) => Ok(input.bytes_of_tokens(text.max_tokens())),
            Kind::Image(image) => image.bytes_to_prepare(input),
            Kind::Sound(sound) => sound.bytes_to_prepare(input),
        }
    }

    fn bytes_to_run(&self, row: &Row) -> usize {
        match &self.kind {
            Kind::Text(_) | Kind::Image(_) => 0,
            Kind::Sound(sound) => sound.bytes_to_run(row),
        }
    }

    fn reduce(&self, work: &Work, outputs: &[RowOutput<'_>]) -> Result<Reduced, RowError> {
        match &self.kind {
            Kind::Text(text) => text.reduce(&work.0, outputs),
            Kind::Image(image) => image.reduce(&work.0, outputs),
            Kind::Sound(sound) => sound.reduce(&work.0, outputs),
        }
    }

    fn finish_while(
        &self,
        context: Context,
        rows: Vec<Reduced>,
        wanted: StillWanted<'_>,
    ) -> Result<Reply, RowError> {
        match &self.kind {
            Kind::Text(text) => text.finish(context.0, rows, wanted),
            Kind::Image(image) => image.finish(context.0, rows),
            Kind::Sound(sound) => sound.finish(context.0, rows),
        }
    }
}
