//! The scheduler of a model whose requests come in sequences: each sequence sits on one instance from its first
//! request to its last, and its requests run there one after another.
//!
//! An instance has a number of seats and a thread of its own. A sequence that finds no free seat waits in the
//! backlog, with all its requests. Everything that has a decision in it is plain data and pure functions: `table`
//! (which sequence sits where, what waits) and `decide` (what runs now).

mod batch;
mod calls;
mod decide;
mod iterations;
mod kept_state;
mod overdue;
mod row;
mod running;
mod scheduler;
mod settings;
mod shared;
mod table;
mod waiting;
mod worker;

pub use overdue::SEQUENCES_LOST;
pub use scheduler::SequenceScheduler;
pub use settings::{
    Control, DirectPolicy, Flag, IdType, ImplicitState, SequenceSettings, Signal, Strategy, Wiring,
};
