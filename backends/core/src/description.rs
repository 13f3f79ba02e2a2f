//! What an engine says of itself: the files that it opens, and what its settings are called.

use std::path::Path;

/// What an engine can open, and what its settings are called. The server knows no engine by name: it asks this.
#[derive(Debug, Clone, Copy)]
pub struct EngineDescription {
    /// Formats of model files. None where the engine needs no file.
    pub formats: &'static [Format],
    /// Other names of it in a configuration's `backend`.
    pub other_names: &'static [&'static str],
    /// Its setting for the threads inside one operator.
    pub intra_op_threads: Option<&'static str>,
    /// Its setting for the threads among operators.
    pub inter_op_threads: Option<&'static str>,
    /// Is the number of threads inside an operator that of a pool that instances may share? Then what the operator says
    /// for all models is the pool's number, however many share it.
    pub threads_are_of_sessions: bool,
    /// Its setting for the GPU memory that a model may take, in bytes.
    pub gpu_memory_limit: Option<&'static str>,
    /// Does it read `optimization.execution_accelerators` for GPUs?
    pub has_gpu_accelerators: bool,
    /// Does it take operators from libraries (`model_operations.op_library_filename`)?
    pub has_op_libraries: bool,
    /// Keys of the configuration's `parameters` that it heeds, by name; those that it refuses itself where they are
    /// misspelt need not be among them.
    pub parameters: &'static [&'static str],
    /// How names begin that only parameters of this engine have, as `TF_`: others than those that it heeds have no
    /// effect. Empty where there are none such.
    pub prefix: &'static str,
    /// Its settings that name files of this machine, in parameters of models and of accelerators.
    pub settings_of_files: &'static [&'static str],
    /// Its parameters that may name files of other models in the same repository.
    pub settings_of_repository: &'static [&'static str],
    /// May a model of it be without version directories, as there is nothing to put into them?
    pub is_version_optional: bool,
    /// Are requests merged where a configuration does not say so?
    pub merges_by_default: bool,
    /// Does a run itself look at the shapes of its inputs, so that protocols without shapes may leave them to it?
    pub graph_checks_shapes: bool,
    /// Is NaN a value that is missing to its models?
    pub takes_missing: bool,
    /// Are inputs that may be left out part of a model whose configuration names none?
    pub shows_optional_inputs: bool,
    /// May a model of it have no inputs at all, as its code has something to say by itself?
    pub may_lack_inputs: bool,
    /// Does it run native code, which a file can have end the process?
    pub runs_native_code: bool,
    /// Are its models run in processes of their own, wherever else models run?
    pub runs_apart: bool,
    /// Is that file of its formats a program for Python that it does not read as data? `None` where it has no such
    /// formats. Blocking: it reads the file.
    pub is_unread: Option<fn(&Path) -> bool>,
    /// Does it run such files?
    pub runs_unread: bool,
    /// May its models answer a request in parts? See [`crate::Model::streams`].
    pub streams: bool,
    /// May its models have a request run once more? See [`crate::CallAnswer::again`].
    pub puts_back: bool,
}

impl EngineDescription {
    /// An engine that opens no files and has none of these settings.
    pub const PLAIN: EngineDescription = EngineDescription {
        formats: &[],
        other_names: &[],
        intra_op_threads: None,
        inter_op_threads: None,
        threads_are_of_sessions: false,
        gpu_memory_limit: None,
        has_gpu_accelerators: false,
        has_op_libraries: false,
        parameters: &[],
        prefix: "",
        settings_of_files: &[],
        settings_of_repository: &[],
        is_version_optional: false,
        merges_by_default: true,
        graph_checks_shapes: false,
        takes_missing: false,
        shows_optional_inputs: false,
        may_lack_inputs: false,
        runs_native_code: true,
        runs_apart: false,
        is_unread: None,
        runs_unread: false,
        streams: false,
        puts_back: false,
    };

    /// Is that file of one of its formats, by its name?
    pub fn has_file(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
        let ending = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
        self.formats.iter().any(|it| it.has_name(name) || it.has_extension(ending))
    }
}

/// First bytes of a file that tell its format.
pub const CONTENT: usize = 4 << 10;

/// A format of model files.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// The `platform` of a configuration; empty where it has none.
    pub platform: &'static str,
    /// Other names of the platform.
    pub aliases: &'static [&'static str],
    /// Name of the file in a version's directory, unless the configuration says another one.
    pub file: &'static str,
    /// Other endings of such files than that of `file`.
    pub other_extensions: &'static [&'static str],
    /// Other names of the file than `file`, in the order in which they are looked for.
    pub other_files: &'static [&'static str],
    /// With what the names of files begin that are one model together, where this and a number behind it are their
    /// names: `xgboost-model-` for `xgboost-model-0`, `xgboost-model-1`. Empty where there are none such.
    pub folds: &'static str,
    /// Is a file of this format only if it is called `file`? Other files of its ending are something else, as most
    /// programs in Python are.
    pub is_by_whole_name: bool,
    /// Is a file that begins with these bytes, [`CONTENT`] of them or all, of this format? `None` where its name says
    /// so: files of endings that other things have, too, are told by their content.
    pub content: Option<fn(&[u8]) -> bool>,
    /// Where several files are there, that of the lowest rank is the model, as in Triton.
    pub rank: u8,
    /// Can the engine run it? One that it cannot is known so that the engine can say what to do instead.
    pub is_served: bool,
}

impl Format {
    /// Could a file of that name be of this format? Its content may say otherwise.
    pub fn has_name(&self, name: &str) -> bool {
        let ending = name.rsplit_once('.').map(|(_, ending)| ending);
        if self.is_by_whole_name {
            return name == self.file;
        }
        let is_other = self.other_files.contains(&name) || self.fold(name).is_some();
        !name.starts_with('.') && (is_other || ending.is_some_and(|it| self.has_extension(it)))
    }

    /// The number of a file of that name among those that are one model together.
    pub fn fold(&self, name: &str) -> Option<u32> {
        let number = name.strip_prefix(self.folds).filter(|_| !self.folds.is_empty())?;
        let is_plain = number.bytes().all(|it| it.is_ascii_digit());
        number.parse().ok().filter(|_| is_plain)
    }

    /// The ending of `file`.
    pub fn extension(&self) -> &'static str {
        self.file.rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    /// Are files of that ending of this format?
    pub fn has_extension(&self, extension: &str) -> bool {
        self.extension() == extension || self.other_extensions.contains(&extension)
    }
}
