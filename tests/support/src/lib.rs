//! What the tests of the whole server share: servers, a client that says exactly what it is told to, repositories, and
//! a module for each thing that several programs of tests need. It is compiled once for all of them.
#![forbid(unsafe_code)]
// Whatever is wrong here is to end the test.
#![allow(clippy::unwrap_used)]

pub mod browser;
mod client;
mod collector;
pub mod control;
pub mod faulty;
pub mod gpus;
mod group;
pub mod grpc;
pub mod http2;
pub mod hub;
pub mod images;
mod inference;
pub mod measures;
pub mod mlflow;
pub mod model_config_file;
mod models;
pub mod multi_model;
#[path = "../../../backends/onnxruntime/tests/support/onnx_file.rs"]
pub mod onnx_file;
mod page;
pub mod pipelines;
mod process;
pub mod python;
mod repository;
pub mod s3;
pub mod sandbox;
pub mod savedmodels;
mod server;
pub mod shared_memory;
pub mod small_disk;
mod tensor;
mod tools;
pub mod torchscript;
mod traffic;
pub mod websocket;
pub mod workers;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

pub use client::{Client, Reply, post_head};
pub use collector::{Collector, Span};
pub use group::Group;
pub use inference::{ask, ask_with, first_of, infer, is_to_come_again, row, rows};
pub use models::Models;
pub use page::{Page, wait_queued};
pub use process::{Finished, Process, check_end, ended};
pub use repository::Repository;
pub use server::{Server, Start};
pub use tensor::{Form, Tensor, infer_body};
pub use tools::{bench, with_tools};
pub use traffic::Traffic;

/// How long anything may take that is sure to happen. Only a test that fails waits so long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Settings that change how a request is run and nothing that its client sees, but for scores of pictures within their
/// tolerance: every test must pass with each of them on and off.
const SWITCHES: [&str; 5] = [
    "MUSTER_CALLER_RUNS",
    "MUSTER_ISOLATION",
    "MUSTER_JPEG_LIBRARY",
    "MUSTER_WORKER_SANDBOX",
    "MUSTER_WORKER_SPIN_US",
];

/// For tests of what the server's own process holds.
pub const IN_PROCESS: &str = "--isolation=off";

/// A variable, and its value: the tests are the same on a machine that has GPUs.
pub const NO_GPUS: (&str, &str) = ("CUDA_VISIBLE_DEVICES", "-1");

/// Those that are set in the environment of the tests, for the servers of all tests that do not say otherwise.
pub fn switches() -> Vec<(&'static str, String)> {
    SWITCHES.into_iter().filter_map(|it| Some((it, std::env::var(it).ok()?))).collect()
}

/// Says aloud that tests are not run, and why; a failure where `CI=true`.
#[track_caller]
pub fn skip(what_and_why: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{what_and_why}");
    say_skipped(what_and_why);
}

/// The same of tests that need something which not every machine has that checks a change.
pub fn say_skipped(what_and_why: &str) {
    // Past the capturing of the test harness, which would hide it from a run that passes.
    let line = format!("SKIPPED: {what_and_why}\n");
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
}

/// A path below the repository's root, as `tests/fixtures`.
pub fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join(path)
}

/// The folder of cargo's builds.
pub fn target() -> PathBuf {
    programs().parent().unwrap().to_owned()
}

/// The folder in which tests keep what takes long to make.
pub fn scratch() -> PathBuf {
    target().join("tmp")
}

/// The program that is tested.
pub fn program() -> String {
    programs().join("muster").to_str().unwrap().to_owned()
}

/// The folder of this build, in whose `deps` the programs of tests are.
fn programs() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned()
}

/// Asks again and again until there is an answer; fails after [`PATIENCE`], saying what was waited for.
#[track_caller]
pub fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < until, "waited {PATIENCE:?} in vain: {what}");
        // A pause between two questions; nothing depends on its length.
        std::thread::sleep(Duration::from_millis(2));
    }
}
