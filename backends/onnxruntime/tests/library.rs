//! Libraries that cannot be used. In a process of its own: once one is open, no other is looked at.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::{fs, path::PathBuf, process::Command};

use backend::{Backend, BackendError};
use support::{engine, engine_with, path, source};

#[track_caller]
fn unusable(library: PathBuf, problem: &str) {
    let engine = engine_with(Some(library.clone()));
    let Err(BackendError::Load(text)) = engine.load(&source(path("mlp.onnx"), &[])) else {
        panic!("{} can be used", library.display());
    };
    for part in [&*library.display().to_string(), problem, "ORT_DYLIB_PATH", "pip"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(engine.open(), Err(BackendError::Load(text)));
}

/// A shared library made of that C code. Where Rust links, there is a `cc`.
fn compile(folder: &std::path::Path, name: &str, code: &str) -> PathBuf {
    let (source, library) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.so")));
    fs::write(&source, code).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert!(compiler.status().unwrap().success());
    library
}

#[test]
fn bad_libraries_are_refused_and_a_good_one_is_opened_after_them() {
    let folder = std::env::temp_dir().join(format!("muster-libraries-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    unusable(folder.join("absent.so"), "no such file");
    fs::write(folder.join("junk.so"), "not a library").unwrap();
    unusable(folder.join("junk.so"), "too short");
    unusable(compile(&folder, "foreign", "int x;"), "OrtGetApiBase");
    let old = "static const char *version(void) { return \"1.9.0\"; }
        struct { void *api; const char *(*version)(void); } base = { 0, version };
        void *OrtGetApiBase(void) { return &base; }";
    unusable(compile(&folder, "old", old), "it is version 1.9.0");

    let library = engine().open().unwrap();
    assert!(library.path.is_file());
    assert!(library.build.contains("ORT Build Info"), "{}", library.build);
    let again = engine_with(Some(library.path.clone())).open().unwrap();
    assert_eq!(again, library);
    let Err(BackendError::Load(text)) = engine_with(Some(folder.join("absent.so"))).open() else {
        panic!("two libraries in one process");
    };
    assert!(text.contains("cannot open"), "{text}");
    fs::remove_dir_all(&folder).unwrap();
}
