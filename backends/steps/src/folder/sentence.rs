//! The files that sentence-transformers keeps beside its modules: limits of the first module, prompts, similarity.

use super::{dir::Dir, document::Document, notes::Notes};
use crate::{error::FolderError, request::Similarity};

/// What the files say.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sentence {
    /// Most tokens of a text.
    pub max_seq_length: Option<usize>,
    /// Are texts made lower-case first?
    pub do_lower_case: bool,
    /// Prompts by name, in the order of the file.
    pub prompts: Vec<(String, String)>,
    /// The prompt that is used when a request names none.
    pub default_prompt_name: Option<String>,
    /// How vectors are compared.
    pub similarity: Similarity,
    /// Dimensions of a vector that are kept, the first ones.
    pub truncate_dim: Option<usize>,
    /// The class that a cross-encoder of version 5 or later puts behind its logits.
    pub activation: Option<String>,
}

/// The names that the file of the first module has had.
const FIRST_MODULE: [&str; 7] = [
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
];
const LIBRARY: &str = "config_sentence_transformers.json";

impl Sentence {
    /// From the files in `dir`; those of the first module lie in its subfolder `first`.
    ///
    /// # Errors
    /// When a key has a value that it cannot have.
    pub(crate) fn read(dir: &Dir, first: &str, notes: &mut Notes) -> Result<Sentence, FolderError> {
        let mut result = Sentence::default();
        for name in FIRST_MODULE {
            let file = format!("{first}{name}");
            let Some(document) = Document::read(dir, &file)? else { continue };
            notes.read(&file);
            result.max_seq_length = document.count("max_seq_length")?;
            result.do_lower_case = document.flag("do_lower_case")?.unwrap_or(false);
            break;
        }
        let Some(document) = Document::read(dir, LIBRARY)? else { return Ok(result) };
        notes.read(LIBRARY);
        result.prompts = document.named_texts("prompts")?.unwrap_or_default();
        result.default_prompt_name = document.text("default_prompt_name")?.map(str::to_owned);
        result.truncate_dim = document.count("truncate_dim")?;
        if result.truncate_dim == Some(0) {
            return Err(document.error("truncate_dim", "it is 0, expected at least 1"));
        }
        result.activation = document.text("activation_fn")?.map(str::to_owned);
        if let Some(name) = document.text("similarity_fn_name")? {
            result.similarity = Similarity::from_name(name).ok_or_else(|| {
                let problem = format!("'{name}' is none of cosine, dot, euclidean, manhattan");
                document.error("similarity_fn_name", problem)
            })?;
        }
        if let Some(name) = &result.default_prompt_name
            && !result.prompts.iter().any(|(it, _)| it == name)
        {
            return Err(document.error("default_prompt_name", format!("no prompt '{name}'")));
        }
        Ok(result)
    }
}
