//! Batches through real sessions: types, shapes, outputs, buffers, faults in the data, stopping.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use backend::{BackendError, DataType, Device, Shape, Stop, Tensor};
use bytes::Bytes;
use support::{floats, instance, load, load_with, run, run_until, unaligned, values};

#[test]
fn every_fixed_size_type_comes_back_as_it_went_in() {
    for dtype in DataType::ALL.into_iter().filter(|it| *it != DataType::Bytes) {
        let mut instance = instance(&format!("identity/{dtype}"));
        let bytes = 3 * 2 * dtype.size().unwrap();
        let data: Vec<u8> = match dtype {
            DataType::Bool => vec![0, 1, 1, 0, 0, 1],
            _ => (0..bytes).map(|it| (it * 37 + 11) as u8).collect(),
        };
        let tensor = Tensor::new(dtype, Shape::new(&[3, 2]), data.clone().into()).unwrap();
        for input in [tensor.clone(), unaligned(&tensor)] {
            let output = run(&mut *instance, &[("x", input)], &["y"]).unwrap().remove(0);
            assert_eq!((output.dtype(), output.shape().dims()), (dtype, [3, 2].as_slice()));
            assert_eq!(output.to_bytes(), data, "{dtype}");
        }
    }
}

#[test]
fn strings_keep_nuls_and_bytes_that_are_no_text() {
    let mut instance = instance("identity/BYTES");
    let long = vec![b'z'; 100_000];
    let strings: [&[u8]; 6] = [b"", b"a\0b\0", b"\xff\xfe\x80", "žluť".as_bytes(), &long, b"\0"];
    let input = Tensor::from_strings(Shape::new(&[3, 2]), strings).unwrap();
    let output = run(&mut *instance, &[("x", input)], &["y"]).unwrap().remove(0);
    assert_eq!(output.dtype(), DataType::Bytes);
    assert_eq!(output.strings().collect::<Vec<_>>(), strings);
}

#[test]
fn zero_rows_give_zero_rows_of_any_type() {
    for dtype in [DataType::Fp32, DataType::Int64, DataType::Bool, DataType::Bytes] {
        let mut instance = instance(&format!("identity/{dtype}"));
        let input = Tensor::new(dtype, Shape::new(&[0, 5]), Bytes::new()).unwrap();
        let output = run(&mut *instance, &[("x", input)], &["y"]).unwrap().remove(0);
        assert_eq!(output.shape().dims(), [0, 5], "{dtype}");
        assert_eq!(output.byte_len(), 0);
    }
}

#[test]
fn a_scalar_has_no_dimensions() {
    let mut instance = instance("scalar");
    let output = run(&mut *instance, &[("x", floats(&[], &[1.5]))], &["y"]).unwrap().remove(0);
    assert_eq!(output.shape().dims(), [] as [usize; 0]);
    assert_eq!(values(&output), [3.0]);
}

#[test]
fn open_dimensions_may_change_from_run_to_run() {
    let mut instance = instance("matmul");
    for (m, k, n) in [(1, 1, 1), (2, 3, 4), (100, 30, 70), (1, 2, 1)] {
        let (a, b) = (floats(&[m, k], &vec![1.0; m * k]), floats(&[k, n], &vec![2.0; k * n]));
        let output = run(&mut *instance, &[("a", a), ("b", b)], &["c"]).unwrap().remove(0);
        assert_eq!(output.shape().dims(), [m, n]);
        assert!(values(&output).iter().all(|&it| it == 2.0 * k as f32));
    }
}

#[test]
fn only_the_outputs_that_are_asked_for_come_back_in_any_order_of_inputs() {
    let mut instance = instance("sum_difference");
    let a = floats(&[1, 4], &[5.0, 6.0, 7.0, 8.0]);
    let b = floats(&[1, 4], &[1.0; 4]);
    let mut run = |inputs: [(&str, &Tensor); 2], outputs: &[&str]| -> Vec<Vec<f32>> {
        let inputs = inputs.map(|(name, tensor)| (name, tensor.clone()));
        run(&mut *instance, &inputs, outputs).unwrap().iter().map(values).collect()
    };
    assert_eq!(run([("a", &a), ("b", &b)], &["difference"]), [[4.0, 5.0, 6.0, 7.0]]);
    assert_eq!(run([("b", &b), ("a", &a)], &["sum"]), [[6.0, 7.0, 8.0, 9.0]]);
    let both = [[4.0, 5.0, 6.0, 7.0], [6.0, 7.0, 8.0, 9.0]];
    assert_eq!(run([("b", &b), ("a", &a)], &["difference", "sum"]), both);
}

#[test]
fn a_batch_of_several_requests_is_joined() {
    let mut instance = instance("sum_difference");
    let parts = [
        floats(&[1, 4], &[0.0, 1.0, 2.0, 3.0]),
        unaligned(&floats(&[2, 4], &[4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0])),
        floats(&[0, 4], &[]),
        floats(&[1, 4], &[12.0, 13.0, 14.0, 15.0]),
    ];
    let a = Tensor::concat(&parts).unwrap();
    assert!(a.segments().len() > 1);
    let b = floats(&[4, 4], &[1.0; 16]);
    let output = run(&mut *instance, &[("a", a), ("b", b)], &["sum"]).unwrap().remove(0);
    assert_eq!(output.shape().dims(), [4, 4]);
    assert_eq!(values(&output), (1..=16).map(|it| it as f32).collect::<Vec<_>>());
}

#[test]
fn strings_of_several_requests_are_joined() {
    let mut instance = instance("identity/BYTES");
    let one = Tensor::from_strings(Shape::new(&[1, 2]), ["a", "b\0"]).unwrap();
    let two = Tensor::from_strings(Shape::new(&[1, 2]), ["", "dd"]).unwrap();
    let both = Tensor::concat([&one, &two]).unwrap();
    let output = run(&mut *instance, &[("x", both)], &["y"]).unwrap().remove(0);
    assert_eq!(output.strings().collect::<Vec<_>>(), [b"a".as_slice(), b"b\0", b"", b"dd"]);
}

#[test]
fn any_byte_but_zero_is_true() {
    let mut instance = instance("nonzero");
    let input = Tensor::new(DataType::Bool, Shape::new(&[5]), vec![0, 1, 2, 128, 255].into());
    let output = run(&mut *instance, &[("x", input.unwrap())], &["y"]).unwrap().remove(0);
    assert_eq!(output.as_slice_of::<i32>(), Some([0, 1, 1, 1, 1].as_slice()));
}

#[test]
fn an_input_with_a_default_may_be_given_or_left_out() {
    let mut instance = instance("optional");
    let x = floats(&[1, 2], &[1.0, 2.0]);
    let output = run(&mut *instance, &[("x", x.clone())], &["y"]).unwrap().remove(0);
    assert_eq!(values(&output), [1.0, 2.0]);
    let inputs = [("x", x), ("bias", floats(&[2], &[10.0, 20.0]))];
    let output = run(&mut *instance, &inputs, &["y"]).unwrap().remove(0);
    assert_eq!(values(&output), [11.0, 22.0]);
}

#[test]
fn large_outputs_outlive_later_runs_the_instance_and_the_model() {
    let model = load("identity/FP32");
    let mut instance = model.instantiate(Device::Cpu).unwrap();
    let mut keep = Vec::new();
    for round in 0..4 {
        let input = floats(&[64, 1024], &[round as f32; 64 * 1024]);
        keep.extend(run(&mut *instance, &[("x", input)], &["y"]).unwrap());
    }
    drop(instance);
    drop(model);
    for (round, output) in keep.iter().enumerate() {
        assert!(values(output).iter().all(|&it| it == round as f32), "{round}");
    }
}

#[test]
fn an_output_that_is_the_input_does_not_share_its_memory() {
    let mut instance = instance("passthrough");
    for size in [10, 10_000] {
        let part = floats(&[size], &vec![1.0; size]);
        // Two segments: the input lies in staging memory that the next run overwrites.
        let first = Tensor::concat([&part, &part]).unwrap();
        let first = run(&mut *instance, &[("x", first)], &["x", "y"]).unwrap();
        let part = floats(&[size], &vec![2.0; size]);
        let second = Tensor::concat([&part, &part]).unwrap();
        let second = run(&mut *instance, &[("x", second)], &["x", "y"]).unwrap();
        for (outputs, expected) in [(first, 1.0), (second, 2.0)] {
            for output in outputs {
                assert!(values(&output).iter().all(|&it| it == expected));
            }
        }
    }
}

#[test]
fn an_output_that_is_a_weight_outlives_its_session() {
    let mut instance = instance("constant");
    let inputs = [("x", floats(&[1], &[0.0]))];
    let output = run(&mut *instance, &inputs, &["w"]).unwrap().remove(0);
    drop(instance);
    assert_eq!(values(&output)[2047], 2047.0);
}

#[track_caller]
fn refused(name: &str, inputs: &[(&str, Tensor)], outputs: &[&str], text: &str) {
    let mut instance = instance(name);
    match run(&mut *instance, inputs, outputs) {
        Err(BackendError::InvalidInput(problem)) => assert!(problem.contains(text), "{problem}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn inputs_that_do_not_fit_are_the_clients_fault_and_named() {
    let x = || floats(&[1, 4], &[0.0; 4]);
    let sum = ["sum"].as_slice();
    refused("sum_difference", &[("a", x())], sum, "input 'b' is missing");
    refused("sum_difference", &[("a", x()), ("b", x()), ("c", x())], sum, "no input 'c'");
    refused("sum_difference", &[("a", x()), ("b", x()), ("b", x())], sum, "given twice");
    refused("sum_difference", &[("a", x()), ("b", x())], &["product"], "no output 'product'");
    let halves = Tensor::zeros(DataType::Fp16, Shape::new(&[1, 4])).unwrap();
    let inputs = [("a", x()), ("b", halves)];
    refused("sum_difference", &inputs, sum, "input 'b' is FP16, expected FP32");
    let narrow = floats(&[1, 3], &[0.0; 3]);
    refused("sum_difference", &[("a", x()), ("b", narrow)], sum, "Got: 3 Expected: 4");
    let index = Tensor::from_vec(Shape::new(&[1]), vec![7i64]).unwrap();
    refused("gather", &[("index", index)], &["y"], "idx=7");
    let two_and_three = [("a", floats(&[2, 4], &[0.0; 8])), ("b", floats(&[3, 4], &[0.0; 12]))];
    refused("sum_difference", &two_and_three, sum, "2 by 3");
    let unequal = [("a", floats(&[1, 2], &[0.0; 2])), ("b", floats(&[3, 1], &[0.0; 3]))];
    refused("matmul", &unequal, &["c"], "dimension mismatch");
}

#[test]
fn a_shape_that_overflows_before_its_zero_fails_and_ends_nothing() {
    let mut instance = instance("identity/FP32");
    let input = Tensor::new(DataType::Fp32, Shape::new(&[4, 1 << 62, 0, 3]), Bytes::new()).unwrap();
    run(&mut *instance, &[("x", input)], &["y"]).unwrap_err();
    let deep = floats(&[1; 1000], &[1.0]);
    run(&mut *instance, &[("x", deep)], &["y"]).unwrap_err();
    let output = run(&mut *instance, &[("x", floats(&[1, 1], &[1.5]))], &["y"]).unwrap();
    assert_eq!(values(&output[0]), [1.5]);
}

#[test]
fn an_instance_runs_on_after_a_failure() {
    let mut instance = instance("gather");
    let bad = Tensor::from_vec(Shape::new(&[1]), vec![7i64]).unwrap();
    run(&mut *instance, &[("index", bad)], &["y"]).unwrap_err();
    let good = Tensor::from_vec(Shape::new(&[2]), vec![2i64, 0]).unwrap();
    let output = run(&mut *instance, &[("index", good)], &["y"]).unwrap().remove(0);
    assert_eq!(values(&output), [30.0, 10.0]);
}

#[test]
fn a_run_that_cannot_get_its_memory_says_so() {
    // The product would have 2^50 elements, and its parts none.
    let mut instance = instance("matmul");
    let side = 1 << 25;
    let (a, b) = (floats(&[side, 0], &[]), floats(&[0, side], &[]));
    let error = run(&mut *instance, &[("a", a), ("b", b)], &["c"]).unwrap_err();
    assert!(matches!(error, BackendError::OutOfMemory(_)), "{error:?}");
}

fn long(count: i64) -> [(&'static str, Tensor); 2] {
    let count = Tensor::from_vec(Shape::new(&[]), vec![count]).unwrap();
    [("count", count), ("x", floats(&[64, 64], &[0.01; 64 * 64]))]
}

#[test]
fn stopping_ends_a_run_within_moments_and_the_next_one_is_not_affected() {
    let mut instance = instance("long");
    let stop = Arc::new(Stop::new());
    let puller = std::thread::spawn({
        let stop = stop.clone();
        move || {
            std::thread::sleep(Duration::from_millis(50));
            stop.stop();
            Instant::now()
        }
    });
    let error = run_until(&mut *instance, &long(i64::MAX), &["y"], &stop).unwrap_err();
    let ended = Instant::now();
    assert!(matches!(&error, BackendError::Execute(text) if text.contains("stopped")), "{error:?}");
    assert!(ended - puller.join().unwrap() < Duration::from_secs(1));
    run(&mut *instance, &long(3), &["y"]).unwrap();
}

#[test]
fn a_batch_that_was_stopped_before_it_began_does_not_run() {
    let mut instance = instance("long");
    let stop = Stop::new();
    stop.stop();
    let error = run_until(&mut *instance, &long(i64::MAX), &["y"], &stop).unwrap_err();
    assert!(matches!(error, BackendError::Execute(_)));
}

#[test]
fn instances_of_one_model_run_side_by_side() {
    let model = load("mlp");
    let x = floats(&[3, 30], &[0.5; 90]);
    let expected = {
        let mut instance = model.instantiate(Device::Cpu).unwrap();
        values(&run(&mut *instance, &[("x", x.clone())], &["y"]).unwrap()[0])
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut instance = model.instantiate(Device::Cpu).unwrap();
                for _ in 0..500 {
                    let outputs = run(&mut *instance, &[("x", x.clone())], &["y"]).unwrap();
                    assert_eq!(values(&outputs[0]), expected);
                }
            });
        }
    });
}

#[test]
fn settings_of_memory_and_threads_do_not_change_results() {
    let x = floats(&[64, 30], &[0.5; 64 * 30]);
    let inputs = [("x", x)];
    let expected = run(&mut *instance("mlp"), &inputs, &["y"]).unwrap().remove(0);
    for options in [
        [("enable_mem_arena", "0"), ("enable_mem_pattern", "0")].as_slice(),
        &[("memory.enable_memory_arena_shrinkage", "cpu:0")],
        &[("execution_mode", "1"), ("inter_op_thread_count", "2"), ("intra_op_thread_count", "2")],
        &[("optimization.graph.level", "2")],
        &[("session.use_device_allocator_for_initializers", "1")],
    ] {
        let model = load_with("mlp", options);
        let mut instance = model.instantiate(Device::Cpu).unwrap();
        for _ in 0..2 {
            let output = run(&mut *instance, &inputs, &["y"]).unwrap().remove(0);
            for (found, expected) in values(&output).iter().zip(values(&expected)) {
                assert!((found - expected).abs() < 1e-5, "{options:?}");
            }
        }
    }
}
