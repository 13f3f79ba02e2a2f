//! Threads of a run. In a process of its own, whose threads are counted.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::{
    fs,
    num::NonZeroUsize,
    thread,
    time::{Duration, Instant},
};

use backend::{DataType, Device};
use support::*;

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// Waits for the helpers of threads that have ended, which take a moment to end too.
fn settle(base: usize) {
    let begun = Instant::now();
    while threads() > base {
        assert!(begun.elapsed() < Duration::from_secs(10), "{} threads stay", threads());
        thread::yield_now();
    }
}

#[test]
fn a_run_has_the_threads_that_its_model_is_given_on_whichever_thread_it_is_made() {
    let load_with = |count: usize, parameter: Option<&str>| {
        let shape: &[i64] = &[-1, -1];
        let source =
            configured("tanh", &[("x", DataType::Fp32, shape)], &[("y", DataType::Fp32, shape)]);
        let options: Vec<(&str, &str)> =
            parameter.iter().map(|&it| ("INTRA_OP_THREAD_COUNT", it)).collect();
        let mut source = with(source, &options);
        source.default_threads = NonZeroUsize::new(count).unwrap();
        load(&source)
    };
    // Large enough to be cut up among threads.
    let x = floats(&[1000, 1000], &vec![0.5; 1_000_000]);
    let one = load_with(1, None);
    let base = threads();
    let three = load_with(3, None);
    // Threads that a run on a new thread brings along; they stay as long as that thread.
    let extra = |model: &dyn backend::Model| {
        let mut instance = model.instantiate(Device::Cpu).unwrap();
        settle(base);
        let run = || {
            run(&mut *instance, &[("x", x.clone())], &["y"]).unwrap();
            threads()
        };
        thread::scope(|scope| scope.spawn(run).join().unwrap()) - base - 1
    };
    let parameter = load_with(1, Some("2"));
    for _ in 0..2 {
        assert_eq!(extra(&*one), 0);
        assert_eq!(extra(&*three), 2);
        assert_eq!(extra(&*parameter), 1);
    }

    // Libraries that multiply matrices have a number of their own, which follows. They may take fewer.
    for options in [&[("FREEZE", "false")][..], &[]] {
        let mut source = with(source("mlp"), options);
        let x = floats(&[200_000, 5], &vec![0.5; 1_000_000]);
        for (count, expected) in [(1, 0..=0), (3, 1..=2), (1, 0..=0)] {
            source.default_threads = NonZeroUsize::new(count).unwrap();
            let mut instance = instance(&source);
            settle(base);
            let run = || {
                run(&mut *instance, &[("x", x.clone())], &["OUTPUT__0"]).unwrap();
                threads()
            };
            let extra = thread::scope(|scope| scope.spawn(run).join().unwrap()) - base - 1;
            assert!(expected.contains(&extra), "{options:?}, {count} threads: {extra} more");
        }
    }

    // One thread, two models in turns: each run has its own number.
    let mut instances = [&one, &three].map(|it| it.instantiate(Device::Cpu).unwrap());
    settle(base);
    thread::scope(|scope| {
        let run = |instance: &mut dyn backend::Instance| {
            run(instance, &[("x", x.clone())], &["y"]).unwrap();
        };
        let [one, three] = &mut instances;
        scope.spawn(move || {
            run(&mut **one);
            assert_eq!(threads() - base - 1, 0);
            run(&mut **three);
            assert_eq!(threads() - base - 1, 2);
        });
    });
}
