//! Where TensorFlow's library is, and opening it: once per process, when the first SavedModel is loaded.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use backend::BackendError;

use crate::{
    native::{Table, load_operators},
    state::writers,
};

/// The library that is open.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) path: PathBuf,
    pub(crate) table: Arc<Table>,
    /// Operations that leave something behind for later runs. Guards those that libraries of operators have added.
    writers: Mutex<BTreeSet<String>>,
}

impl Opened {
    /// Makes the operators of those libraries known. Blocking.
    ///
    /// # Errors
    /// The first one that cannot be loaded, with TensorFlow's words.
    pub(crate) fn add_operators(&self, libraries: &[PathBuf]) -> Result<(), BackendError> {
        for library in libraries {
            load_operators(&self.table, library).map_err(|it| {
                let text = it.text.lines().next().unwrap_or_default();
                BackendError::Load(format!(
                    "model_operations: op_library_filename {}: {text}",
                    library.display()
                ))
            })?;
        }
        if !libraries.is_empty() {
            *self.writers.lock().unwrap_or_else(PoisonError::into_inner) = writers(&self.table)?;
        }
        Ok(())
    }

    /// Does one of those operations leave something behind for later runs?
    pub(crate) fn writes(&self, operations: &BTreeSet<String>) -> bool {
        !self.writers.lock().unwrap_or_else(PoisonError::into_inner).is_disjoint(operations)
    }
}

/// A process can hold one TensorFlow, whose operators register themselves. Guards the opening too: nobody opens a
/// second time meanwhile.
static OPEN: Mutex<Option<Arc<Opened>>> = Mutex::new(None);

/// The library's place, in the program's folder or beside it. What it needs lies in the same folder.
const PLACE: &str = "tensorflow/lib/libtensorflow_cc.so.2";
/// The same among Python's packages, where TensorFlow's own wheel puts it.
const IN_PACKAGES: &str = "tensorflow/libtensorflow_cc.so.2";

/// The open library; if none is, opens `wanted`, or where that is `None` the one that is found. `onednn`
/// is for the log.
///
/// A failure is not remembered: the next model tries again. `model`: the folder that asks for it, for the error.
pub(crate) fn open(
    wanted: Option<&Path>,
    onednn: &str,
    model: &Path,
) -> Result<Arc<Opened>, BackendError> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(opened) = &*open {
        return match wanted {
            Some(path) if path != opened.path => Err(BackendError::Load(format!(
                "TensorFlow was opened from {}; this process cannot open {} as well",
                opened.path.display(),
                path.display()
            ))),
            _ => Ok(opened.clone()),
        };
    }
    let path = match wanted {
        Some(path) if path.is_file() => path.to_owned(),
        Some(path) => return Err(missing(&[path.to_owned()], model)),
        None => find(model)?,
    };
    let table = Table::open(&path).map_err(|problem| {
        let problem = problem.to_string();
        let line = problem.lines().next().unwrap_or_default();
        BackendError::Load(format!(
            "cannot use {} as TensorFlow's library: {line}. {PREPARE}",
            path.display()
        ))
    })?;
    let version = table.version();
    tracing::info!(library = %path.display(), version, onednn, "TensorFlow is open");
    let writers = Mutex::new(writers(&table)?);
    let opened = Arc::new(Opened { path, table: Arc::new(table), writers });
    *open = Some(opened.clone());
    Ok(opened)
}

/// The open library, if one is.
pub(crate) fn opened() -> Option<Arc<Opened>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn find(model: &Path) -> Result<PathBuf, BackendError> {
    installed().ok_or_else(|| missing(&places(), model))
}

/// The library that is found where none is named, if there is one.
pub(crate) fn installed() -> Option<PathBuf> {
    places().into_iter().find(|it| it.is_file())
}

fn places() -> Vec<PathBuf> {
    std::env::current_exe().map(|it| places_of(&it)).unwrap_or_default()
}

/// For a program in that place: those of `prepare.py`, then that of the wheel in the program's Python environment.
fn places_of(program: &Path) -> Vec<PathBuf> {
    let folders = program.ancestors().skip(1).take(2).map(|it| it.join(PLACE));
    let packages = backend::python_packages(program);
    folders.chain(packages.iter().map(|it| it.join(IN_PACKAGES))).collect()
}

const PREPARE: &str = "Fetch it with `python3 backends/tensorflow/prepare.py`, with `pip install \
                       'muster[tensorflow]'` where pip has installed muster, or name the file of another in \
                       --tensorflow-library";

fn missing(places: &[PathBuf], model: &Path) -> BackendError {
    let places: Vec<String> = places.iter().map(|it| it.display().to_string()).collect();
    let places = places.join(", ");
    let model = model.display();
    BackendError::Load(format!(
        "'{model}' holds a SavedModel, which needs TensorFlow's library, and there is none; looked for {places}. \
         {PREPARE}, or convert the model: python -m tf2onnx.convert --saved-model {model} --output \
         {model}/model.onnx"
    ))
}
