//! What a text goes through before and behind a graph: folders as Hugging Face's libraries save them, tokens, heads.
//!
//! [`Folder::read`] reads a folder, [`Pipeline::open`] decides everything else from it and from the signature of
//! its graph. A [`Pipeline`] is a [`Step`]: it turns inputs into rows of the graph, and outputs of the graph into
//! replies. Nothing here knows HTTP, queues or JSON on a wire, and nothing reads a file after loading.
//!
//! Without the feature `pipelines` folders, requests and replies are known as ever, and no pipeline can be opened.
#![forbid(unsafe_code)]
// What only a pipeline uses of the vocabulary.
#![cfg_attr(not(feature = "pipelines"), allow(dead_code, unused_imports))]

mod constants;
#[cfg(feature = "pipelines")]
mod context;
mod decide;
pub mod detect;
#[cfg(feature = "pipelines")]
mod engine;
mod error;
mod explain;
#[cfg(feature = "pipelines")]
mod finish;
pub mod folder;
mod head;
#[cfg(feature = "pipelines")]
mod hypothesis;
mod jpeg_library;
#[cfg(not(feature = "pipelines"))]
mod no_context;
#[cfg(not(feature = "pipelines"))]
mod no_pipelines;
mod numbers;
mod outputs;
mod parameters;
#[cfg(feature = "pipelines")]
mod parts;
#[cfg(feature = "pipelines")]
mod pipeline;
#[cfg(feature = "pipelines")]
mod prepare;
mod python_float;
#[cfg(feature = "pipelines")]
mod reduce;
mod reply;
mod request;
mod result;
#[cfg(feature = "pipelines")]
mod rows;
mod side;
#[cfg(feature = "pipelines")]
mod signature;
#[cfg(feature = "pipelines")]
mod speech;
mod step;
mod task;
#[cfg(feature = "pipelines")]
mod tasks;
mod text;
#[cfg(feature = "pipelines")]
mod text_pipeline;
#[cfg(feature = "pipelines")]
mod tokenize;
mod tokens;
#[cfg(feature = "pipelines")]
mod vision;
mod wanted;

pub use constants::{constants, has_constants};
#[cfg(feature = "pipelines")]
pub use context::{Context, Work};
#[cfg(feature = "pipelines")]
pub use engine::{FileBounds, Steps};
pub use error::{FolderError, NoEnsemble, RowError};
pub use explain::{
    ExplainedEnsemble, ExplainedFile, ExplainedMember, ExplainedPort, ExplainedValue,
};
pub use folder::{
    Dir, Fate, FileNote, Folder, Overrides, graph_paths, is_pipeline, is_said_over, named_graph,
    said_precision, unchosen_graphs, weights_for_graph,
};
pub use graphs::{PRECISION as PRECISION_OF_GRAPH, Precision, WEIGHTS, whole_graph_of};
#[cfg(feature = "pipelines")]
pub use head::ctc::spell;
pub use head::reduced::Reduced;
pub use jpeg_library::JpegLibrary;
#[cfg(not(feature = "pipelines"))]
pub use no_context::{Context, Work};
#[cfg(not(feature = "pipelines"))]
pub use no_pipelines::{FileBounds, Opened, Pipeline, Steps, TextPipeline, Tokenizer};
pub use outputs::{GraphOutput, RowOutput, RowPlace, outputs_of_row};
#[cfg(feature = "pipelines")]
pub use pipeline::{Opened, Pipeline};
pub use reply::{
    Answer, Entity, Features, Fill, Label, Object, Objects, Ranked, Reply, SparseEntry, Towers,
};
pub use request::{
    AnswerParameters, DetectionParameters, Function, Input, Parameters, Similarity, Strategy, TopK,
};
pub use result::{ResultForm, result_json};
pub use side::Side;
pub use step::{GraphInput, Prepared, Row, RowShape, Step};
pub use task::{Classes, Embedder, Plan, TaskHead};
#[cfg(feature = "pipelines")]
pub use text::Tokenizer;
pub use text::{Detail, Encode, Encoded, Encoding, Strategy as TruncationStrategy, Truncation};
#[cfg(feature = "pipelines")]
pub use text_pipeline::TextPipeline;
pub use tokens::{TextToken, Tokenizing};
pub use wanted::StillWanted;
