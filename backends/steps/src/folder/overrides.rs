//! What flags, parameters and `muster.json` say over what a folder says.

use image::JpegLibrary;

use super::{dir::Dir, document::Document, notes::Notes, pooling::PoolingMode};
use crate::error::FolderError;
use inference::{signature::nearest, task::Task};

/// What was said over the folder. `None`: the folder decides.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Overrides {
    /// The task's name.
    pub task: Option<String>,
    /// The name of the task that the variable of Hugging Face's container asks for, where the folder allows it.
    pub container_task: Option<String>,
    /// The graph: a file relative to the folder, or a variant such as `fp16`.
    pub graph: Option<String>,
    /// How token vectors become one: names with `+` between them, or `splade`.
    pub pooling: Option<String>,
    /// Are texts that are too long cut where a request does not say?
    pub truncate: Option<bool>,
    /// A text in front of every text of an embedding.
    pub prompt: Option<String>,
    /// The name of the folder's prompt in front of every text of an embedding.
    pub prompt_name: Option<String>,
    /// Names of the classes in their order.
    pub labels: Option<Vec<String>>,
    /// Most bytes of one text. `None`: 1 MiB.
    pub max_text_bytes: Option<usize>,
    /// Most padded tokens of a run. Passed on to the batcher.
    pub max_batch_tokens: Option<usize>,
    /// The least score of an object in an image.
    pub threshold: Option<f32>,
    /// Most pixels of one image. `None`: 50 million.
    pub max_image_pixels: Option<u64>,
    /// What decodes JPEG.
    pub jpeg_library: JpegLibrary,
    /// Most seconds of one sound. `None`: 300.
    pub max_audio_seconds: Option<u32>,
    /// Do requests of a graph run apart whose answers depend on the other rows of a run? Passed on to the batcher.
    pub strict_rows: Option<bool>,
}

/// The file of operators.
pub(crate) const FILE: &str = "muster.json";
const KEYS: [&str; 11] = [
    "task",
    "graph",
    "pooling",
    "truncate",
    "prompt",
    "prompt_name",
    "labels",
    "threshold",
    "max_text_bytes",
    "max_batch_tokens",
    "strict_rows",
];

impl Overrides {
    /// These, and for what they leave open `muster.json` of the folder, where there is one.
    ///
    /// # Errors
    /// When the file has a key that is not known, or a value that it cannot have.
    pub(crate) fn over_file(self, dir: &Dir, notes: &mut Notes) -> Result<Overrides, FolderError> {
        let Some(file) = Document::read(dir, FILE)? else { return Ok(self) };
        notes.read(FILE);
        if let Some(key) = file.keys().find(|it| !KEYS.contains(it)) {
            let hint = match nearest(key, KEYS) {
                Some(nearest) => format!("the nearest is '{nearest}'"),
                None => format!("there are {}", KEYS.join(", ")),
            };
            return Err(file.error(key, format!("no such key; {hint}")));
        }
        let threshold = file.number("threshold")?;
        if threshold.is_some_and(|it| !(0.0..=1.0).contains(&it)) {
            return Err(file.error("threshold", "it is no number from 0 to 1"));
        }
        let text = |key: &str| file.text(key).map(|it| it.map(str::to_owned));
        // Of the values that go before those of the file it is not known who said them.
        let checked = |key: &str, check: fn(&str) -> Result<(), String>| match file.text(key)? {
            Some(value) => match check(value) {
                Ok(()) => Ok(Some(value.to_owned())),
                Err(problem) => Err(file.error(key, problem)),
            },
            None => Ok(None),
        };
        let task = checked("task", |name| task_named(name).map(|_| ()))?;
        let pooling = checked("pooling", |names| match names {
            SPLADE => Ok(()),
            names => modes_named(names).map(|_| ()),
        })?;
        Ok(Overrides {
            task: self.task.or(task),
            container_task: self.container_task,
            graph: self.graph.or(text("graph")?),
            pooling: self.pooling.or(pooling),
            truncate: self.truncate.or(file.flag("truncate")?),
            prompt: self.prompt.or(text("prompt")?),
            prompt_name: self.prompt_name.or(text("prompt_name")?),
            labels: self.labels.or(file.texts("labels")?),
            max_text_bytes: self.max_text_bytes.or(file.count("max_text_bytes")?),
            max_batch_tokens: self.max_batch_tokens.or(file.count("max_batch_tokens")?),
            threshold: self.threshold.or(threshold.map(|it| it as f32)),
            max_image_pixels: self.max_image_pixels,
            jpeg_library: self.jpeg_library,
            max_audio_seconds: self.max_audio_seconds,
            strict_rows: self.strict_rows.or(file.flag("strict_rows")?),
        })
    }
}

/// The pooling of sparse vectors.
pub(crate) const SPLADE: &str = "splade";

/// The task of that name; what is wrong where there is none.
pub(crate) fn task_named(name: &str) -> Result<Task, String> {
    Task::from_name(name).ok_or_else(|| {
        let names = Task::ALL.into_iter().map(Task::name);
        let nearest = nearest(name, names).unwrap_or("text-classification");
        format!("there is no task '{name}'; the nearest is '{nearest}'")
    })
}

/// The ways to pool that these names with `+` between them are; what is wrong where one is none.
pub(crate) fn modes_named(names: &str) -> Result<Vec<PoolingMode>, String> {
    let mode = |name: &str| {
        PoolingMode::from_name(name).ok_or_else(|| {
            let known = PoolingMode::ALL.map(PoolingMode::name).join(", ");
            format!("'{name}' is none of {known}, {SPLADE}")
        })
    };
    names.split('+').map(mode).collect()
}
