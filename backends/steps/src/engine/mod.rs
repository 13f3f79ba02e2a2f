//! The engine `steps`: what stands before and behind a graph, as models of their own, for ensembles that an operator
//! writes. Each is one step of the table in `docs/reference/pipelines.md`; the heads are those of the pipelines.

mod answer;
mod arithmetic;
mod audio;
mod backend;
mod bounds;
mod call;
mod cast;
mod classes;
mod classify;
mod ctc;
mod detect;
mod detokenize;
mod entail;
mod entities;
mod files;
mod image;
mod image_settings;
mod kept;
mod kind;
mod mask;
mod open;
mod padding;
mod pool;
mod ports;
mod settings;
mod similarity;
mod splade;
mod tokenize;
mod vocabulary;
mod windows;

pub use backend::Steps;
pub use bounds::FileBounds;
