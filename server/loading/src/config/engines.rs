//! The engines of a server, by what they say of themselves, and the formats that other servers have.

use std::{path::Path, sync::Arc};

use backend::{Backend, EngineDescription, Format};

/// Formats that Triton knows and no engine of this server opens: a model of one is recognised, and refused by its name.
const ELSEWHERE: [(&str, Format); 2] = [
    ("tensorrt", elsewhere("tensorrt_plan", "model.plan", 0)),
    ("openvino", elsewhere("", "model.xml", 2)),
];

const fn elsewhere(platform: &'static str, file: &'static str, rank: u8) -> Format {
    Format {
        platform,
        aliases: &[],
        file,
        other_extensions: &[],
        other_files: &[],
        folds: "",
        is_by_whole_name: false,
        content: None,
        rank,
        is_served: false,
    }
}

/// The engines of a server.
#[derive(Debug, Clone, Default)]
pub struct Engines(Vec<(&'static str, &'static EngineDescription)>);

/// A format, and the engine that opens it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownFormat {
    /// Name of the engine.
    pub(crate) backend: &'static str,
    /// What it opens.
    pub(crate) format: Format,
}

impl Engines {
    /// As they describe themselves.
    pub(crate) fn of(engines: &[Arc<dyn Backend>]) -> Engines {
        Engines(engines.iter().map(|it| (it.name(), it.description())).collect())
    }

    /// Their names.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|(name, _)| *name).collect()
    }

    /// What the engine of that name says of itself; a plain one where there is none.
    pub(crate) fn description(&self, name: &str) -> &'static EngineDescription {
        let found = self.0.iter().find(|(it, _)| *it == name);
        found.map_or(&EngineDescription::PLAIN, |(_, description)| description)
    }

    /// Names of those that take operators from libraries.
    pub(crate) fn with_op_libraries(&self) -> Vec<&'static str> {
        self.0.iter().filter(|(_, it)| it.has_op_libraries).map(|(name, _)| *name).collect()
    }

    /// Is that file a program for Python that the engine of that name does not read as data? Blocking.
    pub(crate) fn is_unread(&self, name: &str, file: &Path) -> bool {
        self.description(name).is_unread.is_some_and(|is_unread| is_unread(file))
    }

    /// The same of a file of any engine's formats.
    pub(crate) fn is_unread_by_all(&self, file: &Path) -> bool {
        self.0.iter().any(|(_, it)| it.has_file(file) && it.is_unread.is_some_and(|of| of(file)))
    }

    /// The engine that runs such files.
    pub(crate) fn runner_of_unread(&self) -> Option<&'static str> {
        self.0.iter().find(|(_, it)| it.runs_unread).map(|(name, _)| *name)
    }

    /// Is it a setting of an engine that names files of this machine?
    pub(crate) fn names_files(&self, setting: &str) -> bool {
        self.0.iter().any(|(_, it)| it.settings_of_files.contains(&setting))
    }

    /// Every setting for the threads inside one operator.
    pub(crate) fn intra_op_keys(&self) -> Vec<&'static str> {
        self.0.iter().filter_map(|(_, it)| it.intra_op_threads).collect()
    }

    /// Every setting for operators at the same time.
    pub(crate) fn inter_op_keys(&self) -> Vec<&'static str> {
        self.0.iter().filter_map(|(_, it)| it.inter_op_threads).collect()
    }

    /// All formats, also those that are known elsewhere, in the order in which files are looked for.
    pub(crate) fn formats(&self) -> Vec<KnownFormat> {
        let own = self.0.iter().flat_map(|(backend, it)| {
            it.formats.iter().map(|format| KnownFormat { backend, format: *format })
        });
        let elsewhere = ELSEWHERE.map(|(backend, format)| KnownFormat { backend, format });
        let mut formats: Vec<KnownFormat> = own.chain(elsewhere).collect();
        formats.sort_by_key(|it| it.format.rank);
        formats
    }

    /// Does the name stand for a format that an engine serves: its platform, its files' ending, or the engine?
    pub(crate) fn serve_platform(&self, name: &str) -> bool {
        self.0.iter().any(|(engine, it)| {
            let mut served = it.formats.iter().filter(|it| it.is_served);
            served.any(|it| [it.platform, it.extension(), engine].contains(&name))
        })
    }

    /// The name of the engine that a configuration calls so.
    pub(crate) fn name_of<'a>(&self, backend: &'a str) -> &'a str {
        let known = self.0.iter().find(|(_, it)| it.other_names.contains(&backend));
        known.map_or(backend, |(name, _)| *name)
    }

    /// The formats that engines open; of two files that could be the model, that of the first format is.
    pub(crate) fn own_formats(&self) -> Vec<Format> {
        let mut formats: Vec<Format> =
            self.0.iter().flat_map(|(_, it)| it.formats).copied().collect();
        formats.sort_by_key(|it| it.rank);
        formats
    }

    /// Endings of files that are served: `.onnx, .pt or .pth`.
    pub(crate) fn extensions_text(&self) -> String {
        let formats = self.formats().into_iter().map(|it| it.format);
        let formats = formats.filter(|it| it.is_served);
        let endings = formats
            .flat_map(|it| [it.extension()].into_iter().chain(it.other_extensions.iter().copied()));
        let endings: Vec<String> = endings.map(|it| format!(".{it}")).collect();
        match endings.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        }
    }
}

/// Engines that describe themselves as those of the product do.
#[cfg(test)]
pub(crate) fn usual() -> Engines {
    const fn format(
        platform: &'static str,
        file: &'static str,
        rank: u8,
        is_served: bool,
    ) -> Format {
        Format { is_served, ..elsewhere(platform, file, rank) }
    }
    const ONNX: EngineDescription = EngineDescription {
        formats: &[format("onnxruntime_onnx", "model.onnx", 1, true)],
        intra_op_threads: Some("intra_op_thread_count"),
        inter_op_threads: Some("inter_op_thread_count"),
        gpu_memory_limit: Some("gpu_mem_limit"),
        has_gpu_accelerators: true,
        has_op_libraries: true,
        parameters: &["intra_op_thread_count", "execution_mode"],
        settings_of_files: &["session.optimized_model_filepath", "engine_cache_path"],
        ..EngineDescription::PLAIN
    };
    const TORCH: EngineDescription = EngineDescription {
        formats: &[
            Format {
                aliases: &["libtorch"],
                other_extensions: &["pth"],
                ..format("pytorch_libtorch", "model.pt", 3, true)
            },
            format("torch_aoti", "model.pt2", 4, false),
        ],
        intra_op_threads: Some("INTRA_OP_THREAD_COUNT"),
        inter_op_threads: Some("INTER_OP_THREAD_COUNT"),
        ..EngineDescription::PLAIN
    };
    const TENSORFLOW: EngineDescription = EngineDescription {
        formats: &[
            format("tensorflow_savedmodel", "model.savedmodel", 2, true),
            format("tensorflow_savedmodel", "saved_model.pb", 2, true),
        ],
        graph_checks_shapes: true,
        parameters: &["TF_NUM_INTRA_THREADS", "TF_GRAPH_TAG"],
        prefix: "TF_",
        ..EngineDescription::PLAIN
    };
    Engines(vec![
        ("identity", &EngineDescription::PLAIN),
        ("onnxruntime", &ONNX),
        ("pytorch", &TORCH),
        ("tensorflow", &TENSORFLOW),
    ])
}

/// An engine whose files are told by their content, as those of trees are, and one that runs code.
#[cfg(test)]
pub(crate) fn told_by_content() -> Engines {
    const TREES: EngineDescription = EngineDescription {
        formats: &[Format {
            other_extensions: &["joblib"],
            other_files: &["model.joblib"],
            content: Some(|begin| begin.starts_with(b"{L")),
            is_served: true,
            ..elsewhere("", "model.ubj", 4)
        }],
        ..EngineDescription::PLAIN
    };
    const PYTHON: EngineDescription = EngineDescription {
        formats: &[Format { is_by_whole_name: true, ..elsewhere("", "model.py", 5) }],
        runs_unread: true,
        ..EngineDescription::PLAIN
    };
    Engines(vec![("fil", &TREES), ("python", &PYTHON)])
}
