//! A folder of `tests/fixtures/pipelines` with what the reference says of it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use backend::{DataType, ModelSpec, TensorSpec};
use backend_steps::{Dir, Folder, Opened, Overrides, Pipeline, RowOutput};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

/// A folder, and one line of the reference for each case.
pub struct Fixture {
    dir: PathBuf,
    pub cases: Vec<Value>,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.dir).expect("the folder was made by this fixture");
    }
}

/// Where all fixtures are.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/pipelines")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

fn assemble(name: &str, to: &Path) {
    let dir = root().join(name);
    if let Ok(text) = fs::read_to_string(dir.join("overlay.json")) {
        let overlay: Value = serde_json::from_str(&text).unwrap();
        assemble(overlay["base"].as_str().unwrap(), to);
        for file in overlay["removed"].as_array().unwrap() {
            fs::remove_file(to.join(file.as_str().unwrap())).unwrap();
        }
    }
    // What only leaves files out has none of its own.
    if dir.join("folder").exists() {
        copy(&dir.join("folder"), to);
    }
}

impl Fixture {
    /// The folder of that name, with its base under it, in a place of its own.
    pub fn new(name: &str) -> Fixture {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = format!("muster-steps-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(dir);
        assemble(name, &dir);
        let text = fs::read_to_string(root().join(name).join("expected.jsonl")).unwrap();
        let cases = text.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
        Fixture { dir, cases }
    }

    /// The pipeline, with a graph that takes ids, mask and types and gives this output.
    pub fn open(&self, output: &str, dims: &[Option<usize>]) -> Pipeline {
        let folder = Folder::read(&Dir::alone(&self.dir), &Overrides::default()).unwrap();
        open(&folder, &[(output, dims)])
    }

    /// Where the folder is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// The pipeline of a folder, with a graph that gives these outputs.
pub fn open(folder: &Folder, outputs: &[(&str, &[Option<usize>])]) -> Pipeline {
    let spec = |name: &str, dtype, dims: &[Option<usize>]| TensorSpec {
        name: name.into(),
        dtype,
        dims: dims.to_vec(),
        any_rank: false,
        optional: false,
    };
    let inputs = ["input_ids", "attention_mask", "token_type_ids"];
    let spec = ModelSpec {
        inputs: inputs.map(|it| spec(it, DataType::Int64, &[None, None])).to_vec(),
        outputs: outputs.iter().map(|(name, dims)| spec(name, DataType::Fp32, dims)).collect(),
        ..ModelSpec::default()
    };
    match Pipeline::open(folder, &spec).unwrap() {
        Opened::Pipeline(pipeline) => *pipeline,
        Opened::Tensors(reason) => panic!("served as tensors: {reason}"),
    }
}

/// A tensor of the reference: its shape and its values.
pub fn tensor(value: &Value) -> (Vec<usize>, Vec<f32>) {
    let dims = value["shape"].as_array().unwrap().iter();
    let dims = dims.map(|it| it.as_u64().unwrap() as usize).collect();
    let bytes = STANDARD.decode(value["raw"].as_str().unwrap()).unwrap();
    (dims, bytes.as_chunks().0.iter().map(|it| f32::from_le_bytes(*it)).collect())
}

/// A tensor of the reference as the output of one row.
pub fn output<'a>(name: &'a str, value: &Value) -> RowOutput<'a> {
    let (dims, values) = tensor(value);
    RowOutput { name, dims, values: values.into() }
}

/// The numbers of a list.
pub fn numbers(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().map(|it| it.as_i64().unwrap()).collect()
}

/// Fails unless both are equal within 1e-6, absolute and of the value.
#[track_caller]
pub fn assert_near(given: f32, expected: f64, what: &str) {
    let distance = (f64::from(given) - expected).abs();
    assert!(distance <= 1e-6 + 1e-6 * expected.abs(), "{what}: {given} instead of {expected}");
}
