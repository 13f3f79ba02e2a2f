//! What is computed is what is asked for.

use backend::{Shape, Stop};

use super::*;
use crate::forest::{
    document::Tree,
    layout::{Extras, lay_out_with},
    testing::{document, stump},
};

fn instance(forests: usize) -> TreeInstance {
    of_trees(forests, 2)
}

fn of_trees(forests: usize, trees: usize) -> TreeInstance {
    let tree = Tree { covers: vec![4.0, 1.0, 3.0], ..stump() };
    let extras = Extras { leaves: true, contributions: true };
    let forest = lay_out_with(document(vec![tree; trees]), extras).unwrap().forest;
    let output = |name: &str, form, dtype| Output {
        name: name.into(),
        form,
        dtype,
        class_numbers: None,
        class_names: None,
    };
    let outputs = vec![
        output("output__0", Form::Predictions, DataType::Fp64),
        output("leaf", Form::Leaves, DataType::Int32),
        output("treeshap_output", Form::Contributions { is_flat: false }, DataType::Fp32),
    ];
    let forests = vec![forest; forests];
    TreeInstance::new(Arc::new(Shared { forests, outputs, ..Shared::default() }))
}

fn run(instance: &mut TreeInstance, outputs: &[&str]) -> Vec<NamedTensor> {
    let rows = Tensor::from_vec(Shape::new(&[2, 2]), vec![0.0_f32, 7.0, 1.0, 7.0]).unwrap();
    run_rows(instance, outputs, rows)
}

/// A run of two rows.
fn run_rows(instance: &mut TreeInstance, outputs: &[&str], rows: Tensor) -> Vec<NamedTensor> {
    let inputs = [NamedTensor { name: "input__0".into(), tensor: rows }];
    let outputs: Vec<Arc<str>> = outputs.iter().map(|it| (*it).into()).collect();
    let stop = Stop::new();
    let batch = Batch { inputs: &inputs, outputs: &outputs, rows: 2, stop: &stop, signature: 0 };
    instance.execute(&batch).unwrap()
}

#[test]
fn shap_is_computed_only_where_it_is_asked_for() {
    let mut instance = instance(1);
    for outputs in [["output__0"].as_slice(), &["leaf", "output__0"]] {
        run(&mut instance, outputs);
    }
    assert_eq!(instance.scratch.rows, 0);
    let made = run(&mut instance, &["treeshap_output", "output__0"]);
    assert_eq!(instance.scratch.rows, 2);
    // Two trees of 1 on the left, where a quarter goes, and 2 on the right.
    assert_eq!(made[0].tensor.shape().dims(), [2, 3]);
    let expected = [-1.5_f32, 0.0, 3.5, 0.5, 0.0, 3.5];
    assert_eq!(made[0].tensor.as_slice_of::<f32>().unwrap(), expected);
    assert_eq!(made[1].tensor.as_slice_of::<f64>().unwrap(), [2.0, 4.0]);
}

#[test]
fn leaves_are_those_of_all_trees() {
    let mut instance = instance(2);
    let made = run(&mut instance, &["leaf", "treeshap_output"]);
    assert_eq!(made[0].tensor.shape().dims(), [2, 4]);
    assert_eq!(made[0].tensor.as_slice_of::<i32>().unwrap(), [1, 1, 1, 1, 2, 2, 2, 2]);
    // The mean of both forests.
    let expected = [-1.5_f32, 0.0, 3.5, 0.5, 0.0, 3.5];
    assert_eq!(made[1].tensor.as_slice_of::<f32>().unwrap(), expected);
}

#[test]
fn more_numbers_than_a_run_may_have_are_refused_before_memory_is_taken() {
    let refused = |trees: usize, output: &str, rows: usize| {
        let mut instance = of_trees(1, trees);
        let tensor = Tensor::from_vec(Shape::new(&[rows, 2]), vec![0.0_f32; 2 * rows]).unwrap();
        let inputs = [NamedTensor { name: "input__0".into(), tensor }];
        let (outputs, stop) = ([output.into()], Stop::new());
        // A run that goes on ends soon, when it has its memory.
        stop.stop();
        let batch = Batch { inputs: &inputs, outputs: &outputs, rows, stop: &stop, signature: 0 };
        instance.execute(&batch).unwrap_err().to_string()
    };
    let explained = "at most 65536 rows are explained at once";
    let leaves = refused(1024, "leaf", (1 << 16) + 1);
    assert!(leaves.contains("'leaf' of 65537 rows has 1024 numbers each; at most"), "{leaves}");
    assert!(leaves.contains(explained), "{leaves}");
    assert!(refused(1024, "leaf", 1 << 16).contains("stopped"));
    let most = (1 << 26) / 3;
    let contributions = refused(1, "treeshap_output", most + 1);
    assert!(contributions.contains(&format!("at most {most} rows")), "{contributions}");
}

#[test]
fn classes_are_answered_by_their_numbers() {
    let forest = lay_out_with(document(vec![stump()]), Extras::default()).unwrap().forest;
    let output = |name: &str, dtype, numbers: &[i64]| Output {
        name: name.into(),
        // The leaves are 1 and 2.
        form: Form::Class { threshold: 1.5 },
        dtype,
        class_numbers: Some(numbers.into()),
        class_names: None,
    };
    let outputs = vec![
        output("label", DataType::Int64, &[-7, 30]),
        output("single", DataType::Fp32, &[-7, 30]),
        output("only", DataType::Int64, &[5]),
    ];
    let shared = Shared { forests: vec![forest], outputs, ..Shared::default() };
    let made = run(&mut TreeInstance::new(Arc::new(shared)), &["label", "single", "only"]);
    assert_eq!(made[0].tensor.as_slice_of::<i64>().unwrap(), [-7, 30]);
    assert_eq!(made[1].tensor.as_slice_of::<f32>().unwrap(), [-7.0, 30.0]);
    assert_eq!(made[2].tensor.as_slice_of::<i64>().unwrap(), [5, 5]);
}

#[test]
fn a_number_that_means_missing_goes_where_a_missing_value_goes() {
    let tree = Tree { default_left: vec![true, false, false], ..stump() };
    let forest = lay_out_with(document(vec![tree]), Extras::default()).unwrap().forest;
    let of = |missing: Option<f64>, rows: Tensor| {
        let outputs = vec![Output {
            name: "output__0".into(),
            form: Form::Predictions,
            dtype: DataType::Fp64,
            class_numbers: None,
            class_names: None,
        }];
        let shared =
            Shared { forests: vec![forest.clone()], missing, outputs, ..Shared::default() };
        let mut instance = TreeInstance::new(Arc::new(shared));
        let made = run_rows(&mut instance, &["output__0"], rows);
        made[0].tensor.as_slice_of::<f64>().unwrap().to_vec()
    };
    // Left is 1, right 2. What is large goes right, unless it is missing.
    let single = |it: f32| Tensor::from_vec(Shape::new(&[2, 2]), vec![it, 7.0, 0.0, 7.0]).unwrap();
    let double = |it: f64| Tensor::from_vec(Shape::new(&[2, 2]), vec![it, 7.0, 0.0, 7.0]).unwrap();
    for (missing, given, expected) in [
        (None, 999.0, [2.0, 1.0]),
        (Some(999.0), 999.0, [1.0, 1.0]),
        (Some(999.0), 998.0, [2.0, 1.0]),
        (Some(999.0), f64::NAN, [1.0, 1.0]),
    ] {
        assert_eq!(of(missing, single(given as f32)), expected, "{missing:?} {given}");
        assert_eq!(of(missing, double(given)), expected, "{missing:?} {given}");
    }
}
