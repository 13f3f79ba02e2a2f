//! The file of a SavedModel, and which of its graphs is served.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use backend::BackendError;
use prost::Message;

use super::{
    error::SavedModelError,
    proto::{MetaGraph, SavedModel},
};

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
    if folder.join(TEXT).is_file() && !folder.join(FILE).is_file() {
        return Err(text_is_not_read(&folder));
    }
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
    Err(BackendError::Load(format!("{}: there is no {FILE} in it", folder.display())))
}

/// A SavedModel of which there is only the text, and the line that writes it in binary with all that is in it.
fn text_is_not_read(folder: &Path) -> BackendError {
    let (text, file) = (folder.join(TEXT), folder.join(FILE));
    let (text, file) = (text.display(), file.display());
    BackendError::Load(format!(
        "{text} is the text of a SavedModel, and only the binary {FILE} is read; write it so: python -c \"from \
         google.protobuf import text_format; from tensorflow.core.protobuf.saved_model_pb2 import SavedModel; \
         open('{file}', 'wb').write(text_format.Parse(open('{text}').read(), SavedModel()).SerializeToString())\""
    ))
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
    let bytes = backend::read_file(&path).map_err(told)?;
    let model = SavedModel::decode(bytes.as_slice())
        .map_err(|error| refused(format!("is no SavedModel, or is cut off: {error}")))?;
    match model.meta_graphs.is_empty() {
        true => Err(refused("has no graph in it".to_owned())),
        false => Ok(model),
    }
}

/// Which of the graphs is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GraphChoice {
    /// The only one, else the one for serving.
    Usual,
    /// The one with this tag and no other, else the first that has it.
    Tag(String),
    /// The one with these tags and no others.
    Tags(BTreeSet<String>),
}

/// The graph that is asked for, with its tags.
///
/// # Errors
/// There is none; the text has the tags of those that there are.
pub(crate) fn graph_of<'a>(
    model: &'a SavedModel,
    wanted: &GraphChoice,
) -> Result<(&'a MetaGraph, Vec<String>), SavedModelError> {
    let graphs: Vec<(&MetaGraph, Vec<String>)> = model
        .meta_graphs
        .iter()
        .map(|it| (it, it.information.as_ref().map(|it| it.tags.clone()).unwrap_or_default()))
        .collect();
    let only = |tag: &str| graphs.iter().find(|(_, tags)| matches!(&**tags, [it] if it == tag));
    let any = |tag: &str| graphs.iter().find(|(_, tags)| tags.iter().any(|it| it == tag));
    let exactly = |wanted: &BTreeSet<String>| {
        let has_all = |tags: &[String]| tags.iter().collect::<BTreeSet<_>>().into_iter().eq(wanted);
        graphs.iter().find(|(_, tags)| has_all(tags))
    };
    let found = match wanted {
        GraphChoice::Tag(tag) => only(tag).or_else(|| any(tag)),
        GraphChoice::Tags(tags) => exactly(tags),
        GraphChoice::Usual if graphs.len() == 1 => graphs.first(),
        GraphChoice::Usual => only(SERVE),
    };
    found.cloned().ok_or_else(|| {
        let sets: Vec<String> =
            graphs.iter().map(|(_, it)| format!("[{}]", it.join(", "))).collect();
        let sets = sets.join(", ");
        match wanted {
            GraphChoice::Tags(tags) => {
                let tags = tags.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                SavedModelError::new(format_args!(
                    "there is no graph with the tags [{tags}] and no others (--tensorflow-tags); its graphs have the \
                     tags {sets}: name all of one there, or one of them in the parameter TF_GRAPH_TAG"
                ))
            }
            GraphChoice::Tag(_) | GraphChoice::Usual => {
                let tag = if let GraphChoice::Tag(tag) = wanted { tag } else { SERVE };
                SavedModelError::new(format_args!(
                    "there is no graph with the tag '{tag}'; its graphs have the tags {sets}: name one in TF_GRAPH_TAG"
                ))
            }
        }
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
    fn chosen(tags: &[&[&str]], wanted: &GraphChoice) -> Vec<String> {
        graph_of(&model(tags), wanted).unwrap().1
    }

    fn tag(tag: &str) -> GraphChoice {
        GraphChoice::Tag(tag.to_owned())
    }

    #[test]
    fn the_only_graph_is_served_whatever_its_tags() {
        assert_eq!(chosen(&[&["train"]], &GraphChoice::Usual), ["train"]);
        assert_eq!(chosen(&[&[]], &GraphChoice::Usual), Vec::<String>::new());
    }

    #[test]
    fn of_several_graphs_the_one_for_serving_is_served() {
        let graphs: &[&[&str]] = &[&["train"], &["serve"], &["serve", "tpu"]];
        assert_eq!(chosen(graphs, &GraphChoice::Usual), ["serve"]);
    }

    #[test]
    fn a_tag_that_is_asked_for_decides() {
        assert_eq!(chosen(&[&["serve"], &["serve", "tpu"]], &tag("tpu")), ["serve", "tpu"]);
        let problem = graph_of(&model(&[&["serve"], &["serve", "gpu"]]), &tag("tpu"))
            .unwrap_err()
            .to_string();
        assert!(
            problem.contains("'tpu'") && problem.contains("[serve], [serve, gpu]"),
            "{problem}"
        );
    }

    #[test]
    fn tags_that_are_asked_for_are_all_that_the_graph_has() {
        let tags = |it: &[&str]| GraphChoice::Tags(it.iter().map(|it| (*it).to_owned()).collect());
        let graphs: &[&[&str]] = &[&["serve", "gpu"], &["serve"], &["tpu", "serve"]];
        assert_eq!(chosen(graphs, &tags(&["serve"])), ["serve"]);
        assert_eq!(chosen(graphs, &tags(&["serve", "tpu"])), ["tpu", "serve"]);
        for wrong in [&["tpu"][..], &["serve", "gpu", "tpu"]] {
            let problem = graph_of(&model(graphs), &tags(wrong)).unwrap_err().to_string();
            let parts = ["--tensorflow-tags", "[serve, gpu], [serve], [tpu, serve]"];
            assert!(parts.iter().all(|it| problem.contains(it)), "{problem}");
        }
        // The only graph is not served, either, where others are asked for.
        assert!(graph_of(&model(&[&["train"]]), &tags(&["serve"])).is_err());
    }
}
