//! The file of a SavedModel, and which of its graphs is served.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use backend::BackendError;
use prost::Message;

use super::proto::{MetaGraph, SavedModel};

/// The file that makes a folder a SavedModel.
const FILE: &str = "saved_model.pb";

/// The same as text, which this engine does not read.
const TEXT: &str = "saved_model.pbtxt";

/// Protobuf's own limit for a message.
const LARGEST: u64 = 2 << 30;

/// The tag that a graph for serving has.
const SERVE: &str = "serve";

/// The folder of the SavedModel at `path`: that folder, or the one in which the file lies.
pub(crate) fn folder_of(path: &Path) -> Result<PathBuf, BackendError> {
    let folder = match path.is_dir() {
        true => path.to_owned(),
        false => path.parent().unwrap_or(Path::new("")).to_owned(),
    };
    if !path.is_dir() && path.file_name().is_some_and(|it| it != FILE) && path.exists() {
        return Err(BackendError::Load(format!(
            "{}: TensorFlow models are folders with a {FILE}, as tf.saved_model.save and a Keras model's export() \
             write them",
            path.display()
        )));
    }
    if folder.join(FILE).is_file() {
        return Ok(folder);
    }
    let folder = folder.display();
    Err(BackendError::Load(match Path::new(&folder.to_string()).join(TEXT).is_file() {
        true => format!(
            "{folder} holds a {TEXT}, and only the binary {FILE} is read; write it so: python -c \"import tensorflow \
             as tf; tf.saved_model.save(tf.saved_model.load('{folder}'), 'out')\""
        ),
        false => format!("{folder}: there is no {FILE} in it"),
    }))
}

/// What the file in that folder says.
///
/// # Errors
/// A file that cannot be read, is larger than 2 GiB, is no message, or has no graph.
pub(crate) fn read(folder: &Path) -> Result<SavedModel, BackendError> {
    let path = folder.join(FILE);
    let refused = |problem: String| BackendError::Load(format!("{}: {problem}", path.display()));
    let told = |error: io::Error| refused(error.to_string());
    let length = fs::metadata(&path).map_err(told)?.len();
    if LARGEST < length {
        return Err(refused(format!(
            "has {length} bytes; a SavedModel's file has at most {LARGEST}"
        )));
    }
    let bytes = fs::read(&path).map_err(told)?;
    let model = SavedModel::decode(bytes.as_slice())
        .map_err(|error| refused(format!("is no SavedModel, or is cut off: {error}")))?;
    match model.meta_graphs.is_empty() {
        true => Err(refused("has no graph in it".to_owned())),
        false => Ok(model),
    }
}

/// The graph with the tag that is asked for; where none is, the only one, else the one for serving. With its tags.
pub(crate) fn graph_of<'a>(
    model: &'a SavedModel,
    wanted: Option<&str>,
) -> Result<(&'a MetaGraph, Vec<String>), String> {
    let graphs: Vec<(&MetaGraph, Vec<String>)> = model
        .meta_graphs
        .iter()
        .map(|it| (it, it.information.as_ref().map(|it| it.tags.clone()).unwrap_or_default()))
        .collect();
    let has = |tag: &str| graphs.iter().find(|(_, tags)| tags.len() == 1 && tags[0] == tag);
    let any = |tag: &str| graphs.iter().find(|(_, tags)| tags.iter().any(|it| it == tag));
    let found = match wanted {
        Some(tag) => has(tag).or_else(|| any(tag)),
        None if graphs.len() == 1 => graphs.first(),
        None => has(SERVE),
    };
    found.cloned().ok_or_else(|| {
        let sets: Vec<String> = graphs.iter().map(|(_, it)| format!("[{}]", it.join(", "))).collect();
        let wanted = wanted.unwrap_or(SERVE);
        let sets = sets.join(", ");
        format!("there is no graph with the tag '{wanted}'; its graphs have the tags {sets}: name one in TF_GRAPH_TAG")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved_model::proto::Information;

    fn model(tags: &[&[&str]]) -> SavedModel {
        let graph = |tags: &&[&str]| MetaGraph {
            information: Some(Information {
                tags: tags.iter().map(|it| (*it).to_owned()).collect(),
                version: String::new(),
            }),
            ..MetaGraph::default()
        };
        SavedModel { meta_graphs: tags.iter().map(graph).collect() }
    }

    #[track_caller]
    fn chosen(tags: &[&[&str]], wanted: Option<&str>) -> Vec<String> {
        graph_of(&model(tags), wanted).unwrap().1
    }

    #[test]
    fn the_only_graph_is_served_whatever_its_tags() {
        assert_eq!(chosen(&[&["train"]], None), ["train"]);
        assert_eq!(chosen(&[&[]], None), Vec::<String>::new());
    }

    #[test]
    fn of_several_graphs_the_one_for_serving_is_served() {
        assert_eq!(chosen(&[&["train"], &["serve"], &["serve", "tpu"]], None), ["serve"]);
    }

    #[test]
    fn a_tag_that_is_asked_for_decides() {
        assert_eq!(chosen(&[&["serve"], &["serve", "tpu"]], Some("tpu")), ["serve", "tpu"]);
        let problem = graph_of(&model(&[&["serve"], &["serve", "gpu"]]), Some("tpu")).unwrap_err();
        assert!(
            problem.contains("'tpu'") && problem.contains("[serve], [serve, gpu]"),
            "{problem}"
        );
    }
}
