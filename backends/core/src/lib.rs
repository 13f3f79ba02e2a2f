//! The contract between the server and an inference engine, and the tensors that cross it.
//!
//! An engine is three traits. A [`Backend`] turns files into a [`Model`]; a model describes itself
//! ([`ModelSpec`]) and makes [`Instance`]s; an instance runs one [`Batch`] at a time, on whichever
//! thread holds it. Nothing here knows about HTTP, queues or an async runtime.
//!
//! A [`Tensor`] is a type, a shape and a list of byte segments, so that a batch is formed by listing
//! buffers. The one copy that remains, into memory that an engine can read in one piece, is made by the
//! engine on its own thread.
#![forbid(unsafe_code)]

/// Stack, in bytes, of every thread that loads a model, makes an instance or runs one. Engines recurse over a model's
/// graph when they compile it, some of them as late as in the first runs. A deep graph takes more than the two
/// megabytes of a usual thread: the process would end. Only what is used of a stack takes memory.
pub const MODEL_STACK: usize = 64 << 20;

mod calls;
mod contract;
mod description;
pub mod distance;
mod dtype;
mod file_identity;
mod file_stamps;
mod held_dir;
mod host;
mod installed;
mod padding;
mod parts;
mod places;
mod process;
mod processes;
mod regular_file;
mod rerun;
mod row_cuts;
mod run_memory;
mod shape;
mod signatures;
mod spec;
mod staging;
mod stop;
mod strings;
mod tensor;
mod worker_program;

pub use calls::{About, CallAnswer, CallCode, CallError, Parameter, Parameters, SequenceFlags};
pub use contract::{
    Backend, BackendError, Batch, Call, Foresight, Instance, Model, RunTerms, WarmUp,
};
pub use description::{CONTENT, EngineDescription, Format};
pub use dtype::{DataType, Element};
pub use file_identity::{FileContents, FileIdentity, Likeness, Reading};
pub use file_stamps::FileStamps;
pub use held_dir::HeldDir;
pub use host::{Ask, Control, Host, HostHandle, MetricChange, MetricKind, MetricVerb};
pub use installed::{library_folder, python_packages};
pub use padding::{Filler, PaddingSide};
pub use parts::{MOST_PART_BYTES, MOST_PARTS, NotSent, PartReceiver, PartSender, parts};
pub use places::Places;
pub use process::{EndReason, ModelProcess, Outage, ProcessFigures, Times, Turn};
pub use processes::{DeviceProcess, Processes};
pub use regular_file::{check_opens, open_file, read_file, read_text, read_text_within};
pub use rerun::RerunPolicy;
pub use row_cuts::RowCuts;
pub use run_memory::{RunMemory, StringMemory};
pub use shape::{LARGEST_WITHOUT_ZEROS, MOST_EMPTY_PARTS, Shape, SizeMismatch};
pub use signatures::{NamedSpec, Signatures};
pub use spec::{
    Accelerator, Device, GraphRows, Hints, ModelSource, ModelSpec, Placement, PortNames,
    TensorHint, TensorSpec, TextCodes,
};
pub use staging::Staging;
pub use stop::{Stop, Waiting};
pub use strings::{Strings, encode_strings};
pub use tensor::{NamedTensor, Tensor};
pub use worker_program::WorkerProgram;
