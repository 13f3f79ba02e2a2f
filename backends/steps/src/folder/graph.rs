//! Which file of a folder is the graph.

use std::path::Path;

use super::{dir::Dir, document::Document, notes::Notes, overrides};
use crate::error::FolderError;

/// The places of a graph, the first that is there wins.
const PLACES: [&str; 3] = ["model.onnx", "onnx/model.onnx", "model.pt"];

/// The path of the graph, relative to `dir`: a file, or the folder `model.onnx` with its external data.
///
/// `asked` is a path relative to the folder or the name of a variant.
///
/// # Errors
/// When there is none, or not the one that was asked for.
pub(crate) fn choose(
    dir: &Path,
    asked: Option<&str>,
    notes: &mut Notes,
) -> Result<String, FolderError> {
    let found = match asked {
        None => usual(dir).map(str::to_owned),
        Some(name) => find(dir, name),
    };
    let Some(graph) = found else {
        return Err(match asked {
            None => FolderError::file("model.onnx", "there is no graph").remedy(
                "put model.onnx, onnx/model.onnx or model.pt there, or name one as \"graph\" in muster.json",
            ),
            Some(name) => {
                let problem = format!("the graph '{name}' is not there");
                let there = others(dir);
                let there = match there.is_empty() {
                    true => "no graph is in the folder".to_owned(),
                    false => format!("there are {}", there.join(", ")),
                };
                FolderError::file(graph_paths(name).remove(0), problem).remedy(there)
            }
        });
    };
    match graphs::WEIGHTS.contains(&&*graph) {
        true => notes.weights(&graph),
        false => notes.read(&graph),
    }
    for other in others(dir).iter().filter(|it| **it != graph) {
        notes.ignored(other, "another graph is used; \"graph\" in muster.json names this one");
    }
    Ok(graph)
}

/// The graph that is chosen where none is named, or else the weights for which one is made.
fn usual(dir: &Path) -> Option<&'static str> {
    PLACES.into_iter().find(|it| dir.join(it).exists()).or_else(|| weights_for_graph(dir))
}

/// The weights of a folder that has no graph, if one is made for them, relative to `dir`. Blocking.
pub fn weights_for_graph(dir: &Path) -> Option<&'static str> {
    let has_graph = || PLACES.iter().any(|it| dir.join(it).exists()) || !others(dir).is_empty();
    graphs::weights_in(dir).filter(|_| !has_graph())
}

/// Is there a graph that is chosen, or the one that is named?
pub(crate) fn is_there(dir: &Path, asked: Option<&str>) -> bool {
    usual(dir).is_some() || named_graph(dir, asked).is_some()
}

/// The graph that `asked` names, or else `muster.json`, relative to `dir`. Where neither does, the weights for which
/// one is made. `None` where it is not there. Blocking.
pub fn named_graph(dir: &Path, asked: Option<&str>) -> Option<String> {
    let of_file = || {
        let file = Document::read(&Dir::alone(dir), overrides::FILE).ok()??;
        file.text("graph").ok()?.map(str::to_owned)
    };
    match asked.map(str::to_owned).or_else(of_file) {
        Some(name) => find(dir, &name),
        None => weights_for_graph(dir).map(str::to_owned),
    }
}

/// The graphs of a folder that would be one of a pipeline if one of them were named. Blocking.
pub fn unnamed_graphs(dir: &Path) -> Vec<String> {
    match is_there(dir, None) {
        true => Vec::new(),
        false => others(dir),
    }
}

/// The file of that name or variant, where it is there.
fn find(dir: &Path, name: &str) -> Option<String> {
    let is_inside = |it: &String| !it.starts_with('/') && !it.split('/').any(|it| it == "..");
    graph_paths(name).into_iter().filter(is_inside).find(|it| dir.join(it).exists())
}

/// The paths that the name of a graph may stand for, relative to its folder. Never empty.
pub fn graph_paths(name: &str) -> Vec<String> {
    let is_path = name.contains('/') || name.ends_with(".onnx") || name.ends_with(".pt");
    let mut paths = Vec::new();
    if is_path {
        paths.extend([name.to_owned(), format!("onnx/{name}")]);
    }
    if !name.contains('/') {
        paths.extend([format!("onnx/model_{name}.onnx"), format!("model_{name}.onnx")]);
    }
    if paths.is_empty() {
        paths.push(name.to_owned());
    }
    paths
}

/// All graphs of a folder, by name.
fn others(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for folder in ["", "onnx/"] {
        for entry in std::fs::read_dir(dir.join(folder)).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".onnx") || name.ends_with(".pt") {
                found.push(format!("{folder}{name}"));
            }
        }
    }
    found.sort();
    found
}
