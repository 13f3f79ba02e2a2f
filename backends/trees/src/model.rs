//! A model: a forest, what clients send and get, and the instances that share it.

use std::{borrow::Cow, collections::HashSet, io::Read, path::Path, sync::Arc};

use backend::{
    BackendError, Device, FileStamps, Instance, Model, ModelSource, ModelSpec, RunMemory,
};

use crate::{
    error::FormatError,
    folds::{self, Face},
    forest::{
        document::{Document, Library},
        layout::lay_out_with,
        packed::Forest,
    },
    instance::TreeInstance,
    limits,
    meaning::Meaning,
    options::Options,
    output::probabilities,
    ports::{extras, outputs, spec},
    read::{is_of_python, read_all},
    select::select_trees,
    shared::Shared,
};

/// Bytes of files from which on a load gives back what it has freed, several times as much as the forest takes. What
/// smaller ones free the next load uses, and giving it back holds up other threads that allocate.
const LARGE: u64 = 4 << 20;

/// A loaded model version.
pub(crate) struct TreeModel {
    shared: Arc<Shared>,
    spec: ModelSpec,
    /// Objective, classes and targets of a file of XGBoost, which say what a reply in its container's dialect means; of
    /// others the library.
    notes: Vec<(Cow<'static, str>, String)>,
}

impl TreeModel {
    /// Folds that are replaced meanwhile would be of several models, and so would the parts of a file that is written
    /// over: neither is served.
    pub(crate) fn load(source: &ModelSource) -> Result<TreeModel, BackendError> {
        let files = || std::iter::once(&source.path).chain(&source.folds);
        let model = FileStamps::of(files().cloned()).while_same(|| TreeModel::read(source));
        let bytes: u64 = files().filter_map(|it| it.metadata().ok()).map(|it| it.len()).sum();
        if LARGE <= bytes {
            environment::give_back_memory();
        }
        model
    }

    fn read(source: &ModelSource) -> Result<TreeModel, BackendError> {
        let options = Options::read(source)?;
        let paths: Vec<&Path> =
            std::iter::once(&source.path).chain(&source.folds).map(|it| &**it).collect();
        if folds::MOST < paths.len() {
            let (folds, most) = (paths.len(), folds::MOST);
            return Err(BackendError::Load(format!(
                "{} and its folds are {folds} files; at most {most} are one model",
                source.path.display()
            )));
        }
        let mut all = read_documents(&source.path, &options)?.into_iter();
        let Some(mut first) = all.next() else {
            let path = source.path.display();
            return Err(BackendError::Load(format!("{path} holds no forest")));
        };
        let notes = match (first.origin.library, &options.fil) {
            (Library::Xgboost, None) => {
                let classes = first.classes.map(|it| ("num_class".into(), it.to_string()));
                let objective = ("xgboost_objective".into(), first.objective.clone());
                let targets = if first.classes.is_some_and(|it| 2 < it) { 1 } else { first.sums() };
                let targets = ("num_target".into(), targets.to_string());
                let pickled = ("xgboost_pickled".into(), "true".to_owned());
                let pickled = first.is_pickled_booster.then_some(pickled);
                [objective, targets].into_iter().chain(classes).chain(pickled).collect()
            }
            (Library::Lightgbm | Library::ScikitLearn, _) => {
                vec![("trained_by".into(), first.origin.library.name().to_owned())]
            }
            _ => Vec::new(),
        };
        let missing = options.missing.or(first.missing);
        let face = Face::of(&first);
        let meaning = Meaning::of(&first);
        let mut names = take_names(&mut first);
        let categories = std::mem::take(&mut first.categories);
        let mut forests = vec![lay(first, &source.path, source)?];
        let of_path = |path| read_documents(path, &options).map(move |it| (path, it));
        let others = paths[1..].iter().copied().map(of_path);
        // One file is freed before the next one is read.
        for read in std::iter::once(Ok((paths[0], all.collect()))).chain(others) {
            let (path, documents): (&Path, Vec<Document>) = read?;
            for mut document in documents {
                if let Some((what, one, other)) = face.difference(&Face::of(&document)) {
                    let (first, path) = (source.path.display(), path.display());
                    return Err(BackendError::Load(format!(
                        "{first} and {path} are not one model: {what} {one} and {other}"
                    )));
                }
                if take_names(&mut document) != names {
                    names.clear();
                }
                forests.push(lay(document, path, source)?);
            }
        }
        if !options.ignored.is_empty() {
            let keys = options.ignored.join(", ");
            tracing::info!("{}: no effect here: {keys}", source.name);
        }
        let outputs = outputs(&forests, source, &options, &meaning)?;
        let spec = spec(&forests, source, &outputs, names.clone(), &categories);
        // They are only said of what is wrong with categories.
        let feature_names = if categories.is_empty() { Vec::new() } else { names };
        let shared = Shared { forests, missing, outputs, categories, feature_names };
        Ok(TreeModel { shared: Arc::new(shared), spec, notes })
    }
}

impl Model for TreeModel {
    fn spec(&self) -> Option<&ModelSpec> {
        Some(&self.spec)
    }

    fn notes(&self) -> &[(Cow<'static, str>, String)] {
        &self.notes
    }

    /// Made-up numbers are no codes of categories, and are refused where these have names. Rows of trees never depend
    /// on each other.
    fn allows_trial_runs(&self) -> bool {
        self.shared.categories.is_empty()
    }

    fn run_memory(&self) -> RunMemory {
        let Shared { forests, outputs, .. } = &*self.shared;
        let large = outputs.iter().filter(|it| !it.form.is_of_sums());
        let large = large.map(|it| (it.name.clone(), it.bytes_of_row(forests)));
        RunMemory { large_outputs: large.collect(), ..RunMemory::default() }
    }

    fn instantiate(&self, device: Device) -> Result<Box<dyn Instance>, BackendError> {
        match device {
            Device::Cpu => Ok(Box::new(TreeInstance::new(self.shared.clone()))),
            Device::Gpu(_) => Err(BackendError::Load(
                "trees run on the CPU here; write KIND_CPU or KIND_AUTO in instance_group"
                    .to_owned(),
            )),
        }
    }
}

/// What a file says, with the trees that count: one forest, or several whose answers are averaged.
fn read_documents(path: &Path, options: &Options) -> Result<Vec<Document>, BackendError> {
    let bytes = read_file(path)?;
    let in_file = |it: FormatError| it.in_file(path);
    let mut documents = read_all(&bytes, options.objective.as_deref()).map_err(in_file)?;
    drop(bytes);
    for document in &mut documents {
        options.check_type(document).map_err(|it| BackendError::Load(it.to_string()))?;
        select_trees(document, options).map_err(in_file)?;
        if options.fil.is_some() {
            document.transform = probabilities(document.transform);
        }
    }
    Ok(documents)
}

/// Is that file a pickle, or an archive of skops, that holds something else than is read here?
pub(crate) fn is_unread(path: &Path) -> bool {
    let Ok(bytes) = read_file(path) else { return false };
    is_of_python(&bytes) && read_all(&bytes, None).is_err()
}

/// The names of a document's features, where each has one of its own.
fn take_names(document: &mut Document) -> Vec<String> {
    if document.feature_names.len() != document.features {
        return Vec::new();
    }
    let names = std::mem::take(&mut document.feature_names);
    let different: HashSet<&str> = names.iter().map(String::as_str).collect();
    if different.len() == names.len() { names } else { Vec::new() }
}

/// The forest of a document, which is checked; the log says what it is.
fn lay(mut document: Document, path: &Path, source: &ModelSource) -> Result<Forest, BackendError> {
    let about = About::of(&document);
    let remarks = std::mem::take(&mut document.remarks);
    let laid =
        lay_out_with(document, extras(source)).map_err(|it: FormatError| it.in_file(path))?;
    let file_bytes = path.metadata().map_or(0, |it| it.len());
    about.log(&source.name, &laid.forest, laid.dropped, file_bytes);
    for remark in remarks {
        tracing::info!("{}: {remark}", source.name);
    }
    Ok(laid.forest)
}

/// The whole file, unless it is too large.
fn read_file(path: &Path) -> Result<Vec<u8>, BackendError> {
    let cannot =
        |it: std::io::Error| BackendError::Load(format!("cannot read {}: {it}", path.display()));
    let file = backend::open_file(path).map_err(cannot)?;
    let length = file.metadata().map_err(cannot)?.len();
    if limits::FILE_BYTES < length {
        let (path, most) = (path.display(), limits::FILE_BYTES);
        return Err(BackendError::Load(format!(
            "{path} has {length} bytes; at most {most} are served"
        )));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(limits::FILE_BYTES).read_to_end(&mut bytes).map_err(cannot)?;
    Ok(bytes)
}

/// What the log says of a file.
struct About {
    origin: String,
    objective: String,
}

impl About {
    fn of(document: &Document) -> About {
        let origin = &document.origin;
        let parts = [origin.library.name(), &origin.version, origin.format];
        let parts: Vec<&str> = parts.into_iter().filter(|it| !it.is_empty()).collect();
        About { origin: parts.join(" "), objective: document.objective.clone() }
    }

    fn log(&self, model: &str, forest: &Forest, dropped: usize, file_bytes: u64) {
        let About { origin, objective } = self;
        let objective = if objective.is_empty() { "no objective" } else { objective };
        let nodes = forest.nodes.len();
        tracing::info!(
            file_bytes,
            dropped,
            "{model}: {origin}, {objective}, {} trees, {nodes} nodes of {} bytes, depth ≤ {}, {} features",
            forest.trees.len(),
            forest.nodes.bytes_each(),
            forest.depth(),
            forest.features,
        );
    }
}
