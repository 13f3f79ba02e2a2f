//! Operators of a model's own, from shared libraries. The library is the example `frobnicate`, which
//! `cargo test -p backend-onnxruntime` builds.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::path::PathBuf;

use backend::{Backend, BackendError, Device, ModelSource};
use support::{Folder, engine, floats, path, run, source, values};

fn library() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.ancestors().nth(2).unwrap().join("examples/libfrobnicate.so");
    assert!(path.is_file(), "cargo build -p backend-onnxruntime --example frobnicate");
    path
}

fn with(library: PathBuf) -> ModelSource {
    ModelSource { op_libraries: vec![library], ..source(path("refused/custom_op.onnx"), &[]) }
}

#[track_caller]
fn refused(library: PathBuf) -> String {
    match engine().load(&with(library)) {
        Err(BackendError::Load(text)) => text,
        Err(error) => panic!("not a load error: {error:?}"),
        Ok(_) => panic!("it loaded"),
    }
}

#[test]
fn a_graph_runs_with_the_operators_of_its_library() {
    let model = engine().load(&with(library())).unwrap();
    for _ in 0..2 {
        // Each instance opens the file again.
        let mut instance = model.instantiate(Device::Cpu).unwrap();
        let outputs = run(&mut *instance, &[("x", floats(&[1], &[21.0]))], &["y"]).unwrap();
        assert_eq!(values(&outputs[0]), [42.0]);
    }
}

#[test]
fn a_library_that_is_none_is_named_with_what_it_must_have() {
    let told = refused("/nowhere/libops.so".into());
    assert!(told.contains("/nowhere/libops.so") && told.contains("RegisterCustomOps"), "{told}");
    let folder = Folder::new("muster-operators");
    let told = refused(folder.file("libtext.so", b"no library"));
    assert!(told.contains("libtext.so") && told.contains("op_library_filename"), "{told}");
    let told = refused("libm.so.6".into());
    assert!(told.contains("libm.so.6") && told.contains("RegisterCustomOps"), "{told}");
}
