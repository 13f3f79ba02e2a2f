//! Modules with state that is neither an attribute nor written by an operator that says so: instances must not
//! share them, and what they give must not change any more.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::thread;

use backend::{BackendError, DataType, Device, ModelSource};
use support::*;

const FP32: DataType = DataType::Fp32;

fn source_of(name: &str, input: &[i64], output: &[i64], options: &[(&str, &str)]) -> ModelSource {
    with(configured(name, &[("x", FP32, input)], &[("y", FP32, output)]), options)
}

/// As it is usually loaded, and as nothing of it is rewritten.
const WAYS: [&[(&str, &str)]; 2] = [&[], &[("FREEZE", "false")]];

/// Several instances at once, each with a number of its own in every run, which is what the module answers.
fn answers_its_own_input(source: &ModelSource) {
    const RUNS: usize = 100;
    let model = load(source);
    let name = &source.name;
    thread::scope(|scope| {
        for number in 0..4 {
            let mut instance = model.instantiate(Device::Cpu).unwrap();
            scope.spawn(move || {
                let mut given = Vec::new();
                for run_number in 0..RUNS {
                    let value = (number * RUNS + run_number + 1) as f32;
                    let x = floats(&[1, 256], &[value; 256]);
                    let output = run(&mut *instance, &[("x", x)], &["y"]).unwrap().remove(0);
                    given.push((value, output));
                }
                for (value, output) in given {
                    let all = values(&output);
                    let other = all.iter().find(|it| **it != value);
                    assert_eq!(other, None, "{}, expected {value}", name);
                }
            });
        }
    });
}

#[test]
fn what_a_run_stores_in_a_traced_tensor_no_other_run_sees() {
    for options in WAYS {
        answers_its_own_input(&source_of("plain", &[-1, 256], &[-1, 256], options));
        answers_its_own_input(&source_of("plain_returned", &[-1, 256], &[16384], options));
    }
}

/// Each instance gives the same answers in turn, whatever others have run: the first begins where the file does.
#[track_caller]
fn instances_begin_afresh(source: &ModelSource, width: usize) {
    let model = load(source);
    let x = floats(&[2, width], &vec![1.0; 2 * width]);
    let answers = |_| -> Vec<Vec<f32>> {
        let mut instance = model.instantiate(Device::Cpu).unwrap();
        let once = |_| values(&run(&mut *instance, &[("x", x.clone())], &["y"]).unwrap()[0]);
        (0..3).map(once).collect()
    };
    let [first, second] = [0, 1].map(answers);
    assert_eq!(first, second, "{}", source.name);
}

#[test]
fn an_instance_begins_with_the_state_in_the_file() {
    for options in WAYS {
        instances_begin_afresh(&source_of("plain_late", &[-1, 3], &[-1, 3], options), 3);
        instances_begin_afresh(&source_of("statistics", &[-1, 4], &[-1, 4], options), 4);
    }
}

#[test]
fn an_instance_with_state_notices_that_the_file_was_replaced() {
    let folder = std::env::temp_dir().join(format!("muster-replaced-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("model.pt");
    std::fs::copy(path("statistics.pt"), &file).unwrap();
    let mut source = source_of("statistics", &[-1, 4], &[-1, 4], &[]);
    source.path = file.clone();
    let model = load(&source);
    model.instantiate(Device::Cpu).unwrap();
    std::fs::copy(path("plain_late.pt"), &file).unwrap();
    let Err(BackendError::Load(text)) = model.instantiate(Device::Cpu) else { panic!("it loaded") };
    assert!(text.contains("has changed since it was loaded; load it again"), "{text}");
    std::fs::remove_dir_all(folder).unwrap();
}
