//! The ensemble of a model that takes files: the step that decodes them, the graph, and the step behind it.

use backend::DataType;
use inference::task::{BOX, CLASS, LABEL, RESULT, SCORE};

use super::{
    explained::{ExplainedEnsemble, ExplainedMember, ExplainedPort, ExplainedValue, port, same},
    source::{CONFIG, LABELS},
};
use crate::folder::Folder;

/// A step and its parameters.
pub(crate) type ExplainedStep = (&'static str, Vec<(&'static str, ExplainedValue)>);

/// What stands around the graph of a model that takes files.
pub(crate) struct AroundGraph {
    /// The input with the files.
    pub(crate) input: &'static str,
    /// The step that decodes them.
    pub(crate) decoder: ExplainedStep,
    /// Outputs of that step that have another type than it has by itself.
    pub(crate) types: Vec<(String, DataType)>,
    /// Inputs of the graph, and the outputs of that step that fill them.
    pub(crate) fed: Vec<(String, &'static str)>,
    /// Outputs of that step that the head reads.
    pub(crate) beside: Vec<&'static str>,
    /// Outputs of the graph, and what the head calls them.
    pub(crate) read: Vec<(String, &'static str)>,
    /// The step behind the graph.
    pub(crate) head: ExplainedStep,
    /// What clients get, under the names that the head gives it.
    pub(crate) outputs: Vec<ExplainedPort>,
    /// Files of the folder that the steps read.
    pub(crate) files: Vec<String>,
    /// What the ensemble lacks beside parameters of a request.
    pub(crate) lacks: Vec<&'static str>,
}

/// Labels and scores.
pub(crate) fn classes() -> Vec<ExplainedPort> {
    vec![
        port(LABEL, DataType::Bytes, None),
        port(SCORE, DataType::Fp32, None),
        port(RESULT, DataType::Bytes, Some(1)),
    ]
}

/// Boxes, and what is in them.
pub(crate) fn boxes() -> Vec<ExplainedPort> {
    let corners = port(BOX, DataType::Fp32, None);
    let mut ports = vec![ExplainedPort { dims: vec![None, Some(4)], ..corners }];
    ports.push(port(CLASS, DataType::Int64, None));
    ports.extend(classes());
    ports
}

/// The file with the names of the classes: one that is made where they were given over those of the folder.
pub(crate) fn labels_of(folder: &Folder) -> &'static str {
    if folder.overrides.labels.is_some() { LABELS } else { CONFIG }
}

impl AroundGraph {
    /// The ensemble. `labels` are those of a file that is made.
    pub(crate) fn ensemble(self, folder: &Folder) -> ExplainedEnsemble {
        let fed = self.fed.iter().map(|(_, tensor)| *tensor);
        let decoded: Vec<(String, String)> =
            fed.chain(self.beside.iter().copied()).map(same).collect();
        let beside = self.beside.iter().map(|it| same(it));
        let read = self.read.iter().map(|(_, own)| same(own));
        let decoder = ExplainedMember {
            suffix: "files",
            step: Some(self.decoder),
            types: self.types,
            inputs: vec![same(self.input)],
            outputs: decoded,
        };
        let graph = ExplainedMember {
            suffix: "graph",
            step: None,
            types: Vec::new(),
            inputs: self.fed.iter().map(|(own, it)| (own.clone(), (*it).to_owned())).collect(),
            outputs: self.read.iter().map(|(own, it)| (own.clone(), (*it).to_owned())).collect(),
        };
        let head = ExplainedMember {
            suffix: "head",
            step: Some(self.head),
            types: Vec::new(),
            inputs: read.chain(beside).collect(),
            outputs: self.outputs.iter().map(|it| same(it.name)).collect(),
        };
        let mut files = self.files;
        files.retain(|it| folder.dir.path().join(it).exists());
        files.sort();
        files.dedup();
        let lines = |labels: &Vec<String>| labels.iter().map(|it| format!("{it}\n")).collect();
        let made = folder.overrides.labels.as_ref();
        let parameters = "parameters of a request: what a step does is in its configuration";
        ExplainedEnsemble {
            inputs: vec![port(self.input, DataType::Bytes, Some(1))],
            outputs: self.outputs,
            members: vec![decoder, graph, head],
            is_unbatched: false,
            files,
            made: made.map(|it| (LABELS.to_owned(), lines(it))).into_iter().collect(),
            lacks: [parameters].iter().chain(&self.lacks).map(|it| (*it).to_owned()).collect(),
        }
    }
}
