//! What a folder is for, with everything decided that the graph's signature does not decide.

use std::sync::Arc;

use crate::{
    error::FolderError,
    folder::{Activation, Config, Folder, Link, Pooling, ProblemType, Splade, modes_named},
    request::{Function, Similarity},
    side::Side,
    text::Prompts,
};
use inference::task::Task;

/// The task of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The one that the folder is for.
    pub name: Task,
    /// What is made of the graph's outputs.
    pub head: TaskHead,
    /// Prompts for texts that become vectors.
    pub prompts: Prompts,
    /// Most tokens of an input, special ones included.
    pub max_tokens: usize,
    /// Are texts cut that are too long, where the request does not say? `None`: as is usual for the task.
    pub truncate: Option<bool>,
    /// Which end of a text is cut.
    pub truncation_side: Side,
    /// On which side of a row padding stands.
    pub padding_side: Side,
    /// What is worth a line of the log, beyond what the pipeline is.
    pub warnings: Vec<String>,
}

/// What is made of a graph's outputs.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskHead {
    /// Classes of a text.
    Classifier(Classes),
    /// One number for a pair, and what a folder puts behind it.
    Ranker(Classes, Activation),
    /// Classes of which one says that a text entails another.
    Entailment(Classes),
    /// Classes of each token.
    Tokens(Classes),
    /// First and last token of an answer.
    Answers,
    /// The vocabulary at a mask.
    Masks,
    /// One vector for a text.
    Embedder(Embedder),
    /// A sparse vector over the vocabulary.
    Sparse(Splade),
}

/// Names of classes, and what makes scores of their logits.
#[derive(Debug, Clone, PartialEq)]
pub struct Classes {
    /// The names in the order of the logits.
    pub labels: Vec<Arc<str>>,
    /// What makes scores.
    pub function: Function,
}

/// How token vectors become the vector of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedder {
    /// Token vectors to one.
    pub pooling: Pooling,
    /// Was the pooling said over the folder? Then the graph's own vector is not used.
    pub is_pooling_given: bool,
    /// What the vector goes through.
    pub chain: Vec<Link>,
    /// How two vectors are compared.
    pub similarity: Similarity,
}

impl TaskHead {
    /// The tasks that it answers.
    pub fn tasks(&self) -> &'static [Task] {
        match self {
            TaskHead::Classifier(_) => &[Task::TextClassification],
            TaskHead::Ranker(..) => &[Task::Rerank, Task::TextClassification],
            TaskHead::Entailment(_) => &[Task::ZeroShotClassification, Task::TextClassification],
            TaskHead::Tokens(_) => &[Task::TokenClassification],
            TaskHead::Answers => &[Task::QuestionAnswering],
            TaskHead::Masks => &[Task::FillMask],
            TaskHead::Embedder(_) => {
                &[Task::SentenceEmbedding, Task::FeatureExtraction, Task::SentenceSimilarity]
            }
            TaskHead::Sparse(_) => &[Task::SparseEmbedding],
        }
    }

    /// The classes, where it has any.
    pub fn classes(&self) -> Option<&Classes> {
        match self {
            TaskHead::Classifier(classes)
            | TaskHead::Ranker(classes, _)
            | TaskHead::Entailment(classes)
            | TaskHead::Tokens(classes) => Some(classes),
            TaskHead::Answers | TaskHead::Masks | TaskHead::Embedder(_) | TaskHead::Sparse(_) => {
                None
            }
        }
    }
}

/// Tokens of the longest input where no file says a limit.
pub(crate) const USUAL_LIMIT: usize = 8192;

/// What a folder of a text model says of how its task is done.
///
/// # Errors
/// When the folder contradicts itself.
pub(crate) fn plan(folder: &Folder, task: Task) -> Result<Plan, FolderError> {
    let mut warnings = Vec::new();
    let max_tokens = longest(folder, &mut warnings);
    Ok(Plan {
        name: task,
        head: head(folder, task)?,
        prompts: prompts(folder)?,
        max_tokens,
        truncate: folder.overrides.truncate,
        truncation_side: folder.tokenizer_config.truncation_side.unwrap_or_default(),
        padding_side: folder.tokenizer_config.padding_side.unwrap_or_default(),
        warnings,
    })
}

fn head(folder: &Folder, task: Task) -> Result<TaskHead, FolderError> {
    Ok(match task {
        Task::TextClassification => TaskHead::Classifier(classes(folder)),
        Task::ZeroShotClassification => TaskHead::Entailment(classes(folder)),
        Task::TokenClassification => TaskHead::Tokens(classes(folder)),
        Task::Rerank => TaskHead::Ranker(classes(folder), activation(folder)?),
        Task::QuestionAnswering => TaskHead::Answers,
        Task::FillMask => TaskHead::Masks,
        Task::SparseEmbedding => {
            let modules = folder.modules.as_ref();
            TaskHead::Sparse(modules.and_then(|it| it.splade).unwrap_or_default())
        }
        Task::FeatureExtraction | Task::SentenceEmbedding | Task::SentenceSimilarity => {
            TaskHead::Embedder(embedder(folder)?)
        }
        Task::ImageClassification
        | Task::ObjectDetection
        | Task::ImageFeatureExtraction
        | Task::ZeroShotImageClassification
        | Task::ImageTextEmbedding
        | Task::AudioClassification
        | Task::AutomaticSpeechRecognition => {
            let problem = format!("{task} takes {}, and no text", task.medium().one());
            return Err(FolderError::file("task", problem));
        }
    })
}

/// The classes of a folder, and what makes scores of their logits.
pub(crate) fn classes(folder: &Folder) -> Classes {
    let config = &folder.config;
    let labels: Vec<Arc<str>> = match &folder.overrides.labels {
        Some(labels) => labels.iter().map(|it| it.as_str().into()).collect(),
        None => config.labels.clone(),
    };
    let function = usual_function(config, labels.len());
    Classes { labels, function }
}

/// What makes scores of the logits of so many classes.
pub(crate) fn usual_function(config: &Config, labels: usize) -> Function {
    match config.problem_type {
        Some(ProblemType::Regression) => Function::None,
        Some(ProblemType::MultiLabel) => Function::Sigmoid,
        _ if labels == 1 => Function::Sigmoid,
        Some(ProblemType::SingleLabel) => Function::Softmax,
        None if labels > 1 => Function::Softmax,
        None => config.function_to_apply.unwrap_or(Function::None),
    }
}

/// What a cross-encoder puts behind its logit: the newest of three places that says it, else a sigmoid.
fn activation(folder: &Folder) -> Result<Activation, FolderError> {
    let newest = folder.sentence.activation.as_ref();
    let newest = newest.map(|it| ("config_sentence_transformers.json", "activation_fn", it));
    let older = folder.config.activation.as_ref();
    let older = older.map(|(key, name)| ("config.json", *key, name));
    let Some((file, key, name)) = newest.or(older) else { return Ok(Activation::Sigmoid) };
    Activation::from_class(name).ok_or_else(|| {
        let problem = format!("'{name}' is none of Sigmoid, Identity, Tanh, ReLU, GELU, SiLU");
        FolderError::key(file, key, problem)
    })
}

fn embedder(folder: &Folder) -> Result<Embedder, FolderError> {
    let modules = folder.modules.as_ref();
    let mut pooling = modules.and_then(|it| it.pooling.clone()).unwrap_or_else(Pooling::mean);
    let given = folder.overrides.pooling.as_deref();
    if let Some(names) = given {
        pooling.modes =
            modes_named(names).map_err(|it| FolderError::file("pooling", it.to_string()))?;
    }
    let mut chain = modules.map(|it| it.chain.clone()).unwrap_or_default();
    // As sentence-transformers: behind all modules, whose normalization is not repeated.
    chain.extend(folder.sentence.truncate_dim.map(Link::Truncate));
    Ok(Embedder {
        pooling,
        is_pooling_given: given.is_some(),
        chain,
        similarity: folder.sentence.similarity,
    })
}

fn prompts(folder: &Folder) -> Result<Prompts, FolderError> {
    let overrides = &folder.overrides;
    let mut prompts = Prompts { named: folder.sentence.prompts.clone(), default: None };
    let name = match (&overrides.prompt, &overrides.prompt_name) {
        (Some(_), Some(_)) => {
            let problem = "a prompt and the name of one were given, and only one can be used";
            return Err(FolderError::file("prompt", problem));
        }
        (Some(text), None) => {
            prompts.default = Some(text.clone());
            None
        }
        (None, Some(name)) => Some(name),
        (None, None) => folder.sentence.default_prompt_name.as_ref(),
    };
    if let Some(name) = name {
        let found = prompts.find(Some(name)).map(|it| it.map(str::to_owned));
        prompts.default =
            found.map_err(|error| FolderError::file("prompt_name", error.to_string()))?;
    }
    Ok(prompts)
}

/// Most tokens of an input: the smallest of the limits that files say.
fn longest(folder: &Folder, warnings: &mut Vec<String>) -> usize {
    let limits = [folder.sentence.max_seq_length, folder.tokenizer_config.model_max_length];
    smallest_limit(&folder.config, limits).unwrap_or_else(|| {
        warnings.push(format!("no file says the longest input; {USUAL_LIMIT} tokens are taken"));
        USUAL_LIMIT
    })
}

/// The smallest of these limits and of the positions that the model has.
pub(crate) fn smallest_limit(config: &Config, limits: [Option<usize>; 2]) -> Option<usize> {
    let positions = config.positions.map(|it| it.saturating_sub(config.first_position()));
    // A limit of zero is how some files say that there is none.
    limits.into_iter().chain([positions]).flatten().filter(|&it| it > 0).min()
}
