//! The whole server, from its sockets inwards: in this process with all ports at 0, or as a child process
//! where signals, the log or the exit code matter.
// The lint knows test functions, not the functions they share.
#![allow(clippy::unwrap_used)]

mod support; // start a server, talk to it, make model repositories

mod architecture; // who may import whom
mod batching; // what a configuration says about batches, queues and instances
mod cancellation; // clients that leave
mod drain; // stopping under load
mod faults; // what clients and models do wrong
mod kserve_v2; // health, metadata, inference as JSON and as binary tensors
mod lifecycle; // starting, and starts that fail
mod limits; // what one client may take
mod metrics; // the metrics page
mod overload; // more work than can be done
