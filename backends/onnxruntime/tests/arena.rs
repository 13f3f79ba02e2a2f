//! What the runs of many models hold in memory. In a process of its own, since it looks at the memory of the whole
//! process.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "support/onnx_file.rs"]
mod onnx_file;
mod support;

use std::{
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use backend::{Backend, Device};
use support::{Folder, engine, engine_keeping, floats, run, source, unaligned};

/// Held by each test: one at a time looks at the memory of the process.
static ALONE: Mutex<()> = Mutex::new(());

const MODELS: u64 = 4;

/// What this process alone holds, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|it| it.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// By how much the process has grown when each of the models has run, and when memory has been given back then.
fn grown(folder: &Folder, options: &[(&str, &str)]) -> (u64, u64) {
    let engine = engine();
    let side = 128;
    let x = [("x", floats(&[1, 64, side, side], &vec![0.5; 64 * side * side]))];
    let mut instances: Vec<_> = (0..MODELS)
        .map(|number| {
            let path = folder.0.join(format!("{number}.onnx"));
            onnx_file::convolutions(&path, 16, 64, side as u64, number + 1).unwrap();
            assert!(2 << 20 < std::fs::metadata(&path).unwrap().len());
            engine.load(&source(path, options)).unwrap().instantiate(Device::Cpu).unwrap()
        })
        .collect();
    engine.give_back_memory();
    let loaded = resident();
    for instance in &mut instances {
        for _ in 0..2 {
            run(&mut **instance, &x, &["y"]).unwrap();
        }
    }
    let ran = resident();
    engine.give_back_memory();
    (ran.saturating_sub(loaded), resident().saturating_sub(loaded))
}

#[test]
fn models_that_run_one_after_the_other_take_the_memory_of_one_run_and_give_it_back() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("muster-arena");
    let (common, kept) = grown(&folder, &[]);
    let (own, _) = grown(&folder, &[("session.use_env_allocators", "0")]);
    println!("{common} in common, {kept} of that kept, {own} with an arena each");
    assert!(common * 2 < own, "{common} in common, {own} with an arena each");
    // An arena keeps its first region.
    assert!(kept + (4 << 20) < common, "{kept} of {common} are kept");
}

#[test]
fn where_memory_is_scarce_the_next_run_of_a_tiny_model_gives_back_what_a_large_one_took() {
    const SIDE: usize = 64;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("muster-trim");
    let path = folder.0.join("model.onnx");
    onnx_file::dense(&path, 2, SIDE as u64, 1).unwrap();
    let model = engine().load(&source(path, &[])).unwrap();
    let mut instance = model.instantiate(Device::Cpu).unwrap();
    let mut run_rows = |rows: usize| {
        // Not where an engine can read it: it is copied, to memory that the instance keeps.
        let x = unaligned(&floats(&[rows, SIDE], &vec![0.5; rows * SIDE]));
        run(&mut *instance, &[("x", x)], &["y"]).unwrap();
    };
    run_rows(1);
    environment::give_back_memory();
    let small = resident();
    // Two tensors at a time of 48 MiB, and a copy of the input.
    run_rows(192 << 10);
    run_rows(1);
    environment::give_back_memory();
    let large = resident().saturating_sub(small);
    model.trim_memory();
    run_rows(1);
    environment::give_back_memory();
    let trimmed = resident().saturating_sub(small);
    println!("{large} after a large run, {trimmed} of that after the next one that trims");
    assert!(96 << 20 < large, "{large}");
    assert!(trimmed * 8 < large, "{trimmed} of {large} are kept");
}

/// By how much the process has grown once each of several models has made a large run, and its outputs are gone; the
/// same where the models may keep so much.
#[track_caller]
fn kept_of_large_runs(options: &[(&str, &str)], is_first: bool) {
    const SIDE: usize = 64;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("muster-kept");
    let grown = |kept: u64, enough: u64| {
        let engine = engine_keeping(kept);
        engine.give_back_memory();
        let before = resident();
        let instances: Vec<_> = (0..MODELS)
            .map(|number| {
                let path = folder.0.join(format!("{number}.onnx"));
                onnx_file::dense(&path, 2, SIDE as u64, 1).unwrap();
                let model = engine.load(&source(path, options)).unwrap();
                let mut instance = model.instantiate(Device::Cpu).unwrap();
                let mut run_rows = |rows: usize| {
                    let x = unaligned(&floats(&[rows, SIDE], &vec![0.5; rows * SIDE]));
                    drop(run(&mut *instance, &[("x", x)], &["y"]).unwrap());
                };
                if !is_first {
                    run_rows(1);
                }
                // Two tensors at a time of 48 MiB, and a copy of the input.
                run_rows(192 << 10);
                (model, instance)
            })
            .collect();
        // It is given back by a thread that nobody waits for.
        let until = Instant::now() + Duration::from_secs(20);
        let grown = loop {
            environment::give_back_memory();
            let grown = resident().saturating_sub(before);
            if grown < enough || until <= Instant::now() {
                break grown;
            }
            thread::sleep(Duration::from_millis(10));
        };
        drop(instances);
        grown
    };
    let few = 48 << 20;
    let (all, few) = (grown(u64::MAX, u64::MAX), grown(8 << 20, few));
    println!("{all} kept without a bound, {few} with one");
    assert!(MODELS * (96 << 20) < all, "{all}");
    assert!(few < 48 << 20, "{few}");
}

#[test]
fn what_large_runs_of_tiny_models_have_left_is_given_back_when_their_outputs_are_gone() {
    kept_of_large_runs(&[], false);
}

#[test]
fn a_model_whose_first_run_is_a_large_one_keeps_no_more_than_others() {
    kept_of_large_runs(&[], true);
}
