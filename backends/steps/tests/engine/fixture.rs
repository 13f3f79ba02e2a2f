//! A model of the engine `steps` in a repository of its own, and tensors for it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use backend::{
    Backend, Batch, Device, Element, ModelSource, ModelSpec, NamedTensor, Shape, Stop, Tensor,
};
use backend_steps::Steps;

/// A repository of its own that is removed with this: the model `m`, beside a folder with a tokenizer.
pub struct Repository(pub PathBuf);

impl Drop for Repository {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("the repository was made by this test");
    }
}

pub fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/pipelines").join(path)
}

impl Repository {
    pub fn new(files: &[(&str, &str)]) -> Repository {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("muster-steps-{}-{number}", std::process::id());
        let dir = Repository(std::env::temp_dir().join(name));
        fs::create_dir_all(dir.0.join("m")).unwrap();
        for (file, text) in files {
            fs::write(dir.0.join("m").join(file), text).unwrap();
        }
        for folder in ["sst2", "ner", "fill-mask", "question-answering"] {
            fs::create_dir_all(dir.0.join(folder)).unwrap();
            for file in ["tokenizer.json", "tokenizer_config.json", "config.json"] {
                let from = fixture(folder).join("folder").join(file);
                fs::copy(from, dir.0.join(folder).join(file)).unwrap();
            }
        }
        dir
    }

    pub fn source(&self, parameters: &[(&str, &str)]) -> ModelSource {
        let own = |it: &(&str, &str)| (it.0.to_owned(), it.1.to_owned());
        ModelSource {
            directory: self.0.join("m"),
            repository: Some(self.0.clone()),
            options: parameters.iter().map(own).collect::<BTreeMap<_, _>>(),
            ..ModelSource::new("m", self.0.join("m/1"))
        }
    }
}

/// What comes of a batch; the text of the error where it fails.
pub fn run(
    source: &ModelSource,
    inputs: &[NamedTensor],
    outputs: &[&str],
) -> Result<Vec<Tensor>, String> {
    run_with(&Steps::default(), source, inputs, outputs)
}

/// The same by an engine with bounds.
pub fn run_with(
    engine: &Steps,
    source: &ModelSource,
    inputs: &[NamedTensor],
    outputs: &[&str],
) -> Result<Vec<Tensor>, String> {
    run_until(engine, source, inputs, outputs, None)
}

/// The same, of which nothing is of use after so long.
pub fn run_until(
    engine: &Steps,
    source: &ModelSource,
    inputs: &[NamedTensor],
    outputs: &[&str],
    limit: Option<Duration>,
) -> Result<Vec<Tensor>, String> {
    let model = engine.load(source).map_err(|it| it.to_string())?;
    let outputs: Vec<Arc<str>> = outputs.iter().map(|it| Arc::from(*it)).collect();
    let rows = inputs[0].tensor.shape().rows().unwrap();
    let stop = Stop::new();
    let batch = Batch { signature: 0, inputs, outputs: &outputs, rows, stop: &stop };
    let mut instance = model.instantiate(Device::Cpu).unwrap();
    stop.end_by(limit.map(|it| Instant::now() + it));
    let made = instance.execute(&batch).map_err(|it| it.to_string())?;
    let find = |name: &Arc<str>| made.iter().find(|it| it.name == *name).unwrap().tensor.clone();
    Ok(outputs.iter().map(find).collect())
}

pub fn spec(source: &ModelSource) -> ModelSpec {
    Steps::default().load(source).unwrap().spec().unwrap().clone()
}

pub fn numbers<T: Element + Send>(name: &str, dims: &[usize], values: Vec<T>) -> NamedTensor {
    NamedTensor { name: name.into(), tensor: Tensor::from_vec(Shape::new(dims), values).unwrap() }
}

pub fn texts(name: &str, dims: &[usize], values: &[&str]) -> NamedTensor {
    let tensor = Tensor::from_strings(Shape::new(dims), values).unwrap();
    NamedTensor { name: name.into(), tensor }
}

pub fn strings(tensor: &Tensor) -> Vec<String> {
    tensor.strings().map(|it| String::from_utf8(it.to_vec()).unwrap()).collect()
}

pub fn integers(tensor: &Tensor) -> &[i64] {
    tensor.as_slice_of().unwrap()
}

pub fn floats(tensor: &Tensor) -> &[f32] {
    tensor.as_slice_of().unwrap()
}

/// The error with which a step of these parameters does not load.
#[track_caller]
pub fn refused(parameters: &[(&str, &str)], expected: &str) {
    let config: String = parameters
        .iter()
        .map(|(key, value)| {
            format!("parameters {{ key: \"{key}\" value: {{ string_value: \"{value}\" }} }}\n")
        })
        .collect();
    let config = format!("backend: \"steps\"\n{config}");
    let repository = Repository::new(&[("config.pbtxt", &config), ("two.txt", "NO\nYES\n")]);
    let source = repository.source(parameters);
    let error = Steps::default().load(&source).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}
