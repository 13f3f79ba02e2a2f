//! All files of a folder at once.

use std::path::Path;

use super::{
    config::{Config, PRETRAINED_CFG},
    dir::Dir,
    document::{Document, read_bytes, read_value},
    graph,
    modules::Modules,
    notes::{FileNote, Notes},
    overrides::{Beside, Overrides},
    sentence::Sentence,
    tokenizer_config::TokenizerConfig,
};
use crate::error::FolderError;

/// What the files of a folder say, and which of them is the graph.
#[derive(Debug, Clone)]
pub struct Folder {
    /// Where it is.
    pub dir: Dir,
    /// The graph, relative to the folder.
    pub graph: String,
    /// `config.json`.
    pub config: Config,
    /// `tokenizer_config.json` and `special_tokens_map.json`.
    pub tokenizer_config: TokenizerConfig,
    /// `modules.json` and what it names.
    pub modules: Option<Modules>,
    /// The other files of sentence-transformers.
    pub sentence: Sentence,
    /// What was said over the folder, `muster.json` included.
    pub overrides: Overrides,
    /// `tokenizer.json`, relative to the folder; `None` where there is none.
    pub tokenizer: Option<String>,
    /// `preprocessor_config.json` or `processor_config.json`, with its name; else `config.json` where timm has written
    /// `pretrained_cfg` into it.
    pub preprocessor: Option<(String, serde_json::Value)>,
    /// Which files were read, passed over or missed.
    pub files: Vec<FileNote>,
}

/// What says how an image or a sound is prepared, the first that is there wins.
const PREPROCESSORS: [&str; 2] = ["preprocessor_config.json", "processor_config.json"];
/// Vocabularies that are no tokenizer by themselves.
const VOCABULARIES: [&str; 5] =
    ["vocab.txt", "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model"];
/// Files that are there for other libraries.
const FOREIGN: [(&str, &str); 8] = [
    ("added_tokens.json", "its tokens are in tokenizer.json"),
    ("pytorch_model.bin", "the graph is served, and a pickle is never opened"),
    ("model.safetensors", "the graph is served"),
    ("tf_model.h5", "the graph is served"),
    ("flax_model.msgpack", "the graph is served"),
    ("training_args.bin", "it is of the training"),
    ("README.md", "it is a text for people"),
    ("generation_config.json", "nothing is generated"),
];

/// Is this a folder that is served as a pipeline unless its configuration names an engine? It holds a graph, chosen by
/// itself or named by `graph` or `muster.json`, and a `config.json` with `architectures` or a `modules.json`. Reads
/// those files and nothing else.
pub fn is_pipeline(dir: &Path, graph: Option<&str>) -> bool {
    graph::is_there(dir, graph) && describes_a_task(dir)
}

/// The graphs of a folder that would be that of a pipeline if one of them were named. Blocking.
pub fn unchosen_graphs(dir: &Path) -> Vec<String> {
    match describes_a_task(dir) {
        true => graph::unnamed_graphs(dir),
        false => Vec::new(),
    }
}

fn describes_a_task(dir: &Path) -> bool {
    let names_architecture = || match Document::read(&Dir::alone(dir), "config.json") {
        Ok(config) => config.is_some_and(|it| it.get("architectures").is_some()),
        // What is wrong with it is said when the folder is read.
        Err(_) => dir.join("tokenizer.json").is_file(),
    };
    dir.join("modules.json").is_file() || names_architecture()
}

impl Folder {
    /// Reads the files of `dir`. Blocking.
    ///
    /// # Errors
    /// When a file is wrong or lies elsewhere, or the graph is missing.
    pub fn read(dir: &Dir, overrides: &Overrides) -> Result<Folder, FolderError> {
        let mut notes = Notes::default();
        let overrides = overrides.clone().over_file(dir, Beside::Folder, &mut notes)?;
        let graph = graph::choose(dir.path(), overrides.graph.as_deref(), &mut notes)?;
        let modules = Modules::read(dir, &mut notes)?;
        // Before version 2 of sentence-transformers the files of the first module had a folder of their own.
        let first = modules.as_ref().map_or("", |it| it.first.as_str()).to_owned();
        let mut preprocessor = None;
        for file in PREPROCESSORS {
            if let Some(value) = read_value(dir, file)? {
                notes.read(file);
                preprocessor = Some((file.to_owned(), value));
                break;
            }
        }
        let mut document = |name: &str| -> Result<Option<Document>, FolderError> {
            for file in [format!("{first}{name}"), name.to_owned()] {
                if let Some(document) = Document::read(dir, &file)? {
                    notes.read(&file);
                    return Ok(Some(document));
                }
            }
            notes.missing(name);
            Ok(None)
        };
        let config = document("config.json")?;
        // The library saves its image processor nowhere else.
        let of_timm = config.as_ref().filter(|it| it.get(PRETRAINED_CFG).is_some());
        let of_timm = of_timm.map(|it| ("config.json".to_owned(), it.value()));
        let preprocessor = preprocessor.or(of_timm);
        let config = config.as_ref().map(Config::from_document).transpose()?.unwrap_or_default();
        let tokenizer = document("tokenizer_config.json")?;
        let map = document("special_tokens_map.json")?;
        let tokenizer_config = TokenizerConfig::from_documents(tokenizer.as_ref(), map.as_ref())?;
        let sentence = Sentence::read(dir, &first, &mut notes)?;
        let places = [format!("{first}tokenizer.json"), "tokenizer.json".to_owned()];
        let tokenizer = places.into_iter().find(|it| dir.path().join(it).is_file());
        match &tokenizer {
            Some(file) => notes.read(file),
            None => notes.missing("tokenizer.json"),
        }
        for file in VOCABULARIES.iter().filter(|it| dir.path().join(it).exists()) {
            notes.ignored(file, "the tokenizer is read from tokenizer.json");
        }
        for (file, reason) in FOREIGN.iter().filter(|it| it.0 != graph) {
            if dir.path().join(file).exists() {
                notes.ignored(file, reason);
            }
        }
        Ok(Folder {
            dir: dir.clone(),
            graph,
            config,
            tokenizer_config,
            modules,
            sentence,
            overrides,
            tokenizer,
            preprocessor,
            files: notes.finish(),
        })
    }

    /// Does it say how images are prepared?
    pub(crate) fn preprocesses_images(&self) -> bool {
        self.preprocessor.as_ref().is_some_and(|(_, value)| {
            let keys = [
                "image_processor_type",
                "image_processor",
                "image_mean",
                "do_resize",
                PRETRAINED_CFG,
            ];
            keys.iter().any(|it| value.get(it).is_some())
        })
    }

    /// Does it say how sounds are prepared?
    pub(crate) fn extracts_sounds(&self) -> bool {
        self.preprocessor.as_ref().is_some_and(|(_, value)| {
            let keys = ["sampling_rate", "feature_extractor"];
            keys.iter().any(|it| value.get(it).is_some())
        })
    }

    /// The bytes of `tokenizer.json` and its name. Blocking.
    ///
    /// # Errors
    /// When it is missing or cannot be read.
    pub(crate) fn tokenizer_bytes(&self) -> Result<(String, Vec<u8>), FolderError> {
        let file = self.tokenizer.clone().unwrap_or_else(|| "tokenizer.json".to_owned());
        if let Some(bytes) = read_bytes(&self.dir, &file)? {
            return Ok((file, bytes));
        }
        let other = VOCABULARIES.iter().find(|it| self.dir.path().join(it).exists());
        let problem = match other {
            Some(other) => format!("it is missing, and {other} alone is not enough"),
            None => "it is missing".to_owned(),
        };
        let remedy = "write it once: AutoTokenizer.from_pretrained(d).save_pretrained(d)";
        Err(FolderError::file(file, problem).remedy(remedy))
    }
}
