//! How the sequences of one model are scheduled, and the inputs by which the model learns of them. Plain data.

use std::{hash::RandomState, sync::Arc, time::Duration};

use backend::{DataType, RerunPolicy, Tensor};

use crate::{
    busy::Busy,
    policy::BatchPolicy,
    watchdog::{RunLimit, Watchdog},
};
use inference::request::SequenceId;

/// How the sequences of one model version are scheduled.
#[derive(Debug, Clone)]
pub struct SequenceSettings {
    /// Name of the model, for error texts and thread names.
    pub model: Arc<str>,
    /// Which requests share a run.
    pub strategy: Strategy,
    /// A sequence that has been without a request for so long loses its seat.
    pub idle: Duration,
    /// Longest that a request waits for a seat, where it does not say; `None` for any time.
    pub longest_backlog: Option<Duration>,
    /// What the model gets beside the inputs of a request.
    pub wiring: Wiring,
    /// Sequences on one instance at most.
    pub seats: usize,
    /// How long a run may take.
    pub run_limit: RunLimit,
    /// Looks after that.
    pub watchdog: Arc<Watchdog>,
    /// Knows the runs of all models.
    pub busy: Busy,
    /// By how much the threads of the model are nicer than the process.
    pub niceness: i32,
    /// May requests be run again?
    pub rerun: RerunPolicy,
    /// Does the engine keep something of a run for the next one? Then a run is never repeated, and the
    /// sequences of an instance are lost with it.
    pub engine_keeps_state: bool,
    /// Is each request of a run answered by itself, by the model's own code?
    pub answers_calls: bool,
    /// Is each request a sequence of its own, which the model has run again until it is done with it?
    pub iterates: bool,
    /// Requests that must wait before the first run; 0 but in tests.
    pub hold: usize,
    /// So many of them must be of sequences without a seat.
    pub hold_backlog: usize,
}

/// Which requests run together.
#[derive(Debug, Clone, PartialEq)]
pub enum Strategy {
    /// A sequence has one row of every batch of its instance, from its start to its end.
    Direct(DirectPolicy),
    /// The oldest requests of an instance's sequences share a batch.
    Oldest {
        /// When is a batch ready?
        batching: BatchPolicy,
        /// Do replies leave in the order of arrival?
        preserve_ordering: bool,
    },
}

/// When does a batch of rows that belong to sequences run?
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DirectPolicy {
    /// Longest a request waits for other rows.
    pub max_delay: Duration,
    /// A batch of at least this part of the rows does not wait.
    pub min_utilization: f32,
}

/// What a model gets beside the inputs of its requests, and gives beside their outputs.
#[derive(Debug, Clone)]
pub struct Wiring {
    /// Is the first dimension of every tensor the batch?
    pub batches: bool,
    /// Inputs that say where in its sequence a request stands.
    pub controls: Vec<Control>,
    /// Tensors that go from the run of one request to that of the next.
    pub states: Vec<ImplicitState>,
    /// Of the shapes of these, with a seed of its own.
    pub hashes: RandomState,
}

/// An input that says where in its sequence a request stands: one element for each row.
#[derive(Debug, Clone, PartialEq)]
pub struct Control {
    /// Name of the model's input.
    pub name: Arc<str>,
    /// What it says.
    pub signal: Signal,
}

/// What a control says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Signal {
    /// Is it the first request of its sequence?
    Start(Flag),
    /// Is it the last one?
    End(Flag),
    /// Is there a request in this row?
    Ready(Flag),
    /// The sequence's id; 0 or empty in a row without a request.
    Id(IdType),
}

/// How false and true are written, in this order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Flag {
    /// As INT32.
    Int32([i32; 2]),
    /// As FP32.
    Fp32([f32; 2]),
    /// As BOOL.
    Bool([bool; 2]),
}

/// The type in which a model takes ids of sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum IdType {
    Uint64,
    Int64,
    Uint32,
    Int32,
    Text,
}

impl Wiring {
    /// The types in which the model gets ids.
    pub(super) fn id_types(&self) -> impl Iterator<Item = IdType> {
        self.controls.iter().filter_map(|it| match it.signal {
            Signal::Id(id) => Some(id),
            Signal::Start(_) | Signal::End(_) | Signal::Ready(_) => None,
        })
    }
}

impl Control {
    /// Element type of the input.
    pub fn dtype(&self) -> DataType {
        match self.signal {
            Signal::Start(flag) | Signal::End(flag) | Signal::Ready(flag) => match flag {
                Flag::Int32(_) => DataType::Int32,
                Flag::Fp32(_) => DataType::Fp32,
                Flag::Bool(_) => DataType::Bool,
            },
            Signal::Id(id) => id.dtype(),
        }
    }
}

impl IdType {
    /// Every type.
    pub const ALL: [IdType; 5] =
        [IdType::Uint64, IdType::Int64, IdType::Uint32, IdType::Int32, IdType::Text];

    /// The element type of the model's input.
    pub fn dtype(self) -> DataType {
        match self {
            IdType::Uint64 => DataType::Uint64,
            IdType::Int64 => DataType::Int64,
            IdType::Uint32 => DataType::Uint32,
            IdType::Int32 => DataType::Int32,
            IdType::Text => DataType::Bytes,
        }
    }

    /// Can this id be written in it?
    pub fn holds(self, id: &SequenceId) -> bool {
        match (self, id) {
            (IdType::Text, SequenceId::Text(_)) | (IdType::Uint64, SequenceId::Number(_)) => true,
            (IdType::Int64, SequenceId::Number(id)) => i64::try_from(*id).is_ok(),
            (IdType::Uint32, SequenceId::Number(id)) => u32::try_from(*id).is_ok(),
            (IdType::Int32, SequenceId::Number(id)) => i32::try_from(*id).is_ok(),
            (IdType::Text, SequenceId::Number(_)) | (_, SequenceId::Text(_)) => false,
        }
    }
}

/// A tensor that goes from the run of one request of a sequence to that of the next.
#[derive(Debug, Clone)]
pub struct ImplicitState {
    /// Name of the model's input.
    pub input: Arc<str>,
    /// Name of the model's output.
    pub output: Arc<str>,
    /// What the first request gets: of shape `[1, ..]` where the model batches.
    pub initial: Tensor,
}
