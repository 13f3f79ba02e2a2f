//! `modules.json`: the chain of sentence-transformers, of every version.

use std::path::Path;

use serde_json::Value;

use super::{
    dense::Dense,
    dir::Dir,
    document::{Document, read_value},
    notes::Notes,
    pooling::{Pooling, Splade},
};
use crate::error::FolderError;

/// The chain behind the graph.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Modules {
    /// The subfolder of the first module, with a slash behind it; empty for the folder itself.
    pub first: String,
    /// Token vectors to one.
    pub pooling: Option<Pooling>,
    /// Logits over the vocabulary to a sparse vector.
    pub splade: Option<Splade>,
    /// What the vector goes through then, in order.
    pub chain: Vec<Link>,
}

/// A module behind Pooling.
#[derive(Debug, Clone, PartialEq)]
pub enum Link {
    /// A layer.
    Dense(Dense),
    /// Length one.
    Normalize,
    /// The first dimensions, at most so many.
    Truncate(usize),
}

impl Link {
    /// Length of the vectors it gives; `None` where that depends on those it takes.
    pub(crate) fn outputs(&self) -> Option<usize> {
        match self {
            Link::Dense(layer) => Some(layer.outputs),
            Link::Normalize | Link::Truncate(_) => None,
        }
    }
}

const FILE: &str = "modules.json";

impl Modules {
    /// From `dir`; `None` without a `modules.json`.
    ///
    /// # Errors
    /// When a module is not known or stands where it cannot, or one of its files is wrong.
    pub(crate) fn read(dir: &Dir, notes: &mut Notes) -> Result<Option<Modules>, FolderError> {
        let Some(value) = read_value(dir, FILE)? else { return Ok(None) };
        notes.read(FILE);
        let Value::Array(entries) = value else {
            return Err(FolderError::file(FILE, "it is no list of modules"));
        };
        let mut modules = Modules::default();
        for (at, entry) in entries.iter().enumerate() {
            let text = |key: &str| {
                let missing = || FolderError::key(FILE, format!("{at}.{key}"), "it is no text");
                entry.get(key).and_then(Value::as_str).ok_or_else(missing)
            };
            let (class, path) = (text("type")?, text("path")?);
            if Path::new(path).components().any(|it| !matches!(it, std::path::Component::Normal(_)))
            {
                let problem = format!("'{path}' leads out of the folder");
                return Err(FolderError::key(FILE, format!("{at}.path"), problem));
            }
            // The part before the last differs from version to version.
            let name = class.rsplit('.').next().unwrap_or_default();
            modules.add(name, path, dir, notes).map_err(|error| match error {
                Refusal::Folder(error) => error,
                Refusal::Module(problem) => {
                    FolderError::key(FILE, format!("{at}.type"), format!("'{name}' {problem}"))
                }
            })?;
        }
        Ok(Some(modules))
    }

    fn add(&mut self, name: &str, path: &str, dir: &Dir, notes: &mut Notes) -> Result<(), Refusal> {
        let document = |notes: &mut Notes| -> Result<Document, FolderError> {
            let file = format!("{path}/config.json");
            let document = Document::read(dir, &file)?;
            notes.read(&file);
            document.ok_or_else(|| FolderError::file(file, "it is missing"))
        };
        let is_pooled = self.pooling.is_some() || self.splade.is_some();
        match name {
            "Transformer" | "MLMTransformer" if !is_pooled => {
                self.first = if path.is_empty() { String::new() } else { format!("{path}/") };
            }
            "Pooling" if !is_pooled => {
                self.pooling = Some(Pooling::from_document(&document(notes)?)?);
            }
            "SpladePooling" if !is_pooled => {
                self.splade = Some(Splade::from_document(&document(notes)?)?);
            }
            "Dense" if self.pooling.is_some() => {
                self.chain.push(Link::Dense(Dense::read(dir, path, notes)?));
            }
            "Normalize" if self.pooling.is_some() => self.chain.push(Link::Normalize),
            // Does nothing when a model is served.
            "Dropout" => {}
            "Transformer" | "MLMTransformer" | "Pooling" | "SpladePooling" | "Dense"
            | "Normalize" => {
                return Err(Refusal::Module("cannot stand in this place".to_owned()));
            }
            _ => {
                let known = "Transformer, Pooling, SpladePooling, Dense, Normalize, Dropout";
                return Err(Refusal::Module(format!("is none of {known}")));
            }
        }
        Ok(())
    }
}

/// Why a module is not taken: one of its files, or the module as such.
enum Refusal {
    Folder(FolderError),
    Module(String),
}

impl From<FolderError> for Refusal {
    fn from(error: FolderError) -> Refusal {
        Refusal::Folder(error)
    }
}
