//! One inference, between any wire and any engine: the request and its response, the signature of its model, everything
//! that can go wrong with it, the record of its way, and permits for the bytes that it takes.
#![forbid(unsafe_code)]

pub mod access;
pub mod aligned;
pub mod boxed;
pub mod error;
pub mod grant;
pub mod granted;
pub mod identifier;
pub mod ledger;
pub mod limits;
pub mod log_value;
pub mod messages;
pub mod outbox;
pub mod request;
pub mod rest;
pub mod room;
pub mod signature;
pub mod statistics;
pub mod task;
mod task_facts;
mod task_names;
pub mod timings;
pub mod trace;
pub mod yielding;
