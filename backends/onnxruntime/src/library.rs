//! Where ONNX Runtime's library is, and opening it: once per process, when the first model is loaded.
//!
//! The library is opened, not linked. The program starts without it, another version can take its place, and a build
//! needs no C++.

use std::{
    error::Error,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
};

use backend::BackendError;
use ort::{LoadDynamicError, environment::Environment};

use crate::{log, native::Native, settling::Settling, wide::Rooms};

/// The library that is open.
pub(crate) struct Runtime {
    /// Its file.
    pub(crate) path: PathBuf,
    /// The function table, and what sessions need from it.
    pub(crate) native: Native,
    /// Of the second sessions of its models.
    pub(crate) rooms: Rooms,
    /// Bytes that the arenas of sessions of its models hold and nobody uses, but for the common one.
    pub(crate) kept: AtomicU64,
    /// Has arenas give back what they may not keep.
    pub(crate) settling: Arc<Settling>,
}

impl Runtime {
    /// Its version, where the name of its file has it, else what it says of its build.
    pub(crate) fn version(&self) -> String {
        version(&self.path, ort::info())
    }
}

fn version(path: &Path, build: &str) -> String {
    let file = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match name.split_once(".so.") {
        Some((_, version)) => format!("ONNX Runtime {version}"),
        None => {
            format!("ONNX Runtime, {}", build.strip_prefix("ORT Build Info: ").unwrap_or(build))
        }
    }
}

/// ONNX Runtime allows one environment in a process, and `ort` one library, so what is open cannot belong
/// to one `OnnxRuntime`. Guards the opening too: nobody opens a second time meanwhile.
static OPEN: Mutex<Option<Arc<Runtime>>> = Mutex::new(None);

/// The open library; opens `wanted`, or where that is `None` the one that is found, if none is.
///
/// A failure is not remembered: the next model tries again.
pub(crate) fn open(wanted: Option<&Path>) -> Result<Arc<Runtime>, BackendError> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = &*open {
        return match wanted {
            Some(path) if path != runtime.path => Err(BackendError::Load(format!(
                "ONNX Runtime was opened from {}; this process cannot open {} as well",
                runtime.path.display(),
                path.display()
            ))),
            _ => Ok(runtime.clone()),
        };
    }
    let path = match wanted {
        Some(path) => path.to_owned(),
        None => find()?,
    };
    let native = Native::new(environment(&path)?);
    let native = native.map_err(|error| unusable(&path, error.message()))?;
    let native = native.with_common_arena();
    let (rooms, kept, settling) = Default::default();
    let runtime = Arc::new(Runtime { native, path, rooms, kept, settling });
    *open = Some(runtime.clone());
    Ok(runtime)
}

/// The open library, if one is.
pub(crate) fn opened() -> Option<Arc<Runtime>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn environment(path: &Path) -> Result<Environment, BackendError> {
    // Said here because the loader's own text is about symbols and headers.
    if !path.is_file() {
        return Err(unusable(path, "there is no such file"));
    }
    let builder = ort::init_from(path).map_err(|error| unusable(path, &problem(&error)))?;
    let environment = builder
        .with_name(log::ENVIRONMENT)
        .with_logger(log::logger())
        .with_telemetry(false)
        .build();
    environment.map_err(|error| unusable(path, error.message()))
}

fn problem(error: &LoadDynamicError) -> String {
    match error {
        // What is wrong is said one level down: `error` itself is "dlopen failed".
        LoadDynamicError::Dlopen { error, .. } => {
            error.source().map_or(error.to_string(), |it| it.to_string())
        }
        LoadDynamicError::MissingApi { .. } => "it has no function OrtGetApiBase".to_owned(),
        LoadDynamicError::InvalidVersionString => "its version is no text".to_owned(),
        LoadDynamicError::BadVersion { version_str, .. } => {
            format!("it is version {version_str}")
        }
    }
}

/// The library of the installation, else the one that the build made ready.
pub(crate) fn find() -> Result<PathBuf, BackendError> {
    let program = std::env::current_exe().ok();
    let folders = program.as_deref().map(folders).unwrap_or_default();
    let built = option_env!("MUSTER_ORT_LIBRARY").map(PathBuf::from);
    let found = folders.iter().find_map(|it| newest(it));
    found.or_else(|| built.clone().filter(|it| it.is_file())).ok_or_else(|| {
        let places = folders.iter().map(|it| it.join("libonnxruntime.so*")).chain(built);
        let places: Vec<String> = places.map(|it| it.display().to_string()).collect();
        let text = "no ONNX Runtime library; looked for";
        BackendError::Load(format!("{text} {}. {REMEDY}", places.join(", ")))
    })
}

/// Where an installation has it: beside the program, in `lib/` there, and where the package that pip installs puts it.
fn folders(program: &Path) -> Vec<PathBuf> {
    let beside = program.parent().into_iter().flat_map(|it| [it.to_path_buf(), it.join("lib")]);
    beside.chain(backend::library_folder(program)).collect()
}

/// The library in that folder; of several the plain name, else the last by name.
fn newest(folder: &Path) -> Option<PathBuf> {
    let names = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .filter_map(|it| it.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|it| it.starts_with("libonnxruntime.so")).collect();
    names.sort();
    let plain = names.iter().any(|it| it == "libonnxruntime.so");
    let name = if plain { "libonnxruntime.so" } else { names.last()? };
    Some(folder.join(name))
}

const REMEDY: &str = "Put libonnxruntime.so (1.24 or later) there, or set ORT_DYLIB_PATH to its path. A build of \
                      muster where python3 and pip are installed fetches it";

fn unusable(path: &Path, problem: &str) -> BackendError {
    let path = path.display();
    BackendError::Load(format!("cannot use {path} as ONNX Runtime: {problem}. {REMEDY}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_for_beside_the_program_and_where_a_package_puts_it() {
        let places = folders(Path::new("/venv/bin/muster"));
        assert_eq!(places, ["/venv/bin", "/venv/bin/lib", "/venv/lib/muster"].map(PathBuf::from));
    }

    #[test]
    fn the_version_is_that_of_the_name_of_the_file_else_what_the_build_says() {
        let info = "ORT Build Info: git-branch=HEAD, build type=Release";
        let of = |path: &str| version(Path::new(path), info);
        let build = "git-branch=HEAD, build type=Release";
        assert_eq!(of("/none/libonnxruntime.so.1.31.1"), "ONNX Runtime 1.31.1");
        assert_eq!(of("/none/libonnxruntime.so"), format!("ONNX Runtime, {build}"));
    }
}
