//! Files as models: what they say about themselves, and how bad ones and bad settings are refused.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "support/onnx_file.rs"]
mod onnx_file;
mod support;

use std::{fs, path::PathBuf};

use backend::{Backend, BackendError, DataType, Device};
use support::{Folder, engine, engine_within, floats, load, load_error, path, run, source, values};

#[test]
fn a_model_tells_names_types_and_dimensions() {
    let model = load("sum_difference");
    let spec = model.spec().unwrap();
    let names = |specs: &[backend::TensorSpec]| -> Vec<String> {
        specs.iter().map(|it| it.name.to_string()).collect()
    };
    assert_eq!(names(&spec.inputs), ["a", "b"]);
    assert_eq!(names(&spec.outputs), ["sum", "difference"]);
    assert_eq!(spec.inputs[0].dims, [None, Some(4)]);
    assert_eq!(spec.inputs[0].dtype, DataType::Fp32);
    assert!(!spec.inputs[0].optional);
    for dtype in DataType::ALL {
        let model = load(&format!("identity/{dtype}"));
        assert_eq!(model.spec().unwrap().outputs[0].dtype, dtype);
    }
}

#[test]
fn a_scalar_has_no_dimensions_and_an_input_with_a_default_is_optional() {
    assert_eq!(load("scalar").spec().unwrap().inputs[0].dims, []);
    let model = load("optional");
    let inputs = &model.spec().unwrap().inputs;
    let optional: Vec<_> = inputs.iter().map(|it| (&*it.name, it.optional)).collect();
    assert_eq!(optional, [("x", false), ("bias", true)]);
    assert_eq!(inputs[1].dims, [Some(2)]);
}

#[test]
fn a_folder_with_weights_beside_the_model_is_a_model() {
    let model = engine().load(&source(path("external"), &[])).unwrap();
    let mut instance = model.instantiate(Device::Cpu).unwrap();
    let outputs = run(&mut *instance, &[("x", floats(&[1, 16], &[1.0; 16]))], &["y"]).unwrap();
    assert!(values(&outputs[0]).iter().any(|&it| it != 0.0));
}

#[test]
fn maps_of_a_classifier_are_a_tensor_and_its_classes_are_known() {
    let model = load("zipmap");
    let spec = model.spec().unwrap();
    assert_eq!(
        (spec.outputs[0].dtype, &*spec.outputs[0].dims),
        (DataType::Fp32, &[None, Some(2)][..])
    );
    assert_eq!(*spec.labels["probabilities"], ["b".to_owned(), "a".to_owned()]);
    for _ in 0..2 {
        let mut instance = model.instantiate(Device::Cpu).unwrap();
        let x = floats(&[2, 2], &[0.25, 0.75, 0.5, 0.5]);
        let outputs = run(&mut *instance, &[("x", x)], &["probabilities"]).unwrap();
        assert_eq!(outputs[0].shape().dims(), [2, 2]);
        assert_eq!(values(&outputs[0]), [0.25, 0.75, 0.5, 0.5]);
    }
}

#[track_caller]
fn refused(path: PathBuf, parts: &[&str]) {
    let text = load_error(path.clone(), &[]);
    assert!(text.contains(&path.display().to_string()), "{text}");
    assert!(!text.contains('\n'), "{text}");
    for part in parts {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn files_that_are_no_models_are_refused_by_name() {
    let folder = Folder::new("muster-bad-files");
    refused(folder.0.join("absent.onnx"), &["no such file"]);
    refused(folder.0.clone(), &["model.onnx: there is no such file"]);
    refused(folder.file("empty.onnx", b""), &["is empty"]);
    refused(folder.file("junk.onnx", &[0xAB; 5000]), &["Protobuf parsing failed"]);
    refused(folder.file("text.onnx", b"version https://git-lfs.github.com/spec/v1\n"), &[]);
    let whole = fs::read(path("mlp.onnx")).unwrap();
    refused(folder.file("cut.onnx", &whole[..whole.len() / 2]), &[]);
}

#[test]
fn a_file_larger_than_any_model_is_refused_before_it_is_read() {
    let folder = Folder::new("muster-huge-model");
    let huge = folder.file("model.onnx", b"\x08\x08");
    fs::OpenOptions::new().write(true).open(&huge).unwrap().set_len(4 << 40).unwrap();
    refused(
        huge.clone(),
        &["the file has 4398046511104 bytes, and an ONNX model at most 2147483647"],
    );
    let source = source(huge, &[]);
    assert!(engine().foresee(&source).is_none());
    assert!(engine().check(&source).is_err());
}

#[test]
fn weights_that_are_missing_or_cut_are_refused() {
    let folder = Folder::new("muster-bad-weights");
    let model = fs::read(path("external/model.onnx")).unwrap();
    refused(folder.file("model.onnx", &model), &["weights.bin"]);
    folder.file("weights.bin", &[0; 100]);
    refused(folder.0.clone(), &[]);
}

#[test]
fn weights_that_are_more_than_the_memory_of_the_process_are_refused_at_once() {
    let folder = Folder::new("muster-huge-weights");
    onnx_file::sparse(&folder.0.join("model.onnx"), 1 << 19).unwrap();
    let weights = folder.0.join(onnx_file::BESIDE);
    assert_eq!(fs::metadata(&weights).unwrap().len(), 1 << 40);
    let huge = source(folder.0.clone(), &[]);
    let error = engine_within(1 << 39).load(&huge).err().unwrap();
    let expected = format!(
        "{}: its weights in weights.data are {} bytes, and this process may take {} bytes of memory",
        folder.0.join("model.onnx").display(),
        1u64 << 40,
        1u64 << 39
    );
    assert!(error.to_string().starts_with(&expected), "{error}");
    // A model that uses little of a large file loads.
    let whole = fs::read(path("external/model.onnx")).unwrap();
    let model = folder.file("model.onnx", &whole);
    let small = folder.0.join("weights.bin");
    fs::copy(path("external/weights.bin"), &small).unwrap();
    fs::OpenOptions::new().write(true).open(small).unwrap().set_len(1 << 40).unwrap();
    engine_within(1 << 30).load(&source(model, &[])).unwrap();
}

#[test]
fn graphs_that_cannot_be_served_are_refused_with_the_reason() {
    refused(path("refused/opset.onnx"), &["failed: ONNX Runtime only", "Opset 99"]);
    refused(path("refused/custom_op.onnx"), &["Frobnicate"]);
    refused(path("refused/sequence_output.onnx"), &["output 'list' is a sequence"]);
    refused(path("refused/sequence.onnx"), &["input 'list' is a sequence"]);
    refused(path("refused/optional.onnx"), &["output 'y' is an optional value"]);
    refused(path("refused/float8.onnx"), &["output 'y' has elements of type float8e5m2"]);
    refused(path("refused/complex.onnx"), &["complex64"]);
    refused(path("refused/int4.onnx"), &[]);
}

#[test]
fn bad_settings_are_refused_by_name() {
    let text = load_error(path("mlp.onnx"), &[("intra_op_thread_count", "-1")]);
    assert_eq!(
        text,
        "parameter intra_op_thread_count is '-1', expected a whole number from 0 to 1024"
    );
    let text = load_error(path("mlp.onnx"), &[("session.\0", "1")]);
    assert!(text.starts_with("parameter session.\0 is not known; expected one of"), "{text}");
}

#[test]
fn the_first_instance_needs_no_file_any_more_and_a_second_one_notices_another_graph() {
    let folder = Folder::new("muster-changed");
    let file = folder.file("model.onnx", &fs::read(path("mlp.onnx")).unwrap());
    let model = engine().load(&source(file.clone(), &[])).unwrap();
    fs::remove_file(&file).unwrap();
    let mut first = model.instantiate(Device::Cpu).unwrap();
    run(&mut *first, &[("x", floats(&[1, 30], &[0.0; 30]))], &["y"]).unwrap();
    folder.file("model.onnx", &fs::read(path("scalar.onnx")).unwrap());
    let Err(BackendError::Load(text)) = model.instantiate(Device::Cpu) else { panic!("it loaded") };
    assert!(text.contains("has changed since it was loaded; load it again"), "{text}");
}

#[test]
fn a_load_that_is_asked_to_end_ends() {
    let source = source(path("mlp.onnx"), &[]);
    assert!(engine().load(&source).is_ok());
    source.stop.stop();
    let told = engine().load(&source).map(drop).unwrap_err();
    assert!(matches!(&told, BackendError::Load(it) if it.contains("cancel")), "{told:?}");
}
