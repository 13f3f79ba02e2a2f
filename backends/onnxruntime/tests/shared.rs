//! Instances of a large model, which run one session at the same time.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "support/onnx_file.rs"]
mod onnx_file;
mod support;

use std::{
    num::NonZeroUsize,
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

use backend::{Backend, BackendError, Device, Model, Placement, Stop, Tensor};
use support::{Folder, engine, floats, run, run_until, source, values};

const SIDE: usize = 1024;

/// A dense model of 20 MiB, for so many instances.
fn model(folder: &Folder, instances: usize, options: &[(&str, &str)]) -> Arc<dyn Model> {
    let path = folder.0.join("model.onnx");
    onnx_file::dense(&path, 5, SIDE as u64, 1).unwrap();
    let mut source = source(path, options);
    let instances = NonZeroUsize::new(instances).unwrap();
    source.placements = vec![Placement { device: Device::Cpu, instances }];
    engine().load(&source).unwrap()
}

/// Rows that are those of this number alone.
fn rows(rows: usize, number: usize) -> Tensor {
    let value = |it: usize| ((it * 31 + number * 17) % 199) as f32 / 100.0 - 1.0;
    floats(&[rows, SIDE], &(0..rows * SIDE).map(value).collect::<Vec<_>>())
}

#[test]
fn runs_at_the_same_time_get_each_their_own_answer() {
    const THREADS: usize = 4;
    let folder = Folder::new("muster-side-by-side");
    let threads = ("intra_op_thread_count", "2");
    for options in [
        [].as_slice(),
        &[threads],
        &[threads, ("execution_mode", "1"), ("inter_op_thread_count", "2")],
        &[("memory.enable_memory_arena_shrinkage", "cpu:0")],
        &[("enable_mem_arena", "0"), ("enable_mem_pattern", "0")],
    ] {
        let model = model(&folder, THREADS, options);
        let mut alone = model.instantiate(Device::Cpu).unwrap();
        let mut answer = |number| {
            let inputs = [("x", rows(number + 1, number))];
            values(&run(&mut *alone, &inputs, &["y"]).unwrap()[0])
        };
        let expected: Vec<_> = (0..THREADS).map(&mut answer).collect();
        assert_ne!(expected[0], expected[1][..SIDE]);
        let begin = Barrier::new(THREADS);
        thread::scope(|scope| {
            for number in 0..THREADS {
                let (model, expected, begin) = (&model, &expected[number], &begin);
                scope.spawn(move || {
                    let mut instance = model.instantiate(Device::Cpu).unwrap();
                    let inputs = [("x", rows(number + 1, number))];
                    begin.wait();
                    for _ in 0..30 {
                        let outputs = run(&mut *instance, &inputs, &["y"]).unwrap();
                        assert_eq!(values(&outputs[0]), *expected);
                    }
                });
            }
        });
    }
}

#[test]
fn stopping_one_run_leaves_the_others_alone() {
    let folder = Folder::new("muster-stop-one");
    let model = model(&folder, 2, &[]);
    let mut first = model.instantiate(Device::Cpu).unwrap();
    let mut second = model.instantiate(Device::Cpu).unwrap();
    let (stop, x) = (Arc::new(Stop::new()), rows(2048, 1));
    let inputs = [("x", x.clone())];
    let expected = values(&run(&mut *second, &inputs, &["y"]).unwrap()[0]);
    let begin = Barrier::new(3);
    thread::scope(|scope| {
        let stopped = scope.spawn(|| {
            begin.wait();
            // As long as it takes until somebody pulls: a run that ends before is made again.
            loop {
                if let Err(error) = run_until(&mut *first, &inputs, &["y"], &stop) {
                    break error;
                }
            }
        });
        let other = scope.spawn(|| {
            begin.wait();
            run(&mut *second, &inputs, &["y"])
        });
        begin.wait();
        thread::sleep(Duration::from_millis(50));
        stop.stop();
        let error = stopped.join().unwrap();
        assert!(matches!(&error, BackendError::Execute(text) if text.contains("stopped")));
        assert_eq!(values(&other.join().unwrap().unwrap()[0]), expected);
    });
    assert_eq!(values(&run(&mut *first, &inputs, &["y"]).unwrap()[0]), expected);
}

#[test]
fn further_instances_need_no_file_any_more() {
    let folder = Folder::new("muster-file-gone");
    let model = model(&folder, 1, &[]);
    std::fs::remove_file(folder.0.join("model.onnx")).unwrap();
    for _ in 0..3 {
        let mut instance = model.instantiate(Device::Cpu).unwrap();
        run(&mut *instance, &[("x", rows(1, 1))], &["y"]).unwrap();
    }
}

#[test]
fn an_output_outlives_its_instance_and_model() {
    let folder = Folder::new("muster-outlives");
    let model = model(&folder, 1, &[]);
    let mut instance = model.instantiate(Device::Cpu).unwrap();
    let expected = values(&run(&mut *instance, &[("x", rows(4, 1))], &["y"]).unwrap()[0]);
    let kept = run(&mut *instance, &[("x", rows(4, 1))], &["y"]).unwrap().remove(0);
    drop((instance, model));
    assert_eq!(values(&kept), expected);
}

#[test]
fn from_two_mebibytes_on_instances_share_a_session_and_smaller_models_have_one_each() {
    let folder = Folder::new("muster-shares");
    let shares = |side: u64| {
        let path = folder.0.join(format!("{side}.onnx"));
        onnx_file::dense(&path, 3, side, 1).unwrap();
        let model = engine().load(&source(path.clone(), &[])).unwrap();
        // A further session would be made from the file.
        std::fs::remove_file(&path).unwrap();
        let _first = model.instantiate(Device::Cpu).unwrap();
        model.instantiate(Device::Cpu).is_ok()
    };
    // 3 layers of 512 × 512 are 3 MiB, and of 256 × 256 less than one.
    assert!(shares(512) && !shares(256));
}
