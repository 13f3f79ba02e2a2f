//! Models in processes of their own, what those may reach, and what becomes of runs that fail or never end.
// The lint knows test functions, not the functions they share.
#![allow(clippy::unwrap_used)]
// What only tests of something that was left out of this build use.
#![cfg_attr(
    not(all(
        feature = "isolation",
        feature = "pipelines",
        feature = "pytorch",
        feature = "stores",
        feature = "tensorflow",
        feature = "trees"
    )),
    allow(dead_code, unused_imports)
)]

use test_support as support; // start a server, talk to it, make model repositories

mod gpus; // where instances run on a machine with GPUs, and what is read of those
mod hung_runs; // runs that never end
#[cfg(feature = "isolation")]
mod idle_signals;
#[cfg(feature = "isolation")]
mod isolation; // models in processes of their own
#[cfg(feature = "python")]
mod python_asks; // what such models ask of the server
#[cfg(feature = "python")]
mod python_decoupled; // several responses to one request
#[cfg(feature = "python")]
mod python_environments; // environments that they bring along
#[cfg(feature = "python")]
mod python_models; // models that are Python code
#[cfg(all(feature = "python", feature = "trees"))]
mod python_objects; // models that are objects of Python
#[cfg(feature = "python")]
mod python_rescheduling; // requests that such models have run again, and what else they say and take
#[cfg(feature = "python")]
mod python_response_sender; // when and how often such models send responses
#[cfg(feature = "python")]
mod python_samples; // those of model_repository
#[cfg(feature = "isolation")]
mod run_limits; // how long a run of a model may take by its configuration
#[cfg(all(feature = "isolation", feature = "pytorch", feature = "tensorflow"))]
mod sandbox; // what such a process can reach
#[cfg(feature = "isolation")]
mod worker_batches; // batches whose process is killed, and a system without shared memory
#[cfg(feature = "isolation")]
mod worker_devices; // models with a process on each of several devices
#[cfg(all(feature = "isolation", feature = "pytorch", feature = "tensorflow"))]
mod worker_engines; // TorchScript models and SavedModels whose processes are killed
#[cfg(feature = "isolation")]
mod worker_faults; // native code that crashes, and servers that stop in the middle of that
#[cfg(feature = "isolation")]
mod worker_lanes; // instances in the next process, made and warmed before they get requests
#[cfg(feature = "isolation")]
mod worker_loads; // loads in processes of their own that do not end, or end their process
#[cfg(all(feature = "isolation", feature = "pytorch", feature = "tensorflow"))]
mod worker_places; // where models run whose first runs decide it
#[cfg(feature = "isolation")]
mod worker_policies; // what a configuration says of the process of its model
#[cfg(feature = "isolation")]
mod worker_sequences; // sequences whose process is killed
#[cfg(feature = "isolation")]
mod worker_soaks; // the same faults a hundred thousand times, and how soon a model is back; not part of every run
#[cfg(feature = "isolation")]
mod worker_standby; // a process that is kept ready for the place of one that is killed
