//! The files that a model consists of: its own, and those that hold its weights, whose names stand in the first.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use backend::BackendError;

use crate::{graph::Graph, walk::FoundFiles};

/// A model of fewer bytes is small: it is optimised anew at each start, which takes some ten milliseconds, and on a GPU
/// each instance has a session of its own.
pub(crate) const LARGE: u64 = 16 << 20;

/// Below this a model's runs are so short that they would wait for each other at an allocator that they share, and what
/// they take is little: each instance has a session and an arena of its own.
///
/// On two processors two threads that run one session of 0.3 MB get up to 40 % fewer runs done than with a session
/// each. From 2 MB on they get as many and more, since the weights are in the processors' caches once.
const TINY: u64 = 2 << 20;

/// So many files of weights are named in an error.
const NAMED: usize = 3;

/// What a model is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelFiles {
    /// The model's own file, or that of its weights where its graph was made.
    pub(crate) model: PathBuf,
    /// Names of the files of weights, relative to it.
    pub(crate) weights: BTreeSet<String>,
    /// Bytes of all of them together.
    pub(crate) bytes: u64,
    /// Bytes of the weights in files of their own, as far as the model uses those files.
    pub(crate) weight_bytes: u64,
    /// Is there an operator that makes maps of a classifier's probabilities?
    pub(crate) has_zipmap: bool,
    /// Do shapes follow from those of the inputs, and not from what is in them?
    pub(crate) has_plain_shapes: bool,
    /// The operator by which the rows of a run share something, whatever is sent.
    pub(crate) shares_rows: Option<String>,
    /// Does the time of a run follow from what is in the inputs?
    pub(crate) time_follows_values: bool,
}

impl ModelFiles {
    /// Looks into the graph. Skips what is large, so it takes well below a millisecond.
    ///
    /// # Errors
    /// A file that is no ONNX model, or weights that are not there: ONNX Runtime says what is wrong with it.
    pub(crate) fn of<'a>(graph: impl Into<Graph<'a>>) -> io::Result<ModelFiles> {
        let graph = graph.into();
        ModelFiles::with(graph, FoundFiles::of(graph)?)
    }

    /// The same of a graph that was walked.
    ///
    /// # Errors
    /// Weights that are not there.
    pub(crate) fn with(graph: Graph<'_>, found: FoundFiles) -> io::Result<ModelFiles> {
        let model = graph.path;
        let folder = model.parent().unwrap_or(Path::new(""));
        let mut beside = 0u64;
        for name in &found.weights {
            beside = beside.saturating_add(fs::metadata(folder.join(name))?.len());
        }
        let bytes = found.length.saturating_add(beside);
        Ok(ModelFiles {
            model: model.to_owned(),
            weights: found.weights,
            bytes,
            weight_bytes: found.weight_bytes.map_or(beside, |it| it.min(beside)),
            has_zipmap: found.has_zipmap,
            has_plain_shapes: found.has_plain_shapes,
            // A graph that is made quantises each row by itself.
            shares_rows: found.shares_rows.filter(|_| !graph.is_made()),
            time_follows_values: found.time_follows_values,
        })
    }

    /// That a file is an ONNX model, and that the files of weights are there which it names. Its operators are not
    /// looked at. Blocking.
    ///
    /// # Errors
    /// What is wrong with the files, and what to do.
    pub(crate) fn check(model: &Path) -> Result<(), BackendError> {
        let refused = |problem: String| {
            let model = model.display();
            Err(BackendError::Load(format!("{model}: {problem}; copy or export it again, whole")))
        };
        let found = match FoundFiles::of(model.into()) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return refused("it is no ONNX model, or one that is cut short".to_owned());
            }
            Err(error) => return refused(error.to_string()),
        };
        if !found.has_graph {
            return refused("it is no ONNX model: it has no graph".to_owned());
        }
        let folder = model.parent().unwrap_or(Path::new(""));
        for name in &found.weights {
            if let Err(error) = fs::metadata(folder.join(name)) {
                return refused(format!(
                    "its weights are in {name}, which lies beside it: {error}"
                ));
            }
        }
        Ok(())
    }

    /// That each of the files of weights is one, where it is there: ONNX Runtime would open a pipe, and wait.
    ///
    /// # Errors
    /// The first that is something else.
    pub(crate) fn check_weights(model: &Path, found: &FoundFiles) -> Result<(), BackendError> {
        let folder = model.parent().unwrap_or(Path::new(""));
        for name in &found.weights {
            backend::check_opens(&folder.join(name)).map_err(|problem| {
                BackendError::Load(format!("{}: its weights in {name}: {problem}", model.display()))
            })?;
        }
        Ok(())
    }

    /// That a process which may take `memory` bytes may load it on the CPU. ONNX Runtime maps the weights, and copies
    /// those that its kernels want in another form: beyond the memory, the process would be killed.
    ///
    /// # Errors
    /// The files and bytes, where they are more.
    pub(crate) fn check_memory(&self, memory: u64) -> Result<(), BackendError> {
        if self.weight_bytes <= memory {
            return Ok(());
        }
        let names: Vec<&str> = self.weights.iter().take(NAMED).map(String::as_str).collect();
        let more = if NAMED < self.weights.len() { " and others" } else { "" };
        Err(BackendError::Load(format!(
            "{}: its weights in {}{more} are {} bytes, and this process may take {memory} bytes of memory; give it more \
             memory, or serve the model elsewhere",
            self.model.display(),
            names.join(", "),
            self.weight_bytes,
        )))
    }

    pub(crate) fn paths_of_weights(&self) -> impl Iterator<Item = PathBuf> {
        let folder = self.model.parent().unwrap_or(Path::new(""));
        self.weights.iter().map(|it| folder.join(it))
    }

    pub(crate) fn is_tiny(&self) -> bool {
        self.bytes < TINY
    }

    pub(crate) fn is_large(&self) -> bool {
        self.bytes >= LARGE
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here fails the test")]
mod tests {
    use super::*;
    use crate::walk::tests::field;

    fn model(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models").join(name)
    }

    #[test]
    fn weights_in_files_of_their_own_are_found_and_counted() {
        let files = ModelFiles::of(model("external/model.onnx").as_path()).unwrap();
        assert_eq!(files.weights, BTreeSet::from(["weights.bin".to_owned()]));
        let bytes = |name| fs::metadata(model(name)).unwrap().len();
        assert_eq!(files.bytes, bytes("external/model.onnx") + bytes("external/weights.bin"));
        assert!(0 < files.weight_bytes && files.weight_bytes <= bytes("external/weights.bin"));
        assert_eq!(files.check_memory(files.weight_bytes), Ok(()));
        let error = files.check_memory(files.weight_bytes - 1).unwrap_err().to_string();
        assert!(error.contains("external/model.onnx: its weights in weights.bin are"), "{error}");
        assert!(!files.is_large());
    }

    #[test]
    fn what_is_no_model_or_lacks_its_weights_is_told_without_a_load() {
        let models = ["mlp.onnx", "long.onnx", "external/model.onnx"];
        assert!(models.iter().all(|it| ModelFiles::check(&model(it)).is_ok()));
        let path = std::env::temp_dir().join(format!("muster-check-{}.onnx", std::process::id()));
        let check = |content: &[u8]| {
            fs::write(&path, content).unwrap();
            ModelFiles::check(&path).unwrap_err().to_string()
        };
        let whole = fs::read(model("mlp.onnx")).unwrap();
        let external = fs::read(model("external/model.onnx")).unwrap();
        // The third is an opset and nothing else.
        let cases: [(&[u8], &str); 4] = [
            (b"no model at all, but a few words", ": it is no ONNX model"),
            (&whole[..100], "it is no ONNX model"),
            (b"\x08\x08\x42\x02\x10\x11", "it has no graph"),
            (&external, "its weights are in weights.bin"),
        ];
        for (content, problem) in cases {
            let said = check(content);
            assert!(said.contains(problem) && said.contains("copy or export"), "{said}");
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn weights_of_branches_and_of_constants_are_found_too() {
        let folder = std::env::temp_dir().join(format!("muster-branches-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let tensor = |name: &str| {
            let place = [field(1, b"location"), field(2, name.as_bytes())].concat();
            let offset = [field(1, b"offset"), field(2, b"0")].concat();
            fs::write(folder.join(name), [0; 10]).unwrap();
            [field(13, &offset), field(13, &place)].concat()
        };
        let constant = field(5, &tensor("constant"));
        let branch = field(6, &field(5, &tensor("branch")));
        let nodes = [constant, branch].map(|attribute| field(1, &field(5, &attribute)));
        let model = field(7, &nodes.concat());
        fs::write(folder.join("model.onnx"), &model).unwrap();
        let files = ModelFiles::of(folder.join("model.onnx").as_path()).unwrap();
        assert_eq!(files.weights, BTreeSet::from(["branch".to_owned(), "constant".to_owned()]));
        assert_eq!(files.bytes, model.len() as u64 + 20);
        // They do not say how much of the files they are.
        assert_eq!(files.weight_bytes, 20);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn every_model_can_be_walked_and_a_cut_or_foreign_file_is_an_error() {
        let folder = std::env::temp_dir().join(format!("muster-walk-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for name in ["mlp.onnx", "long.onnx", "identity/BYTES.onnx"] {
            let files = ModelFiles::of(model(name).as_path()).unwrap();
            assert!(files.weights.is_empty());
            let whole = fs::read(model(name)).unwrap();
            assert_eq!(files.bytes, whole.len() as u64);
            let cut = folder.join("cut.onnx");
            fs::write(&cut, &whole[..whole.len() - 1]).unwrap();
            ModelFiles::of(cut.as_path()).unwrap_err();
        }
        let junk = folder.join("junk.onnx");
        fs::write(&junk, [0xFF; 100]).unwrap();
        ModelFiles::of(junk.as_path()).unwrap_err();
        fs::remove_dir_all(&folder).unwrap();
    }
}
