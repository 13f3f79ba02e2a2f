//! Folders of sentence-transformers with an encoder of random weights: the files are those of a fixture, with other
//! sizes.

use std::{
    fs,
    num::NonZeroUsize,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::Arc,
};

use backend::{Backend, Model, ModelSource};
use onnxruntime::OnnxRuntime;
use serde_json::{Map, Value, json};

use crate::{
    onnx_file::{Encoder, encoder},
    support::Outcome,
    texts::{LONGEST, Writer},
};

/// A classifier of a few thousand weights.
const CLASSIFIER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/pipelines/sst2/folder");

/// The folder whose tokenizer and description are used.
const FIXTURE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/pipelines/st-6/folder");

/// Tokens that its tokenizer knows.
const VOCABULARY: u64 = 420;

/// Letters of which the tokens of a large tokenizer are made.
const LETTERS: RangeInclusive<char> = 'a'..='z';

/// The shape of a model that people use, with fewer tokens.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub name: &'static str,
    layers: u64,
    hidden: u64,
    heads: u64,
    /// Rows of the table of its tokens.
    vocabulary: u64,
}

/// As all-MiniLM-L6.
pub const MINILM: Shape =
    Shape { name: "minilm", layers: 6, hidden: 384, heads: 12, vocabulary: VOCABULARY };

/// As DistilBERT.
pub const DISTILBERT: Shape =
    Shape { name: "distilbert", layers: 6, hidden: 768, heads: 12, vocabulary: VOCABULARY };

/// Vectors of 384 numbers for next to nothing.
pub const LOOK_UP: Shape =
    Shape { name: "look-up", layers: 0, hidden: 384, heads: 12, vocabulary: VOCABULARY };

/// Nothing but a table of so many tokens.
pub const fn table(vocabulary: u64) -> Shape {
    Shape { name: "table", layers: 0, hidden: 32, heads: 1, vocabulary }
}

/// A folder in a repository.
pub struct Folder {
    /// Of its model.
    pub name: &'static str,
    /// The output of its graph.
    pub output: &'static str,
    path: PathBuf,
}

impl Folder {
    /// Writes it.
    pub fn install(shape: Shape, repository: &Path) -> Outcome<Folder> {
        let path = repository.join(shape.name);
        copy(Path::new(FIXTURE), &path)?;
        // Another graph takes its place.
        fs::remove_dir_all(path.join("onnx"))?;
        edit(&path.join("config.json"), |it| {
            it["hidden_size"] = json!(shape.hidden);
            it["max_position_embeddings"] = json!(LONGEST);
        })?;
        edit(&path.join("tokenizer_config.json"), |it| it["model_max_length"] = json!(LONGEST))?;
        edit(&path.join("1_Pooling/config.json"), |it| {
            it["embedding_dimension"] = json!(shape.hidden);
        })?;
        let Shape { layers, hidden, heads, vocabulary, .. } = shape;
        let sizes = Encoder { layers, hidden, heads, vocabulary };
        encoder(&path.join("model.onnx"), sizes, 1)?;
        Ok(Folder { name: shape.name, output: "last_hidden_state", path })
    }

    /// Gives its tokenizer so many tokens in all.
    pub fn enlarge(&self, kind: TokenizerKind, tokens: usize) -> Outcome<()> {
        edit(&self.path.join("tokenizer.json"), |it| it["model"] = kind.model(tokens))
    }

    /// Its graph alone, in another repository.
    pub fn install_graph(&self, repository: &Path) -> Outcome<()> {
        let path = repository.join(self.name).join("1");
        fs::create_dir_all(&path)?;
        fs::copy(self.path.join("model.onnx"), path.join("model.onnx"))?;
        Ok(())
    }

    /// Writes one of a classifier.
    pub fn classifier(repository: &Path) -> Outcome<Folder> {
        let name = "classifier";
        let path = repository.join(name);
        copy(Path::new(CLASSIFIER), &path)?;
        Ok(Folder { name, output: "logits", path })
    }

    /// Its graph, without a server, for instances of so many threads.
    pub fn load(&self, threads: NonZeroUsize) -> Outcome<Arc<dyn Model>> {
        let file = self.path.join("model.onnx");
        let source = ModelSource { default_threads: threads, ..ModelSource::new(self.name, file) };
        Ok(OnnxRuntime::default().load(&source)?)
    }

    /// Makes texts of given lengths.
    pub fn writer(&self) -> Outcome<Writer> {
        let text = fs::read_to_string(self.path.join("tokenizer.json"))?;
        Writer::new(&serde_json::from_str(&text)?)
    }
}

/// How a large tokenizer cuts words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenizerKind {
    /// The longest piece that it knows, as BERT's.
    WordPiece,
    /// Pairs that are merged, as GPT-2's and RoBERTa's.
    Bpe,
}

impl TokenizerKind {
    pub fn name(self) -> &'static str {
        match self {
            TokenizerKind::WordPiece => "WordPiece",
            TokenizerKind::Bpe => "BPE",
        }
    }

    /// The model of so many tokens: the special ones, then all words over the letters, the short ones first.
    fn model(self, tokens: usize) -> Value {
        let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(String::from);
        let mut words = LETTERS.map(String::from).collect::<Vec<_>>();
        let mut merges = Vec::new();
        let mut shorter = 0;
        while special.len() + words.len() < tokens {
            let word = words[shorter].clone();
            shorter += 1;
            for letter in LETTERS.take(tokens - special.len() - words.len()) {
                words.push(format!("{word}{letter}"));
                merges.push(format!("{word} {letter}"));
            }
        }
        let vocabulary = special
            .into_iter()
            .chain(words)
            .zip(0u64..)
            .map(|(word, id)| (word, id.into()))
            .collect::<Map<_, _>>();
        match self {
            TokenizerKind::WordPiece => json!({
                "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100, "vocab": vocabulary,
            }),
            TokenizerKind::Bpe => json!({
                "type": "BPE", "unk_token": "[UNK]", "vocab": vocabulary, "merges": merges,
            }),
        }
    }
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) -> Outcome<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type()?.is_dir() {
            true => copy(&source, &target)?,
            false => {
                fs::copy(&source, &target)?;
            }
        }
    }
    Ok(())
}

fn edit(path: &Path, change: impl FnOnce(&mut Value)) -> Outcome<()> {
    let mut value = serde_json::from_str(&fs::read_to_string(path)?)?;
    change(&mut value);
    Ok(fs::write(path, value.to_string())?)
}
