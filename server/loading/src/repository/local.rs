//! What lies in a model repository: models, their versions, their configuration files. Looks at names only;
//! nothing is read.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use backend::FileContents;

use crate::{
    config::engines::Engines,
    repository::{
        denied::listing_failed,
        flat::{OF_HUB, left_out, model_files, only_model_file},
    },
    settings::repository::ModelsFrom,
};
use inference::messages;
use serving::model_id::ModelId;
use steps::is_pipeline;

/// The file of sentence-transformers that names the directories beside it.
const MODULES: &str = "modules.json";

/// What a model has to do with a script around models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScriptPart {
    /// It is the script, and that model is asked where a request names none.
    Around(String),
    /// Requests of a hosting platform reach it through that script.
    Behind(String),
}

/// A model that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundModel {
    /// Its directory's name, or the name given to a model that lies flat.
    pub name: String,
    /// Its repository, where models of several may have one name; else empty.
    pub namespace: Arc<str>,
    /// `config.pbtxt`, where there is one.
    pub config: Option<PathBuf>,
    /// The model's directory.
    pub dir: PathBuf,
    /// Its versions: what lies there is a directory, or the model file itself.
    pub versions: BTreeMap<u64, PathBuf>,
    /// The operator has named it, whatever its directory and its configuration say.
    pub renamed: bool,
    /// What people call it, where its name is a key that a platform has chosen. It is then in no namespace, and its
    /// members are in its own.
    pub label: Option<Arc<str>>,
    /// Its files came with a request to load it: a client has chosen them, not the operator.
    pub is_of_request: bool,
    /// The directories of all models, where each has one of its own; else empty.
    pub others: Arc<Vec<PathBuf>>,
    /// What it has to do with the script of its archive; `None` where there is none around models.
    pub(crate) script: Option<ScriptPart>,
    /// What is known of the contents of its files.
    pub contents: Arc<FileContents>,
}

impl FoundModel {
    /// Which model it is.
    pub fn id(&self) -> ModelId {
        let namespace = match self.label {
            Some(_) => Arc::default(),
            None => self.namespace.clone(),
        };
        ModelId { name: self.name.as_str().into(), namespace }
    }

    /// Is it as TensorFlow Serving has it, and as no other server: no configuration, and the file of a SavedModel
    /// directly in the directory of each version?
    pub(crate) fn is_of_tensorflow_serving(&self) -> bool {
        let is_saved = |it: &PathBuf| it.join(SAVED_MODEL).is_file();
        self.config.is_none() && !self.versions.is_empty() && self.versions.values().all(is_saved)
    }

    /// What metrics call it.
    pub(crate) fn shown_name(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.name)
    }
}

/// May models of several repositories have the same name?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// No: what is there twice is refused.
    Once,
    /// Yes: each repository is a namespace.
    PerRepository,
}

impl Names {
    /// The model of that name in that repository.
    pub(crate) fn id(self, name: &str, repository: &Path) -> ModelId {
        let namespace = match self {
            Names::Once => Arc::default(),
            Names::PerRepository => repository.to_string_lossy().into(),
        };
        ModelId { name: name.into(), namespace }
    }
}

/// Everything that was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FoundModels {
    /// Models by name.
    pub models: BTreeMap<ModelId, FoundModel>,
    /// Those that cannot be served, and why.
    pub refused: BTreeMap<ModelId, String>,
    /// Those in object stores that were not asked for: they are there, and no more is known.
    pub remote: BTreeSet<ModelId>,
    /// Things to log that keep nothing from being served.
    pub warnings: Vec<String>,
    /// What was passed over as no model, for the search for a cause.
    pub skipped: Vec<String>,
}

/// Which directories are versions?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Names without leading zeros.
    Triton,
    /// The same, but zeros are taken off where no `config.pbtxt` tells that it is a model of Triton's.
    Platforms,
}

/// Directories beside the versions of a model that are not versions.
const NOT_VERSIONS: [&str; 3] = ["warmup", "initial_state", "configs"];

/// Directories in a repository that disks and archives leave there, besides hidden ones.
const NOT_MODELS: [&str; 2] = ["lost+found", "__MACOSX"];

/// The folder of `export` with the versions of a model, as trainings in TensorFlow leave it: the containers of
/// TensorFlow Serving call the model as the folder.
pub(crate) const SERVO: &str = "Servo";

/// The file of a SavedModel.
pub(crate) const SAVED_MODEL: &str = "saved_model.pb";

/// Endings of names that programs give to what they are still writing.
const UNFINISHED: [&str; 3] = [".part", ".tmp", "_tmp"];

/// Whatever is at `path`: a model file, a model lying flat in its directory, version directories, one
/// model's directory, a repository, or several model files, each of which is a model.
///
/// Of a repository, directories that hold no model are passed over: an operator who mounts an archive does not choose
/// what else lies in it. With `hosted`, the path is where a platform unpacked one: `config.pbtxt` directly in it
/// is refused, as Triton's SageMaker start does.
///
/// # Errors
/// When the path cannot be listed.
pub(crate) fn scan_path(path: &Path, hosted: bool, engines: &Engines) -> io::Result<FoundModels> {
    let mut found = FoundModels::default();
    if !path.is_dir() {
        found.add(flat(path, file_stem(path)));
        return Ok(found);
    }
    let name = if hosted { "model".to_owned() } else { directory_name(path) };
    if config_in(path).is_some() {
        if hosted {
            let reason = format!(
                "'config.pbtxt' lies directly in {0}; put the model into a directory of its own, \
                 {0}/<name>/config.pbtxt and {0}/<name>/1/model.onnx, or set MUSTER_ROOT_MODEL=true",
                path.display()
            );
            found.refused.insert(ModelId::named(&name), reason);
        } else {
            let id = ModelId::named(&name);
            let model = model_in(path, id, Style::Triton, &mut found.warnings)?;
            found.add(model);
        }
        return Ok(found);
    }
    let servo = path.join("export").join(SERVO);
    let root = if servo.is_dir() { servo.as_path() } else { path };
    if let Some(file) = only_model_file(root, engines)? {
        let is_of_hub = file.parent() != Some(root) || is_pipeline(root, None);
        // Every SavedModel has a file of this name: the directory is what was given a name.
        let is_saved_model = file.file_name().is_some_and(|it| it == SAVED_MODEL);
        let is_directorys = hosted || is_of_hub || is_saved_model;
        let name = if is_directorys { name } else { file_stem(&file) };
        // Other graphs of a pipeline are the same model in other types.
        let left_out = if is_of_hub { Vec::new() } else { left_out(&file, engines)? };
        if !left_out.is_empty() {
            found.warnings.push(format!(
                "not served, as the file called 'model' is the model of its folder: {}; give each a folder of its \
                 own, {}/<name>/1/model.<ending>, to serve all",
                left_out.join(", "),
                path.display()
            ));
        }
        found.add_alone(FoundModel { dir: root.to_owned(), ..flat(&file, name) }, path, engines)?;
        return Ok(found);
    }
    let versions = versions_in(root, Style::Platforms, &mut Vec::new())?;
    if !versions.is_empty() {
        let name = if hosted && root == servo { SERVO.to_owned() } else { name };
        let model = FoundModel {
            name,
            namespace: Arc::default(),
            config: None,
            dir: root.to_owned(),
            versions,
            renamed: false,
            label: None,
            is_of_request: false,
            others: Arc::default(),
            script: None,
            contents: Arc::default(),
        };
        found.add_alone(model, path, engines)?;
        return Ok(found);
    }
    let style = if hosted { Style::Platforms } else { Style::Triton };
    found.look_into_archive(path, style, engines)?;
    if found.models.is_empty() && found.refused.is_empty() {
        model_files(root, engines)?.iter().for_each(|it| found.add(flat(it, file_stem(it))));
    }
    Ok(found)
}

impl FoundModels {
    /// Gives the only model that there is another name. Of several each keeps its own, and a warning says so.
    pub fn name_the_only(&mut self, name: &str) {
        let script = self.take_script();
        let count = self.models.len() + self.refused.len();
        if count != 1 {
            self.warnings.push(format!(
                "--model-name '{name}' has no effect: it is for the only model, and there are {count}"
            ));
        } else if let Some((_, model)) = self.models.pop_first() {
            self.add(FoundModel { name: name.to_owned(), renamed: true, ..model });
        }
        self.stand_around(script, None);
    }

    pub(super) fn add(&mut self, model: FoundModel) {
        self.models.insert(model.id(), model);
    }

    /// One of several models: where it cannot be read, the others are found all the same.
    fn add_or_refuse(&mut self, id: ModelId, model: io::Result<FoundModel>) {
        match model {
            Ok(model) => self.add(model),
            Err(error) => drop(self.refused.insert(id, error.to_string())),
        }
    }

    /// Takes in the models of a repository.
    ///
    /// # Errors
    /// When it cannot be listed.
    pub(crate) fn look_into(&mut self, repository: &Path, names: Names) -> io::Result<()> {
        let dirs = subdirectories(repository)?;
        let dirs = dirs.into_iter().filter(|it| is_model_name(&directory_name(it)));
        dirs.for_each(|it| self.look(&it, repository, names));
        Ok(())
    }

    /// Takes in the model of that name of a repository, if it has one; only its directory is looked at.
    pub(crate) fn look_for(&mut self, name: &str, repository: &Path, names: Names) {
        let dir = repository.join(name);
        if is_model_name(name) && dir.is_dir() {
            self.look(&dir, repository, names);
        }
    }

    /// Takes in the model in this directory, as one of a repository, unless its name is taken.
    pub(crate) fn look(&mut self, dir: &Path, repository: &Path, names: Names) {
        self.look_as(dir, repository, names, Style::Triton);
    }

    pub(super) fn look_as(&mut self, dir: &Path, repository: &Path, names: Names, style: Style) {
        let id = names.id(&directory_name(dir), repository);
        if let Some(other) = self.models.remove(&id) {
            let (first, second) = (other.dir.display(), dir.display());
            self.refused.insert(id, format!("{}: {first} and {second}", messages::APPEARS_TWICE));
        } else if !self.refused.contains_key(&id) {
            let model = model_in(dir, id.clone(), style, &mut self.warnings);
            self.add_or_refuse(id, model);
        }
    }
}

/// The directory of models in which that of a model is one, and whose files it may name: a repository on this machine,
/// or the folder that an archive with several models was unpacked into.
pub(crate) fn repository_of(found: &FoundModel, from: &ModelsFrom) -> Option<PathBuf> {
    let parent = found.dir.parent()?;
    let is_one = match from {
        ModelsFrom::Repositories(all) => all.iter().any(|it| it == parent),
        ModelsFrom::Path(_) | ModelsFrom::Fetched(_) => {
            from.path().is_some_and(|it| found.dir != it && found.dir.starts_with(it))
        }
        ModelsFrom::Named(_) => false,
    };
    is_one.then(|| parent.to_owned())
}

/// Is that a name of files that are still being written, or are hidden?
pub(crate) fn is_unfinished(name: &str) -> bool {
    name.starts_with('.') || UNFINISHED.iter().any(|it| name.ends_with(it))
}

pub(crate) fn is_model_name(name: &str) -> bool {
    !is_unfinished(name) && !NOT_MODELS.contains(&name)
}

/// The `config.pbtxt` of that directory, if anything has that name. What is no file, or a link that leads nowhere, is
/// an error when it is read: without it the model would be served otherwise than somebody meant.
pub(crate) fn config_in(dir: &Path) -> Option<PathBuf> {
    Some(dir.join("config.pbtxt")).filter(|it| it.symlink_metadata().is_ok())
}

fn model_in(
    dir: &Path,
    id: ModelId,
    style: Style,
    warnings: &mut Vec<String>,
) -> io::Result<FoundModel> {
    let config = config_in(dir);
    let style = if config.is_some() { Style::Triton } else { style };
    let versions = versions_in(dir, style, warnings)?;
    let ModelId { name, namespace } = id;
    let (name, dir) = (name.to_string(), dir.to_owned());
    Ok(FoundModel {
        name,
        namespace,
        config,
        dir,
        versions,
        renamed: false,
        label: None,
        is_of_request: false,
        others: Arc::default(),
        script: None,
        contents: Arc::default(),
    })
}

/// Subdirectories whose names are whole numbers above zero. Of two that mean the same number the first counts.
pub(super) fn versions_in(
    dir: &Path,
    style: Style,
    warnings: &mut Vec<String>,
) -> io::Result<BTreeMap<u64, PathBuf>> {
    let mut versions: BTreeMap<u64, PathBuf> = BTreeMap::new();
    for path in subdirectories(dir)? {
        let name = directory_name(&path);
        let digits = !name.is_empty() && name.bytes().all(|it| it.is_ascii_digit());
        let may_be = digits && (style == Style::Platforms || !name.starts_with('0'));
        match name.parse().ok().filter(|it| may_be && 0 < *it) {
            Some(number) => match versions.get(&number) {
                None => drop(versions.insert(number, path)),
                Some(other) => warnings.push(format!(
                    "{} is passed over: it is version {number}, as {}",
                    path.display(),
                    other.display()
                )),
            },
            None if NOT_VERSIONS.contains(&&*name) || is_unfinished(&name) => {}
            // The parts of a model of sentence-transformers, and its graph.
            None if name == OF_HUB || dir.join(MODULES).is_file() => {}
            None => warnings.push(format!(
                "{} is not a version: a version's directory is a whole number above zero",
                path.display()
            )),
        }
    }
    Ok(versions)
}

pub(super) fn flat(file: &Path, name: String) -> FoundModel {
    let dir = file.parent().unwrap_or(Path::new("")).to_owned();
    let versions = BTreeMap::from([(1, file.to_owned())]);
    FoundModel {
        name,
        namespace: Arc::default(),
        config: None,
        dir,
        versions,
        renamed: false,
        label: None,
        is_of_request: false,
        others: Arc::default(),
        script: None,
        contents: Arc::default(),
    }
}

pub(super) fn subdirectories(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let in_dir = |error: io::Error| listing_failed(dir, error);
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(in_dir)? {
        let path = entry.map_err(in_dir)?.path();
        if path.is_dir() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

pub(super) fn directory_name(path: &Path) -> String {
    // `.` and `..` have a name only once they are resolved.
    let resolved = path.file_name().map(|it| it.to_owned());
    let resolved =
        resolved.or_else(|| path.canonicalize().ok()?.file_name().map(|it| it.to_owned()));
    resolved.map_or("model".to_owned(), |it| it.to_string_lossy().into_owned())
}

/// The name without its ending; `model` for one without an ending, such as `xgboost-model`.
fn file_stem(path: &Path) -> String {
    let stem = path.file_stem().filter(|_| path.extension().is_some());
    stem.map_or("model".to_owned(), |it| it.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests;
