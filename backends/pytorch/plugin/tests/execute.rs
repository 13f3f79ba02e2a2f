//! Batches through real modules: answers, types, names, memory.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::{fs, sync::Arc, thread};

use backend::{BackendError, Batch, DataType, Device, NamedTensor, Shape, Stop, Tensor};
use bytes::Bytes;
use serde_json::Value;
use support::*;

const FP32: DataType = DataType::Fp32;

/// A tensor of `expected.json`.
fn recorded(value: &Value, dtype: DataType) -> Tensor {
    let dims: Vec<usize> =
        value["shape"].as_array().unwrap().iter().map(|it| it.as_u64().unwrap() as usize).collect();
    let numbers = value["data"].as_array().unwrap();
    let shape = Shape::new(&dims);
    match dtype {
        DataType::Int64 => {
            Tensor::from_vec(shape, numbers.iter().map(|it| it.as_i64().unwrap()).collect())
        }
        DataType::Fp64 => {
            Tensor::from_vec(shape, numbers.iter().map(|it| it.as_f64().unwrap()).collect())
        }
        _ => {
            Tensor::from_vec(shape, numbers.iter().map(|it| it.as_f64().unwrap() as f32).collect())
        }
    }
    .unwrap()
}

fn all_close(given: &Tensor, expected: &Tensor, name: &str) {
    assert_eq!((given.dtype(), given.shape()), (expected.dtype(), expected.shape()), "{name}");
    let numbers = |it: &Tensor| -> Vec<f64> {
        let bytes = it.to_bytes();
        match it.dtype() {
            DataType::Fp64 => {
                bytes.as_chunks().0.iter().map(|it| f64::from_le_bytes(*it)).collect()
            }
            _ => values(it).iter().map(|it| f64::from(*it)).collect(),
        }
    };
    for (given, expected) in numbers(given).iter().zip(numbers(expected)) {
        let tolerance = 1e-5 * expected.abs().max(1.0);
        assert!((given - expected).abs() < tolerance, "{name}: {given}, expected {expected}");
    }
}

#[test]
fn modules_answer_as_they_do_in_python() {
    let expected = fs::read_to_string(path("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    let mut compared = 0;
    for (name, record) in expected.as_object().unwrap() {
        let dtype = match name.as_str() {
            "words" => DataType::Int64,
            "mlp_float64" => DataType::Fp64,
            // Halves are not among the types of this test.
            "mlp_float16" | "mlp_bfloat16" => continue,
            _ => FP32,
        };
        let out = if dtype == DataType::Int64 { FP32 } else { dtype };
        let inputs: Vec<Tensor> =
            record["inputs"].as_array().unwrap().iter().map(|it| recorded(it, dtype)).collect();
        let outputs: Vec<Tensor> =
            record["outputs"].as_array().unwrap().iter().map(|it| recorded(it, out)).collect();
        let name_of = |side: &str, at: usize| format!("{side}__{at}");
        let mut source = source(name);
        let open = |it: &Tensor| vec![-1; it.shape().dims().len()];
        source.hints.inputs = inputs
            .iter()
            .enumerate()
            .map(|(at, it)| hint(&name_of("INPUT", at), it.dtype(), &open(it)))
            .collect();
        // In the other order, so that the numbers count.
        source.hints.outputs = outputs
            .iter()
            .enumerate()
            .rev()
            .map(|(at, it)| hint(&name_of("OUTPUT", at), it.dtype(), &open(it)))
            .collect();
        let mut instance = instance(&source);
        let given: Vec<(String, Tensor)> =
            inputs.into_iter().enumerate().map(|(at, it)| (name_of("INPUT", at), it)).collect();
        let given: Vec<(&str, Tensor)> =
            given.iter().map(|(name, it)| (name.as_str(), it.clone())).collect();
        let names: Vec<String> = (0..outputs.len()).map(|at| name_of("OUTPUT", at)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let answers =
            run(&mut *instance, &given, &names).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (answer, expected) in answers.iter().zip(&outputs) {
            all_close(answer, expected, name);
        }
        compared += 1;
    }
    assert!(compared > 10, "{compared}");
}

#[test]
fn every_type_comes_back_as_it_went_in() {
    let types = [
        DataType::Bool,
        DataType::Uint8,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Fp16,
        DataType::Bf16,
        DataType::Fp32,
        DataType::Fp64,
    ];
    for dtype in types {
        let source = configured("identity", &[("x", dtype, &[-1, -1])], &[("y", dtype, &[-1, -1])]);
        let mut instance = instance(&source);
        let bytes = 3 * 2 * dtype.size().unwrap();
        let data: Vec<u8> = match dtype {
            DataType::Bool => vec![0, 1, 1, 0, 0, 1],
            _ => (0..bytes).map(|it| (it * 37 + 11) as u8).collect(),
        };
        // Aligned, at an odd address, and in two pieces.
        let shape = Shape::new(&[3, 2]);
        let tensor = Tensor::new(dtype, shape.clone(), data.clone().into()).unwrap();
        let odd = Bytes::from([&[0], &*data].concat()).slice(1..);
        let odd = Tensor::new(dtype, shape, odd).unwrap();
        let halves = [tensor.slice_rows(0, 1).unwrap(), odd.slice_rows(1, 2).unwrap()];
        let pieces = Tensor::concat(&halves).unwrap();
        for input in [tensor, odd, pieces] {
            let output = run(&mut *instance, &[("x", input)], &["y"]).unwrap().remove(0);
            assert_eq!((output.dtype(), output.shape().dims()), (dtype, [3, 2].as_slice()));
            assert_eq!(output.to_bytes(), data, "{dtype}");
        }
    }
}

#[test]
fn truth_is_whatever_is_not_zero() {
    let source =
        configured("identity", &[("x", DataType::Bool, &[-1])], &[("y", DataType::Bool, &[-1])]);
    let mut instance = instance(&source);
    let input = Tensor::new(DataType::Bool, Shape::new(&[3]), Bytes::from_static(&[0, 7, 255]));
    let output = run(&mut *instance, &[("x", input.unwrap())], &["y"]).unwrap().remove(0);
    assert_eq!(*output.to_bytes(), [0, 1, 1]);
}

#[test]
fn zero_rows_give_zero_rows() {
    let mut instance = instance(&source("mlp"));
    let input = Tensor::new(FP32, Shape::new(&[0, 5]), Bytes::new()).unwrap();
    let output = run(&mut *instance, &[("x", input)], &["OUTPUT__0"]).unwrap().remove(0);
    assert_eq!((output.shape().dims(), output.byte_len()), ([0, 3].as_slice(), 0));
}

#[test]
fn a_scalar_has_no_dimensions() {
    let source = configured("total", &[("x", FP32, &[-1, -1])], &[("y", FP32, &[])]);
    let mut instance = instance(&source);
    let output = run(&mut *instance, &[("x", floats(&[1, 2], &[1.5, 2.0]))], &["y"]).unwrap();
    assert_eq!((output[0].shape().dims(), values(&output[0])), ([].as_slice(), vec![3.5]));
}

#[test]
fn dictionaries_go_in_and_out_by_their_keys() {
    let inputs: [(_, _, &[i64]); 2] = [("right", FP32, &[-1]), ("left", FP32, &[-1])];
    let source = configured("dict", &inputs, &[("left", FP32, &[-1]), ("sum", FP32, &[-1])]);
    let mut instance = instance(&source);
    let given = [("left", floats(&[2], &[1.0, 2.0])), ("right", floats(&[2], &[10.0, 20.0]))];
    let outputs = run(&mut *instance, &given, &["sum", "left"]).unwrap();
    assert_eq!(outputs.iter().map(values).collect::<Vec<_>>(), [[11.0, 22.0], [1.0, 2.0]]);
    let model = load(&configured("dict", &inputs, &[]));
    let names: Vec<String> = dims(&*model).into_iter().map(|it| it.0).collect();
    assert_eq!(names, ["right", "left", "sum", "left"]);
    let text = load_error(&configured("dict", &inputs, &[("total", FP32, &[-1])]));
    assert!(
        text.contains("output 'total' is no key of what forward returns: 'sum', 'left'"),
        "{text}"
    );
}

#[test]
fn lists_and_nested_tuples_are_counted_value_by_value() {
    let x = || [("x", floats(&[1, 2], &[1.0, 2.0]))];
    let input: [(_, _, &[i64]); 1] = [("x", FP32, &[-1, 2])];
    let model = load(&configured("nested", &input, &[]));
    let expected: [(String, DataType, Vec<i64>); 4] = [
        ("x".to_owned(), FP32, vec![-1, 2]),
        ("OUTPUT__0".to_owned(), FP32, vec![-1, 2]),
        ("OUTPUT__1".to_owned(), FP32, vec![-1]),
        ("OUTPUT__2".to_owned(), DataType::Int64, vec![]),
    ];
    assert_eq!(dims(&*model), expected);
    let mut instance = model.instantiate(Device::Cpu).unwrap();
    let outputs = run(&mut *instance, &x(), &["OUTPUT__2", "OUTPUT__1"]).unwrap();
    assert_eq!(outputs[0].as_slice_of::<i64>().map(<[i64]>::to_vec), Some(vec![7]));
    assert_eq!(values(&outputs[1]), [3.0]);

    let mut list = support::instance(&configured("list", &input, &[]));
    let output = run(&mut *list, &x(), &["OUTPUT__2"]).unwrap().remove(0);
    assert_eq!(values(&output), [3.0, 6.0]);
}

#[test]
fn a_named_tuple_has_its_names() {
    let source = configured("named", &[("x", FP32, &[-1, -1])], &[]);
    let mut instance = instance(&source);
    let given = [("x", floats(&[1, 3], &[2.0, 1.0, 5.0]))];
    let outputs = run(&mut *instance, &given, &["high", "low"]).unwrap();
    assert_eq!(outputs.iter().map(values).collect::<Vec<_>>(), [[5.0], [1.0]]);
}

#[test]
fn lists_of_strings_go_in_and_out() {
    let strings: [&[u8]; 3] = [b"", b"abc", "žluť".as_bytes()];
    let input = Tensor::from_strings(Shape::new(&[3]), strings).unwrap();
    let output =
        run(&mut *instance(&source("lengths")), &[("texts", input.clone())], &["OUTPUT__0"]);
    assert_eq!(output.unwrap()[0].as_slice_of::<i64>().map(<[i64]>::to_vec), Some(vec![0, 3, 6]));
    let output = run(&mut *instance(&source("echo")), &[("texts", input)], &["OUTPUT__0"]);
    let output = output.unwrap().remove(0);
    let expected = ["!", "abc!", "žluť!"].map(str::as_bytes);
    assert_eq!(output.strings().collect::<Vec<_>>(), expected);
}

#[test]
fn an_argument_with_a_default_may_be_left_out() {
    let x: (_, _, &[i64]) = ("x", FP32, &[-1, 3]);
    let source = configured("optional", &[x, ("bias", FP32, &[-1, 2])], &[("y", FP32, &[-1, 2])]);
    let model = load(&source);
    assert!(model.spec().unwrap().inputs[1].optional);
    let mut instance = model.instantiate(Device::Cpu).unwrap();
    let x = || ("x", floats(&[1, 3], &[1.0; 3]));
    let without = run(&mut *instance, &[x()], &["y"]).unwrap().remove(0);
    let bias = ("bias", floats(&[1, 2], &[10.0, 20.0]));
    let with = run(&mut *instance, &[x(), bias], &["y"]).unwrap().remove(0);
    let difference: Vec<f32> =
        values(&with).iter().zip(values(&without)).map(|(a, b)| (a - b).round()).collect();
    assert_eq!(difference, [10.0, 20.0]);
}

#[test]
fn a_module_that_writes_to_its_input_does_not_reach_the_requests_memory() {
    let options: [&[(&str, &str)]; 3] =
        [&[], &[("FREEZE", "false")], &[("OPTIMIZE_FOR_INFERENCE", "false")]];
    for options in options {
        let source = configured("in_place", &[("x", FP32, &[-1, -1])], &[("y", FP32, &[-1, -1])]);
        let mut instance = instance(&with(source, options));
        let x = floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let output = run(&mut *instance, &[("x", x.clone())], &["y"]).unwrap().remove(0);
        assert_eq!(values(&output), [101.0, 102.0, 3.0, 4.0]);
        assert_eq!(values(&x), [1.0, 2.0, 3.0, 4.0]);

        let source =
            configured("in_place_dict", &[("x", FP32, &[-1])], &[("OUTPUT__0", FP32, &[-1])]);
        // Its output has no key: a dictionary goes in, a tensor comes out.
        let mut instance = support::instance(&with(source, options));
        let x = floats(&[2], &[1.0, 2.0]);
        let output = run(&mut *instance, &[("x", x.clone())], &["OUTPUT__0"]).unwrap().remove(0);
        assert_eq!((values(&output), values(&x)), (vec![2.0, 4.0], vec![1.0, 2.0]));
    }
}

#[test]
fn an_output_that_is_the_input_is_a_copy_and_a_large_one_outlives_its_instance() {
    let source = configured("identity", &[("x", FP32, &[-1])], &[("y", FP32, &[-1])]);
    let mut instance = instance(&source);
    let numbers: Vec<f32> = (0..5000).map(|it| it as f32).collect();
    let x = floats(&[5000], &numbers);
    let output = run(&mut *instance, &[("x", x.clone())], &["y"]).unwrap().remove(0);
    assert_ne!(output.to_bytes().as_ptr(), x.to_bytes().as_ptr());
    drop((instance, x));
    assert_eq!(values(&output), numbers);
}

#[test]
fn an_output_that_is_a_view_is_put_in_order() {
    let source = configured("transposed", &[("x", FP32, &[-1, -1])], &[("y", FP32, &[-1, -1])]);
    let x = floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let output = run(&mut *instance(&source), &[("x", x)], &["y"]).unwrap().remove(0);
    assert_eq!(output.shape().dims(), [3, 2]);
    assert_eq!(values(&output), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
}

#[test]
fn instances_share_the_weights() {
    let model = load(&source("constant"));
    let table = || {
        let mut instance = model.instantiate(Device::Cpu).unwrap();
        let x = floats(&[1, 4], &[0.0; 4]);
        run(&mut *instance, &[("x", x)], &["OUTPUT__0"]).unwrap().remove(0).to_bytes()
    };
    // It returns its weights, which are too large to be copied.
    let (first, second) = (table(), table());
    assert_eq!((first.len(), first.as_ptr()), (4800, second.as_ptr()));
}

#[test]
fn instances_of_a_module_with_state_have_a_state_each() {
    let source =
        configured("counter", &[("x", FP32, &[-1])], &[("y", FP32, &[-1]), ("last", FP32, &[-1])]);
    let model = load(&source);
    let mut instances = [(); 2].map(|()| model.instantiate(Device::Cpu).unwrap());
    for instance in &mut instances {
        for count in 1..=3u8 {
            let x = floats(&[2], &[f32::from(count) * 10.0; 2]);
            let outputs = run(&mut **instance, &[("x", x)], &["y", "last"]).unwrap();
            assert_eq!(values(&outputs[0]), [f32::from(count) * 11.0; 2]);
            // What it kept of the run before was memory of its own.
            let last = values(&outputs[1]);
            assert_eq!(last.first(), Some(&(f32::from(count - 1) * 10.0)));
        }
    }
}

#[test]
fn what_a_module_with_state_has_answered_does_not_change_with_it() {
    let source = configured("accumulator", &[("x", FP32, &[-1, 4])], &[("y", FP32, &[4])]);
    let mut instance = instance(&source);
    let mut answer = || {
        let x = floats(&[2000, 4], &[1.0; 8000]);
        run(&mut *instance, &[("x", x)], &["y"]).unwrap().remove(0)
    };
    let (first, second) = (answer(), answer());
    // What was in the buffer when it was saved is below 1.
    let rounded = |it: &Tensor| values(it).iter().map(|it| it.round()).collect::<Vec<f32>>();
    assert_eq!((rounded(&first), rounded(&second)), (vec![2000.0; 4], vec![4000.0; 4]));
}

#[test]
fn many_threads_that_run_one_module_get_the_same_answers() {
    for name in ["mlp", "conv", "words"] {
        let model = load(&source(name));
        let input = &model.spec().unwrap().inputs[0];
        let shape: Vec<usize> = input.dims.iter().map(|it| it.unwrap_or(8)).collect();
        let shape = Shape::new(&shape);
        let elements = shape.elements().unwrap();
        let input = match input.dtype {
            DataType::Int64 => {
                Tensor::from_vec(shape, (0..elements).map(|it| it as i64 % 10).collect())
            }
            _ => Tensor::from_vec(shape, (0..elements).map(|it| it as f32 / 50.0).collect()),
        };
        let given = [(&*model.spec().unwrap().inputs[0].name, input.unwrap())];
        let run_once = |instance: &mut dyn backend::Instance| {
            run(instance, &given, &["OUTPUT__0"]).unwrap().remove(0).to_bytes()
        };
        let expected = run_once(&mut *model.instantiate(Device::Cpu).unwrap());
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut instance = model.instantiate(Device::Cpu).unwrap();
                    for _ in 0..500 {
                        assert_eq!(run_once(&mut *instance), expected, "{name}");
                    }
                });
            }
        });
    }
}

#[test]
fn wrong_names_types_and_sizes_are_the_requests_fault_and_the_next_run_works() {
    let source = configured("mlp", &[("x", FP32, &[-1, -1])], &[("y", FP32, &[-1, 3])]);
    let mut instance = instance(&source);
    let mut check =
        |inputs: &[(&str, Tensor)], text: &str| match run(&mut *instance, inputs, &["y"]) {
            Err(BackendError::InvalidInput(given)) => assert_eq!(given, text),
            other => panic!("{other:?}"),
        };
    let good = || floats(&[1, 5], &[1.0; 5]);
    check(&[], "input 'x' is missing");
    check(&[("x", good()), ("z", good())], "the model has no input 'z'");
    let integers = Tensor::zeros(DataType::Int64, Shape::new(&[1, 5])).unwrap();
    check(&[("x", integers)], "input 'x' is INT64, expected FP32");
    check(
        &[("x", floats(&[1, 4], &[1.0; 4]))],
        "mat1 and mat2 shapes cannot be multiplied (1x4 and 5x8)",
    );
    assert!(run(&mut *instance, &[("x", good())], &["y"]).is_ok());
    match run(&mut *instance, &[("x", good())], &["q"]) {
        Err(BackendError::InvalidInput(text)) => assert_eq!(text, "the model has no output 'q'"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_number_that_is_in_no_table_is_the_requests_fault() {
    let mut instance = instance(&source("words"));
    let ids = |id| Tensor::from_vec(Shape::new(&[1, 1]), vec![id]).unwrap();
    match run(&mut *instance, &[("ids", ids(10i64))], &["OUTPUT__0"]) {
        Err(BackendError::InvalidInput(text)) => assert_eq!(text, "index out of range in self"),
        other => panic!("{other:?}"),
    }
    assert!(run(&mut *instance, &[("ids", ids(9))], &["OUTPUT__0"]).is_ok());
}

#[test]
fn what_a_module_raises_is_an_execution_error_in_its_own_words() {
    let source = configured("picky", &[("x", FP32, &[-1, 3])], &[("y", FP32, &[-1, 3])]);
    let mut instance = instance(&source);
    let zeros = floats(&[1, 3], &[0.0; 3]);
    match run(&mut *instance, &[("x", zeros)], &["y"]) {
        Err(BackendError::Execute(text)) => {
            assert_eq!(text, "builtins.ValueError: all of it is zero");
        }
        other => panic!("{other:?}"),
    }
    let output = run(&mut *instance, &[("x", floats(&[1, 3], &[1.0, 1.0, 2.0]))], &["y"]).unwrap();
    assert_eq!(values(&output[0]), [0.25, 0.25, 0.5]);
}

#[test]
fn memory_that_runs_out_is_told_as_that() {
    let source = configured("huge", &[("x", FP32, &[-1])], &[("y", FP32, &[-1, -1])]);
    match run(&mut *instance(&source), &[("x", floats(&[1], &[1.0]))], &["y"]) {
        Err(BackendError::OutOfMemory(text)) => assert!(text.contains("can't allocate memory")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stopped_batch_is_not_begun() {
    let mut instance = instance(&source("mlp"));
    let stop = Stop::new();
    stop.stop();
    let inputs = [NamedTensor { name: "x".into(), tensor: floats(&[1, 5], &[1.0; 5]) }];
    let outputs: [Arc<str>; 1] = ["OUTPUT__0".into()];
    let batch = Batch { signature: 0, inputs: &inputs, outputs: &outputs, rows: 1, stop: &stop };
    assert!(matches!(instance.execute(&batch), Err(BackendError::Execute(_))));
}

#[test]
fn numbers_are_read_from_tensors_of_one_element() {
    let x: (_, _, &[i64]) = ("x", FP32, &[-1, 4]);
    let mut given = vec![("x", floats(&[1, 4], &[0.5; 4]))];
    let number = |dtype, bytes: &[u8]| {
        Tensor::new(dtype, Shape::new(&[]), Bytes::copy_from_slice(bytes)).unwrap()
    };
    let times = |it: i64| ("times", number(DataType::Int64, &it.to_le_bytes()));
    let model = load(&source("scaled"));
    assert_eq!(
        dims(&*model)[1..3],
        [
            ("times".to_owned(), DataType::Int64, vec![]),
            ("offset".to_owned(), DataType::Fp64, vec![])
        ]
    );
    let mut plain = model.instantiate(Device::Cpu).unwrap();
    let mut answer = |given: &[(&str, Tensor)]| run(&mut *plain, given, &["OUTPUT__0"]);
    given.push(times(0));
    given.push(("offset", number(DataType::Fp64, &0.25_f64.to_le_bytes())));
    assert_eq!(values(&answer(&given).unwrap()[0]), [0.25, 0.25]);
    given[1] = times(1);
    let once: Vec<f32> = values(&answer(&given).unwrap()[0]).iter().map(|it| it - 0.25).collect();
    given[1] = times(3);
    let thrice = values(&answer(&given).unwrap()[0]);
    for (thrice, once) in thrice.iter().zip(&once) {
        assert!((thrice - 0.25 - once * 3.0).abs() < 1e-5, "{thrice} {once}");
    }

    let inputs: [(_, _, &[i64]); 4] = [
        x,
        ("times", DataType::Int64, &[1]),
        ("offset", FP32, &[1, 1]),
        ("negated", DataType::Bool, &[1]),
    ];
    let mut whole = instance(&configured("scaled", &inputs, &[("y", FP32, &[-1, 2])]));
    given[2] = ("offset", number(FP32, &0.25_f32.to_le_bytes()));
    assert_eq!(values(&run(&mut *whole, &given, &["y"]).unwrap()[0]), thrice);
    given.push(("negated", number(DataType::Bool, &[1])));
    let negated: Vec<f32> = thrice.iter().map(|it| -it).collect();
    assert_eq!(values(&run(&mut *whole, &given, &["y"]).unwrap()[0]), negated);

    let wrong = [x, ("times", DataType::Int32, &[1]), ("offset", FP32, &[1])];
    let text = load_error(&configured("scaled", &wrong, &[]));
    assert!(
        text.contains("input 'times': data_type is TYPE_INT32") && text.contains("TYPE_INT64"),
        "{text}"
    );
}
