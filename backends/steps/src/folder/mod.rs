//! A folder as Hugging Face's libraries save it, as plain values. Its graph and its tokenizer are not opened.

mod config;
mod ctc;
mod dense;
mod dir;
pub(crate) mod document;
mod graph;
mod modules;
pub(crate) mod notes;
mod overrides;
mod pooling;
mod python_literal;
mod read;
mod sentence;
mod tokenizer_config;
mod ultralytics;

pub use config::{Config, ProblemType};
pub use ctc::CtcVocabulary;
pub use dense::{Activation, Dense, Residual};
pub use dir::Dir;
pub use graph::{graph_paths, named_graph, weights_for_graph};
pub use modules::{Link, Modules};
pub use notes::{Fate, FileNote};

pub(crate) use overrides::{
    Beside, FILE as OPERATORS_FILE, LONGEST_SOUND, MOST_PIXELS, SPLADE, modes_named, task_named,
};
pub use overrides::{Overrides, is_said_over, said_precision};
pub use pooling::{Pooling, PoolingMode, Splade};
pub use read::{Folder, is_pipeline, unchosen_graphs};
pub use sentence::Sentence;
pub use tokenizer_config::TokenizerConfig;
pub use ultralytics::Ultralytics;
