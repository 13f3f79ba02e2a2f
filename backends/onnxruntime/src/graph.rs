//! The graph of a model: its file, or what was made for a folder that has weights alone.

use std::{
    io::{self, BufReader, Cursor, Read, Seek},
    path::{Path, PathBuf},
    sync::Arc,
};

use backend::BackendError;
use graphs::Precision;

/// A graph that was made. Its weights lie in files of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Made {
    graph: Arc<graphs::Graph>,
    precision: Precision,
}

impl Made {
    /// The graph of these weights, with products of that precision; `None` where the path is that of a graph. Blocking.
    ///
    /// # Errors
    /// [`BackendError::Load`] where none can be made: why, and what to do.
    pub(crate) fn of(path: &Path, precision: Precision) -> Result<Option<Made>, BackendError> {
        if !is_weights(path) {
            return match precision {
                Precision::Fp32 => Ok(None),
                Precision::Int8 => Err(BackendError::Load(format!(
                    "{}: precision int8 is for graphs that are made of {} alone; a graph that lies there has a \
                     precision of its own: leave precision out, or name a quantised graph",
                    path.display(),
                    graphs::WEIGHTS[0],
                ))),
            };
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let graph = graphs::graph_of(folder, precision).map_err(|error| {
            BackendError::Load(format!(
                "{}: no graph can be made for these weights: {error}; a graph beside them is taken instead: \
                 optimum-cli export onnx --model {folder} {folder}",
                path.display(),
                folder = folder.display(),
            ))
        })?;
        Ok(Some(Made { graph: Arc::new(graph), precision }))
    }

    /// The same, made anew of what now lies there. Blocking.
    ///
    /// # Errors
    /// Where it is not the same.
    pub(crate) fn check(&self, path: &Path) -> Result<(), BackendError> {
        match Made::of(path, self.precision)?.as_ref() == Some(self) {
            true => Ok(()),
            false => Err(BackendError::Load(format!("{}: its header has changed", path.display()))),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.graph.model
    }

    /// Has a row of its answers to do with that row of its inputs alone?
    pub(crate) fn keeps_rows_apart(&self) -> bool {
        self.graph.keeps_rows_apart
    }

    /// The weights that runs read as they lie in the files.
    pub(crate) fn plain(&self) -> &[graphs::Plain] {
        &self.graph.plain
    }

    /// The graph with all other weights inside, where a session cannot find them in the files. Blocking; `path` is that
    /// of the weights.
    ///
    /// # Errors
    /// [`BackendError::Load`] where the files cannot be read, or their weights are too many.
    pub(crate) fn completed(&self, path: &Path) -> Option<Result<Vec<u8>, BackendError>> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let failed = |it| BackendError::Load(format!("{}: {it}", path.display()));
        let is_incomplete = self.graph.is_incomplete();
        is_incomplete.then(|| self.graph.completed(folder).map_err(failed))
    }
}

/// Is it a file of weights alone, whose graph is made?
pub(crate) fn is_weights(path: &Path) -> bool {
    path.file_name().and_then(|it| it.to_str()).is_some_and(|it| graphs::WEIGHTS.contains(&it))
}

/// What decides what a graph that is made looks like, beside the weights at that path.
pub(crate) fn described_by(path: &Path) -> PathBuf {
    path.with_file_name(graphs::CONFIG)
}

/// A graph, to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Graph<'a> {
    /// Its file, or that of its weights.
    pub(crate) path: &'a Path,
    made: Option<&'a [u8]>,
}

/// What can be read and passed over.
pub(crate) trait Content: Read + Seek {}

impl<T: Read + Seek> Content for T {}

impl<'a> Graph<'a> {
    /// The graph at that path, or what was made for the weights there.
    pub(crate) fn new(path: &'a Path, made: Option<&'a Made>) -> Graph<'a> {
        Graph { path, made: made.map(Made::bytes) }
    }

    /// Was it made for weights?
    pub(crate) fn is_made(self) -> bool {
        self.made.is_some()
    }

    /// Its bytes, and how many they are.
    pub(crate) fn open(self) -> io::Result<(Box<dyn Content + 'a>, u64)> {
        Ok(match self.made {
            Some(bytes) => (Box::new(Cursor::new(bytes)), bytes.len() as u64),
            None => {
                let file = backend::open_file(self.path)?;
                let length = file.metadata()?.len();
                (Box::new(BufReader::new(file)), length)
            }
        })
    }
}

impl<'a> From<&'a Path> for Graph<'a> {
    fn from(path: &'a Path) -> Graph<'a> {
        Graph::new(path, None)
    }
}
