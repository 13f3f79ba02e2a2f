//! muster: a model server. [`app`] makes its parts and runs them, [`config`] reads what the operator wants.
//!
//! # Threads
//!
//! | Thread | Number | What it does |
//! |---|---|---|
//! | main | 1 | accepts connections, samples the process, waits for the signal |
//! | `http-<n>` | one per processor (`--http-thread-count`) | each a tokio runtime of its own; a connection stays on its thread |
//! | `<model>#<n>` | at most one per instance, started when there is work for it | forms batches and runs them, and makes instances anew, 3 nicer than the process, so that talk with clients goes first; a model's own process is as nice |
//! | of ONNX Runtime | per instance, its threads of a run less one | inside an operator; they do not spin between runs |
//! | of ONNX Runtime | per second session of a model, as many as processors less one | the same, of runs that have all processors; they spin for 0.2 ms after one |
//! | `prepare-<n>` | at most one per processor (`--tokenization-workers`), started when there is work for them | long work around graphs: tokens of texts that take long, large answers; between I/O threads and models in priority |
//! | `load-<n>` | as many as processors, during the start and after a look of `poll` that found changes | loads models |
//! | `load`, `load-demand` | one for each load by request, while it lasts | the same |
//! | `load-adapt` | 1 after the number of processors has changed, while it lasts | brings models that serve to it |
//! | `loading` | one for each version that is loaded, while that lasts | loads it; the others wait for it, and give it up when it does not end |
//! | `asks` | 1, started with the first request that a model's own code makes | runs these requests as an I/O thread runs those of clients |
//! | `control` | at most 64, each for one load, unload or look into a repository by request | waits for it, so that no I/O thread does |
//! | `poll` | 1 in that control mode | looks at the repository |
//! | `config-file` | 1 where the file that names the models is followed | looks at it, and has the models brought to what it says |
//! | `reaper` | 1 while a model that serves no more has requests | ends it, and gives its memory back |
//! | blocking pool | when needed | large JSON, compression, the text of the metrics |
//! | `log-out`, `log-err` | 2 | write lines |
//! | `watchdog` | 1 | ends runs that last too long; wakes a thread of a model whose instances were lost with their process |
//! | `worker-<pid>`, `threads-<pid>` | 1 each for each model's process | reads what it writes, and takes its exit status; says whether it may start one more thread |
//! | `talk-<pid>` | 1 for each instance in a process of another program | carries parts of answers, and what the model's own code asks |
//! | `control-<model>` | 1 while a model's own code loads or unloads another | waits for that |
//! | `revive-<model>`, `recycle-<model>`, `standby-<model>` | 1 each while a process of the model is started in the place of another, or to be kept ready for it, and in the pauses before that | loads it there |
//! | `signals` | 1 | hears the signals that stop the process, and reaps children |
//! | `store` | 2 for each repository in a store | fetch, during loads |
//! | `async` | 1 where there are asynchronous invocations | fetches what they are about, has it answered, writes what becomes of it |
//! | `capture`, `emf` | 1 each where they are asked for | write captured invocations; write lines of metrics |
//! | `traces` | 1 where traces have a place to go | writes traces, or sends spans |
//! | `workers` | 1 once a model has a process of its own | starts these processes |
//! | `recommender`, `recommender-log` | 1 each with `--recommendation-jobs` | hand operations to the recommender's process; write its lines |
//! | `arenas` | 1 once an ONNX model has run | has arenas give back memory, for who may not wait |
//! | `hash-<n>`, `check-weights`, `file-contents`, `run-limit`, `torch-load`, `wide session` | as long as one load or look needs them | read files; bound trial runs; make sessions and modules |
//!
//! An I/O thread runs a model itself when runs of this kind (rows, shapes, length) take less than 50 µs, an instance is
//! idle and nothing waits. That saves both hand-offs (`inline_run`, `coalesce` and `fast_runs` of crate `schedule`).
#![forbid(unsafe_code)]

pub mod app;
pub mod config;
pub mod engines;
pub mod explain;
pub mod features;
pub mod fetching;
pub mod health;
pub mod left_out;
#[cfg(not(feature = "isolation"))]
pub mod no_workers;
pub mod protocols;
pub mod tools;
#[cfg(feature = "isolation")]
pub mod workers;

#[cfg(not(feature = "isolation"))]
pub use no_workers as workers;

/// This process's program, also where its file has been replaced or removed since.
pub const OWN_PROGRAM: &str = "/proc/self/exe";
