//! What a folder is for: what was said over it, its graph's metadata, its modules, its architecture, and the task that
//! a container's variable asks for.

use crate::{
    error::{FolderError, NoPipeline},
    folder::{Folder, SPLADE, task_named},
};
use inference::task::{GraphGives, Medium, Task};

/// What becomes of a folder.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// It is a pipeline.
    Pipeline(Task),
    /// Its graph is served as it is, for this reason.
    Tensors(String),
}

/// Suffixes of architectures that this server does not run as pipelines, and what they are.
const OTHERS: [(&str, &str); 7] = [
    ("ForCausalLM", "it generates text"),
    ("ForConditionalGeneration", "it generates text"),
    ("LMHeadModel", "it generates text"),
    ("ForSemanticSegmentation", "masks of an image have no pipeline"),
    ("ForMultipleChoice", "multiple choice has no pipeline"),
    ("ForNextSentencePrediction", "prediction of the next sentence has no pipeline"),
    ("ForPreTraining", "it is for training"),
];

/// Architectures with one tower for images and one for texts.
const TWO_TOWERS: [&str; 7] = [
    "CLIPModel",
    "ChineseCLIPModel",
    "AltCLIPModel",
    "MetaClip2Model",
    "SiglipModel",
    "Siglip2Model",
    "VisionTextDualEncoderModel",
];

/// Decides what a folder is for. `metadata` is the task in the graph's own metadata.
///
/// # Errors
/// When a task was named that there is not, or that the folder contradicts.
pub fn decide(folder: &Folder, metadata: Option<&str>) -> Result<Decision, FolderError> {
    if let Some(name) = &folder.overrides.task {
        let task = task_named(name).map_err(|it| FolderError::file("task", it.to_string()))?;
        return Ok(Decision::Pipeline(task));
    }
    let own = own_decision(folder, metadata);
    match &folder.overrides.container_task {
        Some(asked) => asked_for(asked, own, folder),
        None => Ok(own),
    }
}

/// What the files of a folder and its graph say.
fn own_decision(folder: &Folder, metadata: Option<&str>) -> Decision {
    let asks_for_splade = folder.overrides.pooling.as_deref() == Some(SPLADE);
    let named = match metadata {
        // A task of the metadata that is none of a pipeline is no mistake of anybody's.
        Some(name) => match Task::from_name(name) {
            Some(task) => Some(task),
            None => return Decision::Tensors(format!("its graph says the task '{name}'")),
        },
        None => None,
    };
    match named.or_else(|| from_modules(folder, asks_for_splade)) {
        Some(task) => Decision::Pipeline(task),
        None => match from_architectures(folder, asks_for_splade) {
            Ok(task) => Decision::Pipeline(task),
            Err(reason) => Decision::Tensors(reason.to_string()),
        },
    }
}

/// The decision where a container's variable asks for a task.
///
/// # Errors
/// When the folder is for another one.
fn asked_for(name: &str, own: Decision, folder: &Folder) -> Result<Decision, FolderError> {
    let asked = Task::from_name(name);
    let architecture = folder.config.architectures.first();
    let contradiction = |is_for: &str| {
        let (file, key, what) = match (&folder.modules, architecture) {
            (Some(_), _) => ("modules.json", "", "the folder"),
            (None, Some(architecture)) => ("config.json", "architectures", architecture.as_str()),
            (None, None) => ("config.json", "", "the folder"),
        };
        let problem = format!("{what} {is_for}, and {HF_TASK} asks for {name}");
        Err(FolderError::key(file, key, problem))
    };
    match (own, asked) {
        (Decision::Pipeline(own), Some(asked)) if may_be(own, asked) || architecture.is_none() => {
            Ok(Decision::Pipeline(asked))
        }
        (Decision::Pipeline(own), _) => {
            let error = contradiction(&format!("is for {own}"));
            error.map_err(|it| it.remedy(format!("leave {HF_TASK} out, or let it be {own}")))
        }
        // What generates text has vectors of tokens, too, if its graph gives them.
        (Decision::Tensors(_), Some(asked))
            if is_of_vectors(asked) && folder.tokenizer.is_some() =>
        {
            Ok(Decision::Pipeline(asked))
        }
        (Decision::Tensors(reason), Some(_)) => {
            contradiction(&format!("has no pipeline ({reason})"))
        }
        (Decision::Tensors(reason), None) => Ok(Decision::Tensors(reason)),
    }
}

/// The variable of Hugging Face's container.
pub(crate) const HF_TASK: &str = "HF_TASK";

/// Is it done with the vectors of tokens?
fn is_of_vectors(task: Task) -> bool {
    task.facts().graph == GraphGives::TokenVectors
}

/// May a folder for one task be asked for the other?
fn may_be(own: Task, asked: Task) -> bool {
    own.facts().graph == asked.facts().graph
        // Exporters leave the architecture as it was when they leave its head out: the outputs decide.
        || (own.medium() == Medium::Text && is_of_vectors(asked))
        || (own.medium() == Medium::Image && asked.facts().graph == GraphGives::ImageVectors)
}

fn from_modules(folder: &Folder, asks_for_splade: bool) -> Option<Task> {
    let modules = folder.modules.as_ref()?;
    if modules.splade.is_some() || (modules.pooling.is_some() && asks_for_splade) {
        return Some(Task::SparseEmbedding);
    }
    modules.pooling.as_ref().map(|_| Task::SentenceEmbedding)
}

/// The task of the first architecture; otherwise why its graph is served as tensors.
fn from_architectures(folder: &Folder, asks_for_splade: bool) -> Result<Task, NoPipeline> {
    let config = &folder.config;
    let Some(architecture) = config.architectures.first() else {
        return match folder.tokenizer {
            Some(_) => Ok(Task::SentenceEmbedding),
            None => Err(NoPipeline::new("no file says what it is for")),
        };
    };
    let is = |suffix: &str| architecture.ends_with(suffix);
    if let Some((_, reason)) = OTHERS.iter().find(|(suffix, _)| is(suffix)) {
        return Err(NoPipeline::new(format!("{architecture}: {reason}")));
    }
    if is("ForSequenceClassification") && folder.tokenizer.is_none() && folder.extracts_sounds() {
        return Ok(Task::AudioClassification);
    }
    if is("ForSequenceClassification") {
        let entails = config.labels.iter().any(|it| it.to_lowercase().starts_with("entail"));
        return Ok(match (config.labels.len(), entails) {
            (1, _) => Task::Rerank,
            (_, true) => Task::ZeroShotClassification,
            (_, false) => Task::TextClassification,
        });
    }
    let has_suffix = |task: &Task| task.facts().architectures.iter().any(|it| is(it));
    match Task::ALL.into_iter().find(has_suffix) {
        Some(Task::FillMask) if asks_for_splade => return Ok(Task::SparseEmbedding),
        Some(task) => return Ok(task),
        None => {}
    }
    if TWO_TOWERS.contains(&architecture.as_str()) && folder.preprocesses_images() {
        return Ok(Task::ZeroShotImageClassification);
    }
    let has_head = architecture.contains("For");
    if !has_head && folder.tokenizer.is_none() && folder.preprocesses_images() {
        return Ok(Task::ImageFeatureExtraction);
    }
    match (has_head, &folder.tokenizer) {
        (false, Some(_)) => Ok(Task::SentenceEmbedding),
        (false, None) => Err(NoPipeline::new(format!("{architecture} has no tokenizer.json"))),
        (true, _) => {
            Err(NoPipeline::new(format!("{architecture} is no architecture with a pipeline")))
        }
    }
}
