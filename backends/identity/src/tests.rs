//! Facts about the engine, through its public face.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use backend::{Shape, Stop, Tensor};

use super::*;

/// Far longer than any test should take: what ends before it did not wait for its delay.
const NEVER: &str = "3600000";

fn source(options: &[(&str, &str)]) -> ModelSource {
    let options: BTreeMap<String, String> =
        options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    ModelSource { options, ..ModelSource::new("m", "/nowhere") }
}

fn instance(options: &[(&str, &str)]) -> Box<dyn Instance> {
    let model = Identity.load(&source(options)).unwrap();
    assert!(model.spec().is_none());
    model.instantiate(Device::Cpu).unwrap()
}

fn input(name: &str, rows: &[i32]) -> NamedTensor {
    let tensor = Tensor::from_vec(Shape::new(&[rows.len(), 1]), rows.to_vec()).unwrap();
    NamedTensor { name: name.into(), tensor }
}

fn run(
    instance: &mut dyn Instance,
    inputs: &[NamedTensor],
    outputs: &[&str],
) -> Result<Vec<NamedTensor>, BackendError> {
    let outputs: Vec<Arc<str>> = outputs.iter().map(|it| Arc::from(*it)).collect();
    let rows = inputs.first().and_then(|it| it.tensor.shape().rows()).unwrap_or(1);
    instance.execute(&Batch { signature: 0, inputs, outputs: &outputs, rows, stop: &Stop::new() })
}

fn run_rows(instance: &mut dyn Instance, rows: &[i32]) -> Result<Vec<NamedTensor>, BackendError> {
    run(instance, &[input("INPUT0", rows)], &["OUTPUT0"])
}

/// Which input (by its value) does each output repeat?
#[track_caller]
fn check_copies(inputs: &[(&str, i32)], outputs: &[&str], expect: &[i32]) {
    let inputs: Vec<NamedTensor> =
        inputs.iter().map(|(name, value)| input(name, &[*value])).collect();
    let copied = run(&mut *instance(&[]), &inputs, outputs).unwrap();
    let names: Vec<&str> = copied.iter().map(|it| &*it.name).collect();
    assert_eq!(names, outputs);
    let values: Vec<i32> =
        copied.iter().flat_map(|it| it.tensor.as_slice_of::<i32>().unwrap()).copied().collect();
    assert_eq!(values, expect);
}

#[test]
fn an_output_repeats_the_input_with_its_suffix() {
    check_copies(&[("INPUT0", 1), ("INPUT1", 2)], &["OUTPUT1", "OUTPUT0"], &[2, 1]);
    check_copies(&[("INPUT1", 2), ("INPUT0", 1)], &["OUTPUT1"], &[2]);
    check_copies(&[("input_b", 1), ("input_a", 2)], &["output_a"], &[2]);
}

#[test]
fn an_output_of_another_name_repeats_its_namesake_or_the_only_input() {
    check_copies(&[("a", 1), ("b", 2)], &["b", "a"], &[2, 1]);
    check_copies(&[("x", 1)], &["y", "z"], &[1, 1]);
}

#[test]
fn an_output_without_its_input_is_an_error_that_names_both() {
    let error = run(&mut *instance(&[]), &[input("INPUT0", &[1])], &["OUTPUT1"]).unwrap_err();
    let text = "output 'OUTPUT1' repeats input 'INPUT1', which was not given";
    assert_eq!(error, BackendError::InvalidInput(text.to_owned()));
}

#[test]
fn outputs_share_the_buffers_of_their_inputs() {
    let parts = [input("INPUT0", &[1]), input("INPUT0", &[2, 3])];
    let tensor = Tensor::concat(parts.iter().map(|it| &it.tensor)).unwrap();
    let given = NamedTensor { name: "INPUT0".into(), tensor };
    let outputs = run(&mut *instance(&[]), std::slice::from_ref(&given), &["OUTPUT0"]).unwrap();
    let addresses = |tensor: &Tensor| -> Vec<(*const u8, usize)> {
        tensor.segments().iter().map(|it| (it.as_ptr(), it.len())).collect()
    };
    assert_eq!(addresses(&outputs[0].tensor), addresses(&given.tensor));
    assert_eq!(outputs[0].tensor.shape(), given.tensor.shape());
}

#[track_caller]
fn check_takes(options: &[(&str, &str)], rows: &[i32], least: Duration) {
    let mut instance = instance(options);
    let start = Instant::now();
    run_rows(&mut *instance, rows).unwrap();
    let took = start.elapsed();
    assert!(took >= least, "{options:?}: {took:?}");
}

#[test]
fn an_execution_takes_at_least_the_configured_time() {
    check_takes(&[("execute_delay_ms", "20")], &[1], Duration::from_millis(20));
    let latency = [("latency_alpha_us", "5000"), ("latency_beta_us", "5000.0")];
    check_takes(&latency, &[1, 2, 3], Duration::from_millis(20));
    let burnt = [latency[0], latency[1], ("latency_mode", "burn")];
    check_takes(&burnt, &[1, 2, 3], Duration::from_millis(20));
}

#[test]
fn instances_and_threads_of_a_model_choose_its_place_in_the_landscape() {
    let options = [("latency_alpha_us", "20000"), ("latency_cliff_threads", "2")];
    let mut source = source(&options);
    source.default_threads = 3.try_into().unwrap();
    let mut instance = Identity.load(&source).unwrap().instantiate(Device::Cpu).unwrap();
    let start = Instant::now();
    run_rows(&mut *instance, &[1]).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(400));
}

#[test]
fn a_model_with_columns_says_what_it_takes() {
    let model = Identity.load(&source(&[("columns", "3")])).unwrap();
    let spec = model.spec().unwrap();
    assert_eq!(spec.inputs[0].dims, [None, Some(3)]);
    assert_eq!((&*spec.inputs[0].name, &*spec.outputs[0].name), ("INPUT0", "OUTPUT0"));
}

#[test]
fn the_multiplier_counts_instances_in_order_of_creation() {
    let options = [("execute_delay_ms", "10"), ("instance_wise_delay_multiplier", "3")];
    let model = Identity.load(&source(&options)).unwrap();
    let _first = model.instantiate(Device::Cpu).unwrap();
    let mut second = model.instantiate(Device::Gpu(0)).unwrap();
    let start = Instant::now();
    run_rows(&mut *second, &[1]).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(30));
}

#[test]
fn the_creation_delay_passes_while_the_model_loads() {
    let start = Instant::now();
    let model = Identity.load(&source(&[("creation_delay_sec", "0.02")])).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(20));
    drop(model);
}

#[test]
fn a_load_lasts_until_its_gate_exists() {
    let gate = std::env::temp_dir().join(format!("muster-identity-gate-{}", std::process::id()));
    let load = {
        let gate = gate.to_str().unwrap().to_owned();
        std::thread::spawn(move || Identity.load(&source(&[("creation_gate", &gate)])).is_ok())
    };
    std::thread::sleep(Duration::from_millis(20));
    assert!(!load.is_finished());
    std::fs::write(&gate, "").unwrap();
    assert!(load.join().unwrap());
    std::fs::remove_file(gate).unwrap();
}

/// Pulls the stop of an execution that would last an hour, and sees it end.
#[track_caller]
fn check_stops(options: &[(&str, &str)]) {
    let mut instance = instance(options);
    let (stop, inputs) = (Stop::new(), [input("INPUT0", &[1])]);
    let outputs = ["OUTPUT0".into()];
    let start = Instant::now();
    let result = std::thread::scope(|scope| {
        let execution = scope.spawn(|| {
            instance.execute(&Batch {
                signature: 0,
                inputs: &inputs,
                outputs: &outputs,
                rows: 1,
                stop: &stop,
            })
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!execution.is_finished(), "{options:?}");
        stop.stop();
        execution.join().unwrap()
    });
    assert_eq!(result.unwrap_err(), BackendError::Execute("stopped".to_owned()));
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn whatever_waits_ends_when_it_is_stopped() {
    check_stops(&[("execute_delay_ms", NEVER)]);
    check_stops(&[("latency_alpha_us", "3600000000")]);
    check_stops(&[("latency_alpha_us", "3600000000"), ("latency_mode", "burn")]);
    check_stops(&[("fault", "hang")]);
}

#[test]
fn an_execution_stopped_before_it_began_ends_at_once() {
    let stop = Stop::new();
    stop.stop();
    let inputs = [input("INPUT0", &[1])];
    let batch =
        Batch { signature: 0, inputs: &inputs, outputs: &["OUTPUT0".into()], rows: 1, stop: &stop };
    let error = instance(&[("execute_delay_ms", NEVER)]).execute(&batch).unwrap_err();
    assert_eq!(error, BackendError::Execute("stopped".to_owned()));
}

#[test]
fn every_error_fault_is_its_own_kind_of_error() {
    let error = |fault| run_rows(&mut *instance(&[("fault", fault)]), &[1]).unwrap_err();
    assert!(matches!(error("fail"), BackendError::Execute(_)));
    assert!(matches!(error("invalid"), BackendError::InvalidInput(_)));
    assert!(matches!(error("out_of_memory"), BackendError::OutOfMemory(_)));
}

#[test]
fn a_fault_above_a_number_of_rows_leaves_smaller_batches_alone() {
    let mut instance = instance(&[("fault", "out_of_memory"), ("fault_above_rows", "2")]);
    assert!(run_rows(&mut *instance, &[1, 2, 3]).is_err());
    run_rows(&mut *instance, &[1, 2]).unwrap();
}

#[test]
fn the_panic_fault_panics_and_the_instance_runs_the_next_batch() {
    let mut instance = instance(&[("fault", "panic"), ("fault_times", "1")]);
    assert!(catch_unwind(AssertUnwindSafe(|| run_rows(&mut *instance, &[1]))).is_err());
    run_rows(&mut *instance, &[1]).unwrap();
}

#[test]
fn wrong_rows_gives_one_row_less() {
    let outputs = run_rows(&mut *instance(&[("fault", "wrong_rows")]), &[7, 8, 9]).unwrap();
    assert_eq!(outputs[0].tensor.as_slice_of::<i32>(), Some([7, 8].as_slice()));
}

#[test]
fn missing_output_withholds_the_last_one() {
    let inputs = [input("INPUT0", &[1]), input("INPUT1", &[2])];
    let mut instance = instance(&[("fault", "missing_output")]);
    let outputs = run(&mut *instance, &inputs, &["OUTPUT0", "OUTPUT1"]).unwrap();
    let names: Vec<&str> = outputs.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["OUTPUT0"]);
}

#[test]
fn a_leak_returns_the_outputs() {
    assert_eq!(run_rows(&mut *instance(&[("fault", "leak")]), &[1]).unwrap().len(), 1);
}

#[test]
fn a_fault_strikes_after_so_many_executions_of_all_instances_and_so_many_times() {
    let options = [("fault", "fail"), ("fault_after", "2"), ("fault_times", "2")];
    let model = Identity.load(&source(&options)).unwrap();
    let mut instances = [model.instantiate(Device::Cpu), model.instantiate(Device::Cpu)];
    let results: Vec<bool> =
        (0..6).map(|i| run_rows(&mut **instances[i % 2].as_mut().unwrap(), &[1]).is_ok()).collect();
    assert_eq!(results, [true, true, false, false, true, true]);
}

#[test]
fn only_batches_with_a_marked_row_are_struck() {
    for options in [
        [("fail_marked_rows", "true"), ("fault_marker", "-7")].as_slice(),
        &[("fault", "fail"), ("fault_marker", "-7")],
        &[("fault_marker", "-7")],
    ] {
        let mut instance = instance(options);
        assert!(run_rows(&mut *instance, &[1, 2, 3]).is_ok(), "{options:?}");
        assert!(run_rows(&mut *instance, &[1, 2, -7]).is_err(), "{options:?}");
    }
}

#[test]
fn the_marker_is_the_first_element_of_a_row_and_no_other() {
    let check = |values: [f32; 4], expect_ok| {
        let tensor = Tensor::from_vec(Shape::new(&[2, 2]), values.to_vec()).unwrap();
        let inputs = [NamedTensor { name: "x".into(), tensor }];
        let result = run(&mut *instance(&[("fault_marker", "0.5")]), &inputs, &["y"]);
        assert_eq!(result.is_ok(), expect_ok, "{values:?}");
    };
    check([0.0, 0.5, 0.0, 0.5], true);
    check([0.5, 0.0, 0.0, 0.0], false);
    check([0.0, 0.0, 0.5, 0.0], false);
}

#[test]
fn rows_of_any_type_and_over_any_segments_can_be_marked() {
    for dtype in DataType::ALL {
        let marker = if dtype == DataType::Bytes { "" } else { "0" };
        let zeros = Tensor::zeros(dtype, Shape::new(&[1, 3])).unwrap();
        let tensor = Tensor::concat([&zeros, &zeros]).unwrap();
        let inputs = [NamedTensor { name: "x".into(), tensor }];
        let result = |marker| run(&mut *instance(&[("fault_marker", marker)]), &inputs, &["y"]);
        assert!(result(marker).is_err(), "{dtype}");
        assert!(result("1").is_ok(), "{dtype}");
    }
}

#[test]
fn a_load_fault_fails_where_it_says() {
    let load = |fault| Identity.load(&source(&[("load_fault", fault)]));
    assert!(matches!(load("fail"), Err(BackendError::Load(_))));
    assert!(catch_unwind(|| load("panic")).is_err());
    let model = load("instance").unwrap();
    assert!(matches!(model.instantiate(Device::Cpu), Err(BackendError::Load(_))));
}

#[track_caller]
fn check_refused(options: &[(&str, &str)], expect: &str) {
    let error = Identity.load(&source(options)).err().unwrap();
    assert_eq!(error, BackendError::Load(format!("model 'm': parameter {expect}")));
}

#[test]
fn a_bad_value_is_refused_by_name_with_what_is_allowed() {
    check_refused(
        &[("execute_delay_ms", "soon")],
        "'execute_delay_ms': expected a number from 0 to 86400000, given 'soon'",
    );
    check_refused(
        &[("creation_delay_sec", "-1")],
        "'creation_delay_sec': expected a number from 0 to 86400, given '-1'",
    );
    check_refused(
        &[("latency_alpha_us", "NaN")],
        "'latency_alpha_us': expected a number from 0 to 86400000000, given 'NaN'",
    );
    check_refused(
        &[("latency_noise", "2")],
        "'latency_noise': expected a number from 0 to 1, given '2'",
    );
    check_refused(
        &[("fault_after", "1.5")],
        "'fault_after': expected a whole number from 0, given '1.5'",
    );
    check_refused(
        &[("latency_mode", "nap")],
        "'latency_mode': expected one of sleep, burn, given 'nap'",
    );
    check_refused(
        &[("load_fault", "hang")],
        "'load_fault': expected one of fail, panic, abort, instance, instance_hang, out_of_memory, given 'hang'",
    );
    check_refused(
        &[("fail_marked_rows", "true")],
        "'fault_marker': expected a number or a string with fail_marked_rows, given nothing",
    );
    check_refused(
        &[("fail_marked_rows", "true"), ("fault", "hang"), ("fault_marker", "1")],
        "'fault': expected 'fail' or nothing with fail_marked_rows, given 'hang'",
    );
}

#[test]
fn parameters_of_other_engines_are_ignored() {
    let mut instance = instance(&[("intra_op_thread_count", "many")]);
    assert!(run_rows(&mut *instance, &[1]).is_ok());
}

#[test]
fn a_model_that_accumulates_keeps_the_sum_of_each_row_until_that_begins_anew() {
    let model = Identity.load(&source(&[("accumulates", "true")])).unwrap();
    assert!(model.keeps_state() && !Identity.load(&source(&[])).unwrap().keeps_state());
    let mut instance = model.instantiate(Device::Cpu).unwrap();
    let mut sums = |values: [f32; 2], starts: [i32; 2]| {
        let tensor = Tensor::from_vec(Shape::new(&[2, 1]), values.to_vec()).unwrap();
        let inputs = [NamedTensor { name: "INPUT0".into(), tensor }, input("START", &starts)];
        let given = run(&mut *instance, &inputs, &["OUTPUT0"]).unwrap();
        given[0].tensor.as_slice_of::<f32>().unwrap().to_vec()
    };
    assert_eq!(sums([5.0, 7.0], [1, 1]), [5.0, 7.0]);
    assert_eq!(sums([1.0, 2.0], [0, 0]), [6.0, 9.0]);
    assert_eq!(sums([1.0, 2.0], [0, 1]), [7.0, 2.0]);
}
