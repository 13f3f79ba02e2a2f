//! Finding out what modules take, without libtorch: a module is a function of shapes.

use super::*;
use crate::{
    inputs::assign,
    interface::{Parameter, ParameterKind, Weight},
    outputs::Fact,
};

type Answer = Result<Vec<Fact>, String>;

/// A module that is a function, and the runs that were made of it.
struct Fake<F> {
    module: F,
    rows_depend: bool,
    runs: usize,
    most: usize,
}

impl<F: Fn(&[Sample]) -> Answer> Trial for Fake<F> {
    fn run(&mut self, samples: &[Sample]) -> Result<Vec<Fact>, TrialError> {
        self.runs += 1;
        (self.module)(samples).map_err(TrialError::new)
    }

    fn rows_are_apart(&mut self, _: &[Sample], _: &[usize]) -> Result<(), TrialError> {
        match self.rows_depend {
            true => Err(TrialError::new("it depends on the other rows")),
            false => Ok(()),
        }
    }

    fn is_over(&self) -> bool {
        self.runs >= self.most
    }

    fn is_long_over(&self) -> bool {
        self.runs >= self.most * 2
    }
}

fn interface(names: &[&str]) -> Interface {
    let parameter = |name: &&str| Parameter {
        name: (*name).to_owned(),
        type_name: "Tensor".to_owned(),
        kind: ParameterKind::Tensor,
        has_default: false,
    };
    Interface { parameters: names.iter().map(parameter).collect(), ..Interface::default() }
}

fn weight(class: &str, dims: &[usize]) -> Weight {
    Weight {
        name: "weight".to_owned(),
        class: class.to_owned(),
        dtype: Some(DataType::Fp32),
        dims: dims.to_vec(),
    }
}

fn fact(dims: &[usize]) -> Fact {
    Fact { key: None, dtype: Ok(DataType::Fp32), dims: dims.to_vec() }
}

fn hint(name: &str, dtype: DataType, dims: &[i64]) -> TensorHint {
    let dims = dims.iter().map(|&it| usize::try_from(it).ok()).collect();
    TensorHint { name: name.into(), dtype: Some(dtype), dims: Some(dims) }
}

fn found(
    interface: &Interface,
    hints: &Hints,
    module: impl Fn(&[Sample]) -> Answer,
) -> Result<Findings, String> {
    let inputs = assign(interface, &hints.inputs).unwrap();
    find(interface, &inputs, hints, &mut Fake { module, rows_depend: false, runs: 0, most: 500 })
        .map_err(|it| it.to_string())
}

fn dims(specs: &[TensorSpec]) -> Vec<Vec<i64>> {
    let size = |it: &Option<usize>| it.map_or(-1, |it| i64::try_from(it).unwrap());
    specs.iter().map(|it| it.dims.iter().map(size).collect()).collect()
}

/// Takes rows of 30 floats and gives rows of 2.
fn linear(samples: &[Sample]) -> Answer {
    let Sample { dtype: DataType::Fp32, dims } = &samples[0] else {
        return Err("mat1 and mat2 must have the same dtype, but got Long and Float".to_owned());
    };
    match dims.as_slice() {
        [before @ .., 30] => Ok(vec![fact(&[before, &[2]].concat())]),
        [before @ .., last] => {
            let rows: usize = before.iter().product();
            Err(format!("mat1 and mat2 shapes cannot be multiplied ({rows}x{last} and 30x2)"))
        }
        [] => Err("both arguments to linear need to be at least 1D".to_owned()),
    }
}

const FP32: DataType = DataType::Fp32;

#[test]
fn what_is_configured_is_the_spec_where_it_works() {
    let hints = Hints {
        inputs: vec![hint("x", FP32, &[-1, 30])],
        outputs: vec![hint("y", FP32, &[-1, 2])],
        ..Hints::default()
    };
    let found = found(&interface(&["x"]), &hints, linear).unwrap();
    assert_eq!(
        (dims(&found.spec.inputs), dims(&found.spec.outputs)),
        (vec![vec![-1, 30]], vec![vec![-1, 2]])
    );
    assert_eq!((&*found.spec.inputs[0].name, &*found.spec.outputs[0].name), ("x", "y"));
    assert_eq!(found.warning, None);
}

#[test]
fn outputs_are_told_as_they_come_out_whatever_is_configured() {
    let hints = Hints {
        inputs: vec![hint("x", FP32, &[-1, 30])],
        outputs: vec![hint("y", DataType::Int64, &[-1, 7])],
        ..Hints::default()
    };
    let found = found(&interface(&["x"]), &hints, linear).unwrap();
    assert_eq!(found.spec.outputs[0].dtype, FP32);
    assert_eq!(dims(&found.spec.outputs), [vec![-1, 2]]);
}

#[test]
fn an_output_that_does_not_follow_the_rows_of_a_batch_is_told_with_its_size() {
    let hints = Hints {
        inputs: vec![hint("x", FP32, &[-1, 30])],
        outputs: vec![hint("y", FP32, &[-1, -1])],
        ..Hints::default()
    };
    let found = found(&interface(&["x"]), &hints, |_| Ok(vec![fact(&[1, 9])])).unwrap();
    assert_eq!(dims(&found.spec.outputs), [vec![1, -1]]);
}

#[test]
fn a_linear_layer_tells_the_width_by_its_weight_or_by_the_text() {
    let with_weight = Interface { weights: vec![weight("Linear", &[2, 30])], ..interface(&["x"]) };
    for interface in [with_weight, interface(&["x"])] {
        let found = found(&interface, &Hints::default(), linear).unwrap();
        assert_eq!(dims(&found.spec.inputs), [vec![-1, 30]]);
        assert_eq!(dims(&found.spec.outputs), [vec![-1, 2]]);
        assert_eq!(&*found.spec.outputs[0].name, "OUTPUT__0");
    }
}

#[test]
fn a_wrong_configuration_is_not_believed_where_another_shape_works() {
    let hints = Hints {
        inputs: vec![hint("x", FP32, &[-1, 31])],
        outputs: vec![hint("y", FP32, &[-1, 2])],
        ..Hints::default()
    };
    let found = found(&interface(&["x"]), &hints, linear).unwrap();
    assert_eq!(dims(&found.spec.inputs), [vec![-1, 30]]);
}

#[test]
fn a_dimension_that_is_configured_as_open_and_is_of_one_size_stays_open() {
    let hints = Hints {
        inputs: vec![hint("x", FP32, &[-1, -1])],
        outputs: vec![hint("y", FP32, &[-1, 2])],
        ..Hints::default()
    };
    let found = found(&interface(&["x"]), &hints, linear).unwrap();
    assert_eq!(dims(&found.spec.inputs), [vec![-1, -1]]);
    assert_eq!(found.sample.unwrap()[0].dims, [2, 30]);
}

#[test]
fn a_configuration_that_only_fails_on_zeros_is_kept_with_a_warning() {
    let hints = Hints {
        inputs: vec![hint("x", FP32, &[-1, 3])],
        outputs: vec![hint("y", FP32, &[-1, 3])],
        ..Hints::default()
    };
    let refuse = |_: &[Sample]| Err("builtins.ValueError: all of it is zero".to_owned());
    let found = found(&interface(&["x"]), &hints, refuse).unwrap();
    assert_eq!(dims(&found.spec.inputs), [vec![-1, 3]]);
    assert!(found.warning.unwrap().contains("all of it is zero"));
}

#[test]
fn inputs_of_different_widths_are_told_apart() {
    let two = Interface {
        weights: vec![weight("Linear", &[2, 4]), weight("Linear", &[2, 6])],
        ..interface(&["wide", "narrow"])
    };
    let module = |samples: &[Sample]| match (samples[0].dims.as_slice(), samples[1].dims.as_slice())
    {
        ([a, 6], [b, 4]) if a == b => Ok(vec![fact(&[*a, 2])]),
        _ => Err("no".to_owned()),
    };
    let found = found(&two, &Hints::default(), module).unwrap();
    assert_eq!(dims(&found.spec.inputs), [vec![-1, 6], vec![-1, 4]]);
}

#[test]
fn an_element_wise_module_is_ambiguous_and_the_lines_to_write_are_shown() {
    let same = |samples: &[Sample]| Ok(vec![fact(&samples[0].dims)]);
    let text = found(&interface(&["x"]), &Hints::default(), same).unwrap_err();
    for part in [
        "it takes FP32 [2,7] as well as FP32 [2,3,31,37]",
        "input { name: \"x\" data_type: .. dims: [ .. ] }",
        "output { name: \"OUTPUT__0\" data_type: .. dims: [ .. ] }",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn inputs_that_only_have_to_fit_each_other_are_ambiguous() {
    let sum = |samples: &[Sample]| match samples[0] == samples[1] {
        true => Ok(vec![fact(&samples[0].dims)]),
        false => {
            Err("The size of tensor a (7) must match the size of tensor b (37) at non-singleton \
                      dimension 3"
                .to_owned())
        }
    };
    let text = found(&interface(&["a", "b"]), &Hints::default(), sum).unwrap_err();
    assert!(text.contains("it takes FP32 [2,7] with FP32 [2,7] as well as"), "{text}");
}

#[test]
fn of_a_size_that_may_grow_a_little_is_not_said_which_one_it_is() {
    let strided = |samples: &[Sample]| match samples[0].dims.as_slice() {
        &[rows, 1, 28..=31, 28..=31] => Ok(vec![fact(&[rows, 3])]),
        _ => Err("mat1 and mat2 shapes cannot be multiplied (2x98 and 72x3)".to_owned()),
    };
    let interface =
        Interface { weights: vec![weight("Conv2d", &[2, 1, 5, 5])], ..interface(&["image"]) };
    let found = found(&interface, &Hints::default(), strided).unwrap();
    assert_eq!(dims(&found.spec.inputs), [vec![-1, 1, -1, -1]]);
}

#[test]
fn a_module_that_takes_one_row_only_gets_a_warning() {
    let hints = Hints {
        inputs: vec![hint("x", FP32, &[-1, 30])],
        outputs: vec![hint("y", FP32, &[-1, 2])],
        ..Hints::default()
    };
    let single = |samples: &[Sample]| match samples[0].dims.as_slice() {
        [1, 30] => Ok(vec![fact(&[1, 2])]),
        _ => Err("shape '[1, 30]' is invalid for input of size 60".to_owned()),
    };
    let warning = found(&interface(&["x"]), &hints, single).unwrap().warning.unwrap();
    assert!(warning.contains("with 1 in the first dimension succeeded, and one with 2 did not"));
}

#[test]
fn what_is_configured_in_part_is_kept_and_completed() {
    let mut hints =
        Hints { inputs: vec![hint("x", FP32, &[-1, -1])], outputs: Vec::new(), ..Hints::default() };
    hints.inputs[0].dims = None;
    let found = found(&interface(&["x"]), &hints, linear).unwrap();
    assert_eq!(dims(&found.spec.inputs), [vec![-1, 30]]);
}

#[test]
fn a_module_that_takes_nothing_is_told_with_the_first_line() {
    let refuse = |_: &[Sample]| Err("no such luck".to_owned());
    let text = found(&interface(&["x"]), &Hints::default(), refuse).unwrap_err();
    assert!(text.contains("the first one failed with: no such luck"), "{text}");
}

#[test]
fn a_free_first_dimension_that_is_no_batch_is_not_taken_for_one() {
    let flat = |samples: &[Sample]| match samples[0].dims.as_slice() {
        [rows, 30] => Ok(vec![fact(&[rows * 2])]),
        _ => Err("mat1 and mat2 shapes cannot be multiplied (2x7 and 30x2)".to_owned()),
    };
    let text = found(&interface(&["x"]), &Hints::default(), flat).unwrap_err();
    assert!(text.contains("max_batch_size: 0"), "{text}");
    assert!(text.contains("input { name: \"x\" data_type: TYPE_FP32 dims: [ -1, 30 ] }"), "{text}");
}

#[test]
fn rows_that_depend_on_each_other_are_no_batch_unless_that_is_configured() {
    let interface = interface(&["x"]);
    let find_with = |hints: &Hints| {
        let inputs = assign(&interface, &hints.inputs).unwrap();
        let mut fake = Fake { module: linear, rows_depend: true, runs: 0, most: 500 };
        find(&interface, &inputs, hints, &mut fake).map_err(|it| it.to_string())
    };
    let text = find_with(&Hints::default()).unwrap_err();
    assert!(text.contains("depends on the other rows") && text.contains("[ -1, 30 ]"), "{text}");
    let configured = |inputs: &[&[i64]], outputs: &[&[i64]]| Hints {
        inputs: inputs.iter().map(|it| hint("x", FP32, it)).collect(),
        outputs: outputs.iter().map(|it| hint("y", FP32, it)).collect(),
        ..Hints::default()
    };
    // With whole shapes, or all of them, it is not for the server to decide.
    assert!(find_with(&configured(&[&[-1, 30]], &[&[-1, 2]])).is_ok());
    assert!(find_with(&configured(&[], &[&[-1, 2]])).is_ok());
    let unbatched = Hints { is_unbatched: true, ..Hints::default() };
    assert!(find_with(&unbatched).is_ok());
    assert!(find_with(&configured(&[&[-1, 30]], &[])).is_ok());
    // These leave the first dimension out.
    let text = find_with(&configured(&[], &[&[2]])).unwrap_err();
    assert!(text.contains("depends on the other rows"), "{text}");
}

#[test]
fn without_trials_all_must_be_configured() {
    let interface = interface(&["x"]);
    let inputs = assign(&interface, &[]).unwrap();
    let text = untried(&interface, &inputs, &Hints::default()).unwrap_err().to_string();
    assert!(text.contains("TRIAL_RUNS") && text.contains("input { name: \"x\""), "{text}");
    let hints = Hints {
        inputs: vec![hint("x", FP32, &[-1, 30])],
        outputs: vec![hint("y", FP32, &[-1, 2])],
        ..Hints::default()
    };
    assert_eq!(dims(&untried(&interface, &inputs, &hints).unwrap().spec.outputs), [vec![-1, 2]]);
}

#[test]
fn trials_end_when_it_has_taken_long_enough() {
    let module = |_: &[Sample]| Err("no".to_owned());
    let mut fake = Fake { module, rows_depend: false, runs: 0, most: 3 };
    let interface = interface(&["x"]);
    let inputs = assign(&interface, &[]).unwrap();
    find(&interface, &inputs, &Hints::default(), &mut fake).unwrap_err();
    assert_eq!(fake.runs, 3);
}

#[test]
fn types_without_operators_are_refused_with_the_name() {
    let hints = Hints {
        inputs: vec![hint("x", DataType::Uint16, &[-1])],
        outputs: Vec::new(),
        ..Hints::default()
    };
    let text = found(&interface(&["x"]), &hints, linear).unwrap_err();
    assert!(text.starts_with("input 'x': data_type is TYPE_UINT16"), "{text}");
}

#[test]
fn values_that_are_not_in_every_run_are_not_served() {
    // As many as there are rows.
    let pieces = |samples: &[Sample]| linear(samples).map(|_| vec![fact(&[2]); samples[0].dims[0]]);
    let text = found(&interface(&["x"]), &Hints::default(), pieces).unwrap_err();
    assert!(text.contains("they were 2 in one trial run and 3 in another"), "{text}");
    assert!(text.ends_with("config.pbtxt: output { name: \"OUTPUT__0\" }"), "{text}");
    let outputs = |names: &[&str]| Hints {
        inputs: Vec::new(),
        outputs: names.iter().map(|it| hint(it, FP32, &[2])).collect(),
        ..Hints::default()
    };
    assert!(found(&interface(&["x"]), &outputs(&["OUTPUT__0"]), pieces).is_ok());
    assert!(found(&interface(&["x"]), &outputs(&["OUTPUT__1"]), pieces).is_err());
    let keyed = |samples: &[Sample]| {
        let keys = if samples[0].dims[0] == 2 { ["a", "b"] } else { ["b", "c"] };
        let keyed = |key: &str| Fact { key: Some(key.into()), ..fact(&[2]) };
        linear(samples).map(|_| keys.map(keyed).to_vec())
    };
    let mut dict = interface(&["x"]);
    dict.returns.dict = true;
    let text = found(&dict, &Hints::default(), keyed).unwrap_err();
    assert!(text.contains("output 'a' is not there in every trial run"), "{text}");
    assert!(text.ends_with("config.pbtxt: output { name: \"b\" }"), "{text}");
    assert!(found(&dict, &outputs(&["b"]), keyed).is_ok());
    assert!(found(&dict, &outputs(&["a"]), keyed).is_err());
}

#[test]
fn an_output_of_no_type_is_named_with_the_line_that_serves_the_others() {
    let module = |samples: &[Sample]| {
        let none = Fact { dtype: Err("None".into()), ..fact(&[]) };
        linear(samples).map(|it| [it, vec![none]].concat())
    };
    let text = found(&interface(&["x"]), &Hints::default(), module).unwrap_err();
    assert!(
        text.starts_with("output 'OUTPUT__1' is of type None, which cannot be served"),
        "{text}"
    );
    assert!(text.ends_with("config.pbtxt: output { name: \"OUTPUT__0\" }"), "{text}");
    let only = TensorHint { name: "OUTPUT__0".into(), dtype: None, dims: None };
    let hints = Hints { inputs: Vec::new(), outputs: vec![only], ..Hints::default() };
    assert_eq!(dims(&found(&interface(&["x"]), &hints, module).unwrap().spec.outputs), [[-1, 2]]);
}

#[test]
fn sizes_that_there_is_no_time_to_vary_stay_as_they_were_seen_or_are_configured() {
    let embedding =
        Interface { weights: vec![weight("Embedding", &[9, 4])], ..interface(&["a", "b"]) };
    let module = |samples: &[Sample]| match (&samples[0], &samples[1]) {
        (Sample { dtype: DataType::Int64, dims }, b) if *b == samples[0] && dims.len() == 2 => {
            Ok(vec![fact(&[dims[0], dims[1], 4])])
        }
        _ => Err("no".to_owned()),
    };
    let find_in = |hints: &Hints, most| {
        let inputs = assign(&embedding, &hints.inputs).unwrap();
        find(&embedding, &inputs, hints, &mut Fake { module, rows_depend: false, runs: 0, most })
    };
    let found = find_in(&Hints::default(), 500).unwrap();
    assert_eq!(dims(&found.spec.inputs), [[-1, -1], [-1, -1]]);
    assert_eq!(found.warning, None);
    // There is time for two runs: the first one, and one of more rows.
    let late = find_in(&Hints::default(), 1).unwrap();
    assert_eq!(dims(&late.spec.inputs), [[-1, 8], [-1, 8]]);
    assert_eq!(dims(&late.spec.outputs), [[-1, 8, 4]]);
    assert!(late.warning.unwrap().contains("those of a, b stay as"));
    let ids: &[i64] = &[-1, -1];
    let configured = Hints {
        inputs: ["a", "b"].map(|it| hint(it, DataType::Int64, ids)).to_vec(),
        outputs: vec![hint("y", FP32, &[-1, -1, 4])],
        ..Hints::default()
    };
    let late = find_in(&configured, 1).unwrap();
    assert_eq!(dims(&late.spec.inputs), [[-1, -1], [-1, -1]]);
    assert_eq!((dims(&late.spec.outputs), late.warning), (vec![vec![-1, -1, -1]], None));
}
