//! A loaded model: what it takes and gives, and sessions for its instances.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use backend::{BackendError, Device, Instance, Model, ModelSource, ModelSpec, TensorSpec};

use crate::{
    cache::Cache,
    element, error,
    files::ModelFiles,
    instance::OnnxInstance,
    library::Runtime,
    native::{self, Kind, Port, Session, Source},
    options::Settings,
};

/// One version of a model.
pub(crate) struct OnnxModel {
    runtime: Arc<Runtime>,
    path: PathBuf,
    settings: Settings,
    spec: ModelSpec,
    sessions: Sessions,
}

/// Where an instance gets its session from.
enum Sessions {
    /// A large model has one, which all instances run: its weights are there once.
    Shared(Arc<Session>),
    /// Each instance of a small model has its own. Here is the one that told us the spec, until the first
    /// instance takes it.
    Own(Mutex<Option<Session>>),
}

impl OnnxModel {
    pub(crate) fn load(
        runtime: Arc<Runtime>,
        source: &ModelSource,
        cache: Option<&Cache>,
    ) -> Result<OnnxModel, BackendError> {
        let settings = Settings::read(&source.options, source.default_threads)?;
        let path = model_file(&source.path)?;
        // What cannot be walked is small: ONNX Runtime will say what is wrong with it, or knows better.
        let large = ModelFiles::of(&path).ok().filter(ModelFiles::is_large);
        let (session, settings) = match &large {
            None => (open(&runtime, &path, &settings)?, settings),
            Some(files) => {
                let settings = settings.shared_by(source.instances);
                let kept = cache.and_then(|it| it.session(&runtime, files, &settings));
                let session = match kept {
                    Some(session) => session,
                    None => open(&runtime, &path, &settings)?,
                };
                native::give_back();
                (session, settings)
            }
        };
        let spec = spec(&session, &path)?;
        let sessions = match large {
            Some(_) => Sessions::Shared(Arc::new(session)),
            None => Sessions::Own(Mutex::new(Some(session))),
        };
        Ok(OnnxModel { runtime, path, settings, spec, sessions })
    }
}

impl Model for OnnxModel {
    fn spec(&self) -> Option<&ModelSpec> {
        Some(&self.spec)
    }

    fn instantiate(&self, device: Device) -> Result<Box<dyn Instance>, BackendError> {
        if let Device::Gpu(number) = device {
            return Err(BackendError::Load(format!(
                "{}: an instance on GPU {number} is asked for, and this build has no CUDA provider; \
                 use KIND_CPU",
                self.path.display()
            )));
        }
        let session = match &self.sessions {
            Sessions::Shared(session) => session.clone(),
            Sessions::Own(first) => {
                let first = first.lock().unwrap_or_else(PoisonError::into_inner).take();
                Arc::new(first.map_or_else(|| self.another(), Ok)?)
            }
        };
        let instance = OnnxInstance::new(session, &self.spec, self.settings.shrinkage.as_deref());
        Ok(Box::new(instance.map_err(|error| error::of_load(&self.path, &error))?))
    }
}

impl OnnxModel {
    fn another(&self) -> Result<Session, BackendError> {
        let session = open(&self.runtime, &self.path, &self.settings)?;
        match spec(&session, &self.path)? == self.spec {
            true => Ok(session),
            false => Err(BackendError::Load(format!(
                "{} has other inputs or outputs than when it was loaded; load it again",
                self.path.display()
            ))),
        }
    }
}

/// The file itself, or `model.onnx` in the folder.
fn model_file(path: &Path) -> Result<PathBuf, BackendError> {
    let path = match path.is_dir() {
        true => path.join("model.onnx"),
        false => path.to_owned(),
    };
    let problem = match fs::metadata(&path) {
        Ok(data) if data.len() == 0 => "the file is empty".to_owned(),
        Ok(_) => return Ok(path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            "there is no such file".to_owned()
        }
        Err(error) => error.to_string(),
    };
    Err(BackendError::Load(format!("{}: {problem}", path.display())))
}

fn open(runtime: &Arc<Runtime>, path: &Path, settings: &Settings) -> Result<Session, BackendError> {
    Session::new(runtime, path, Source::Model, settings)
        .map_err(|error| error::of_load(path, &error))
}

fn spec(session: &Session, path: &Path) -> Result<ModelSpec, BackendError> {
    let failed = |error| error::of_load(path, &error);
    let mut spec = ModelSpec::default();
    for port in session.inputs().map_err(failed)? {
        spec.inputs.push(tensor(port, "input", false, path)?);
    }
    for port in session.optional_inputs().map_err(failed)? {
        spec.inputs.push(tensor(port, "input", true, path)?);
    }
    for port in session.outputs().map_err(failed)? {
        spec.outputs.push(tensor(port, "output", false, path)?);
    }
    Ok(spec)
}

fn tensor(port: Port, what: &str, optional: bool, path: &Path) -> Result<TensorSpec, BackendError> {
    let name = port.name.to_string_lossy();
    let problem = match port.kind {
        Kind::Tensor { element, dims } => match element::from_element(element) {
            Some(dtype) => {
                // Open dimensions are -1.
                let dims = dims.into_iter().map(|it| usize::try_from(it).ok()).collect();
                return Ok(TensorSpec { name: name.into(), dtype, dims, optional });
            }
            None => {
                format!("has elements of type {}, which cannot be served", element::name(element))
            }
        },
        Kind::Other(kind) => {
            let article = match kind {
                2 => "a sequence",
                3 => "a map",
                5 => "a sparse tensor",
                6 => "an optional value",
                _ => "of an unknown type",
            };
            let hint = if what == "output" && [2, 3].contains(&kind) { ZIPMAP } else { "" };
            format!("is {article}, and only tensors can be served{hint}")
        }
    };
    Err(BackendError::Load(format!("{}: {what} '{name}' {problem}", path.display())))
}

const ZIPMAP: &str = "; a classifier converted by skl2onnx gives a tensor instead when it is converted with \
                      options={id(model): {'zipmap': False}} (onnxmltools: zipmap=False)";
