//! What flags, parameters and `muster.json` say over what a folder says.

use super::{dir::Dir, document::Document, notes::Notes, pooling::PoolingMode};
use crate::{
    detect::{MOST_DETECTIONS, Thresholds},
    error::FolderError,
    jpeg_library::JpegLibrary,
};
use graphs::Precision;
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
    /// In what numbers a graph that is made for weights computes its products.
    pub precision: Option<Precision>,
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
    /// By how much of their union two boxes of one class overlap of which one is left out.
    pub iou: Option<f64>,
    /// Most objects of an image.
    pub max_detections: Option<usize>,
    /// Most pixels of one image. `None`: 50 million.
    pub max_image_pixels: Option<u64>,
    /// What decodes JPEG.
    pub jpeg_library: JpegLibrary,
    /// Most seconds of one sound. `None`: 300.
    pub max_audio_seconds: Option<u32>,
    /// Do requests of a graph run apart whose answers depend on the other rows of a run? Passed on to the batcher.
    pub strict_rows: Option<bool>,
}

/// Its key for [`Overrides::precision`].
const PRECISION: &str = "precision";
/// The file of operators.
pub(crate) const FILE: &str = "muster.json";
const KEYS: [&str; 16] = [
    "task",
    "graph",
    "precision",
    "pooling",
    "truncate",
    "prompt",
    "prompt_name",
    "labels",
    "threshold",
    "iou",
    "max_detections",
    "max_text_bytes",
    "max_image_pixels",
    "max_audio_seconds",
    "max_batch_tokens",
    "strict_rows",
];

/// Those of a file beside a graph without a folder.
const KEYS_OF_GRAPH: [&str; 4] = ["threshold", "iou", "max_detections", "max_image_pixels"];

/// What a file of operators lies beside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// The files of a folder.
    Folder,
    /// A graph that says itself what it is for.
    Graph,
}

/// Most pixels of one image where nothing is said.
pub(crate) const MOST_PIXELS: u64 = 50_000_000;

/// Seconds of the longest sound where nothing is said.
pub(crate) const LONGEST_SOUND: u32 = 300;

impl Overrides {
    /// These, and for what they leave open `muster.json` of the folder, where there is one.
    ///
    /// # Errors
    /// When the file has a key that is not known or does nothing there, or a value that it cannot have.
    pub(crate) fn over_file(
        self,
        dir: &Dir,
        beside: Beside,
        notes: &mut Notes,
    ) -> Result<Overrides, FolderError> {
        let Some(file) = Document::read(dir, FILE)? else { return Ok(self) };
        notes.read(FILE);
        if let Some(key) = file.keys().find(|it| !KEYS.contains(it)) {
            let hint = match nearest(key, KEYS) {
                Some(nearest) => format!("the nearest is '{nearest}'"),
                None => format!("there are {}", KEYS.join(", ")),
            };
            return Err(file.error(key, format!("no such key; {hint}")));
        }
        let does_nothing = |it: &&str| beside == Beside::Graph && !KEYS_OF_GRAPH.contains(it);
        if let Some(key) = file.keys().find(does_nothing) {
            let keys = KEYS_OF_GRAPH.join(", ");
            let problem = format!("a graph without a folder has not this key; there are {keys}");
            return Err(file.error(key, problem));
        }
        let share = |key: &str| match file.number(key)? {
            Some(share) if !(0.0..=1.0).contains(&share) => {
                Err(file.error(key, format!("it is {share}, not a number from 0 to 1")))
            }
            share => Ok(share),
        };
        let bound = |key: &str, most: usize| match file.count(key)? {
            Some(count) if !(1..=most).contains(&count) => {
                Err(file.error(key, format!("it is {count}, not a whole number from 1 to {most}")))
            }
            count => Ok(count),
        };
        let threshold = share("threshold")?;
        let iou = share("iou")?;
        let max_detections = bound("max_detections", MOST_DETECTIONS)?;
        let pixels = bound("max_image_pixels", usize::MAX)?;
        let seconds = bound("max_audio_seconds", u32::MAX as usize)?;
        let text = |key: &str| file.text(key).map(|it| it.map(str::to_owned));
        // Of the values that go before those of the file it is not known who said them.
        let checked =
            |key: &str, check: fn(&str) -> Result<(), UnknownName>| match file.text(key)? {
                Some(value) => match check(value) {
                    Ok(()) => Ok(Some(value.to_owned())),
                    Err(problem) => Err(file.error(key, problem.to_string())),
                },
                None => Ok(None),
            };
        let task = checked("task", |name| task_named(name).map(|_| ()))?;
        let precision = checked(PRECISION, |name| precision_named(name).map(|_| ()))?;
        let precision = precision.and_then(|it| Precision::from_name(&it));
        let pooling = checked("pooling", |names| match names {
            SPLADE => Ok(()),
            names => modes_named(names).map(|_| ()),
        })?;
        Ok(Overrides {
            task: self.task.or(task),
            container_task: self.container_task,
            graph: self.graph.or(text("graph")?),
            precision: self.precision.or(precision),
            pooling: self.pooling.or(pooling),
            truncate: self.truncate.or(file.flag("truncate")?),
            prompt: self.prompt.or(text("prompt")?),
            prompt_name: self.prompt_name.or(text("prompt_name")?),
            labels: self.labels.or(file.texts("labels")?),
            max_text_bytes: self.max_text_bytes.or(file.count("max_text_bytes")?),
            max_batch_tokens: self.max_batch_tokens.or(file.count("max_batch_tokens")?),
            threshold: self.threshold.or(threshold.map(|it| it as f32)),
            iou: self.iou.or(iou),
            max_detections: self.max_detections.or(max_detections),
            max_image_pixels: self.max_image_pixels.or(pixels.map(|it| it as u64)),
            jpeg_library: self.jpeg_library,
            max_audio_seconds: self.max_audio_seconds.or(seconds.map(|it| it as u32)),
            strict_rows: self.strict_rows.or(file.flag("strict_rows")?),
        })
    }

    /// What a box must have where a request says nothing, of a model for which that is usual.
    pub(crate) fn thresholds(&self, usual: Thresholds) -> Thresholds {
        Thresholds {
            confidence: self.threshold.unwrap_or(usual.confidence),
            iou: self.iou.unwrap_or(usual.iou),
            max_detections: self.max_detections.or(usual.max_detections),
            ..usual
        }
    }

    /// Most pixels of one image.
    pub(crate) fn most_pixels(&self) -> u64 {
        self.max_image_pixels.unwrap_or(MOST_PIXELS)
    }

    /// Seconds of the longest sound.
    pub(crate) fn longest_sound(&self) -> u32 {
        self.max_audio_seconds.unwrap_or(LONGEST_SOUND)
    }
}

/// The precision that the file of operators says for the graph in this directory. What is wrong with the file is said
/// when the folder is read. Blocking.
pub fn said_precision(dir: &std::path::Path) -> Option<Precision> {
    let file = Document::read(&Dir::alone(dir), FILE).ok()??;
    Precision::from_name(file.text(PRECISION).ok()??)
}

/// Does a file of operators lie in this directory? Blocking.
pub fn is_said_over(dir: &std::path::Path) -> bool {
    dir.join(FILE).is_file()
}

/// The pooling of sparse vectors.
pub(crate) const SPLADE: &str = "splade";

/// A name of which nothing has it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnknownName {
    #[error("there is no task '{name}'; the nearest is '{nearest}'")]
    Task { name: String, nearest: &'static str },
    #[error("'{name}' is none of {}", Precision::ALL.map(Precision::name).join(", "))]
    Precision { name: String },
    #[error("'{name}' is none of {}, {SPLADE}", PoolingMode::ALL.map(PoolingMode::name).join(", "))]
    Pooling { name: String },
}

/// The task of that name; what is wrong where there is none.
pub(crate) fn task_named(name: &str) -> Result<Task, UnknownName> {
    Task::from_name(name).ok_or_else(|| {
        let names = Task::ALL.into_iter().map(Task::name);
        let nearest = nearest(name, names).unwrap_or("text-classification");
        UnknownName::Task { name: name.to_owned(), nearest }
    })
}

/// The precision of that name; what is wrong where there is none.
fn precision_named(name: &str) -> Result<Precision, UnknownName> {
    Precision::from_name(name).ok_or_else(|| UnknownName::Precision { name: name.to_owned() })
}

/// The ways to pool that these names with `+` between them are; what is wrong where one is none.
pub(crate) fn modes_named(names: &str) -> Result<Vec<PoolingMode>, UnknownName> {
    let mode = |name: &str| {
        let unknown = || UnknownName::Pooling { name: name.to_owned() };
        PoolingMode::from_name(name).ok_or_else(unknown)
    };
    names.split('+').map(mode).collect()
}
