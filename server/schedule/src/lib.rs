//! The scheduler of one model version: a queue, the instances that work on it, and the rules between them.
//!
//! An instance is a permit to run. A worker thread that holds one forms a batch and runs it; when the model
//! is fast, nothing waits and an instance is idle, the calling task takes it and runs in place (`inline_run`),
//! which saves two hand-offs between threads. Everything that has a decision in it is a pure function in a file of its
//! own: [`policy`] (which jobs run now, and why so many), [`admission`] (can this be answered in time), [`learn`] (how
//! long do runs take), `fast_runs` (which of them run in place).
#![forbid(unsafe_code)]

pub mod admission;
pub mod apart;
mod batch_run;
mod busy;
mod coalesce;
pub mod cost;
mod crowd;
mod devices;
mod fast_runs;
mod in_place_runs;
mod inline_run;
mod killers;
pub mod learn;
mod lock_free_hints;
mod memory_bound;
mod merge;
mod moved;
mod next_run;
mod overdue;
pub mod pack;
pub mod packing;
pub mod padding;
pub mod policy;
pub mod prepare;
pub mod queue;
pub mod ragged;
pub mod rate_limit_settings;
pub mod ratelimit;
pub mod reply;
mod reply_slot;
mod request_queue;
pub mod rerun;
mod resize;
pub mod row_check;
pub mod run;
pub mod run_context;
pub mod run_memory;
mod running;
mod scheduler;
pub mod scheduling_settings;
mod semaphore;
pub mod sequence;
mod settings;
mod shared;
pub mod slot;
mod spin;
mod state;
#[cfg(test)]
mod test_process;
mod thread_time;
mod together;
mod waiting;
mod watchdog;
pub mod work;
mod worker;

pub use busy::Busy;
pub use fast_runs::TimeFollows;
pub use reply_slot::ReplySlot;
pub use request_queue::RequestQueue;
pub use scheduler::{Extent, Scheduler, Submission};
pub use scheduling_settings::SchedulingSettings;
pub use semaphore::{Semaphore, SemaphorePermit};
pub use settings::{KeepCosts, NICENESS, QueueSettings};
pub use together::QueuedRow;
pub use watchdog::{RunLimit, Watchdog};
