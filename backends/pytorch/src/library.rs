//! Where the plugin is, and opening it: once per process, when the first TorchScript model is loaded.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use backend::{BackendError, Device};

use crate::{
    error,
    native::{Plugin, Switches},
    options::ModuleSettings,
};

/// The plugin that is open, and what of libtorch belongs to the whole process.
#[derive(Debug)]
pub(crate) struct Library {
    /// The plugin's file.
    pub(crate) path: PathBuf,
    pub(crate) plugin: Plugin,
    /// Guards the process's switches: written by a load that needs others than usual, read by all loads.
    switches: RwLock<()>,
    /// Guards the number of threads among operators, which is set once; the model that asked for it first.
    interop: Mutex<Option<(u32, String)>>,
}

/// A process can hold one libtorch, so what is open cannot belong to one `PyTorch`. Guards the opening too:
/// nobody opens a second time meanwhile.
static OPEN: Mutex<Option<Arc<Library>>> = Mutex::new(None);

/// The file's place, beside the program's folder or in it.
const PLACE: &str = "pytorch/libmuster_pytorch.so";

/// The same among Python's packages, where muster's own wheel puts it. libtorch is then that of the package `torch`.
const IN_PACKAGES: &str = "muster_pytorch/libmuster_pytorch.so";

const REMEDY: &str = "Build it with `python3 backends/pytorch/prepare.py`, or use an image of muster that has \
                      libtorch in it";

/// The version of libtorch that is open, if one is.
pub(crate) fn opened_version() -> Option<String> {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.as_ref().map(|it| format!("libtorch {}", it.plugin.torch()))
}

/// The open plugin; opens `wanted`, or where that is `None` the one that is found, if none is.
///
/// A failure is not remembered: the next model tries again.
pub(crate) fn open(wanted: Option<&Path>) -> Result<Arc<Library>, BackendError> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(library) = &*open {
        return match wanted {
            Some(path) if path != library.path => Err(BackendError::Load(format!(
                "the PyTorch engine's plugin was opened from {}; this process cannot open {} as well",
                library.path.display(),
                path.display()
            ))),
            _ => Ok(library.clone()),
        };
    }
    let path = match wanted {
        Some(path) => path.to_owned(),
        None => find()?,
    };
    if !path.is_file() {
        return Err(missing(&[path]));
    }
    let plugin = Plugin::open(&path).map_err(|problem| unusable(&path, &problem.to_string()))?;
    tracing::debug!(plugin = %path.display(), torch = plugin.torch(), "libtorch is open");
    let library = Library { path, plugin, switches: RwLock::new(()), interop: Mutex::new(None) };
    let library = Arc::new(library);
    *open = Some(library.clone());
    Ok(library)
}

/// The process's switches as one load wants them; dropped, they are what they were.
pub(crate) enum Switched<'a> {
    AsUsual { _guard: RwLockReadGuard<'a, ()> },
    Changed { before: Switches, plugin: Plugin, _guard: RwLockWriteGuard<'a, ()> },
}

impl Drop for Switched<'_> {
    fn drop(&mut self) {
        if let Switched::Changed { before, plugin, .. } = self {
            plugin.switch(*before);
        }
    }
}

const AS_IT_IS: Switches = Switches { executor: -1, profiling: -1, fuser: -1, cudnn: -1 };

/// What a model asks of the switches that are set back.
fn wanted(settings: &ModuleSettings) -> Switches {
    let number = |it: Option<bool>| it.map_or(-1, i32::from);
    Switches {
        executor: number(settings.executor),
        profiling: number(settings.profiling),
        fuser: number(settings.fuser),
        cudnn: -1,
    }
}

impl Library {
    /// Sets what belongs to the process as a model wants it. Its executor is made, and its graphs are
    /// compiled, while the result lives, if it is run meanwhile: that decides for as long as the model is there.
    pub(crate) fn switch_for(
        &self,
        model: &str,
        settings: &ModuleSettings,
        device: Device,
    ) -> Switched<'_> {
        self.set_interop_threads(model, settings.interop_threads);
        if settings.disable_cudnn && device != Device::Cpu {
            tracing::warn!(model, "DISABLE_CUDNN switches cuDNN off for all models of the process");
            self.plugin.switch(Switches { cudnn: 0, ..AS_IT_IS });
        }
        let wanted = wanted(settings);
        if wanted == AS_IT_IS {
            let guard = self.switches.read().unwrap_or_else(PoisonError::into_inner);
            return Switched::AsUsual { _guard: guard };
        }
        let guard = self.switches.write().unwrap_or_else(PoisonError::into_inner);
        let before = Switches { cudnn: -1, ..self.plugin.switch(wanted) };
        Switched::Changed { before, plugin: self.plugin, _guard: guard }
    }

    /// Says so where the switches had no run to decide about.
    pub(crate) fn without_a_run(&self, model: &str, settings: &ModuleSettings) {
        if wanted(settings) != AS_IT_IS {
            tracing::warn!(
                model,
                "ENABLE_JIT_EXECUTOR, ENABLE_JIT_PROFILING and ENABLE_TENSOR_FUSER have no effect, as the \
                 module cannot be run while it is loaded"
            );
        }
    }

    fn set_interop_threads(&self, model: &str, wanted: Option<u32>) {
        let Some(wanted) = wanted else { return };
        let mut interop = self.interop.lock().unwrap_or_else(PoisonError::into_inner);
        match &*interop {
            Some((have, _)) if *have == wanted => {}
            Some((have, first)) => tracing::warn!(
                model,
                "INTER_OP_THREAD_COUNT is {wanted}, and stays {have}, which model '{first}' has set for \
                 the process"
            ),
            None => match self.plugin.set_interop_threads(wanted) {
                Ok(()) => *interop = Some((wanted, model.to_owned())),
                Err(failure) => tracing::warn!(
                    model,
                    "INTER_OP_THREAD_COUNT is {wanted}, but comes too late: {}",
                    error::useful_line(&failure.text)
                ),
            },
        }
    }

    /// Can models run on the GPU of that number?
    ///
    /// # Errors
    /// [`BackendError::Device`], naming the library or driver that is missing, or the numbers there are.
    pub(crate) fn check_gpu(&self, number: u32) -> Result<(), BackendError> {
        let count = self.plugin.gpu_count().map_err(|failure| {
            let line = error::useful_line(&failure.text);
            BackendError::Device(format!("GPU {number} cannot be used: {line}"))
        })?;
        if number < count {
            return Ok(());
        }
        let numbers: Vec<String> = (0..count).map(|it| it.to_string()).collect();
        Err(BackendError::Device(format!(
            "GPU {number} cannot be used: CUDA finds {count}, with the numbers {}",
            numbers.join(", ")
        )))
    }
}

/// The plugin in `pytorch/` beside the program, else in the one beside the program's folder, else among the packages of
/// Python that are installed with it.
fn find() -> Result<PathBuf, BackendError> {
    installed().ok_or_else(|| missing(&places()))
}

/// The plugin that is found where none is named, if there is one.
pub(crate) fn installed() -> Option<PathBuf> {
    places().into_iter().find(|it| it.is_file())
}

/// The directory of libtorch's libraries, seen from a plugin.
pub(crate) fn libtorch(plugin: &Path) -> PathBuf {
    match packages(plugin) {
        Some(packages) => packages.join("torch/lib"),
        None => plugin.parent().unwrap_or(Path::new("")).join("libtorch/lib"),
    }
}

/// The directory of what libtorch needs of NVIDIA, where that is not in its own: as the package `torch` has it.
pub(crate) fn nvidia(plugin: &Path) -> Option<PathBuf> {
    Some(packages(plugin)?.join("nvidia"))
}

/// The folder of Python's packages, where a plugin lies in one of them.
fn packages(plugin: &Path) -> Option<&Path> {
    plugin.ancestors().nth(2).filter(|_| plugin.ends_with(IN_PACKAGES))
}

fn places() -> Vec<PathBuf> {
    std::env::current_exe().map(|it| places_of(&it)).unwrap_or_default()
}

fn places_of(program: &Path) -> Vec<PathBuf> {
    let folders = program.ancestors().skip(1).take(2).map(|it| it.join(PLACE));
    let packages = backend::python_packages(program);
    folders.chain(packages.iter().map(|it| it.join(IN_PACKAGES))).collect()
}

fn missing(places: &[PathBuf]) -> BackendError {
    let places: Vec<String> = places.iter().map(|it| it.display().to_string()).collect();
    let places = places.join(", ");
    BackendError::Load(format!(
        "TorchScript models need the PyTorch engine's plugin, and there is none; looked for {places}. \
         {REMEDY}"
    ))
}

fn unusable(path: &Path, problem: &str) -> BackendError {
    let problem = explain(path, problem);
    let path = path.display();
    BackendError::Load(format!(
        "cannot use {path} as the PyTorch engine's plugin: {problem}. {REMEDY}"
    ))
}

/// The loader's text, with what follows from it.
fn explain(path: &Path, problem: &str) -> String {
    let shown = path.display().to_string();
    let line = problem.lines().next().unwrap_or_default();
    // The loader begins with the file that it was about, which is the plugin or what that needs.
    let line = line.strip_prefix(&shown).map_or(line, |it| it.trim_start_matches(": "));
    if line.contains("cannot open shared object file") && !line.starts_with("cannot") {
        let folder = libtorch(path);
        return format!("{line}; libtorch's libraries are looked for in {}", folder.display());
    }
    if line.contains("undefined symbol") {
        return format!(
            "{line}: the libtorch that it finds is not of the version that it was built with"
        );
    }
    line.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn explained(problem: &str, expected: &str) {
        assert_eq!(explain(Path::new("/m/pytorch/p.so"), problem), expected);
    }

    #[test]
    fn the_loaders_text_is_completed_with_what_it_means() {
        explained("/m/pytorch/p.so: file too short", "file too short");
        explained(
            "libc10.so: cannot open shared object file: No such file or directory",
            "libc10.so: cannot open shared object file: No such file or directory; libtorch's libraries \
             are looked for in /m/pytorch/libtorch/lib",
        );
        explained(
            "/m/pytorch/p.so: undefined symbol: _ZN3c105ErrorC1E",
            "undefined symbol: _ZN3c105ErrorC1E: the libtorch that it finds is not of the version that \
             it was built with",
        );
        explained("it is no plugin of muster", "it is no plugin of muster");
    }

    #[test]
    fn a_plugin_among_packages_of_python_has_the_libraries_of_the_package_torch() {
        let plugin =
            Path::new("/venv/lib/python3.13/site-packages/muster_pytorch/libmuster_pytorch.so");
        let packages = Path::new("/venv/lib/python3.13/site-packages");
        assert_eq!(libtorch(plugin), packages.join("torch/lib"));
        assert_eq!(nvidia(plugin), Some(packages.join("nvidia")));
        let beside = Path::new("/opt/muster/pytorch/libmuster_pytorch.so");
        assert_eq!(libtorch(beside), Path::new("/opt/muster/pytorch/libtorch/lib"));
        assert_eq!(nvidia(beside), None);
    }
}
