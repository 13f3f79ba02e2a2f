//! What lies in a model repository: models, their versions, their configuration files. Looks at names only;
//! nothing is read.

mod platform;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::ModelId;

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

    /// What metrics call it.
    pub(super) fn shown_name(&self) -> &str {
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
    pub(super) fn id(self, name: &str, repository: &Path) -> ModelId {
        let namespace = match self {
            Names::Once => Arc::default(),
            Names::PerRepository => repository.to_string_lossy().into(),
        };
        ModelId { name: name.into(), namespace }
    }
}

/// Everything that was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Models by name.
    pub models: BTreeMap<ModelId, FoundModel>,
    /// Those that cannot be served, and why.
    pub refused: BTreeMap<ModelId, String>,
    /// Those in object stores that nobody has asked for: they are there, and no more is known.
    pub remote: BTreeSet<ModelId>,
    /// Things to log that keep nothing from being served.
    pub warnings: Vec<String>,
    /// What was passed over as nobody's model, for who looks for a cause.
    pub skipped: Vec<String>,
}

/// Which directories are versions?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Names without leading zeros.
    Triton,
    /// The same, but zeros are taken off where no `config.pbtxt` tells that it is a model of Triton's.
    Platforms,
}

/// Directories beside the versions of a model that are not versions.
const NOT_VERSIONS: [&str; 3] = ["warmup", "initial_state", "configs"];

/// Directories in a repository that disks and archives leave there, besides hidden ones.
const NOT_MODELS: [&str; 2] = ["lost+found", "__MACOSX"];

/// Endings of names that programs give to what they are still writing.
const UNFINISHED: [&str; 3] = [".part", ".tmp", "_tmp"];

/// Endings of model files; of two that both could be meant, the first.
const MODEL_FILES: [&str; 4] = ["onnx", "pt", "pth", "pt2"];

/// All models of several repositories.
///
/// # Errors
/// When a repository cannot be listed.
pub fn scan_repositories(repositories: &[PathBuf], names: Names) -> io::Result<Found> {
    let mut found = Found::default();
    for repository in repositories {
        found.look_into(repository, names)?;
    }
    Ok(found)
}

/// Whatever is at `path`: a model file, a model lying flat in its directory, version directories, one
/// model's directory, or a repository.
///
/// Of a repository, directories that hold no model are passed over: whoever mounts an archive does not choose
/// what else lies in it. With `hosted`, the path is where a platform unpacked one: `config.pbtxt` directly in it
/// is refused, as Triton's SageMaker start does.
///
/// # Errors
/// When the path cannot be listed.
pub fn scan_path(path: &Path, hosted: bool) -> io::Result<Found> {
    let mut found = Found::default();
    if !path.is_dir() {
        found.add(flat(path, file_stem(path)));
        return Ok(found);
    }
    let name = if hosted { "model".to_owned() } else { directory_name(path) };
    if path.join("config.pbtxt").is_file() {
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
    let servo = path.join("export").join("Servo");
    let root = if servo.is_dir() { servo.as_path() } else { path };
    if let Some(file) = only_model_file(root)? {
        found.add(flat(&file, if hosted { name } else { file_stem(&file) }));
        return Ok(found);
    }
    let versions = versions_in(root, Style::Platforms, &mut Vec::new())?;
    if !versions.is_empty() {
        found.add(FoundModel {
            name,
            namespace: Arc::default(),
            config: None,
            dir: root.to_owned(),
            versions,
            renamed: false,
            label: None,
        });
        return Ok(found);
    }
    found.look_into_archive(path, if hosted { Style::Platforms } else { Style::Triton })?;
    Ok(found)
}

impl Found {
    /// Gives the only model that there is another name. Of several each keeps its own, and a warning says so.
    pub fn name_the_only(&mut self, name: &str) {
        let count = self.models.len() + self.refused.len();
        if count != 1 {
            self.warnings.push(format!(
                "--model-name '{name}' has no effect: it is for the only model, and there are {count}"
            ));
        } else if let Some((_, model)) = self.models.pop_first() {
            self.add(FoundModel { name: name.to_owned(), renamed: true, ..model });
        }
    }

    fn add(&mut self, model: FoundModel) {
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
    pub(super) fn look_into(&mut self, repository: &Path, names: Names) -> io::Result<()> {
        let dirs = subdirectories(repository)?;
        let dirs = dirs.into_iter().filter(|it| is_model_name(&directory_name(it)));
        dirs.for_each(|it| self.look(&it, repository, names));
        Ok(())
    }

    /// Takes in the model of that name of a repository, if it has one; only its directory is looked at.
    pub(super) fn look_for(&mut self, name: &str, repository: &Path, names: Names) {
        let dir = repository.join(name);
        if is_model_name(name) && dir.is_dir() {
            self.look(&dir, repository, names);
        }
    }

    /// Takes in the model in this directory, as one of a repository, unless its name is taken.
    pub(super) fn look(&mut self, dir: &Path, repository: &Path, names: Names) {
        self.look_as(dir, repository, names, Style::Triton);
    }

    fn look_as(&mut self, dir: &Path, repository: &Path, names: Names, style: Style) {
        let id = names.id(&directory_name(dir), repository);
        if let Some(other) = self.models.remove(&id) {
            let (first, second) = (other.dir.display(), dir.display());
            self.refused.insert(id, format!("the name is used twice: {first} and {second}"));
        } else if !self.refused.contains_key(&id) {
            let model = model_in(dir, id.clone(), style, &mut self.warnings);
            self.add_or_refuse(id, model);
        }
    }
}

/// Is that what somebody is still writing, or keeps out of sight?
pub(super) fn is_unfinished(name: &str) -> bool {
    name.starts_with('.') || UNFINISHED.iter().any(|it| name.ends_with(it))
}

pub(super) fn is_model_name(name: &str) -> bool {
    !is_unfinished(name) && !NOT_MODELS.contains(&name)
}

fn model_in(
    dir: &Path,
    id: ModelId,
    style: Style,
    warnings: &mut Vec<String>,
) -> io::Result<FoundModel> {
    let config = Some(dir.join("config.pbtxt")).filter(|it| it.is_file());
    let style = if config.is_some() { Style::Triton } else { style };
    let versions = versions_in(dir, style, warnings)?;
    let ModelId { name, namespace } = id;
    let (name, dir) = (name.to_string(), dir.to_owned());
    Ok(FoundModel { name, namespace, config, dir, versions, renamed: false, label: None })
}

/// Subdirectories whose names are whole numbers above zero. Of two that mean the same number the first counts.
fn versions_in(
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
            None => warnings.push(format!(
                "{} is not a version: a version's directory is a whole number above zero",
                path.display()
            )),
        }
    }
    Ok(versions)
}

/// `model.onnx` and the like, or the only file that could be a model.
fn only_model_file(dir: &Path) -> io::Result<Option<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        // Archives made on a Mac hold a `._model.onnx` beside each `model.onnx`.
        if directory_name(&path).starts_with('.') {
            continue;
        }
        let ending = path.extension().and_then(|it| it.to_str());
        if let Some(rank) = MODEL_FILES.iter().position(|it| Some(*it) == ending) {
            files.push((rank, path));
        }
    }
    files.sort();
    let mut files: Vec<PathBuf> = files.into_iter().map(|(_, path)| path).collect();
    if let Some(at) = files.iter().position(|it| file_stem(it) == "model") {
        return Ok(Some(files.swap_remove(at)));
    }
    Ok(if files.len() == 1 { files.pop() } else { None })
}

fn flat(file: &Path, name: String) -> FoundModel {
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
    }
}

fn subdirectories(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let in_dir = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot list {}: {error}", dir.display()))
    };
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

fn directory_name(path: &Path) -> String {
    // `.` and `..` have a name only once they are resolved.
    let resolved = path.file_name().map(|it| it.to_owned());
    let resolved =
        resolved.or_else(|| path.canonicalize().ok()?.file_name().map(|it| it.to_owned()));
    resolved.map_or("model".to_owned(), |it| it.to_string_lossy().into_owned())
}

fn file_stem(path: &Path) -> String {
    path.file_stem().map_or("model".to_owned(), |it| it.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of these files (or directories, where the name ends in a slash), deleted at the end.
    struct Tree(PathBuf);

    impl Tree {
        fn new(test: &str, paths: &[&str]) -> Tree {
            let root = std::env::temp_dir().join(format!("muster-{}-{test}", std::process::id()));
            for path in paths {
                let full = root.join(path);
                let dir = if path.ends_with('/') { &*full } else { full.parent().unwrap() };
                fs::create_dir_all(dir).unwrap();
                if !path.ends_with('/') {
                    fs::write(full, "").unwrap();
                }
            }
            Tree(root)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn id(name: &str) -> ModelId {
        ModelId::named(name)
    }

    fn summary(found: &Found) -> Vec<(&str, Vec<u64>)> {
        let versions = |it: &FoundModel| it.versions.keys().copied().collect();
        found.models.values().map(|it| (&*it.name, versions(it))).collect()
    }

    #[test]
    fn a_repository_holds_models_and_their_numbered_versions() {
        let tree = Tree::new(
            "repository",
            &[
                "b/config.pbtxt",
                "b/2/model.onnx",
                "b/10/",
                "a/1/",
                "a/warmup/",
                "README.md",
                "b.tar.gz",
                ".git/1/",
                "lost+found/",
                "__MACOSX/a/1/",
            ],
        );
        std::os::unix::fs::symlink("nowhere", tree.0.join("dangling")).unwrap();
        let found = scan_repositories(std::slice::from_ref(&tree.0), Names::Once).unwrap();
        assert_eq!(summary(&found), [("a", vec![1]), ("b", vec![2, 10])]);
        assert!(found.models[&id("b")].config.is_some() && found.models[&id("a")].config.is_none());
        assert_eq!(found.warnings, [] as [String; 0]);
    }

    #[test]
    fn directories_that_are_no_versions_are_named() {
        let tree = Tree::new("versions", &["m/1/", "m/01/", "m/1abc/", "m/0/", "m/-1/"]);
        let found = scan_repositories(std::slice::from_ref(&tree.0), Names::Once).unwrap();
        assert_eq!(summary(&found), [("m", vec![1])]);
        assert_eq!(found.warnings.len(), 4);
    }

    #[test]
    fn zeros_are_taken_off_versions_of_a_platforms_folder_but_not_off_those_of_triton() {
        let tree = Tree::new(
            "zeros",
            &[
                "tf/0000123/",
                "tf/5/",
                "tf/05/",
                "triton/config.pbtxt",
                "triton/01/",
                "x.tar.gz",
                "code/",
            ],
        );
        let found = scan_path(&tree.0, true).unwrap();
        assert_eq!(summary(&found), [("tf", vec![5, 123]), ("triton", vec![])]);
        assert!(found.skipped[0].ends_with("as no models: code, x.tar.gz"), "{:?}", found.skipped);
        assert!(found.warnings.iter().any(|it| it.contains("triton/01")), "{:?}", found.warnings);
        let plain = scan_path(&tree.0, false).unwrap();
        assert_eq!(summary(&plain), [("tf", vec![5]), ("triton", vec![])]);
    }

    #[test]
    fn repositories_in_channels_are_found_and_a_name_in_two_of_them_is_refused() {
        let tree = Tree::new(
            "channels",
            &[
                "model/a/1/",
                "channels/one/b/1/",
                "channels/one/junk/",
                "channels/two/b/1/",
                "channels/two/c/1/",
            ],
        );
        let mut found = scan_path(&tree.0.join("model"), true).unwrap();
        found.look_into_channels(&tree.0.join("channels")).unwrap();
        assert_eq!(summary(&found), [("a", vec![1]), ("c", vec![1])]);
        assert!(found.refused[&id("b")].contains("used twice"));
    }

    #[test]
    fn a_name_in_two_repositories_is_refused_naming_both() {
        let tree = Tree::new("twice", &["r/m/1/", "s/m/1/", "s/n/1/"]);
        let repositories = [tree.0.join("r"), tree.0.join("s")];
        let found = scan_repositories(&repositories, Names::Once).unwrap();
        assert_eq!(summary(&found), [("n", vec![1])]);
        assert!(found.refused[&id("m")].contains("r/m") && found.refused[&id("m")].contains("s/m"));
    }

    #[test]
    fn with_a_namespace_for_each_repository_both_are_found() {
        let tree = Tree::new("namespaces", &["r/m/1/", "s/m/1/", "s/n/1/"]);
        let repositories = [tree.0.join("r"), tree.0.join("s")];
        let found = scan_repositories(&repositories, Names::PerRepository).unwrap();
        assert_eq!(summary(&found), [("m", vec![1]), ("m", vec![1]), ("n", vec![1])]);
        let mut one = Found::default();
        repositories.iter().for_each(|it| one.look_for("m", it, Names::PerRepository));
        let namespaces: Vec<&str> = one.models.keys().map(|it| &*it.namespace).collect();
        assert_eq!(namespaces, repositories.each_ref().map(|it| it.to_str().unwrap()));
    }

    #[test]
    fn what_is_still_being_written_is_no_model() {
        let tree = Tree::new("unfinished", &["m/1/", "n.part/1/", "o_tmp/1/", "p.tmp/1/"]);
        let repositories = std::slice::from_ref(&tree.0);
        let found = scan_repositories(repositories, Names::Once).unwrap();
        assert_eq!(summary(&found), [("m", vec![1])]);
        let mut none = Found::default();
        none.look_for("n.part", &tree.0, Names::Once);
        assert!(none.models.is_empty());
    }

    #[test]
    fn a_directory_that_cannot_be_read_is_refused_and_hides_no_other() {
        let tree = Tree::new("unreadable", &["m/1/"]);
        let mut found = scan_repositories(std::slice::from_ref(&tree.0), Names::Once).unwrap();
        let missing = model_in(&tree.0.join("n"), id("n"), Style::Triton, &mut Vec::new());
        found.add_or_refuse(id("n"), missing);
        assert_eq!(summary(&found), [("m", vec![1])]);
        assert!(found.refused[&id("n")].starts_with("cannot list "), "{}", found.refused[&id("n")]);
    }

    #[test]
    fn a_file_a_flat_model_and_version_directories_are_one_model() {
        let tree = Tree::new("flat", &["f/net.onnx", "f/net.onnx.data", "v/3/model.onnx"]);
        let file = scan_path(&tree.0.join("f/net.onnx"), false).unwrap();
        assert_eq!(summary(&file), [("net", vec![1])]);
        let flat = scan_path(&tree.0.join("f"), true).unwrap();
        assert_eq!(summary(&flat), [("model", vec![1])]);
        assert!(flat.models[&id("model")].versions[&1].ends_with("f/net.onnx"));
        let versions = scan_path(&tree.0.join("v"), false).unwrap();
        assert_eq!(summary(&versions), [("v", vec![3])]);
    }

    #[test]
    fn of_two_flat_models_the_one_named_model_counts_and_then_the_engine_that_is_looked_for_first()
    {
        let file =
            |tree: &Tree| scan_path(&tree.0, true).unwrap().models[&id("model")].versions.clone();
        let tree = Tree::new("two", &["a.onnx", "model.pt", "._model.onnx"]);
        assert!(file(&tree)[&1].ends_with("model.pt"));
        let tree = Tree::new("both", &["model.pt2", "model.pt", "model.onnx"]);
        assert!(file(&tree)[&1].ends_with("model.onnx"));
    }

    #[test]
    fn the_only_model_can_be_named_and_one_of_several_cannot() {
        let named = |tree: &Tree| {
            let mut found = scan_path(&tree.0, false).unwrap();
            found.name_the_only("given");
            found
        };
        let found = named(&Tree::new("named", &["net.onnx"]));
        assert_eq!(summary(&found), [("given", vec![1])]);
        assert!(found.models[&id("given")].renamed && found.warnings.is_empty());
        let found = named(&Tree::new("many", &["a/1/", "b/1/"]));
        assert_eq!(summary(&found), [("a", vec![1]), ("b", vec![1])]);
        assert!(found.warnings[0].contains("there are 2"), "{}", found.warnings[0]);
    }

    #[test]
    fn a_hosted_archive_may_hold_more_than_models_but_no_bare_configuration() {
        let tree = Tree::new(
            "hosted",
            &["a/m/1/model.onnx", "a/code/x.py", "a/t.tar.gz", "b/config.pbtxt"],
        );
        for hosted in [true, false] {
            let found = scan_path(&tree.0.join("a"), hosted).unwrap();
            assert_eq!(summary(&found), [("m", vec![1])]);
        }
        let refused = scan_path(&tree.0.join("b"), true).unwrap().refused;
        assert!(refused[&id("model")].contains("<name>/config.pbtxt"));
        assert_eq!(summary(&scan_path(&tree.0.join("b"), false).unwrap()), [("b", vec![])]);
    }

    #[test]
    fn an_exported_servo_directory_is_one_model() {
        let tree = Tree::new("servo", &["export/Servo/7/model.onnx"]);
        assert_eq!(summary(&scan_path(&tree.0, true).unwrap()), [("model", vec![7])]);
    }
}
