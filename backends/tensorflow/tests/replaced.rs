//! SavedModels whose files are replaced while their sessions are made.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use backend::{Backend, BackendError, Device, ModelSource};
use backend_tensorflow::{Options, TensorFlow};
use tempfile::TempDir;

/// From this crate's directory.
const LIBRARY: &str = "../../target/tensorflow/lib/libtensorflow_cc.so.2";
const FIXTURE: &str = "../../tests/fixtures/savedmodels/half_plus_two/1";

/// A copy of a SavedModel, and the engine; `None` without TensorFlow's library, which is said.
fn engine() -> Option<(TensorFlow, TempDir)> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = here.join(LIBRARY);
    if !library.is_file() {
        let why = "python3 backends/tensorflow/prepare.py has not been run";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
        eprintln!("SKIPPED: tests of sessions: {why}");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    copy(&here.join(FIXTURE), folder.path());
    let options = Options { library: Some(library), ..Options::default() };
    Some((TensorFlow::new(options), folder))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// One whose instances have a session each.
fn source(folder: &Path) -> ModelSource {
    let mut source = ModelSource::new("half_plus_two", folder);
    source.options.insert("MAX_SESSION_SHARE_COUNT".to_owned(), "1".to_owned());
    source
}

/// Writes the file anew, with one byte more.
fn lengthen(path: &PathBuf) {
    let content = fs::read(path).unwrap();
    fs::write(path, [&content[..], &[0]].concat()).unwrap();
}

#[test]
fn a_later_session_notices_that_a_file_of_its_folder_was_replaced() {
    for file in ["saved_model.pb", "variables/variables.index"] {
        let Some((engine, folder)) = engine() else { return };
        let model = engine.load(&source(folder.path())).unwrap();
        let _first = model.instantiate(Device::Cpu).unwrap();
        let _second = model.instantiate(Device::Cpu).unwrap();
        lengthen(&folder.path().join(file));
        let Err(BackendError::Load(text)) = model.instantiate(Device::Cpu) else {
            panic!("it is made of {file} of another model");
        };
        assert!(text.contains(&format!("{file} has changed since it was loaded")), "{text}");
    }
}

#[test]
fn what_tensorflow_does_not_open_may_change() {
    let Some((engine, folder)) = engine() else { return };
    let model = engine.load(&source(folder.path())).unwrap();
    let _first = model.instantiate(Device::Cpu).unwrap();
    fs::write(folder.path().join("README"), "of another").unwrap();
    model.instantiate(Device::Cpu).unwrap();
}
