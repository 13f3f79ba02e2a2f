//! A folder of a text model and the signature of its graph as one thing that answers texts.

use std::sync::Arc;

use audio::StillWanted;
use backend::{ModelSpec, NamedTensor};

use crate::{
    context::{ContextKind, WorkKind},
    error::{FolderError, NoEnsemble, RowError},
    explain::{ExplainedEnsemble, ensemble},
    finish,
    folder::{Folder, OPERATORS_FILE},
    head::reduced::Reduced,
    outputs::{GraphOutput, RowOutput, taken_for_its_shape},
    parts::{Parts, SpecialTokens, prompt_tokens},
    prepare, reduce,
    reply::Reply,
    request::{Input, Parameters},
    side::Side,
    signature::{Inputs, Outputs},
    step::{GraphInput, Prepared},
    task::{Plan, TaskHead, plan},
    text::{Detail, Encode, TextLimits, Tokenizer, Truncation},
    tokenize,
    tokens::{TextToken, Tokenizing},
};
use inference::task::Task;

/// Everything around a graph that answers texts: immutable, shared by all threads.
#[derive(Debug)]
pub struct TextPipeline {
    parts: Parts,
    warnings: Vec<String>,
    tokenizer_file: String,
}

/// The tokenizer of a folder and the name of its file. Blocking.
///
/// # Errors
/// When it is missing or wrong.
fn tokenizer(folder: &Folder) -> Result<(String, Tokenizer), FolderError> {
    let (file, bytes) = folder.tokenizer_bytes()?;
    let tokenizer = Tokenizer::from_bytes(&bytes, &file, folder.sentence.do_lower_case)?;
    Ok((file, tokenizer))
}

impl TextPipeline {
    /// From a folder that has been read, its task, and its graph as the engine describes it. Reads `tokenizer.json`.
    /// Blocking: some 100 ms for a large vocabulary.
    ///
    /// # Errors
    /// When a file is missing or wrong, or the graph has not the inputs and outputs that the task needs.
    pub(crate) fn open(
        folder: &Folder,
        task: Task,
        spec: &ModelSpec,
    ) -> Result<TextPipeline, FolderError> {
        let mut task = plan(folder, task)?;
        let (file, tokenizer) = tokenizer(folder)?;
        let special = SpecialTokens::of(&folder.tokenizer_config, &folder.config, &tokenizer);
        let inputs = Inputs::plan(spec, &folder.config, special.pad, &folder.graph)?;
        let outputs = Outputs::plan(spec, &task.head, &folder.graph)?;
        if let Some(fixed) = inputs.fixed_tokens {
            task.max_tokens = task.max_tokens.min(fixed);
        }
        check_labels(folder, &task.head, &outputs)?;
        let mut warnings = std::mem::take(&mut task.warnings);
        if !inputs.has_mask() {
            let text = "the graph has no attention_mask: only inputs of equal length share a run";
            warnings.push(text.to_owned());
        }
        let bytes = folder.overrides.max_text_bytes.unwrap_or(TextLimits::DEFAULT_BYTES);
        let limits = TextLimits { bytes, tokens: task.max_tokens };
        let tokenizer = Arc::new(tokenizer);
        let prompt_tokens = prompt_tokens(&task, &tokenizer)
            .map_err(|error| FolderError::file(&file, error.to_string()))?;
        let parts = Parts { task, tokenizer, inputs, outputs, limits, special, prompt_tokens };
        Ok(TextPipeline { parts, warnings, tokenizer_file: file })
    }

    /// See [`crate::Pipeline::check`].
    pub(crate) fn check(folder: &Folder) -> Result<(), FolderError> {
        tokenizer(folder).map(drop)
    }

    /// The task that the folder is for, and what was decided about it.
    pub fn task(&self) -> &Plan {
        &self.parts.task
    }

    /// See [`crate::Pipeline::tasks`].
    pub(crate) fn tasks(&self) -> Vec<Task> {
        let others = self.parts.task.head.tasks().iter().copied();
        let has_tokens = self.parts.outputs.tokens.is_some();
        let can = |it: &Task| *it != Task::FeatureExtraction || has_tokens;
        let mut tasks = vec![self.parts.task.name];
        tasks.extend(others.filter(can).filter(|it| *it != self.parts.task.name));
        tasks
    }

    /// See [`crate::Pipeline::ranks_by_vectors`].
    pub(crate) fn ranks_by_vectors(&self) -> bool {
        matches!(self.parts.task.head, TaskHead::Embedder(_))
    }

    /// The tokenizer, for routes that give tokens.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.parts.tokenizer
    }

    /// The tokens of a text, which is not cut.
    ///
    /// # Errors
    /// When the text has too many bytes, no prompt has this name, or the tokenizer fails.
    pub fn tokenize(&self, text: &str, how: &Tokenizing<'_>) -> Result<Vec<TextToken>, RowError> {
        tokenize::tokenize(&self.parts, text, how)
    }

    /// Most tokens of an input, special ones included.
    pub fn max_tokens(&self) -> usize {
        self.parts.task.max_tokens
    }

    /// See [`crate::Pipeline::fixed_tokens`].
    pub(crate) fn fixed_tokens(&self) -> Option<usize> {
        self.parts.inputs.fixed_tokens
    }

    /// See [`crate::Pipeline::may_pad`].
    pub(crate) fn may_pad(&self) -> bool {
        self.parts.inputs.has_mask() || self.parts.inputs.fixed_tokens.is_some()
    }

    /// See [`crate::Pipeline::padding_side`].
    pub(crate) fn padding_side(&self) -> Side {
        self.parts.task.padding_side
    }

    /// A row to try the graph with: the beginning of a text, at most so many tokens. Its inputs, and its length.
    ///
    /// # Errors
    /// When the tokenizer fails or gives no tokens.
    pub fn trial_row(
        &self,
        text: &str,
        tokens: usize,
    ) -> Result<(Vec<NamedTensor>, usize), RowError> {
        let most = tokens.min(self.max_tokens());
        let truncation = Some(Truncation::right(most));
        let how = Encode { add_special_tokens: true, detail: Detail::Ids, truncation };
        let encoding = self.parts.tokenizer.encode(text, None, &how)?;
        let first = &encoding.windows[0];
        Ok((self.parts.inputs.row(first)?, first.ids.len()))
    }

    /// Length of the vectors that it gives, where the folder or the graph says it.
    pub fn dimensions(&self) -> Option<usize> {
        let TaskHead::Embedder(embedder) = &self.parts.task.head else { return None };
        self.parts.dimensions(embedder)
    }

    /// See [`crate::Pipeline::explain`].
    ///
    /// # Errors
    /// Why there is none: a sentence.
    pub(crate) fn explain(&self, folder: &Folder) -> Result<ExplainedEnsemble, NoEnsemble> {
        ensemble(&self.parts, folder, &self.tokenizer_file)
    }

    /// The graph's own vector of a text, which is given as it is. `None`: it is made by pooling.
    pub fn own_vector(&self) -> Option<&str> {
        self.parts.outputs.vector.map(|at| self.parts.outputs.name(at))
    }

    /// See [`crate::Pipeline::warnings`].
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// See [`crate::Pipeline::describe`].
    pub(crate) fn describe(&self) -> String {
        let head = match &self.parts.task.head {
            TaskHead::Classifier(classes)
            | TaskHead::Entailment(classes)
            | TaskHead::Tokens(classes) => {
                let (count, function) = (classes.labels.len(), classes.function.name());
                match &self.parts.task.head {
                    TaskHead::Classifier(_) => format!("{}, {function}", plural(count, "label")),
                    _ => plural(count, "label"),
                }
            }
            TaskHead::Ranker(_, activation) => format!("{activation:?}").to_lowercase(),
            TaskHead::Answers => "spans of the context".to_owned(),
            TaskHead::Masks => plural(self.parts.tokenizer.vocabulary(), "token"),
            TaskHead::Embedder(embedder) => match self.parts.outputs.vector {
                Some(_) => "vectors of the graph".to_owned(),
                None => format!("pooling {}", embedder.pooling.name()),
            },
            TaskHead::Sparse(splade) if splade.is_sum => "splade, sum".to_owned(),
            TaskHead::Sparse(_) => "splade, max".to_owned(),
        };
        let dimensions = match self.dimensions() {
            Some(dimensions) => format!(", {dimensions} dimensions"),
            None => String::new(),
        };
        let tokenizer = format!(
            "tokenizer {} {}, at most {} tokens",
            self.parts.tokenizer.kind(),
            self.parts.tokenizer.vocabulary(),
            self.parts.task.max_tokens
        );
        let inputs: Vec<&str> = self.parts.inputs.inputs.iter().map(|it| &*it.name).collect();
        let inputs = inputs.join(", ");
        let (task, by_shape) = (self.parts.task.name, self.parts.outputs.by_shape.as_deref());
        let output = taken_for_its_shape(by_shape);
        format!("{task}, {head}{dimensions}; {tokenizer}; graph takes {inputs}{output}")
    }
}

fn plural(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// The graph's classes are as many as the labels.
fn check_labels(folder: &Folder, head: &TaskHead, outputs: &Outputs) -> Result<(), FolderError> {
    if let TaskHead::Ranker(classes, _) = head
        && folder.config.has_labels
        && classes.labels.len() != 1
    {
        let problem = format!("{} labels, and a ranking needs one", classes.labels.len());
        let error = FolderError::key("config.json", "id2label", problem);
        return Err(error.remedy("name another task, such as text-classification"));
    }
    let Some((classes, width)) = head.classes().zip(outputs.width) else { return Ok(()) };
    if classes.labels.len() == width {
        return Ok(());
    }
    let problem = format!("{} labels, and the graph has {width}", classes.labels.len());
    let (file, key) = match (&folder.overrides.labels, folder.config.has_labels) {
        (Some(_), _) => (OPERATORS_FILE, "labels"),
        (None, _) => ("config.json", "id2label"),
    };
    Err(FolderError::key(file, key, problem).remedy("name every class of the graph"))
}

impl TextPipeline {
    pub(crate) fn inputs(&self) -> &[GraphInput] {
        &self.parts.inputs.inputs
    }

    pub(crate) fn outputs(&self) -> &[GraphOutput] {
        &self.parts.outputs.outputs
    }

    pub(crate) fn prepare(
        &self,
        task: Task,
        input: &Input<'_>,
        parameters: &Parameters,
        wanted: StillWanted<'_>,
    ) -> Result<Prepared, RowError> {
        prepare::prepare(&self.parts, task, input, parameters, wanted)
    }

    pub(crate) fn reduce(
        &self,
        work: &WorkKind,
        outputs: &[RowOutput<'_>],
    ) -> Result<Reduced, RowError> {
        reduce::reduce(&self.parts.task.head, &self.parts.outputs, work, outputs)
    }

    pub(crate) fn finish(
        &self,
        context: ContextKind,
        rows: Vec<Reduced>,
        wanted: StillWanted<'_>,
    ) -> Result<Reply, RowError> {
        finish::finish(&self.parts, context, rows, wanted)
    }
}
