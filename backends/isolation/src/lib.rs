//! Engines in processes of their own: [`Isolated`] stands in for an engine, and loads each model version in a worker
//! for each of its devices. That is a child process that may crash, hang or leak without anything else noticing.
//!
//! A worker is the server's own program, started with the word `worker`; there [`serve`] loads the model with the real
//! engine and runs batches. The two talk over a Unix socket, and by memory that both sides map, sealed memory files of
//! each instance (a *lane*): one for the frames of its runs, one for their tensors. The server writes inputs into its
//! half and copies outputs out of the worker's. A worker that spoils its half spoils its own answers and nothing else.
//!
//! The thread that waits for a worker's process wakes whoever waits for its answers. A run that was in it fails
//! with [`backend::BackendError::Crashed`]; the next one finds a new worker, unless too many have died of late. A
//! worker ends by itself when the server does, however that ends.
//!
//! A worker reaches what its model and its engine need and nothing else ([`Sandbox`]): the kernel keeps to that.
//!
//! Which models have one is the server's to say, or their configuration's. Where neither does ([`Which::Auto`]), what
//! the files of a model tell of its runs decides, before it is loaded (`place`).

mod aboard;
mod arena;
mod become_program;
mod calls;
mod channel;
mod children;
mod decisions;
mod end;
mod engine;
mod figures;
mod frame;
#[cfg(test)]
mod garbage;
#[cfg(test)]
mod hostile;
mod keep_ready;
mod lane;
mod launch;
mod level;
mod life;
mod limits;
mod longest;
mod look;
mod lost_gpu;
mod mailbox;
mod mapping;
mod mark;
mod message;
mod model;
mod named;
mod oom;
mod open;
mod outage;
mod output;
mod pages;
mod patience;
pub mod peer;
mod place;
mod program;
mod readiness;
mod recycle;
mod sample;
mod sandbox;
mod stamp;
mod standby;
mod start;
mod state;
mod supervisor;
mod talk;
mod usage;
mod vitals;
mod warm_up;
mod whose;
mod worker;

pub use children::Children;
pub use engine::{Isolated, Isolation, Settings, Which};
pub use program::Program;
pub use sandbox::{Sandbox, passes};
pub use worker::serve;
