//! Runs that may take all processors.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "support/onnx_file.rs"]
mod onnx_file;
mod support;

use std::{fs, num::NonZeroUsize, sync::Arc, thread, time::Duration};

use backend::{Backend, Device, Instance, Model, ModelSource, RunTerms};
use support::{Folder, engine, engine_within, floats, run, source, values};

const SIDE: usize = 1024;

/// A dense model of 20 MiB, on two processors.
fn model(folder: &Folder, engine: &dyn Backend, options: &[(&str, &str)]) -> Arc<dyn Model> {
    let path = folder.0.join("model.onnx");
    onnx_file::dense(&path, 5, SIDE as u64, 1).unwrap();
    let wide_threads = NonZeroUsize::new(2);
    engine.load(&ModelSource { wide_threads, ..source(path, options) }).unwrap()
}

/// What so many runs give: all the same.
fn answers(instance: &mut dyn Instance, count: usize) -> Vec<f32> {
    let x: Vec<f32> = (0..8 * SIDE).map(|it| (it % 199) as f32 / 100.0 - 1.0).collect();
    let mut answer =
        || values(&run(instance, &[("x", floats(&[8, SIDE], &x))], &["y"]).unwrap()[0]);
    let first = answer();
    for _ in 1..count {
        assert_eq!(answer(), first);
    }
    first
}

/// Threads of this process.
fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// Waits for a number of threads: sessions are made and let go of in the background.
fn until_threads_are(expected: usize) {
    for _ in 0..1000 {
        if threads() == expected {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{} threads, expected {expected}", threads());
}

/// One test: threads of the process are counted.
#[test]
fn runs_alone_get_a_second_session_once_there_were_some_and_give_the_same_bytes() {
    let folder = Folder::new("muster-wide");
    let engine = engine();
    let first = model(&folder, &engine, &[]);
    let mut instance = first.instantiate(Device::Cpu).unwrap();
    let before = threads();
    let usual = answers(&mut *instance, 100);
    assert_eq!(threads(), before, "others may run beside them");
    instance.expect_runs(RunTerms { wide: true, ..RunTerms::default() });
    assert_eq!(answers(&mut *instance, 15), usual);
    assert_eq!(threads(), before, "too few to make a session for");
    assert_eq!(answers(&mut *instance, 1), usual);
    until_threads_are(before + 1);
    assert!(!instance.has_run_wide());
    // The same inputs, so that each run that is compared is of inputs which were compared before.
    let wide = (0..600).filter(|_| {
        assert_eq!(answers(&mut *instance, 1), usual);
        instance.has_run_wide()
    });
    assert!(3 <= wide.count(), "at least the first ones are made both ways");
    // Memory is scarce: it goes, and does not come back.
    first.trim_memory();
    until_threads_are(before);
    assert_eq!(answers(&mut *instance, 50), usual);
    assert_eq!(threads(), before);

    let is_usual = |model: Arc<dyn Model>, why: &str| {
        let mut instance = model.instantiate(Device::Cpu).unwrap();
        instance.expect_runs(RunTerms { wide: true, ..RunTerms::default() });
        assert_eq!(answers(&mut *instance, 100), usual);
        thread::sleep(Duration::from_millis(100));
        assert_eq!(threads(), before, "{why}");
    };
    let small = engine_within(16 * (20 << 20));
    is_usual(model(&folder, &small, &[]), "its weights are more than a sixteenth of the memory");
    let one = [("wide_intra_op_thread_count", "1")];
    is_usual(model(&folder, &engine, &one), "none is asked for");
}
