//! The graph of a model: its file, or what was made for a folder that has weights alone.

use std::{
    fs::File,
    io::{self, BufReader, Cursor, Read, Seek},
    path::{Path, PathBuf},
    sync::Arc,
};

use backend::BackendError;

/// A graph that was made. Its weights lie in files of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Made(Arc<graphs::Graph>);

impl Made {
    /// The graph of these weights; `None` where the path is that of a graph. Blocking.
    ///
    /// # Errors
    /// [`BackendError::Load`] where none can be made: why, and what to do.
    pub(crate) fn of(path: &Path) -> Result<Option<Made>, BackendError> {
        let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
        if !graphs::WEIGHTS.contains(&name) {
            return Ok(None);
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let graph = graphs::graph_of(folder).map_err(|error| {
            BackendError::Load(format!(
                "{}: no graph can be made for these weights: {error}; a graph beside them is taken instead: \
                 optimum-cli export onnx --model {folder} {folder}",
                path.display(),
                folder = folder.display(),
            ))
        })?;
        Ok(Some(Made(Arc::new(graph))))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0.model
    }

    /// The weights that runs read as they lie in the files.
    pub(crate) fn plain(&self) -> &[graphs::Plain] {
        &self.0.plain
    }
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

    /// Its bytes, and how many they are.
    pub(crate) fn open(self) -> io::Result<(Box<dyn Content + 'a>, u64)> {
        Ok(match self.made {
            Some(bytes) => (Box::new(Cursor::new(bytes)), bytes.len() as u64),
            None => {
                let file = File::open(self.path)?;
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
