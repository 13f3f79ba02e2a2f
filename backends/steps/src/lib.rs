//! What a text goes through before and behind a graph: folders as Hugging Face's libraries save them, tokens, heads.
//!
//! [`Folder::read`] reads a folder, [`Pipeline::open`] decides everything else from it and from the signature of
//! its graph. A [`Pipeline`] is a [`Step`]: it turns inputs into rows of the graph, and outputs of the graph into
//! replies. Nothing here knows HTTP, queues or JSON on a wire, and nothing reads a file after loading.
#![forbid(unsafe_code)]

mod constants;
mod context;
mod decide;
pub mod detect;
mod engine;
mod error;
mod explain;
mod finish;
pub mod folder;
mod head;
mod hypothesis;
mod numbers;
mod outputs;
mod parameters;
mod parts;
mod pipeline;
mod prepare;
mod python_float;
mod reduce;
mod reply;
mod request;
mod result;
mod rows;
mod side;
mod signature;
mod speech;
mod step;
mod task;
mod tasks;
mod text;
mod text_pipeline;
mod tokens;
mod vision;

pub use constants::{constants, has_constants};
pub use context::{Context, Work};
pub use engine::{FileBounds, Steps};
pub use error::{FolderError, RowError};
pub use explain::{
    ExplainedEnsemble, ExplainedFile, ExplainedMember, ExplainedPort, ExplainedValue,
};
pub use folder::{
    Dir, Fate, FileNote, Folder, Overrides, is_pipeline, is_said_over, named_graph, unchosen_graphs,
};
pub use head::{ctc::spell, reduced::Reduced};
pub use image::JpegLibrary;
pub use outputs::{GraphOutput, Place, RowOutput, outputs_of_row};
pub use pipeline::{Opened, Pipeline};
pub use reply::{
    Answer, Entity, Entry, Features, Fill, Label, Object, Objects, Ranked, Reply, Towers,
};
pub use request::{
    AnswerParameters, DetectionParameters, Function, Input, Parameters, Similarity, Strategy, TopK,
};
pub use result::{ResultForm, result_json};
pub use side::Side;
pub use step::{GraphInput, Prepared, Row, RowShape, Step};
pub use task::{Classes, Embedder, Head, Plan};
pub use text::{
    Detail, Encode, Encoded, Encoding, Strategy as TruncationStrategy, Tokenizer, Truncation,
};
pub use text_pipeline::TextPipeline;
pub use tokens::{TextToken, Tokenizing};
