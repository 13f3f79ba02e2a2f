//! The Python files that a model's process runs, and what they are given.

use std::path::PathBuf;

use backend::{BackendError, ModelSource, WorkerProgram};
use serde_json::{Map, Value, json};

use crate::interpreter::Interpreter;

/// What the interpreter runs first: it reads what it is given, and goes on with the embedded files.
///
/// Python puts the server's working directory in front of its modules: what lies there is none of the model's.
const BOOT: &str = "import sys\nsys.path[:]=[it for it in sys.path if it]\nimport json,os\nwith open(int(os.environ.pop('MUSTER_RUNTIME')),'rb') as f: d=json.load(f)\n\
                    exec(compile(d['boot'],'<muster>','exec'),{'d':d,'__name__':'muster_boot'})";

/// A module of the runtime and its text.
macro_rules! modules {
    ($($file:literal => $name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../runtime/", $file)))),*]
    };
}

/// The first text, which makes the others importable.
const FIRST: &str = include_str!("../runtime/muster_python/boot.py");

/// What says of a folder that it is an unpacked archive of TorchServe, there.
const MANIFEST: &str = "MAR-INF/MANIFEST.json";

/// All files of the runtime.
const MODULES: &[(&str, &str)] = modules![
    "c_python_backend_utils.py" => "c_python_backend_utils",
    "triton_python_backend_utils.py" => "triton_python_backend_utils",
    "muster_python/__init__.py" => "muster_python",
    "muster_python/bls.py" => "muster_python.bls",
    "muster_python/boot.py" => "muster_python.boot",
    "muster_python/child.py" => "muster_python.child",
    "muster_python/coroutines.py" => "muster_python.coroutines",
    "muster_python/environment.py" => "muster_python.environment",
    "muster_python/estimator.py" => "muster_python.estimator",
    "muster_python/estimator_columns.py" => "muster_python.estimator_columns",
    "muster_python/estimator_ports.py" => "muster_python.estimator_ports",
    "muster_python/faults.py" => "muster_python.faults",
    "muster_python/frames.py" => "muster_python.frames",
    "muster_python/handlers.py" => "muster_python.handlers",
    "muster_python/kept.py" => "muster_python.kept",
    "muster_python/lane.py" => "muster_python.lane",
    "muster_python/mailbox.py" => "muster_python.mailbox",
    "muster_python/metrics.py" => "muster_python.metrics",
    "muster_python/model_archive.py" => "muster_python.model_archive",
    "muster_python/packed.py" => "muster_python.packed",
    "muster_python/pyfunc.py" => "muster_python.pyfunc",
    "muster_python/readiness.py" => "muster_python.readiness",
    "muster_python/requirements.py" => "muster_python.requirements",
    "muster_python/script.py" => "muster_python.script",
    "muster_python/script_codecs.py" => "muster_python.script_codecs",
    "muster_python/script_context.py" => "muster_python.script_context",
    "muster_python/script_defaults.py" => "muster_python.script_defaults",
    "muster_python/script_toolkit.py" => "muster_python.script_toolkit",
    "muster_python/signature.py" => "muster_python.signature",
    "muster_python/simple.py" => "muster_python.simple",
    "muster_python/source.py" => "muster_python.source",
    "muster_python/talk.py" => "muster_python.talk",
    "muster_python/tensors.py" => "muster_python.tensors",
    "muster_python/testing.py" => "muster_python.testing",
    "muster_python/torchserve.py" => "muster_python.torchserve",
    "muster_python/torchserve_bodies.py" => "muster_python.torchserve_bodies",
    "muster_python/torchserve_context.py" => "muster_python.torchserve_context",
    "muster_python/torchserve_toolkit.py" => "muster_python.torchserve_toolkit",
    "muster_python/triton.py" => "muster_python.triton",
    "muster_python/triton_config.py" => "muster_python.triton_config",
    "muster_python/triton_replies.py" => "muster_python.triton_replies",
    "muster_python/triton_request.py" => "muster_python.triton_request",
    "muster_python/triton_tensor.py" => "muster_python.triton_tensor",
];

/// The list of packages that comes with a script, or with an archive of TorchServe.
pub(crate) struct Requirements {
    /// `None`: the archive's own manifest says.
    pub(crate) file: Option<PathBuf>,
    /// May pip be run for what is missing?
    pub(crate) installs: bool,
    /// Where packages are kept, and unpacked archives.
    pub(crate) directory: PathBuf,
}

impl Requirements {
    /// Can there be such a list?
    pub(crate) fn may_come_with(source: &ModelSource) -> bool {
        let is_manifest = source.path.ends_with(MANIFEST);
        Requirements::is_archive(source) || is_manifest || Requirements::file(source).is_some()
    }

    /// Is the model an archive of TorchServe, as a file?
    pub(crate) fn is_archive(source: &ModelSource) -> bool {
        source.path.extension().is_some_and(|it| it == "mar")
    }

    /// The list beside the model's file, where that is a script of its own: it lies in a folder of the model's
    /// directory that is not a version.
    pub(crate) fn file(source: &ModelSource) -> Option<PathBuf> {
        let folder = source.path.parent()?;
        let is_version = folder.file_name()?.to_str().is_some_and(|it| it.parse::<u64>().is_ok());
        let is_script = folder != source.directory && folder.starts_with(&source.directory);
        Some(folder.join("requirements.txt")).filter(|it| is_script && !is_version && it.is_file())
    }
}

/// The program that runs that model.
///
/// # Errors
/// [`BackendError::Load`] where its paths are no text.
pub(crate) fn program(
    interpreter: Interpreter,
    source: &ModelSource,
    requirements: Option<&Requirements>,
    script_flavor: &str,
) -> Result<WorkerProgram, BackendError> {
    let text = |path: &std::path::Path| {
        path.to_str().map(str::to_owned).ok_or_else(|| {
            BackendError::Load(format!("{} is no text, as Python needs it", path.display()))
        })
    };
    let file = text(&source.path)?;
    let version = source.path.parent().map(text).transpose()?;
    let requirements = requirements.map(|it| {
        let directory = text(&it.directory)?;
        let file = it.file.as_deref().map(text).transpose()?;
        Ok(json!({"file": file, "install": it.installs, "directory": directory}))
    });
    let requirements = requirements.transpose()?;
    let unpacked = interpreter.unpacked.as_ref().map(|it| text(&it.root)).transpose()?;
    let modules: Map<String, Value> =
        MODULES.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect();
    let given = json!({
        "boot": FIRST,
        "modules": modules,
        "load": {
            "name": source.name,
            "version": source.version,
            "file": file,
            "directory": text(&source.directory)?,
            "version_directory": version,
            "options": source.options,
            "config": source.config,
            "auto_complete": source.completes_config,
            "flavor": "auto",
            "script_flavor": script_flavor,
            "unpacked": unpacked,
            "requirements": requirements,
        },
    });
    if let Some(unpacked) = interpreter.unpacked {
        unpacked.stays_with_process();
    }
    Ok(WorkerProgram {
        path: interpreter.path,
        args: ["-u", "-c", BOOT].map(Into::into).to_vec(),
        given_in: "MUSTER_RUNTIME",
        given: given.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    #[test]
    fn every_file_of_the_runtime_is_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("runtime");
        let names_in = |folder: &Path, prefix: &str| -> Vec<String> {
            let names = fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name());
            let names = names.filter_map(|it| it.to_str()?.strip_suffix(".py").map(str::to_owned));
            names.map(|it| format!("{prefix}{it}")).collect()
        };
        let mut there: BTreeSet<String> = names_in(&folder, "").into_iter().collect();
        for name in names_in(&folder.join("muster_python"), "muster_python.") {
            there.insert(name.trim_end_matches(".__init__").to_owned());
        }
        let listed: BTreeSet<String> = MODULES.iter().map(|it| it.0.to_owned()).collect();
        assert_eq!(there, listed);
    }
}
