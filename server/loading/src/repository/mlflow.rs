//! Folders as MLflow saves models: the file `MLmodel` names the flavors that a model can be read as, and where the file
//! of each lies.

use std::path::{Component, Path, PathBuf};

use crate::repository::denied::cannot;
use inference::error::Error;

/// The file that makes a folder one of MLflow's.
const MLMODEL: &str = "MLmodel";

/// Flavors whose files are served, in the order in which they are looked for, and their entries that name the file.
const SERVED: [(&str, &[&str]); 5] = [
    ("onnx", &["data"]),
    ("xgboost", &["data"]),
    ("lightgbm", &["data"]),
    ("tensorflow", &["saved_model_dir", "data"]),
    ("sklearn", &["pickled_model"]),
];

/// The flavor that MLflow's own package opens, whatever the model is.
const CODE: &str = "python_function";

/// Entries of other flavors that name their files.
const OF_OTHERS: [&str; 4] = ["data", "model_data", "model_binary", "pickled_model"];

/// What Keras saves in the folder that its flavor names.
const OF_KERAS: [&str; 3] = ["model", "model.keras", "model.h5"];

/// `MLmodel` is some kilobytes, or some hundreds with a wide signature.
const MOST: u64 = 16 << 20;

/// A flavor and its entries.
type Flavor<'a> = (&'a str, Vec<(&'a str, &'a str)>);

/// Is it a folder of MLflow's?
fn is_one(dir: &Path) -> bool {
    dir.join(MLMODEL).is_file()
}

/// Does that file stand for a folder that MLflow's own package opens, in Python?
pub(crate) fn is_for_python(path: &Path) -> bool {
    path.file_name().is_some_and(|it| it == MLMODEL) && path.is_file()
}

/// What is to be opened of a folder of MLflow's; `None` where the folder is none. Its `MLmodel` where none of its
/// flavors is served as a file, and Python opens it. Blocking.
///
/// # Errors
/// What the folder has instead of a file that could be served, and what to do.
pub(crate) fn model_in(dir: &Path) -> Result<Option<PathBuf>, Error> {
    if !is_one(dir) {
        return Ok(None);
    }
    let path = dir.join(MLMODEL);
    if path.metadata().is_ok_and(|it| MOST < it.len()) {
        let problem = format!("{} has more than {MOST} bytes", path.display());
        return Err(Error::Repository(problem));
    }
    let text =
        backend::read_text(&path).map_err(|it| Error::Repository(cannot("read", &path, &it)))?;
    let flavors = flavors(&text);
    let served = SERVED.iter().filter_map(|(name, keys)| {
        let (_, entries) = flavors.iter().find(|(it, _)| it == name)?;
        file_of(dir, entries, keys)
    });
    let others = flavors.iter().filter_map(|(_, entries)| file_of(dir, entries, &OF_OTHERS));
    let has = |flavor: &str| flavors.iter().any(|(it, _)| *it == flavor);
    let is_code = has(CODE) && !SERVED.iter().any(|(it, _)| has(it));
    served.chain(is_code.then_some(path.clone())).chain(others).next().map(Some).ok_or_else(|| {
        let names: Vec<&str> = flavors.iter().map(|(name, _)| *name).collect();
        let found = match names.is_empty() {
            true => "names no flavors".to_owned(),
            false => format!(
                "names the flavors {} and no file of theirs that is there",
                names.join(", ")
            ),
        };
        let served: Vec<&str> = SERVED.iter().map(|(name, _)| *name).collect();
        Error::Repository(format!(
            "{} {found}; models of the flavors {} are served as their files: save the model with \
             mlflow.<flavor>.save_model in Python",
            path.display(),
            served.join(", ")
        ))
    })
}

/// The file, or the folder of a SavedModel, that one of these entries names, where it is there and in the folder.
fn file_of(dir: &Path, entries: &[(&str, &str)], keys: &[&str]) -> Option<PathBuf> {
    let named = keys.iter().filter_map(|key| entries.iter().find(|(it, _)| it == key));
    let mut paths = named.filter_map(|(_, value)| {
        let relative = Path::new(value);
        let is_within = |it| matches!(it, Component::Normal(_) | Component::CurDir);
        let is_inside = relative.components().all(is_within);
        // Without what stands for the folder itself, which is no file of its own.
        let names = relative.components().filter(|it| *it != Component::CurDir);
        let relative: PathBuf = names.collect();
        let path = dir.join(&relative);
        (is_inside && !relative.as_os_str().is_empty() && path.exists()).then_some(path)
    });
    let path = paths.next()?;
    let of_keras = OF_KERAS.iter().map(|it| path.join(it)).find(|it| it.exists());
    Some(of_keras.unwrap_or(path))
}

/// The flavors and their entries: of YAML as MLflow writes it, by the indentation of lines. Pure.
fn flavors(text: &str) -> Vec<Flavor<'_>> {
    let mut flavors: Vec<Flavor<'_>> = Vec::new();
    let mut is_within = false;
    let mut of_flavors = None;
    let mut of_entries = None;
    for line in text.lines() {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        let Some((key, value)) = content.split_once(':').filter(|_| !content.starts_with('#'))
        else {
            continue;
        };
        if indent == 0 {
            (is_within, of_flavors, of_entries) = (key == "flavors", None, None);
        } else if is_within && indent <= *of_flavors.get_or_insert(indent) {
            flavors.push((unquoted(key), Vec::new()));
            of_entries = None;
        } else if is_within
            && *of_entries.get_or_insert(indent) == indent
            && let Some((_, entries)) = flavors.last_mut()
        {
            entries.push((unquoted(key), unquoted(value)));
        }
    }
    flavors
}

/// A plain or quoted text.
fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let within = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    within('\'').or_else(|| within('"')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// As MLflow 3 writes it for a model of XGBoost.
    const XGBOOST: &str = "artifact_path: null\nflavors:\n  python_function:\n    data: model.ubj\n    env:\n      \
                           conda: conda.yaml\n      data: nothing\n    loader_module: mlflow.xgboost\n  xgboost:\n    \
                           code: null\n    data: 'model.ubj'\n    xgb_version: 3.2.0\nmlflow_version: 3.17.2\n\
                           signature:\n  inputs: '[{\"type\": \"tensor\"}]'\n  data: other\n";

    #[test]
    fn flavors_are_read_by_indentation() {
        let flavors = flavors(XGBOOST);
        let names: Vec<&str> = flavors.iter().map(|it| it.0).collect();
        assert_eq!(names, ["python_function", "xgboost"]);
        let expected = [("code", "null"), ("data", "model.ubj"), ("xgb_version", "3.2.0")];
        assert_eq!(flavors[1].1, expected);
        assert_eq!(flavors[0].1[0], ("data", "model.ubj"));
        assert!(!flavors[0].1.contains(&("data", "nothing")));
    }

    fn found(text: &str, files: &[&str]) -> Result<Option<String>, String> {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir =
            std::env::temp_dir().join(format!("muster-mlflow-{}-{number}", std::process::id()));
        for file in files {
            let path = dir.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(MLMODEL), text).unwrap();
        let found = model_in(&dir);
        let shown = dir.display().to_string();
        fs::remove_dir_all(&dir).unwrap();
        let relative = |it: PathBuf| it.strip_prefix(&dir).unwrap().display().to_string();
        found.map(|it| it.map(relative)).map_err(|it| it.to_string().replace(&shown, "D"))
    }

    #[test]
    fn the_file_of_a_flavor_that_is_served_is_opened() {
        let keras = "flavors:\n  tensorflow:\n    data: data\n";
        assert_eq!(found(XGBOOST, &["model.ubj"]), Ok(Some("model.ubj".to_owned())));
        let saved = found(keras, &["data/model/saved_model.pb"]);
        assert_eq!(saved, Ok(Some("data/model".to_owned())));
        assert_eq!(found(keras, &["data/model.keras"]), Ok(Some("data/model.keras".to_owned())));
        let torch = "flavors:\n  pytorch:\n    model_data: data\n";
        assert_eq!(found(torch, &["data/model.pth"]), Ok(Some("data".to_owned())));
        assert_eq!(model_in(Path::new("/nowhere")), Ok(None));
    }

    #[test]
    fn python_opens_a_folder_of_which_no_flavor_is_served_as_a_file() {
        let code = "flavors:\n  python_function:\n    loader_module: mlflow.pyfunc.model\n";
        assert_eq!(found(code, &[]), Ok(Some(MLMODEL.to_owned())));
        let torch =
            "flavors:\n  python_function:\n    data: data\n  pytorch:\n    model_data: data\n";
        assert_eq!(found(torch, &["data/model.pth"]), Ok(Some(MLMODEL.to_owned())));
        assert_eq!(found(XGBOOST, &["model.ubj"]), Ok(Some("model.ubj".to_owned())));
    }

    #[test]
    fn a_path_may_begin_with_the_folder() {
        let data = |path: &str| format!("flavors:\n  xgboost:\n    data: {path}\n");
        let file = ["model.ubj"].as_slice();
        assert_eq!(found(&data("./model.ubj"), file), Ok(Some("model.ubj".to_owned())));
        assert_eq!(found(&data("a/./b.ubj"), &["a/b.ubj"]), Ok(Some("a/b.ubj".to_owned())));
        for path in [".", "./", "./../model.ubj", "''"] {
            assert!(found(&data(path), file).is_err(), "{path}");
        }
    }

    #[test]
    fn what_cannot_be_served_is_named() {
        let outside = "flavors:\n  xgboost:\n    data: ../model.ubj\n";
        for (text, expected) in [
            (
                XGBOOST,
                "D/MLmodel names the flavors python_function, xgboost and no file of theirs that is there; ",
            ),
            (
                "flavors: {}\n",
                "D/MLmodel names no flavors; models of the flavors onnx, xgboost, lightgbm, ",
            ),
            (outside, "D/MLmodel names the flavors xgboost and no file"),
        ] {
            let error = found(text, &[]).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
