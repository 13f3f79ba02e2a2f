//! Threads of a run. In a process of its own, whose threads are counted.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::{fs, num::NonZeroUsize, thread};

use backend::{DataType, Device};
use support::*;

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
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
    // Threads that a run on a new thread brings along; they stay as long as that thread.
    let extra = |model: &dyn backend::Model| {
        let mut instance = model.instantiate(Device::Cpu).unwrap();
        thread::scope(|scope| {
            let before = threads();
            let run = || {
                run(&mut *instance, &[("x", x.clone())], &["y"]).unwrap();
                threads()
            };
            let during = scope.spawn(run).join().unwrap();
            during - before - 1
        })
    };
    let (one, three) = (load_with(1, None), load_with(3, None));
    let parameter = load_with(1, Some("2"));
    for _ in 0..2 {
        assert_eq!(extra(&*one), 0);
        assert_eq!(extra(&*three), 2);
        assert_eq!(extra(&*parameter), 1);
    }

    // Libraries that multiply matrices have threads of their own, which follow.
    for options in [&[("FREEZE", "false")][..], &[]] {
        let mut source = with(source("mlp"), options);
        let x = floats(&[200_000, 5], &vec![0.5; 1_000_000]);
        for (count, expected) in [(1, 0), (3, 2), (1, 0)] {
            source.default_threads = NonZeroUsize::new(count).unwrap();
            let mut instance = instance(&source);
            let before = threads();
            let run = || {
                run(&mut *instance, &[("x", x.clone())], &["OUTPUT__0"]).unwrap();
                threads()
            };
            let during = thread::scope(|scope| scope.spawn(run).join().unwrap());
            assert_eq!(during - before - 1, expected, "{options:?}, {count} threads");
        }
    }

    // One thread, two models in turns: each run has its own number.
    let mut instances = [&one, &three].map(|it| it.instantiate(Device::Cpu).unwrap());
    thread::scope(|scope| {
        let run = |instance: &mut dyn backend::Instance| {
            run(instance, &[("x", x.clone())], &["y"]).unwrap();
        };
        let [one, three] = &mut instances;
        scope.spawn(move || {
            let before = threads();
            run(&mut **one);
            assert_eq!(threads() - before, 0);
            run(&mut **three);
            assert_eq!(threads() - before, 2);
        });
    });
}
