//! A loaded model: what it takes and gives, and sessions for its instances.

use std::{
    ffi::CStr,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use backend::{
    BackendError, DataType, Device, FileStamps, GraphRows, Instance, Model, ModelSource, ModelSpec,
    Placement, RerunPolicy, RunMemory, StringMemory, TensorHint, TensorSpec,
};
use graphs::Precision;

use crate::{
    cache::Cache,
    element, error,
    files::ModelFiles,
    graph::{Graph, Made, described_by, is_weights},
    instance::OnnxInstance,
    library::Runtime,
    native::{Keeping, Kind, Port, Session},
    opener::{Opener, read_unzipped},
    options::{Settings, precision_of},
    place::{DeviceSessions, Weights, check_providers},
    trim::Trims,
    walk::FoundFiles,
    wide::Wide,
};

/// One version of a model.
pub(crate) struct OnnxModel {
    opener: Arc<Opener>,
    spec: ModelSpec,
    /// One for each device on which there will be instances.
    places: Vec<DeviceSessions>,
    /// Runs on all processors, of instances on the CPU; `None` where there are none.
    wide: Option<Arc<Wide>>,
    trims: Trims,
}

/// What a load may use of the machine.
pub(crate) struct Terms {
    /// Where the optimised forms of large models are kept.
    pub(crate) cache: Option<Arc<Cache>>,
    /// Where copies of weights are made, the preferred folder first.
    pub(crate) scratch: Vec<PathBuf>,
    /// Bytes of memory that the process may take; `None` for any number.
    pub(crate) memory: Option<u64>,
    /// What its runs may leave behind.
    pub(crate) keeping: Keeping,
}

impl OnnxModel {
    pub(crate) fn load(
        runtime: Arc<Runtime>,
        source: &ModelSource,
        terms: Terms,
    ) -> Result<OnnxModel, BackendError> {
        let Terms { cache, scratch, memory, keeping } = terms;
        let mut settings: Vec<(Placement, Settings)> = Vec::new();
        for placement in &source.placements {
            settings.push((*placement, Settings::of(source, placement.device)?));
        }
        let path = model_file(&source.path)?;
        let precision = precision_of(&source.options)?;
        let made = Made::of(&path, precision)?;
        if precision == Precision::Int8
            && source.placements.iter().any(|it| it.device != Device::Cpu)
        {
            return Err(BackendError::Load(format!(
                "{}: precision int8 is for the CPU, and an instance is to run on a GPU; leave precision out, or place \
                 all instances on the CPU (KIND_CPU)",
                path.display(),
            )));
        }
        let described = made.iter().map(|_| described_by(&path));
        let stamps = FileStamps::of([path.clone()]).of_known(&source.contents).and(described);
        for (_, settings) in &settings {
            check_providers(&runtime, &settings.providers)?;
        }
        // What cannot be walked is small: ONNX Runtime will say what is wrong with it, or knows better.
        let graph = Graph::new(&path, made.as_ref());
        let found = FoundFiles::of(graph).ok();
        if let Some(found) = &found {
            ModelFiles::check_weights(&path, found)?;
        }
        let files = found.and_then(|it| ModelFiles::with(graph, it).ok());
        let stamps = stamps.and(files.iter().flat_map(ModelFiles::paths_of_weights));
        if let (Some(files), Some(memory), true) = (&files, memory, source.is_for(Device::Cpu)) {
            files.check_memory(memory)?;
        }
        let unzipped = files.as_ref().filter(|it| it.has_zipmap).and_then(|_| read_unzipped(&path));
        let is_tiny = files.as_ref().is_none_or(ModelFiles::is_tiny);
        let is_large = files.as_ref().is_some_and(ModelFiles::is_large);
        for (placement, settings) in &mut settings {
            settings.keeping = keeping;
            settings.common_arena = !is_tiny && settings.arena && placement.device == Device::Cpu;
        }
        let weights = |device| match device {
            Device::Cpu if !is_tiny => Weights::Shared,
            Device::Gpu(_) if is_large => Weights::Shared,
            Device::Cpu | Device::Gpu(_) => Weights::Own,
        };
        let place = |(placement, settings): (Placement, Settings)| {
            DeviceSessions::new(placement, settings, weights(placement.device))
        };
        let places: Vec<DeviceSessions> = settings.into_iter().map(place).collect();
        let of_cpu = places.iter().find(|it| it.device == Device::Cpu);
        let wide = of_cpu.map(|it| it.settings.wide(source)).transpose()?.flatten();
        let has_plain_shapes = files.as_ref().is_some_and(|it| it.has_plain_shapes);
        // To compare two ways is to run twice.
        let reruns = RerunPolicy::of(source)?.allows_reruns();
        let wide = wide.filter(|_| has_plain_shapes && reruns);
        let first = places.first().ok_or_else(|| {
            BackendError::Load(format!("{}: no device is given to load it for", path.display()))
        })?;
        let is_unzipped = unzipped.is_some();
        let opener =
            Opener { runtime, path, made, stamps, files, cache, scratch, memory, is_unzipped };
        let session = opener.first(&first.settings, unzipped.as_ref())?;
        if is_large {
            environment::give_back_memory();
        }
        let mut spec = spec(&session, &opener.path, &source.hints.outputs)?;
        first.put(session);
        spec.labels = unzipped.map(|it| it.classes).unwrap_or_default();
        let files = opener.files.as_ref();
        if let Some(operator) = files.and_then(|it| it.shares_rows.clone()) {
            spec.rows = GraphRows::Shared(operator);
        }
        // By how it is made, which takes no run to see: a large model is ready in half the time.
        if opener.made.as_ref().is_some_and(Made::keeps_rows_apart) {
            spec.rows = GraphRows::Independent;
        }
        let opener = Arc::new(opener);
        let wide = wide.map(|settings| Wide::new(opener.clone(), settings, memory));
        Ok(OnnxModel { opener, spec, places, wide, trims: Trims::default() })
    }
}

impl Drop for OnnxModel {
    fn drop(&mut self) {
        let (wide, places) = (self.wide.take(), std::mem::take(&mut self.places));
        if let Some(wide) = &wide {
            wide.end();
        }
        // What these hold is gone when the model is.
        self.opener.runtime.settling.wait_after(move || drop((wide, places)));
    }
}

impl Model for OnnxModel {
    fn spec(&self) -> Option<&ModelSpec> {
        Some(&self.spec)
    }

    fn time_follows_values(&self) -> bool {
        self.opener.files.as_ref().is_none_or(|it| it.time_follows_values)
    }

    fn run_memory(&self) -> RunMemory {
        let is_text = |it: &TensorSpec| it.dtype == DataType::Bytes;
        let has_texts = self.spec.inputs.iter().chain(&self.spec.outputs).any(is_text);
        RunMemory { strings: has_texts.then_some(StringMemory::STD), ..RunMemory::default() }
    }

    fn trim_memory(&self) {
        self.trims.ask();
        if let Some(wide) = &self.wide {
            wide.let_go();
        }
    }

    fn instantiate(&self, device: Device) -> Result<Box<dyn Instance>, BackendError> {
        let path = &self.opener.path;
        let place = self.places.iter().find(|it| it.device == device).ok_or_else(|| {
            BackendError::Load(format!("{}: not loaded for {device:?}", path.display()))
        })?;
        let session = place.session(|| self.opener.another(&place.settings))?;
        let instance = OnnxInstance::new(session, &self.spec, device, &place.settings, &self.trims);
        let instance = instance.map_err(|error| error::of_load(path, &error))?;
        let wide = self.wide.as_ref().filter(|_| device == Device::Cpu);
        Ok(Box::new(instance.with_wide(wide.cloned())))
    }
}

/// Most bytes of a file that ONNX Runtime reads: a message of protobuf has no more.
const MOST_BYTES: u64 = i32::MAX as u64;

/// The file itself, or `model.onnx` in the folder.
pub(crate) fn model_file(path: &Path) -> Result<PathBuf, BackendError> {
    let path = match path.is_dir() {
        true => path.join("model.onnx"),
        false => path.to_owned(),
    };
    let problem = match fs::metadata(&path) {
        Ok(data) if data.len() == 0 => "the file is empty".to_owned(),
        Ok(data) if MOST_BYTES < data.len() && !is_weights(&path) => format!(
            "the file has {} bytes, and an ONNX model at most {MOST_BYTES}: keep its weights in a file beside it, as \
             onnx.save(.., save_as_external_data=True) does",
            data.len(),
        ),
        Ok(_) => return Ok(path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            "there is no such file".to_owned()
        }
        Err(error) => error.to_string(),
    };
    Err(BackendError::Load(format!("{}: {problem}", path.display())))
}

/// What the session takes and gives. Where the configuration names outputs, others of types that cannot be served do
/// not matter.
fn spec(session: &Session, path: &Path, served: &[TensorHint]) -> Result<ModelSpec, BackendError> {
    let failed = |error| error::of_load(path, &error);
    let metadata = session.metadata().map_err(failed)?;
    let mut spec = ModelSpec { metadata, ..ModelSpec::default() };
    for port in session.inputs().map_err(failed)? {
        spec.inputs.push(tensor(port, "input", false, path)?);
    }
    for port in session.optional_inputs().map_err(failed)? {
        spec.inputs.push(tensor(port, "input", true, path)?);
    }
    for port in session.outputs().map_err(failed)? {
        let is_served = |name: &CStr| served.iter().any(|it| it.name.as_bytes() == name.to_bytes());
        let is_ignored = !served.is_empty() && !is_served(&port.name);
        match tensor(port, "output", false, path) {
            Ok(output) => spec.outputs.push(output),
            Err(_) if is_ignored => {}
            Err(error) => return Err(error),
        }
    }
    Ok(spec)
}

fn tensor(port: Port, what: &str, optional: bool, path: &Path) -> Result<TensorSpec, BackendError> {
    let name = port.name.to_string_lossy();
    let problem = match port.kind {
        Kind::Tensor { element, dims } => match element::from_element(element) {
            Some(dtype) => {
                // Open dimensions are -1.
                let any_rank = dims.is_none();
                let dims = dims.into_iter().flatten().map(|it| usize::try_from(it).ok()).collect();
                return Ok(TensorSpec { name: name.into(), dtype, dims, any_rank, optional });
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
            format!("is {article}, and only tensors can be served")
        }
    };
    Err(BackendError::Load(format!("{}: {what} '{name}' {problem}", path.display())))
}
