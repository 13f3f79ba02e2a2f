//! What an ensemble is made of: the pipeline and its folder, and what they say of the ensemble as a whole.

use inference::task::{CANDIDATE_LABELS, CONTEXT, QUESTION, TEXT, TEXT_PAIR};

use crate::{
    folder::Folder,
    parts::Parts,
    task::{Classes, TaskHead},
};

/// The file with a model's configuration.
pub(super) const CONFIG: &str = "config.json";
/// A file with the name of a class in each line.
pub(super) const LABELS: &str = "labels.txt";
/// The mask of the tokens.
pub(super) const MASK: &str = "attention_mask";

/// A pipeline and its folder.
pub(super) struct Source<'a> {
    pub(super) parts: &'a Parts,
    pub(super) folder: &'a Folder,
    /// The file of the tokenizer.
    pub(super) tokenizer: &'a str,
}

impl Source<'_> {
    fn head_is_of_texts(&self) -> bool {
        matches!(self.parts.task.head, TaskHead::Embedder(_) | TaskHead::Sparse(_))
    }

    /// The names of the texts.
    pub(super) fn texts(&self) -> (&'static str, &'static str) {
        match self.parts.task.head {
            TaskHead::Answers => (QUESTION, CONTEXT),
            TaskHead::Entailment(_) => (TEXT, CANDIDATE_LABELS),
            _ => (TEXT, TEXT_PAIR),
        }
    }

    /// The outputs of the graph that the head reads.
    pub(super) fn read(&self) -> Vec<String> {
        let outputs = &self.parts.outputs;
        let names = outputs.outputs.iter().map(|it| it.name.as_ref().to_owned());
        match self.parts.task.head {
            TaskHead::Answers => names.collect(),
            TaskHead::Embedder(_) => {
                let at = outputs.vector.or(outputs.tokens).unwrap_or(0);
                vec![outputs.name(at).to_owned()]
            }
            _ => names.take(1).collect(),
        }
    }

    /// The prompt in front of every text.
    pub(super) fn prompt(&self) -> Option<&str> {
        let prompt = self.parts.task.prompts.default.as_deref().filter(|it| !it.is_empty());
        prompt.filter(|_| self.head_is_of_texts())
    }

    /// The classes of the model.
    pub(super) fn classes(&self) -> Option<&Classes> {
        self.parts.task.head.classes()
    }

    /// The file with the names of the classes.
    pub(super) fn labels(&self) -> &'static str {
        let is_given = self.folder.overrides.labels.is_some();
        let is_there = self.folder.dir.path().join(CONFIG).is_file();
        if is_given || !is_there { LABELS } else { CONFIG }
    }
}
