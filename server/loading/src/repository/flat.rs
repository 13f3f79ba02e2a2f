//! Model files that lie in no version's directory: `model.onnx` and the like, the only file that could be a model,
//! `onnx/model.onnx` as Hugging Face's hub has it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    config::engines::Engines,
    repository::{content::Content, denied::listing_failed, inspect, mlflow, torchserve},
};
use backend::Format;
use steps::{WEIGHTS, named_graph, weights_for_graph};

/// Where exports for ONNX Runtime lie in repositories of Hugging Face.
pub(crate) const OF_HUB: &str = "onnx";

/// The files in a directory that could be models, one for each name without its ending: only the one called `model`
/// where it is there. Where there are several, weights without code are none, nor are pickles of what may
/// stand before a model.
///
/// # Errors
/// When the directory cannot be listed.
pub(crate) fn model_files(dir: &Path, engines: &Engines) -> io::Result<Vec<PathBuf>> {
    let mut files = possible_files(dir, engines)?;
    if let Some(at) = files.iter().position(|it| is_called_model(it)) {
        return Ok(vec![files.swap_remove(at)]);
    }
    if 1 < files.len() && !files.iter().all(|it| is_weights(it)) {
        files.retain(|it| !is_weights(it));
    }
    Ok(one_of_each_name(files))
}

/// The names of the files that would be models if none was called `model`, as `chosen` is.
///
/// # Errors
/// When the directory cannot be listed.
pub(crate) fn left_out(chosen: &Path, engines: &Engines) -> io::Result<Vec<String>> {
    let dir = chosen.parent().unwrap_or(Path::new(""));
    if !is_called_model(chosen) || named_graph(dir, None).is_some() {
        return Ok(Vec::new());
    }
    let mut files = possible_files(dir, engines)?;
    files.retain(|it| !is_called_model(it) && !is_weights(it));
    let name = |it: &PathBuf| it.file_name().map(|it| it.to_string_lossy().into_owned());
    Ok(one_of_each_name(files).iter().filter_map(name).collect())
}

fn is_called_model(file: &Path) -> bool {
    file.file_stem().is_some_and(|it| it == "model")
}

/// The first of the files that differ in their endings alone.
fn one_of_each_name(files: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut stems: Vec<PathBuf> = Vec::new();
    for file in files {
        if !stems.iter().any(|it| it.file_stem() == file.file_stem()) {
            stems.push(file);
        }
    }
    stems
}

/// Has the file weights without code, or what may stand before a model?
fn is_weights(path: &Path) -> bool {
    let content = inspect::content_of(path);
    matches!(
        content,
        Some(
            Content::StateDict
                | Content::TorchPickle
                | Content::Pickle
                | Content::SklearnPickle
                | Content::CompressedPickle
                | Content::Gzip
        )
    )
}

/// All files of a directory that have the form of a model, the best form first.
fn possible_files(dir: &Path, engines: &Engines) -> io::Result<Vec<PathBuf>> {
    let formats = engines.own_formats();
    let mut files = Vec::new();
    let in_dir = |error: io::Error| listing_failed(dir, error);
    for entry in fs::read_dir(dir).map_err(in_dir)? {
        let path = entry.map_err(in_dir)?.path();
        // Archives made on a Mac hold a `._model.onnx` beside each `model.onnx`.
        let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
        if name.starts_with('.') || is_beside_a_graph(dir, name) {
            continue;
        }
        if let Some(rank) = formats.iter().position(|it| inspect::is_of_format(&path, it)) {
            let ending = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
            let others = formats[rank].other_extensions;
            let of_format = others.iter().position(|it| *it == ending).map_or(0, |it| it + 1);
            files.push((rank, of_format, path));
        }
    }
    files.sort();
    Ok(files.into_iter().map(|(_, _, path)| path).collect())
}

/// Is that a file of weights for which no graph is made? It is no model then.
pub(crate) fn is_beside_a_graph(dir: &Path, name: &str) -> bool {
    WEIGHTS.contains(&name) && weights_for_graph(dir) != Some(name)
}

/// The one file that is the model of a directory: that which `muster.json` names; of one of Hugging Face's, that in its
/// folder `onnx`. The directory itself where its files are one model together, or an archive of TorchServe, or one that
/// MLflow has saved: the file of its flavor goes before all others, and where there is none at all, loading says so.
///
/// # Errors
/// When the directory cannot be listed.
pub(crate) fn only_model_file(dir: &Path, engines: &Engines) -> io::Result<Option<PathBuf>> {
    if torchserve::manifest_in(dir).is_some() {
        return Ok(Some(dir.to_owned()));
    }
    match mlflow::model_in(dir) {
        Ok(None) => besides_mlflow(dir, engines),
        Ok(Some(file)) if mlflow::is_for_python(&file) => {
            Ok(Some(besides_code(dir, engines)?.unwrap_or_else(|| dir.to_owned())))
        }
        Ok(Some(_)) => Ok(Some(dir.to_owned())),
        Err(_) => Ok(Some(besides_mlflow(dir, engines)?.unwrap_or_else(|| dir.to_owned()))),
    }
}

/// The one file that is the model of a directory that MLflow's package could open in Python: a graph, or what is read
/// as data. What is a program for Python belongs to that package.
///
/// # Errors
/// When the directory cannot be listed.
pub(crate) fn besides_code(dir: &Path, engines: &Engines) -> io::Result<Option<PathBuf>> {
    Ok(besides_mlflow(dir, engines)?.filter(|it| !engines.is_unread_by_all(it)))
}

/// The one file that is the model of a directory, whatever MLflow says there.
///
/// # Errors
/// When the directory cannot be listed.
pub(crate) fn besides_mlflow(dir: &Path, engines: &Engines) -> io::Result<Option<PathBuf>> {
    if let Some(graph) = named_graph(dir, None) {
        return Ok(Some(dir.join(graph)));
    }
    let mut files = model_files(dir, engines)?;
    let of_hub = dir.join(OF_HUB);
    if files.is_empty() && of_hub.is_dir() {
        files = model_files(&of_hub, engines)?;
    }
    let are_folds = |format: &Format| {
        let name = |it: &PathBuf| it.file_name()?.to_str().and_then(|it| format.fold(it));
        files.iter().all(|it| name(it).is_some())
    };
    Ok(match files.len() {
        0 => inspect::only_by_bytes(dir, engines.own_formats().iter()),
        1 => files.pop(),
        _ => engines.own_formats().iter().any(are_folds).then(|| dir.to_owned()),
    })
}
